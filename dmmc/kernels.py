"""One read of the data per pass: scores, then a loss of the scores, then weighted sums.

A kernel sees a block of rows (dense or CSR), hyperplanes and a loss *table*; it does not know what the loss is for.
Hyperplanes are given in the coordinates of the raw rows (`Geometry.raw` folds centring and scaling in), so integers
stay integers and sparse rows stay sparse.

Rows are visited in tiles of at most 128 that stay in the cache between the two halves of the work. Inside a tile
sums are kept in the compute type (float32 for float32 and integers of up to 16 bits, else float64) and flushed to
float64 after it; sums of integers with integer coefficients stay below 2**24 there, so they are exact.

The score of a row with a hyperplane has the same bits wherever the row stands and whichever hyperplanes are scored
with it; only `wide=False` (one hyperplane alone, the fastest) sums in another order than `wide=True`.

All kernels are serial and release the GIL: the engine runs blocks side by side.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dmmc.data import Csr

Array = NDArray[Any]

FAST = {"nogil": True, "cache": True, "fastmath": True}
EXACT = {"nogil": True, "cache": True}

TILE_ROWS = 128
WIDE_TILE = 640 * 1024
"""Bytes of a tile that is scored with many hyperplanes: it stays in the second-level cache."""
SINGLE_TILE = 512 * 1024
"""Bytes of a tile that is scored with one hyperplane."""

GIVEN, OWN, FROZEN, NEAREST = 0, 1, 2, 3
"""What decides a row's label and its piece of the loss.

GIVEN    the label is given, the margin is that label's
OWN      the label is the largest score plus price, the margin is that label's
FROZEN   the label is given, the piece (and the runner-up) is that of the row's own label
NEAREST  the label is the largest score; the loss is minus that score (squared distances, up to a constant)
"""


class Sums(NamedTuple):
    """What rows add up to, for G groups of K hyperplanes each (k = max(K, 2) labels)."""

    weighted: Array
    """(G * K, d): sum of -(d loss / d score) x."""
    tilt: Array
    """(G * K,): the same with 1 for x."""
    intercept: Array
    """(G,): sum of the intercepts of the rows' pieces."""
    risk: Array
    """(G,): sum of the loss."""
    counts: Array
    """(G, k): weight of the rows with each label."""


class Scratch(NamedTuple):
    """A tile's working memory."""

    tile: Array
    """(T, d) rows in the compute type."""
    scores: Array
    """(H, T), biases not yet added."""
    coef: Array
    """(H, T): weight of each row in each weighted sum."""
    rows: Array
    """(H, T + 7): the rows that count, ..."""
    pulls: Array
    """... and how much."""
    z: Array
    """(H, d): sums over the last rows, at most 128 (CSR: (1, H), the scores of a row)."""


def compute_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """float32 where a tile of it is exact enough, else float64."""
    return np.float32 if dtype.itemsize <= 2 or dtype == np.float32 else np.float64


# ------------------------------------------------------------------------------------------- losses of a tile


@njit(**EXACT)
def _piece(t, knots):
    """Number of knots at or below t, without a branch that a processor could guess wrong."""
    p = 0
    for q in range(knots.size):
        p += knots[q] <= t
    return p


@njit(**EXACT)
def _binary_losses(F, m, i0, b, modes, labels, out, price, table, weight, coef, sums):
    """K = 1: one hyperplane a group, labels 0 and 1 by the sign of its score (E2, E3)."""
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        bias, lift = b[g], b[g] + price[g, 0]
        tilt, intercept, risk, all_weight, above = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            f = F[g, i] + bias
            y = np.int64(F[g, i] + lift >= 0.0) if mode == OWN else np.int64(labels[g, i0 + i])
            sign = 2.0 * y - 1.0
            t = abs(f) if mode == FROZEN else sign * f
            p = _piece(t, knots)
            omega = weight[i0 + i] if weight.size else 1.0
            pull = -slopes[p] * omega * sign
            coef[g, i] = pull
            tilt += pull
            intercept += intercepts[p] * omega
            risk += (intercepts[p] + slopes[p] * t) * omega
            all_weight += omega
            above += omega * y
            if out.size:
                out[g, i0 + i] = y
        sums.tilt[g] += tilt
        sums.intercept[g] += intercept
        sums.risk[g] += risk
        sums.counts[g, 0] += all_weight - above
        sums.counts[g, 1] += above


