"""The fused pass in numba: the losses of a tile, dense tiles, CSR rows.

One file, because numba's cache notices changes of a function's own file only. Three things were paid for: rows are
named by index and never sliced (a slice counts references, which costs as much as a short row); loops over losses
have no branch that a processor could guess wrong; loops over features run over a plain `range`, so they vectorise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from dmmc.data.blocks import TILE_ROWS
from dmmc.kernels.common import EXACT, FAST, Array, Ask, Scratch, Sums

GIVEN, OWN, FROZEN, NEAREST = 0, 1, 2, 3
"""What decides a row's label and its piece of the loss.

GIVEN    the label is given, the margin is that label's
OWN      the label is the largest score plus price, the margin is that label's
FROZEN   the label is given, the piece of the loss is that of the label which OWN would take
NEAREST  the label is the largest score; the loss is minus that score (squared distances, up to a constant)
"""

Rows = tuple[Array, Array, Array]
"""Values, columns, and where each row begins."""


# ------------------------------------------------------------------------------------------- losses of a tile


@njit(**EXACT)
def _piece(t: float, knots: Array) -> int:
    """Number of knots at or below t."""
    p = 0
    for q in range(knots.size):
        p += knots[q] <= t
    return p


@njit(**EXACT)
def _binary_losses(F: Array, m: int, i0: int, ask: Ask, coef: Array, sums: Sums) -> None:
    """K = 1: one hyperplane a group, labels 0 and 1 by the sign of its score (E2, E3)."""
    b, _, modes, labels, price, table, weight, out, _ = ask
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        bias, lift = b[g], b[g] + price[g, 0]
        tilt, intercept, risk, all_weight, above = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            f = F[g, i] + bias
            own = np.int64(F[g, i] + lift >= 0.0)
            y = own if mode == OWN else np.int64(labels[g, i0 + i])
            sign = 2.0 * y - 1.0
            t = (2.0 * own - 1.0) * f if mode == FROZEN else sign * f
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
def _largest(F: Array, h: int, K: int, i: int, b: Array, price: Array, g: int) -> int:
    """Label of the largest score plus price; ties to the lowest index."""
    best, top = 0, F[h, i] + b[h] + price[g, 0]
    for p in range(1, K):
        f = F[h + p, i] + b[h + p] + price[g, p]
        if f > top:
            best, top = p, f
    return best


@njit(**EXACT)
def _runner_up(F: Array, h: int, K: int, i: int, b: Array, y: int) -> int:
    """Label of the largest score but y's; ties to the lowest index."""
    best = 1 if y == 0 else 0
    top = F[h + best, i] + b[h + best]
    for p in range(best + 1, K):
        f = F[h + p, i] + b[h + p]
        if p != y and f > top:
            best, top = p, f
    return best


@njit(**EXACT)
def _summed_losses(
    F: Array, h: int, K: int, i: int, y: int, g: int, omega: float, ask: Ask, coef: Array, sums: Sums
) -> None:
    """The losses of a row's margins to all other labels, added up (docs/mathematics.md, "More clusters")."""
    b = ask.b
    knots, intercepts, slopes = ask.table
    own, all_pulls = F[h + y, i] + b[h + y], 0.0
    for r in range(K):
        if r != y:
            t = own - F[h + r, i] - b[h + r]
            p = _piece(t, knots)
            pull = -slopes[p] * omega
            coef[h + r, i] = -pull
            all_pulls += pull
            sums.tilt[h + r] -= pull
            sums.intercept[g] += intercepts[p] * omega
            sums.risk[g] += (intercepts[p] + slopes[p] * t) * omega
    coef[h + y, i] = all_pulls
    sums.tilt[h + y] += all_pulls


@njit(**EXACT)
def _multi_losses(F: Array, m: int, i0: int, ask: Ask, coef: Array, sums: Sums) -> None:
    """K > 1: labels by the largest score, margins to the runner-up (E7, E8) or to all others, or nearest centres."""
    b, K, modes, labels, price, table, weight, out, summed = ask
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
            y = own if mode in (OWN, NEAREST) else labels[g, i0 + i]
            sums.counts[g, y] += omega
            if out.size:
                out[g, i0 + i] = y
            if mode == NEAREST:
                coef[h + y, i] = omega
                sums.tilt[h + y] += omega
                sums.risk[g] -= (F[h + y, i] + b[h + y]) * omega
                continue
            if summed:
                _summed_losses(F, h, K, i, y, g, omega, ask, coef, sums)
                continue
            r = _runner_up(F, h, K, i, b, y)
            top, next_to = y, r
            if mode == FROZEN and own != y:
                top, next_to = own, _runner_up(F, h, K, i, b, own)
            t = F[h + top, i] + b[h + top] - F[h + next_to, i] - b[h + next_to]
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
def _losses(m: int, i0: int, ask: Ask, s: Scratch, sums: Sums) -> None:
    if ask.K == 1:
        _binary_losses(s.scores, m, i0, ask, s.coef, sums)
    else:
        _multi_losses(s.scores, m, i0, ask, s.coef, sums)


