"""The cutting-plane solver against another solver, and what it promises about its bounds."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import piqp
import pytest
from numpy.typing import NDArray

from dmmc import CuttingPlaneMMC
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.errors import ConvergenceWarning
from dmmc.master import dual_qp
from dmmc.model.geometry import measure
from dmmc.model.losses import LOSSES, PiecewiseLinear
from dmmc.model.passes import Drawn, Given, Labelling
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem, Run, State

Array = NDArray[Any]


# ------------------------------------------------------------------------------------------- the other solver


def centred(X: Array) -> Array:
    """Rows as the estimator sees them: centred, with root mean squared norm 1."""
    Z = X - X.mean(axis=0)
    return Z / np.sqrt((Z**2).sum(axis=1).mean())


def svm(Z: Array, y: Array, C: float, beta: float) -> float:
    """The minimum of (E3) for labels y = ±1 under |b| <= beta, by an interior-point method on the primal."""
    n, d = Z.shape
    H, cost = np.zeros((d + 1 + n, d + 1 + n)), np.concatenate([np.zeros(d + 1), np.full(n, C / n)])
    H[range(d), range(d)] = 1.0
    margins = np.hstack([y[:, None] * Z, y[:, None], np.eye(n)])
    low = np.concatenate([np.full(d, -np.inf), [-beta], np.zeros(n)])
    high = np.concatenate([np.full(d, np.inf), [beta], np.full(n, np.inf)])
    solver = piqp.DenseSolver()
    solver.settings.eps_abs, solver.settings.eps_rel = 1e-9, 1e-10
    solver.setup(H, cost, None, None, margins, np.ones(n), None, low, high)
    solver.solve()
    w, b = solver.result.x[:d], np.clip(solver.result.x[d], -beta, beta)
    return float(0.5 * w @ w + C * np.maximum(0.0, 1.0 - y * (Z @ w + b)).mean())


def lowest_of_all_labellings(Z: Array, C: float, beta: float) -> float:
    """The minimum of (E2): every labelling tried, up to the sign."""
    n = len(Z)
    bits = (np.arange(2 ** (n - 1))[:, None] >> np.arange(n)) & 1
    return min(svm(Z, y, C, beta) for y in 1.0 - 2.0 * bits)


@pytest.mark.slow
def test_the_best_of_many_random_starts_is_the_minimum_over_all_labellings() -> None:
    C, beta = 10.0, 0.03
    off = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((int(rng.integers(6, 11)), int(rng.integers(1, 5))))
        reached = min(
            CuttingPlaneMMC(
                C=C,
                balance=beta,
                min_size=0,
                init="random",
                n_init=200,
                epsilon=1e-6,
                order=order,
                scale="none",
                random_state=seed,
            )
            .fit(X)
            .objective_
            for order in ("outside", "inside")
        )
        wanted = lowest_of_all_labellings(centred(X), C, beta)
        off.append(reached / wanted - 1.0)
    assert min(off) > -1e-6
    assert sum(difference < 1e-3 for difference in off) >= 19, off


# ------------------------------------------------------------------------------------------------- step by step


class Watched:
    """A solver on small data, with what a test needs to look behind it."""

    def __init__(self, X: Array, engine: Local, geometry: Any, problem: Problem) -> None:
        self.Z = (X - geometry.mean) / geometry.unit
        self.dataset = engine.dataset
        self.problem = problem
        self.solver = CuttingPlane(problem, engine.run)

    def labels(self, run: Run) -> Array:
        """The run's current labels."""
        return np.concatenate([run.labelling.of(block) for block in self.dataset.blocks])

    def steps(self, labellings: list[Labelling], most: int = 300) -> Iterator[State]:
        """The states after each pass."""
        state = self.solver.init(labellings, self.Z.shape[1])
        for _ in range(most):
            if self.solver.done(state):
                return
            state = self.solver.step(state)
            yield state
        raise AssertionError(f"not done after {most} passes")

    def losses(self, W: Array, b: Array, labels: Array) -> float:
        """The mean hinge loss of labels."""
        f = self.Z @ W.T + b
        if len(W) == 1:
            margin = np.where(labels == 1, f[:, 0], -f[:, 0])
        else:
            own = f[np.arange(len(f)), labels]
            f[np.arange(len(f)), labels] = -np.inf
            margin = own - f.max(axis=1)
        return float(np.maximum(0.0, 1.0 - margin).mean())


