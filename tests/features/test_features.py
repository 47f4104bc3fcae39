"""Features of the graph of nearest neighbours: each part against another way to compute it, and whole fits."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_circles, make_moons
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

import dmmc
from dmmc import ClusteringWarning, CuttingPlaneMMC, InputError
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.features import build, graph, graph_merge, maps
from dmmc.features.axes import principal_axes
from dmmc.features.graph import Index, Neighbours
from dmmc.features.maps import Manifold
from dmmc.features.projection import Projection
from dmmc.model.geometry import measure

Array = NDArray[Any]

DIGITS, DIGIT = load_digits(return_X_y=True)
WITHOUT_UMAP = ("lsa", "smooth", "spectral")


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As the estimators do: with more, the threads of small products wait for each other."""
    with threadpool_limits(1, user_api="blas"):
        yield


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def graph_of(points: Array, k: int = 10) -> Any:
    others = graph.drop_self(Index(points, 1).nearest(points, min(k, len(points) - 1) + 1))
    return graph.adjacency(others, graph.scale_of(others.distance))


def far_apart(pieces: int, rows: int, columns: int = 5) -> Array:
    """Blobs so far from each other that no row has a neighbour in another."""
    centres = 1000.0 * np.eye(pieces, max(columns, pieces), dtype=np.float32)
    return np.repeat(centres, rows, axis=0) + normal(pieces * rows, max(columns, pieces))


def accuracy(labels: Array, truth: Array) -> float:
    return float(dmmc.score(labels, truth)["accuracy"])


# --------------------------------------------------------------------------------------------------- neighbours


@pytest.mark.parametrize(("n", "p"), [(300, 3), (3000, 20), (2500, 64)])
def test_neighbours_are_those_of_scikit_learn(n: int, p: int) -> None:
    points, queries = normal(n, p), normal(200, p, seed=1)
    found = Index(points, 2).nearest(queries, 11)
    exact = NearestNeighbors(n_neighbors=11, algorithm="kd_tree").fit(points.astype(np.float64))
    distance, who = exact.kneighbors(queries.astype(np.float64))
    np.testing.assert_array_equal(found.who, who)
    np.testing.assert_allclose(found.distance, distance, rtol=1e-12)


def far_pair(n: int = 3000, p: int = 64) -> Array:
    """Two clusters so far apart that squares of float32 hide how near rows of one of them are."""
    points = normal(n, p) * 1e-4
    points[: n // 2, 0] += 4.0
    return points


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(normal(2500, 64), id="random"),
        pytest.param(np.repeat(normal(60, 64), 50, axis=0), id="duplicates"),
        pytest.param(far_pair(), id="far apart"),
        pytest.param(np.repeat(normal(40, 3), 2, axis=0), id="twins"),
    ],
)
def test_a_row_has_the_same_neighbours_alone_in_a_batch_and_with_two_threads(points: Array) -> None:
    one, two = Index(points, 1), Index(points, 2)
    whole = one.nearest(points, 11)
    again = two.nearest(points, 11)
    np.testing.assert_array_equal(again.who, whole.who)
    assert again.distance.tobytes() == whole.distance.tobytes()
    for i in range(0, len(points), 97):
        alone, few = one.nearest(points[i : i + 1], 11), one.nearest(points[i : i + 31], 11)
        assert alone.who.tobytes() == few.who[:1].tobytes() == whole.who[i].tobytes()
        assert alone.distance.tobytes() == few.distance[:1].tobytes() == whole.distance[i].tobytes()


def test_distances_are_exact_where_float32_squares_cancel() -> None:
    points = far_pair()
    found = Index(points, 1).nearest(points[::50], 11)
    exact = NearestNeighbors(n_neighbors=11, algorithm="kd_tree").fit(points.astype(np.float64))
    np.testing.assert_allclose(found.distance, exact.kneighbors(points[::50].astype(np.float64))[0], rtol=1e-12)


def test_ties_go_to_the_lowest_numbers_however_many_they_are() -> None:
    points = np.repeat(normal(3, 64), 1000, axis=0)
    found = Index(points, 1).nearest(points, 11)
    np.testing.assert_array_equal(found.who, np.repeat(np.arange(11)[None] + [[0], [1000], [2000]], 1000, axis=0))
    assert not found.distance.any()


def test_all_points_are_neighbours_where_there_are_no_more() -> None:
    points = normal(5, 2)
    found = Index(points, 1).nearest(points, 5)
    assert np.sort(found.who, axis=1).tolist() == [[0, 1, 2, 3, 4]] * 5
    assert np.all(np.diff(found.distance, axis=1) >= 0)
    np.testing.assert_array_equal(found.who[:, 0], np.arange(5))


def test_a_row_is_not_its_own_neighbour() -> None:
    points = np.repeat(normal(50, 4), 20, axis=0)
    others = graph.drop_self(Index(points, 1).nearest(points, 6))
    assert others.who.shape == others.distance.shape == (1000, 5)
    assert not (others.who == np.arange(1000)[:, None]).any()


