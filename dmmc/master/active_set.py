"""The master's own solver: a warm-started active-set method.

Newton's step over the planes that carry weight does nearly all the work; an exchange of weight between two planes is
there for matrices on which it fails. Plain loops on small arrays and no BLAS, so one input gives one answer at any
thread count.
"""

import numpy as np
from numba import njit

from dmmc.array_types import Floats, Integers
from dmmc.master.search_directions import ENTRY, INNER, copy_to, fill_with, find_least, newton_direction, pair_direction

_SOFTNESS = 1e-2  # the first proximal weight of the biases, in units of tilts^2 / curvature
_HARDEST = 1e-5  # and the last: below it b = v / soft would be made of rounding errors


@njit(**ENTRY)
def ascend(
    Q: Floats, a: Floats, S: Floats, box: float, group: Integers, start: Floats, tolerance: float, budget: int
) -> tuple[Floats, Floats, int]:
    """Minimise ``1/2 mu'Q mu - a.mu + box |S'mu|_1``, each group's mu in a unit simplex: the dual (E6), scaled.

    The kinks of ``box |v|``, v = S'mu, are smoothed by a proximal term around the last biases (the method of
    multipliers): ``max_b b.v - soft/2 |b - centre|^2`` over the box, attained at ``clip(centre + v / soft)``.
    In each round

    1. the gradient at mu, minus the height of each plane, gives the gap of the problem *without* smoothing
    2. where mu is good enough for the centres, the biases become the centres and the smoothing shrinks
    3. the most violated plane joins the support, if that is settled, and Newton's direction is found on it
    4. an exact line search goes to the minimum, or to where the first plane loses its weight

    Q, a, S : shape (m, m); c times the Gram matrix, the intercepts and the tilts; the last plane of a group is the
        flat one, all zeros
    box : bound of the biases
    group : shape (m,); which simplex a plane's weight is in: 0 to the number of groups less one
    start : shape (m,); a point of the simplices
    tolerance : gap at which to stop
    budget : rounds after which to stop in any case
    Returns mu, b : ndarrays of shape (m,), (P,) The pair with the smallest gap seen. rounds : int How many there were.
    """
    m, P = S.shape
    count = _count_groups(group)
    trace, top, spread = 0.0, 0.0, 0.0
    for k in range(m):
        trace += Q[k, k]
        top = max(top, abs(a[k]))
        for p in range(P):
            spread += S[k, p] ** 2
    scale = max(trace / m, 1e-3 * top, 1e-200)
    unit = spread / m / scale if spread > 0.0 else 1.0
    soft = _SOFTNESS * unit
    mu, best_mu = np.empty(m), np.empty(m)
    copy_to(start, mu)
    copy_to(start, best_mu)
    b, best_b, centre = np.empty(P), np.empty(P), np.empty(P)
    for p in range(P):
        b[p], best_b[p], centre[p] = 0.0, 0.0, 0.0
    v, dv = np.empty(P), np.empty(P)
    g, d = np.empty(m), np.empty(m)
    Qmu, Qd = np.empty(m), np.empty(m)
    free = np.empty(m, np.int64)
    total = np.empty(count)
    best, rounds, stalled, settled = np.inf, 0, 0, False
    while True:
        _combine(Q, S, mu, Qmu, v)  # 1
        _see(Qmu, a, S, mu, v, centre, soft, box, group, total, b, g)
        inner, outer = _violation(g, group, total), 0.0
        for p in range(P):
            outer += box * abs(v[p]) - b[p] * v[p]
        gap = inner + outer
        # the gap may rise while planes come and go, but not for longer than it takes to exchange them all
        stalled = 0 if gap < 0.99 * best else stalled + 1
        if gap < best:
            best = gap
            copy_to(mu, best_mu)
            copy_to(b, best_b)
        if best <= tolerance or rounds >= budget or stalled > m + 50:
            break
        rounds += 1
        if inner <= max(0.1 * outer, 0.1 * tolerance):  # 2
            copy_to(b, centre)
            soft = max(0.3 * soft, _HARDEST * unit)
            settled = False
            _see(Qmu, a, S, mu, v, centre, soft, box, group, total, b, g)
        size, lowest = np.int64(0), find_least(g)  # 3; a plain 0 would be a type of its own to numba
        for k in range(m):
            if mu[k] > 0.0 or (settled and k == lowest):
                free[size] = k
                size += 1
        found = newton_direction(Q, S, g, free, size, v, centre, soft, box, group, count, scale, mu, d)
        if not found and not pair_direction(Q, S, g, b, soft, box, group, scale, mu, d):
            continue  # nothing is violated: it is the centres' turn
        cap, hit, slope, curvature = np.inf, -1, 0.0, 0.0  # 4
        _combine(Q, S, d, Qd, dv)
        for k in range(m):
            slope += g[k] * d[k]
            curvature += d[k] * Qd[k]
            if d[k] < 0.0 and -mu[k] / d[k] < cap:
                cap = -mu[k] / d[k]
                hit = k
        t = _step(slope, max(curvature, 0.0), v, dv, centre, b, soft, box, cap)
        fill_with(total, 0.0)
        for k in range(m):
            mu[k] = max(mu[k] + t * d[k], 0.0)
            if t >= cap and k == hit:
                mu[k] = 0.0
            total[group[k]] += mu[k]
        for k in range(m):
            mu[k] /= total[group[k]]
        settled = t < cap
    return best_mu, best_b, rounds


