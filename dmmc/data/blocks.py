"""Row blocks: where a matrix is cut, and what one block holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.machine import MIB

ONE_BLOCK = 14 * MIB
"""Below this size a matrix is a single block; above it blocks are half as large to as large: with whole tiles that is
at most 16 MB, so that a worker of 1 GB can hold several beside its process."""

FOUR_BLOCKS = 28 * MIB
"""From this size on the number of blocks is a multiple of four, to keep two or four threads equally busy."""

TILE_ROWS = 128
"""Kernels sum in tiles of this many rows, so whole tiles per block leave no ragged ones inside the matrix."""

TILED_ROW = 8 * 1024
"""Rows up to this many bytes are cut in whole tiles; a tile of larger ones would unbalance the blocks."""


class Csr(NamedTuple):
    """Compressed sparse rows: sorted column numbers, none twice in a row.

    data : shape (nnz,); the stored values
    indices : shape (nnz,); their columns: uint32, or uint64 where int32 cannot number the columns
    indptr : shape (n_rows + 1,); row i holds the values ``indptr[i]`` to ``indptr[i + 1]``; starts at 0
    n_features : number of columns
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[np.int64]
    n_features: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of the three arrays."""
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    def cut(self, start: int, stop: int) -> Csr:
        """Rows start to stop; values and columns are views."""
        first, last = self.indptr[start], self.indptr[stop]
        indptr = self.indptr[start : stop + 1] - first
        return Csr(self.data[first:last], self.indices[first:last], indptr, self.n_features)

    def to_scipy(self) -> Any:
        """Give the same rows as a `scipy.sparse.csr_array` that shares values and columns."""
        from scipy.sparse import csr_array

        # scipy knows signed column numbers only, and uint32 is used only where int32 suffices
        columns = self.indices.view(f"i{self.indices.itemsize}")
        kind = columns.dtype if len(self.data) <= np.iinfo(columns.dtype).max else np.dtype(np.int64)
        # set one by one, as the constructor copies columns unlike indptr and parts of much larger arrays
        matrix = csr_array((self.n_rows, self.n_features), dtype=self.data.dtype)
        matrix.data, matrix.indices = self.data, columns.astype(kind, copy=False)
        matrix.indptr = self.indptr.astype(kind, copy=False)
        return matrix


@dataclass(frozen=True, eq=False)
class Block:
    """Rows ``start`` to ``stop`` of the matrix, read-only, with what belongs to each row.

    index : its place among the blocks
    start, stop : the rows of the matrix that it holds
    rows : shape (stop - start, n_features); the numbers; dense rows are C-contiguous
    weight : how much each row counts
    given : a label for each row, from the user
    cache : whatever a pass wants to keep and can compute again; stays behind when a block is pickled
    """

    index: int
    start: int
    stop: int
    rows: NDArray[Any] | Csr
    weight: NDArray[np.float64] | None = None
    given: NDArray[np.int64] | None = None
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        # Read-only arrays are a type of their own to numba: with one kind everywhere, also after pickling,
        # each kernel is compiled once.
        for name in ("rows", "weight", "given"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.index, self.start, self.stop, self.rows, self.weight, self.given)


def block_bounds(n_rows: int, n_features: int, itemsize: int) -> NDArray[np.int64]:
    """Where a dense matrix with numbers of `itemsize` bytes is cut: the first row of each block, then `n_rows`.

    All blocks have the same number of rows, but for the last, which may be shorter. They are of 7 to 15 MiB,
    or of a few rows where rows are long.
    """
    row_bytes = n_features * itemsize
    rows = -(-n_rows // _block_count(n_rows * row_bytes))
    if row_bytes <= TILED_ROW and rows < n_rows:
        rows = -(-rows // TILE_ROWS) * TILE_ROWS
    return np.append(np.arange(0, n_rows, rows, dtype=np.int64), np.int64(n_rows))


def csr_bounds(indptr: NDArray[Any], itemsize: int) -> NDArray[np.int64]:
    """Where a sparse matrix is cut: the first row of each block, then the number of rows.

    Blocks are of about equal bytes, by the size rule of dense ones. `indptr` says where each row's values begin; a
    value takes `itemsize` bytes and four for its column.
    """
    # a row costs its place in indptr too, or a matrix of empty rows would be one endless block
    bytes_before = indptr.astype(np.int64) * (itemsize + 4)
    bytes_before += 8 * np.arange(len(indptr))
    total = int(bytes_before[-1])
    count = _block_count(total)
    targets = np.array([total * i // count for i in range(1, count)], dtype=np.int64)
    # the row boundary nearest to each target, which leaves a row of several blocks' size alone in its block
    after = np.searchsorted(bytes_before, targets)
    before = np.maximum(after - 1, 0)
    nearer = targets - bytes_before[before] < bytes_before[after] - targets
    cuts = np.where(nearer, before, after)
    return np.unique(np.concatenate([[0], cuts, [len(indptr) - 1]])).astype(np.int64)


def _block_count(n_bytes: int) -> int:
    if n_bytes < ONE_BLOCK:
        return 1
    if n_bytes < FOUR_BLOCKS:
        return 2
    return -(-n_bytes // (4 * ONE_BLOCK)) * 4


def fill_columns(parts: Iterable[tuple[NDArray[Any], ...]], n_rows: int) -> tuple[NDArray[Any], ...]:
    """Columns (n_rows,), of which consecutive parts come one after the other; nothing else is held of them."""
    whole: tuple[NDArray[Any], ...] = ()
    at = 0
    for part in parts:
        if not whole:
            whole = tuple(np.empty(n_rows, column.dtype) for column in part)
        for column, piece in zip(whole, part, strict=True):
            column[at : at + len(piece)] = piece
        at += len(part[0])
    assert at == n_rows
    return whole


def read_only(values: Any) -> Any:
    """Views of an array or of CSR rows that cannot be written to; None stays None."""
    if values is None:
        return None
    if isinstance(values, Csr):
        data, indices, indptr, n_features = values
        return Csr(read_only(data), read_only(indices), read_only(indptr), n_features)
    view = values.view()
    view.flags.writeable = False
    return view