@contextmanager
def watched(X: Array, k: int = 2, given: Array | None = None, **options: Any) -> Iterator[Watched]:
    dataset = open_dataset(X)
    if given is not None:
        dataset = dataset.with_columns(given=given)
    with Local(dataset, 1) as engine:
        geometry, dataset = measure(dataset, engine.rows, "none")
    settings: dict[str, Any] = {
        "C": 10.0,
        "balance": 0.03,
        "epsilon": 1e-3,
        "inside": False,
        "lowest": 0.0,
        "highest": 1.0,
        "wide": k > 2,
        "loss": LOSSES["hinge"],
        **options,
    }
    with Local(dataset, 1) as engine:
        problem = Problem(
            n_clusters=k,
            geometry=geometry,
            sample=lambda: geometry.apply(X),
            **settings,
        )
        yield Watched(X, engine, geometry, problem)


def clouds(seed: int, n: int, d: int, k: int, first: float | None = None) -> Array:
    """Overlapping clouds, the first with a given share of the rows: labels go on changing for a while."""
    rng = np.random.default_rng(seed)
    share = np.full(k, 1 / k) if first is None else np.array([first] + (k - 1) * [(1 - first) / (k - 1)])
    return rng.standard_normal((n, d)) + 1.5 * rng.standard_normal((k, d))[rng.choice(k, n, p=share)]


@dataclass(frozen=True)
class Steep(PiecewiseLinear):
    """max(0, 2 - 2 t)."""

    knots = (1.0,)
    intercepts = (2.0, 0.0)
    slopes = (-2.0, 0.0)


@pytest.mark.parametrize("k", [2, 3])
def test_a_loss_twice_as_steep_with_half_its_weight_is_the_same_problem(k: int) -> None:
    X = clouds(1, 80, 4, k)
    labels = np.random.default_rng(1).integers(k, size=80)
    ends = []
    for loss, C in ((LOSSES["hinge"], 20.0), (Steep(), 10.0)):
        with watched(X, k=k, given=labels, C=C, epsilon=1e-4 * 20 / C, loss=loss) as small:
            *_, state = small.steps([Given()])
            ends.append(small.solver.best(state).best.value)
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)


@pytest.mark.parametrize("seed", range(8))
def test_two_clusters_of_the_k_wide_code_are_the_binary_problem(seed: int) -> None:
    X = clouds(seed, 60, 4, 2)
    labels = np.random.default_rng(seed).integers(2, size=60)
    ends = {}
    for k_wide, C in ((False, 20.0), (True, 10.0)):
        with watched(X, given=labels, C=C, epsilon=1e-5, k_wide=k_wide, wide=True) as small:
            *_, state = small.steps([Given()])
            run = small.solver.best(state)
            ends[k_wide] = run.best, small.labels(run), run.gap
    (one, labels_one, gap_one), (two, labels_two, gap_two) = ends[False], ends[True]
    np.testing.assert_array_equal(labels_one, labels_two)
    # both are within their certified gaps of one and the same minimum
    assert one.value == pytest.approx(2.0 * two.value, abs=gap_one + 2.0 * gap_two + 1e-9)
    assert one.value == pytest.approx(2.0 * two.value, rel=1e-4)
    np.testing.assert_allclose(one.W[0], two.W[1] - two.W[0], atol=0.02)
    np.testing.assert_allclose(two.W.sum(axis=0), 0.0, atol=1e-9)


