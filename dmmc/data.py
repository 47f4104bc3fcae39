"""A matrix as fixed, ordered row blocks: what every pass of every algorithm walks over.

Where the blocks are cut depends on the size of the matrix alone, never on how its source was chunked nor on
who computes: so the same rows give the same sums, bit for bit, from an array, a file or a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.errors import InputError

MIB = 2**20
ONE_BLOCK = 16 * MIB
"""Below this size a matrix is a single block; above it blocks are half as large to as large."""

FOUR_BLOCKS = 32 * MIB
"""From this size on the number of blocks is a multiple of four, to keep two or four threads equally busy."""

TILE_ROWS = 128
"""Kernels sum in tiles of this many rows, so whole tiles per block leave no ragged ones inside the matrix."""

TILED_ROW = 8 * 1024
"""Rows up to this many bytes are cut in whole tiles; a tile of larger ones would unbalance the blocks."""


class Csr(NamedTuple):
    """Compressed sparse rows: sorted column numbers, none twice in a row.

    Parameters
    ----------
    data : ndarray of shape (nnz,)
        The stored values.
    indices : ndarray of shape (nnz,)
        Their columns: uint32, or uint64 where int32 cannot number the columns.
    indptr : ndarray of int64, shape (n_rows + 1,)
        Row i holds the values ``indptr[i]`` to ``indptr[i + 1]``; starts at 0.
    n_features : int
        Number of columns.
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

    Parameters
    ----------
    index : int
        Its place among the blocks.
    start, stop : int
        The rows of the matrix that it holds.
    rows : ndarray of shape (stop - start, n_features), or Csr
        The numbers; dense rows are C-contiguous.
    weight : ndarray of float64, optional
        How much each row counts.
    given : ndarray of int64, optional
        A label for each row, from the user.
    cache : dict
        Whatever a pass wants to keep and can compute again; stays behind when a block is pickled.
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
            object.__setattr__(self, name, _read_only(getattr(self, name)))

    def __reduce__(self) -> tuple[Any, ...]:
        return Block, (self.index, self.start, self.stop, self.rows, self.weight, self.given)


@dataclass(frozen=True, eq=False)
class Dataset:
    """One matrix of numbers, cut into row blocks.

    Parameters
    ----------
    name : str
        How to call it in a message: "array of shape (10, 2)", "features.zarr".
    n_rows, n_features : int
        Its shape.
    dtype : numpy.dtype
        Of the numbers as they are held in memory.
    is_sparse : bool
        Whether the blocks hold `Csr` rows.
    blocks : tuple of Block
        All rows, in order.
    feature_names : tuple of str, optional
        Names of the columns, where the source has them.
    row_ids : ndarray, optional
        Names of the rows, where the source has them.
    """

    name: str
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    blocks: tuple[Block, ...] = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    row_ids: NDArray[Any] | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory."""
        return sum(block.rows.nbytes for block in self.blocks)

    @property
    def nnz(self) -> int:
        """Number of stored values."""
        if self.is_sparse:
            return sum(len(block.rows.data) for block in self.blocks)
        return self.n_rows * self.n_features

    def with_columns(self, weight: ArrayLike | None = None, given: ArrayLike | None = None) -> Dataset:
        """Give the same rows with something said about each of them.

        Parameters
        ----------
        weight : array-like of shape (n_rows,), optional
            How much each row counts; None leaves the weights as they are.
        given : array-like of int, shape (n_rows,), optional
            A label for each row; None leaves the labels as they are.

        Returns
        -------
        Dataset
            Shares the rows of this one; its blocks have empty caches.
        """
        weights = None if weight is None else self._column(weight, "weights", "biuf").astype(np.float64)
        labels = None if given is None else self._column(given, "labels", "biu").astype(np.int64)
        blocks = tuple(
            replace(
                block,
                weight=block.weight if weights is None else weights[block.start : block.stop],
                given=block.given if labels is None else labels[block.start : block.stop],
                cache={},
            )
            for block in self.blocks
        )
        return replace(self, blocks=blocks)

    def _column(self, values: ArrayLike, what: str, kinds: str) -> NDArray[Any]:
        column = np.asarray(values)
        if column.shape != (self.n_rows,):
            raise InputError(
                f"{what} of shape {column.shape} were given for {self.name}: "
                f"one for each of its {self.n_rows} rows is wanted, shape ({self.n_rows},)."
            )
        if column.dtype.kind not in kinds:
            wanted = "numbers" if "f" in kinds else "whole numbers"
            raise InputError(f"{what} of dtype {column.dtype} were given for {self.name}: {wanted} are wanted.")
        return column

    def take(self, rows: ArrayLike) -> Any:
        """Gather a few rows.

        Parameters
        ----------
        rows : array-like of int
            Row numbers in any order, repeats allowed.

        Returns
        -------
        ndarray or scipy.sparse.csr_array
            The rows in the order asked for, in their own dtype.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.n_rows):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} were asked of {self.n_rows} rows")
        starts = [block.start for block in self.blocks]
        holder = np.searchsorted(starts, wanted, side="right") - 1
        if self.is_sparse:
            return self._take_sparse(wanted, holder)
        gathered = np.empty((len(wanted), self.n_features), self.dtype)
        for b in np.unique(holder):
            block = self.blocks[b]
            here = holder == b
            gathered[here] = block.rows[wanted[here] - block.start]
        return gathered

    def _take_sparse(self, wanted: NDArray[np.int64], holder: NDArray[np.intp]) -> Any:
        from scipy.sparse import csr_array, vstack

        if not len(wanted):
            return csr_array((0, self.n_features), dtype=self.dtype)
        by_block = np.argsort(holder, kind="stable")
        parts = []
        for b in np.unique(holder):
            block = self.blocks[b]
            assert isinstance(block.rows, Csr)
            parts.append(block.rows.to_scipy()[wanted[holder == b] - block.start])
        return vstack(parts, format="csr")[np.argsort(by_block)]


