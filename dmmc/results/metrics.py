"""How well labels agree with a known truth, from counts that add.

Every score here is a function of the contingency table alone, and the table is the sum of the tables of any
row blocks: labels of any length are scored in the memory of one block, wherever they are stored.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dmmc.errors import InputError

__all__ = ["Contingency", "contingency", "score"]

_BLOCK_ROWS = 1 << 20
_MAX_CELLS = 1 << 26  # 512 MB of counts; more means that one side is not a column of classes


def score(labels: Any, truth: Any) -> dict[str, float]:
    """How well cluster labels agree with a known truth.

    Parameters
    ----------
    labels, truth : array-like, zarr array or dask array of shape (n,)
        Numbers or strings; what clusters and classes are called does not matter. Arrays that are not in
        memory are read block by block.

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
    return contingency(labels, truth).score()


def contingency(labels: Any, truth: Any) -> Contingency:
    """Counts of rows for each pair of a label and a true class.

    Parameters
    ----------
    labels, truth : array-like, zarr array or dask array of shape (n,)
        Numbers or strings.

    Returns
    -------
    Contingency
        The counts over all rows.
    """
    labels, truth = _open(labels, "labels"), _open(truth, "truth")
    n_labels, n_truth = labels.shape[0], truth.shape[0]
    if n_labels != n_truth and not np.isnan([n_labels, n_truth]).any():  # dask writes an unknown length as nan
        raise InputError(_lengths_differ(n_labels, n_truth))
    total = Contingency()
    for labels_block, truth_block in _side_by_side(_blocks(labels), _blocks(truth)):
        total.update(labels_block, truth_block)
    return total


