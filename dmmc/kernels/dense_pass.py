"""The fused pass over dense rows, in numba: scores of a tile, its losses, weighted sums of its rows.

Rows are named by index and never sliced (a slice counts references, which costs as much as a short row); loops over
features run over a plain `range`, so they vectorise.
"""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.data.blocks import TILE_ROWS
from dmmc.kernels.arguments import EXACT, EXACT_INNER, FAST_INNER, Ask, Scratch, Sums
from dmmc.kernels.tile_losses import tile_losses


@njit(**FAST_INNER)
def _single_scores(X: Array, i0: int, m: int, W: Array, h: int, F: Array) -> None:
    """Scores of m rows with one hyperplane, four rows at a time."""
    real = W.dtype.type
    for i in range(0, m, 4):
        p, q, r, t = i, min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1)
        a, b, c, e = real(0), real(0), real(0), real(0)
        for j in range(W.shape[1]):
            a += real(X[i0 + p, j]) * W[h, j]
            b += real(X[i0 + q, j]) * W[h, j]
            c += real(X[i0 + r, j]) * W[h, j]
            e += real(X[i0 + t, j]) * W[h, j]
        F[h, p], F[h, q], F[h, r], F[h, t] = a, b, c, e


@njit(**FAST_INNER)
def _dots(X: Array, i0: int, i: int, k: int, m: int, n: int, W: Array, h: int, F: Array) -> None:
    """Rows i, k, m and n of a tile with four hyperplanes: sixteen sums share each load."""
    zero = W.dtype.type(0)
    a0, a1, a2, a3 = zero, zero, zero, zero
    b0, b1, b2, b3 = zero, zero, zero, zero
    c0, c1, c2, c3 = zero, zero, zero, zero
    e0, e1, e2, e3 = zero, zero, zero, zero
    for j in range(W.shape[1]):
        p, q, r, s = X[i0 + i, j], X[i0 + k, j], X[i0 + m, j], X[i0 + n, j]
        w0, w1, w2, w3 = W[h, j], W[h + 1, j], W[h + 2, j], W[h + 3, j]
        a0 += p * w0
        b0 += q * w0
        c0 += r * w0
        e0 += s * w0
        a1 += p * w1
        b1 += q * w1
        c1 += r * w1
        e1 += s * w1
        a2 += p * w2
        b2 += q * w2
        c2 += r * w2
        e2 += s * w2
        a3 += p * w3
        b3 += q * w3
        c3 += r * w3
        e3 += s * w3
    F[h, i], F[h + 1, i], F[h + 2, i], F[h + 3, i] = a0, a1, a2, a3
    F[h, k], F[h + 1, k], F[h + 2, k], F[h + 3, k] = b0, b1, b2, b3
    F[h, m], F[h + 1, m], F[h + 2, m], F[h + 3, m] = c0, c1, c2, c3
    F[h, n], F[h + 1, n], F[h + 2, n], F[h + 3, n] = e0, e1, e2, e3


@njit(**FAST_INNER)
def _wide_scores(X: Array, i0: int, m: int, W: Array, F: Array) -> None:
    """Scores of m rows; W has a multiple of four hyperplanes (padded with zeros).

    A few rows meet all hyperplanes before the next few: memory delivers those meanwhile.
    """
    for some in range(0, m, 8):
        for h in range(0, W.shape[0], 4):
            for i in range(some, min(some + 8, m), 4):
                _dots(X, i0, i, min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1), W, h, F)


@njit(**FAST_INNER)
def _convert(X: Array, i0: int, m: int, tile: Array) -> None:
    for i in range(m):
        for j in range(X.shape[1]):
            tile[i, j] = X[i0 + i, j]


@njit(**FAST_INNER)
def _add_rows(X: Array, i0: int, rows: Array, pulls: Array, h: int, count: int, z: Array) -> None:
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


