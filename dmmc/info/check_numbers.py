"""A check of all numbers of a matrix, a few MiB at a time: unreadable chunks, NaN and infinity, constant features."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.dataset import Dataset
from dmmc.data.readers.csr import narrow_columns
from dmmc.data.readers.numbers import name_rows
from dmmc.data.readers.zarr_arrays import many_at_once, unreadable_chunk
from dmmc.errors import InputError
from dmmc.machine import MIB

READ_BYTES = 8 * MIB
NAMED = 3
"""How many features a sentence names."""


class Note(str):
    """A sentence about something that no fit refuses."""

    __slots__ = ()


class NumberCheck:
    """Counts numbers that are not finite and finds the range of each feature, part by part."""

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows, self.n_features = n_rows, n_features
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.stored = np.zeros(n_features, np.int64)
        self.counts = {"NaN": 0, "infinity": 0}
        self.first: dict[str, tuple[int, int]] = {}
        self.rows_seen = 0

    def add_dense(self, rows: NDArray[Any], start: int) -> None:
        """Check dense rows, the first of them number `start`."""
        self._find_bad(rows, lambda i: (start + i // self.n_features, i % self.n_features))
        # fmin and fmax leave NaN out
        self.low = np.fmin(self.low, np.fmin.reduce(rows, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(rows, axis=0))
        self.stored += len(rows)
        self.rows_seen += len(rows)

    def add_sparse(self, values: NDArray[Any], columns: NDArray[Any], indptr: NDArray[Any], start: int) -> None:
        """Check CSR rows, the first of them number `start`."""
        self._find_bad(values, lambda i: (start + int(np.searchsorted(indptr, i, side="right")) - 1, int(columns[i])))
        np.fmin.at(self.low, columns, values)
        np.fmax.at(self.high, columns, values)
        self.stored += np.bincount(columns, minlength=self.n_features)
        self.rows_seen += len(indptr) - 1

    def _find_bad(self, values: NDArray[Any], find_place: Callable[[int], tuple[int, int]]) -> None:
        """Count NaN and infinity; `find_place` gives row and column of the i-th value."""
        if values.dtype.kind == "f":
            for what, bad in (("NaN", np.isnan(values)), ("infinity", np.isinf(values))):
                if bad.any():
                    self.counts[what] += int(bad.sum())
                    self.first.setdefault(what, find_place(int(np.argmax(bad))))

    def problems(self, name: str, names: tuple[str, ...] | None) -> list[str]:
        """Sentences about what was found."""
        sentences = []
        for what, (row, column) in self.first.items():
            count = self.counts[what]
            also = f" and {count - 1} more" if count > 1 else ""
            where = f"row {row}, {_name_feature(column, names)}"
            sentences.append(f"{name} contains {what} at {where}{also}: impute or drop such rows first.")
        # a feature that some rows leave out has zeros there
        some_left_out = self.stored < self.rows_seen
        low = np.where(some_left_out, np.fmin(self.low, 0), self.low)
        high = np.where(some_left_out, np.fmax(self.high, 0), self.high)
        constant = np.flatnonzero(low == high)
        if len(constant) and self.rows_seen > 1:
            told = f"{len(constant)} of {self.n_features} features are the same in all rows and say nothing"
            sentences.append(Note(f"{name}: {told}: {list_features(constant, names)}."))
        return sentences


def list_features(columns: NDArray[Any], names: tuple[str, ...] | None) -> str:
    """The first few columns, and how many more there are."""
    listed = ", ".join(_name_feature(int(column), names) for column in columns[:NAMED])
    return f"{listed} and {len(columns) - NAMED} more" if len(columns) > NAMED else listed


def _name_feature(column: int, names: tuple[str, ...] | None) -> str:
    return f"column {column}" if names is None else f"column {column} ({names[column]!r})"


def find_problems(dataset: Dataset) -> list[str]:
    """Sentences about the numbers of a matrix in memory."""
    check = NumberCheck(dataset.n_rows, dataset.n_features)
    for block in dataset.blocks:
        rows = block.rows
        if isinstance(rows, Csr):
            check.add_sparse(rows.data, rows.indices, rows.indptr, block.start)
        else:
            check.add_dense(rows, block.start)
    return check.problems(dataset.name, dataset.feature_names)


def find_zarr_problems(node: Any, shape: tuple[int, int], name: str, names: tuple[str, ...] | None) -> list[str]:
    """Sentences about the numbers of a zarr array or CSR group, as far as it can be read."""
    check = NumberCheck(*shape)
    read = _check_dense if hasattr(node, "shape") else _check_sparse
    with many_at_once(node):
        return [*read(node, name, check), *check.problems(name, names)]


def _check_dense(array: Any, name: str, check: NumberCheck) -> Iterator[str]:
    step = array.chunks[0] * max(1, READ_BYTES // max(1, array.chunks[0] * array.shape[1] * array.dtype.itemsize))
    for start in range(0, array.shape[0], step):
        stop = min(start + step, array.shape[0])
        try:
            rows = np.asarray(array[start:stop])
        except Exception as error:
            yield str(unreadable_chunk(name, name_rows(start, stop), error))
            continue
        check.add_dense(rows, start)


def _check_sparse(group: Any, name: str, check: NumberCheck) -> Iterator[str]:
    try:
        indptr = np.asarray(group["indptr"][:]).astype(np.int64)
    except Exception as error:
        yield str(unreadable_chunk(f"{name}/indptr", "the beginnings of rows", error))
        return
    nnz = math.prod(group["data"].shape)
    if len(indptr) != check.n_rows + 1 or indptr[0] != 0 or indptr[-1] != nnz or (np.diff(indptr) < 0).any():
        yield f"{name}: indptr must rise from 0 to the {nnz} stored values over {check.n_rows} rows, and does not."
        return
    first = 0
    while first < check.n_rows:
        reach = int(np.searchsorted(indptr, indptr[first] + READ_BYTES // 16, side="right")) - 1
        last = max(first + 1, reach)
        a, b = int(indptr[first]), int(indptr[last])
        try:
            values, columns = (np.asarray(group[part][a:b]) for part in ("data", "indices"))
            columns = narrow_columns(columns, check.n_features, indptr, a, name)
        except InputError as error:
            yield str(error)
        except Exception as error:
            yield str(unreadable_chunk(name, name_rows(first, last), error))
        else:
            check.add_sparse(values, columns, indptr[first : last + 1] - a, first)
        first = last
