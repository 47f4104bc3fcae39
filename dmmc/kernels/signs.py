"""Signs and flips for evolutionary MMC: rows scored and added up in float64, flips chosen, the published mutation.

Rows are dense features. Their products are taken and added up in float64 whatever their type, as gains of single flips
are small differences.
"""

from __future__ import annotations

from typing import Any

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
def _highest(values: Array, y: Array, sign: int, most: int, top: Array) -> int:
    """Write where the highest values of rows of this sign are, in order, of equal ones the first; how many."""
    count = 0
    for i in range(values.size):
        if y[i] != sign or (count == most and values[i] <= values[top[count - 1]]):
            continue
        at = count if count < most else most - 1
        while at > 0 and values[top[at - 1]] < values[i]:
            top[at] = top[at - 1]
            at -= 1
        top[at] = i
        count = min(count + 1, most)
    return count


def highest(values: Array, y: Array, sign: int, most: int) -> Array:
    """Where the `most` highest values of rows of this sign are, highest first; of equal ones the first."""
    top = np.empty(most, np.int64)
    return top[: _highest(values, y, sign, most, top)]


@njit(**EXACT)
def flip_among(
    G: Array, pull: Array, y: Array, weight: Array, balance: float, limit: float, least: float
) -> tuple[float, float]:
    """The best flip or swap among a few rows, again and again while one gains more than `least` (E12); y is changed.

    Parameters
    ----------
    G : products φ_i·φ_j, of at least c rows
    pull : (c,) φ_i·p; changed
    y : (c,) signs as float64; changed
    weight : (c,) weights of the rows
    balance, limit : Σ ω y over all rows, and the most that its absolute value may be
    least : gains up to this do not count

    Returns
    -------
    what all flips gained, and the balance after them
    """
    c = y.size
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
        for i in (one, two):
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

    How confident a row must be to stay is bisected; of equal ones the later rows are moved first.
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
    for i in range(f.size - 1, -1, -1):
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
    best, longest = np.full(2, -np.inf), 0.0
    for a in range(c):
        i = rows[a]
        side = 0 if y[i] > 0 else 1
        best[side] = max(best[side], gain[i])
        longest = max(longest, weight[i] / total * np.sqrt(lengths[i]))
    kept = 0
    for a in range(c):
        i = rows[a]
        other = best[1 if y[i] > 0 else 0]
        swapped = gain[i] + other + 8.0 * weight[i] / total * np.sqrt(lengths[i]) * longest
        if gain[i] > least or swapped > least:
            rows[kept] = i
            kept += 1
    return kept


@njit(**EXACT)
def climb(
    X: Array, lengths: Array, weight: Array, total: float, limit: float, least: float, most: int, p: Array, y: Array
) -> tuple[float, float, float]:
    """From p to balanced signs that neither (E13) nor a flip or swap of the likeliest rows (E12) makes fitter.

    Parameters
    ----------
    X : (n, q) rows ψ, `φ_i = ω_i ψ_i / Σω`
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
    n, q = X.shape
    f, w = np.empty(n), np.empty(q, X.dtype)
    gain, other, moved = np.empty(n), np.empty(n, np.int8), np.empty(q)
    rows, G = np.empty(2 * most, np.int64), np.empty((2 * most, 2 * most))
    pull, signs, weights = np.empty(2 * most), np.empty(2 * most), np.empty(2 * most)
    slack = limit * (1.0 + 1e-12)
    _quick_scores(X, p, w, f)
    _balance_signs(f, weight, slack, y)
    p[:] = 0.0
    for i in range(n):
        _move(X, i, weight[i] * y[i] / total, p)
    square = _square(p)
    _quick_scores(X, p, w, f)
    still, threshold = False, 0.0
    while True:
        while True:  # balanced signs, again and again
            threshold = _balance_signs(f, weight, slack, other)
            moved[:] = p
            for i in range(n):
                if other[i] != y[i]:
                    _move(X, i, 2.0 * weight[i] * other[i] / total, moved)
            gained = _square(moved) - square
            if gained <= least:
                break
            p[:], y[:] = moved, other
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
            c = _highest(gain, y, 1, most, rows)
            c += _highest(gain, y, -1, most, rows[c:])
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
            gained, _ = flip_among(G, pull[:c], signs[:c], weights[:c], balance, limit, 0.01 * least)
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


# ------------------------------------------------------------------------------------------ the published mutation


@njit(**EXACT)
def _random(state: Array) -> Any:
    """The next number of a splitmix64 stream, whose state is one number."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(**EXACT)
