"""A matrix as fixed, ordered row blocks: what every pass of every algorithm walks over.

Where the blocks are cut depends on the size of the matrix alone, never on how its source was chunked nor on
who computes: so the same rows give the same sums, bit for bit, from an array, a file or a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.errors import InputError

MIB = 2**20
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
class Matrix:
    """What is known of one matrix of numbers, wherever its rows are: in memory (`Dataset`) or in a store (`Stored`).

    Parameters
    ----------
    name : str
        How to call it in a message: "array of shape (10, 2)", "features.zarr".
    n_rows, n_features : int
        Its shape.
    dtype : numpy.dtype
        Of the numbers as they are held in memory.
    is_sparse : bool
        Whether its blocks hold `Csr` rows.
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
    feature_names: tuple[str, ...] | None = field(default=None, repr=False, kw_only=True)
    row_ids: NDArray[Any] | None = field(default=None, repr=False, kw_only=True)

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

    def _columns(
        self, weight: ArrayLike | None, given: ArrayLike | None
    ) -> tuple[NDArray[np.float64] | None, NDArray[np.int64] | None]:
        weights = None if weight is None else self._column(weight, "weights", "biuf").astype(np.float64)
        labels = None if given is None else self._column(given, "labels", "biu").astype(np.int64)
        return weights, labels

    def _wanted(self, rows: ArrayLike) -> NDArray[np.int64]:
        wanted = np.asarray(rows, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.n_rows):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} were asked of {self.n_rows} rows")
        return wanted


@dataclass(frozen=True, eq=False)
class Dataset(Matrix):
    """One matrix of numbers in memory, cut into row blocks.

    Parameters
    ----------
    blocks : tuple of Block
        All rows, in order.
    """

    blocks: tuple[Block, ...] = field(repr=False)

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

    @property
    def bounds(self) -> NDArray[np.int64]:
        """The first row of each block, then the number of rows."""
        return np.array([*(block.start for block in self.blocks), self.n_rows], np.int64)

    @property
    def weight(self) -> NDArray[np.float64] | None:
        """The rows' weights, if they have any."""
        weights = [block.weight for block in self.blocks if block.weight is not None]
        return np.concatenate(weights) if weights else None

    @property
    def given(self) -> NDArray[np.int64] | None:
        """The rows' given labels, if they have any."""
        labels = [block.given for block in self.blocks if block.given is not None]
        return np.concatenate(labels) if labels else None

    def with_columns(self, weight: ArrayLike | None = None, given: ArrayLike | None = None) -> Self:
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
        weights, labels = self._columns(weight, given)
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
        wanted = self._wanted(rows)
        holder = holders(self.bounds, wanted)
        return joined(self, holder, {int(b): picked(self.blocks[b], wanted[holder == b]) for b in np.unique(holder)})


class Reader(Protocol):
    """Rows that are read where they are needed: it pickles as a place, not as numbers."""

    def read(self, start: int, stop: int) -> NDArray[Any] | Csr:
        """Rows start to stop; consecutive reads of one reader share what a chunk holds of both."""
        ...

    def load(self, n_jobs: int | None) -> NDArray[Any] | Csr:
        """All rows."""
        ...


