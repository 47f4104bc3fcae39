"""Matrices that stay in their zarr store: blocks are read by the process that needs them, when it needs them."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr, block_bounds, csr_bounds
from dmmc.data.dataset import Stored
from dmmc.data.readers.csr import check_indptr, check_lengths, narrow_columns, sort_rows
from dmmc.data.readers.numbers import as_numbers, comes_from, memory_dtype, name_rows
from dmmc.data.readers.store_checks import name_damage
from dmmc.data.readers.zarr_arrays import (
    check_complete,
    check_seals,
    find_rows,
    read_all,
    read_csr,
    read_names,
    read_span,
)
from dmmc.data.readers.zarr_nodes import MatrixNode, find_matrix, name_store, open_store, read_csr_shape
from dmmc.errors import InputError
from dmmc.stores.urls import Remote, find_remote


def open_stored(source: Any, component: str | None = None) -> Stored | None:
    """Open a matrix in a zarr store without reading its numbers.

    None where the source is of another kind, or is a store in this process's memory.
    """
    source = find_remote(source)
    if isinstance(source, Remote) and not source.is_shared:
        return None
    if isinstance(source, str | os.PathLike | Remote):
        place = source if isinstance(source, Remote) else os.path.abspath(os.fspath(source))
        store = name_store(place)
        with open_store(place) as node, name_damage(store):
            found = find_matrix(node, store, component)
            return _describe(found, Location(place, found.node.path), store, component)
    if not (comes_from(source, "zarr") and hasattr(source, "store_path")):
        return None
    if type(source.store_path.store).__name__ in ("MemoryStore", "ManagedMemoryStore"):
        return None
    store = str(source.store_path.store)
    with name_damage(store):
        found = find_matrix(source, store, component)
        return _describe(found, Location(None, "", found.node), store, component)


@dataclass(frozen=True)
class Location:
    """Where a matrix is: a path or URL that all workers can open, or a zarr node of a store that pickles."""

    path: str | Remote | None
    inner: str
    node: Any = field(default=None, repr=False)

    def open(self) -> Any:
        """Open the array or group, perhaps on another machine than the driver's."""
        if self.path is None:
            return self.node
        if isinstance(self.path, str) and not os.path.exists(self.path):
            raise InputError(
                f"{self.path!r} does not exist on {os.uname().nodename}, which was asked to read it: a path that all "
                "workers see is wanted."
            )
        with open_store(self.path) as root:
            return root[self.inner] if self.inner else root


def _describe(found: MatrixNode, location: Location, store: str, component: str | None) -> Stored:
    """A matrix as its metadata describe it, after a check that all its chunks are there."""
    node, name = found.node, found.name
    if found.is_sparse:
        n_rows, n_features = read_csr_shape(node, name)
        indptr = check_indptr(read_all(node["indptr"], f"{name}/indptr", None), n_rows, name)
        data, indices = (np.broadcast_to(np.uint8(0), node[part].shape) for part in ("data", "indices"))
        check_lengths(Csr(data, indices, indptr, n_features), name)
        for part in ("data", "indices"):
            check_complete(node[part], f"{name}/{part}", indptr)
        dtype, nnz = memory_dtype(node["data"].dtype, name), int(indptr[-1])
        reader: ZarrRows | ZarrCsr = ZarrCsr(location, name, n_features)
        bounds = csr_bounds(indptr, dtype.itemsize)
    else:
        check_complete(node, name, None)
        (n_rows, n_features), dtype = node.shape, memory_dtype(node.dtype, name)
        nnz = n_rows * n_features
        reader = ZarrRows(location, name, n_features)
        bounds = block_bounds(n_rows, n_features, dtype.itemsize)
    shape, names = (n_rows, n_features), read_names(found, store)
    check_seals(found, component)
    return Stored(name, *shape, dtype, found.is_sparse, bounds, nnz, reader, **names)


