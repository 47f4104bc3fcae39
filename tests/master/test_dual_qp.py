"""The master: certified answers to the small dual QP whatever the planes, and a consistent working set."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize

from dmmc.master import dual_qp
from dmmc.master.active_set import ascend
from dmmc.master.dual_qp import Solved, solve
from dmmc.master.planes import Planes

Floats = NDArray[np.float64]


class Problem(NamedTuple):
    """A master with its slopes, which the master itself never sees."""

    slopes: Floats
    intercepts: Floats
    tilts: Floats
    C: float
    box: float

    def solve(self, **options: Any) -> Solved:
        gram = self.slopes @ self.slopes.T
        return solve(gram, self.intercepts, self.tilts, self.C, self.box, **options)

    def value(self, w: Floats, b: Floats) -> float:
        """(E5) from its definition."""
        heights = self.intercepts - self.slopes @ w - self.tilts @ b
        return float(0.5 * w @ w + self.C * max(0.0, heights.max()))

    def rounds(self, warm: Floats | None = None, tolerance: float = 1e-6) -> int:
        """How long the solver works from a given start."""
        gram = self.slopes @ self.slopes.T
        scaled = dual_qp._scale(gram, self.intercepts, self.tilts, self.C, self.box)
        start = dual_qp._start(warm, scaled.groups, np.array([self.C]))
        return int(ascend(*scaled, start, tolerance, dual_qp._BUDGET)[2])


def a_problem(seed: int, m: int, P: int, dimensions: int, C: float, box: float) -> Problem:
    """Planes like those of a loss: intercepts in [0, 1], slopes and tilts of a mean of unit rows."""
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=(m, dimensions)) * 0.5 / np.sqrt(dimensions)
    tilts = rng.normal(size=(m, P)) * 0.2
    if P > 1:
        tilts -= tilts.mean(axis=1, keepdims=True)
    return Problem(slopes, rng.random(m), tilts, C, box)


problems = st.builds(
    a_problem,
    seed=st.integers(0, 10**6),
    m=st.integers(1, 8),
    P=st.sampled_from([1, 2, 3, 5]),
    dimensions=st.integers(1, 4),
    C=st.sampled_from([0.1, 1.0, 10.0, 100.0, 1e4]),
    box=st.sampled_from([0.0, 0.03, 0.3, 1.0]),
)


def a_sequence(k: int, C: float, beta: float, rounds: int = 40) -> list[tuple[Problem, Floats]]:
    """What a cutting-plane method meets on clustered rows, labels fixed: masters and their warm starts."""
    rng = np.random.default_rng(0)
    n, d = 400, 10
    y = rng.integers(k, size=n)
    X = rng.normal(size=(k, d))[y] + rng.normal(size=(n, d))
    y[rng.random(n) < 0.1] = 0
    X -= X.mean(axis=0)
    X /= np.sqrt((X**2).sum(axis=1).mean())
    W, b, rows = np.zeros((k, d)), np.zeros(k), np.arange(n)
    planes, met = Planes.empty(k, d), []
    for _ in range(rounds):
        scores = X @ W.T + b
        own = scores[rows, y]
        scores[rows, y] = -np.inf
        rival = scores.argmax(axis=1)
        inside = (own - scores[rows, rival] < 1).astype(float)
        coefficients = np.zeros((n, k))
        np.add.at(coefficients, (rows, y), inside)
        np.add.at(coefficients, (rows, rival), -inside)
        planes = planes.add(W, b, inside.mean(), coefficients.T @ X / n, coefficients.mean(axis=0))
        problem = Problem(planes.slopes, planes.intercepts, planes.tilts, C, beta / 2)
        met.append((problem, planes.multipliers))
        solved = problem.solve(warm=planes.multipliers)
        planes = planes.record_solution(solved.multipliers, C).drop_idle(10)
        W, b = planes.weights(), solved.bias
    return met


def assert_certified(problem: Problem, solved: Solved) -> None:
    """Feasible, honest about both values, and the one no lower than the other."""
    lam, C, box = solved.multipliers, problem.C, problem.box
    assert lam.shape == problem.intercepts.shape
    assert (lam >= 0).all()
    assert lam.sum() <= C * (1 + 1e-12)
    if solved.bias.size == 1:
        assert np.abs(solved.bias).max() <= box
    else:
        assert abs(solved.bias.sum()) <= 1e-12 * (1 + box)
        assert np.ptp(solved.bias) <= 2 * box * (1 + 1e-12)
    w = problem.slopes.T @ lam
    # heights are differences of numbers as large as C |z|^2
    rounding = float(1e-14 * C * (1 + C * (problem.slopes**2).sum(axis=1).max(initial=0.0)))
    assert solved.value == pytest.approx(problem.value(w, solved.bias), abs=rounding)
    dual = problem.intercepts @ lam - 0.5 * w @ w - box * np.abs(problem.tilts.T @ lam).sum()
    assert solved.lower_bound == pytest.approx(dual, abs=rounding)
    assert solved.lower_bound <= solved.value


def reference_by_slsqp(problem: Problem) -> float:
    """The primal itself by another method: a value that is reached, so never below the optimum."""
    d, P = problem.slopes.shape[1], problem.tilts.shape[1]
    planes = np.hstack([problem.slopes, problem.tilts, np.ones((problem.intercepts.size, 1))])
    # the slack is free to move the planes, so the weight of the loss is in units of itself
    found = minimize(
        lambda x: (0.5 * x[:d] @ x[:d]) / problem.C + x[-1],
        np.append(np.zeros(d + P), problem.intercepts.max()),
        jac=lambda x: np.concatenate([x[:d] / problem.C, np.zeros(P), [1.0]]),
        bounds=[(None, None)] * d + [(-problem.box, problem.box)] * P + [(0, None)],
        constraints={
            "type": "ineq",
            "fun": lambda x: planes @ x - problem.intercepts,
            "jac": lambda x: planes,
        },
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return problem.value(found.x[:d], np.clip(found.x[d : d + P], -problem.box, problem.box))


def reference_by_piqp(problem: Problem) -> float:
    """The primal by an interior-point method."""
    import piqp

    m, d = problem.slopes.shape
    P = problem.tilts.shape[1]
    size = d + P + 1
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-11
    # in units of C and of the square root of C, so that all numbers are near 1
    solver.setup(
        np.asfortranarray(np.diag(np.append(np.ones(d), np.zeros(P + 1)))),
        np.append(np.zeros(d + P), 1.0),
        G=np.asfortranarray(np.hstack([np.sqrt(problem.C) * problem.slopes, problem.tilts, np.ones((m, 1))])),
        h_l=problem.intercepts,
        x_l=np.concatenate([np.full(d, -np.inf), np.full(P, -problem.box), [0.0]]),
        x_u=np.concatenate([np.full(d, np.inf), np.full(P, problem.box), [np.inf]]),
    )
    solver.solve()
    x = solver.result.x[:size]
    return problem.value(np.sqrt(problem.C) * x[:d], np.clip(x[d : d + P], -problem.box, problem.box))


@settings(max_examples=150, deadline=None)
@given(problems)
def test_the_optimum_is_the_one_that_slsqp_finds(problem: Problem) -> None:
    solved, reference = problem.solve(tolerance=1e-9), reference_by_slsqp(problem)
    assert_certified(problem, solved)
    assert solved.lower_bound <= reference + 1e-9 * problem.C
    assert solved.value <= reference + 2e-9 * problem.C


@settings(max_examples=100, deadline=None)
@given(problems)
def test_the_optimum_is_the_one_that_an_interior_point_method_finds(problem: Problem) -> None:
    solved, reference = problem.solve(tolerance=1e-9), reference_by_piqp(problem)
    assert solved.lower_bound <= reference + 1e-9 * problem.C
    assert solved.value == pytest.approx(reference, abs=1e-6 * problem.C)


@settings(max_examples=100, deadline=None)
@given(problems, st.sampled_from([1e-2, 1e-4, 1e-6, 1e-9]))
def test_the_gap_is_within_the_tolerance_asked_for(problem: Problem, tolerance: float) -> None:
    solved = problem.solve(tolerance=tolerance)
    assert_certified(problem, solved)
    assert solved.solver == "active-set"
    assert solved.value - solved.lower_bound <= tolerance * problem.C


@pytest.mark.parametrize("beta", [0.0, 0.03, 0.3])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_two_clusters_k_wide_are_the_binary_problem(C: float, beta: float) -> None:
    binary = a_problem(3, 12, 1, 5, C, beta)
    z, s = binary.slopes, binary.tilts
    wide = Problem(np.hstack([z, -z]), binary.intercepts, np.hstack([s, -s]), C / 2, beta / 2)
    one, two = binary.solve(tolerance=1e-10), wide.solve(tolerance=1e-10)
    assert two.value == pytest.approx(one.value / 2, rel=1e-8)
    assert two.lower_bound == pytest.approx(one.lower_bound / 2, rel=1e-8)
    w = z.T @ one.multipliers
    np.testing.assert_allclose(wide.slopes.T @ two.multipliers, np.append(w, -w) / 2, atol=1e-4 * np.abs(w).max())
    assert binary.value(w, np.array([two.bias[0] - two.bias[1]])) == pytest.approx(one.value, rel=1e-6)


@pytest.mark.parametrize(("k", "C", "beta"), [(2, 1e4, 0.3), (3, 100.0, 0.03), (10, 1000.0, 0.3), (5, 10.0, 0.0)])
def test_a_cutting_plane_run_needs_no_fallback_and_warm_starts_save_work(k: int, C: float, beta: float) -> None:
    warm_rounds = cold_rounds = 0
    for problem, warm in a_sequence(k, C, beta):
        solved, cold = problem.solve(warm=warm), problem.solve()
        for answer in (solved, cold):
            assert_certified(problem, answer)
            assert answer.solver == "active-set"
            assert answer.value - answer.lower_bound <= 1e-6 * C
        assert solved.value == pytest.approx(cold.value, abs=2e-6 * C)
        warm_rounds += problem.rounds(warm)
        cold_rounds += problem.rounds()
    assert warm_rounds < 0.5 * cold_rounds


def test_the_solution_as_warm_start_is_recognised_at_once_when_there_is_no_bias() -> None:
    problem = a_problem(5, 30, 1, 10, 100.0, 0.0)
    assert problem.rounds() > 3
    assert problem.rounds(problem.solve().multipliers) == 0


@pytest.mark.parametrize(
    "warm",
    [
        np.zeros(0),
        np.full(3, 5.0),
        np.full(20, 1e9),
        np.full(20, -1.0),
        np.full(50, 2.0),
        np.linspace(-10, 10, 20),
        np.full(20, 1e-300),
    ],
    ids=["empty", "shorter", "far over budget", "negative", "longer", "mixed", "vanishing"],
)
@pytest.mark.parametrize("P", [1, 4])
def test_any_warm_start_leads_to_the_same_optimum(warm: Floats, P: int) -> None:
    problem = a_problem(7, 20, P, 6, 50.0, 0.1)
    solved = problem.solve(warm=warm)
    assert_certified(problem, solved)
    assert solved.value - solved.lower_bound <= 1e-6 * 50
    assert solved.value == pytest.approx(problem.solve().value, abs=2e-6 * 50)


def test_planes_that_all_moved_a_little_are_solved_from_the_old_weights() -> None:
    problem = a_sequence(4, 100.0, 0.1)[-1][0]
    old = problem.solve().multipliers
    rng = np.random.default_rng(1)
    moved = problem._replace(slopes=problem.slopes + 1e-4 * rng.normal(size=problem.slopes.shape))
    solved = moved.solve(warm=old)
    assert_certified(moved, solved)
    assert solved.value - solved.lower_bound <= 1e-6 * 100
    assert moved.rounds(old) < 0.5 * moved.rounds()


def test_the_same_input_gives_the_same_bits() -> None:
    problem = a_problem(11, 40, 6, 15, 300.0, 0.2)
    first, second = problem.solve(), problem.solve()
    np.testing.assert_array_equal(first.multipliers, second.multipliers)
    np.testing.assert_array_equal(first.bias, second.bias)
    assert first[2:] == second[2:]


def taking(problem: Problem, change: Callable[[Floats], Floats]) -> Problem:
    """The same change to all that describes the planes."""
    z, a, s, C, box = problem
    return Problem(change(z), change(a), change(s), C, box)


def zero_slopes(problem: Problem) -> Problem:
    return problem._replace(slopes=np.zeros_like(problem.slopes))


def zero_planes(problem: Problem) -> Problem:
    return taking(problem, lambda part: 0.0 * part)


def some_zero_planes(problem: Problem) -> Problem:
    keep = (np.arange(problem.intercepts.size) % 3 > 0)[:, None]
    return Problem(problem.slopes * keep, problem.intercepts * keep[:, 0], problem.tilts * keep, *problem[3:])


def duplicates(problem: Problem) -> Problem:
    return taking(problem, lambda part: np.concatenate([part, part, part[:2]]))


def near_duplicates(problem: Problem) -> Problem:
    return problem._replace(slopes=problem.slopes[:1] + 1e-9 * problem.slopes)


def zero_intercepts(problem: Problem) -> Problem:
    return problem._replace(intercepts=np.zeros_like(problem.intercepts))


def zero_tilts(problem: Problem) -> Problem:
    return problem._replace(tilts=np.zeros_like(problem.tilts))


def no_box(problem: Problem) -> Problem:
    return problem._replace(box=0.0)


def wide_box(problem: Problem) -> Problem:
    return problem._replace(box=1e3)


def huge_C(problem: Problem) -> Problem:
    return problem._replace(C=1e9)


def tiny_C(problem: Problem) -> Problem:
    return problem._replace(C=1e-9)


def one_plane(problem: Problem) -> Problem:
    return taking(problem, lambda part: part[:1])


DEGENERATE = [
    zero_slopes,
    zero_planes,
    some_zero_planes,
    duplicates,
    near_duplicates,
    zero_intercepts,
    zero_tilts,
    no_box,
    wide_box,
    huge_C,
    tiny_C,
    one_plane,
]


@pytest.mark.parametrize("P", [1, 2, 7])
@pytest.mark.parametrize("degenerate", DEGENERATE)
def test_degenerate_planes_are_solved_to_the_tolerance(degenerate: Any, P: int) -> None:
    for seed in range(5):
        problem = degenerate(a_problem(seed, 25, P, 4, 30.0, 0.2))
        for warm in (None, np.full(problem.intercepts.size, problem.C)):
            solved = problem.solve(warm=warm)
            assert_certified(problem, solved)
            rounding = 2e-15 * (1 + problem.C * (problem.slopes**2).sum(axis=1).max())
            assert solved.value - solved.lower_bound <= max(1e-6, rounding) * problem.C


def test_without_planes_nothing_is_lost() -> None:
    solved = a_problem(0, 0, 2, 4, 30.0, 0.2).solve()
    assert solved.multipliers.size == 0
    assert (solved.value, solved.lower_bound) == (0.0, 0.0)
    np.testing.assert_array_equal(solved.bias, np.zeros(2))


@pytest.mark.parametrize("P", [1, 5])
@pytest.mark.parametrize("dent", [1e-14, 1e-9, 1e-3, 2.0])
def test_an_indefinite_gram_gives_a_feasible_answer_with_an_honest_gap(dent: float, P: int) -> None:
    for seed in range(10):
        problem = a_problem(seed, 30, P, 3, 100.0, 0.1)
        gram = problem.slopes @ problem.slopes.T
        gram -= dent * np.trace(gram) / 30 * np.eye(30)
        solved = solve(gram, problem.intercepts, problem.tilts, 100.0, 0.1)
        lam = solved.multipliers
        assert (lam >= 0).all()
        assert lam.sum() <= 100 * (1 + 1e-12)
        dual = problem.intercepts @ lam - 0.5 * lam @ gram @ lam - 0.1 * np.abs(problem.tilts.T @ lam).sum()
        assert solved.lower_bound == pytest.approx(dual, abs=1e-9)
        assert solved.lower_bound <= solved.value < np.inf
        if dent <= 1e-9:
            assert solved.value - solved.lower_bound <= 1e-6 * 100


@pytest.mark.parametrize(("m", "P"), [(300, 1), (300, 10), (120, 100)])
def test_the_largest_masters_are_solved(m: int, P: int) -> None:
    problem = a_problem(0, m, P, 200, 1000.0, 0.1)
    solved = problem.solve()
    assert_certified(problem, solved)
    assert solved.value - solved.lower_bound <= 1e-6 * 1000


@pytest.mark.parametrize("box", [0.0, 0.2])
@pytest.mark.parametrize("P", [1, 6])
def test_the_interior_point_method_answers_when_the_budget_is_spent(
    monkeypatch: pytest.MonkeyPatch, P: int, box: float
) -> None:
    problem = a_problem(2, 30, P, 8, 100.0, box)
    usual = problem.solve()
    monkeypatch.setattr(dual_qp, "_BUDGET", 0)
    solved = problem.solve()
    assert_certified(problem, solved)
    assert (usual.solver, solved.solver) == ("active-set", "piqp")
    assert solved.value - solved.lower_bound <= 1e-6 * 100
    assert solved.value == pytest.approx(usual.value, abs=2e-6 * 100)


def test_without_the_fallback_the_best_iterate_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = a_problem(2, 30, 6, 8, 100.0, 0.2)
    gaps = []
    monkeypatch.setitem(sys.modules, "piqp", None)
    for budget in (0, 5, 1000):
        monkeypatch.setattr(dual_qp, "_BUDGET", budget)
        solved = problem.solve()
        assert_certified(problem, solved)
        assert solved.solver == "active-set"
        gaps.append(solved.value - solved.lower_bound)
    assert gaps[0] >= gaps[1] > gaps[2]


def test_a_fallback_that_raises_or_returns_nonsense_leaves_the_first_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Nonsense:
        class DenseSolver:
            settings = SimpleNamespace()
            result = SimpleNamespace(x=np.full(100, np.nan), y=np.zeros(100))

            def setup(self, *arguments: Any, **options: Any) -> None: ...

            def solve(self) -> None: ...

    class Raising:
        class DenseSolver:
            def __init__(self) -> None:
                raise RuntimeError("no")

    problem = a_problem(2, 30, 1, 8, 100.0, 0.2)
    monkeypatch.setattr(dual_qp, "_BUDGET", 2)
    for fake in (Nonsense, Raising):
        monkeypatch.setitem(sys.modules, "piqp", fake)
        solved = problem.solve()
        assert_certified(problem, solved)
        assert solved.solver == "active-set"


def test_the_fallback_is_not_imported_for_an_ordinary_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def forbidding(name: str, *rest: Any, **options: Any) -> Any:
        assert name != "piqp"
        return real(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", forbidding)
    assert a_problem(1, 40, 3, 10, 100.0, 0.1).solve().solver == "active-set"


def some_planes(count: int, K: int = 3, d: int = 4, dtype: Any = np.float64) -> Planes:
    rng = np.random.default_rng(count)
    planes = Planes.empty(K, d, dtype)
    for _ in range(count):
        planes = planes.add(
            rng.normal(size=(K, d)),
            rng.normal(size=K),
            rng.random(),
            rng.normal(size=(K, d)),
            rng.normal(size=K),
        )
    return planes


def assert_consistent(planes: Planes) -> None:
    m, K, d = planes.points.shape
    assert planes.size == m
    assert planes.offsets.shape == planes.tilts.shape == (m, K)
    assert planes.slopes.shape == (m, K * d)
    for part in (planes.intercepts, planes.multipliers, planes.idle):
        assert part.shape == (m,)
    assert planes.idle.dtype == np.int64
    np.testing.assert_allclose(planes.gram, planes.slopes @ planes.slopes.T, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(planes.gram, planes.gram.T)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gram_grown_row_by_row_is_the_full_gram(dtype: Any) -> None:
    planes = some_planes(12, dtype=dtype)
    assert_consistent(planes)
    assert planes.points.dtype == planes.offsets.dtype == dtype
    assert planes.slopes.dtype == planes.gram.dtype == np.float64


def test_an_empty_working_set_has_no_planes_and_no_weights() -> None:
    planes = Planes.empty(2, 5)
    assert_consistent(planes)
    assert planes.size == 0
    np.testing.assert_array_equal(planes.weights(), np.zeros((2, 5)))
    assert planes.drop_idle(1).size == 0


def test_adding_a_plane_leaves_the_old_working_set_as_it_was() -> None:
    before = some_planes(3)
    copies = [part.copy() for part in before]
    after = before.add(np.ones((3, 4)), np.ones(3), 0.5, np.ones(12), np.ones(3))
    assert (before.size, after.size) == (3, 4)
    for one, other in zip(before, copies, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (after.multipliers[-1], after.idle[-1]) == (0.0, 0)


def test_moved_planes_keep_their_points_and_weights_and_have_a_new_gram() -> None:
    planes = some_planes(6).record_solution(np.arange(6.0), 15.0)
    rng = np.random.default_rng(9)
    slopes = rng.normal(size=(6, 3, 4))
    moved = planes.move(np.ones(6), slopes, np.zeros((6, 3)))
    assert_consistent(moved)
    np.testing.assert_array_equal(moved.slopes, slopes.reshape(6, 12))
    np.testing.assert_array_equal(moved.points, planes.points)
    np.testing.assert_array_equal(moved.multipliers, planes.multipliers)
    slopes[:] = 0.0
    assert_consistent(moved)


def test_idle_planes_are_counted_and_dropped_and_the_rest_is_consistent() -> None:
    planes = some_planes(5)
    weights = np.array([0.0, 4.0, 1e-12, 0.0, 6.0])
    for _ in range(3):
        planes = planes.record_solution(weights, 10.0)
    np.testing.assert_array_equal(planes.idle, [3, 0, 3, 3, 0])
    planes = planes.record_solution(np.array([1.0, 4.0, 0.0, 0.0, 5.0]), 10.0)
    np.testing.assert_array_equal(planes.idle, [0, 0, 4, 4, 0])
    assert planes.drop_idle(5) is planes
    kept = planes.drop_idle(4)
    assert_consistent(kept)
    np.testing.assert_array_equal(kept.intercepts, planes.intercepts[[0, 1, 4]])
    np.testing.assert_array_equal(kept.points, planes.points[[0, 1, 4]])
    np.testing.assert_allclose(kept.weights(), planes.weights(), atol=1e-12)


def test_one_plane_always_stays() -> None:
    planes = some_planes(4)
    for _ in range(3):
        planes = planes.record_solution(np.zeros(4), 1.0)
    planes = planes.add(np.ones((3, 4)), np.ones(3), 0.5, np.ones(12), np.ones(3)).record_solution(np.zeros(5), 1.0)
    kept = planes.drop_idle(1)
    assert_consistent(kept)
    np.testing.assert_array_equal(kept.intercepts, [0.5])


def test_the_weights_are_those_of_the_dual() -> None:
    planes = some_planes(5).record_solution(np.arange(5.0), 10.0)
    expected = sum(lam * z for lam, z in zip(planes.multipliers, planes.slopes, strict=True))
    np.testing.assert_allclose(planes.weights(), np.reshape(expected, (3, 4)))
