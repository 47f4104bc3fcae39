"""Signs and flips for evolutionary MMC: rows scored and added up in float64, flips chosen, whole climbs.

Rows are dense features. Their products are taken and added up in float64 whatever their type, as gains of single flips
are small differences.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dmmc.kernels.common import EXACT, FAST, Array, frozen

NO_WEIGHTS = np.empty(0)


@njit(**FAST)
def _dot(row: Array, W: Array, k: int) -> float:
    total = 0.0
    for j in range(row.size):
        total += row[j] * W[k, j]
    return total


@njit(**EXACT)
def _scores(X: Array, W: Array, out: Array) -> None:
    row = np.empty(X.shape[1])
    for i in range(X.shape[0]):
        for j in range(row.size):
            row[j] = X[i, j]
        for k in range(W.shape[0]):
            out[k, i] = _dot(row, W, k)


@njit(**FAST)
def _product(X: Array, i: int, k: int) -> float:
    total = 0.0
    for j in range(X.shape[1]):
        total += np.float64(X[i, j]) * np.float64(X[k, j])
    return total


@njit(**EXACT)
def _lengths(X: Array, out: Array) -> None:
    for i in range(X.shape[0]):
        out[i] = _product(X, i, i)


@njit(**EXACT)
def _signed(X: Array, Y: Array, weight: Array, sums: Array, balance: Array) -> None:
    for i in range(X.shape[0]):
        omega = weight[i] if weight.size else 1.0
        for k in range(Y.shape[0]):
            c = omega * Y[k, i]
            if c != 0.0:
                balance[k] += c
                for j in range(X.shape[1]):
                    sums[k, j] += c * X[i, j]


def exact_scores(rows: Array, W: Array) -> Array:
    """`W @ rows.T` (K, m) in float64: a row's score has the same bits wherever it stands."""
    out = np.empty((len(W), len(rows)))
    _scores(frozen(rows), frozen(W, np.float64), out)
    return out


def squared_lengths(rows: Array) -> Array:
    """`|x|²` of each row x."""
    out = np.empty(len(rows))
    _lengths(frozen(rows), out)
    return out


def signed_sums(rows: Array, Y: Array, weight: Array | None) -> tuple[Array, Array]:
    """Sums of `y_i ω_i x_i` (K, d) and of `y_i ω_i` (K,), for signs (K, m) int8; a sign 0 leaves a row out."""
    sums, balance = np.zeros((len(Y), rows.shape[1])), np.zeros(len(Y))
    assert Y.shape[1] == len(rows)
    omega = frozen(NO_WEIGHTS if weight is None else weight, np.float64)
    _signed(frozen(rows), frozen(Y, np.int8), omega, sums, balance)
    return sums, balance


# ------------------------------------------------------------------------------------------------- chosen flips


@njit(**EXACT)
def _highest(values: Array, y: Array, sign: int, most: int, top: Array, first: int) -> int:
    """Write where the highest values of rows of this sign are, in order, of equal ones the first; where they end."""
    end = first
    for i in range(values.size):
        if y[i] != sign or (end == first + most and values[i] <= values[top[end - 1]]):
            continue
        end = min(end + 1, first + most)
        at = end - 1
        while at > first and values[top[at - 1]] < values[i]:
            top[at] = top[at - 1]
            at -= 1
        top[at] = i
    return end


def highest(values: Array, y: Array, sign: int, most: int) -> Array:
    """Where the `most` highest values of rows of this sign are, highest first; of equal ones the first."""
    top = np.empty(most, np.int64)
    return top[: _highest(values, y, sign, most, top, 0)]


@njit(**EXACT)
def flip_among(
    c: int, G: Array, pull: Array, y: Array, weight: Array, balance: float, limit: float, least: float
) -> tuple[float, float]:
    """The best flip or swap among a few rows, again and again while one gains more than `least` (E12); y is changed.

    Parameters
    ----------
    c : how many rows; arrays may be longer
    G : products φ_i·φ_j
    pull : φ_i·p; changed
    y : signs as float64; changed
    weight : of the rows
    balance, limit : Σ ω y over all rows, and the most that its absolute value may be
    least : gains up to this do not count

    Returns
    -------
    what all flips gained, and the balance after them
    """
    gain = np.empty(c)
    total = 0.0
    slack = limit * (1.0 + 1e-12) + 1e-300
    for _ in range(100 * c):
        for i in range(c):
            gain[i] = 4.0 * G[i, i] - 4.0 * y[i] * pull[i]
        best, one, two = least, -1, -1
        for i in range(c):
            if gain[i] > best and abs(balance - 2.0 * weight[i] * y[i]) <= slack:
                best, one, two = gain[i], i, -1
        for i in range(c):
            if y[i] < 0:
                continue
            for j in range(c):
                if y[j] > 0 or abs(balance - 2.0 * weight[i] + 2.0 * weight[j]) > slack:
                    continue
                both = gain[i] + gain[j] - 8.0 * G[i, j]
                if both > best:
                    best, one, two = both, i, j
        if one < 0:
            break
        total += best
        for turn in range(2):
            i = one if turn == 0 else two
            if i >= 0:
                balance -= 2.0 * weight[i] * y[i]
                for j in range(c):
                    pull[j] -= 2.0 * y[i] * G[j, i]
                y[i] = -y[i]
    return total, balance


# --------------------------------------------------------------------------------- climbing where all rows are at hand


@njit(**FAST)
def _quick_dot(X: Array, i: int, w: Array) -> float:
    total = w[0] * 0
    for j in range(w.size):
        total += X[i, j] * w[j]
    return float(total)


@njit(**EXACT)
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


@njit(**EXACT)
def _move(X: Array, i: int, c: float, p: Array) -> None:
    for j in range(p.size):
        p[j] += c * X[i, j]


@njit(**FAST)
def _pull(X: Array, i: int, p: Array) -> float:
    total = 0.0
    for j in range(p.size):
        total += np.float64(X[i, j]) * p[j]
    return total


@njit(**FAST)
def _square(p: Array) -> float:
    total = 0.0
    for j in range(p.size):
        total += p[j] * p[j]
    return total


@njit(**EXACT)
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
            c = _highest(gain, y, -1, most, rows, _highest(gain, y, 1, most, rows, 0))
            c = _promising(gain, lengths, weight, total, y, rows, c, least)
            balance = 0.0
            for i in range(n):
                balance += weight[i] * y[i]
            for a in range(c):
                i = rows[a]
                signs[a], weights[a] = y[i], weight[i]
                pull[a] = weight[i] / total * _pull(X, i, p)
                for b in range(a + 1):
                    G[a, b] = G[b, a] = weight[i] * weight[rows[b]] / total**2 * _product(X, i, rows[b])
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

    Parameters
    ----------
    rows : (n, q) rows ψ, `φ_i = ω_i ψ_i / Σω`
    lengths : (n,) their squared norms
    weight, total : of the rows, and their sum
    limit : the most that `|Σ ω y|` may be
    least : gains up to this do not count
    most : candidates of each sign
    p : (q,) where to begin; then `Φᵀy`
    y : (n,) int8; the signs

    Returns
    -------
    fitness F, balance `Σ ω y`, and the threshold of the scores with p
    """
    return _climb(frozen(rows), frozen(lengths), frozen(weight), total, limit, least, most, p, y)  # type: ignore[no-any-return]