class Contingency:
    """A contingency table that grows: counts of rows by (label, true class).

    Blocks of rows are added with `update`, whole tables with `merge`; the result does not depend on how rows
    were cut into blocks.
    """

    def __init__(self) -> None:
        self._labels: dict[Hashable, int] = {}
        self._classes: dict[Hashable, int] = {}
        self._counts: NDArray[np.int64] = np.zeros((0, 0), dtype=np.int64)
        self._rows_seen = 0

    @property
    def labels(self) -> list[Hashable]:
        """Values of the labels, in the order of the table's rows."""
        return list(self._labels)

    @property
    def classes(self) -> list[Hashable]:
        """Values of the truth, in the order of the table's columns."""
        return list(self._classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Table of counts, one row per label and one column per class (a copy)."""
        return self._counts.copy()

    @property
    def n(self) -> int:
        """Number of rows counted so far."""
        return self._rows_seen

    def update(self, labels: Any, truth: Any) -> Contingency:
        """Count one block of rows.

        Parameters
        ----------
        labels, truth : array-like of shape (m,)
            The same rows, in memory.

        Returns
        -------
        Contingency
            This table.
        """
        labels_block, truth_block = _column(labels, "labels"), _column(truth, "truth")
        if len(labels_block) != len(truth_block):
            raise InputError(_lengths_differ(len(labels_block), len(truth_block)))
        if not len(labels_block):
            return self
        label_values, label_codes = _encode(labels_block, "labels", self.n)
        class_values, class_codes = _encode(truth_block, "truth", self.n)
        pairs, counts = _count_pairs(label_codes, class_codes, len(label_values), len(class_values))
        rows, columns = np.divmod(pairs, len(class_values))
        self._add(label_values, class_values, rows, columns, counts)
        return self

    def merge(self, other: Contingency) -> Contingency:
        """Add the counts of another table.

        Parameters
        ----------
        other : Contingency
            Counts of other rows.

        Returns
        -------
        Contingency
            This table.
        """
        rows, columns = np.nonzero(other._counts)
        self._add(other.labels, other.classes, rows, columns, other._counts[rows, columns])
        return self

    def score(self) -> dict[str, float]:
        """Purity error, matched accuracy, NMI and ARI of the rows counted so far.

        Returns
        -------
        dict
            As `dmmc.score` returns it.
        """
        if self.n == 0:
            raise InputError("There is nothing to score: labels and truth hold 0 rows, at least 1 is wanted.")
        return {
            "purity_error": 1.0 - int(self._counts.max(axis=1).sum()) / self.n,
            "accuracy": _matched(self._counts) / self.n,
            "nmi": _nmi(self._counts),
            "ari": _ari(self._counts),
        }

    def _add(
        self,
        label_values: Sequence[Any],
        class_values: Sequence[Any],
        rows: NDArray[np.intp],
        columns: NDArray[np.intp],
        counts: NDArray[np.int64],
    ) -> None:
        """Add counts at (rows, columns), which are positions in the given lists of values."""
        label_at = _positions(self._labels, label_values, rows)
        class_at = _positions(self._classes, class_values, columns)
        shape = len(self._labels), len(self._classes)
        if shape[0] * shape[1] > _MAX_CELLS:
            raise InputError(
                f"labels hold {shape[0]} different values and truth {shape[1]}: clusters and classes are "
                "wanted, not row numbers or measurements."
            )
        if shape != self._counts.shape:
            grown = np.zeros(shape, dtype=np.int64)
            grown[: self._counts.shape[0], : self._counts.shape[1]] = self._counts
            self._counts = grown
        np.add.at(self._counts, (label_at[rows], class_at[columns]), counts)
        self._rows_seen += int(counts.sum())


def _positions(known: dict[Hashable, int], values: Sequence[Any], used: NDArray[np.intp]) -> NDArray[np.intp]:
    """Position in the table of each of `values` that is used; new ones go to the end of `known`."""
    at = np.zeros(len(values), dtype=np.intp)
    for i in np.unique(used):
        at[i] = known.setdefault(values[i], len(known))
    return at


# --- the scores, from the table


def _matched(counts: NDArray[np.int64]) -> int:
    """Rows that agree under the best one-to-one matching of clusters and classes."""
    rows, columns = linear_sum_assignment(counts, maximize=True)
    return int(counts[rows, columns].sum())


def _nmi(counts: NDArray[np.int64]) -> float:
    """Mutual information over the mean of the two entropies; 1 where neither side splits the rows."""
    if counts.shape == (1, 1):
        return 1.0
    n = int(counts.sum())
    by_label, by_class = counts.sum(axis=1) / n, counts.sum(axis=0) / n
    rows, columns = np.nonzero(counts)
    joint = counts[rows, columns] / n
    information = float(joint @ (np.log(joint) - np.log(by_label[rows]) - np.log(by_class[columns])))
    if information <= np.finfo(np.float64).eps:  # independent, up to rounding
        return 0.0
    mean_entropy = -float(by_label @ np.log(by_label) + by_class @ np.log(by_class)) / 2
    return min(1.0, information / mean_entropy)


def _ari(counts: NDArray[np.int64]) -> float:
    """Rand index, adjusted for chance, in whole numbers of pairs (Python's, which do not overflow)."""
    together: int = sum(c * (c - 1) for c in counts[counts > 0].tolist())
    by_label: int = sum(c * (c - 1) for c in counts.sum(axis=1).tolist())
    by_class: int = sum(c * (c - 1) for c in counts.sum(axis=0).tolist())
    n = int(counts.sum())
    pairs = n * (n - 1)
    if by_label == together == by_class:
        return 1.0
    by_chance = by_label * by_class
    # (together - by_chance / pairs) / ((by_label + by_class) / 2 - by_chance / pairs), without a division
    return 2 * (together * pairs - by_chance) / ((by_label + by_class) * pairs - 2 * by_chance)


# --- reading the two columns


def _lengths_differ(n_labels: int, n_truth: int) -> str:
    return f"labels hold {n_labels} rows and truth {n_truth}: the same rows are wanted, in the same order."


def _open(source: Any, name: str) -> Any:
    """The source itself if it is a column in chunks (dask, zarr), else the column as a numpy array."""
    chunks = None if isinstance(source, np.ndarray) else getattr(source, "chunks", None)
    if not (isinstance(chunks, tuple) and chunks and hasattr(source, "shape")):
        return _column(source, name)
    if len(source.shape) != 1:
        raise InputError(_not_a_column(name, tuple(source.shape)))
    return source


def _not_a_column(name: str, shape: tuple[int, ...]) -> str:
    return f"{name} has shape {shape}: one column is wanted, shape (n,)."


def _blocks(source: Any) -> Iterator[NDArray[Any]]:
    """The rows of an opened source in blocks of numpy arrays, in order."""
    if hasattr(source, "compute"):  # dask
        yield from _dask_blocks(source)
        return
    chunks = getattr(source, "shards", None) or getattr(source, "chunks", None)
    chunk_rows = int(chunks[0]) if chunks else _BLOCK_ROWS
    step = max(1, _BLOCK_ROWS // chunk_rows) * chunk_rows  # whole chunks, each read once
    for start in range(0, source.shape[0], step):
        yield np.asarray(source[start : start + step])


def _dask_blocks(source: Any) -> Iterator[NDArray[Any]]:
    """Runs of dask chunks, each computed once: a block's rows, or one chunk where lengths are unknown."""
    sizes = source.chunks[0]
    first = 0
    while first < len(sizes):
        last, rows = first + 1, sizes[first]
        while last < len(sizes) and rows + sizes[last] <= _BLOCK_ROWS:  # false for nan
            rows += sizes[last]
            last += 1
        yield np.asarray(source.blocks[first:last].compute())
        first = last


def _side_by_side(
    labels: Iterator[NDArray[Any]], truth: Iterator[NDArray[Any]]
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Blocks of the same rows from two sources that are cut differently."""
    done = 0
    left, right = next(labels, None), next(truth, None)
    while left is not None and right is not None:
        m = min(len(left), len(right))
        yield left[:m], right[:m]
        done += m
        left, right = left[m:], right[m:]
        if not len(left):
            left = next(labels, None)
        if not len(right):
            right = next(truth, None)
    n_labels = done + sum(map(len, chain(() if left is None else (left,), labels)))
    n_truth = done + sum(map(len, chain(() if right is None else (right,), truth)))
    if n_labels != n_truth:
        raise InputError(_lengths_differ(n_labels, n_truth))


def _column(values: Any, name: str) -> NDArray[Any]:
    """One column as a numpy array; nothing is turned into another kind of value on the way."""
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise InputError(f"{name} has masked rows: a value for every row is wanted.")
    try:
        column = np.asarray(values)
        if isinstance(values, list | tuple) and column.dtype.kind in "US":
            column = np.asarray(values, dtype=object)  # numpy would write None and NaN as words
    except (TypeError, ValueError) as problem:
        raise InputError(f"{name} cannot be read as one column of numbers or strings: {problem}.") from problem
    if column.ndim != 1:
        raise InputError(_not_a_column(name, column.shape))
    return column


def _encode(column: NDArray[Any], name: str, first_row: int) -> tuple[Sequence[Any], NDArray[np.intp]]:
    """The different values of a column, and the position of each row's value among them."""
    kind = column.dtype.kind
    if kind == "b":
        return [False, True], column.astype(np.intp)
    if kind in "iu":
        low, high = int(column.min()), int(column.max())
        if high - low < _BLOCK_ROWS and high <= np.iinfo(np.intp).max:
            return range(low, high + 1), column.astype(np.intp) - low
    elif kind == "f":
        missing = np.isnan(column)
        if missing.any():
            raise InputError(_missing(name, first_row + int(missing.argmax()), "NaN"))
    elif kind not in "US":
        return _encode_objects(column, name, first_row)
    values, codes = np.unique(column, return_inverse=True)
    return values.tolist(), codes.astype(np.intp, copy=False)


def _encode_objects(column: NDArray[Any], name: str, first_row: int) -> tuple[Sequence[Any], NDArray[np.intp]]:
    """As `_encode`, for Python objects: strings and numbers, each value looked at."""
    position: dict[Hashable, int] = {}
    codes = np.empty(len(column), dtype=np.intp)
    for i, value in enumerate(column.tolist()):
        if not isinstance(value, str | bytes | int | float | np.integer | np.floating) or value != value:
            raise InputError(_missing(name, first_row + i, repr(value)))
        codes[i] = position.setdefault(value, len(position))
    return list(position), codes


def _missing(name: str, row: int, value: str) -> str:
    return f"{name} holds {value} in row {row}: a number or a string is wanted in every row."


def _count_pairs(
    labels: NDArray[np.intp], classes: NDArray[np.intp], n_labels: int, n_classes: int
) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Codes ``label * n_classes + class`` that occur, and how often."""
    pairs = labels * n_classes + classes
    if n_labels * n_classes <= max(_BLOCK_ROWS, len(pairs)):
        table = np.bincount(pairs, minlength=n_labels * n_classes)
        found = np.flatnonzero(table)
        return found, table[found]
    found, counts = np.unique(pairs, return_counts=True)
    return found, counts