# ----------------------------------------------------------------------------------------------- dense scores


@njit(**FAST)
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


@njit(**FAST)
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


@njit(**FAST)
def _wide_scores(X: Array, i0: int, m: int, W: Array, F: Array) -> None:
    """Scores of m rows; W has a multiple of four hyperplanes (padded with zeros).

    A few rows meet all hyperplanes before the next few: memory delivers those meanwhile.
    """
    for some in range(0, m, 8):
        for h in range(0, W.shape[0], 4):
            for i in range(some, min(some + 8, m), 4):
                _dots(X, i0, i, min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1), W, h, F)


@njit(**FAST)
def _convert(X: Array, i0: int, m: int, tile: Array) -> None:
    for i in range(m):
        for j in range(X.shape[1]):
            tile[i, j] = X[i0 + i, j]


# ----------------------------------------------------------------------------------------- dense weighted sums


@njit(**FAST)
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


@njit(**EXACT)
def _tile_sums(X: Array, i0: int, m: int, s: Scratch) -> None:
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
def _flush(z: Array, Z: Array) -> None:
    """Move the sums of at most 128 rows to float64."""
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] += z[h, j]
            z[h, j] = 0


@njit(**FAST)
def _subtract(z: Array, Z: Array) -> None:
    for h in range(z.shape[0]):
        for j in range(z.shape[1]):
            Z[h, j] -= z[h, j]
            z[h, j] = 0


@njit(**FAST)
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


@njit(**EXACT)
def _byte_sums(X: Array, i0: int, m: int, s: Scratch, plus: Array, minus: Array) -> None:
    """Coefficients -1, 0, 1: rows are added up in 16 bits, those of either sign apart."""
    for h in range(plus.shape[0]):
        for sign in (1, -1):
            count = 0
            for i in range(m):
                s.rows[h, count] = i0 + i
                count += s.coef[h, i] == sign
            _add_bytes(X, s.rows, count, plus if sign == 1 else minus, h)


# ------------------------------------------------------------------------------------------------ dense passes


@njit(**EXACT)
def dense_single(X: Array, W: Array, ask: Ask, s: Scratch, sums: Sums) -> None:
    """One hyperplane, at the speed of memory: rows are summed by eights, while the first-level cache still has them."""
    T = s.scores.shape[1]
    count, summed = 0, 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _single_scores(X, i0, m, W, 0, s.scores)
        _losses(m, i0, ask, s, sums)
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


