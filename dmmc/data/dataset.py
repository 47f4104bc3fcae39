"""A matrix as fixed, ordered row blocks: the input of every pass.

Where blocks are cut depends on the size of the matrix alone, not on the chunks of its source or on the cluster: so the
same rows give the same sums, bit for bit, from an array, a file or a cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.data.blocks import Block, Csr
from dmmc.errors import InputError


class View(NamedTuple):
    """One of several feature spaces whose columns stand side by side in a matrix."""

    name: str
    n_features: int
    is_sparse: bool


@dataclass(frozen=True, eq=False)
class Matrix:
    """What is known of one matrix of numbers, wherever its rows are: in memory (`Dataset`) or in a store (`Stored`).

    name : for messages: "array of shape (10, 2)", "features.zarr"
    n_rows, n_features : its shape
    dtype : of the numbers as they are held in memory
    is_sparse : whether its blocks hold `Csr` rows
    feature_names : names of the columns, where the source has them
    row_ids : names of the rows, where the source has them
    image_shape : of rows that are images, where the source says so
    cells : whether rows are single cells, as they are in AnnData
    views : whose columns stand side by side, where there are several
    """

    name: str
    n_rows: int
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool
    feature_names: tuple[str, ...] | None = field(default=None, repr=False, kw_only=True)
    row_ids: NDArray[Any] | None = field(default=None, repr=False, kw_only=True)
    image_shape: tuple[int, ...] | None = field(default=None, repr=False, kw_only=True)
    cells: bool = field(default=False, repr=False, kw_only=True)
    views: tuple[View, ...] = field(default=(), repr=False, kw_only=True)

    def _check_column(self, values: ArrayLike, what: str, kinds: str) -> NDArray[Any]:
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

    def _check_columns(self, weight: ArrayLike | None, given: ArrayLike | None) -> dict[str, NDArray[Any]]:
        columns = {}
        if weight is not None:
            columns["weight"] = self._check_column(weight, "weights", "biuf").astype(np.float64)
        if given is not None:
            labels = self._check_column(given, "labels", "biu")
            # four bytes a row where they do, without a copy of what is int32 already
            columns["given"] = labels.astype(np.result_type(labels, np.int32), copy=False)
        return columns

    def _check_rows(self, rows: ArrayLike) -> NDArray[np.int64]:
        wanted = np.asarray(rows, dtype=np.int64)
        if wanted.size and not (wanted.min() >= 0 and wanted.max() < self.n_rows):
            raise IndexError(f"rows {wanted.min()} to {wanted.max()} were asked of {self.n_rows} rows")
        return wanted


@dataclass(frozen=True, eq=False)
class Dataset(Matrix):
    """One matrix of numbers in memory, cut into row blocks.

    blocks : all rows, in order
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
        """Replace weights or given labels, of shape (n_rows,); None leaves them as they are.

        The rows are shared; blocks have empty caches.
        """
        columns = self._check_columns(weight, given)
        blocks = []
        for block in self.blocks:
            here: dict[str, Any] = {name: values[block.start : block.stop] for name, values in columns.items()}
            blocks.append(replace(block, cache={}, **here))
        return replace(self, blocks=tuple(blocks))

    def take(self, rows: ArrayLike) -> Any:
        """Gather a few rows, by numbers in any order, repeats allowed: an array or `scipy.sparse.csr_array`."""
        wanted = self._check_rows(rows)
        holder = find_blocks(self.bounds, wanted)
        parts = {int(b): pick_rows(self.blocks[b], wanted[holder == b]) for b in np.unique(holder)}
        return join_rows(self, holder, parts)


class Reader(Protocol):
    """Reads rows from where they are stored; pickles as a location, not as numbers."""

    def read(self, start: int, stop: int) -> NDArray[Any] | Csr:
        """Rows start to stop; a chunk that two consecutive reads share is decoded once."""
        ...

    def load(self, n_jobs: int | None) -> NDArray[Any] | Csr:
        """All rows."""
        ...


@dataclass(frozen=True, eq=False)
class Stored(Matrix):
    """One matrix of numbers that stays in its store, from which any process can read any block.

    bounds : the first row of each block, then the number of rows
    nnz : number of stored values
    reader : reads rows
    weight, given : how much each row counts; a label for each row
    gather : called by `take`: an engine whose workers have the rows. By default they are read here.
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
        columns: dict[str, Any] = self._check_columns(weight, given)
        return replace(self, **columns)

    def take(self, rows: ArrayLike) -> Any:
        """As `Dataset.take`."""
        wanted = self._check_rows(rows)
        if self.gather is not None:
            return self.gather(wanted)
        holder = find_blocks(self.bounds, wanted)
        parts = {}
        for b in np.unique(holder):
            start, stop = (int(bound) for bound in self.bounds[b : b + 2])
            block = Block(int(b), start, stop, self.reader.read(start, stop))
            parts[int(b)] = pick_rows(block, wanted[holder == b])
        return join_rows(self, holder, parts)

    def load(self, n_jobs: int | None = None) -> Dataset:
        """The same matrix in memory."""
        rows = self.reader.load(n_jobs)
        names = {name: getattr(self, name) for name in ("feature_names", "row_ids", "image_shape", "cells", "views")}
        dataset = cut_into_blocks(self.name, rows, self.bounds, **names)
        return dataset.with_columns(self.weight, self.given)


Rows = Dataset | Stored
"""What starts and solvers are given: they use its shape, its columns and `take`, wherever the rows are."""


def cut_finer(rows: Rows, bounds: NDArray[np.int64]) -> Rows:
    """The same rows in smaller blocks; `bounds` hold all bounds that they have, and more."""
    if isinstance(rows, Stored):
        return replace(rows, bounds=bounds)
    blocks: list[Block] = []
    for start, stop in pairwise(bounds.tolist()):
        block = rows.blocks[int(find_blocks(rows.bounds, np.array([start]))[0])]
        here = slice(start - block.start, stop - block.start)
        cut = block.rows.cut(here.start, here.stop) if isinstance(block.rows, Csr) else block.rows[here]
        weight = None if block.weight is None else block.weight[here]
        given = None if block.given is None else block.given[here]
        blocks.append(Block(len(blocks), start, stop, cut, weight, given))
    return replace(rows, blocks=tuple(blocks))


def find_blocks(bounds: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Number of the block that holds each of the wanted rows."""
    return np.searchsorted(bounds[:-1], wanted, side="right") - 1


def pick_rows(block: Block, wanted: NDArray[np.int64]) -> Any:
    """The wanted rows (by their number in the matrix) of one block: an array, or scipy CSR rows."""
    rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else block.rows
    return rows[wanted - block.start]


def join_rows(matrix: Matrix, holder: NDArray[np.intp], parts: dict[int, Any]) -> Any:
    """Put rows that were picked block by block (`parts`) into the order asked for; `holder` is from `find_blocks`."""
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


def cut_into_blocks(name: str, rows: NDArray[Any] | Csr, bounds: NDArray[np.int64], **names: Any) -> Dataset:
    """Cut rows in memory at the bounds; blocks are views. `names` are those of `Matrix`, such as `row_ids`."""
    is_sparse = isinstance(rows, Csr)
    n_features, dtype = (rows.n_features, rows.data.dtype) if isinstance(rows, Csr) else (rows.shape[1], rows.dtype)
    blocks = tuple(
        Block(i, a, b, rows.cut(a, b) if isinstance(rows, Csr) else rows[a:b])
        for i, (a, b) in enumerate(pairwise(bounds.tolist()))
    )
    return Dataset(name, int(bounds[-1]), n_features, dtype, is_sparse, blocks, **names)
