"""How well labels agree with a known truth."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import InputError

__all__ = ["cross", "score"]

_MAX_CELLS = 1 << 26  # 512 MB of counts; more means that one side is not a column of classes


def score(labels: Any, truth: Any) -> dict[str, float]:
    """How well cluster labels agree with a known truth.

    Parameters
    ----------
    labels, truth : array-like, zarr array or dask array of shape (n,)
        Numbers or strings; what clusters and classes are called does not matter. Both are read into memory.

    Returns
    -------
    dict
        Fractions: ``purity_error``, the rows outside the majority class of their cluster; ``accuracy``, the
        rows that agree under the best one-to-one matching of clusters and classes; ``nmi``, mutual
        information over the arithmetic mean of the entropies; ``ari``, the adjusted Rand index.

    Raises
    ------
    InputError
        If there are no rows, lengths differ, a value is missing, or an input is not one-dimensional.
    """
    from scipy.optimize import linear_sum_assignment
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
    from sklearn.metrics.cluster import contingency_matrix

    columns = _read_column(labels, "labels"), _read_column(truth, "truth")
    n, n_truth = (len(column) for column in columns)
    if n != n_truth:
        raise InputError(f"labels hold {n} rows and truth {n_truth}: the same rows are wanted, in the same order.")
    if n == 0:
        raise InputError("There is nothing to score: labels and truth hold 0 rows, at least 1 is wanted.")
    n_labels, clusters = _number_values(columns[0], "labels")
    n_classes, classes = _number_values(columns[1], "truth")
    if n_labels * n_classes > _MAX_CELLS:
        raise InputError(
            f"labels hold {n_labels} different values and truth {n_classes}: clusters and classes are "
            "wanted, not row numbers or measurements."
        )
    counts = contingency_matrix(clusters, classes)
    matched = linear_sum_assignment(counts, maximize=True)
    return {
        "purity_error": 1.0 - int(counts.max(axis=1).sum()) / n,
        "accuracy": int(counts[matched].sum()) / n,
        "nmi": float(normalized_mutual_info_score(classes, clusters)),
        "ari": float(adjusted_rand_score(classes, clusters)),
    }


def cross(labels: Any, truth: Any, k: int) -> tuple[list[str], NDArray[Any]]:
    """Classes of a known truth, by their names, and the rows (k, classes) that each cluster has of each.

    labels : (n,) 0 to k - 1; rows with -1 are counted nowhere
    """
    classes, numbers = np.unique(_read_column(truth, "truth").astype(str), return_inverse=True)
    counts = np.zeros((k, len(classes)), np.int64)
    own = labels >= 0
    np.add.at(counts, (labels[own], numbers[own]), 1)
    return classes.tolist(), counts


def _read_column(values: Any, name: str) -> NDArray[Any]:
    """Read one column as a numpy array; no value is turned into one of another kind on the way."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise InputError(f"{name} has masked rows: a value for every row is wanted.")
    try:
        column = np.asarray(values)
        if isinstance(values, list | tuple) and column.dtype.kind in "US":
            column = np.asarray(values, dtype=object)  # numpy would write None and NaN as words
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} cannot be read as one column of numbers or strings: {problem}.") from problem
    if column.ndim != 1:
        raise InputError(f"{name} has shape {column.shape}: one column is wanted, shape (n,).")
    return column


def _number_values(column: NDArray[Any], name: str) -> tuple[int, NDArray[np.intp]]:
    """Number the different values of a column; gives how many there are, and the number of each row's value."""
    if column.dtype.kind not in "biufUS":
        values = column.tolist()
        for row, value in enumerate(values):
            if not isinstance(value, str | bytes | int | float | np.integer | np.floating) or value != value:
                raise InputError(_describe_missing(name, row, repr(value)))
        numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
        return len(numbers), np.fromiter(map(numbers.__getitem__, values), np.intp, len(values))
    if column.dtype.kind == "f" and (missing := np.isnan(column)).any():
        raise InputError(_describe_missing(name, int(missing.argmax()), "NaN"))
    found, codes = np.unique(column, return_inverse=True)
    return len(found), codes


def _describe_missing(name: str, row: int, value: str) -> str:
    return f"{name} holds {value} in row {row}: a number or a string is wanted in every row."
