"""Every kind of source, read into one matrix in memory.

Each reader ends in a C-contiguous array or in `Csr` rows, with at most a few chunks of the source held
besides. Libraries that a source may come from are imported only when such a source is met.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dmmc.errors import InputError
from dmmc.sources.chunks import load_dask
from dmmc.sources.csr import csr_of
from dmmc.sources.frames import load_anndata, load_frame
from dmmc.sources.loaded import Loaded
from dmmc.sources.numbers import array_of, as_numbers, check_shape, comes_from, is_dask_array, is_sparse
from dmmc.sources.stores import load_path, load_zarr


def load(source: Any, component: str | None = None, n_jobs: int | None = None) -> Loaded:
    """Read a source of any kind; see `dmmc.data.open_dataset`.

    Parameters
    ----------
    source : object
        What the user gave.
    component : str, optional
        Path inside a zarr group or store.
    n_jobs : int, optional
        How many threads read; all cores by default.

    Returns
    -------
    Loaded
        The rows, in memory.
    """
    if isinstance(source, str | os.PathLike):
        return load_path(os.fspath(source), component, n_jobs)
    if comes_from(source, "zarr") and hasattr(source, "store_path"):
        return load_zarr(source, str(source.store_path.store), component, n_jobs)
    if component is not None:
        raise InputError(
            f"component={component!r} names a matrix inside a zarr store, but the source is a "
            f"{type(source).__name__}: leave component out, or give the store."
        )
    if is_dask_array(source):
        return load_dask(source, n_jobs)
    if comes_from(source, "anndata"):
        return load_anndata(source, lambda values: load(values, n_jobs=n_jobs))
    if (comes_from(source, "pandas") or comes_from(source, "polars")) and hasattr(source, "to_numpy"):
        return load_frame(source)
    if is_sparse(source):
        name = f"sparse matrix of shape {source.shape}"
        return Loaded(name, csr_of(source, name))
    array = array_of(source)
    name = f"array of shape {array.shape}"
    check_shape(array.shape, name)
    return Loaded(name, np.ascontiguousarray(as_numbers(array, name)))
