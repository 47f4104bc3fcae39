"""A whole climb of evolutionary MMC where all rows are in one block: balanced signs (E13), flips and swaps (E12).

Scores in the type of the rows choose what is then compared exactly, in float64.
"""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT, EXACT_INNER, FAST_INNER, frozen
from dmmc.kernels.label_flips import flip_among, row_product, write_highest


@njit(**FAST_INNER)
def _quick_dot(X: Array, i: int, w: Array) -> float:
    total = w[0] * 0
    for j in range(w.size):
        total += X[i, j] * w[j]
    return float(total)


@njit(**EXACT_INNER)
def _quick_scores(X: Array, p: Array, w: Array, f: Array) -> None:
    """Scores in the type of the rows: they choose what is then compared exactly."""
    for j in range(w.size):
        w[j] = p[j]
    for i in range(f.size):
        f[i] = _quick_dot(X, i, w)


@njit(**EXACT)
def _balance_signs(f: Array, weight: Array, limit: float, y: Array) -> float:
    """Signs of f with the least confident rows moved until `|Σ ω y| <= limit`; returns the threshold.

    How confident a row must be to stay is bisected; of equal ones the first rows get the sign +1.
    """
    balance, top = 0.0, 0.0
    for i in range(f.size):
        y[i] = 1 if f[i] >= 0.0 else -1
        balance += weight[i] * y[i]
    if abs(balance) <= limit:
        return 0.0
    side = 1 if balance > 0 else -1
    excess = abs(balance) - limit
    for i in range(f.size):
        top = max(top, side * f[i])
    low, high, inside = -1.0, top, f.size  # moving all up to `low` is not enough, all up to `high` is
    while inside > 1:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        moved, inside = 0.0, 0
        for i in range(f.size):
            t = side * f[i]
            if y[i] == side and t <= middle:
                moved += 2.0 * weight[i]
        if moved < excess:
            low = middle
        else:
            high = middle
        for i in range(f.size):
            t = side * f[i]
            inside += y[i] == side and low < t <= high
    for i in range(f.size):
        if y[i] == side and side * f[i] <= low:
            y[i] = -side
            balance -= 2.0 * side * weight[i]
    for t in range(f.size):
        i = f.size - 1 - t if side > 0 else t
        if abs(balance) <= limit:
            break
        if y[i] == side and side * f[i] <= high:
            y[i] = -side
            balance -= 2.0 * side * weight[i]
    return side * high


@njit(**EXACT_INNER)
def _move(X: Array, i: int, c: float, p: Array) -> None:
    for j in range(p.size):
        p[j] += c * X[i, j]


@njit(**FAST_INNER)
def _pull(X: Array, i: int, p: Array) -> float:
    total = 0.0
    for j in range(p.size):
        total += np.float64(X[i, j]) * p[j]
    return total


@njit(**FAST_INNER)
def _square(p: Array) -> float:
    total = 0.0
    for j in range(p.size):
        total += p[j] * p[j]
    return total


@njit(**EXACT_INNER)
def _promising(
    gain: Array, lengths: Array, weight: Array, total: float, y: Array, rows: Array, c: int, least: float
) -> int:
    """Keep, at the front, the rows whose flip alone or in a swap might gain: by `|φ_i·φ_j| <= |φ_i||φ_j|`; how many."""
    up, down, longest = -np.inf, -np.inf, 0.0
    for a in range(c):
        i = rows[a]
        if y[i] > 0:
            up = max(up, gain[i])
        else:
            down = max(down, gain[i])
        longest = max(longest, weight[i] / total * np.sqrt(lengths[i]))
    kept = 0
    for a in range(c):
        i = rows[a]
        swapped = gain[i] + (down if y[i] > 0 else up) + 8.0 * weight[i] / total * np.sqrt(lengths[i]) * longest
        if gain[i] > least or swapped > least:
            rows[kept] = i
            kept += 1
    return kept


@njit(**EXACT)
def _climb(
    X: Array, lengths: Array, weight: Array, total: float, limit: float, least: float, most: int, p: Array, y: Array
) -> tuple[float, float, float]:
    n, q = X.shape
    f, w = np.empty(n), np.empty(q, X.dtype)
    gain, other, moved = np.empty(n), np.empty(n, np.int8), np.empty(q)
    rows, G = np.empty(2 * most, np.int64), np.empty((2 * most, 2 * most))
    pull, signs, weights = np.empty(2 * most), np.empty(2 * most), np.empty(2 * most)
    slack = limit * (1.0 + 1e-12)
    _quick_scores(X, p, w, f)
    _balance_signs(f, weight, slack, y)
    for j in range(q):
        p[j] = 0.0
    for i in range(n):
        _move(X, i, weight[i] * y[i] / total, p)
    square = _square(p)
    _quick_scores(X, p, w, f)
    still, threshold = False, 0.0
    while True:
        while True:  # balanced signs, again and again
            threshold = _balance_signs(f, weight, slack, other)
            for j in range(q):
                moved[j] = p[j]
            for i in range(n):
                if other[i] != y[i]:
                    _move(X, i, 2.0 * weight[i] * other[i] / total, moved)
            gained = _square(moved) - square
            if gained <= least:
                break
            for j in range(q):
                p[j] = moved[j]
            for i in range(n):
                y[i] = other[i]
            square += gained
            _quick_scores(X, p, w, f)
            still = False
        if still:
            break
        still = True
        while True:  # flips and swaps
            for i in range(n):
                omega = weight[i] / total
                gain[i] = 4.0 * omega * (omega * lengths[i] - y[i] * f[i])
            c = write_highest(gain, y, -1, most, rows, write_highest(gain, y, 1, most, rows, 0))
            c = _promising(gain, lengths, weight, total, y, rows, c, least)
            balance = 0.0
            for i in range(n):
                balance += weight[i] * y[i]
            for a in range(c):
                i = rows[a]
                signs[a], weights[a] = y[i], weight[i]
                pull[a] = weight[i] / total * _pull(X, i, p)
                for b in range(a + 1):
                    G[a, b] = G[b, a] = weight[i] * weight[rows[b]] / total**2 * row_product(X, i, rows[b])
            gained, _ = flip_among(c, G, pull, signs, weights, balance, limit, 0.01 * least)
            if gained <= least:
                break
            for a in range(c):
                i = rows[a]
                if signs[a] != y[i]:
                    _move(X, i, 2.0 * weight[i] * signs[a] / total, p)
                    y[i] = -y[i]
            square = _square(p)
            _quick_scores(X, p, w, f)
            still = False
        if still:
            break
        still = True
    balance = 0.0
    for i in range(n):
        balance += weight[i] * y[i]
    return 1.0 - square, balance, threshold


def climb(
    rows: Array, lengths: Array, weight: Array, total: float, limit: float, least: float, most: int, p: Array, y: Array
) -> tuple[float, float, float]:
    """From p to balanced signs that neither (E13) nor a flip or swap of the likeliest rows (E12) makes fitter.

    rows : (n, q) rows ψ, `φ_i = ω_i ψ_i / Σω`
    lengths : (n,) their squared norms
    weight, total : of the rows, and their sum
    limit : the most that `|Σ ω y|` may be
    least : gains up to this do not count
    most : candidates of each sign
    p : (q,) where to begin; then `Φᵀy`
    y : (n,) int8; the signs
    Returns fitness F, balance `Σ ω y`, and the threshold of the scores with p.
    """
    return _climb(frozen(rows), frozen(lengths), frozen(weight), total, limit, least, most, p, y)  # type: ignore[no-any-return]
