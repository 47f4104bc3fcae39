"""Stochastic gradient: the kernels against plain numpy, the search against cutting planes, streams, and same bits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import outcomes
import pytest
from forgeries import write_sealed
from numpy.typing import NDArray
from scipy.sparse import csr_array
from stops import Stop, stop_after

import dmmc
from dmmc import StochasticMMC, kernels
from dmmc.data import blocks
from dmmc.data.blocks import Csr
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model.geometry import Geometry
from dmmc.model.losses import LOSSES, Hinge
from dmmc.model.passes import Given
from dmmc.solvers.sgd import Stochastic
from dmmc.solvers.sgd_state import Problem, epochs_to_fit

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

Array = NDArray[Any]
METHODS = {"mmc-sg": "hinge", "rmmc-sg": "ramp", "cmmc-sg": "compact", "rcmmc-sg": "robust-compact"}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", 8 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 16 * 1024)


def pair(a: int = 3, b: int = 8) -> tuple[Array, Array]:
    X, y = data_sets.pair(*data_sets.load("digits"), a, b)
    return X.astype(np.float32), (y == b).astype(int)


# ------------------------------------------------------------------------------------------------------- kernels


def plain_descent(X: Array, mean: Array, unit: Array, course: kernels.Course, W: Array, b: float) -> kernels.Path:
    """The same steps on rows that are centred and scaled, with nothing kept in a clever way."""
    Z = (X - mean) / unit
    w, points = W * unit, []
    for number, i in enumerate(course.order):
        eta = min(0.5, course.rate / (course.begun + number) if course.begun else course.rate)
        f = w @ Z[i] + b
        label = course.labels[i] if course.labels.size else f + course.price >= 0
        y = 2.0 * label - 1.0
        p = int((course.knots <= y * f).sum())
        slope = y * course.slopes[p] + (course.pulls[i] if course.pulls.size else 0.0)
        step = eta * course.C * abs(slope) * (course.weight[i] if course.weight.size else 1.0)
        if course.careful and slope:
            bends = course.knots[p : p + 1] if slope * y < 0 else course.knots[p - 1 : p] if p else course.knots[:0]
            for bend in bends:
                step = min(step, abs(bend - y * f) / (Z[i] @ Z[i] + 1.0))
        step = -np.sign(slope) * step
        w = (1 - eta) * w + step * Z[i]
        b = min(max(b + step, -course.box), course.box)
        points.append((w, b))
    mean_w, mean_b = np.mean([w for w, _ in points], axis=0), float(np.mean([b for _, b in points]))
    return kernels.Path(w / unit, b, mean_w / unit, mean_b)


@pytest.mark.parametrize("kind", ["float64", "float32", "uint8", "csr"])
@pytest.mark.parametrize("how", ["own", "labels and weights", "pulls", "paper"])
def test_a_descent_makes_the_steps_that_plain_numpy_makes(kind: str, how: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 200, (60, 7)) * (rng.random((60, 7)) < 0.6)
    mean, unit = X.mean(axis=0), np.full(7, 90.0) + np.arange(7)
    loss = LOSSES["robust-compact"].table
    course = kernels.Course(
        order=rng.permutation(60),
        labels=np.empty(0, np.int8),
        pulls=np.empty(0),
        weight=np.empty(0),
        norms=(((X - mean) / unit) ** 2).sum(axis=1),
        knots=loss.knots,
        slopes=loss.slopes,
        price=0.2,
        C=20.0,
        box=0.3,
        begun=21.0,
        rate=1.0,
        careful=True,
    )
    if how == "labels and weights":
        course = course._replace(labels=rng.integers(0, 2, 60).astype(np.int8), weight=rng.random(60) * 2)
    elif how == "pulls":
        course = course._replace(
            pulls=rng.integers(-1, 2, 60).astype(float), knots=np.ones(1), slopes=np.array([0, 1.0])
        )
    elif how == "paper":
        course = course._replace(careful=False, begun=0.0, rate=0.02)
    W, b = rng.standard_normal(7) / unit, 0.1
    thin = csr_array(X.astype(np.float32))
    rows: Any = X.astype("u1" if kind == "uint8" else "f8" if kind == "csr" else kind)
    if kind == "csr":
        rows = Csr(thin.data, thin.indices.astype(np.uint32), thin.indptr.astype(np.int64), 7)
    found, wanted = kernels.descend(rows, mean, unit, course, W, b), plain_descent(X, mean, unit, course, W, b)
    close = 1e-4 if kind in ("float32", "uint8") else 1e-10
    assert np.abs(wanted.W - W).max() > 1e-3 / 90
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.multiply(one, 1.0), other, rtol=close, atol=close * np.abs(wanted.W).max())


@pytest.mark.parametrize("loss", LOSSES)
def test_with_labels_fixed_the_epochs_come_to_the_optimum_of_a_generic_convex_solver(loss: str) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    X, y = pair()
    X, y = X[:120].astype(np.float64), y[:120]
    y[:10] = 1 - y[:10]  # lest it is all too easy
    mean = X.mean(axis=0)
    unit = np.full(64, np.sqrt(((X - mean) ** 2).sum(axis=1).mean()))
    geometry = Geometry(mean, unit, 120.0, False, "")
    convex = LOSSES[loss].surrogate
    with Local(open_dataset(X).with_columns(given=y), 1) as engine:
        problem = Problem(LOSSES[loss], 10.0, 0.03, 0.01, 0.0, 1.0, geometry, 0, None, False, fitting=300)
        solver = Stochastic(problem, engine.run)
        state = solver.init([Given()])
        for _ in range(300):
            state = solver.step(state)
    Z, sign = (X - mean) / unit, 2.0 * y - 1.0
    at = state.runs[0].mean

    def objective(w: Array, b: float) -> float:
        return float(0.5 * w @ w + 10.0 * convex.value(sign * (Z @ w + b)).mean())

    w, b = cvxpy.Variable(64), cvxpy.Variable()
    t = cvxpy.multiply(sign, Z @ w + b)
    pieces = [np.asarray(part) for part in convex]
    paid = cvxpy.max(cvxpy.vstack([i + s * t for i, s in zip(pieces[1], pieces[2], strict=True)]), axis=0)
    cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + cvxpy.sum(paid) / 12.0), [cvxpy.abs(b) <= 0.03]).solve()
    least = objective(w.value, float(b.value))
    assert least - 1e-4 <= objective(at.w, at.b) <= 1.01 * least


# ---------------------------------------------------------------------------------------------------- the search


def test_the_objective_is_as_low_as_that_of_cutting_planes_and_so_is_the_error() -> None:
    X, y = pair()
    planes = dmmc.CuttingPlaneMMC(random_state=0).fit(X)
    model = StochasticMMC(random_state=0).fit(X)
    assert model.objective_ <= 1.02 * planes.objective_
    error = dmmc.score(model.labels_, y)["purity_error"]
    assert error <= dmmc.score(planes.labels_, y)["purity_error"] + 0.01
    f = model.decision_function(X)
    assert abs(f.mean()) <= 0.03 + 1e-6
    risk = np.maximum(0.0, 1.0 - np.abs(f)).mean()
    unit = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    assert model.objective_ == pytest.approx(0.5 * ((model.coef_ * unit) ** 2).sum() + 30.0 * risk, rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sparse", [False, True])
def test_each_method_finds_two_digits_dense_or_sparse(method: str, sparse: bool) -> None:
    X, y = pair(0, 1)
    run = dmmc.fit(csr_array(X) if sparse else X, 2, method=method)
    assert dmmc.score(run.labels, y)["purity_error"] <= 0.01
    assert run.choices["method"] == method
    assert run.model.loss == METHODS[method]
    assert run.choices["ended"] == "converged"
    np.testing.assert_array_equal(run.model.predict(X), run.labels)


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "ramp", "ramp": "cccp"},
        {"step": "paper"},
        {"init": "cpmmc"},
        {"loss": "compact", "init": "cpmmc"},
        {"init": "pca"},
        {"init": "random"},
        {"n_init": 3},
        {"init": "graph"},
    ],
    ids=str,
)
def test_other_steps_starts_and_cccp_come_to_the_same_clusters(params: dict[str, Any]) -> None:
    X, y = pair(0, 1)
    model = StochasticMMC(random_state=0, **params).fit(X)
    assert dmmc.score(model.labels_, y)["purity_error"] <= 0.02


def test_restarts_share_each_epoch_and_the_lowest_objective_wins() -> None:
    X, _ = pair(5, 9)
    alone = [StochasticMMC(init="random", n_init=1, random_state=0).fit(X).objective_]
    several = StochasticMMC(init="random", n_init=4, random_state=0).fit(X)
    assert several.objective_ <= alone[0] + 1e-9
    assert several.history_[0]["runs"] == 4


@pytest.mark.parametrize("loss", METHODS.values())
def test_count_bounds_hold_and_are_said_to_be_active(loss: str) -> None:
    X, y = pair(0, 1)
    X = np.concatenate([X[y == 0], X[y == 1][:20]])
    with pytest.warns(dmmc.ClusteringWarning, match="cluster 1 kept shrinking and was held at the minimum size"):
        model = StochasticMMC(loss=loss, min_size=0.9, random_state=0, balance=0.5).fit(X)
    assert np.bincount(model.labels_).min() >= int(0.9 * len(X) / 2)


def kept(labels: Array, y: Array) -> float:
    same = float((labels[:1000] == y[:1000]).mean())
    return max(same, 1.0 - same)


def test_outliers_at_100_times_the_scale_take_no_labels_from_the_inliers() -> None:
    X, y = data_sets.with_outliers(0, 1000, 0.05)
    for loss in ("robust-compact", "hinge"):
        assert kept(StochasticMMC(loss=loss, init=y, random_state=0).fit(X).labels_, y) >= 0.99


def test_it_is_the_robust_loss_that_outliers_do_not_pull_even_where_no_weight_is_lowered() -> None:
    X, y = data_sets.with_outliers(0, 1000, 0.05)
    inside = X[:1000]
    mean = inside.mean(axis=0)
    unit = np.full(10, np.sqrt(((inside - mean) ** 2).sum(axis=1).mean()))

    def share(loss: str) -> float:
        with Local(open_dataset(X).with_columns(given=y), 1) as engine:
            geometry = Geometry(mean, unit, float(len(X)), False, "")
            fitting = epochs_to_fit(len(X))
            solver = Stochastic(
                Problem(LOSSES[loss], 30.0, 0.03, 0.01, 0.0, 1.0, geometry, 0, None, False, fitting), engine.run
            )
            state = solver.init([Given()])
            while not solver.done(state) and state.runs[0].epoch < 100:
                state = solver.step(state)
            planes = solver.planes(solver.best(state).best)
        return kept((X @ planes.W[0] + planes.b[0] >= 0).astype(int), y)

    assert share("robust-compact") >= 0.99
    assert share("compact") < 0.9


def test_a_row_of_weight_2_is_visited_with_twice_the_step_and_one_of_weight_0_never() -> None:
    X, y = pair(0, 1)
    junk = np.vstack([X, np.full((50, 64), 1e3, np.float32)])
    weight = np.concatenate([np.full(len(X), 2.0), np.zeros(50)])
    one = StochasticMMC(init=y, random_state=0, scale="none").fit(X)
    other = StochasticMMC(init=np.concatenate([y, np.zeros(50, int)]), random_state=0, scale="none")
    other.fit(junk, sample_weight=weight)
    assert (other.labels_[: len(X)] == one.labels_).mean() in (0.0, 1.0)
    assert other.objective_ == pytest.approx(one.objective_, rel=0.05)


# ------------------------------------------------------------------------------------------------------ same bits


def bits(run: Any) -> dict[str, Any]:
    return {**outcomes.bits(run), "tree": None if run.model.tree_ is None else run.model.tree_.tobytes()}


CASES: dict[str, dict[str, Any]] = {
    "two clusters": {"n_clusters": 2, "method": "rmmc-sg", "ramp": "cccp"},
    "restarts": {"n_clusters": 2, "method": "rcmmc-sg", "init": "random", "n_init": 3},
    "a tree": {"n_clusters": 4, "method": "cmmc-sg"},
    "a tree of labels": {"n_clusters": 5, "method": "mmc-sg", "init": np.arange(400) % 5, "min_size": 0.9},
}


def rows(sparse: bool = False) -> Any:
    X = data_sets.load("digits")[0][:400].astype(np.float32)
    return csr_array(X) if sparse else X


@pytest.mark.parametrize("case", CASES)
def test_the_bits_do_not_depend_on_threads(case: str, small_blocks: None) -> None:
    X = rows(sparse=case == "a tree")
    assert len(open_dataset(X).blocks) > 3
    assert bits(dmmc.fit(X, n_jobs=1, **CASES[case])) == bits(dmmc.fit(X, n_jobs=4, **CASES[case]))


@pytest.mark.slow
def test_the_bits_are_those_of_one_worker_and_of_two(
    small_blocks: None, clients: Callable[[int], Any], tmp_path: Path
) -> None:
    few = {
        "two clusters": {"max_iter": 4, "init": np.arange(400) % 2},
        "a tree of labels": {"n_clusters": 3, "init": np.arange(400) % 3, "max_iter": 2, "min_size": 0.5},
    }
    asked = {case: {**CASES[case], **params} for case, params in few.items()}
    here = {case: bits(dmmc.fit(rows(), **params)) for case, params in asked.items()}
    for workers in (1, 2):
        for case, params in asked.items():
            assert bits(dmmc.fit(rows(), scheduler=clients(workers), **params)) == here[case]
    _predicted_by_workers(clients(2), tmp_path)


def _predicted_by_workers(client: Any, folder: Path) -> None:
    import dask.array as da
    import zarr

    run = dmmc.fit(rows(), max_iter=2, **CASES["a tree"])
    lazy = da.from_array(rows(), chunks=(111, 64))
    paths = {"labels": folder / "labels.zarr", "scores": folder / "scores.zarr"}
    run.model.predict_to(lazy, paths, scheduler=client)
    np.testing.assert_array_equal(zarr.open_array(str(paths["labels"]), mode="r")[:], run.labels)
    np.testing.assert_array_equal(
        zarr.open_array(str(paths["scores"]), mode="r")[:], run.model.decision_function(rows())
    )


@pytest.mark.parametrize("case", CASES)
def test_an_interrupted_search_goes_on_to_the_same_bits_also_in_the_middle_of_a_tree(case: str, tmp_path: Path) -> None:
    whole = dmmc.fit(rows(), **CASES[case])
    n = len(whole.history)
    out = tmp_path / "out"
    for stop in (n // 3, n // 2):  # the second time, this many passes after the first
        with pytest.raises(Stop):
            dmmc.fit(rows(), out=out, resume=out.exists(), callbacks=stop_after(stop), **CASES[case])
    assert bits(dmmc.fit(rows(), out=out, resume=True, **CASES[case])) == bits(whole)
    loaded = dmmc.load(out)
    np.testing.assert_array_equal(loaded.predict(rows()), whole.labels)


def test_a_damaged_checkpoint_of_a_tree_is_refused(tmp_path: Path) -> None:
    from dmmc.results import array_folder

    out = tmp_path / "out"
    with pytest.raises(Stop):
        dmmc.fit(rows(), out=out, callbacks=stop_after(80), **CASES["a tree"])
    content, arrays = array_folder.read(out / "checkpoint", "checkpoint")
    for name, value in (("at", 99), ("children", {"array": ["<i8", [0, 2], "C", 0]}), ("leaves", [])):
        said = json.loads(json.dumps(content))
        (fields,) = [part["named"][1] for part in said["search"] if isinstance(part, dict)]
        fields[[key for key, _ in fields].index(name)][1] = value
        folder = tmp_path / name
        shutil.copytree(out, folder)
        write_sealed(folder / "checkpoint", "checkpoint", said, arrays)
        with pytest.raises(dmmc.InputError, match="damaged"):
            dmmc.fit(rows(), out=folder, resume=True, **CASES["a tree"])


# -------------------------------------------------------------------------------------------------------- streams


def stream() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    X = rng.standard_normal((3000, 20)) + 2.0 * np.outer(2 * y - 1, np.ones(20)) / np.sqrt(20)
    return (X + 50.0).astype(np.float32), y


@pytest.mark.parametrize("loss", METHODS.values())
def test_a_stream_comes_as_near_as_all_rows_at_once_and_clusters_keep_their_numbers(loss: str) -> None:
    X, y = stream()
    model = StochasticMMC(loss=loss, random_state=0)
    labels = []
    for first in range(0, 3000, 200):
        model.partial_fit(X[first : first + 200])
        np.testing.assert_array_equal(model.labels_, model.predict(X[first : first + 200]))
        labels.append(model.labels_)
    every = StochasticMMC(loss=loss, random_state=0).fit(X)
    error = dmmc.score(model.predict(X), y)["purity_error"]
    assert error <= dmmc.score(every.labels_, y)["purity_error"] + 0.005
    whole = np.concatenate(labels)
    assert (whole == model.predict(X)).mean() > 0.97
    assert model.history_[-1]["iteration"] == model.n_iter_


def test_a_stream_goes_on_after_a_fit_and_after_a_model_was_read_from_its_file(tmp_path: Path) -> None:
    X, _ = stream()
    run = dmmc.fit(X[:1000], 2, method="rcmmc-sg", out=tmp_path / "out")
    loaded = dmmc.load(tmp_path / "out")
    for model in (run.model, loaded):
        model.partial_fit(csr_array(X[1000:1500])).partial_fit(X[1500:2000])
    np.testing.assert_array_equal(run.model.coef_, loaded.coef_)
    np.testing.assert_array_equal(run.model.predict(X), loaded.predict(X))


def test_what_a_stream_cannot_take_is_refused_in_a_sentence(tmp_path: Path) -> None:
    X, _ = stream()
    model = StochasticMMC(random_state=0).partial_fit(X[:100])
    before = model.coef_.copy()
    bad = X[100:200].copy()
    bad[3, 4] = np.nan
    with pytest.raises(dmmc.InputError, match="NaN at row 3, column 4"):
        model.partial_fit(bad)
    with pytest.raises(dmmc.InputError, match="expecting 20 features"):
        model.partial_fit(X[:100, :5])
    with pytest.raises(dmmc.InputError, match="zero for every row"):
        model.partial_fit(X[:100], sample_weight=np.zeros(100))
    np.testing.assert_array_equal(model.coef_, before)
    for params in ({"n_clusters": 3}, {"features": "lsa"}):
        other = StochasticMMC(**params)  # type: ignore[arg-type]
        with pytest.raises(AttributeError) as refused:
            other.partial_fit(X)
        assert "partial_fit is there for n_clusters=2" in str(refused.value.__cause__)
        assert not hasattr(other, "partial_fit")
    dmmc.fit(X[:300], 2, method="mmc-sg", out=tmp_path / "out")
    from dmmc.results import array_folder

    content, arrays = array_folder.read(tmp_path / "out" / "model", "model")
    for name, value in (
        ("stream_unit", np.zeros(20)),
        ("stream_mean", np.zeros(3)),
        ("stream_total", np.array([-1.0])),
    ):
        with pytest.raises(dmmc.InputError, match="stream_"):
            StochasticMMC.from_arrays(content, {**arrays, name: value}, "it")


# -------------------------------------------------------------------------------------- parameters, command line


@pytest.mark.parametrize(
    ("params", "sentence"),
    [
        ({"loss": "squared"}, "loss is 'squared'; choose one of 'hinge', 'ramp', 'compact', 'robust-compact'"),
        ({"C": 0}, "C is 0; a number above 0"),
        ({"s": -1.0}, "s is -1.0; a number above -1 and up to 0"),
        ({"s": 0.1}, "s is 0.1"),
        ({"zeta": 1.0}, "zeta is 1.0"),
        ({"tau": 0.6}, "tau is 0.6; a number from 0 to 0.5"),
        ({"ramp": "concave"}, "ramp is 'concave'; choose one of 'direct', 'cccp'"),
        ({"step": "big"}, "step is 'big'; choose one of 'auto', 'paper'"),
        ({"rate": 21}, "rate is 21; a number above 0, up to 20"),
        ({"init": "cccp"}, "init is 'cccp'"),
        ({"balance": 1.0}, "balance is 1.0"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_refused_in_a_sentence(params: dict[str, Any], sentence: str) -> None:
    with pytest.raises(dmmc.InputError, match=sentence):
        StochasticMMC(**params).fit(np.eye(4))


def test_the_published_step_is_a_batch_step_an_epoch() -> None:
    X, y = pair(0, 1)
    X = X.astype(np.float64)
    mean = X.mean(axis=0)
    unit = np.full(64, np.sqrt(((X - mean) ** 2).sum(axis=1).mean()))
    with Local(open_dataset(X).with_columns(given=y), 1) as engine:
        geometry = Geometry(mean, unit, float(len(X)), False, "")
        problem = Problem(Hinge(), 30.0, 0.03, 0.01, 0.0, 1.0, geometry, 0, 1e-4, False, fitting=2)
        state = Stochastic(problem, engine.run).step(Stochastic(problem, engine.run).init([Given()]))
    Z, sign = (X - mean) / unit, 2.0 * y - 1.0
    batch = 1e-4 * 30.0 * (sign[:, None] * Z).mean(axis=0)
    np.testing.assert_allclose(state.runs[0].at.w, batch, rtol=1e-3, atol=1e-3 * np.abs(batch).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow
def test_all_four_are_on_the_command_line(method: str, cli: Any, digits_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--method", method, "--set", "C=20", "--set", "max_iter=5", "--quiet"]
    done = cli("fit", "--method", "cpmmc", digits_store, "-k", "3", "-o", out, *options)
    assert done.code == 0, done.stderr
    parameters = json.loads((out / "run.json").read_text())["parameters"]
    assert (parameters["C"], parameters["loss"]) == (20, METHODS[method])
    assert (out / "report.html").is_file()
    assert len(dmmc.load(out).intercept_) == 2


@pytest.mark.parametrize("count", [1, 2, 5, 15])
@pytest.mark.parametrize("loss", ["hinge", "ramp", "compact", "robust-compact"])
def test_a_few_more_rows_of_one_cluster_do_not_move_the_border_through_it(loss: str, count: int) -> None:
    rng = np.random.default_rng(0)
    centres = 6 * rng.standard_normal((2, 5))
    X = rng.standard_normal((400, 5)) + centres[rng.integers(2, size=400)]
    model = dmmc.StochasticMMC(loss=loss, random_state=0).fit(X)
    before = model.labels_
    model.partial_fit(X[before == 0][:count])
    assert np.mean(model.predict(X) == before) > 0.99


@pytest.mark.parametrize("loss", ["compact", "robust-compact"])
@pytest.mark.parametrize("share", [2 / 3, 3 / 4, 0.85])
def test_losses_with_wells_leave_uneven_clusters_as_they_are(loss: str, share: float) -> None:
    rng = np.random.default_rng(5)
    y = (np.arange(900) < share * 900).astype(int)
    X = rng.standard_normal((900, 10)) + np.outer(2 * y - 1, np.full(10, 4 / np.sqrt(10)))
    model = StochasticMMC(loss=loss, random_state=0).fit(X)
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.01
    assert model.choices_["balance"] == pytest.approx(0.5 * abs(2 * share - 1), abs=0.01)
    assert model.partial_fit(X).choices_["balance"] == model.choices_["balance"]
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.01


@pytest.mark.parametrize(
    "asked", [{"loss": "hinge"}, {"loss": "ramp"}, {"loss": "compact", "balance": 0.03}, {"loss": "compact"}], ids=str
)
def test_the_balance_is_that_given_or_the_usual_one_where_no_start_is_uneven(asked: dict[str, Any]) -> None:
    X, _ = pair()
    init = (np.arange(len(X)) % (2 if asked == {"loss": "compact"} else 4) > 0).astype(int)
    assert StochasticMMC(init=init, random_state=0, **asked).fit(X).choices_["balance"] == 0.03


def test_no_seed_makes_classes_of_two_to_one_even_in_a_satellites_pixels(load: Any) -> None:
    X, y = data_sets.pair(*load("satellite"), 1, 2)
    errors = [dmmc.score(dmmc.fit(X, 2, method="rcmmc-sg", random_state=s).labels, y)["purity_error"] for s in range(6)]
    assert max(errors) < 0.04
