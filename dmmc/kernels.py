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
TILE_NUMBERS = 100_000
"""A tile holds at most about this many numbers (400 kB of float32), so that it stays in the second-level cache."""

GIVEN, OWN, FROZEN, NEAREST = 0, 1, 2, 3
"""What decides a row's label and its piece of the loss.

GIVEN    the label is given, the margin is that label's
OWN      the label is the largest score plus price, the margin is that label's
FROZEN   the label is given, the piece (and the runner-up) is that of the row's own label
NEAREST  the label is the largest score; the loss is minus that score (squared distances, up to a constant)
"""


class Table(NamedTuple):
    """A piecewise linear function of the margin: `intercepts[p] + slopes[p] * t`, p = number of knots <= t."""

    knots: Array
    intercepts: Array
    slopes: Array


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
    pulls: Array
    z: Array
    """(d,): one hyperplane's sum over one tile."""


def compute_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """float32 where a tile of it is exact enough, else float64."""
    return np.float32 if dtype.itemsize <= 2 or dtype == np.float32 else np.float64


# ------------------------------------------------------------------------------------------- losses of a tile


@njit(**EXACT)
def _piece(t, knots):
    p = 0
    while p < knots.size and knots[p] <= t:
        p += 1
    return p


@njit(**EXACT)
def _binary_losses(F, m, i0, b, modes, labels, out, price, table, weight, coef, sums):
    """K = 1: one hyperplane a group, labels 0 and 1 by the sign of its score (E2, E3)."""
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        bias, lift = b[g], b[g] + price[g, 0]
        tilt, intercept, risk, below, above = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            f = F[g, i] + bias
            y = (1 if F[g, i] + lift >= 0.0 else 0) if mode == OWN else labels[g, i0 + i]
            sign = 1.0 if y == 1 else -1.0
            t = abs(f) if mode == FROZEN else sign * f
            p = _piece(t, knots)
            omega = weight[i0 + i] if weight.size else 1.0
            pull = -slopes[p] * omega * sign
            coef[g, i] = pull
            tilt += pull
            intercept += intercepts[p] * omega
            risk += (intercepts[p] + slopes[p] * t) * omega
            if y == 1:
                above += omega
            else:
                below += omega
            if out.size:
                out[g, i0 + i] = y
        sums.tilt[g] += tilt
        sums.intercept[g] += intercept
        sums.risk[g] += risk
        sums.counts[g, 0] += below
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


@njit(**FAST)
def _dot(x, w):
    total = w.dtype.type(0)
    for j in range(x.size):
        total += w.dtype.type(x[j]) * w[j]
    return total


@njit(**FAST)
def _dots(x0, x1, w0, w1, w2, w3):
    """Two rows with four hyperplanes: eight sums share each load."""
    zero = w0.dtype.type(0)
    a0, a1, a2, a3 = zero, zero, zero, zero
    b0, b1, b2, b3 = zero, zero, zero, zero
    for j in range(x0.size):
        p, q = x0[j], x1[j]
        a0 += p * w0[j]
        a1 += p * w1[j]
        a2 += p * w2[j]
        a3 += p * w3[j]
        b0 += q * w0[j]
        b1 += q * w1[j]
        b2 += q * w2[j]
        b3 += q * w3[j]
    return a0, a1, a2, a3, b0, b1, b2, b3


@njit(**FAST)
def _tile_scores(tile, m, W, F):
    """Scores of m rows, two at a time; W has a multiple of four hyperplanes (padded with zeros)."""
    for h in range(0, W.shape[0], 4):
        w0, w1, w2, w3 = W[h], W[h + 1], W[h + 2], W[h + 3]
        for i in range(0, m, 2):
            k = min(i + 1, m - 1)
            a0, a1, a2, a3, b0, b1, b2, b3 = _dots(tile[i], tile[k], w0, w1, w2, w3)
            F[h, i], F[h + 1, i], F[h + 2, i], F[h + 3, i] = a0, a1, a2, a3
            F[h, k], F[h + 1, k], F[h + 2, k], F[h + 3, k] = b0, b1, b2, b3


