"""A look at all numbers of a matrix, a few MiB at a time: what cannot be read, is not finite, never changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.dataset import Dataset
from dmmc.machine import MIB

READ_BYTES = 8 * MIB
NAMED = 3
"""How many features a sentence names."""


class Looked:
    """What is seen of the numbers, piece by piece: those that are not finite, and the range of each feature."""

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.n_rows, self.n_features = n_rows, n_features
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.stored = np.zeros(n_features, np.int64)
        self.counts = {"NaN": 0, "infinity": 0}
        self.first: dict[str, tuple[int, int]] = {}
        self.rows_seen = 0

    def dense(self, rows: NDArray[Any], start: int) -> None:
        """Look at dense rows, the first of them number `start`."""
        if rows.dtype.kind == "f":
            for what, bad in (("NaN", np.isnan(rows)), ("infinity", np.isinf(rows))):
                if bad.any():
                    row, column = (int(place) for place in np.argwhere(bad)[0])
                    self._note(what, int(bad.sum()), start + row, column)
        # fmin and fmax leave NaN out
        self.low = np.fmin(self.low, np.fmin.reduce(rows, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(rows, axis=0))
        self.stored += len(rows)
        self.rows_seen += len(rows)

    def sparse(self, values: NDArray[Any], columns: NDArray[Any], indptr: NDArray[Any], start: int) -> None:
        """Look at CSR rows, the first of them number `start`."""
        if values.dtype.kind == "f":
            for what, bad in (("NaN", np.isnan(values)), ("infinity", np.isinf(values))):
                if bad.any():
                    place = int(np.argmax(bad))
                    row = start + int(np.searchsorted(indptr, place, side="right")) - 1
                    self._note(what, int(bad.sum()), row, int(columns[place]))
        np.fmin.at(self.low, columns, values)
        np.fmax.at(self.high, columns, values)
        self.stored += np.bincount(columns, minlength=self.n_features)
        self.rows_seen += len(indptr) - 1

    def _note(self, what: str, count: int, row: int, column: int) -> None:
        self.counts[what] += count
        self.first.setdefault(what, (row, column))

    def problems(self, name: str, names: tuple[str, ...] | None) -> list[str]:
        """Sentences about what was seen."""
        sentences = []
        for what, (row, column) in self.first.items():
            count = self.counts[what]
            also = f" and {count - 1} more" if count > 1 else ""
            sentences.append(
                f"{name} contains {what} at row {row}, {_feature(column, names)}{also}: impute or drop such rows first."
            )
        # a feature that some rows leave out has zeros there
        some_left_out = self.stored < self.rows_seen
        low = np.where(some_left_out, np.fmin(self.low, 0), self.low)
        high = np.where(some_left_out, np.fmax(self.high, 0), self.high)
        constant = np.flatnonzero(low == high)
        if len(constant) and self.rows_seen > 1:
            listed = ", ".join(_feature(int(column), names) for column in constant[:NAMED])
            more = f" and {len(constant) - NAMED} more" if len(constant) > NAMED else ""
            sentences.append(
                f"{name}: {len(constant)} of {self.n_features} features are the same in all rows and say nothing: "
                f"{listed}{more}."
            )
        return sentences


def _feature(column: int, names: tuple[str, ...] | None) -> str:
    return f"column {column}" if names is None else f"column {column} ({names[column]!r})"


def problems_of_dataset(dataset: Dataset) -> list[str]:
    """Sentences about the numbers of a matrix in memory."""
    looked = Looked(dataset.n_rows, dataset.n_features)
    for block in dataset.blocks:
        rows = block.rows
        if isinstance(rows, Csr):
            looked.sparse(rows.data, rows.indices, rows.indptr, block.start)
        else:
            looked.dense(rows, block.start)
    return looked.problems(dataset.name, dataset.feature_names)


def problems_of_zarr(node: Any, shape: tuple[int, int], name: str, names: tuple[str, ...] | None) -> list[str]:
    """Sentences about the numbers of a zarr array or CSR group, as far as it can be read."""
    looked = Looked(*shape)
    read = _dense_pieces if hasattr(node, "shape") else _sparse_pieces
    return [*read(node, name, looked), *looked.problems(name, names)]


def _dense_pieces(array: Any, name: str, looked: Looked) -> Iterator[str]:
    step = array.chunks[0] * max(1, READ_BYTES // max(1, array.chunks[0] * array.shape[1] * array.dtype.itemsize))
    for start in range(0, array.shape[0], step):
        stop = min(start + step, array.shape[0])
        try:
            rows = np.asarray(array[start:stop])
        except Exception as error:
            yield _unreadable(name, f"rows {start} to {stop - 1}", error)
            continue
        looked.dense(rows, start)


def _sparse_pieces(group: Any, name: str, looked: Looked) -> Iterator[str]:
    try:
        indptr = np.asarray(group["indptr"][:]).astype(np.int64)
    except Exception as error:
        yield _unreadable(f"{name}/indptr", "the beginnings of rows", error)
        return
    nnz = math.prod(group["data"].shape)
    if len(indptr) != looked.n_rows + 1 or indptr[0] != 0 or indptr[-1] != nnz or (np.diff(indptr) < 0).any():
        yield f"{name}: indptr must rise from 0 to the {nnz} stored values over {looked.n_rows} rows, and does not."
        return
    first = 0
    while first < looked.n_rows:
        reach = int(np.searchsorted(indptr, indptr[first] + READ_BYTES // 16, side="right")) - 1
        last = max(first + 1, reach)
        a, b = int(indptr[first]), int(indptr[last])
        try:
            values, columns = (np.asarray(group[part][a:b]) for part in ("data", "indices"))
        except Exception as error:
            yield _unreadable(name, f"rows {first} to {last - 1}", error)
        else:
            outside = (columns < 0) | (columns >= looked.n_features)
            if outside.any():
                row = first + int(np.searchsorted(indptr[first:] - a, int(np.argmax(outside)), side="right")) - 1
                column = columns[np.argmax(outside)]
                yield f"{name}: row {row} has column {column}, but there are {looked.n_features} columns."
            else:
                looked.sparse(values, columns, indptr[first : last + 1] - a, first)
        first = last


def _unreadable(name: str, rows: str, error: Exception) -> str:
    return (
        f"{name}: a chunk of {rows} could not be read, it is truncated, corrupt or unreadable "
        f"({type(error).__name__}: {error}): restore it from a copy."
    )
