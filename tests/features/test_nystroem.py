"""Kernels by Nyström: the map, its landmarks and its width, and fits in its features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forgeries import write_sealed
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits, make_circles, make_moons
from sklearn.kernel_approximation import Nystroem as Reference
from sklearn.metrics.pairwise import pairwise_kernels

import dmmc
from dmmc.data import blocks
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.features import maps, nystroem
from dmmc.features.mapped_rows import mapped
from dmmc.features.nystroem import Kernel, Nystroem
from dmmc.model.geometry import measure
from dmmc.results import array_folder

Array = NDArray[Any]

KERNELS = {
    "rbf": (Kernel("rbf", 0.05, 3, 1.0), {"kernel": "rbf", "gamma": 0.05}),
    "polynomial": (
        Kernel("polynomial", 0.02, 3, 1.5),
        {"kernel": "poly", "gamma": 0.02, "degree": 3, "coef0": 1.5},
    ),
    "linear": (Kernel("linear", 1.0, 3, 1.0), {"kernel": "linear"}),
}


def rows(n: int = 300, d: int = 12, seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.5, 2.0, d) + 3.0


def plain(kernel: Kernel, points: Array) -> Nystroem:
    """A map of rows that are neither centred nor scaled."""
    d = points.shape[1]
    return Nystroem.at(kernel, points, np.zeros(d), np.ones(d))


def features(row_map: Any, X: Any) -> Array:
    return maps.map_few_rows(row_map, X)


def error(labels: Array, y: Array) -> float:
    return float(dmmc.score(labels, y)["purity_error"])


# ------------------------------------------------------------------------------------------------------ the map


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_the_map_is_that_of_scikit_learn_on_the_same_subset(name: str, kind: Any) -> None:
    kernel, params = KERNELS[name]
    X = rows()
    reference = Reference(n_components=10, random_state=0, **params).fit(X)
    found = features(plain(kernel, reference.components_), kind(X))
    assert found.dtype == np.float32
    wanted = reference.transform(X)
    np.testing.assert_allclose(found, wanted, atol=2e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", KERNELS)
def test_with_all_rows_as_landmarks_inner_products_are_the_kernel(name: str) -> None:
    kernel, params = KERNELS[name]
    X = rows(60, 8)
    A = features(plain(kernel, X), X).astype(float)
    K = pairwise_kernels(X, metric=params["kernel"], **{key: value for key, value in params.items() if key != "kernel"})
    np.testing.assert_allclose(A @ A.T, K, atol=1e-5 * K.max())


def test_centred_and_standardised_rows_are_mapped_as_if_they_had_been_written_so() -> None:
    X = rows()
    mean, inverse = X.mean(axis=0), 1.0 / X.std(axis=0)
    points = ((X - mean) * inverse)[:20]
    kernel = KERNELS["polynomial"][0]
    found = features(Nystroem.at(kernel, points, mean, inverse), X)
    np.testing.assert_allclose(found, features(plain(kernel, points), (X - mean) * inverse), atol=1e-5)


def test_a_row_has_the_same_features_wherever_it_stands() -> None:
    X = rows(2500, 7).astype(np.float32)
    row_map = plain(KERNELS["rbf"][0], rows(33, 7, seed=1))
    whole = features(row_map, X)
    rng = np.random.default_rng(0)
    for size in (1, 3, 1023, 1500):
        some = rng.permutation(len(X))[:size]
        np.testing.assert_array_equal(features(row_map, X[some]), whole[some])


def test_integers_are_mapped_as_the_numbers_they_are() -> None:
    X = np.random.default_rng(0).integers(0, 17, (200, 9)).astype(np.uint8)
    row_map = plain(KERNELS["rbf"][0], X[:20].astype(float))
    np.testing.assert_array_equal(features(row_map, X), features(row_map, X.astype(float)))


def test_landmarks_that_are_equal_do_no_harm() -> None:
    X = rows(50, 4)
    points = np.vstack([X[:5], X[:5], X[:5]])
    A, B = features(plain(KERNELS["rbf"][0], points), X), features(plain(KERNELS["rbf"][0], X[:5]), X)
    assert np.isfinite(A).all()
    np.testing.assert_allclose(A.astype(float) @ A.T, B.astype(float) @ B.T, atol=1e-4)


# --------------------------------------------------------------------------------------- landmarks and the width


def asked(**changes: Any) -> nystroem.Ask:
    given = {"kernel": "rbf", "gamma": "auto", "degree": 3, "coef0": 1.0, "n_components": 50, "landmarks": "k-means"}
    return nystroem.Ask(**{**given, "seed": 0, **changes})


def made(X: Any, weight: Array | None = None, **changes: Any) -> Nystroem:
    dataset = open_dataset(X)
    dataset = dataset if weight is None else dataset.with_columns(weight)
    with Local(dataset) as engine:
        geometry, _ = measure(dataset, engine.rows, "none")
        return nystroem.nystroem(asked(**changes), dataset, geometry)


def test_random_landmarks_are_rows_that_count() -> None:
    X = rows(400, 3)
    weight = np.r_[np.zeros(200), np.ones(200)]
    found = made(X, weight, landmarks="random", n_components=40)
    points = found.points / found.inverse + found.mean
    near = np.abs(points[:, None] - X[200:]).max(axis=2).min(axis=1)
    assert len(points) == 40
    assert near.max() < 1e-9


def test_gamma_is_in_units_of_the_rows_and_auto_follows_their_scale() -> None:
    X = make_moons(2000, noise=0.05, random_state=0)[0]
    assert made(X, gamma=7.5).kernel.gamma == 7.5
    one, hundred = made(X).kernel.gamma, made(100 * X).kernel.gamma
    assert one == pytest.approx(1e4 * hundred, rel=0.05)
    np.testing.assert_allclose(made(X, gamma=7.5).inverse, 1.0)


@pytest.mark.parametrize("landmarks", nystroem.LANDMARKS)
def test_the_width_does_not_depend_on_the_number_of_rows(landmarks: str) -> None:
    widths = [
        made(make_moons(n, noise=0.05, random_state=0)[0], landmarks=landmarks).kernel.gamma for n in (2000, 9000)
    ]
    assert widths[0] == pytest.approx(widths[1], rel=0.25)


def test_rows_of_which_few_are_distinct_have_a_width() -> None:
    X = np.repeat(rows(6, 3), 50, axis=0)
    found = made(X)
    assert np.isfinite(found.kernel.gamma)
    assert np.isfinite(features(found, X)).all()


def test_rows_that_differ_by_rounding_are_mapped_without_a_word() -> None:
    X = np.repeat(rows(30, 6), 60, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = made(X + 1e-9 * rows(1800, 6), n_components=200)
    assert np.isfinite(features(found, X)).all()


# ------------------------------------------------------------------------------------------------------ in a fit


@pytest.mark.parametrize("noise", [0.05, 0.1])
@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_rings_and_moons_are_told_apart_by_default(make: Any, noise: float) -> None:
    options = {"factor": 0.5} if make is make_circles else {}
    X, y = make(4000, noise=noise, random_state=0, **options)
    model = dmmc.CuttingPlaneMMC(2, features="nystroem", random_state=0).fit(X)
    assert error(model.labels_, y) <= 0.01
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    new, new_y = make(2000, noise=noise, random_state=1, **options)
    assert error(model.predict(new), new_y) <= 0.02


def test_a_linear_kernel_of_all_directions_is_no_kernel() -> None:
    X, y = load_digits(return_X_y=True)
    X = X[(y == 1) | (y == 7)]
    raw = dmmc.CuttingPlaneMMC(2, C=30.0, random_state=0, scale="none").fit(X)
    linear = dmmc.CuttingPlaneMMC(
        2, C=30.0, random_state=0, scale="none", features="nystroem", kernel="linear", n_components=100
    ).fit(X)
    assert error(linear.labels_, raw.labels_) <= 0.01
    assert linear.objective_ == pytest.approx(raw.objective_, rel=0.03)


def test_sparse_rows_have_the_clusters_of_dense_ones() -> None:
    X = np.where(rows(500, 20) > 4.0, rows(500, 20), 0.0)
    X[:250, :5] += 3.0
    options: dict[str, Any] = {"features": "nystroem", "n_components": 40, "random_state": 0}
    dense, sparse = (dmmc.fit(kind(X), 2, **options) for kind in (np.asarray, csr_array))
    assert error(sparse.labels, dense.labels) <= 0.01


def test_a_graph_start_is_taken_into_the_kernel() -> None:
    X, y = make_moons(1500, noise=0.05, random_state=0)
    run = dmmc.fit(X, 2, features="nystroem", init="graph", random_state=0)
    assert error(run.labels, y) <= 0.01
    assert run.model.merge_tree_ is not None


def test_what_was_chosen_is_said() -> None:
    X = make_moons(500, noise=0.05, random_state=0)[0]
    choices = dmmc.fit(X, 2, features="nystroem", n_components=30).choices
    assert choices["kernel"] == "rbf"
    assert choices["landmarks"] == "k-means"
    assert choices["n_components"] == 30
    assert choices["gamma"] > 0
    assert choices["C"] == 100.0


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)


def test_blocks_are_cut_again_where_features_are_larger_than_rows(small_blocks: None) -> None:
    X = rows(3000, 2)
    dataset = open_dataset(X).with_columns(np.arange(3000.0), np.arange(3000) % 2)
    row_map = plain(KERNELS["rbf"][0], X[:25])
    whole = features(row_map, X)
    with Local(dataset) as engine, mapped(engine, row_map, "features") as inner:
        spans = np.diff(inner.dataset.bounds)
        assert len(spans) > len(dataset.blocks) >= 2
        assert spans.max() * 25 * 4 <= 2 * 16 * 1024
        np.testing.assert_array_equal(np.concatenate(list(inner.rows(lambda block, _: block.rows, None))), whole)
        np.testing.assert_array_equal(
            np.concatenate(list(inner.rows(lambda block, _: block.weight, None))), range(3000)
        )
        np.testing.assert_array_equal(inner.dataset.take([7, 2999, 7]), whole[[7, 2999, 7]])
        np.testing.assert_array_equal(open_dataset(inner.dataset).take([5, 1]), whole[[5, 1]])
        inner.use(inner.dataset.with_columns(given=np.ones(3000, int)))
        assert inner.dataset.given is not None
        assert inner.dataset.given.all()


def moon_fit(out: Path | None = None, **options: Any) -> Any:
    X = make_moons(3000, noise=0.08, random_state=0)[0]
    return dmmc.fit(X, 2, features="nystroem", n_components=60, random_state=0, out=out, **options)


def bits(run: Any) -> tuple[bytes, ...]:
    _, arrays = run.model.to_arrays()
    lines = [{k: v for k, v in line.items() if k != "seconds"} for line in run.history]
    return run.labels.tobytes(), repr(lines).encode(), *(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.slow
def test_threads_and_workers_give_the_same_bits(small_blocks: None, clients: Callable[[int], Any]) -> None:
    wanted = bits(moon_fit(n_jobs=1))
    assert bits(moon_fit(n_jobs=3)) == wanted
    for workers in (1, 2):
        assert bits(moon_fit(scheduler=clients(workers))) == wanted


@pytest.mark.parametrize("phase", ["landmarks", "start", "search"])
@pytest.mark.slow
def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path: Path, small_blocks: None, phase: str) -> None:
    def interrupt(event: dict[str, Any]) -> None:
        if event["phase"] == phase and event.get("iteration", 4) == 4:
            raise KeyboardInterrupt

    wanted = moon_fit(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        moon_fit(tmp_path / "out", progress=interrupt)
    resumed = moon_fit(tmp_path / "out", resume=True)
    assert bits(resumed) == bits(wanted)


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    run = moon_fit(tmp_path / "out")
    X = make_moons(500, noise=0.08, random_state=1)[0]
    np.testing.assert_array_equal(dmmc.load(tmp_path / "out").decision_function(X), run.model.decision_function(X))


DAMAGE: dict[str, Any] = {
    "another kernel": lambda content, arrays: content["features"].update(kernel="cosine"),
    "a gamma that is no number": lambda content, arrays: content["features"].update(gamma="wide"),
    "a degree of 0": lambda content, arrays: content["features"].update(degree=0),
    "fewer landmarks": lambda content, arrays: arrays.update(map_points=arrays["map_points"][:-1]),
    "a root that is not finite": lambda content, arrays: arrays.update(map_root=arrays["map_root"] * np.nan),
    "no mean": lambda content, arrays: arrays.pop("map_mean"),
    "another kind": lambda content, arrays: content["features"].update(kind="fourier"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_kernel_is_refused(tmp_path: Path, what: str) -> None:
    moon_fit(tmp_path / "out", max_iter=2)
    content, arrays = array_folder.read(tmp_path / "out" / "model", "model")
    arrays = dict(arrays)
    DAMAGE[what](content, arrays)
    write_sealed(tmp_path / "damaged", "model", content, arrays)
    with pytest.raises(dmmc.InputError, match="holds a model that is not whole, or whose parts"):
        dmmc.load(tmp_path / "damaged")


# ---------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"kernel": "cosine"}, "kernel is 'cosine'; choose one of 'rbf', 'polynomial', 'linear'."),
        ({"gamma": 0.0}, 'gamma is 0.0; a number above 0, or "auto", is wanted.'),
        ({"n_components": 0}, "n_components is 0; a whole number of at least 1 is wanted."),
        ({"landmarks": "first"}, "landmarks is 'first'; choose one of 'k-means', 'random'."),
        ({"degree": 2.5}, "degree is 2.5; a whole number from 1 to 20 is wanted."),
        ({"coef0": -1.0}, "coef0 is -1.0; a number of at least 0 is wanted."),
    ],
)
def test_a_bad_parameter_is_refused_in_a_sentence(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(dmmc.InputError) as caught:
        dmmc.fit(rows(), 2, features="nystroem", **params)
    assert str(caught.value) == sentence


def test_more_components_than_rows_are_as_many_as_rows_with_a_warning() -> None:
    with pytest.warns(dmmc.ClusteringWarning, match="n_components is 200, but .* 100 landmarks are used"):
        model = dmmc.CuttingPlaneMMC(2, features="nystroem", random_state=0).fit(rows(100, 3))
    assert model.map_.n_values == 100


def test_too_many_components_are_refused_with_the_memory_they_need() -> None:
    with pytest.raises(dmmc.InputError, match=r"a kernel of 1000000 components .* needs about 320\d+ MB, and \d+ MB"):
        dmmc.fit(rows(), 2, features="nystroem", n_components=1_000_000)


def test_a_kernel_that_overflows_is_refused_by_its_parameters() -> None:
    with pytest.raises(
        dmmc.InputError, match=r"the polynomial kernel with gamma=1e\+300, degree=3 and coef0=1 is so large"
    ):
        dmmc.fit(rows(), 2, features="nystroem", kernel="polynomial", gamma=1e300)


@pytest.mark.parametrize("n_pairs", [1, 5])
@pytest.mark.parametrize("make", [make_moons, make_circles])
def test_a_few_true_pairs_do_no_harm_in_a_kernel(make: Any, n_pairs: int) -> None:
    options = {"factor": 0.5} if make is make_circles else {}
    X, y = make(1000, noise=0.05, random_state=0, **options)
    ends = np.random.default_rng(0).integers(1000, size=(n_pairs, 2))
    pairs = [(int(i), int(j), "must" if y[i] == y[j] else "cannot") for i, j in ends]
    run = dmmc.fit(X, 2, features="nystroem", constraints=pairs)
    assert run.choices["method"] == "pairwise"
    assert error(run.labels, y) <= 0.01
