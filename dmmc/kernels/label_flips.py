"""Signs and flips for evolutionary MMC: rows scored and added up in float64, the flips that gain most chosen.

Rows are dense features. Their products are taken and added up in float64 whatever their type, as gains of single flips
are small differences.
"""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT, FAST_INNER, frozen

NO_WEIGHTS = np.empty(0)


@njit(**FAST_INNER)
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


@njit(**FAST_INNER)
def row_product(X: Array, i: int, k: int) -> float:
    """The inner product of rows i and k."""
    total = 0.0
    for j in range(X.shape[1]):
        total += np.float64(X[i, j]) * np.float64(X[k, j])
    return total


@njit(**EXACT)
def _lengths(X: Array, out: Array) -> None:
    for i in range(X.shape[0]):
        out[i] = row_product(X, i, i)


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


@njit(**EXACT)
def write_highest(values: Array, y: Array, sign: int, most: int, top: Array, first: int) -> int:
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


def find_highest(values: Array, y: Array, sign: int, most: int) -> Array:
    """Where the `most` highest values of rows of this sign are, highest first; of equal ones the first."""
    top = np.empty(most, np.int64)
    return top[: write_highest(values, y, sign, most, top, 0)]


@njit(**EXACT)
def flip_among(
    c: int, G: Array, pull: Array, y: Array, weight: Array, balance: float, limit: float, least: float
) -> tuple[float, float]:
    """The best flip or swap among a few rows, again and again while one gains more than `least` (E12); y is changed.

    c : how many rows; arrays may be longer
    G : products φ_i·φ_j
    pull : φ_i·p; changed
    y : signs as float64; changed
    weight : of the rows
    balance, limit : Σ ω y over all rows, and the most that its absolute value may be
    least : gains up to this do not count
    Returns what all flips gained, and the balance after them.
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
