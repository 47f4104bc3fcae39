"""Open any source: into memory (`open_dataset`), or where a cluster reads it (`open_rows`).

Each reader ends in a C-contiguous array or in `Csr` rows, with at most a few chunks of the source held
besides. Libraries that a source may come from are imported only when such a source is met.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr, block_bounds, csr_bounds
from dmmc.data.dask_rows import describe_dask, load_dask
from dmmc.data.dataset import Dataset, Rows, Stored, cut_into_blocks
from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.csr import to_csr
from dmmc.data.readers.numbers import (
    as_numbers,
    check_shape,
    comes_from,
    is_dask_array,
    is_sparse,
    memory_dtype,
    to_array,
)
from dmmc.data.readers.zarr_arrays import load_zarr
from dmmc.data.readers.zarr_nodes import find_matrix, name_store, open_store, read_csr_shape
from dmmc.data.views import are_views, join_views
from dmmc.data.zarr_rows import open_stored
from dmmc.errors import InputError, StoreFailed
from dmmc.stores.urls import Remote
from dmmc.time_limit import NO_LIMIT, TimeLimit


def load(
    source: Any, component: str | None = None, n_jobs: int | None = None, limit: TimeLimit = NO_LIMIT
) -> LoadedMatrix:
    """Read a source of any kind into memory; see `open_dataset`."""
    if isinstance(source, str | os.PathLike | Remote):
        with open_store(source if isinstance(source, Remote) else os.fspath(source)) as node:
            return load_zarr(node, name_store(source), component, n_jobs, limit)
    if comes_from(source, "zarr") and hasattr(source, "store_path"):
        return load_zarr(source, str(source.store_path.store), component, n_jobs, limit)
    if component is not None:
        raise InputError(
            f"component={component!r} names a matrix inside a zarr store, but the source is a "
            f"{type(source).__name__}: leave component out, or give the store."
        )
    if is_dask_array(source):
        return load_dask(source, n_jobs, limit)
    if comes_from(source, "anndata"):
        return _load_anndata(source, n_jobs)
    if (comes_from(source, "pandas") or comes_from(source, "polars")) and hasattr(source, "to_numpy"):
        return _load_frame(source)
    if is_sparse(source):
        name = f"sparse matrix of shape {source.shape}"
        return LoadedMatrix(name, to_csr(source, name))
    array = to_array(source)
    name = f"array of shape {array.shape}"
    check_shape(array.shape, name)
    return LoadedMatrix(name, np.ascontiguousarray(as_numbers(array, name)))


def _load_frame(frame: Any) -> LoadedMatrix:
    """Read a frame of pandas or polars."""
    name = f"{type(frame).__name__} of shape {frame.shape}"
    check_shape(frame.shape, name)
    dtypes = list(frame.dtypes)
    # pandas offers `sparse` where all columns are; unless they leave out zeros they are dense to us
    if hasattr(frame, "sparse") and all(dtype.fill_value == 0 for dtype in dtypes):
        rows: NDArray[Any] | Csr = to_csr(frame.sparse.to_coo(), name)
    else:
        values = frame.to_numpy()
        if values.dtype == object and all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes):
            # pandas gives objects for its nullable numbers and for numbers mixed with booleans
            values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        rows = np.ascontiguousarray(as_numbers(values, name))
    names = tuple(frame.columns)
    feature_names = names if all(isinstance(column, str) for column in names) else None
    index = getattr(frame, "index", None)
    row_ids = None if index is None or type(index).__name__ == "RangeIndex" else index.to_numpy()
    return LoadedMatrix(name, rows, feature_names, row_ids)


def _load_anndata(adata: Any, n_jobs: int | None) -> LoadedMatrix:
    """Read the X of an AnnData object, in memory or backed."""
    if adata.X is None:
        raise InputError("the AnnData object has no X: a matrix of numbers is wanted.")
    matrix = load(adata.X.to_memory() if hasattr(adata.X, "to_memory") else adata.X, n_jobs=n_jobs)
    names = tuple(str(name) for name in adata.var_names)
    ids = adata.obs_names.to_numpy()
    return matrix._replace(name=f"X of AnnData, {matrix.name}", feature_names=names, row_ids=ids, cells=True)


def _refuse_component(component: str | None) -> None:
    if component is not None:
        raise InputError(
            f"component={component!r} was given for several views: give each as the path of its matrix, such as "
            f"features.zarr/{component}."
        )


def open_dataset(
    source: Any, component: str | None = None, n_jobs: int | None = None, limit: TimeLimit = NO_LIMIT
) -> Dataset:
    """Bring any matrix of numbers into memory, as row blocks.

    Arrays that are already as the kernels want them (C-contiguous, native dtype) are not copied.

    Parameters
    ----------
    source : array-like, sparse matrix, frame, dask array, zarr array or group, AnnData, str or Path
        The matrix, or the path (directory or .zip) or URL of a zarr store. A Dataset is given back as it is. A list of
        these is several views of the same rows.
    component : str, optional
        Path of the matrix inside a zarr group or store.
    n_jobs : int, optional
        How many threads read; all cores by default.
    limit : TimeLimit, optional
        When reading is given up.

    Returns
    -------
    Dataset
        NaN and infinity are not looked for here.

    Raises
    ------
    InputError
        When the source is not a complete matrix of real numbers with at least one row and one column.
    OutOfTime
        When the time is up and there are chunks to read.
    """
    if isinstance(source, Dataset):
        return source
    if isinstance(source, Stored):
        return source.load(n_jobs)
    if are_views(source):
        _refuse_component(component)
        joined = join_views([open_dataset(view, None, n_jobs, limit) for view in source])
        assert isinstance(joined, Dataset)
        return joined
    return cut(load(source, component, n_jobs, limit))


def cut(found: LoadedMatrix) -> Dataset:
    """A matrix in memory as row blocks."""
    rows = found.rows
    if isinstance(rows, Csr):
        bounds = csr_bounds(rows.indptr, rows.data.itemsize)
    else:
        bounds = block_bounds(rows.shape[0], rows.shape[1], rows.itemsize)
    names = {name: value for name, value in found._asdict().items() if name not in ("name", "rows")}
    return cut_into_blocks(found.name, rows, bounds, **names)


def measure_store(source: Any, component: str | None = None) -> int | None:
    """Bytes that the matrix of a zarr store, or those of several views, take in memory, by the metadata alone.

    None where the source is of another kind, or cannot be opened: reading it will say why.
    """
    if are_views(source):
        sizes = [measure_store(view) for view in source]
        known = [size for size in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None
    try:
        if isinstance(source, str | os.PathLike | Remote):
            with open_store(source if isinstance(source, Remote) else os.fspath(source)) as node:
                return _measure_node(node, component)
        is_zarr = comes_from(source, "zarr") and hasattr(source, "store_path")
        return _measure_node(source, component) if is_zarr else None
    except StoreFailed:  # it was asked often enough
        raise
    except Exception:  # whatever is wrong with a store
        return None


def _measure_node(node: Any, component: str | None) -> int:
    found = find_matrix(node, "store", component)
    values = found.node["data"] if found.is_sparse else found.node
    count: int = math.prod(values.shape)
    itemsize = int(memory_dtype(values.dtype, "store").itemsize)
    if found.is_sparse:
        return count * (itemsize + 4) + 8 * read_csr_shape(found.node, "store")[0]
    return count * itemsize


def open_rows(
    source: Any, component: str | None, n_jobs: int | None, compute: Callable[[Sequence[Any]], list[Any]] | None
) -> Rows:
    """Open a matrix that stays in its store or in Dask's graph if it can, else it is read into memory.

    source, component : as of `open_dataset`
    n_jobs : threads that read what has to be read here
    compute : computes Dask's delayed objects on a cluster; without one dask arrays are read into memory
    """
    if isinstance(source, Dataset | Stored):
        return source
    if are_views(source):
        _refuse_component(component)
        return join_views([open_stored(view) or open_dataset(view, None, n_jobs) for view in source])
    stored = open_stored(source, component)
    if stored is not None:
        return stored
    if compute is not None and is_dask_array(source) and component is None:
        return describe_dask(source, compute)
    return open_dataset(source, component, n_jobs)
