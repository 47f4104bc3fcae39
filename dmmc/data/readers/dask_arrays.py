"""Dask arrays, read into the memory of this process."""

import math
from contextlib import suppress
from importlib import import_module
from itertools import product
from mmap import mmap
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.readers.csr import stack, to_csr
from dmmc.data.readers.loaded import LoadedMatrix
from dmmc.data.readers.numbers import as_numbers, check_shape, is_sparse, memory_dtype, name_rows, to_array
from dmmc.errors import InputError
from dmmc.machine import MIB, count_threads

OWN_PAGES = MIB
"""Smaller arrays stay where they are, as a process may map only some 65,000 pieces of memory."""


def load_dask(array: Any, n_jobs: int | None) -> LoadedMatrix:
    """Read a dask array; each of its chunks is computed once and put where it belongs as it comes."""
    if any(math.isnan(size) for size in array.shape):
        array = array.copy().compute_chunk_sizes()
    name = f"dask array of shape {array.shape}"
    check_shape(array.shape, name)
    chunks = _DaskChunks(array, name)
    chunks.compute(n_jobs)
    return LoadedMatrix(name, chunks.matrix())


class _DaskChunks:
    """Collects the chunks of a dask array, in any order and from any thread."""

    def __init__(self, array: Any, name: str) -> None:
        self.array = array
        self.name = name
        self.dtype = memory_dtype(array.dtype, name)
        self.edges = [np.concatenate([[0], np.cumsum(sizes)]).tolist() for sizes in array.chunks]
        self.places = list(product(*(range(len(sizes)) for sizes in array.chunks)))
        self.arrived: set[tuple[int, ...]] = set()
        self.dense: NDArray[Any] | None = None
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
                self._compute_one(place, chunk)

    def _compute_one(self, place: tuple[int, ...], chunk: Any) -> None:
        rows = name_rows(*self.edges[0][place[0] : place[0] + 2])
        try:
            self.put(chunk.compute(), place)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self.name}: {rows} could not be computed: {error}") from error

    def put(self, chunk: Any, place: tuple[int, ...]) -> None:
        """Put a chunk where it belongs, after a look at its shape and dtype."""
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
            self._dense()[tuple(spans)] = as_numbers(to_array(chunk), name)
        self.arrived.add(place)

    def _dense(self) -> NDArray[Any]:
        with self.lock:
            if self.dense is None:
                self.dense = np.empty(self.array.shape, self.dtype)
            return self.dense

    def matrix(self) -> NDArray[Any] | Csr:
        """Join all chunks to one matrix; sparse ones are freed on the way."""
        if self.dense is not None:
            if self.sparse:
                raise InputError(f"{self.name} has dense chunks and sparse chunks: one kind is wanted.")
            return self.dense
        bands = [self._band(i) for i in range(len(self.array.chunks[0])) if self.array.chunks[0][i]]
        return stack(bands)

    def _band(self, i: int) -> Any:
        from scipy.sparse import hstack

        parts = [self.sparse.pop((i, j)) for j, size in enumerate(self.array.chunks[1]) if size]
        return parts[0] if len(parts) == 1 else _in_own_pages(hstack(parts, format="csr"))


def _in_own_pages(matrix: Any) -> Any:
    """Move CSR rows to memory that goes back to the system the moment it is freed.

    What the threads of dask allocate, malloc would keep for them: all chunks would stay until the end, as a
    second copy of the matrix that is made of them.
    """

    def copy(array: NDArray[Any]) -> NDArray[Any]:
        if array.nbytes < OWN_PAGES:
            return array
        pages = np.frombuffer(mmap(-1, array.nbytes), array.dtype)
        pages[:] = array
        return pages

    matrix.data, matrix.indices = copy(matrix.data), copy(matrix.indices)
    return matrix