@njit(**EXACT)
def dense_many(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums) -> None:
    """Any number of hyperplanes, rows in the compute type."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _wide_scores(X, i0, m, W, s.scores)
        else:
            for h in range(W.shape[0]):
                _single_scores(X, i0, m, W, h, s.scores)
        _losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(X, i0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT)
def _converted_scores(X: Array, i0: int, m: int, W: Array, wide: bool, s: Scratch) -> None:
    if wide:
        _wide_scores(s.tile, 0, m, W, s.scores)
    else:
        for h in range(W.shape[0]):
            _single_scores(X, i0, m, W, h, s.scores)


@njit(**EXACT)
def dense_many_converted(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums) -> None:
    """As `dense_many`, for rows of another type, converted tile by tile."""
    T = s.scores.shape[1]
    summed = 0
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        _convert(X, i0, m, s.tile)
        _converted_scores(X, i0, m, W, wide, s)
        _losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(s.z, sums.weighted)
            summed = 0
        _tile_sums(s.tile, 0, m, s)
        summed += m
    _flush(s.z, sums.weighted)


@njit(**EXACT)
def dense_bytes(X: Array, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums) -> None:
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
        _losses(m, i0, ask, s, sums)
        if summed + m > TILE_ROWS:
            _flush(plus, sums.weighted)
            _subtract(minus, sums.weighted)
            summed = 0
        _byte_sums(X, i0, m, s, plus, minus)
        summed += m
    _flush(plus, sums.weighted)
    _subtract(minus, sums.weighted)


@njit(**EXACT)
def dense_scores(X: Array, W: Array, wide: bool, s: Scratch, out: Array) -> None:
    """Scores alone, (m, H)."""
    T = s.scores.shape[1]
    for i0 in range(0, X.shape[0], T):
        m = min(T, X.shape[0] - i0)
        if wide:
            _convert(X, i0, m, s.tile)
        _converted_scores(X, i0, m, W, wide, s)
        for i in range(m):
            for h in range(out.shape[1]):
                out[i0 + i, h] = s.scores[h, i]


# ---------------------------------------------------------------------------------------------------- CSR rows


@njit(**EXACT)
def _csr_dot(data: Array, indices: Array, start: int, stop: int, w: Array) -> Any:
    """Four sums, so that the additions need not wait for each other; reassociation (fastmath) would be slower."""
    real = w.dtype.type
    a0, a1, a2, a3 = real(0), real(0), real(0), real(0)
    q = start
    while q + 4 <= stop:
        a0 += real(data[q]) * w[indices[q]]
        a1 += real(data[q + 1]) * w[indices[q + 1]]
        a2 += real(data[q + 2]) * w[indices[q + 2]]
        a3 += real(data[q + 3]) * w[indices[q + 3]]
        q += 4
    while q < stop:
        a0 += real(data[q]) * w[indices[q]]
        q += 1
    return (a0 + a1) + (a2 + a3)


@njit(**EXACT)
def _csr_tile_scores(rows: Rows, i0: int, m: int, W: Array, wide: bool, f: Array, F: Array) -> None:
    """Scores of m rows. Wide: W is (d, H), so that a row's hyperplanes stand side by side; else (H, d)."""
    data, indices, indptr = rows
    real = W.dtype.type
    if not wide:
        for h in range(W.shape[0]):
            w = W[h]
            for i in range(m):
                F[h, i] = _csr_dot(data, indices, indptr[i0 + i], indptr[i0 + i + 1], w)
        return
    for i in range(m):
        for h in range(f.size):
            f[h] = 0
        for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
            v, j = real(data[q]), indices[q]
            for h in range(f.size):
                f[h] += v * W[j, h]
        for h in range(f.size):
            F[h, i] = f[h]


@njit(**EXACT)
def csr_single(rows: Rows, W: Array, ask: Ask, s: Scratch, sums: Sums) -> None:
    """One hyperplane."""
    data, indices, indptr = rows
    w, z = W[0], sums.weighted[0]
    T = s.scores.shape[1]
    n = indptr.size - 1
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        for i in range(m):
            s.scores[0, i] = _csr_dot(data, indices, indptr[i0 + i], indptr[i0 + i + 1], w)
        _losses(m, i0, ask, s, sums)
        for i in range(m):
            pull = s.coef[0, i]
            if pull == 1:  # the usual pulls need no product
                for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                    z[indices[q]] += data[q]
            elif pull == -1:
                for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                    z[indices[q]] -= data[q]
            elif pull != 0:
                for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                    z[indices[q]] += pull * data[q]


@njit(**EXACT)
def csr_many(rows: Rows, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums, Z: Array) -> None:
    """Any number of hyperplanes; sums go to Z (d, H)."""
    data, indices, indptr = rows
    T = s.scores.shape[1]
    n = indptr.size - 1
    H = Z.shape[1]
    f = np.empty(s.scores.shape[0], s.scores.dtype)
    pulls = np.empty(H, s.coef.dtype)
    chosen = np.empty(H, np.int64)
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        _csr_tile_scores(rows, i0, m, W, wide, f, s.scores)
        _losses(m, i0, ask, s, sums)
        for i in range(m):
            count = 0
            for h in range(H):
                pulls[h] = s.coef[h, i]
                if s.coef[h, i] != 0:
                    chosen[count] = h
                    count += 1
            for q in range(indptr[i0 + i], indptr[i0 + i + 1]):
                v, j = float(data[q]), indices[q]
                if 4 * count > H:
                    for h in range(H):
                        Z[j, h] += pulls[h] * v
                else:
                    for c in range(count):
                        Z[j, chosen[c]] += pulls[chosen[c]] * v


@njit(**EXACT)
def csr_scores(rows: Rows, W: Array, wide: bool, s: Scratch, out: Array) -> None:
    """Scores alone, (m, H)."""
    T = s.scores.shape[1]
    n = rows[2].size - 1
    f = np.empty(s.scores.shape[0], s.scores.dtype)
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        _csr_tile_scores(rows, i0, m, W, wide, f, s.scores)
        for i in range(m):
            for h in range(out.shape[1]):
                out[i0 + i, h] = s.scores[h, i]