@njit(**FAST)
def _tile_sum(tile, rows, coef, count, z):
    """z = sum of coef x over the listed rows, eight at a time."""
    real = z.dtype.type
    for j in range(z.size):
        z[j] = 0
    q = 0
    while q + 8 <= count:
        a0, a1, a2, a3 = coef[q], coef[q + 1], coef[q + 2], coef[q + 3]
        a4, a5, a6, a7 = coef[q + 4], coef[q + 5], coef[q + 6], coef[q + 7]
        x0, x1, x2, x3 = tile[rows[q]], tile[rows[q + 1]], tile[rows[q + 2]], tile[rows[q + 3]]
        x4, x5, x6, x7 = tile[rows[q + 4]], tile[rows[q + 5]], tile[rows[q + 6]], tile[rows[q + 7]]
        for j in range(z.size):
            z[j] += ((a0 * real(x0[j]) + a1 * real(x1[j])) + (a2 * real(x2[j]) + a3 * real(x3[j]))) + (
                (a4 * real(x4[j]) + a5 * real(x5[j])) + (a6 * real(x6[j]) + a7 * real(x7[j]))
            )
        q += 8
    while q < count:
        a0, x0 = coef[q], tile[rows[q]]
        for j in range(z.size):
            z[j] += a0 * real(x0[j])
        q += 1


@njit(**FAST)
def _flush(z, Z):
    for j in range(z.size):
        Z[j] += z[j]


@njit(**EXACT)
def _tile_sums(tile, m, s, sums):
    for h in range(sums.weighted.shape[0]):
        count = 0
        for i in range(m):
            if s.coef[h, i] != 0:
                s.rows[count] = i
                s.pulls[count] = s.coef[h, i]
                count += 1
        if count:
            _tile_sum(tile, s.rows, s.pulls, count, s.z)
            _flush(s.z, sums.weighted[h])


@njit(**FAST)
def _convert(X, i0, m, tile):
    for i in range(m):
        for j in range(X.shape[1]):
            tile[i, j] = X[i0 + i, j]


