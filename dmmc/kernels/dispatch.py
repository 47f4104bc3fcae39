"""The fused pass, called from Python: the right kernel for the rows, with memory for its tiles."""

from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import TILE_ROWS, Csr
from dmmc.kernels import csr_pass, dense_pass
from dmmc.kernels.arguments import Ask, Scratch, Sums, aligned, compute_dtype, count, frozen, parts
from dmmc.kernels.tile_losses import FROZEN, GIVEN, NEAREST

WIDE_TILE = 640 * 1024
"""Bytes of a tile that is scored with many hyperplanes: it stays in the second-level cache."""
SINGLE_TILE = 512 * 1024
"""Bytes of a tile that is scored with one hyperplane."""

NO_WEIGHTS = np.empty(0)
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
    summed: bool = False,
) -> tuple[Sums, Array]:
    """Scores, losses and weighted sums of a block in one read.

    rows : dense (m, d) or Csr
    W : (G, K, d) hyperplanes in raw coordinates
    b : (G, K) biases
    table : the loss of a margin, as `losses.Table`
    modes : (G,) of GIVEN, OWN, FROZEN or NEAREST
    labels : (G, m) int8, read for GIVEN and FROZEN
    price : (G, K), added to the scores where labels are taken (OWN) or were taken (FROZEN)
    weight : (m,) or None
    wide : whether scores are those of hyperplanes side by side, or of each alone (faster for one)
    keep : return the labels (G, m) too
    summed : for K > 1, add up the losses of the margins to all other labels, not that to the runner-up alone
    Returns sums, labels.
    """
    G, K, d = W.shape
    H, m = G * K, count(rows)
    values = parts(rows)
    dtype = compute_dtype(values[0].dtype)
    modes = np.asarray(modes, np.int64)
    # numba does not look where an array ends
    assert modes.shape == (G,)
    assert labels.shape == (G, m) or not ((modes == GIVEN) | (modes == FROZEN)).any()
    assert K > 1 or not (modes == NEAREST).any()
    assert weight is None or weight.shape == (m,)
    ask = Ask(
        b=frozen(b, np.float64).reshape(H),
        K=K,
        modes=frozen(modes),
        labels=frozen(labels, np.int8),
        price=frozen(np.zeros((G, K)) if price is None else price, np.float64),
        table=(frozen(table[0], np.float64), frozen(table[1], np.float64), frozen(table[2], np.float64)),
        weight=frozen(NO_WEIGHTS if weight is None else weight, np.float64),
        out=np.empty((G, m), np.int8) if keep else NO_LABELS,
        summed=summed,
    )
    planes = _planes(W.reshape(H, d), dtype, wide)
    sums = Sums(np.zeros((H, d)), np.zeros(H), np.zeros(G), np.zeros(G), np.zeros((G, max(K, 2))))
    single = H == 1 and not wide
    if isinstance(rows, Csr):
        s = _scratch(TILE_ROWS, len(planes), dtype)
        if single:
            csr_pass.csr_single(values, planes, ask, s, sums)
        else:
            by_feature = np.zeros((d, H))
            csr_pass.csr_many(values, _by_feature(planes, wide), wide, ask, s, sums, by_feature)
            sums = sums._replace(weighted=np.ascontiguousarray(by_feature.T))
        return sums, ask.out
    if single:
        s = _scratch(_tile_rows(d * values[0].itemsize, SINGLE_TILE), 1, dtype, z=(1, d))
    else:
        T = _tile_rows(d * np.dtype(dtype).itemsize, WIDE_TILE)
        s = _scratch(T, len(planes), dtype, tile=(T, d), z=(H, d))
    units = weight is None and not summed and np.isin(table[2], (-1.0, 0.0, 1.0)).all()
    if values[0].dtype == np.uint8 and units:
        dense_pass.dense_bytes(*values, planes, wide, ask, s, sums)
    elif single:
        dense_pass.dense_single(*values, planes, ask, s, sums)
    elif values[0].dtype == dtype:
        dense_pass.dense_many(*values, planes, wide, ask, s, sums)
    else:
        dense_pass.dense_many_converted(*values, planes, wide, ask, s, sums)
    return sums, ask.out


def scores(rows: Array | Csr, W: Array, wide: bool = True) -> Array:
    """`rows @ W.T` with the bits that `losses` sees, as float64 (m, H); biases are the caller's."""
    d = W.shape[1]
    values = parts(rows)
    dtype = compute_dtype(values[0].dtype)
    planes = _planes(W, dtype, wide)
    out = np.empty((count(rows), len(W)))
    if isinstance(rows, Csr):
        csr_pass.csr_scores(values, _by_feature(planes, wide), wide, _scratch(TILE_ROWS, len(planes), dtype), out)
    else:
        T = _tile_rows(d * np.dtype(dtype).itemsize, WIDE_TILE)
        s = _scratch(T, len(planes), dtype, tile=(T if wide else 0, d))
        dense_pass.dense_scores(*values, planes, wide, s, out)
    return out


def _planes(W: Array, dtype: type[np.floating[Any]], wide: bool) -> Array:
    """Hyperplanes in the compute type; for wide kernels with rows of zeros up to a multiple of four."""
    full = aligned(-(-len(W) // 4) * 4 if wide else len(W), W.shape[1], dtype)
    full[: len(W)] = W
    full[len(W) :] = 0
    return full


def _by_feature(planes: Array, wide: bool) -> Array:
    return np.ascontiguousarray(planes.T) if wide else planes


def _tile_rows(row_bytes: int, tile_bytes: int) -> int:
    return min(max(tile_bytes // row_bytes // 8 * 8, 8), TILE_ROWS)


def _scratch(
    T: int, H: int, dtype: type[np.floating[Any]], tile: tuple[int, int] = (0, 0), z: tuple[int, int] = (0, 0)
) -> Scratch:
    return Scratch(
        tile=aligned(*tile, dtype),
        scores=np.empty((H, T), dtype),
        coef=np.empty((H, T), dtype),
        rows=np.zeros((H, T + 7), np.int64),
        pulls=np.zeros((H, T + 7), dtype),
        z=np.zeros(z, dtype),
    )