@njit(**EXACT)
def _largest(F, h, K, i, b, price, g):
    """Label of the largest score plus price; ties to the lowest index."""
    best, top = 0, F[h, i] + b[h] + price[g, 0]
    for p in range(1, K):
        f = F[h + p, i] + b[h + p] + price[g, p]
        if f > top:
            best, top = p, f
    return best


@njit(**EXACT)
def _runner_up(F, h, K, i, b, y):
    best = 1 if y == 0 else 0
    top = F[h + best, i] + b[h + best]
    for p in range(best + 1, K):
        f = F[h + p, i] + b[h + p]
        if p != y and f > top:
            best, top = p, f
    return best


@njit(**EXACT)
def _multi_losses(F, m, i0, b, K, modes, labels, out, price, table, weight, coef, sums):
    """K > 1: labels by the largest score, margins to the runner-up (E7, E8), or nearest centres."""
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        h = g * K
        for p in range(K):
            for i in range(m):
                coef[h + p, i] = 0
        for i in range(m):
            omega = weight[i0 + i] if weight.size else 1.0
            own = 0 if mode == GIVEN else _largest(F, h, K, i, b, price, g)
            y = own if mode == OWN or mode == NEAREST else labels[g, i0 + i]
            sums.counts[g, y] += omega
            if out.size:
                out[g, i0 + i] = y
            if mode == NEAREST:
                coef[h + y, i] = omega
                sums.tilt[h + y] += omega
                sums.risk[g] -= (F[h + y, i] + b[h + y]) * omega
                continue
            top = own if mode == FROZEN else y
            r = _runner_up(F, h, K, i, b, top)
            if r == y:
                continue
            t = F[h + top, i] + b[h + top] - F[h + r, i] - b[h + r]
            p = _piece(t, knots)
            pull = -slopes[p] * omega
            if pull != 0.0:
                coef[h + y, i] = pull
                coef[h + r, i] = -pull
                sums.tilt[h + y] += pull
                sums.tilt[h + r] -= pull
            sums.intercept[g] += intercepts[p] * omega
            sums.risk[g] += (intercepts[p] + slopes[p] * t) * omega


@njit(**EXACT)
def _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums):
    if K == 1:
        _binary_losses(s.scores, m, i0, b, modes, labels, out, price, table, weight, s.coef, sums)
    else:
        _multi_losses(s.scores, m, i0, b, K, modes, labels, out, price, table, weight, s.coef, sums)


# ------------------------------------------------------------------------------------------------- dense tiles


# Rows are named by index, never sliced: a slice counts references, which costs as much as a short row.


@njit(**FAST)
def _single_scores(X, i0, m, w, F):
    """Scores of m rows with one hyperplane, four rows at a time."""
    real = w.dtype.type
    for i in range(0, m, 4):
        p, q, r, t = i, min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1)
        a, b, c, e = real(0), real(0), real(0), real(0)
        for j in range(w.size):
            a += real(X[i0 + p, j]) * w[j]
            b += real(X[i0 + q, j]) * w[j]
            c += real(X[i0 + r, j]) * w[j]
            e += real(X[i0 + t, j]) * w[j]
        F[0, p], F[0, q], F[0, r], F[0, t] = a, b, c, e


@njit(**FAST)
def _dots(X, i0, i, k, W, h, F):
    """Rows i and k of a tile with four hyperplanes: eight sums share each load."""
    zero = W.dtype.type(0)
    a0, a1, a2, a3 = zero, zero, zero, zero
    b0, b1, b2, b3 = zero, zero, zero, zero
    for j in range(W.shape[1]):
        p, q = X[i0 + i, j], X[i0 + k, j]
        a0 += p * W[h, j]
        a1 += p * W[h + 1, j]
        a2 += p * W[h + 2, j]
        a3 += p * W[h + 3, j]
        b0 += q * W[h, j]
        b1 += q * W[h + 1, j]
        b2 += q * W[h + 2, j]
        b3 += q * W[h + 3, j]
    F[h, i], F[h + 1, i], F[h + 2, i], F[h + 3, i] = a0, a1, a2, a3
    F[h, k], F[h + 1, k], F[h + 2, k], F[h + 3, k] = b0, b1, b2, b3