def test_an_approximate_index_finds_most_neighbours_always_the_same_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    points, queries = normal(3000, 8), normal(100, 8, seed=1)
    exact = Index(points, 1)
    assert exact.recall(11) == 1.0
    truth = exact.nearest(queries, 11)
    monkeypatch.setattr(graph, "EXACT", 1000)
    one, two = Index(points, 1), Index(points, 2)
    assert 0.8 <= one.recall(11) <= 1.0
    assert one.recall(11) == two.recall(11)
    found, again = one.nearest(queries, 11), two.nearest(queries, 11)
    assert found.who.tobytes() == again.who.tobytes()
    assert found.distance.tobytes() == again.distance.tobytes()
    shares = [len(np.intersect1d(a, b)) / 11 for a, b in zip(found.who, truth.who, strict=True)]
    assert 0.8 <= np.mean(shares) <= 1.0


def test_the_recall_of_an_approximate_index_is_among_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph, "EXACT", 1000)
    model = CuttingPlaneMMC(10, features="spectral", init="graph", random_state=0).fit(DIGITS)
    assert 0.8 <= model.choices_["recall"] <= 1.0
    np.testing.assert_array_equal(model.predict(DIGITS), model.labels_)
    assert accuracy(model.labels_, DIGIT) > 0.7


# -------------------------------------------------------------------------------------------------------- graph


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(normal(400, 5), id="random"),
        pytest.param(np.repeat(normal(20, 5), 20, axis=0), id="duplicates"),
        pytest.param(np.vstack([normal(300, 5), np.full((1, 5), 1e4, np.float32)]), id="outlier"),
        pytest.param(normal(4, 2), id="few"),
    ],
)
def test_the_graph_is_symmetric_without_loops_and_every_row_has_an_edge(points: Array) -> None:
    A = graph_of(points)
    assert A.shape == (len(points), len(points))
    assert abs(A - A.T).max() == 0
    assert not A.diagonal().any()
    assert A.data.min() > 0
    assert A.data.max() <= 1
    assert np.all(np.diff(A.indptr) >= min(10, len(points) - 1))


def test_weights_are_gaussian_in_the_scales_of_both_ends() -> None:
    points = normal(60, 4)
    A = graph_of(points, 10).toarray()
    D = np.linalg.norm(points[:, None].astype(np.float64) - points, axis=2)
    order = np.argsort(D, axis=1)
    scale = D[np.arange(60), order[:, 7]]  # the first is the row itself
    wanted = np.zeros((60, 60))
    for i in range(60):
        for j in order[i, 1:11]:
            wanted[i, j] = wanted[j, i] = np.exp(-(D[i, j] ** 2) / (scale[i] * scale[j]))
    np.testing.assert_allclose(A, wanted, rtol=1e-10)


def normalised(A: Any) -> Array:
    dense = A.toarray()
    root = np.sqrt(dense.sum(axis=1))
    return dense / np.outer(root, root)


@pytest.mark.parametrize("n", [200, 900], ids=["dense", "Lanczos"])
def test_the_spectrum_spans_what_a_full_decomposition_does(n: int) -> None:
    points = make_blobs(n, 4, centers=6, cluster_std=2.0, random_state=0)[0].astype(np.float32)
    A = graph_of(points)
    U = graph.spectrum(A, 8)
    values, V = np.linalg.eigh(normalised(A))
    assert values[-8] - values[-9] > 1e-3, "the subspace is well defined"
    cosines = np.linalg.svd(U.T @ V[:, -8:])[1]
    assert cosines.min() > 0.999
    np.testing.assert_allclose(U.T @ U, np.eye(8), atol=1e-6)
    rayleigh = np.einsum("ij,ij->j", U, normalised(A) @ U)
    np.testing.assert_allclose(rayleigh, values[::-1][:8], atol=2e-3)


@pytest.mark.parametrize("n", [200, 900])
def test_the_largest_entry_of_an_eigenvector_is_positive(n: int) -> None:
    U = graph.spectrum(graph_of(normal(n, 4)), 12)
    assert np.all(U[np.abs(U).argmax(axis=0), np.arange(12)] > 0)


