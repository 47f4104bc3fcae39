"""Evolutionary MMC against the definition by n x n matrices, and against every labelling of tiny data."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dmmc.data.dataset import cut_finer
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.kernels import label_climb
from dmmc.kernels.label_flips import flip_among
from dmmc.model.passes import Drawn, Given
from dmmc.solvers import sign_sums
from dmmc.solvers.driver import drive
from dmmc.solvers.evolution import Evolution, Problem
from dmmc.solvers.published_evolution import Published
from dmmc.solvers.sign_sums import Signs, Sweep
from dmmc.solvers.whitening import Whitened, whiten

Array = NDArray[Any]
NONE = np.zeros(0, np.int64)


# ------------------------------------------------------------------------------------------------ the definition


def kernel(X: Array, sigma: float = 1.5) -> Array:
    """exp(-|x - x'|² / σ²)."""
    return np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / sigma**2)


def fitness(K: Array, y: Array, ridge: float, weight: Array | None = None) -> float:
    """min_c Σ ω (y - Kc)² + λ cᵀKc with Σω = 1, by solving for c."""
    n = len(y)
    omega = np.full(n, 1.0 / n) if weight is None else weight / weight.sum()
    lam = ridge / (n if weight is None else weight.sum())
    c = np.linalg.solve(omega[:, None] * K + lam * np.eye(n), omega * y)
    return float(omega @ (y - K @ c) ** 2 + lam * c @ K @ c)


def features(K: Array, ridge: float, weight: Array | None = None) -> Array:
    """Rows ψ, in float64."""
    values, V = np.linalg.eigh(K)
    A = V * np.sqrt(np.maximum(values, 0.0))
    omega = np.ones(len(K)) if weight is None else weight
    M, _ = whiten(A.T @ (omega[:, None] * A), float(omega.sum()), ridge)
    return np.asarray(A @ M)


def cut(rows: Array, parts: int, weight: Array | None = None, given: Array | None = None) -> Any:
    """Rows in several blocks."""
    whole = open_dataset(rows).with_columns(weight, given)
    return cut_finer(whole, np.linspace(0, len(rows), parts + 1).astype(np.int64))


def problem(psi: Array, limit: float, **others: Any) -> Problem:
    """Of unweighted rows in one block, unless said otherwise."""
    asked = {"epsilon": 1e-10, "population": 1, "offspring": 1, "seed": 0, "together": True, **others}
    return Problem(n_features=psi.shape[1], n_rows=len(psi), total=float(len(psi)), limit=limit, **asked)