@pytest.mark.parametrize(("k", "bounds"), [(2, (0.0, 1.0)), (3, (0.0, 1.0)), (5, (0.0, 1.0)), (3, (0.05, 1.0))])
@pytest.mark.parametrize("seed", range(4))
def test_cccp_outside_never_raises_the_objective(seed: int, k: int, bounds: tuple[float, float]) -> None:
    X = clouds(seed, 150, 5, k)
    with watched(X, k, C=30.0, lowest=bounds[0], highest=bounds[1]) as small:
        taken: list[float] = []
        reseeded = 0
        for state in small.steps([Drawn(seed, 0, k)]):
            run = state.runs[0]
            if run.reseeded > reseeded:
                taken, reseeded = [], run.reseeded
            elif np.isfinite(run.opened) and (not taken or run.opened != taken[-1]):
                taken.append(run.opened)  # the objective where labels were taken
        assert taken == sorted(taken, reverse=True)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_the_gap_at_the_end_is_certified_and_below_the_tolerance(seed: int, inside: bool) -> None:
    X = clouds(seed, 40, 3, 2)
    with watched(X, inside=inside, epsilon=1e-4) as small:
        p = small.problem
        labels = []
        for state in small.steps([Drawn(seed, 0, 2)]):
            run = state.runs[0]
            labels.append(small.labels(run))
        y = 2.0 * labels[-2] - 1.0  # of the last convex problem
        lowest = svm(small.Z, y, p.C, p.balance)
        assert run.gap <= p.tolerance
        assert run.bound <= lowest * (1 + 1e-8)
        assert run.best.value <= lowest + p.tolerance


def heights_and_losses(small: Watched, run: Run, rng: np.random.Generator) -> Iterator[tuple[Array, float]]:
    """At random points, what the planes say at least and what the loss of the current labels is."""
    labels, planes = small.labels(run), run.planes
    for _ in range(5):
        W, b = 3.0 * rng.standard_normal(run.at.W.shape), rng.standard_normal(run.at.b.shape)
        yield planes.intercepts - planes.slopes @ W.ravel() - planes.tilts @ b, small.losses(W, b, labels)


@pytest.mark.parametrize(("k", "inside"), [(2, False), (2, True), (3, False)])
@pytest.mark.parametrize("seed", range(5))
def test_moved_planes_stay_below_the_loss_of_the_current_labels(seed: int, k: int, inside: bool) -> None:
    rng = np.random.default_rng(seed)
    checked = 0
    with watched(clouds(seed, 60, 3, k), k, inside=inside, C=30.0) as small:
        for state in small.steps([Drawn(seed, 0, k)]):
            for heights, loss in heights_and_losses(small, state.runs[0], rng):
                assert np.all(heights <= loss + 1e-9)
                checked += len(heights)
    assert checked > 50


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_planes_of_priced_labels_stay_below_the_loss_too(seed: int, inside: bool) -> None:
    rng = np.random.default_rng(seed)
    blobs = np.repeat([0, 1], [54, 6])
    X = rng.standard_normal((60, 3)) + 5.0 * blobs[:, None]
    dearest = 0.0
    # a small blob far away that must be given half of the rows: prices are larger than the margin
    with watched(X, given=blobs, inside=inside, lowest=0.45, C=1000.0) as small:
        for state in small.steps([Given()]):
            for heights, loss in heights_and_losses(small, state.runs[0], rng):
                assert np.all(heights <= loss + 1e-9)
            dearest = max(dearest, float(np.abs(state.runs[0].planes.prices).max(initial=0.0)))
    assert dearest > 0.5


def test_planes_are_exact_where_they_were_cut() -> None:
    X = clouds(0, 60, 3, 3)
    with watched(X, 3, C=30.0) as small:
        for state in small.steps([Drawn(0, 0, 3)]):
            run = state.runs[0]
            labels = small.labels(run)
            g = small.problem.geometry
            for W, b, height in zip(
                run.planes.points * g.unit,
                run.planes.offsets + run.planes.points @ g.mean,
                zip(run.planes.intercepts, run.planes.slopes, run.planes.tilts, strict=True),
                strict=True,
            ):
                a, z, s = height
                assert a - z @ W.ravel() - s @ b == pytest.approx(small.losses(W, b, labels), abs=1e-9)


def test_runs_share_passes_and_do_not_disturb_each_other() -> None:
    X = clouds(1, 120, 4, 2)
    passes = []
    with watched(X, inside=True, wide=True) as small:
        oracle = small.solver.oracle
        small.solver.oracle = lambda work, params: passes.append(work) or oracle(work, params)
        starts: list[Labelling] = [Drawn(0, run, 2) for run in range(4)]
        *_, together = small.steps(starts)
        shared = len(passes)
        alone = []
        for start in starts:
            *_, state = small.steps([start])
            alone.append(state.runs[0].best.value)
    assert [run.best.value for run in together.runs] == alone
    assert shared < len(passes) - shared


