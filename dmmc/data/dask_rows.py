"""Dask arrays on a cluster: each block is a part of the array's graph, computed by the worker that needs it."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Csr, block_bounds, csr_bounds
from dmmc.data.dataset import Stored
from dmmc.data.readers.csr import to_csr
from dmmc.data.readers.dask_arrays import load_dask
from dmmc.data.readers.numbers import as_numbers, check_shape, is_sparse, memory_dtype, name_rows, to_array
from dmmc.errors import InputError


def describe_dask(array: Any, compute: Callable[[Sequence[Any]], list[Any]]) -> Stored:
    """Find shape, kind and blocks of a dask array; values of sparse rows are counted on the cluster."""
    import dask

    if any(math.isnan(size) for size in array.shape):
        array = array.copy().compute_chunk_sizes()
    name = f"dask array of shape {array.shape}"
    check_shape(array.shape, name)
    n_rows, n_features = (int(size) for size in array.shape)
    reader = DaskRows(array, name)
    dtype = memory_dtype(array.dtype, name)
    (sparse,) = compute([dask.delayed(is_sparse)(reader.first)])
    if sparse:
        lengths = [dask.delayed(count_values)(band, name) for band in reader.bands if band is not None]
        counts = np.concatenate(compute(lengths))
        indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        bounds, nnz = csr_bounds(indptr, dtype.itemsize), int(indptr[-1])
    else:
        bounds, nnz = block_bounds(n_rows, n_features, dtype.itemsize), n_rows * n_features
    return Stored(name, n_rows, n_features, dtype, sparse, bounds, nnz, reader)


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

    @property
    def first(self) -> Any:
        """A chunk that has rows and columns."""
        return next(band[0] for band in self.bands if band is not None)

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
