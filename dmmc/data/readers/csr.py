"""Sparse rows: any sparse matrix as CSR with sorted columns, none twice."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr, csr_bounds
from dmmc.data.readers.numbers import as_numbers, check_shape, memory_dtype
from dmmc.errors import InputError

COLUMNS_OF_INT32 = 2**31 - 1


def to_csr(matrix: Any, name: str) -> Csr:
    """Convert a sparse matrix of scipy or `sparse` to rows with sorted columns; no copy where it has them already."""
    check_shape(matrix.shape, name)
    dtype = memory_dtype(matrix.dtype, name)
    if matrix.dtype != dtype and matrix.dtype.kind != "b":
        try:
            matrix = matrix.astype(dtype)
        except (TypeError, ValueError) as error:
            raise InputError(f"{name} of dtype {matrix.dtype} cannot be converted to {dtype}: {error}") from error
    if hasattr(matrix, "to_scipy_sparse"):
        try:
            matrix = matrix.to_scipy_sparse()
        except ValueError as error:
            raise InputError(f"{name} cannot be read as sparse rows: {error}") from error
    if matrix.format != "csr":
        matrix = matrix.tocsr()
    # scipy lets the arrays be longer than what indptr says is in use
    used = slice(0, int(matrix.indptr[-1])) if len(matrix.indptr) else slice(None)
    indptr = check_indptr(matrix.indptr, matrix.shape[0], name)
    indices = narrow_columns(matrix.indices[used], matrix.shape[1], indptr, 0, name)
    data = as_numbers(matrix.data[used], name)
    return sort_rows(check_lengths(Csr(data, indices, indptr, matrix.shape[1]), name))


def check_indptr(indptr: NDArray[Any], n_rows: int, name: str) -> NDArray[np.int64]:
    """Refuse an indptr that does not start at 0 or falls; gives it as int64."""
    if indptr.ndim != 1 or len(indptr) != n_rows + 1:
        raise InputError(
            f"{name}: indptr of shape {indptr.shape} does not fit {n_rows} rows, ({n_rows + 1},) is wanted."
        )
    starts = indptr.astype(np.int64, copy=False)
    if starts[0] != 0:
        raise InputError(f"{name}: indptr begins with {starts[0]}, 0 is wanted.")
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        raise InputError(f"{name}: indptr falls at row {falls[0]}, it must never decrease.")
    return starts


def check_lengths(csr: Csr, name: str) -> Csr:
    """Refuse rows that do not have as many values as columns, and as indptr says; gives the same rows."""
    if not len(csr.data) == len(csr.indices) == csr.indptr[-1]:
        raise InputError(
            f"{name}: data, indices and the end of indptr disagree on the number of values: {len(csr.data)}, "
            f"{len(csr.indices)}, {csr.indptr[-1]}."
        )
    return csr


def narrow_columns(
    indices: NDArray[Any], n_features: int, indptr: NDArray[np.int64], offset: int, name: str
) -> NDArray[Any]:
    """Check column numbers; give them as uint32 if int32 can hold them all. The first is that of value `offset`."""
    if indices.dtype.kind not in "iu":
        raise InputError(f"{name}: indices of dtype {indices.dtype} cannot be column numbers, integers are wanted.")
    # seen as unsigned, a negative number is too large as well
    columns = indices.view(indices.dtype.str.replace("i", "u"))
    if len(columns) and columns.max() >= n_features:
        worst = int(np.argmax(columns >= n_features))
        row = int(np.searchsorted(indptr, offset + worst, side="right")) - 1
        raise InputError(f"{name}: row {row} has column {indices[worst]}, but there are {n_features} columns.")
    return columns.astype(np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64, copy=False)


def sort_rows(csr: Csr) -> Csr:
    """Sort the columns of each row and add up values of the same column; no copy where there is nothing to do."""
    # in bands, as scipy would copy the columns of a matrix of more than 2**31 values
    bounds = csr_bounds(csr.indptr, csr.data.itemsize).tolist()
    bands = [csr.cut(a, b).to_scipy() for a, b in pairwise(bounds)]
    if all(band.has_canonical_format for band in bands):
        return csr
    tidy = [band.copy() for band in bands]
    for band in tidy:
        band.sum_duplicates()
    return stack(tidy)


def stack(bands: list[Any]) -> Csr:
    """One matrix of bands of scipy CSR rows; takes them out of the list one by one to free them."""
    n_features = bands[0].shape[1]
    counts = np.concatenate([np.diff(band.indptr) for band in bands])
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    data = np.empty(indptr[-1], bands[0].dtype)
    indices = np.empty(indptr[-1], np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64)
    start = 0
    bands.reverse()
    while bands:
        band = bands.pop()
        stop = start + band.nnz
        data[start:stop], indices[start:stop] = band.data, band.indices
        start = stop
    return Csr(data, indices, indptr, n_features)