@njit(**FAST)
def _tile_scores(X, i0, m, W, F):
    """Scores of m rows; W has a multiple of four hyperplanes (padded with zeros).

    A few rows meet all hyperplanes before the next few: memory delivers those meanwhile.
    """
    for some in range(0, m, 8):
        for h in range(0, W.shape[0], 4):
            for i in range(some, min(some + 8, m), 2):
                _dots(X, i0, i, min(i + 1, m - 1), W, h, F)


@njit(**FAST)
def _add_rows(X, i0, rows, pulls, h, count, z):
    """Add pull x over the listed rows to z[h], eight rows at a time; lists are filled up with pulls of 0.

    A chain of multiply-adds, not a tree of products: it needs the fewest instructions.
    """
    real = z.dtype.type
    for q in range(0, count, 8):
        a0, a1, a2, a3 = pulls[h, q], pulls[h, q + 1], pulls[h, q + 2], pulls[h, q + 3]
        a4, a5, a6, a7 = pulls[h, q + 4], pulls[h, q + 5], pulls[h, q + 6], pulls[h, q + 7]
        r0, r1, r2, r3 = i0 + rows[h, q], i0 + rows[h, q + 1], i0 + rows[h, q + 2], i0 + rows[h, q + 3]
        r4, r5, r6, r7 = i0 + rows[h, q + 4], i0 + rows[h, q + 5], i0 + rows[h, q + 6], i0 + rows[h, q + 7]
        for j in range(z.shape[1]):
            total = z[h, j]
            total += a0 * real(X[r0, j])
            total += a1 * real(X[r1, j])
            total += a2 * real(X[r2, j])
            total += a3 * real(X[r3, j])
            total += a4 * real(X[r4, j])
            total += a5 * real(X[r5, j])
            total += a6 * real(X[r6, j])
            total += a7 * real(X[r7, j])
            z[h, j] = total


@njit(**EXACT)
def _tile_sums(X, i0, m, s):
    """Weighted sums of a tile, for each hyperplane over the rows that count."""
    for h in range(s.z.shape[0]):
        count = 0
        for i in range(m):
            s.rows[h, count] = i
            s.pulls[h, count] = s.coef[h, i]
            count += s.coef[h, i] != 0
        for q in range(count, count + 7):
            s.rows[h, q], s.pulls[h, q] = 0, 0
        _add_rows(X, i0, s.rows, s.pulls, h, count, s.z)


@njit(**FAST)
def _flush(z, Z):
    """Move the sums of at most 128 rows to float64."""
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] += z[h, j]
            z[h, j] = 0


@njit(**FAST)
def _convert(X, i0, m, tile):
    for i in range(m):
        for j in range(X.shape[1]):
            tile[i, j] = X[i0 + i, j]