@njit(**INNER)
def _combine(Q: Floats, S: Floats, x: Floats, Qx: Floats, v: Floats) -> None:
    """Q x and S'x in place, for x that is mostly zero."""
    fill_with(Qx, 0.0)
    fill_with(v, 0.0)
    for k in range(x.size):
        if x[k] != 0.0:
            for j in range(x.size):
                Qx[j] += x[k] * Q[k, j]
            for p in range(v.size):
                v[p] += x[k] * S[k, p]


@njit(**INNER)
def _see(
    Qmu: Floats,
    a: Floats,
    S: Floats,
    mu: Floats,
    v: Floats,
    centre: Floats,
    soft: float,
    box: float,
    group: Integers,
    mean: Floats,
    b: Floats,
    g: Floats,
) -> None:
    """The biases at v and the gradient Q mu - a + S b, in place; `mean` is room for a number a group.

    The gradient is less each group's mean under mu, which no step in its simplex can see: so slopes keep their digits.
    """
    for p in range(v.size):
        b[p] = min(box, max(-box, centre[p] + v[p] / soft))
    fill_with(mean, 0.0)
    for k in range(a.size):
        g[k] = Qmu[k] - a[k]
        for p in range(v.size):
            g[k] += S[k, p] * b[p]
        mean[group[k]] += mu[k] * g[k]
    for k in range(a.size):
        g[k] -= mean[group[k]]


@njit(**INNER)
def _violation(g: Floats, group: Integers, least: Floats) -> float:
    """Sum over the groups of how far the most violated plane is; `least` is room for a number a group."""
    fill_with(least, np.inf)
    for k in range(g.size):
        least[group[k]] = min(least[group[k]], g[k])
    total = 0.0
    for q in range(least.size):
        total += least[q]
    return -total


@njit(**INNER)
def _count_groups(group: Integers) -> int:
    """How many groups there are: the largest number and one."""
    largest = 0
    for k in range(group.size):
        largest = max(largest, group[k])
    return largest + 1


@njit(**INNER)
def _step(
    slope: float,
    curvature: float,
    v: Floats,
    dv: Floats,
    centre: Floats,
    b: Floats,
    soft: float,
    box: float,
    cap: float,
) -> float:
    """The minimiser on [0, cap] along a line: the root of a rising, piecewise linear derivative."""
    low, high, t = 0.0, cap, cap
    for _ in range(60):
        derivative, second = slope + t * curvature, curvature
        for p in range(v.size):
            raw = centre[p] + (v[p] + t * dv[p]) / soft
            derivative += dv[p] * (min(box, max(-box, raw)) - b[p])
            if abs(raw) < box:
                second += dv[p] * dv[p] / soft
        if derivative <= 0.0:
            if t >= cap:
                break
            low = t
        else:
            high = t
        if abs(derivative) <= -1e-12 * slope or high - low <= 1e-15 * high:
            break
        t = t - derivative / second if second > 0.0 else low
        if not low < t < high:
            t = 0.5 * (low + high)
    return t


@njit(**ENTRY)
def certify(Q: Floats, a: Floats, S: Floats, box: float, group: Integers, mu: Floats, b: Floats) -> tuple[float, float]:
    """The primal value (E5) at (w, b) and the dual value (E6) at mu, both divided by C."""
    m, P = S.shape
    Qmu, v = np.empty(m), np.empty(P)
    _combine(Q, S, mu, Qmu, v)
    slack = np.empty(_count_groups(group))
    fill_with(slack, 0.0)
    quadratic, linear, tilt, all_slack = 0.0, 0.0, 0.0, 0.0
    for k in range(m):
        quadratic += 0.5 * mu[k] * Qmu[k]
        linear += a[k] * mu[k]
        height = a[k] - Qmu[k]
        for p in range(P):
            height -= S[k, p] * b[p]
        slack[group[k]] = max(slack[group[k]], height)
    for p in range(P):
        tilt += abs(v[p])
    for q in range(slack.size):
        all_slack += slack[q]
    return quadratic + all_slack, linear - quadratic - box * tilt
