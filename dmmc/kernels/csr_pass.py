"""The fused pass over CSR rows, in numba: scores of a tile, its losses, weighted sums of its rows."""

from typing import Any

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT, EXACT_INNER, Ask, Scratch, Sums
from dmmc.kernels.tile_losses import tile_losses

Rows = tuple[Array, Array, Array]
"""Values, columns, and where each row begins."""


@njit(**EXACT_INNER)
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


@njit(**EXACT_INNER)
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
    real = W.dtype.type
    T = s.scores.shape[1]
    n = indptr.size - 1
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        for i in range(m):
            s.scores[0, i] = _csr_dot(data, indices, indptr[i0 + i], indptr[i0 + i + 1], w)
        tile_losses(m, i0, ask, s, sums)
        for i in range(m):
            pull = real(s.coef[0, i])
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
def csr_many(rows: Rows, W: Array, wide: bool, ask: Ask, s: Scratch, sums: Sums, Z: Array, out: Array) -> None:
    """Any number of hyperplanes; sums go to Z (d, H). Scores alone if there is room for them (m, H) in `out`."""
    data, indices, indptr = rows
    T = s.scores.shape[1]
    n = indptr.size - 1
    H = Z.shape[1]
    f = np.empty(s.scores.shape[0], W.dtype)
    pulls = np.empty(H, W.dtype)
    chosen = np.empty(H, np.int64)
    for i0 in range(0, n, T):
        m = min(T, n - i0)
        _csr_tile_scores(rows, i0, m, W, wide, f, s.scores)
        if out.size:
            for i in range(m):
                for h in range(out.shape[1]):
                    out[i0 + i, h] = s.scores[h, i]
            continue
        tile_losses(m, i0, ask, s, sums)
        for i in range(m):
            count = 0
            for h in range(H):
                pulls[h] = s.coef[h, i]
                if pulls[h] != 0:
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