@pytest.fixture(scope="module")
def small() -> tuple[Array, Array, Array]:
    """Rows of two noisy groups, their kernel matrix, and signs with a balance of 2."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(-1, 1, (15, 3)), rng.normal(1, 1, (17, 3))])
    return X, kernel(X), np.where(rng.permutation(32) < 17, 1.0, -1.0)


@pytest.mark.parametrize("ridge", [0.5, 1 / 200, 1 / 1000])
def test_fitness_is_that_of_the_definition(small: tuple[Array, Array, Array], ridge: float) -> None:
    _, K, y = small
    p = y @ features(K, ridge) / len(y)
    assert 1.0 - p @ p == pytest.approx(fitness(K, y, ridge), abs=1e-10)


def test_weighted_fitness_is_that_of_the_definition_and_that_of_repeated_rows(
    small: tuple[Array, Array, Array],
) -> None:
    X, K, y = small
    weight = np.random.default_rng(1).integers(1, 4, len(y)).astype(float)
    p = (weight * y) @ features(K, 0.5, weight) / weight.sum()
    many = np.repeat(np.arange(len(y)), weight.astype(int))
    assert 1.0 - p @ p == pytest.approx(fitness(K, y, 0.5, weight), abs=1e-10)
    assert 1.0 - p @ p == pytest.approx(fitness(kernel(X[many]), y[many], 0.5), abs=1e-10)


@pytest.mark.parametrize("parts", [1, 3])
def test_the_gain_of_every_flip_is_that_of_the_definition(small: tuple[Array, Array, Array], parts: int) -> None:
    _, K, y = small
    psi, n = features(K, 0.5), len(y)
    p = y @ psi / n
    labels = Signs(np.zeros(psi.shape[1]), 1.0, 0, np.flatnonzero(y > 0))  # none is above 1, and those are flipped
    with Local(cut(psi, parts), 1) as engine:
        ((up, down),) = engine.run(sign_sums.gains, Sweep((labels,), p[None], float(n), n))
    before = fitness(K, y, 0.5)
    assert sorted([*up.number, *down.number]) == list(range(n))
    for best, sign in ((up, 1), (down, -1)):
        assert (y[best.number] == sign).all()
        assert (np.diff(best.gain) <= 0).all()
        for i, gain in zip(best.number, best.gain, strict=True):
            flipped = y.copy()
            flipped[i] *= -1
            assert gain == pytest.approx(before - fitness(K, flipped, 0.5), abs=1e-10)


def test_the_gain_of_a_swap_is_that_of_the_definition(small: tuple[Array, Array, Array]) -> None:
    _, K, y = small
    n, ridge = len(y), 1 / 200
    phi = features(K, ridge) / n
    before, seen = fitness(K, y, ridge), 0
    for i in np.flatnonzero(y > 0):
        for j in np.flatnonzero(y < 0):
            swapped, two = y.copy(), np.array([i, j])
            swapped[two] *= -1
            truth = before - fitness(K, swapped, ridge)
            pair = y[two].copy()  # the balance leaves nothing but the swap
            gained, balance = flip_among(
                2, phi[two] @ phi[two].T, phi[two] @ (phi.T @ y), pair, np.ones(2), y.sum(), abs(y.sum()) + 0.5, 0.0
            )
            swap = (pair != y[two]).all()
            if swap:
                seen += 1
                assert gained == pytest.approx(truth, abs=1e-10)
                assert balance == y.sum()
            else:
                assert truth <= max(gained, 0.0) + 1e-12
    assert seen > 10


# ------------------------------------------------------------------------------------------------ balanced signs


def by_sorting(f: Array, weight: Array, limit: float) -> Array:
    """Signs of f; the least confident rows of the larger side move until |Σ ω y| <= limit; of equal ones + is first."""
    y = np.where(f >= 0, 1.0, -1.0)
    side = np.sign(weight @ y)
    order = sorted(np.flatnonzero(y == side), key=lambda i: (abs(f[i]), -i if side > 0 else i))
    for i in order:
        if abs(weight @ y) <= limit * (1 + 1e-12):
            break
        y[i] = -side
    return y


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("listed", [10**6, 10])
@pytest.mark.parametrize("kind", ["plain", "ties", "weights", "far"])
def test_balanced_signs_are_those_of_a_sort(
    monkeypatch: pytest.MonkeyPatch, parts: int, listed: int, kind: str
) -> None:
    monkeypatch.setattr(sign_sums, "LISTED", listed)
    rng = np.random.default_rng(2)
    rows = rng.normal(0.4, 1.0, (101, 3))
    if kind == "ties":
        rows = rng.integers(-1, 3, (101, 3)).astype(float)
    if kind == "far":
        rows *= 30.0
    weight = rng.integers(1, 4, 101).astype(float) if kind == "weights" else None
    omega = np.ones(101) if weight is None else weight
    W = np.vstack([rng.normal(size=(4, 3)), np.eye(3), -np.eye(3), np.full((1, 3), 1 / 3)])
    with Local(cut(rows, parts, weight), 1) as engine:
        for limit in (3.0, 10.0, 40.0):
            found = sign_sums.find_thresholds(engine.run, W, 101, float(omega.sum()), limit)
            labellings = tuple(Signs(w, at.threshold, at.cut, NONE) for w, at in zip(W, found, strict=True))
            Y = np.concatenate(list(engine.rows(sign_sums.signs_of, labellings)), axis=1)
            scores = np.concatenate(
                [sign_sums.kernels.exact_scores(block.rows, W) for block in engine.dataset.blocks], axis=1
            )
            for y, f in zip(Y, scores, strict=True):
                wanted = by_sorting(f, omega, limit)
                assert abs(omega @ y) <= limit
                assert (y == wanted).all() or kind == "weights"
                if kind == "weights":  # the same threshold, as nearly as whole weights allow
                    assert np.count_nonzero(y != wanted) <= 1


@pytest.mark.parametrize("kind", ["plain", "ties"])
def test_a_climb_balances_signs_as_a_sort_does(kind: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        f = rng.normal(rng.normal(), 1.0, 101) if kind == "plain" else rng.integers(-2, 4, 101).astype(float)
        for sign in (1.0, -1.0):
            y = np.empty(101, np.int8)
            label_climb._balance_signs(sign * f, np.ones(101), 3.0, y)
            assert (y == by_sorting(sign * f, np.ones(101), 3.0)).all()


@pytest.mark.parametrize("parts", [1, 3])
def test_an_ascent_never_lowers_the_fitness_of_balanced_signs(small: tuple[Array, Array, Array], parts: int) -> None:
    _, K, _ = small
    psi, rng = features(K, 5.0), np.random.default_rng(3)  # less, and all signs would stay
    n, rose = len(psi), 0
    with Local(cut(psi, parts), 1) as engine:
        for _ in range(30):
            y = np.where(rng.permutation(n) < rng.integers(n // 2 - 2, n // 2 + 3), 1.0, -1.0)
            p = y @ psi / n
            (at,) = sign_sums.find_thresholds(engine.run, p[None], n, float(n), 4.0)
            sums = engine.run(sign_sums.sum_signed, (Signs(p, at.threshold, at.cut, NONE),))
            after = sums.weighted[0] / n
            assert after @ after >= p @ p - 1e-12
            assert abs(sums.balance[0]) <= 4
            rose += after @ after > p @ p + 1e-9
    assert rose > 20


# ------------------------------------------------------------------------------------------------ whole searches


def lowest_of_all(K: Array, ridge: float, limit: int) -> float:
    """Every balanced labelling tried, up to the sign."""
    n, best = len(K), np.inf
    inverse = ridge / n * np.linalg.inv(K + ridge * np.eye(n))
    for count in range(n + 1):
        if abs(n - 2 * count) <= limit:
            for chosen in combinations(range(n), count):
                y = -np.ones(n)
                y[list(chosen)] = 1.0
                best = min(best, float(y @ inverse @ y))
    return best


@pytest.mark.parametrize(("n", "limit"), [(10, 2), (11, 1), (12, 0)])
@pytest.mark.slow
def test_sweeps_and_the_published_mutation_find_the_optimum_of_tiny_data(n: int, limit: int) -> None:
    rng = np.random.default_rng(n)
    K = kernel(rng.normal(size=(n, 2)), 1.0)
    best = lowest_of_all(K, 0.1, limit)
    psi = features(K, 0.1)
    for parts in (1, 2):
        with Local(cut(psi, parts), 1) as engine:
            ours = Evolution(problem(psi, max(limit, 1.0), together=parts == 1), engine.run)
            begun = ours.init([[Drawn(0, run, 2)] for run in range(10)])
            state, history, why = drive(ours, begun, max_iter=10_000)
        assert why == "done"
        assert ours.best(state)[0].fitness == pytest.approx(best, abs=1e-9)
        assert history[-1]["objective"] == pytest.approx(best, abs=1e-9)
    theirs = Published(problem(psi, max(limit, 1.0), population=3, offspring=3), lambda: psi, np.ones(n))
    state, history, why = drive(theirs, theirs.init(10), max_iter=10_000)
    assert why == "done"
    assert history[-1]["objective"] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("parts", [1, 3])
def test_no_flip_and_no_swap_improves_where_a_search_ends(small: tuple[Array, Array, Array], parts: int) -> None:
    _, K, _ = small
    psi = features(K, 1 / 200)
    n = len(psi)
    with Local(cut(psi, parts), 1) as engine:
        solver = Evolution(problem(psi, 4.0, offspring=0, together=parts == 1), engine.run)
        state, history, _ = drive(solver, solver.init([[Drawn(1, run, 2)] for run in range(5)]), max_iter=1000)
        best = [run.people[0] for run in state.runs]
        Y = np.concatenate(list(engine.rows(sign_sums.signs_of, tuple(one.signs for one in best))), axis=1).astype(
            float
        )
    assert (np.diff([line["objective"] for line in history]) <= 1e-12).all()
    for one, y in zip(best, Y, strict=True):
        assert one.fitness == pytest.approx(fitness(K, y, 1 / 200), abs=1e-9)
        assert one.balance == y.sum()
        assert abs(y.sum()) <= 4
        for two in combinations(range(n), 2):
            for flips in ([two[0]], [two[1]], list(two)):
                other = y.copy()
                other[flips] *= -1
                if abs(other.sum()) <= 4 and (len(flips) == 1 or y[two[0]] != y[two[1]]):
                    assert fitness(K, other, 1 / 200) >= one.fitness - 1e-8


def test_offspring_find_what_one_climb_misses() -> None:
    rng = np.random.default_rng(5)
    psi = features(kernel(rng.normal(size=(60, 2)), 0.7), 0.1)
    with Local(cut(psi, 1), 1) as engine:

        def lowest(**asked: Any) -> float:
            solver = Evolution(problem(psi, 4.0, **asked), engine.run)
            return solver.best(drive(solver, solver.init([[Drawn(0, 0, 2)]]), max_iter=1000)[0])[0].fitness

        assert lowest(population=4, offspring=8) < lowest(offspring=0) - 1e-6


def test_given_labels_are_a_start(small: tuple[Array, Array, Array]) -> None:
    _, K, _ = small
    psi = features(K, 0.5)
    truth = (np.arange(32) >= 15).astype(np.int64)
    with Local(cut(psi, 2, given=truth), 1) as engine:
        solver = Evolution(problem(psi, 4.0, offspring=0, together=False), engine.run)
        state, _, _ = drive(solver, solver.init([[Given()]]), max_iter=1000)
    assert solver.best(state)[0].fitness <= fitness(K, 2.0 * truth - 1.0, 0.5) + 1e-12


def test_whitened_rows_are_those_of_the_definition_and_are_made_once(small: tuple[Array, Array, Array]) -> None:
    _, K, y = small
    values, V = np.linalg.eigh(K)
    A = (V * np.sqrt(np.maximum(values, 0.0))).astype(np.float32)
    labels = Signs(np.zeros(32), 1.0, 0, np.flatnonzero(y > 0))
    with Local(cut(A, 2), 1) as engine:
        psi = Whitened(engine.run, engine.rows, 32.0, 0.5, keep=True)
        p = psi(sign_sums.sum_signed, (labels,)).weighted[0] / 32
        kept = [block.cache["whitened"]["rows"] for block in engine.dataset.blocks]
        again = psi.rows()
        assert all(a is b.cache["whitened"]["rows"] for a, b in zip(kept, engine.dataset.blocks, strict=True))
    assert 1.0 - p @ p == pytest.approx(fitness(K, y, 0.5), abs=1e-6)
    assert np.allclose(again, A @ psi.M, atol=1e-5)


def test_a_published_search_goes_on_from_any_state_to_the_same_end(small: tuple[Array, Array, Array]) -> None:
    _, K, _ = small
    psi = features(K, 0.5)
    asked = problem(psi, 4.0, population=2, offspring=3)
    one = Published(asked, lambda: psi, np.ones(32))
    middle, _, _ = drive(one, one.init(2), max_iter=3)
    ends = []
    for begun in (one.init(2), middle):
        solver = Published(asked, lambda: psi, np.ones(32))
        assert not solver.find_misfit(begun)
        ends.append(drive(solver, begun, max_iter=1000)[0])
    for a, b in zip(ends[0].runs, ends[1].runs, strict=True):
        assert all(np.array_equal(x, z) for x, z in zip(a, b, strict=True))
    for run in ends[0].runs:
        assert (np.abs(run.Y.sum(axis=1)) <= 4).all()
        assert np.allclose(run.P, run.Y @ psi / 32, atol=1e-12)
