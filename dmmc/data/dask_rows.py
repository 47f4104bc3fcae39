"""Dask arrays: read into the memory of this process, or block by block by the worker of a cluster that needs them."""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import product
from mmap import mmap
from threading import Lock
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Csr, block_bounds, csr_bounds
from dmmc.data.dataset import Stored
from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.csr import stack, to_csr
from dmmc.data.readers.numbers import as_numbers, check_shape, is_sparse, memory_dtype, name_rows, to_array
from dmmc.errors import InputError, OutOfTime
from dmmc.machine import MIB, count_threads
from dmmc.time_limit import NO_LIMIT, TimeLimit

OWN_PAGES = MIB
"""Smaller arrays stay where they are, as a process may map only some 65,000 pieces of memory."""


def load_dask(array: Any, n_jobs: int | None, limit: TimeLimit = NO_LIMIT) -> LoadedMatrix:
    """Read a dask array; each of its chunks is computed once and put where it belongs as it comes."""
    array, name = _find_shape(array)
    chunks = _DaskChunks(array, name, limit)
    chunks.compute(n_jobs)
    return LoadedMatrix(name, chunks.matrix())


def _find_shape(array: Any) -> tuple[Any, str]:
    """The array with all sizes of chunks known, and its name in messages."""
    if any(math.isnan(size) for size in array.shape):
        array = array.copy().compute_chunk_sizes()
    name = f"dask array of shape {array.shape}"
    check_shape(array.shape, name)
    return array, name


def describe_dask(array: Any, compute: Callable[[Sequence[Any]], list[Any]]) -> Stored:
    """Find shape, kind and blocks of a dask array; values of sparse rows are counted on the cluster."""
    import dask

    array, name = _find_shape(array)
    n_rows, n_features = (int(size) for size in array.shape)
    reader = DaskRows(array, name)
    dtype = memory_dtype(array.dtype, name)
    first = next(band[0] for band in reader.bands if band is not None)
    (sparse,) = compute([dask.delayed(is_sparse)(first)])
    if sparse:
        lengths = [dask.delayed(count_values)(band, name) for band in reader.bands if band is not None]
        counts = np.concatenate(compute(lengths))
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        bounds, nnz = csr_bounds(indptr, dtype.itemsize), int(indptr[-1])
    else:
        bounds, nnz = block_bounds(n_rows, n_features, dtype.itemsize), n_rows * n_features
    return Stored(name, n_rows, n_features, dtype, sparse, bounds, nnz, reader)


def compute_here(delayed: Sequence[Any]) -> list[Any]:
    """What `describe_dask` wants computed, without a cluster of ours."""
    import dask

    return list(dask.compute(*delayed))


class DaskRows:
    """Rows of a dask array; `piece` gives them as a graph, for a worker to compute."""

    def __init__(self, array: Any, name: str) -> None:
        self._array = array
        self._name = name
        self._dtype = memory_dtype(array.dtype, name)
        self._edges = np.concatenate([[0], np.cumsum(array.chunks[0], dtype=np.int64)])
        chunks = array.to_delayed()
        columns = [j for j, size in enumerate(array.chunks[1]) if size]
        self.bands = [[chunks[i, j] for j in columns] if size else None for i, size in enumerate(array.chunks[0])]
        """Chunks side by side, for each band of rows that is not empty."""

    def piece(self, start: int, stop: int) -> Any:
        """Rows start to stop, to be computed by Dask."""
        import dask

        first, last = np.searchsorted(self._edges, [start, stop - 1], side="right") - 1
        numbers = [i for i in range(first, last + 1) if self.bands[i] is not None]
        cuts = [
            (max(0, start - int(self._edges[i])), min(stop, int(self._edges[i + 1])) - int(self._edges[i]))
            for i in numbers
        ]
        return dask.delayed(assemble_rows)([self.bands[i] for i in numbers], cuts, self._dtype, self._name, start)

    def read(self, start: int, stop: int) -> Array | Csr:
        """Rows start to stop, computed here."""
        rows: Array | Csr = self.piece(start, stop).compute()
        return rows

    def load(self, n_jobs: int | None) -> Array | Csr:
        """All rows."""
        return load_dask(self._array, n_jobs).rows


def count_values(band: list[Any], name: str) -> Array:
    """Number of values in each row of a band of chunks."""
    return np.asarray(np.sum([np.diff(to_csr(chunk, name).indptr) for chunk in band], axis=0))


