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
NO_SCORES = np.empty((0, 0))
NOTHING = Ask(
    b=frozen(NO_WEIGHTS),
    K=1,
    modes=frozen(np.empty(0, np.int64)),
    labels=frozen(NO_LABELS),
    price=frozen(NO_SCORES),
    table=(frozen(NO_WEIGHTS), frozen(NO_WEIGHTS), frozen(NO_WEIGHTS)),
    weight=frozen(NO_WEIGHTS),
    out=NO_LABELS,
    summed=False,
)
"""What is asked where scores alone are wanted."""


def label_type(n_labels: int) -> type[np.signedinteger[Any]]:
    """What labels are kept in, inside: a byte a row, or two for more than 127 clusters."""
    return np.int8 if n_labels <= np.iinfo(np.int8).max else np.int16


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
    labels : (G, m) whole numbers, read for GIVEN and FROZEN
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
        labels=frozen(labels, label_type(K)),
        price=frozen(np.zeros((G, K)) if price is None else price, np.float64),
        table=(frozen(table[0], np.float64), frozen(table[1], np.float64), frozen(table[2], np.float64)),
        weight=frozen(NO_WEIGHTS if weight is None else weight, np.float64),
        out=np.empty((G, m), label_type(K)) if keep else NO_LABELS,
        summed=summed,
    )
    planes = _planes(W.reshape(H, d), dtype, wide)
    sums = _no_sums(G, K, d)
    if H == 1 and not wide:
        units = values[0].dtype == np.uint8 and _has_unit_pulls(ask)
        _run_single(rows, values, planes, units, ask, sums)
    else:
        sums = _run_many(rows, values, planes, wide, ask, sums, NO_SCORES)
    return sums, ask.out


def scores(rows: Array | Csr, W: Array, wide: bool = True) -> Array:
    """`rows @ W.T` with the bits that `losses` sees, as float64 (m, H); biases are the caller's."""
    values = parts(rows)
    planes = _planes(W, compute_dtype(values[0].dtype), wide)
    out = np.empty((count(rows), len(W)))
    if not out.size:  # by its size kernels tell that scores are wanted
        return out
    _run_many(rows, values, planes, wide, NOTHING, _no_sums(1, 1, 0), out)
    return out


def _run_single(rows: Array | Csr, values: tuple[Array, ...], planes: Array, units: bool, ask: Ask, sums: Sums) -> None:
    """The pass with one hyperplane; sums are changed. `units` : bytes, whose pulls are -1, 0 and 1."""
    d, dtype = planes.shape[1], planes.dtype.type
    if isinstance(rows, Csr):
        csr_pass.csr_single(values, planes, ask, _scratch(TILE_ROWS, 1, dtype), sums)
        return
    s = _scratch(_tile_rows(d * values[0].itemsize, SINGLE_TILE), 1, dtype, z=(1, d))
    if units:
        dense_pass.dense_bytes(*values, planes, False, ask, s, sums, NO_SCORES)
    else:
        dense_pass.dense_single(*values, planes, ask, s, sums)


def _run_many(
    rows: Array | Csr, values: tuple[Array, ...], planes: Array, wide: bool, ask: Ask, sums: Sums, out: Array
) -> Sums:
    """The pass with any number of hyperplanes: the sums, or scores alone if there is room for them in `out`."""
    d, dtype = planes.shape[1], planes.dtype.type
    H = len(sums.weighted)
    if isinstance(rows, Csr):
        by_feature = np.zeros((d if out is NO_SCORES else 0, H))
        s = _scratch(TILE_ROWS, len(planes), dtype)
        csr_pass.csr_many(values, planes.T.copy() if wide else planes, wide, ask, s, sums, by_feature, out)
        return sums._replace(weighted=np.ascontiguousarray(by_feature.T))
    T = _tile_rows(d * np.dtype(dtype).itemsize, WIDE_TILE)
    converted = values[0].dtype != dtype
    s = _scratch(T, len(planes), dtype, tile=(T if converted else 0, d), z=(H, sums.weighted.shape[1]))
    if values[0].dtype == np.uint8 and (out is not NO_SCORES or _has_unit_pulls(ask)):
        dense_pass.dense_bytes(*values, planes, wide, ask, s, sums, out)
    elif converted:
        dense_pass.dense_many_converted(*values, planes, wide, ask, s, sums, out)
    else:
        dense_pass.dense_many(*values, planes, wide, ask, s, sums, out)
    return sums


def _has_unit_pulls(ask: Ask) -> bool:
    """Whether each row pulls at a hyperplane with -1, 0 or 1."""
    return not ask.weight.size and not ask.summed and bool(np.isin(ask.table[2], (-1.0, 0.0, 1.0)).all())


def _no_sums(G: int, K: int, d: int) -> Sums:
    return Sums(np.zeros((G * K, d)), np.zeros(G * K), np.zeros(G), np.zeros(G), np.zeros((G, max(K, 2))))


def _planes(W: Array, dtype: type[np.floating[Any]], wide: bool) -> Array:
    """Hyperplanes in the compute type; for wide kernels with rows of zeros up to a multiple of four."""
    full = aligned(-(-len(W) // 4) * 4 if wide else len(W), W.shape[1], dtype)
    full[: len(W)] = W
    full[len(W) :] = 0
    return full


def _tile_rows(row_bytes: int, tile_bytes: int) -> int:
    return min(max(tile_bytes // row_bytes // 8 * 8, 8), TILE_ROWS)


def _scratch(
    T: int, H: int, dtype: type[np.floating[Any]], tile: tuple[int, int] = (0, 0), z: tuple[int, int] = (0, 0)
) -> Scratch:
    return Scratch(
        tile=aligned(*tile, dtype),
        scores=np.empty((H, T)),
        coef=np.empty((H, T)),
        rows=np.zeros((H, T + 7), np.int64),
        pulls=np.zeros((H, T + 7), dtype),
        z=np.zeros(z, dtype),
    )