# ------------------------------------------------------------------------------------- weights, and hard cases


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("order", ["inside", "outside"])
@pytest.mark.parametrize("k", [2, 3])
def test_whole_number_weights_are_repetition(order: str, k: int) -> None:
    rng = np.random.default_rng(k)
    X = clouds(k, 80, 4, k)
    weight = rng.integers(1, 4, size=80)
    labels = rng.integers(k, size=80)
    settings: dict[str, Any] = {"order": order, "scale": "none", "epsilon": 1e-4, "min_size": 0}
    light = CuttingPlaneMMC(k, init=labels, **settings).fit(X, sample_weight=weight)
    long = CuttingPlaneMMC(k, init=np.repeat(labels, weight), **settings).fit(np.repeat(X, weight, axis=0))
    assert light.objective_ == pytest.approx(long.objective_, rel=1e-6)
    # clusters are numbered by size, and a row counts once or several times
    same = light.predict(X), long.predict(X)
    pairs = set(zip(*(column.tolist() for column in same), strict=True))
    assert len(pairs) == k


def test_weights_of_zero_are_rows_that_are_not_there() -> None:
    X = clouds(5, 90, 4, 2)
    labels = np.random.default_rng(5).integers(2, size=90)
    weight = np.ones(90)
    weight[60:] = 0.0
    light = CuttingPlaneMMC(init=labels, scale="none").fit(X, sample_weight=weight)
    short = CuttingPlaneMMC(init=labels[:60], scale="none").fit(X[:60])
    assert light.objective_ == pytest.approx(short.objective_, rel=1e-9)
    np.testing.assert_allclose(np.abs(light.coef_), np.abs(short.coef_), rtol=1e-6)


@pytest.mark.parametrize("k", [2, 3])
def test_random_labels_do_not_end_at_the_hyperplane_that_is_zero(k: int) -> None:
    X = clouds(3, 300, 6, k)
    labels = np.arange(300) % k  # as good as random: w = 0 is all but optimal for them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CuttingPlaneMMC(k, init=labels, order="outside").fit(X)
    assert np.abs(model.coef_).max() > 0
    assert np.bincount(model.labels_, minlength=k).min() > 0


@pytest.mark.parametrize("order", ["inside", "outside"])
def test_trouble_in_the_master_is_a_warning_and_the_best_iterate_is_kept(
    order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = clouds(2, 100, 4, 2)
    whole = CuttingPlaneMMC(order=order, random_state=0).fit(X)
    solve = dual_qp.solve

    def poor(*arguments: Any) -> dual_qp.Solved:
        """A master that never gets below a gap of C / 2."""
        solved = solve(*arguments)
        return solved._replace(lower_bound=solved.value - 0.5 * arguments[3])

    monkeypatch.setattr(dual_qp, "solve", poor)
    with pytest.warns(ConvergenceWarning, match="gap of"):
        model = CuttingPlaneMMC(order=order, random_state=0).fit(X)
    assert model.n_iter_ < 300
    assert model.choices_["ended"] == "stalled"
    assert model.gap_ > 1.0
    assert model.objective_ == pytest.approx(whole.objective_, rel=0.1)
    assert set(model.labels_) == {0, 1}


@pytest.mark.parametrize("order", ["inside", "outside"])
def test_a_master_that_repeats_itself_ends(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X = clouds(2, 100, 4, 3)
    solve = dual_qp.solve

    def stuck(gram: Any, intercepts: Any, tilts: Any, C: float, *rest: Any) -> dual_qp.Solved:
        solved = solve(gram, intercepts, tilts, C, *rest)
        weight = np.zeros(len(solved.multipliers))
        weight[0] = C  # always the first plane alone
        return solved._replace(multipliers=weight)

    monkeypatch.setattr(dual_qp, "solve", stuck)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CuttingPlaneMMC(3, order=order, random_state=0).fit(X)
    assert model.n_iter_ < 1000
    assert np.isfinite(model.coef_).all()