@njit(**EXACT)
def _dense_wide(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """Any number of hyperplanes, rows in the compute type."""
    T = s.scores.shape[1]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        tile = X[i0 : i0 + m]
        _tile_scores(tile, m, W, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        _tile_sums(tile, m, s, sums)


@njit(**EXACT)
def _dense_wide_converted(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """As `_dense_wide`, for rows of another type: converted tile by tile."""
    T = s.scores.shape[1]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _convert(X, i0, m, s.tile)
        _tile_scores(s.tile, m, W, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        _tile_sums(s.tile, m, s, sums)


@njit(**EXACT)
def _dense_single(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """One hyperplane: at the speed of memory."""
    T = s.scores.shape[1]
    w = W[0]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        for i in range(m):
            s.scores[0, i] = _dot(X[i0 + i], w)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        _tile_sums(X[i0 : i0 + m], m, s, sums)


@njit(**FAST)
def _add_bytes(x, sign, z):
    if sign > 0:
        for j in range(z.size):
            z[j] += np.int16(x[j])
    else:
        for j in range(z.size):
            z[j] -= np.int16(x[j])


@njit(**EXACT)
def _dense_single_bytes(X, W, b, K, modes, labels, out, price, table, weight, s, sums):
    """One hyperplane, bytes, coefficients -1, 0, 1: the sum of 128 rows of bytes fits 16 bits."""
    T = s.scores.shape[1]
    w = W[0]
    z = np.zeros(X.shape[1], np.int16)
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        for i in range(m):
            s.scores[0, i] = _dot(X[i0 + i], w)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        for i in range(m):
            if s.coef[0, i] != 0:
                _add_bytes(X[i0 + i], s.coef[0, i], z)
        _flush(z, sums.weighted[0])
        z[:] = 0


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
        _csr_scores(data, indices, indptr, i0, m, Wt, s.z, s.scores)
        _losses(m, i0, b, K, modes, labels, out, price, table, weight, s, sums)
        for i in range(m):
            count = 0
            for h in range(H):
                s.pulls[h] = s.coef[h, i]
                if s.coef[h, i] != 0:
                    s.rows[count] = h
                    count += 1
            for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                v, j = float(data[q]), indices[q]
                if 4 * count > H:
                    for h in range(H):
                        Zt[j, h] += s.pulls[h] * v
                else:
                    for c in range(count):
                        Zt[j, s.rows[c]] += s.pulls[s.rows[c]] * v


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


def _padded(W: Array, dtype: type[np.floating[Any]]) -> Array:
    """Hyperplanes in the compute type, with rows of zeros up to a multiple of four."""
    full = np.zeros((-(-len(W) // 4) * 4, W.shape[1]), dtype)
    full[: len(W)] = W
    return full


def _tile_rows(d: int) -> int:
    return int(np.clip(TILE_NUMBERS // d, 8, TILE_ROWS))


def _scratch(T: int, d: int, H: int, dtype: type[np.floating[Any]], converted: bool) -> Scratch:
    return Scratch(
        tile=np.empty((T if converted else 0, d), dtype),
        scores=np.empty((H, T), dtype),
        coef=np.empty((H, T), dtype),
        rows=np.empty(max(T, H), np.int64),
        pulls=np.empty(max(T, H), dtype),
        z=np.empty(d, dtype),
    )


NONE = np.empty(0)
NO_LABELS = np.empty((0, 0), np.int8)


def losses(
    rows: Array | Csr,
    W: Array,
    b: Array,
    table: Table,
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
    table : the loss of a margin
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
    converted = not (sparse or single) and parts[0].dtype != dtype
    planes = W.reshape(H, d).astype(dtype) if single else _padded(W.reshape(H, d), dtype)
    sums = Sums(np.zeros((H, d)), np.zeros(H), np.zeros(G), np.zeros(G), np.zeros((G, max(K, 2))))
    out = np.empty((G, _count(rows)), np.int8) if keep else NO_LABELS
    s = _scratch(_tile_rows(d), d, len(planes), dtype, converted)
    omega = _frozen(NONE if weight is None else weight)
    lift = np.zeros((G, K)) if price is None else price
    common = (b.reshape(H), K, modes, labels, out, lift, table, omega)
    if sparse and not single:
        total = np.zeros((d, H))
        s = s._replace(z=np.empty(len(planes), dtype))
        _csr_wide(*parts, np.ascontiguousarray(planes.T), *common, s, sums, total)
        return sums._replace(weighted=np.ascontiguousarray(total.T)), out
    bytes_add = weight is None and parts[0].dtype == np.uint8 and np.isin(table.slopes, (-1.0, 0.0, 1.0)).all()
    if sparse:
        kernel = _csr_single
    elif single:
        kernel = _dense_single_bytes if bytes_add else _dense_single
    else:
        kernel = _dense_wide_converted if converted else _dense_wide
    kernel(*parts, planes, *common, s, sums)
    return sums, out


@njit(**EXACT)
def _dense_scores(X, W, wide, s, out):
    T = s.scores.shape[1]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _convert(X, i0, m, s.tile)
            _tile_scores(s.tile, m, W, s.scores)
        else:
            for i in range(m):
                s.scores[0, i] = _dot(X[i0 + i], W[0])
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
            _csr_scores(data, indices, indptr, i0, m, Wt, s.z, s.scores)
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
        s = _scratch(TILE_ROWS, len(planes), len(planes), dtype, False)
        by_feature = np.ascontiguousarray(planes.T) if wide else planes
        _csr_all_scores(*parts, planes, by_feature, wide, s, out)
    else:
        _dense_scores(*parts, planes, wide, _scratch(_tile_rows(d), d, len(planes), dtype, wide), out)
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
def _squared_distance(x, centre, inverse):
    total = 0.0
    for j in range(x.size):
        v = (x[j] - centre[j]) * inverse[j]
        total += v * v
    return total


@njit(**EXACT)
def _dense_distances(X, centre, inverse, out):
    for i in range(X.shape[0]):
        out[i] = _squared_distance(X[i], centre, inverse)


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
    every = np.arange(T)
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        for h in range(coef.shape[0]):
            _tile_sum(X[i0 : i0 + m], every, coef[h, i0:], m, z)
            _flush(z, Z[h])


def weighted_sum(rows: Array | Csr, coef: Array) -> Array:
    """`coef.T @ rows` (H, d) in float64, for coefficients (m, H)."""
    if isinstance(rows, Csr):
        total = np.zeros((rows.n_features, coef.shape[1]))
        _csr_weighted_sum(*_parts(rows), coef, total)
        return np.ascontiguousarray(total.T)
    dtype = compute_dtype(rows.dtype)
    total = np.zeros((coef.shape[1], rows.shape[1]))
    _dense_weighted_sum(*_parts(rows), np.ascontiguousarray(coef.T, dtype), TILE_ROWS, np.empty(rows.shape[1], dtype), total)
    return total
