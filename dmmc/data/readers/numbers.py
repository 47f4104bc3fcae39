"""What a matrix must be: a rectangle of real numbers, held in one of a few dtypes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import InputError, InputTypeError


def comes_from(source: object, library: str) -> bool:
    """Whether a source is of a class of this library, or derived from one, without importing the library."""
    return any(cls.__module__.partition(".")[0] == library for cls in type(source).__mro__)


def is_dask_array(source: object) -> bool:
    """Whether a source is a dask array, found out without importing dask."""
    return comes_from(source, "dask") and hasattr(source, "to_delayed") and hasattr(source, "chunks")


def is_sparse(source: object) -> bool:
    """Whether a source is a sparse matrix of scipy or of `sparse`."""
    return (comes_from(source, "scipy") or comes_from(source, "sparse")) and hasattr(source, "nnz")


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse what is not rows by features, in the words scikit-learn's users know."""
    if len(shape) < 2:
        what = "1D" if shape else "scalar"
        raise InputError(
            f"Expected 2D array, got {what} array instead: {name}. Reshape your data with "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) for a single sample."
        )
    if len(shape) > 2:
        raise InputError(
            f"Found array with dim {len(shape)}. One row per sample and one column per feature is wanted, "
            f"expected <= 2 dimensions, and {name} was given."
        )
    for size, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            found = f"Found array with 0 {what} (shape=({shape[0]}, {shape[1]}))"
            raise InputError(f"{found} while a minimum of 1 is required.")


def memory_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Say in which dtype numbers of `dtype` are held in memory, or that they are not real numbers."""
    if dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} is of dtype {dtype}, real numbers are wanted.")
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "O":
        return np.dtype(np.float64)
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    if dtype.kind not in "fiu":
        held = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations"}.get(dtype.kind, "records")
        raise InputError(f"{name} holds {held} (dtype {dtype}): convert it to a numeric dtype first.")
    return dtype.newbyteorder("=")


def as_numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Give an array in its `memory_dtype`: itself, or a view, wherever that is possible."""
    dtype = memory_dtype(array.dtype, name)
    if array.dtype.kind == "b":
        return array.view(dtype)
    if array.dtype.kind != "O":
        return array.astype(dtype, copy=False)
    try:
        return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise _not_a_number(array, name) from error


def _not_a_number(array: NDArray[Any], name: str) -> InputError:
    for place, value in np.ndenumerate(array):
        try:
            float(value)
        except TypeError as error:
            return InputTypeError(f"{name} has something else than a number at {list(place)}: {error}.")
        except ValueError:
            return InputError(f"{name} has {value!r} at {list(place)}: numbers are wanted.")
    return InputError(f"{name} of dtype object could not be converted to numbers.")


def to_array(source: Any) -> NDArray[Any]:
    """Convert anything array-like to a plain array; refuse masks and `np.matrix`, which numpy would drop silently."""
    if isinstance(source, np.matrix):
        raise InputTypeError("np.matrix is not supported: convert it to an array with np.asarray.")
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise InputError(f"masked array of shape {source.shape} has masked values: fill or drop them first.")
    try:
        return np.asarray(source)
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(source).__name__} cannot be read as a matrix of numbers: {error}") from error


def name_rows(start: int, stop: int) -> str:
    """Words for rows start to stop - 1 in a message."""
    return f"row {start}" if stop == start + 1 else f"rows {start} to {stop - 1}"
