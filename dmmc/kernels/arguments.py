"""What the kernels share: types, how they are compiled, and memory as they like it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from dmmc.array_types import Array
from dmmc.data.blocks import Csr

FAST: dict[str, Any] = {"nogil": True, "cache": True, "fastmath": True}
EXACT: dict[str, Any] = {"nogil": True, "cache": True}
FAST_INNER: dict[str, Any] = {**FAST, "no_cpython_wrapper": True}
EXACT_INNER: dict[str, Any] = {**EXACT, "no_cpython_wrapper": True}
"""How functions are compiled that Python calls, and those that only kernels call: in less time."""


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


class Ask(NamedTuple):
    """What is asked of a block, but for the hyperplanes' weights: G groups of K hyperplanes, m rows."""

    b: Array
    """(G * K,) biases."""
    K: int
    modes: Array
    """(G,) of GIVEN, OWN, FROZEN or NEAREST."""
    labels: Array
    """(G, m), read for GIVEN and FROZEN."""
    price: Array
    """(G, K), added to the scores when labels are taken (OWN)."""
    table: tuple[Array, Array, Array]
    """The loss of a margin, as `losses.Table`."""
    weight: Array
    """(m,), or empty."""
    out: Array
    """(G, m), where labels are written, or empty."""
    summed: bool
    """K > 1: whether a row pays for its margin to every other label, not to the runner-up alone."""


class Scratch(NamedTuple):
    """A tile's working memory."""

    tile: Array
    """(T, d) rows in the compute type; empty where rows need no conversion."""
    scores: Array
    """(H, T) float64 whatever the compute type, so that losses are compiled once: biases not yet added."""
    coef: Array
    """(H, T) float64: weight of each row in each weighted sum."""
    rows: Array
    """(H, T + 7): the rows that count, ..."""
    pulls: Array
    """... and how much, in the compute type."""
    z: Array
    """(H, d): sums over the last rows, at most 128."""


def compute_dtype(dtype: np.dtype[Any]) -> type[np.floating[Any]]:
    """float32 where a tile of it is exact enough, else float64."""
    return np.float32 if dtype.itemsize <= 2 or dtype == np.float32 else np.float64


def frozen(array: Array, dtype: DTypeLike | None = None) -> Array:
    """The array C-contiguous and read-only: to numba other layouts are other types, and one type is compiled once."""
    view = np.ascontiguousarray(array, dtype).view()
    view.flags.writeable = False
    return view


def parts(rows: Array | Csr) -> tuple[Array, ...]:
    """The arrays that make up the rows; the first holds the values, truth values as bytes."""
    values, *where = rows[:3] if isinstance(rows, Csr) else (rows,)
    if values.dtype == bool:
        values = values.view(np.uint8)
    return tuple(frozen(part) for part in (values, *where))


def count(rows: Array | Csr) -> int:
    """How many rows."""
    return rows.n_rows if isinstance(rows, Csr) else len(rows)


def aligned(rows: int, columns: int, dtype: type[np.floating[Any]]) -> Array:
    """Memory that starts at a cache line, so that vector loads do not straddle two."""
    size = rows * columns * np.dtype(dtype).itemsize
    raw = np.empty(size + 64, np.uint8)
    first = -raw.ctypes.data % 64
    return raw[first : first + size].view(dtype).reshape(rows, columns)