@njit(**EXACT_INNER)
def _tile_sums(X: Array, i0: int, m: int, s: Scratch) -> None:
    """Weighted sums of a tile, for each hyperplane over the rows that count."""
    for h in range(s.z.shape[0]):
        count = 0
        for i in range(m):
            s.rows[h, count] = i
            s.pulls[h, count] = s.coef[h, i]
            count += s.pulls[h, count] != 0
        for q in range(count, count + 7):
            s.rows[h, q], s.pulls[h, q] = 0, 0
        _add_rows(X, i0, s.rows, s.pulls, h, count, s.z)


@njit(**FAST_INNER)
def _flush(z: Array, Z: Array) -> None:
    """Move the sums of at most 128 rows to float64."""
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] += z[h, j]
            z[h, j] = 0


@njit(**FAST_INNER)
def _subtract(z: Array, Z: Array) -> None:
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] -= z[h, j]
            z[h, j] = 0


@njit(**FAST_INNER)
def _add_bytes(X: Array, rows: Array, count: int, z: Array, h: int) -> None:
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


@njit(**EXACT_INNER)
def _byte_sums(X: Array, i0: int, m: int, s: Scratch, plus: Array, minus: Array) -> None:
    """Coefficients -1, 0, 1: rows are added up in 16 bits, those of either sign apart."""
    for h in range(plus.shape[0]):
        for sign in (1, -1):
            count = 0
            for i in range(m):
                s.rows[h, count] = i0 + i
                count += s.coef[h, i] == sign
            _add_bytes(X, s.rows, count, plus if sign == 1 else minus, h)


@njit(**EXACT)
def dense_single(X: Array, W: Array, ask: Ask, s: Scratch, sums: Sums) -> None:
    """One hyperplane, at the speed of memory: rows are summed by eights, while the first-level cache still has them."""
    T = s.scores.shape[1]
    count, summed = 0, 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _single_scores(X, i0, m, W, 0, s.scores)
        tile_losses(m, i0, ask, s, sums)
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


@njit(**EXACT_INNER)
def _keep_scores(F: Array, i0: int, m: int, out: Array) -> None:
    for i in range(m):
        for h in range(out.shape[1]):
            out[i0 + i, h] = F[h, i]


@njit(**EXACT)
def dense_many(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums, out: Array) -> None:
    """Any number of hyperplanes, rows in the compute type; scores alone if there is room for them (m, H) in `out`."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _wide_scores(X, i0, m, W, s.scores)
        else:
            for h in range(W.shape[0]):
                _single_scores(X, i0, m, W, h, s.scores)
        if out.size:
            _keep_scores(s.scores, i0, m, out)
            continue
        tile_losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(X, i0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT_INNER)
def _converted_scores(X: Array, i0: int, m: int, W: Array, wide: bool, s: Scratch) -> None:
    if wide:
        _wide_scores(s.tile, 0, m, W, s.scores)
    else:
        for h in range(W.shape[0]):
            _single_scores(X, i0, m, W, h, s.scores)


@njit(**EXACT)
def dense_many_converted(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums, out: Array) -> None:
    """As `dense_many`, for rows of another type, converted tile by tile."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _convert(X, i0, m, s.tile)
        _converted_scores(X, i0, m, W, wide, s)
        if out.size:
            _keep_scores(s.scores, i0, m, out)
            continue
        tile_losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(s.tile, 0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT)
def dense_bytes(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums, out: Array) -> None:
    """Bytes with coefficients -1, 0, 1: the sum of 128 rows of bytes fits 16 bits."""
    T = s.scores.shape[1]
    plus = np.zeros(sums.weighted.shape, np.int16)
    minus = np.zeros(sums.weighted.shape, np.int16)
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _convert(X, i0, m, s.tile)
        _converted_scores(X, i0, m, W, wide, s)
        if out.size:
            _keep_scores(s.scores, i0, m, out)
            continue
        tile_losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(plus, sums.weighted)
            _subtract(minus, sums.weighted)
            summed = 0
        _byte_sums(X, i0, m, s, plus, minus)
        summed += m
    _flush(plus, sums.weighted)
    _subtract(minus, sums.weighted)