@dataclass(frozen=True, eq=False)
class Stored(Matrix):
    """One matrix of numbers that stays in its store; any block of it can be read by anyone, any time.

    Parameters
    ----------
    bounds : ndarray of int64
        The first row of each block, then the number of rows.
    nnz : int
        Number of stored values.
    reader : Reader
        Reads rows.
    weight, given : ndarray, optional
        How much each row counts; a label for each row.
    gather : callable, optional
        Who takes rows: an engine that has them at hand. By default they are read here.
    """

    bounds: NDArray[np.int64] = field(repr=False)
    nnz: int
    reader: Reader = field(repr=False)
    weight: NDArray[np.float64] | None = field(default=None, repr=False)
    given: NDArray[np.int64] | None = field(default=None, repr=False)
    gather: Callable[[NDArray[np.int64]], Any] | None = field(default=None, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take in memory."""
        if self.is_sparse:
            return self.nnz * (self.dtype.itemsize + 4) + 8 * self.n_rows
        return self.nnz * self.dtype.itemsize

    def with_columns(self, weight: ArrayLike | None = None, given: ArrayLike | None = None) -> Self:
        """As `Dataset.with_columns`."""
        weights, labels = self._columns(weight, given)
        return replace(
            self,
            weight=self.weight if weights is None else weights,
            given=self.given if labels is None else labels,
        )

    def take(self, rows: ArrayLike) -> Any:
        """As `Dataset.take`."""
        wanted = self._wanted(rows)
        if self.gather is not None:
            return self.gather(wanted)
        holder = holders(self.bounds, wanted)
        parts = {}
        for b in np.unique(holder):
            start, stop = (int(bound) for bound in self.bounds[b : b + 2])
            block = Block(int(b), start, stop, self.reader.read(start, stop))
            parts[int(b)] = picked(block, wanted[holder == b])
        return joined(self, holder, parts)

    def load(self, n_jobs: int | None = None) -> Dataset:
        """The same matrix in memory."""
        dataset = _in_blocks(self, self.reader.load(n_jobs), self.bounds)
        return dataset.with_columns(self.weight, self.given)


Rows = Dataset | Stored
"""What starts and solvers are given: they ask for its shape, its columns and a few rows, never where rows are."""


def recut(rows: Rows, bounds: NDArray[np.int64]) -> Rows:
    """The same rows in smaller blocks: `bounds` are those they have, and more."""
    if isinstance(rows, Stored):
        return replace(rows, bounds=bounds)
    blocks: list[Block] = []
    for start, stop in pairwise(bounds.tolist()):
        block = rows.blocks[int(holders(rows.bounds, np.array([start]))[0])]
        here = slice(start - block.start, stop - block.start)
        cut = block.rows.cut(here.start, here.stop) if isinstance(block.rows, Csr) else block.rows[here]
        weight = None if block.weight is None else block.weight[here]
        given = None if block.given is None else block.given[here]
        blocks.append(Block(len(blocks), start, stop, cut, weight, given))
    return replace(rows, blocks=tuple(blocks))


def holders(bounds: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Number of the block that holds each of the wanted rows."""
    return np.searchsorted(bounds[:-1], wanted, side="right") - 1


def picked(block: Block, wanted: NDArray[np.int64]) -> Any:
    """Those rows (numbers in the matrix) of one block: an array, or scipy CSR rows."""
    rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else block.rows
    return rows[wanted - block.start]


def joined(matrix: Matrix, holder: NDArray[np.intp], parts: dict[int, Any]) -> Any:
    """Rows picked block by block, in the order in which they were asked for."""
    if not matrix.is_sparse:
        gathered = np.empty((len(holder), matrix.n_features), matrix.dtype)
        for b, part in parts.items():
            gathered[holder == b] = part
        return gathered
    from scipy.sparse import csr_array, vstack

    if not len(holder):
        return csr_array((0, matrix.n_features), dtype=matrix.dtype)
    by_block = np.argsort(holder, kind="stable")
    return vstack([parts[b] for b in sorted(parts)], format="csr")[np.argsort(by_block)]


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
    if isinstance(source, Stored):
        return source.load(n_jobs)
    # The readers build on this module, which meets them only here.
    from dmmc.sources import load

    found = load(source, component, n_jobs)
    rows = found.rows
    if isinstance(rows, Csr):
        shape, dtype = (rows.n_rows, rows.n_features), rows.data.dtype
        bounds = csr_bounds(rows.indptr, dtype.itemsize)
    else:
        shape, dtype = (rows.shape[0], rows.shape[1]), rows.dtype
        bounds = block_bounds(*shape, dtype.itemsize)
    matrix = Matrix(
        found.name,
        *shape,
        dtype,
        isinstance(rows, Csr),
        feature_names=found.feature_names,
        row_ids=found.row_ids,
    )
    return _in_blocks(matrix, rows, bounds)


def _in_blocks(matrix: Matrix, rows: NDArray[Any] | Csr, bounds: NDArray[np.int64]) -> Dataset:
    """A matrix in memory, cut at the bounds; blocks are views."""
    spans = pairwise(bounds.tolist())
    blocks = tuple(
        Block(i, a, b, rows.cut(a, b) if isinstance(rows, Csr) else rows[a:b]) for i, (a, b) in enumerate(spans)
    )
    return Dataset(
        matrix.name,
        matrix.n_rows,
        matrix.n_features,
        matrix.dtype,
        matrix.is_sparse,
        blocks,
        feature_names=matrix.feature_names,
        row_ids=matrix.row_ids,
    )


def block_bounds(n_rows: int, n_features: int, itemsize: int) -> NDArray[np.int64]:
    """Where a dense matrix is cut into blocks.

    All blocks have the same number of rows, but for the last, which may be shorter. They are of 7 to 15 MiB,
    or of a few rows where rows are long.

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


def _read_only(values: Any) -> Any:
    if values is None:
        return None
    if isinstance(values, Csr):
        data, indices, indptr, n_features = values
        return Csr(_read_only(data), _read_only(indices), _read_only(indptr), n_features)
    view = values.view()
    view.flags.writeable = False
    return view