def open_dataset(source: object, component: str | None = None, n_jobs: int | None = None) -> Dataset:
    """Bring any matrix of numbers into memory, as row blocks.

    Arrays that are already as the kernels want them (C-contiguous, native dtype) are not copied.

    Parameters
    ----------
    source : array-like, sparse matrix, frame, dask array, zarr array or group, AnnData, str or Path
        The matrix, or the path of a zarr store (directory or .zip). A Dataset is given back as it is.
    component : str, optional
        Path of the matrix inside a zarr group or store.
    n_jobs : int, optional
        How many threads read; all cores by default.

    Returns
    -------
    Dataset
        NaN and infinity are not looked for here.

    Raises
    ------
    InputError
        When the source is not a complete matrix of real numbers with at least one row and one column.
    """
    if isinstance(source, Dataset):
        return source
    # The readers build on this module, which meets them only here.
    from dmmc.sources import load

    matrix = load(source, component, n_jobs)
    rows = matrix.rows
    if isinstance(rows, Csr):
        n_rows, n_features, dtype = rows.n_rows, rows.n_features, rows.data.dtype
        bounds = csr_bounds(rows.indptr, dtype.itemsize)
        parts: list[NDArray[Any] | Csr] = [rows.cut(a, b) for a, b in _pairs(bounds)]
    else:
        (n_rows, n_features), dtype = rows.shape, rows.dtype
        bounds = block_bounds(n_rows, n_features, dtype.itemsize)
        parts = [rows[a:b] for a, b in _pairs(bounds)]
    blocks = tuple(Block(i, a, b, part) for i, ((a, b), part) in enumerate(zip(_pairs(bounds), parts, strict=True)))
    return Dataset(
        name=matrix.name,
        n_rows=n_rows,
        n_features=n_features,
        dtype=dtype,
        is_sparse=isinstance(rows, Csr),
        blocks=blocks,
        feature_names=matrix.feature_names,
        row_ids=matrix.row_ids,
    )


def block_bounds(n_rows: int, n_features: int, itemsize: int) -> NDArray[np.int64]:
    """Where a dense matrix is cut into blocks.

    All blocks have the same number of rows, but for the last, which may be shorter. They are of 8 to 32 MiB,
    or of one row where a single row is larger than that.

    Parameters
    ----------
    n_rows, n_features : int
        Shape of the matrix.
    itemsize : int
        Bytes of one number.

    Returns
    -------
    ndarray of int64
        The first row of each block, then `n_rows`.
    """
    row_bytes = n_features * itemsize
    rows = -(-n_rows // _block_count(n_rows * row_bytes))
    if row_bytes <= TILED_ROW and rows < n_rows:
        rows = -(-rows // TILE_ROWS) * TILE_ROWS
    return np.append(np.arange(0, n_rows, rows, dtype=np.int64), np.int64(n_rows))


def csr_bounds(indptr: NDArray[Any], itemsize: int) -> NDArray[np.int64]:
    """Where a sparse matrix is cut into blocks of about equal bytes, by the size rule of dense ones.

    Parameters
    ----------
    indptr : ndarray of shape (n_rows + 1,)
        Where each row's values begin.
    itemsize : int
        Bytes of one value; its column counts for four more.

    Returns
    -------
    ndarray of int64
        The first row of each block, then the number of rows.
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


def _pairs(bounds: NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(pairwise(bounds.tolist()))


def _read_only(values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, Csr):
        data, indices, indptr, n_features = values
        return Csr(_read_only(data), _read_only(indices), _read_only(indptr), n_features)
    view = values.view()
    view.flags.writeable = False
    return view