@pytest.mark.parametrize(("pieces", "rows"), [(12, 20), (12, 100)], ids=["dense", "Lanczos"])
def test_every_piece_of_a_disconnected_graph_is_in_its_spectrum(pieces: int, rows: int) -> None:
    A = graph_of(far_apart(pieces, rows))
    assert graph.pieces(A) == pieces
    U = graph.spectrum(A, 16)
    piece = np.repeat(np.arange(pieces), rows)
    degree = np.asarray(A.sum(axis=1)).ravel()
    indicators = np.sqrt(degree)[:, None] * (piece[:, None] == np.arange(pieces))
    indicators /= np.linalg.norm(indicators, axis=0)
    np.testing.assert_allclose(np.linalg.norm(U.T @ indicators, axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(U.T @ U, np.eye(16), atol=1e-6)


def test_small_islands_take_no_eigenvectors_from_the_mainland() -> None:
    islands = far_apart(20, 11, 20) + np.float32(3e4)
    A = graph_of(np.vstack([np.pad(make_moons(4000, noise=0.05, random_state=0)[0], ((0, 0), (0, 18))), islands]))
    assert graph.pieces(A) == 22
    U = graph.spectrum(A, 8)
    assert not U[4000:].any()
    assert np.all(np.linalg.norm(U[:4000], axis=1) > 0)


def test_more_pieces_than_eigenvectors_leave_rows_of_zeros() -> None:
    A = graph_of(far_apart(12, 20))
    U = graph.spectrum(A, 5)
    assert np.isfinite(U).all()
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-9)
    assert np.count_nonzero(np.linalg.norm(U, axis=1)) == 100


@pytest.mark.parametrize("times", [0, 1, 30])
def test_smoothing_is_a_power_of_half_the_walk_and_half_a_rest(times: int) -> None:
    points = normal(80, 4)
    A = graph_of(points)
    P = A.toarray() / A.toarray().sum(axis=1, keepdims=True)
    wanted = np.linalg.matrix_power((np.eye(80) + P) / 2, times) @ points.astype(np.float64)
    np.testing.assert_allclose(graph.smooth(A, points, times), wanted, rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------------------------------------------------- axes


def axes_of(source: Any, wanted: int, *, centred: bool) -> tuple[Array, Any]:
    dataset = open_dataset(source)
    with Local(dataset, 2) as engine:
        geometry, _ = measure(dataset, engine.rows, "none")
        return principal_axes(engine.run, geometry, wanted, [0, 5], centred=centred), geometry


def test_principal_axes_are_those_of_scikit_learn() -> None:
    rows = normal(500, 30) * np.geomspace(10, 0.1, 30) + 7.0
    V, _ = axes_of(rows, 6, centred=True)
    reference = PCA(6, svd_solver="full").fit(rows).components_
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->i", V, reference)), 1.0, atol=1e-4)
    assert np.all(V[np.arange(6), np.abs(V).argmax(axis=1)] > 0)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_latent_semantic_axes_are_those_of_scikit_learn(make: Callable[[Array], Any]) -> None:
    rows = np.random.default_rng(0).random((500, 40)) * np.geomspace(10, 0.1, 40)
    rows[rows < np.quantile(rows, 0.6)] = 0
    V, _ = axes_of(make(rows), 5, centred=False)
    reference = TruncatedSVD(5, algorithm="arpack", random_state=0).fit(sparse.csr_array(rows)).components_
    np.testing.assert_allclose(np.abs(np.einsum("ij,ij->i", V, reference)), 1.0, atol=1e-3)


def test_as_many_axes_as_columns_are_an_orthonormal_basis() -> None:
    V, _ = axes_of(normal(50, 6), 6, centred=True)
    np.testing.assert_allclose(V @ V.T, np.eye(6), atol=1e-9)


# ------------------------------------------------------------------------------------------------------ joining


def by_average(between: float, di: float, dj: float, total: float) -> float:
    return between / (di * dj)


def by_small_first(between: float, di: float, dj: float, total: float) -> float:
    return between / (di * dj) * (1 / di + 1 / dj) ** 0.5


def by_even(between: float, di: float, dj: float, total: float) -> float:
    return (between / total - di * dj / total**2) / (di * dj) ** 0.5


RULES = {graph_merge.average: by_average, graph_merge.small_first: by_small_first, graph_merge.even: by_even}


def brute_force(A: Array, groups: Array, k: int, rule: Callable[..., float]) -> tuple[Array, list[float]]:
    """Labels with k clusters left, and how strong each link was, everything computed anew from the rows each time."""
    labels, heights, kept = groups.copy(), [], groups.copy()
    total = A.sum()
    while len(np.unique(labels)) > 1:
        best = (-np.inf, 0, 0)
        names = np.unique(labels)
        for a, i in enumerate(names):
            for j in names[a + 1 :]:
                between = A[np.ix_(labels == i, labels == j)].sum()
                best = max(best, (rule(between, A[labels == i].sum(), A[labels == j].sum(), total), i, j))
        heights.append(best[0])
        labels[labels == best[2]] = best[1]
        if len(np.unique(labels)) == k:
            kept = labels.copy()
    return kept, heights


def some_groups(seed: int) -> tuple[Any, Array]:
    points = make_blobs(150, 3, centers=5, cluster_std=1.5, random_state=seed)[0].astype(np.float32)
    return graph_of(points), np.random.default_rng(seed).integers(8, size=150) * 3  # numbers with gaps


@pytest.mark.parametrize("linkage", graph_merge.LINKAGES, ids=lambda linkage: linkage.__name__)
@pytest.mark.parametrize("k", [1, 2, 3, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_groups_are_joined_as_by_brute_force(
    linkage: graph_merge.Linkage, k: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_merge, "LINKAGES", (linkage,))
    A, groups = some_groups(seed)
    labels, tree = graph_merge.merge(A, groups, k)
    wanted, heights = brute_force(A.toarray(), groups, k, RULES[linkage])
    assert sorted(np.unique(labels)) == list(range(k))
    assert len({*zip(labels, wanted, strict=True)}) == k, "the same partition"
    assert tree.shape == (7, 3)
    np.testing.assert_allclose(tree[:, 2], heights, rtol=1e-9, atol=1e-15)


def normalised_cut(A: Array, labels: Array) -> float:
    """From the rows, not from groups."""
    return sum(A[labels == p][:, labels != p].sum() / A[labels == p].sum() for p in np.unique(labels))


@pytest.mark.parametrize("seed", range(6))
def test_of_the_clusterings_with_low_cuts_the_most_even_one_is_taken(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    A, groups = some_groups(seed)
    chosen, _ = graph_merge.merge(A, groups, 3)
    each = []
    for linkage in graph_merge.LINKAGES:
        with monkeypatch.context() as only:
            only.setattr(graph_merge, "LINKAGES", (linkage,))
            each.append(graph_merge.merge(A, groups, 3)[0])
    cuts = np.array([normalised_cut(A.toarray(), labels) for labels in each])
    degree = np.asarray(A.sum(axis=1)).ravel()
    shares = [np.bincount(labels, degree) / degree.sum() for labels in each]
    evenness = np.array([-(share * np.log(share)).sum() for share in shares])
    near = cuts <= graph_merge.NEAR * cuts.min() + 1e-12
    best = max(np.flatnonzero(near), key=lambda i: (round(evenness[i], 12), -i))
    np.testing.assert_array_equal(chosen, each[best])


def test_fewer_groups_than_clusters_stay_as_they_are() -> None:
    A = graph_of(normal(40, 3))
    groups = np.repeat([5, 2, 9, 2], 10)
    labels, tree = graph_merge.merge(A, groups, 7)
    np.testing.assert_array_equal(labels, np.repeat([1, 0, 2, 0], 10))
    assert tree.shape == (2, 3)
    labels, tree = graph_merge.merge(A, np.zeros(40, int), 2)
    assert not labels.any()
    assert tree.shape == (0, 3)


def test_a_tree_names_two_groups_that_are_still_there_at_each_step() -> None:
    _, tree = graph_merge.merge(graph_of(normal(300, 3)), np.random.default_rng(0).integers(32, size=300), 4)
    assert tree.shape == (31, 3)
    alive = set(range(32))
    for i, j, _ in tree:
        assert {i, j} <= alive
        assert i < j
        alive.remove(j)


def test_groups_without_any_edge_between_them_are_joined_last() -> None:
    A = graph_of(far_apart(3, 40))
    groups = np.repeat(np.arange(12), 10)
    labels, tree = graph_merge.merge(A, groups, 3)
    np.testing.assert_array_equal(labels, np.repeat([0, 1, 2], 40))
    assert np.all(tree[9:, 2] <= 0)
    assert tree[:9, 2].min() > tree[9:, 2].max()


# --------------------------------------------------------------------------------------------------------- maps


def fitted_manifold(X: Any, features: str = "spectral", k: int = 3) -> tuple[Manifold, Array]:
    """A map, and the features of the rows it was made from as the fit saw them."""
    dataset = open_dataset(X)
    with Local(dataset, 2) as engine:
        geometry, _ = measure(dataset, engine.rows, "none")
        ask = build.Ask(features, k, 10, 0, 2, False)
        built = build.build(ask, dataset, engine.run, engine.rows, geometry, lambda _, make, **sizes: make())
    assert isinstance(built.row_map, Manifold)
    assert built.rows is not None
    return built.row_map, built.rows


@pytest.mark.parametrize("features", ["smooth", "spectral"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_fitted_row_maps_to_its_own_features_bit_for_bit(features: str, make: Callable[[Array], Any]) -> None:
    X = make(DIGITS)
    row_map, rows = fitted_manifold(X, features)
    assert rows.dtype == np.float32
    assert maps.map_few_rows(row_map, X).tobytes() == rows.tobytes()
    for part in (slice(0, 1), slice(17, 18), slice(300, 340)):
        assert maps.map_few_rows(row_map, X[part]).tobytes() == rows[part].tobytes()
    if features == "spectral":
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, atol=1e-6)


def test_identical_rows_get_identical_features() -> None:
    X = np.repeat(normal(60, 64), 50, axis=0)[np.random.default_rng(0).permutation(3000)]
    row_map, rows = fitted_manifold(X)
    _, which = np.unique(X, axis=0, return_inverse=True)
    for one in range(60):
        assert len({row.tobytes() for row in rows[which == one]}) == 1
    assert maps.map_few_rows(row_map, X[:100]).tobytes() == rows[:100].tobytes()


def test_features_of_a_new_row_are_the_weighted_mean_of_its_neighbours() -> None:
    row_map, _ = fitted_manifold(DIGITS[:1500], "smooth")
    new = DIGITS[1500:1520]
    Z = new @ row_map.projection.W.T + row_map.projection.b
    D = np.linalg.norm(Z[:, None] - row_map.points, axis=2)
    wanted = []
    for d in D:
        near = np.argsort(d)[:11]
        w = np.exp(-(d[near] ** 2) / (row_map.scale[near[0]] * row_map.scale[near]))
        wanted.append(w @ row_map.values[near] / w.sum())
    np.testing.assert_allclose(maps.map_few_rows(row_map, new), wanted, rtol=1e-3, atol=1e-5)


def test_a_manifold_is_pickled_without_its_index() -> None:
    row_map, rows = fitted_manifold(DIGITS[:300])
    maps.map_few_rows(row_map, DIGITS[:10])  # the index is there now
    again = pickle.loads(pickle.dumps(row_map))
    assert maps.map_few_rows(again, DIGITS[:300]).tobytes() == rows.tobytes()


@pytest.mark.parametrize("kind", ["projection", "manifold"])
def test_a_map_is_the_same_from_its_arrays(kind: str) -> None:
    row_map: Any = fitted_manifold(DIGITS[:300])[0]
    row_map = row_map.projection if kind == "projection" else row_map
    content, arrays = row_map.to_arrays()
    again = maps.from_arrays(json.loads(json.dumps(content)), arrays)
    assert again is not None
    assert type(again) is type(row_map)
    assert maps.map_few_rows(again, DIGITS[:20]).tobytes() == maps.map_few_rows(row_map, DIGITS[:20]).tobytes()
    assert (again.n_features, again.n_values) == (row_map.n_features, row_map.n_values)


def test_no_map_is_no_map_from_arrays() -> None:
    assert maps.from_arrays(None, {}) is None


def test_a_projection_to_unit_rows_leaves_a_row_of_zeros() -> None:
    row_map = Projection(np.eye(3), np.zeros(3), unit=True)
    X = sparse.csr_array(np.array([[3.0, 0, 4], [0, 0, 0]]))
    np.testing.assert_allclose(maps.map_few_rows(row_map, X), [[0.6, 0, 0.8], [0, 0, 0]], atol=1e-7)


def test_a_row_that_is_found_twice_is_once_taken_out_of_its_own_list() -> None:
    who = np.array([[0, 0, 1], [1, 0, 2], [0, 1, 1]])
    others = graph.drop_self(Neighbours(who, np.arange(9.0).reshape(3, 3)))
    assert others.who.tolist() == [[0, 1], [0, 2], [0, 1]]
    assert others.distance.tolist() == [[1.0, 2.0], [4.0, 5.0], [6.0, 7.0]]


def test_a_row_too_far_out_for_the_index_has_neighbours_at_no_finite_distance() -> None:
    found = graph.Index(np.float32([[0.0], [1.0], [2.0]]), 1).nearest(np.float32([[1e30], [1.2]]), 2)
    assert ((found.who >= 0) & (found.who < 3)).all()
    assert found.who[1].tolist() == [1, 2]
    assert (found.distance[0] > 1e29).all()


def test_too_few_neighbours_of_an_approximate_index_are_filled_up() -> None:
    candidates = np.array([[2, -1, -1, 0, -1]])
    who, squared = np.empty((1, 4), np.int64), np.empty((1, 4))
    graph.rank_candidates(np.float32([[0.0], [1.0], [3.0]]), np.float32([[1.0]]), candidates, who, squared)
    assert who.tolist() == [[0, 2, 2, 2]]
    assert squared.tolist() == [[1.0, 4.0, 4.0, 4.0]]
    found = Neighbours(who, np.sqrt(squared))
    assert np.isfinite(found.distance).all()


# --------------------------------------------------------------------------------------------------- estimators

PARTS = [(features, init) for features in WITHOUT_UMAP for init in ("k-means", "graph")] + [("raw", "graph")]


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(("features", "init"), PARTS)
def test_labels_are_what_predict_gives_on_the_training_rows(
    features: str, init: str, k: int, make: Callable[[Array], Any], tmp_path: Path
) -> None:
    chosen = np.isin(DIGIT, range(k))
    X = make(DIGITS[chosen])
    run = dmmc.fit(X, k, features=features, init=init, random_state=0)
    model = run.model
    np.testing.assert_array_equal(model.predict(X), run.labels)
    parts = [model.predict(X[i : i + 50]) for i in range(0, X.shape[0], 50)]
    np.testing.assert_array_equal(np.concatenate(parts), run.labels)
    assert np.all(np.diff(np.bincount(run.labels, minlength=k)) <= 0)
    assert model.n_features_in_ == 64
    assert (model.map_ is None) == (features == "raw")
    assert (model.merge_tree_ is not None) == (init == "graph")
    if init == "graph" and k == 2:
        assert accuracy(run.labels, DIGIT[chosen]) > 0.99
    loaded = dmmc.load(run.save(tmp_path / "out"))
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    np.testing.assert_array_equal(loaded.predict(X), run.labels)
    if init == "graph":
        assert loaded.merge_tree_.tobytes() == model.merge_tree_.tobytes()
        assert len(model.merge_tree_) in (31, 35)  # of 32 or 36 groups


def test_latent_semantic_features_are_the_same_of_dense_and_of_sparse_rows() -> None:
    dense, thin = (
        CuttingPlaneMMC(10, features="lsa", random_state=0).fit(X) for X in (DIGITS, sparse.csr_array(DIGITS))
    )
    features = [maps.map_few_rows(model.map_, DIGITS) for model in (dense, thin)]
    np.testing.assert_allclose(np.linalg.norm(features[0], axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(features[0] @ features[0].T, features[1] @ features[1].T, atol=1e-3)
    assert accuracy(dense.labels_, thin.labels_) > 0.95


@pytest.mark.parametrize(("features", "init"), [("spectral", "graph"), ("lsa", "k-means"), ("raw", "graph")])
def test_one_and_two_threads_give_the_same_bits(features: str, init: str) -> None:
    models = [CuttingPlaneMMC(10, features=features, init=init, random_state=0, n_jobs=n).fit(DIGITS) for n in (1, 2)]
    assert models[0].coef_.tobytes() == models[1].coef_.tobytes()
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    if features == "spectral":
        assert models[0].map_.values.tobytes() == models[1].map_.values.tobytes()


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("features", WITHOUT_UMAP)
def test_a_dask_array_is_labelled_lazily(features: str) -> None:
    da = pytest.importorskip("dask.array")
    model = CuttingPlaneMMC(3, features=features, random_state=0).fit(DIGITS[:900])
    lazy = model.predict(da.from_array(DIGITS, chunks=(250, 30)))
    assert type(lazy).__module__.startswith("dask.")
    np.testing.assert_array_equal(lazy.compute(scheduler="threads"), model.predict(DIGITS))
    scores = model.decision_function(da.from_array(DIGITS, chunks=(250, 64)))
    assert scores.compute(scheduler="synchronous").tobytes() == model.decision_function(DIGITS).tobytes()


@pytest.mark.parametrize("noise", [0.0, 0.06])
@pytest.mark.parametrize("make", [make_moons, make_circles])
@pytest.mark.parametrize("seed", [0, 1])
def test_moons_and_rings_are_told_apart(make: Callable[..., Any], noise: float, seed: int) -> None:
    options = {"factor": 0.5} if make is make_circles else {}
    X, y = make(1500, noise=noise, random_state=seed, **options)
    model = CuttingPlaneMMC(2, features="spectral", init="graph", random_state=seed).fit(X)
    assert accuracy(model.labels_, y) > 0.98
    new, its_y = make(300, noise=noise, random_state=99, **options)
    assert accuracy(model.predict(new), its_y) > 0.97


def test_digits_are_found_better_than_by_k_means() -> None:
    plain = CuttingPlaneMMC(10, random_state=0).fit(DIGITS)
    model = CuttingPlaneMMC(10, features="spectral", init="graph", random_state=0).fit(DIGITS)
    assert accuracy(model.labels_, DIGIT) >= max(0.86, accuracy(plain.labels_, DIGIT))


def test_weights_of_rows_count_in_the_search() -> None:
    weight = np.random.default_rng(0).random(len(DIGITS)) + 0.5
    ones, given = (
        CuttingPlaneMMC(10, features="spectral", init="graph", random_state=0).fit(DIGITS, sample_weight=w)
        for w in (np.ones(len(DIGITS)), weight)
    )
    assert ones.coef_.tobytes() != given.coef_.tobytes()
    for model in (ones, given):
        np.testing.assert_array_equal(model.predict(DIGITS), model.labels_)
        assert accuracy(model.labels_, DIGIT) > 0.8
    plain = CuttingPlaneMMC(10, features="spectral", init="graph", random_state=0).fit(DIGITS)
    np.testing.assert_array_equal(plain.labels_, ones.labels_)


def test_a_graph_start_is_the_same_for_a_seed() -> None:
    first, again = (
        CuttingPlaneMMC(5, features="smooth", init="graph", random_state=3).fit(DIGITS[:600]) for _ in range(2)
    )
    assert first.coef_.tobytes() == again.coef_.tobytes()
    assert first.merge_tree_.tobytes() == again.merge_tree_.tobytes()


def test_a_second_fit_forgets_the_features_of_the_first() -> None:
    model = CuttingPlaneMMC(2, features="spectral", init="graph", random_state=0).fit(DIGITS[:200])
    model.set_params(features="raw", init="k-means").fit(DIGITS[:200])
    assert model.map_ is None
    assert model.merge_tree_ is None
    assert model.coef_.shape == (1, 64)
    np.testing.assert_array_equal(model.predict(DIGITS[:200]), model.labels_)


def test_parameters_of_features_are_got_and_cloned() -> None:
    model = CuttingPlaneMMC(3, features="spectral", init="graph", n_neighbors=7)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["n_neighbors"] == 7
    assert model.set_params(features="smooth").features == "smooth"
    assert "features='smooth'" in repr(model)


CHECKS = (
    "check_estimators_dtypes",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_n_features_in",
    "check_methods_subset_invariance",
    "check_methods_sample_order_invariance",
    "check_estimators_pickle",
    "check_estimators_nan_inf",
    "check_dict_unchanged",
    "check_clustering",
    "check_readonly_memmap_input",
)


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("check", CHECKS)
def test_scikit_learn_accepts_it_with_features(check: str) -> None:
    from sklearn.utils import estimator_checks

    do = getattr(estimator_checks, check, None)
    if do is None:
        pytest.skip(f"this scikit-learn has no {check}")
    do("CuttingPlaneMMC", CuttingPlaneMMC(features="spectral", init="graph"))


@pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is not installed")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_umap_embedding_maps_new_rows_too() -> None:
    model = CuttingPlaneMMC(10, features="umap", init="graph", random_state=0).fit(DIGITS)
    np.testing.assert_array_equal(model.predict(DIGITS), model.labels_)
    assert accuracy(model.labels_, DIGIT) > 0.8


@pytest.mark.parametrize("small", [0.5, 0.2, 0.1])
def test_two_clusters_of_uneven_size_from_a_graph_start_stay_uneven(small: float) -> None:
    rng = np.random.default_rng(0)
    inner = rng.random(2000) < small
    angle, radius = 2 * np.pi * rng.random(2000), np.where(inner, 1.0, 2.5) + 0.05 * rng.standard_normal(2000)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    model = CuttingPlaneMMC(2, features="spectral", init="graph", random_state=0).fit(X)
    assert accuracy(model.labels_, inner.astype(int)) == 1.0


# ---------------------------------------------------------------------------------- the command line and reports


def test_features_and_start_are_chosen_from_the_command_line(cli: Any, digits_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    asked = ("--set", "features=spectral", "--set", "init=graph", "--set", "n_neighbors=12")
    done = cli(
        "fit", "--method", "cpmmc", digits_store, "-k", 10, "-o", out, *asked, "--scores", "--image-shape", "8x8"
    )
    assert done.code == 0, done.stderr
    told = json.loads((out / "run.json").read_text())
    assert told["parameters"]["features"] == told["choices"]["features"] == "spectral"
    assert told["parameters"]["init"] == told["choices"]["init"] == "graph"
    assert told["choices"]["pieces"] >= 1
    assert told["choices"]["recall"] == 1.0
    assert "<svg" in (out / "report.html").read_text() or "<img" in (out / "report.html").read_text()
    again = tmp_path / "again.zarr"
    assert cli("predict", out, digits_store, "-o", again).code == 0
    first, second = (dmmc.load(out).predict(str(digits_store)), _labels(again))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, _labels(out / "labels.zarr"))
    here = CuttingPlaneMMC(10, features="spectral", init="graph", n_neighbors=12, random_state=0)
    np.testing.assert_array_equal(here.fit_predict(DIGITS.astype(np.float32)), first)
    assert cli("report", out).code == 0


def _labels(path: Path) -> Array:
    import zarr

    return np.asarray(zarr.open_array(str(path), mode="r")[:])


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("features", WITHOUT_UMAP)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_report_is_written_with_features(features: str, make: Callable[[Array], Any], tmp_path: Path) -> None:
    run = dmmc.fit(make(DIGITS[:300]), 3, features=features, init="graph", random_state=0, out=tmp_path / "out")
    assert (tmp_path / "out" / "report.html").stat().st_size > 1000
    np.testing.assert_array_equal(_labels(tmp_path / "out" / "labels.zarr"), run.labels)


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"n_neighbors": 1}, "n_neighbors is 1; a whole number from 2 to 200 is wanted."),
        ({"n_neighbors": 500}, "n_neighbors is 500; a whole number from 2 to 200 is wanted."),
        ({"n_neighbors": 10.5}, "n_neighbors is 10.5; a whole number from 2 to 200 is wanted."),
        ({"n_neighbors": None}, "n_neighbors is None; a whole number from 2 to 200 is wanted."),
        (
            {"features": "foo"},
            "features is 'foo'; choose one of 'raw', 'axes', 'nystroem', 'lsa', 'smooth', 'spectral', 'umap'.",
        ),
        ({"features": None}, "features is None; choose one of"),
        (
            {"init": "graf"},
            "init is 'graf'; choose one of 'k-means', 'graph', 'pca', 'random', or give labels",
        ),
    ],
)
def test_a_bad_parameter_is_refused_in_a_sentence(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        dmmc.fit(DIGITS, 2, **params)
    assert str(caught.value).startswith(sentence)


def test_umap_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"needs umap-learn; install with: pip install umap-learn\."):
        dmmc.fit(DIGITS, 2, features="umap")


@pytest.mark.parametrize("params", [{"features": "spectral"}, {"features": "smooth"}, {"init": "graph"}])
def test_two_rows_are_no_graph(params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="2 rows; a graph of neighbours needs at least 3"):
        dmmc.fit(np.eye(2), 2, **params)


@pytest.mark.parametrize("params", [{"features": "spectral"}, {"features": "lsa"}, {"init": "graph"}])
def test_rows_that_are_all_equal_are_refused(params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="all 50 rows of array of shape \\(50, 4\\) are equal"):
        dmmc.fit(np.ones((50, 4)), 2, random_state=0, **params)


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize(("features", "init"), PARTS)
@pytest.mark.parametrize("n", [3, 5, 12])
def test_fewer_rows_than_neighbours_are_clustered(features: str, init: str, n: int) -> None:
    X = np.array([[0.0, 0.0], [0.1, 0.0], [9.0, 9.0]] * 4)[:n] + 0.01 * normal(n, 2)
    model = CuttingPlaneMMC(2, features=features, init=init, random_state=0)
    if features == "smooth" and n < 12:  # each is a neighbour of all others, so that all move to one place
        with pytest.raises(InputError, match=f"all {n} rows of smooth features of .* are equal"):
            model.fit(X)
        return
    model.fit(X)
    assert model.labels_.shape == (n,)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize(("features", "init"), PARTS)
def test_two_distinct_rows_many_times_are_two_clusters(features: str, init: str) -> None:
    X = np.repeat([[0.0, 1.0, 0.0], [3.0, 0.0, 5.0]], [60, 40], axis=0)[np.random.default_rng(0).permutation(100)]
    model = CuttingPlaneMMC(2, features=features, init=init, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, (X[:, 0] > 0).astype(int))
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_more_clusters_than_distinct_rows_are_fewer_clusters_and_a_warning() -> None:
    X = np.repeat(np.eye(3) * 5, 30, axis=0)
    with pytest.warns(ClusteringWarning, match="of 5 clusters have rows|cluster"):
        model = CuttingPlaneMMC(5, features="spectral", init="graph", random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    for label in np.unique(X, axis=0):
        assert len(np.unique(model.labels_[(label == X).all(axis=1)])) == 1


@pytest.mark.parametrize(("k", "rows"), [(3, 60), (5, 60), (12, 100)])
def test_blobs_far_apart_are_found_though_the_graph_falls_to_pieces(k: int, rows: int) -> None:
    X = far_apart(k, rows)[np.random.default_rng(0).permutation(k * rows)]
    truth = X.argmax(axis=1)
    model = CuttingPlaneMMC(k, features="spectral", init="graph", random_state=0).fit(X)
    assert model.choices_["pieces"] == k
    assert accuracy(model.labels_, truth) == 1.0


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("features", ["raw", *WITHOUT_UMAP])
def test_a_row_far_from_all_does_not_take_a_cluster(features: str) -> None:
    X, y = make_blobs(400, 5, centers=2, cluster_std=1.0, random_state=0)
    X = np.vstack([X, np.full((1, 5), 1e4)])
    model = CuttingPlaneMMC(2, features=features, init="graph", random_state=0).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    if features != "lsa":  # angles say little about blobs
        assert accuracy(model.labels_[:400], y) > 0.98


def test_a_graph_that_does_not_fit_the_memory_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmmc.machine.free_memory", lambda: 1_000_000)
    with pytest.raises(InputError, match=r"needs about \d+ MB, and 1 MB are free"):
        dmmc.fit(DIGITS, 2, features="spectral")
    monkeypatch.setattr("dmmc.machine.free_memory", lambda: None)
    dmmc.fit(DIGITS[:100], 2, features="spectral")


def test_the_memory_that_a_graph_needs_grows_with_all_that_it_holds() -> None:
    base = graph.need(10_000, 64, 10, 40)
    assert graph.need(20_000, 64, 10, 40) == 2 * base
    assert min(graph.need(10_000, 65, 10, 40), graph.need(10_000, 64, 11, 40), graph.need(10_000, 64, 10, 41)) > base
    assert 0.05e9 < graph.need(70_000, 64, 10, 40) < 2.5e9


@pytest.mark.parametrize("place", [(0, 0), (250, 63)])
def test_nan_in_new_rows_is_named(place: tuple[int, int]) -> None:
    model = CuttingPlaneMMC(2, features="spectral", random_state=0).fit(DIGITS[:300])
    new = DIGITS[:300].copy()
    new[place] = np.nan
    with pytest.raises(InputError, match=rf"row {place[0]}\b.*\b{place[1]}\b"):
        model.predict(new)


def test_new_rows_of_another_width_are_refused() -> None:
    model = CuttingPlaneMMC(2, features="spectral", random_state=0).fit(DIGITS[:300])
    with pytest.raises(InputError, match="X has 63 features, but CuttingPlaneMMC is expecting 64"):
        model.predict(DIGITS[:, 1:])


@pytest.mark.parametrize("threads", [2, 3])
def test_neighbours_have_the_same_bits_however_threads_share_the_rows(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "SLICE", 300)
    rows = np.random.default_rng(3).normal(size=(3 * graph.SLICE + 77, 6)).astype(np.float32)
    rows[500:540] = rows[460:500]  # equal rows: the lowest number comes first
    alone = graph.Index(rows, 1).nearest(rows, 5)
    shared = graph.Index(rows, threads).nearest(rows, 5)
    np.testing.assert_array_equal(shared.who, alone.who)
    np.testing.assert_array_equal(shared.distance, alone.distance)
    for i in (0, 470, 510, len(rows) - 1):
        squared = ((rows.astype(np.float64) - rows[i]) ** 2).sum(axis=1)
        np.testing.assert_array_equal(shared.who[i], np.lexsort((np.arange(len(rows)), squared))[:5])
