"""Matrices that stay in their zarr store: rows are read where and when they are needed, block by block."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr, block_bounds, csr_bounds
from dmmc.data.dataset import Stored
from dmmc.data.readers.csr import checked_indptr, narrow, same_lengths, sorted_rows
from dmmc.data.readers.numbers import as_numbers, comes_from, memory_dtype, row_words
from dmmc.data.readers.zarr_arrays import absent_chunk, check_complete, index_of, read_all, read_csr, unreadable
from dmmc.data.readers.zarr_nodes import Found, csr_shape, find_matrix, opened
from dmmc.errors import InputError

PAUSES = (0.2, 1.0)
"""Seconds before a read that failed is tried again: a store may be busy, or a file system come back."""


def open_stored(source: Any, component: str | None = None) -> Stored | None:
    """Look at a matrix in a zarr store without reading its numbers.

    Parameters
    ----------
    source : object
        What the user gave.
    component : str, optional
        Path of the matrix inside a zarr group or store.

    Returns
    -------
    Stored, or None where the source is of another kind, or is a store in this process's memory
    """
    if isinstance(source, str | os.PathLike):
        path = os.path.abspath(os.fspath(source)) if "://" not in os.fspath(source) else os.fspath(source)
        with opened(path) as node:
            found = find_matrix(node, Path(path).name, component)
            return _described(found, Place(path, found.node.path))
    if not (comes_from(source, "zarr") and hasattr(source, "store_path")):
        return None
    if type(source.store_path.store).__name__ in ("MemoryStore", "ManagedMemoryStore"):
        return None
    found = find_matrix(source, str(source.store_path.store), component)
    return _described(found, Place(None, "", found.node))


@dataclass(frozen=True)
class Place:
    """Where a matrix is: a path that everyone can open, or a zarr node of a store that pickles."""

    path: str | None
    inner: str
    node: Any = field(default=None, repr=False)

    def open(self) -> Any:
        """The array or group; whoever opens it here may be another machine."""
        if self.path is None:
            return self.node
        if not os.path.exists(self.path):
            raise InputError(
                f"{self.path!r} does not exist on {os.uname().nodename}, which was asked to read it: a path that all "
                "workers see is wanted."
            )
        with opened(self.path) as root:
            return root[self.inner] if self.inner else root


def _described(found: Found, place: Place) -> Stored:
    """All that is known of a matrix before any of its numbers is read."""
    node, name = found.node, found.name
    names, row_ids = None, None
    if found.frame is not None:
        columns = index_of(found.frame, "var", name)
        names = None if columns is None else tuple(columns.tolist())
        row_ids = index_of(found.frame, "obs", name)
    if found.is_sparse:
        n_rows, n_features = csr_shape(node, name)
        indptr = checked_indptr(read_all(node["indptr"], f"{name}/indptr", None), n_rows, name)
        data, indices = (np.broadcast_to(np.uint8(0), node[part].shape) for part in ("data", "indices"))
        same_lengths(Csr(data, indices, indptr, n_features), name)
        for part in ("data", "indices"):
            check_complete(node[part], f"{name}/{part}", indptr)
        dtype, nnz = memory_dtype(node["data"].dtype, name), int(indptr[-1])
        reader: ZarrRows | ZarrCsr = ZarrCsr(place, name, n_features)
        bounds = csr_bounds(indptr, dtype.itemsize)
    else:
        check_complete(node, name, None)
        (n_rows, n_features), dtype = node.shape, memory_dtype(node.dtype, name)
        nnz = n_rows * n_features
        reader = ZarrRows(place, name)
        bounds = block_bounds(n_rows, n_features, dtype.itemsize)
    return Stored(
        name,
        n_rows,
        n_features,
        dtype,
        found.is_sparse,
        bounds,
        nnz,
        reader,
        feature_names=names,
        row_ids=row_ids,
    )


class Forward:
    """A zarr array read from front to back: what a chunk holds of the next part is kept, not decoded again.

    Parameters
    ----------
    array : zarr.Array
    rows : callable
        Entries start to stop of the array, as rows of the matrix that a message can name.
    name : str
        How to call the matrix.
    """

    def __init__(self, array: Any, rows: Callable[[int, int], tuple[int, int]], name: str) -> None:
        self._array = array
        self._rows = rows
        self._name = name
        self._rest: NDArray[Any] = np.empty((0, *array.shape[1:]), array.dtype)
        self._at = 0

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Entries start to stop."""
        kept = self._rest[start - self._at : stop - self._at] if start >= self._at else self._rest[:0]
        middle = start + len(kept)
        if middle == stop:
            return kept
        chunk = self._array.chunks[0]
        first, last = middle // chunk * chunk, min(-(-stop // chunk) * chunk, self._array.shape[0])
        whole = self._decoded(first, last)
        # copies, as a view would keep all of what was decoded
        self._at = (stop - 1) // chunk * chunk
        self._rest = whole[self._at - first :].copy() if stop < last else whole[:0].copy()
        part = whole[middle - first : stop - first]
        if len(kept) == 0:
            return part if len(part) == len(whole) else part.copy()
        return np.concatenate([kept, part])

    def _decoded(self, first: int, last: int) -> NDArray[Any]:
        for pause in (*PAUSES, None):
            try:
                part = np.asarray(self._array[first:last])
                absent = absent_chunk(self._array, part, first)
                if absent is not None:
                    raise FileNotFoundError(f"{absent} is missing")
                return part
            except Exception as error:
                if pause is None:
                    raise unreadable(self._name, self._rows(first, last), error) from error
                time.sleep(pause)
        raise AssertionError


