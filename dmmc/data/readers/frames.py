"""Frames of pandas and polars, and AnnData objects."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.readers.csr import to_csr
from dmmc.data.readers.loaded import LoadedMatrix
from dmmc.data.readers.numbers import as_numbers, check_shape
from dmmc.errors import InputError


def load_frame(frame: Any) -> LoadedMatrix:
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


def load_anndata(adata: Any, load: Callable[[Any], LoadedMatrix]) -> LoadedMatrix:
    """Read the X of an AnnData object, in memory or backed."""
    if adata.X is None:
        raise InputError("the AnnData object has no X: a matrix of numbers is wanted.")
    values = adata.X.to_memory() if hasattr(adata.X, "to_memory") else adata.X
    matrix = load(values)
    names = tuple(str(name) for name in adata.var_names)
    return matrix._replace(name=f"X of AnnData, {matrix.name}", feature_names=names, row_ids=adata.obs_names.to_numpy())