def assemble_rows(
    bands: list[list[Any]], cuts: list[tuple[int, int]], dtype: np.dtype[Any], name: str, start: int
) -> Array | Csr:
    """Join chunks to rows: of each band (chunks side by side) the rows between its cuts; `start` numbers the first."""
    parts, kinds = [], set()
    for band, (first, last) in zip(bands, cuts, strict=True):
        where = f"{name}, {name_rows(start, start + last - first)}"
        start += last - first
        kinds |= {is_sparse(chunk) for chunk in band}
        for chunk in band:
            if not np.can_cast(memory_dtype(chunk.dtype, where), dtype):
                raise InputError(f"{where}: a chunk is of dtype {chunk.dtype}, dask promised {dtype}.")
        if len(kinds) > 1:
            raise InputError(f"{name} has dense chunks and sparse chunks: one kind is wanted.")
        if kinds == {True}:
            from scipy.sparse import hstack

            parts.append(hstack([to_csr(chunk, where).to_scipy()[first:last] for chunk in band], format="csr"))
        else:
            parts.append(np.hstack([as_numbers(to_array(chunk)[first:last], where) for chunk in band]))
    if kinds == {True}:
        from scipy.sparse import vstack

        return to_csr(vstack(parts, format="csr").astype(dtype, copy=False), name)
    return np.ascontiguousarray(np.vstack(parts), dtype)


class _DaskChunks:
    """Collects the chunks of a dask array, in any order and from any thread."""

    def __init__(self, array: Any, name: str, limit: TimeLimit) -> None:
        self.array = array
        self.name = name
        self.limit = limit
        self.dtype = memory_dtype(array.dtype, name)
        self.edges = [np.concatenate([[0], np.cumsum(sizes)]).tolist() for sizes in array.chunks]
        self.places = list(product(*(range(len(sizes)) for sizes in array.chunks)))
        self.arrived: set[tuple[int, ...]] = set()
        self.dense: Array | None = None
        self.sparse: dict[tuple[int, ...], Any] = {}
        self.lock = Lock()

    def compute(self, n_jobs: int | None) -> None:
        """Bring in all chunks: at once if this process computes them, else one after the other."""
        dask: Any = import_module("dask")
        array = self.array
        if dask.base.get_scheduler(collections=[array]) in (dask.local.get_sync, dask.threaded.get):
            put = dask.delayed(self.put, pure=False)
            tasks = [put(chunk, place) for place, chunk in zip(self.places, array.to_delayed().ravel(), strict=True)]
            # dask does not say which chunk failed: the loop below meets it again and does
            with suppress(Exception):
                dask.compute(tasks, num_workers=count_threads(n_jobs))
        else:
            # other processes cannot put into ours; persist, so that what chunks share is computed once
            array = array.persist()
        for place, chunk in zip(self.places, array.to_delayed().ravel(), strict=True):
            if place not in self.arrived:
                rows = name_rows(*self.edges[0][place[0] : place[0] + 2])
                try:
                    self.put(chunk.compute(), place)
                except (InputError, OutOfTime):
                    raise
                except Exception as error:
                    raise InputError(f"{self.name}: {rows} could not be computed: {error}") from error

    def put(self, chunk: Any, place: tuple[int, ...]) -> None:
        """Put a chunk where it belongs, after a look at its shape and dtype."""
        if len(self.arrived) + 1 < len(self.places):
            self.limit.check(f"{self.name} was being read")
        spans = [slice(edges[i], edges[i + 1]) for edges, i in zip(self.edges, place, strict=True)]
        shape = tuple(span.stop - span.start for span in spans)
        name = f"{self.name}, {name_rows(spans[0].start, spans[0].stop)}"
        if chunk.shape != shape:
            raise InputError(f"{name}: a chunk is of shape {chunk.shape}, dask promised {shape}.")
        if not np.can_cast(memory_dtype(chunk.dtype, name), self.dtype):
            raise InputError(f"{name}: a chunk is of dtype {chunk.dtype}, dask promised {self.dtype}.")
        if is_sparse(chunk) and math.prod(shape):
            self.sparse[place] = _in_own_pages(to_csr(chunk, name).to_scipy().astype(self.dtype, copy=False))
        elif math.prod(shape):
            with self.lock:
                if self.dense is None:
                    self.dense = np.empty(self.array.shape, self.dtype)
            self.dense[tuple(spans)] = as_numbers(to_array(chunk), name)
        self.arrived.add(place)

    def matrix(self) -> Array | Csr:
        """Join all chunks to one matrix; sparse ones are freed on the way."""
        if self.dense is not None:
            if self.sparse:
                raise InputError(f"{self.name} has dense chunks and sparse chunks: one kind is wanted.")
            return self.dense
        return stack([self._band(i) for i, size in enumerate(self.array.chunks[0]) if size])

    def _band(self, i: int) -> Any:
        from scipy.sparse import hstack

        parts = [self.sparse.pop((i, j)) for j, size in enumerate(self.array.chunks[1]) if size]
        return parts[0] if len(parts) == 1 else _in_own_pages(hstack(parts, format="csr"))


def _in_own_pages(matrix: Any) -> Any:
    """Move CSR rows to memory that goes back to the system the moment it is freed.

    What the threads of dask allocate, malloc would keep for them: all chunks would stay until the end, as a
    second copy of the matrix that is made of them.
    """

    def copy(array: Array) -> Array:
        if array.nbytes < OWN_PAGES:
            return array
        pages = np.frombuffer(mmap(-1, array.nbytes), array.dtype)
        pages[:] = array
        return pages

    matrix.data, matrix.indices = copy(matrix.data), copy(matrix.indices)
    return matrix
