"""Directions in which the active-set method searches: Newton's, and an exchange between two planes.

After a change of this file touch `active_set.py`: numba's cache notices changes of a function's own file only.
"""

from typing import Any

import numpy as np
from numba import njit

from dmmc.array_types import Floats, Integers

_RIDGE = 1e-9  # of the mean curvature, in Newton's matrix only: it does not move the point that is found

ENTRY: dict[str, Any] = {"nogil": True, "cache": True, "error_model": "numpy"}
"""How functions that Python calls are compiled ..."""
INNER: dict[str, Any] = {**ENTRY, "no_cpython_wrapper": True}
"""... and those that only they call; what numpy has for a line here takes longer to compile than the line."""


@njit(**INNER)
def fill_with(x: Floats, value: float) -> None:
    """Set every number of x."""
    for k in range(x.size):
        x[k] = value


@njit(**INNER)
def copy_to(source: Floats, target: Floats) -> None:
    """Set the numbers of the target to those of the source."""
    for k in range(source.size):
        target[k] = source[k]


@njit(**INNER)
def find_least(x: Floats) -> int:
    """Where the least number is, the first of equal ones."""
    least = 0
    for k in range(1, x.size):
        if x[k] < x[least]:
            least = k
    return least


@njit(**INNER)
def newton_direction(
    Q: Floats,
    S: Floats,
    g: Floats,
    free: Integers,
    r: int,
    v: Floats,
    centre: Floats,
    soft: float,
    box: float,
    group: Integers,
    count: int,
    scale: float,
    mu: Floats,
    d: Floats,
) -> bool:
    """Newton's direction over r free planes, in sum zero in each group; False if mu cannot descend along it."""
    H = np.empty((r, r))
    for i in range(r):
        for j in range(i, r):
            # a multiple of 11' changes nothing where sum d = 0, and makes the flat plane's zero row definite
            H[i, j] = Q[free[i], free[j]] + (scale if group[free[i]] == group[free[j]] else 0.0)
        H[i, i] += _RIDGE * scale
    column = np.empty(r)
    for p in range(v.size):
        if abs(centre[p] + v[p] / soft) < box:
            for i in range(r):
                column[i] = S[free[i], p]
            for i in range(r):
                tilt = column[i] / soft
                if tilt != 0.0:
                    for j in range(i, r):
                        H[i, j] += tilt * column[j]
    # Cholesky H = U'U by rows, and all forward solves on the way: the inner loops run along memory
    x, Y = np.empty(r), np.empty((r, count))
    for i in range(r):
        for q in range(count):
            Y[i, q] = 0.0
        x[i], Y[i, group[free[i]]] = -g[free[i]], 1.0
    for k in range(r):
        if not H[k, k] > 1e-3 * _RIDGE * scale:
            return False
        root = 1.0 / np.sqrt(H[k, k])
        for j in range(k, r):
            H[k, j] *= root
        x[k] *= root
        for q in range(count):
            Y[k, q] *= root
        for i in range(k + 1, r):
            factor = H[k, i]
            x[i] -= factor * x[k]
            for q in range(count):
                Y[i, q] -= factor * Y[k, q]
            for j in range(i, r):
                H[i, j] -= factor * H[k, j]
    sums, M = np.empty(count), np.empty((count, count))  # what each group's sum is of x and of the columns of Y
    for p in range(count):
        sums[p] = 0.0
        for q in range(count):
            M[p, q] = 0.0
    for k in range(r - 1, -1, -1):
        for j in range(k + 1, r):
            x[k] -= H[k, j] * x[j]
            for q in range(count):
                Y[k, q] -= H[k, j] * Y[j, q]
        x[k] /= H[k, k]
        p = group[free[k]]
        sums[p] += x[k]
        for q in range(count):
            Y[k, q] /= H[k, k]
            M[p, q] += Y[k, q]
    _eliminate(M, sums)
    slope, blocked, bounded = 0.0, False, False
    fill_with(d, 0.0)
    for i in range(r):
        k = free[i]
        d[k] = x[i]
        for q in range(count):
            d[k] -= sums[q] * Y[i, q]
        slope += g[k] * d[k]
        bounded = bounded or d[k] < 0.0
        blocked = blocked or (d[k] < 0.0 and mu[k] <= 0.0)
    return slope < 0.0 and bounded and not blocked


@njit(**INNER)
def _eliminate(M: Floats, x: Floats) -> None:
    """Solve M y = x in place, M positive definite and small; what it holds is lost."""
    for k in range(x.size):
        for i in range(k + 1, x.size):
            factor = M[i, k] / M[k, k]
            x[i] -= factor * x[k]
            for j in range(k, x.size):
                M[i, j] -= factor * M[k, j]
    for k in range(x.size - 1, -1, -1):
        for j in range(k + 1, x.size):
            x[k] -= M[k, j] * x[j]
        x[k] /= M[k, k]


@njit(**INNER)
def pair_direction(
    Q: Floats,
    S: Floats,
    g: Floats,
    b: Floats,
    soft: float,
    box: float,
    group: Integers,
    scale: float,
    mu: Floats,
    d: Floats,
) -> bool:
    """Weight for the most violated plane from where in its group that gains most; False if nothing is violated."""
    into = find_least(g)
    out, gain = -1, 0.0
    for k in range(mu.size):
        fall = g[k] - g[into]
        if mu[k] > 0.0 and fall > 0.0 and group[k] == group[into]:
            curvature = Q[into, into] + Q[k, k] - 2.0 * Q[into, k]
            for p in range(b.size):
                if abs(b[p]) < box:
                    curvature += (S[into, p] - S[k, p]) ** 2 / soft
            step = min(fall / max(curvature, 1e-12 * scale), mu[k])
            if step * (fall - 0.5 * step * curvature) > gain:
                gain = step * (fall - 0.5 * step * curvature)
                out = k
    fill_with(d, 0.0)
    if out >= 0:
        d[into] = 1.0
        d[out] = -1.0
    return out >= 0