class ForwardReader:
    """Reads a zarr array from front to back; keeps the rest of a chunk, so that none is decoded twice."""

    def __init__(self, array: Any, name: str) -> None:
        self._array = array
        self._name = name
        self._rest: NDArray[Any] = np.empty((0, *array.shape[1:]), array.dtype)
        self._at = 0

    def read(self, start: int, stop: int, rows: Callable[[int, int], tuple[int, int]] | None = None) -> NDArray[Any]:
        """Entries start to stop; `rows` turns entries into rows of the matrix, for messages, where they are not."""
        kept = self._rest[start - self._at : stop - self._at] if start >= self._at else self._rest[:0]
        middle = start + len(kept)
        if middle == stop:
            return kept
        chunk = min(self._array.chunks[0], self._array.shape[0])  # a damaged store may name any number
        first, last = middle // chunk * chunk, min(-(-stop // chunk) * chunk, self._array.shape[0])
        whole = self._decode(first, last, rows)
        # copies, as a view would keep all of what was decoded
        self._at = (stop - 1) // chunk * chunk
        self._rest = whole[self._at - first :].copy() if stop < last else whole[:0].copy()
        part = whole[middle - first : stop - first]
        if len(kept) == 0:
            return part if len(part) == len(whole) else part.copy()
        return np.concatenate([kept, part])

    def _decode(self, first: int, last: int, rows: Callable[[int, int], tuple[int, int]] | None) -> NDArray[Any]:
        return read_span(
            self._array, first, last, self._name, lambda: name_rows(*(rows(first, last) if rows else (first, last)))
        )


class _ZarrReader:
    """Base of readers: where the matrix is, and what has been opened of it, which is not pickled."""

    def __init__(self, location: Location, name: str, n_features: int) -> None:
        self._location = location
        self._name = name
        self._n_features = n_features
        self._parts: tuple[ForwardReader, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._location, self._name, self._n_features)


class ZarrRows(_ZarrReader):
    """Rows of a dense zarr array."""

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Rows start to stop."""
        if not self._parts:
            self._parts = (ForwardReader(self._location.open(), self._name),)
        return np.ascontiguousarray(as_numbers(self._parts[0].read(start, stop), self._name))

    def load(self, n_jobs: int | None) -> NDArray[Any]:
        """All rows."""
        return read_all(self._location.open(), self._name, n_jobs)


class ZarrCsr(_ZarrReader):
    """Rows of an anndata-style group of CSR arrays."""

    def read(self, start: int, stop: int) -> Csr:
        """Rows start to stop, columns sorted."""
        if not self._parts:
            group = self._location.open()
            self._parts = tuple(ForwardReader(group[part], self._name) for part in ("indptr", "data", "indices"))
        indptr, data, indices = self._parts
        # a bound is read with both blocks that it is between
        bounds = np.asarray(indptr.read(start, stop + 1), np.int64)

        def find_block_rows(a: int, b: int) -> tuple[int, int]:
            """Rows of this block to which the values a to b belong, some of which may be of the block before."""
            begin, end = find_rows(a, b, bounds)
            return start + max(begin, 0), start + max(end, 1)

        first, last = int(bounds[0]), int(bounds[-1])
        values = as_numbers(data.read(first, last, find_block_rows), self._name)
        within = bounds - first
        found = indices.read(first, last, find_block_rows)
        columns = narrow_columns(found, self._n_features, within, 0, f"{self._name}, from row {start}")
        rows = sort_rows(Csr(np.ascontiguousarray(values), columns, within, self._n_features))
        if len(rows.data) != len(values):
            raise InputError(
                f"{self._name} has a column twice in {name_rows(start, stop)}: blocks of a cluster are cut before they "
                "are read, so write it again with sum_duplicates(), or fit without a cluster."
            )
        return rows

    def load(self, n_jobs: int | None) -> Csr:
        """All rows."""
        return read_csr(self._location.open(), self._name, n_jobs)