@njit(**EXACT)
def _dense_wide(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """Any number of hyperplanes, rows in the compute type."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _tile_scores(X, i0, m, W, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(X, i0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT)
def _dense_wide_converted(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """As `_dense_wide`, for rows of another type, converted tile by tile."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _convert(X, i0, m, s.tile)
        _tile_scores(s.tile, 0, m, W, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(s.tile, 0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT)
def _dense_single(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """One hyperplane, at the speed of memory: rows are summed by eights, while the first-level cache still has them."""
    T = s.scores.shape[1]
    w = W[0]
    count, summed = 0, 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _single_scores(X, i0, m, w, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        for i in range(m):
            if s.coef[0, i] != 0:
                s.rows[0, count] = i0 + i
                s.pulls[0, count] = s.coef[0, i]
                count += 1
                if count == 8:
                    _add_rows(X, 0, s.rows, s.pulls, 0, 8, s.z)
                    count = 0
                    summed += 8
                    if summed == TILE_ROWS:
                        _flush(s.z, sums.weighted)
                        summed = 0
    s.pulls[0, count:8] = 0
    _add_rows(X, 0, s.rows, s.pulls, 0, count, s.z)
    _flush(s.z, sums.weighted)


@njit(**FAST)
def _add_bytes(X, rows, count, z, h):
    """z[h] += the listed rows, eight at a time."""
    q = 0
    while q + 8 <= count:
        r0, r1, r2, r3 = rows[h, q], rows[h, q + 1], rows[h, q + 2], rows[h, q + 3]
        r4, r5, r6, r7 = rows[h, q + 4], rows[h, q + 5], rows[h, q + 6], rows[h, q + 7]
        for j in range(z.shape[1]):
            z[h, j] += (
                np.int16(X[r0, j]) + np.int16(X[r1, j]) + np.int16(X[r2, j]) + np.int16(X[r3, j])
                + np.int16(X[r4, j]) + np.int16(X[r5, j]) + np.int16(X[r6, j]) + np.int16(X[r7, j])
            )  # fmt: skip
        q += 8
    while q < count:
        r0 = rows[h, q]
        for j in range(z.shape[1]):
            z[h, j] += np.int16(X[r0, j])
        q += 1


@njit(**FAST)
def _subtract(z, Z):
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] -= z[h, j]
            z[h, j] = 0


@njit(**EXACT)
def _byte_sums(X, i0, m, s, plus, minus):
    """Coefficients -1, 0, 1: rows are added up in 16 bits, those of either sign apart."""
    for h in range(plus.shape[0]):
        for sign in (1, -1):
            count = 0
            for i in range(m):
                s.rows[h, count] = i0 + i
                count += s.coef[h, i] == sign
            _add_bytes(X, s.rows, count, plus if sign == 1 else minus, h)


@njit(**EXACT)
def _dense_bytes(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """Bytes with coefficients -1, 0, 1: the sum of 128 rows of bytes fits 16 bits."""
    T = s.scores.shape[1]
    w = W[0]
    single = s.tile.size == 0
    plus = np.zeros(sums.weighted.shape, np.int16)
    minus = np.zeros(sums.weighted.shape, np.int16)
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if single:
            _single_scores(X, i0, m, w, s.scores)
        else:
            _convert(X, i0, m, s.tile)
            _tile_scores(s.tile, 0, m, W, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        if summed + m > TILE_ROWS:
            _flush(plus, sums.weighted)
            _subtract(minus, sums.weighted)
            summed = 0
        _byte_sums(X, i0, m, s, plus, minus)
        summed += m
    _flush(plus, sums.weighted)
    _subtract(minus, sums.weighted)


# ---------------------------------------------------------------------------------------------------- CSR rows


@njit(**EXACT)
def _csr_dot(data, indices, start, stop, w):
    """Four sums, so that the additions need not wait for each other; reassociation (fastmath) would be slower."""
    a0, a1, a2, a3 = w.dtype.type(0), w.dtype.type(0), w.dtype.type(0), w.dtype.type(0)
    q = start
    while q + 4 <= stop:
        a0 += w.dtype.type(data[q]) * w[indices[q]]
        a1 += w.dtype.type(data[q + 1]) * w[indices[q + 1]]
        a2 += w.dtype.type(data[q + 2]) * w[indices[q + 2]]
        a3 += w.dtype.type(data[q + 3]) * w[indices[q + 3]]
        q += 4
    while q < stop:
        a0 += w.dtype.type(data[q]) * w[indices[q]]
        q += 1
    return (a0 + a1) + (a2 + a3)


@njit(**EXACT)
def _csr_single(data, indices, indptr, W, b, K, modes, labels, out, price, table, weight, s, sums):
    T = s.scores.shape[1]
    n = indptr.size - 1
    w = W[0]
    z = sums.weighted[0]
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        for i in range(m):
            s.scores[0, i] = _csr_dot(data, indices, indptr[i0 + i], indptr[i0 + i + 1], w)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        for i in range(m):
            pull = s.coef[0, i]
            if pull != 0:
                for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                    z[indices[q]] += pull * data[q]


@njit(**EXACT)
def _csr_scores(data, indices, indptr, i0, m, Wt, f, F):
    """Scores of a tile; Wt is (d, H), so that a row's hyperplanes stand side by side."""
    for i in range(m):
        for h in range(f.size):
            f[h] = 0
        for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
            v, j = Wt.dtype.type(data[q]), indices[q]
            for h in range(f.size):
                f[h] += v * Wt[j, h]
        for h in range(f.size):
            F[h, i] = f[h]


@njit(**EXACT)
def _csr_wide(data, indices, indptr, Wt, b, K, modes, labels, out, price, table, weight, s, sums, Zt):
    """Any number of hyperplanes; sums go to Zt (d, H)."""
    T = s.scores.shape[1]
    n = indptr.size - 1
    H = Zt.shape[1]
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        _csr_scores(data, indices, indptr, i0, m, Wt, s.z[0], s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        for i in range(m):
            count = 0
            for h in range(H):
                s.pulls[0, h] = s.coef[h, i]
                if s.coef[h, i] != 0:
                    s.rows[0, count] = h
                    count += 1
            for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                v, j = float(data[q]), indices[q]
                if 4 * count > H:
                    for h in range(H):
                        Zt[j, h] += s.pulls[0, h] * v
                else:
                    for c in range(count):
                        Zt[j, s.rows[0, c]] += s.pulls[0, s.rows[0, c]] * v


# ------------------------------------------------------------------------------------------ calls from Python


def _frozen(array: Array) -> Array:
    """A read-only view: read-only arrays are a type of their own to numba, and one type is compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


def _parts(rows: Array | Csr) -> tuple[Array, ...]:
    """The arrays that make up the rows; the first holds the values."""
    return tuple(_frozen(part) for part in (rows[:3] if isinstance(rows, Csr) else (rows,)))


def _count(rows: Array | Csr) -> int:
    return rows.n_rows if isinstance(rows, Csr) else rows.shape[0]


def _aligned(rows: int, columns: int, dtype: type[np.floating[Any]]) -> Array:
    """Memory that starts at a cache line, so that vector loads do not straddle two."""
    size = rows * columns * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size].view(dtype).reshape(rows, columns)


def _padded(W: Array, dtype: type[np.floating[Any]]) -> Array:
    """Hyperplanes in the compute type, with rows of zeros up to a multiple of four."""
    full = _aligned(-(-len(W) // 4) * 4, W.shape[1], dtype)
    full[: len(W)] = W
    full[len(W) :] = 0
    return full


def _tile_rows(row_bytes: int, tile_bytes: int) -> int:
    return int(np.clip(tile_bytes // row_bytes // 8 * 8, 8, TILE_ROWS))


def _scratch(T: int, H: int, dtype: type[np.floating[Any]], tile: tuple[int, int], z: tuple[int, int]) -> Scratch:
    return Scratch(
        tile=_aligned(*tile, dtype),
        scores=np.empty((H, T), dtype),
        coef=np.empty((H, T), dtype),
        rows=np.zeros((H, T + 7), np.int64),
        pulls=np.zeros((H, T + 7), dtype),
        z=np.zeros(z, dtype),
    )


NONE = np.empty(0)
NO_LABELS = np.empty((0, 0), np.int8)


def losses(
    rows: Array | Csr,
    W: Array,
    b: Array,
    table: tuple[Array, Array, Array],
    modes: Array,
    labels: Array = NO_LABELS,
    price: Array | None = None,
    weight: Array | None = None,
    wide: bool = True,
    keep: bool = False,
) -> tuple[Sums, Array]:
    """Scores, losses and weighted sums of a block in one read.

    Parameters
    ----------
    rows : dense (m, d) or Csr
    W : (G, K, d) hyperplanes in raw coordinates, b : (G, K) biases
    table : the loss of a margin, as `losses.Table`
    modes : (G,) of GIVEN, OWN, FROZEN or NEAREST
    labels : (G, m) int8, read for GIVEN and FROZEN
    price : (G, K), added to the scores when labels are taken (OWN)
    weight : (m,) or None
    wide : False allows the faster kernel for a single hyperplane
    keep : return the labels (G, m) too

    Returns
    -------
    sums, labels
    """
    G, K, d = W.shape
    H = G * K
    parts = _parts(rows)
    dtype = compute_dtype(parts[0].dtype)
    single = H == 1 and not wide
    sparse = isinstance(rows, Csr)
    planes = W.reshape(H, d).astype(dtype) if single else _padded(W.reshape(H, d), dtype)
    sums = Sums(np.zeros((H, d)), np.zeros(H), np.zeros(G), np.zeros(G), np.zeros((G, max(K, 2))))
    out = np.empty((G, _count(rows)), np.int8) if keep else NO_LABELS
    if sparse:
        s = _scratch(TILE_ROWS, len(planes), dtype, (0, 0), (1, len(planes)))
    elif single:
        s = _scratch(_tile_rows(d * rows.itemsize, SINGLE_TILE), 1, dtype, (0, 0), (1, d))
    else:
        T = _tile_rows(d * np.dtype(dtype).itemsize, WIDE_TILE)
        s = _scratch(T, len(planes), dtype, (T, d), (H, d))
    omega = _frozen(NONE if weight is None else weight)
    lift = np.zeros((G, K)) if price is None else price
    common = (b.reshape(H), K, modes, labels, out, lift, table, omega)
    if sparse and not single:
        total = np.zeros((d, H))
        _csr_wide(*parts, np.ascontiguousarray(planes.T), *common, s, sums, total)
        return sums._replace(weighted=np.ascontiguousarray(total.T)), out
    signs = weight is None and np.isin(table[2], (-1.0, 0.0, 1.0)).all()
    if sparse:
        kernel = _csr_single
    elif signs and parts[0].dtype == np.uint8:
        kernel = _dense_bytes
    else:
        kernel = _dense_single if single else _dense_wide if parts[0].dtype == dtype else _dense_wide_converted
    kernel(*parts, planes, *common, s, sums)
    return sums, out


@njit(**EXACT)
def _dense_scores(X, W, wide, s, out):
    T = s.scores.shape[1]
    w = W[0]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _convert(X, i0, m, s.tile)
            _tile_scores(s.tile, 0, m, W, s.scores)
        else:
            _single_scores(X, i0, m, w, s.scores)
        for i in range(m):
            for h in range(out.shape[1]):
                out[i0 + i, h] = s.scores[h, i]


@njit(**EXACT)
def _csr_all_scores(data, indices, indptr, W, Wt, wide, s, out):
    T = s.scores.shape[1]
    n = indptr.size - 1
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        if wide:
            _csr_scores(data, indices, indptr, i0, m, Wt, s.z[0], s.scores)
        else:
            for i in range(m):
                s.scores[0, i] = _csr_dot(data, indices, indptr[i0 + i], indptr[i0 + i + 1], W[0])
        for i in range(m):
            for h in range(out.shape[1]):
                out[i0 + i, h] = s.scores[h, i]


def scores(rows: Array | Csr, W: Array, wide: bool = True) -> Array:
    """`rows @ W.T` with the bits that `losses` sees, as float64 (m, K); biases are the caller's."""
    H, d = W.shape
    parts = _parts(rows)
    dtype = compute_dtype(parts[0].dtype)
    wide = wide or H > 1
    planes = _padded(W, dtype) if wide else W.astype(dtype)
    out = np.empty((_count(rows), H))
    if isinstance(rows, Csr):
        s = _scratch(TILE_ROWS, len(planes), dtype, (0, 0), (1, len(planes)))
        by_feature = np.ascontiguousarray(planes.T) if wide else planes
        _csr_all_scores(*parts, planes, by_feature, wide, s, out)
    else:
        T = _tile_rows(d * np.dtype(dtype).itemsize, WIDE_TILE)
        _dense_scores(*parts, planes, wide, _scratch(T, len(planes), dtype, (T if wide else 0, d), (0, 0)), out)
    return out


# ------------------------------------------------------------------------------------- moments and distances


@njit(**EXACT)
def _dense_moments(X, shift, weight, first, second):
    for i in range(X.shape[0]):
        omega = weight[i] if weight.size else 1.0
        for j in range(X.shape[1]):
            v = X[i, j] - shift[j]
            first[j] += omega * v
            second[j] += omega * v * v


@njit(**EXACT)
def _csr_moments(data, indices, indptr, weight, first, second):
    for i in range(indptr.size - 1):
        omega = weight[i] if weight.size else 1.0
        for q in range(indptr[i], indptr[i + 1]):
            v = float(data[q])
            first[indices[q]] += omega * v
            second[indices[q]] += omega * v * v


def moments(rows: Array | Csr, shift: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Per feature: weighted sums of `x - shift` and of its square (CSR: of x; a shift would fill the zeros)."""
    first, second = np.zeros(len(shift)), np.zeros(len(shift))
    omega = _frozen(NONE if weight is None else weight)
    if isinstance(rows, Csr):
        _csr_moments(*_parts(rows), omega, first, second)
    else:
        _dense_moments(*_parts(rows), shift, omega, first, second)
    return first, second


@njit(**FAST)
def _squared_distance(X, i, centre, inverse):
    total = 0.0
    for j in range(centre.size):
        v = (X[i, j] - centre[j]) * inverse[j]
        total += v * v
    return total


@njit(**EXACT)
def _dense_distances(X, centre, inverse, out):
    for i in range(X.shape[0]):
        out[i] = _squared_distance(X, i, centre, inverse)


@njit(**EXACT)
def _csr_distances(data, indices, indptr, centre, inverse, base, out):
    for i in range(indptr.size - 1):
        total = base
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            v, c = data[q] * inverse[j], centre[j] * inverse[j]
            total += v * (v - 2.0 * c)
        out[i] = total


def squared_distances(rows: Array | Csr, centre: Array, inverse: Array) -> Array:
    """`sum_j ((x_j - centre_j) * inverse_j) ** 2` for every row."""
    out = np.empty(_count(rows))
    if isinstance(rows, Csr):
        base = float(np.sum((centre * inverse) ** 2))
        _csr_distances(*_parts(rows), centre, inverse, base, out)
    else:
        _dense_distances(*_parts(rows), centre, inverse, out)
    return np.maximum(out, 0.0)


@njit(**EXACT)
def _csr_weighted_sum(data, indices, indptr, coef, Zt):
    for i in range(indptr.size - 1):
        for q in range(indptr[i], indptr[i + 1]):
            for h in range(coef.shape[1]):
                Zt[indices[q], h] += coef[i, h] * data[q]


@njit(**EXACT)
def _dense_weighted_sum(X, coef, T, z, Z):
    every = np.zeros((coef.shape[0], T + 7), np.int64)
    pulls = np.zeros((coef.shape[0], T + 7), coef.dtype)
    for h in range(coef.shape[0]):
        every[h, :T] = np.arange(T)
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        every[:, m:] = 0
        pulls[:, :m] = coef[:, i0 : i0 + m]
        pulls[:, m:] = 0
        for h in range(coef.shape[0]):
            _add_rows(X, i0, every, pulls, h, m, z)
        _flush(z, Z)


def weighted_sum(rows: Array | Csr, coef: Array) -> Array:
    """`coef.T @ rows` (H, d) in float64, for coefficients (m, H)."""
    if isinstance(rows, Csr):
        total = np.zeros((rows.n_features, coef.shape[1]))
        _csr_weighted_sum(*_parts(rows), coef, total)
        return np.ascontiguousarray(total.T)
    dtype = compute_dtype(rows.dtype)
    total = np.zeros((coef.shape[1], rows.shape[1]))
    _dense_weighted_sum(
        *_parts(rows), np.ascontiguousarray(coef.T, dtype), TILE_ROWS, np.zeros(total.shape, dtype), total
    )
    return total