def _below(state: Array, n: int) -> Any:
    """A random whole number below n."""
    return np.int64(_random(state) % np.uint64(n))


@njit(**EXACT)
def _flip(Phi: Array, Y: Array, P: Array, one: int, i: int) -> None:
    c = 2.0 * Y[one, i]
    for j in range(P.shape[1]):
        P[one, j] -= c * Phi[i, j]
    Y[one, i] = -Y[one, i]


@njit(**EXACT)
def _exchange(Y: Array, P: Array, balance: Array, fitness: Array, one: int, other: int) -> None:
    for i in range(Y.shape[1]):
        Y[one, i], Y[other, i] = Y[other, i], Y[one, i]
    for j in range(P.shape[1]):
        P[one, j], P[other, j] = P[other, j], P[one, j]
    balance[one], balance[other] = balance[other], balance[one]
    fitness[one], fitness[other] = fitness[other], fitness[one]


@njit(**EXACT)
def _mutate(
    Phi: Array, weight: Array, Y: Array, P: Array, one: int, balance: float, limit: float, flips: int, state: Array
) -> float:
    """Flip this many random coordinates; a flip that breaks the balance is paired with one of the opposite label."""
    n = Y.shape[1]
    for _ in range(flips):
        i = _below(state, n)
        if abs(balance - 2.0 * weight[i] * Y[one, i]) > limit:
            j = _below(state, n)
            tries = 0
            while Y[one, j] == Y[one, i] and tries < 1000:
                j = _below(state, n)
                tries += 1
            both = balance - 2.0 * (weight[i] * Y[one, i] + weight[j] * Y[one, j])
            if Y[one, j] == Y[one, i] or abs(both) > max(limit, abs(balance)):
                continue
            balance -= 2.0 * weight[j] * Y[one, j]
            _flip(Phi, Y, P, one, j)
        balance -= 2.0 * weight[i] * Y[one, i]
        _flip(Phi, Y, P, one, i)
    return balance


@njit(**EXACT)
def evolve(
    Phi: Array,
    weight: Array,
    limit: float,
    Y: Array,
    P: Array,
    balance: Array,
    fitness: Array,
    population: int,
    generation: int,
    generations: int,
    state: Array,
) -> tuple[int, int]:
    """Generations of the published search: mutate random parents, keep the best (paper 002, Algorithm 1).

    Parameters
    ----------
    Phi : (n, q)
    weight, limit : of the rows, and the most that |Σ ω y| may be
    Y, P, balance, fitness : signs (μ + ν, n) int8, Φᵀy, Σ ω y and |Φᵀy|² of each; the first μ are the population, best
        first. Changed
    population : μ
    generation : how many there were before
    generations : how many to go through
    state : of the random numbers; changed

    Returns
    -------
    the last of these generations (1, 2, ...) in which the best fitness changed, 0 for none, and how many did
    """
    n, everyone = Y.shape[1], Y.shape[0]
    last, changes = 0, 0
    for t in range(generations):
        flips = max(1, n // (generation + t + 1))
        for child in range(population, everyone):
            parent = _below(state, population)
            for i in range(n):
                Y[child, i] = Y[parent, i]
            for j in range(P.shape[1]):
                P[child, j] = P[parent, j]
            balance[child] = _mutate(Phi, weight, Y, P, child, balance[parent], limit, flips, state)
            fitness[child] = _square(P[child])
        before = fitness[0]
        for one in range(population):  # the best to the front, parents before their equals
            best = one
            for other in range(one + 1, everyone):
                if fitness[other] > fitness[best]:
                    best = other
            if best != one:
                _exchange(Y, P, balance, fitness, one, best)
        if fitness[0] > before + 1e-13:
            last, changes = t + 1, changes + 1
    return last, changes
