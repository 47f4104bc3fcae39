"""Clusters beside a known truth: scores and the table of clusters and classes, for the report."""

import os
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.report import Comparison
from dmmc.results.label_arrays import read_ids, read_labels
from dmmc.results.metrics import cross, score


def read_truth(truth: Any) -> tuple[Array, list[str] | None]:
    """The class of each row, and the rows' ids where a csv has them.

    truth : an array, or the path of a file of labels, as `dmmc score` takes them
    """
    if isinstance(truth, str | os.PathLike):
        path = os.fspath(truth)
        return read_labels(path), read_ids(path)
    return np.asarray(truth), None


def order_truth(known: tuple[Array, list[str] | None], ids: Array | None, n_rows: int) -> Array:
    """The class of each row: by ids where both have them, else in the order that it was given.

    ids : (n,) of the rows, if they have any
    """
    classes, class_ids = known
    if class_ids is not None and ids is not None:
        place = {name: row for row, name in enumerate(class_ids)}
        names = [str(name) for name in ids]
        missing = next((name for name in names if name not in place), None)
        if missing is not None:
            raise InputError(f"the truth has no class of row {missing!r}; one for each row is wanted.")
        classes = classes[[place[name] for name in names]]
    if len(classes) != n_rows:
        raise InputError(f"the truth has {len(classes)} classes, and there are {n_rows} rows: one for each is wanted.")
    return classes


def compare_with_truth(labels: Array, ids: Array | None, known: tuple[Array, list[str] | None], k: int) -> Comparison:
    """How k clusters agree with a truth; rows are matched by their ids where both have them.

    labels : (n,) 0 to k - 1, or -1
    ids : (n,) of the rows, if they have any
    """
    classes = order_truth(known, ids, len(labels))
    scores = score(labels, classes)  # says what is wrong with values
    return Comparison(scores, *cross(labels, classes, k))
