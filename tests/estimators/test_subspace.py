"""Subspace MMC: its convex problems against a generic convex solver, its subspace, and what all methods promise."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
import scipy.sparse
from given_labels import search
from numpy.typing import NDArray
from stops import Stop, stop_after

import dmmc
from dmmc import CuttingPlaneMMC, InputError, SubspaceMMC
from dmmc.master import trace_norm
from dmmc.master.norms import FROBENIUS, TRACE_NORM, Norm
from dmmc.master.published_alternation import ALTERNATION
from dmmc.results.summary_folder import read_summary
from dmmc.solvers.cutting_plane_state import Run

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

Array = NDArray[Any]


def small_set(seed: int, k: int) -> tuple[Array, Array]:
    """A few rows of a few features, with labels that mean something and some that do not."""
    rng = np.random.default_rng([seed, k])
    n, d = int(rng.integers(25, 45)), int(rng.integers(3, 9))
    y = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    return rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((k, d))[y], y


def fixed_labels(X: Array, y: Array, k: int, norm: Norm, **options: Any) -> Run:
    """The run when the convex problem of the given labels is solved."""
    return next(state.runs[0] for state in search(X, y, k, norm, **options) if state.runs[0].relabel)


def scaled(X: Array) -> Array:
    Z = X - X.mean(axis=0)
    return Z / np.sqrt((Z**2).sum(axis=1).mean())


def generic(X: Array, y: Array, k: int, C: float = 20.0, beta: float = 0.03) -> float:
    """The minimum of (E9) for fixed labels by a generic convex solver; for two clusters, of (E3)."""
    cp: Any = pytest.importorskip("cvxpy")
    Z = scaled(X)
    n, d = Z.shape
    if k == 2:
        w, c = cp.Variable(d), cp.Variable()
        signs = 2.0 * y - 1.0
        cost = 0.5 * cp.sum_squares(w) + C * cp.sum(cp.pos(1 - cp.multiply(signs, Z @ w + c))) / n
        return float(cp.Problem(cp.Minimize(cost), [cp.abs(c) <= beta]).solve(solver="CLARABEL"))
    W, b = cp.Variable((k, d)), cp.Variable(k)
    f = Z @ W.T + np.ones((n, 1)) @ cp.reshape(b, (1, k), order="C")
    own = np.eye(k)[y]
    lead = cp.sum(cp.multiply(own, f), axis=1) - cp.max(f - 1e4 * own, axis=1)
    loss = cp.sum(cp.pos(1 - lead)) / n
    limits = [b[p] - b[q] <= beta for p in range(k) for q in range(k) if p != q]
    cost = 0.5 * cp.square(cp.normNuc(W)) + C * loss
    return float(cp.Problem(cp.Minimize(cost), limits).solve(solver="CLARABEL"))


# ----------------------------------------------------------------------------------------------- the convex problem


@pytest.mark.parametrize("k", [2, 3, 5])
@pytest.mark.parametrize("seed", range(10))
def test_with_labels_fixed_the_objective_is_that_of_a_generic_convex_solver(seed: int, k: int) -> None:
    X, y = small_set(seed, k)
    wanted = generic(X, y, k)
    run = fixed_labels(X, y, k, TRACE_NORM)
    assert run.leader.value == pytest.approx(wanted, rel=1e-4)
    assert run.bound <= wanted * (1 + 1e-6)  # the bound is certified
    if k == 2:
        assert run.leader.value == pytest.approx(fixed_labels(X, y, k, FROBENIUS).leader.value, rel=1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_for_two_clusters_both_norms_are_one_also_with_a_hyperplane_a_cluster(seed: int) -> None:
    X, y = small_set(seed, 2)
    binary = fixed_labels(X, y, 2, TRACE_NORM, C=20.0).leader
    wide = fixed_labels(X, y, 2, TRACE_NORM, C=10.0, k_wide=True).leader
    assert 2.0 * wide.value == pytest.approx(binary.value, rel=1e-4)
    assert np.linalg.svd(wide.W, compute_uv=False)[1] < 1e-6 * np.linalg.norm(wide.W)


def test_the_objective_never_rises_from_one_labelling_to_the_next() -> None:
    X, y = blobs(n=120, d=6, k=3)
    y = np.where(np.random.default_rng(5).random(120) < 0.4, 0, y)
    runs = [state.runs[0] for state in search(X, y, 3, TRACE_NORM, epsilon=1e-4)]
    assert runs[-1].reseeded == 0
    seen = list(dict.fromkeys(run.opened for run in runs if np.isfinite(run.opened)))
    assert len(seen) >= 2
    assert np.all(np.diff(seen) <= 1e-9 * np.abs(seen[:-1]))


@pytest.mark.parametrize("seed", range(5))
def test_the_master_is_certified_and_keeps_its_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    m, K, d, C, box = 7, 4, 9, float(10 ** rng.uniform(0, 4)), float(rng.choice([0.0, 0.02, 0.4]))
    Z = rng.standard_normal((m, K, d))
    Z -= Z.mean(axis=1, keepdims=True)
    S = rng.standard_normal((m, K)) / 10
    S -= S.mean(axis=1, keepdims=True)
    a = rng.random(m)
    products = np.einsum("kpd,lqd->klpq", Z, Z)
    for tolerance in (1e-2, 1e-5, 1e-7):
        solved, mixing, weights = trace_norm.solve(products, a, S, C, box, None, tolerance)
        assert solved.value - solved.lower_bound <= tolerance * C
        W = mixing @ np.tensordot(weights, Z, axes=1)
        loss = max(0.0, float((a - np.einsum("kpd,pd->k", Z, W) - S @ solved.bias).max()))
        assert solved.value == pytest.approx(TRACE_NORM.cost(W) + C * loss, rel=1e-6, abs=1e-9 * C)
        assert np.abs(solved.bias[:, None] - solved.bias).max() <= 2 * box + 1e-12
        assert weights.min() >= 0
        assert weights.sum() <= C * (1 + 1e-12)
    again = trace_norm.solve(products, a, S, C, box, solved.multipliers, 1e-5).solved
    assert again.lower_bound <= solved.value + 1e-12 * C
    assert again.value == pytest.approx(solved.value, abs=2e-5 * C)


def test_rows_of_planes_are_multiplied_as_they_come_and_as_they_move() -> None:
    rng = np.random.default_rng(0)
    planes = dmmc_planes(rng, 5, 3, 4)
    Z = planes.slopes.reshape(5, 3, 4)
    np.testing.assert_allclose(planes.gram, np.einsum("kpd,lqd->klpq", Z, Z))
    moved = planes.move(planes.intercepts, 2.0 * planes.slopes, planes.tilts)
    np.testing.assert_allclose(moved.gram, 4.0 * planes.gram)
    idle = planes._replace(idle=np.array([0, 9, 0, 9, 0])).drop_idle(5)
    np.testing.assert_array_equal(idle.gram, planes.gram[::2, ::2])


def dmmc_planes(rng: np.random.Generator, m: int, K: int, d: int) -> Any:
    from dmmc.master.planes import Planes

    planes = Planes.empty(K, d, by_row=True)
    for _ in range(m):
        planes = planes.add(np.zeros((K, d)), np.zeros(K), 1.0, rng.standard_normal(K * d), np.zeros(K))
    return planes


# ------------------------------------------------------------------------------------------------- as it was printed


def test_as_printed_the_subspace_freezes_at_the_first_step() -> None:
    X, y = blobs(n=120, d=9)
    runs = (state.runs[0] for state in search(X, y, 4, ALTERNATION, inside=True))
    found = [run.at.W for run in runs if run.at.W.any() and run.reseeded == 0]
    assert len(found) >= 3
    _, sigma, directions = np.linalg.svd(found[0])
    first = directions[: np.count_nonzero(sigma > 1e-12 * sigma[0])]
    assert len(first) == 3
    for W in found[1:]:
        assert np.abs(W - W @ first.T @ first).max() < 1e-6 * np.abs(W).max()
    free = fixed_labels(X, y, 4, TRACE_NORM).leader.W
    assert np.abs(free - free @ first.T @ first).max() > 1e-3 * np.abs(free).max()


def test_as_printed_two_clusters_keep_their_first_direction() -> None:
    X, y = small_set(1, 2)
    directions = [
        run.at.W[0] / np.linalg.norm(run.at.W)
        for state in search(X, y, 2, ALTERNATION, inside=True)
        if (run := state.runs[0]).at.W.any()
    ]
    assert len(directions) >= 2
    assert min(abs(float(one @ directions[0])) for one in directions) > 1 - 1e-9


def test_the_printed_schedule_ends_no_lower_than_the_joint_one_for_the_same_labels() -> None:
    off = []
    for seed in range(4):
        X, y = small_set(seed, 4)
        joint = fixed_labels(X, y, 4, TRACE_NORM).leader.value
        frozen = fixed_labels(X, y, 4, ALTERNATION, epsilon=1e-3).leader.value
        off.append(frozen / joint - 1.0)
    assert min(off) > -1e-4
    assert max(off) > 1e-3  # and is higher, as a frozen subspace is not the best


# ---------------------------------------------------------------------------------------------------- the estimator


def blobs(n: int = 240, d: int = 12, k: int = 4, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % k)
    return rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((k, d))[y], y


@pytest.fixture(scope="module")
def fitted() -> SubspaceMMC:
    return SubspaceMMC(4, random_state=0).fit(blobs()[0])


def bits(model: SubspaceMMC) -> tuple[bytes, ...]:
    parts = (model.labels_, model.coef_, model.intercept_, model.components_, model.singular_values_)
    return tuple(part.tobytes() for part in parts)


def test_separate_clusters_are_found_with_the_subspace_of_their_centres(fitted: SubspaceMMC) -> None:
    X, y = blobs()
    assert dmmc.score(fitted.labels_, y)["accuracy"] == 1.0
    assert fitted.rank_ == 3
    centres = np.array([X[y == c].mean(axis=0) for c in range(4)])
    truth = np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)[2][:3]
    assert np.linalg.svd(fitted.components_ @ truth.T, compute_uv=False).min() > 0.9
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(X))
    assert fitted.gap_ <= 0.01 * fitted.choices_["C"]


def test_components_are_orthonormal_and_span_the_hyperplanes(fitted: SubspaceMMC) -> None:
    np.testing.assert_allclose(fitted.components_ @ fitted.components_.T, np.eye(3), atol=1e-12)
    assert np.all(np.diff(fitted.singular_values_) <= 0)
    W = fitted.coef_ * fitted.scale_
    np.testing.assert_allclose(W @ fitted.components_.T @ fitted.components_, W, atol=1e-6 * np.abs(W).max())
    np.testing.assert_allclose(np.linalg.svd(W, compute_uv=False)[:3], fitted.singular_values_, rtol=1e-9)
    loss = fitted.objective_ - 0.5 * fitted.singular_values_.sum() ** 2
    f = np.sort(fitted.decision_function(blobs()[0]), axis=1)
    assert loss == pytest.approx(fitted.choices_["C"] * np.maximum(0, 1 - f[:, -1] + f[:, -2]).mean(), rel=1e-6)


def test_two_clusters_are_those_of_the_plain_method_to_the_bit() -> None:
    X, y = data_sets.load("digits")
    X, _ = data_sets.pair(X, y, 3, 8)
    plain, subspace = CuttingPlaneMMC(2, random_state=0).fit(X), SubspaceMMC(2, random_state=0).fit(X)
    assert plain.coef_.tobytes() == subspace.coef_.tobytes()
    assert plain.objective_ == subspace.objective_
    assert subspace.rank_ == 1
    aligned = subspace.components_[0] @ (plain.coef_[0] * subspace.scale_)
    assert abs(aligned) == pytest.approx(np.linalg.norm(plain.coef_[0] * subspace.scale_))


def test_fewer_directions_than_clusters_ask_for_are_found_where_centres_lie_in_a_plane() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(320) % 4
    X = 0.5 * rng.standard_normal((320, 20))
    X[:, 7] += 4.0 * (2 * (y // 2) - 1)
    X[:, 11] += 4.0 * (2 * (y % 2) - 1)
    model, plain = SubspaceMMC(4, random_state=0).fit(X), CuttingPlaneMMC(4, random_state=0).fit(X)
    assert dmmc.score(model.labels_, y)["accuracy"] == 1.0
    assert model.rank_ == 2
    assert (model.components_[:, [7, 11]] ** 2).sum() > 0.95 * 2
    third = np.linalg.svd(plain.coef_, compute_uv=False)
    assert third[2] > 0.03 * third[0]  # the plain method has no reason to leave it


@pytest.mark.parametrize("kind", ["array", "sparse", "frame", "dask", "zarr"])
def test_rows_of_any_source_are_transformed(kind: str, fitted: SubspaceMMC, tmp_path: Path) -> None:
    X, _ = blobs()
    wanted = (X - fitted.mean_) / fitted.scale_ @ fitted.components_.T
    source: Any = X
    if kind == "sparse":
        source = scipy.sparse.csr_array(X)
    elif kind == "frame":
        source = pytest.importorskip("pandas").DataFrame(X)
    elif kind == "dask":
        import dask.array as da

        source = da.from_array(X, chunks=(100, 5))
    elif kind == "zarr":
        import zarr

        zarr.create_array(str(tmp_path / "x.zarr"), data=X)
        source = tmp_path / "x.zarr"
    found = fitted.transform(source)
    found = found.compute() if kind == "dask" else found
    assert found.shape == (240, 3)
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_columns_of_the_subspace_have_names_and_may_be_a_frame(fitted: SubspaceMMC) -> None:
    pytest.importorskip("pandas")
    names = ["subspacemmc0", "subspacemmc1", "subspacemmc2"]
    assert fitted.get_feature_names_out().tolist() == names
    frame = SubspaceMMC(4, random_state=0).set_output(transform="pandas").fit_transform(blobs()[0])
    assert frame.columns.tolist() == names


def test_one_direction_is_one_column_lazily_too() -> None:
    import dask.array as da

    X, _ = blobs(k=2)
    model = SubspaceMMC(2, random_state=0).fit(X)
    here = model.transform(X)
    assert here.shape == (240, 1)
    np.testing.assert_array_equal(model.transform(da.from_array(X, chunks=(100, 12))).compute(), here)


def test_dense_and_sparse_rows_give_the_same_clusters_and_subspace() -> None:
    X = np.where(np.abs(blobs()[0]) > 1.0, blobs()[0], 0.0)
    dense, sparse = (SubspaceMMC(4, random_state=0, init=blobs()[1]).fit(A) for A in (X, scipy.sparse.csr_array(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)
    np.testing.assert_allclose(dense.components_, sparse.components_, atol=1e-6)


@pytest.mark.slow
def test_threads_and_workers_give_the_same_bits(clients: Callable[[int], Any]) -> None:
    X = data_sets.load("digits")[0][:500].astype(np.float32)
    one = SubspaceMMC(5, random_state=0, n_jobs=1).fit(X)
    assert bits(SubspaceMMC(5, random_state=0, n_jobs=2).fit(X)) == bits(one)
    for workers in (1, 2):
        run = dmmc.fit(X, 5, method="smmc", scheduler=clients(workers))
        assert bits(run.model) == bits(one)


@pytest.mark.parametrize("schedule", ["joint", "paper"])
def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(schedule: str, tmp_path: Path) -> None:
    X = data_sets.load("digits")[0][:300].astype(np.float32)
    ask: dict[str, Any] = {"n_clusters": 4, "method": "smmc", "schedule": schedule, "max_iter": 60}
    whole = dmmc.fit(X, **ask)
    for passes in (1, 3, 3):
        with pytest.raises(Stop):
            dmmc.fit(X, **ask, out=tmp_path / "out", resume=True, callbacks=stop_after(passes))
    run = dmmc.fit(X, **ask, out=tmp_path / "out", resume=True)
    assert bits(run.model) == bits(whole.model)
    assert len(run.history) == len(whole.history)


def test_a_model_is_saved_and_read_back_whole_or_refused(fitted: SubspaceMMC, tmp_path: Path) -> None:
    X, _ = blobs()
    dmmc.fit(X, 4, method="smmc", out=tmp_path / "out")
    loaded = dmmc.load(tmp_path / "out")
    assert isinstance(loaded, SubspaceMMC)
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    assert loaded.get_feature_names_out().tolist() == fitted.get_feature_names_out().tolist()
    content, arrays = fitted.to_arrays()
    for name, bad in {
        "components": np.zeros((3, 5)),
        "singular_values": np.zeros(2),
        "mean": np.full(12, np.nan),
        "scale": np.zeros(12),
    }.items():
        with pytest.raises(InputError, match="out holds a model that is not whole, or whose parts do not fit together"):
            SubspaceMMC.from_arrays(content, {**arrays, name: bad}, "out")
        with pytest.raises(InputError, match="not whole"):
            SubspaceMMC.from_arrays(content, {key: arrays[key] for key in arrays if key != name}, "out")


@pytest.mark.parametrize(
    ("params", "words"),
    [({"schedule": "quick"}, "schedule is 'quick'"), ({"schedule": "paper", "order": "outside"}, 'leave it "auto"')],
)
def test_bad_parameters_are_refused_in_a_sentence(params: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        SubspaceMMC(3, **params).fit(blobs()[0])


def test_count_bounds_hold_and_a_dying_cluster_is_seeded_again() -> None:
    X, y = blobs(k=3)
    bounded = SubspaceMMC(5, min_size=0.9, max_size=1.2, random_state=0, max_iter=150).fit(X)
    assert np.bincount(bounded.labels_, minlength=5).min() >= 0.9 * 240 / 5 - 1
    only_two = np.minimum(y, 1)
    seeded = SubspaceMMC(3, min_size=0, init=only_two, random_state=0).fit(X)
    assert seeded.choices_["reseeded"] >= 1
    assert len(np.unique(seeded.labels_)) == 3


@pytest.mark.parametrize("features", ["lsa", "nystroem"])
def test_the_subspace_is_one_of_the_features_that_are_made(features: str) -> None:
    X, _ = blobs()
    model = SubspaceMMC(4, features=features, random_state=0).fit(X)
    assert model.transform(X).shape == (240, model.rank_)
    assert model.components_.shape[1] == model.coef_.shape[1]


def test_the_printed_schedule_fits_and_says_so() -> None:
    model = SubspaceMMC(4, schedule="paper", random_state=0).fit(blobs()[0])
    assert model.choices_["order"] == "inside"
    assert model.rank_ >= 1
    assert np.isfinite(model.objective_)


def test_the_report_shows_rows_along_the_first_two_components(tmp_path: Path) -> None:
    X, _ = blobs()
    run = dmmc.fit(X, 4, method="smmc", out=tmp_path / "out")
    content, summary = read_summary(tmp_path / "out" / "summary")
    assert content["n_features"] == 12
    np.testing.assert_allclose(summary.map_xy, run.model.transform(X)[summary.map_rows][:, :2], atol=1e-9)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "along the first two of the 3 dimensions that the model has learned" in page
    assert "first component of the subspace" in page
    assert run.info["choices"]["rank"] == 3
    flat = dmmc.fit(X, 4, out=tmp_path / "plain", method="cpmmc")
    assert "rank" not in flat.info["choices"]
    assert "along the model&#39;s own directions" in (tmp_path / "plain" / "report.html").read_text(encoding="utf-8")


def test_the_command_line_fits_predicts_and_names_the_method(cli: Any, tmp_path: Path) -> None:
    import json

    import zarr

    zarr.create_array(str(tmp_path / "x.zarr"), data=blobs()[0])
    ask = ("fit", "x.zarr", "-k", 4, "-o", "out", "--method", "smmc", "--set", "C=700", "--set", "schedule=joint")
    done = cli(*ask, "--json", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert sorted(json.loads(done.stdout)["sizes"]) == [60] * 4
    assert json.loads((tmp_path / "out" / "run.json").read_text())["choices"]["C"] == 700.0
    assert cli("predict", "out", "x.zarr", "-o", "labels.zarr", cwd=tmp_path).code == 0
    found, wanted = (zarr.open(str(tmp_path / name), mode="r")[:] for name in ("labels.zarr", "out/labels.zarr"))
    np.testing.assert_array_equal(found, wanted)
    assert "smmc" in cli("methods", cwd=tmp_path).stdout
    refused = cli(*ask[:-1], "schedule=slow", "--overwrite", cwd=tmp_path)
    assert refused.code == 2
    assert "'slow'" in refused.stderr


def test_a_search_that_goes_on_outside_keeps_the_inner_products_that_its_norm_needs() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((203, 6)) + 6 * rng.standard_normal((3, 6))[rng.integers(3, size=203)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dmmc.ClusteringWarning)
            model = dmmc.SubspaceMMC(4, order="inside", random_state=0).fit(X)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
