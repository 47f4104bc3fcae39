"""The master: the small dual QP over cutting planes.

It sees no data: planes come in as numbers (E4, E8); multipliers, biases and a certified lower bound go out.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Floats, Integers
from dmmc.master.active_set import ascend, certify

_BUDGET = 1000  # Newton rounds before the fallback is asked; typical solves need fewer than ten
_RIDGE = 1e-8  # of the mean curvature, inside the fallback only: a singular Gram makes QP solvers fail


class Solved(NamedTuple):
    """What the master gives back.

    multipliers : shape (m,); the weights of the planes, at least 0, in sum at most C (of each group: its own); ``w =
        Z' multipliers``
    bias : shape (P,); for P = 1 within the box; for P > 1 shifted so that its sum is 0, so ``|b_p - b_q| <= 2 box``
    value : the primal value (E5) at ``(w, bias)``
    lower_bound : the dual value (E6) at the multipliers: no (w, b) has a lower primal value, however early we stopped
    solver : {"active-set", "piqp"}
        Who gave the answer.
    """

    multipliers: Floats
    bias: Floats
    value: float
    lower_bound: float
    solver: str


class _Scaled(NamedTuple):
    """The dual (E6) divided by C, over mu = lam / C; the flat plane xi >= 0 is the last: sum mu = 1.

    With groups, each group's mu is divided by its own budget; their flat planes are the last, one a group.
    """

    curvature: Floats
    intercepts: Floats
    tilts: Floats
    box: float
    groups: Integers


def solve(
    gram: ArrayLike,
    intercepts: ArrayLike,
    tilts: ArrayLike,
    C: float | Sequence[float],
    box: float,
    warm: ArrayLike | None = None,
    tolerance: float = 1e-6,
    groups: ArrayLike | None = None,
) -> Solved:
    """Solve the master (E5) by its dual (E6), to a certified gap.

    ``min 1/2 |w|^2 + C xi`` subject to ``xi >= 0``, ``xi >= a_k - z_k.w - s_k.b``, ``|b_p| <= box`` has the
    dual ``max a.lam - 1/2 lam'G lam - box sum_p |sum_k lam_k s_kp|`` over ``lam >= 0, sum lam <= C``.
    With several losses (docs/mathematics.md, "Pairs") each has a slack, a group of planes and a budget of its own:
    ``sum_g C_g xi_g``, and ``sum lam <= C_g`` over each group.

    gram : shape (m, m); ``G = Z Z'``, the inner products of the planes' slopes
    intercepts : shape (m,); ``a``
    tilts : shape (m, P); ``s``, the coefficients of the P biases. For P > 1 every row must sum to 0, as it does in
        (E8).
    C : weight of the loss, above 0; with groups, the weight of each, the first above 0
    box : bound of the biases, at least 0: the balance beta of (E1) for P = 1, and beta / 2 for P > 1, where a shift of
        all biases is free and so ``|b_p - b_q| <= beta`` says the same as ``|b_p| <= beta / 2``
    warm : multipliers to start from. Planes beyond its length start at 0; the infeasible is clipped or scaled.
    tolerance : done when ``value - lower_bound <= tolerance * C`` (of the first group)
    groups : shape (m,); which group each plane is of; all are of the first by default
    Returns if neither solver reaches the tolerance, the answer with the smaller certified gap; no exception.
    """
    budgets = np.array(C, np.float64).reshape(-1)
    C = float(budgets[0])
    problem = _scale(gram, intercepts, tilts, budgets, box, groups)
    # a gap below this is made of rounding errors
    rounding = 1e-15 * float(np.abs(problem.intercepts).max() + problem.curvature.diagonal().max())
    start = _start(warm, problem.groups, budgets)
    mu, bias, _ = ascend(*problem, start, max(0.99 * tolerance, rounding), _BUDGET)
    best = _certify(problem, budgets, mu, bias, "active-set")
    if not best.value - best.lower_bound <= max(tolerance, 2.0 * rounding) * C:
        second = _fallback(problem)
        if second is not None:
            other = _certify(problem, budgets, *second, "piqp")
            if other.value - other.lower_bound < best.value - best.lower_bound:
                best = other
    return best


def _scale(
    gram: ArrayLike, intercepts: ArrayLike, tilts: ArrayLike, C: ArrayLike, box: float, groups: ArrayLike | None = None
) -> _Scaled:
    """Divide the dual by C and append the flat planes; fresh arrays, so numba compiles for one kind only."""
    budgets = np.array(C, np.float64).reshape(-1)
    (m, P), count = np.shape(tilts), budgets.size
    curvature, a, S = np.zeros((m + count, m + count)), np.zeros(m + count), np.zeros((m + count, P))
    group = np.concatenate([np.zeros(m, np.int64) if groups is None else groups, np.arange(count)])
    np.multiply(gram, budgets[0], out=curvature[:m, :m])
    a[:m] = intercepts
    S[:m] = tilts
    if count > 1:
        share = (budgets / budgets[0])[group]
        curvature *= np.outer(share, share)
        a *= share
        S *= share[:, None]
    return _Scaled(curvature, a, S, float(box), group.astype(np.int64))


def _start(warm: ArrayLike | None, groups: Integers, budgets: Floats) -> Floats:
    """A point of the unit simplices from any multipliers; the flat planes take what they leave."""
    m, count = groups.size - budgets.size, budgets.size
    mu = np.zeros(m + count)
    if warm is not None:
        known = np.asarray(warm, dtype=np.float64)[:m]
        mu[: known.size] = np.maximum(known, 0.0) / budgets[groups[: known.size]]
    for p in range(count):
        of = groups == p
        total = float(mu[of].sum())
        if total < 1.0 - 1e-12:  # less is rounding, and dust on the flat plane would block the first step
            mu[m + p] = 1.0 - total
        mu[of] /= mu[of].sum()
    return mu


def _certify(problem: _Scaled, budgets: Floats, mu: Floats, bias: Floats, solver: str) -> Solved:
    """Make mu feasible, fix the gauge of the biases, evaluate both sides; the ridge has no part in it."""
    mu = np.maximum(mu, 0.0)
    for p in range(budgets.size):
        of = problem.groups == p
        mu[of] /= max(1.0, mu[of].sum())
    bias = np.clip(bias, -problem.box, problem.box)
    if bias.size > 1:
        bias -= bias.mean()
    value, dual = certify(*problem, mu, bias)
    # weak duality holds up to rounding: a bound that is lower still is a bound
    C, m = float(budgets[0]), mu.size - budgets.size
    return Solved(budgets[problem.groups[:m]] * mu[:m], bias, C * value, C * min(dual, value), solver)


def _fallback(problem: _Scaled) -> tuple[Floats, Floats] | None:
    """The same problem by an interior-point method; None if there is no such answer.

    Never needed so far: in tests/master, tests/solvers, tests/estimators and the benchmarks quick, pairs, stochastic,
    evolution and subspace at `--small` (100,000 masters) only tests that force it come here, by a budget of 0 rounds
    or a Gram matrix that is not one.

    The term ``box |v_p|`` becomes ``box (u_p + u'_p)`` with ``v_p = u_p - u'_p``; b_p is that equation's
    multiplier.
    """
    Q, a, S, box, groups = problem
    m, P = S.shape
    count = int(groups.max()) + 1
    if box == 0.0:  # the biases are 0 and their tilts cost nothing
        P = 0
    H = np.zeros((m + 2 * P, m + 2 * P), order="F")
    H[:m, :m] = 0.5 * (Q + Q.T)
    H[range(m), range(m)] += _RIDGE * max(np.trace(Q) / m, 1e-8)
    cost = np.concatenate([-a, np.full(2 * P, box)])
    A = np.zeros((count + P, m + 2 * P), order="F")
    A[groups, np.arange(m)] = 1.0
    A[count:, :m] = S.T[:P]
    A[count:, m : m + P] = -np.eye(P)
    A[count:, m + P :] = np.eye(P)
    try:
        import piqp  # only a hard problem pays for this import

        solver: Any = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_duality_gap_abs = 1e-10
        solver.setup(H, cost, A, np.repeat([1.0, 0.0], [count, P]), x_l=np.zeros(m + 2 * P))
        solver.solve()
        mu, bias = np.array(solver.result.x[:m]), np.array(solver.result.y[count:])
    except Exception:  # a fallback that is absent or fails leaves the first answer standing
        return None
    if not (np.isfinite(mu).all() and np.isfinite(bias).all()):
        return None
    return mu, bias if P else np.zeros(S.shape[1])