def _same(start: int, stop: int) -> tuple[int, int]:
    return start, stop


class ZarrRows:
    """Rows of a dense zarr array."""

    def __init__(self, place: Place, name: str) -> None:
        self._place = place
        self._name = name
        self._forward: Forward | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrRows, (self._place, self._name)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop."""
        if self._forward is None:
            self._forward = Forward(self._place.open(), _same, self._name)
        return np.ascontiguousarray(as_numbers(self._forward.read(start, stop), self._name))

    def load(self, n_jobs: int | None) -> NDArray[Any]:
        """All rows."""
        return read_all(self._place.open(), self._name, n_jobs)


class ZarrCsr:
    """Rows of an anndata-style group of CSR arrays."""

    def __init__(self, place: Place, name: str, n_features: int) -> None:
        self._place = place
        self._name = name
        self._n_features = n_features
        self._parts: tuple[Forward, ...] = ()
        self._indptr: NDArray[np.int64] = np.zeros(1, np.int64)
        self._start = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ZarrCsr, (self._place, self._name, self._n_features)

    def _named(self, first: int, last: int) -> tuple[int, int]:
        """Rows of the block being read that hold these values."""
        begin = int(np.searchsorted(self._indptr, first, side="right")) - 1
        end = int(np.searchsorted(self._indptr, last))
        return self._start + max(begin, 0), self._start + max(begin + 1, end, 1)

    def read(self, start: int, stop: int) -> Csr:
        """Rows start to stop, columns sorted."""
        if not self._parts:
            group = self._place.open()
            self._parts = (
                Forward(group["indptr"], _same, self._name),
                Forward(group["data"], self._named, self._name),
                Forward(group["indices"], self._named, self._name),
            )
        indptr, data, indices = self._parts
        # a bound is read with both blocks that it is between
        self._start, self._indptr = start, np.asarray(indptr.read(start, stop + 1), np.int64)
        first, last = int(self._indptr[0]), int(self._indptr[-1])
        values = as_numbers(data.read(first, last), self._name)
        within = self._indptr - first
        columns = narrow(indices.read(first, last), self._n_features, within, 0, f"{self._name}, from row {start}")
        rows = sorted_rows(Csr(np.ascontiguousarray(values), columns, within, self._n_features))
        if len(rows.data) != len(values):
            raise InputError(
                f"{self._name} has a column twice in {row_words(start, stop)}: blocks of a cluster are cut before they "
                "are read, so write it again with sum_duplicates(), or fit without a cluster."
            )
        return rows

    def load(self, n_jobs: int | None) -> Csr:
        """All rows."""
        return read_csr(self._place.open(), self._name, n_jobs)
