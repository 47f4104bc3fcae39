"""Clusters beside a known truth: scores and the table of clusters and classes, for the report."""

import os
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.report import Comparison
from dmmc.results.earlier import read_named_labels
from dmmc.results.metrics import cross, score
from dmmc.stores.urls import Remote


def read_truth(truth: Any) -> tuple[Array, Array | None]:
    """The class of each row, and the rows' ids where a csv has them.

    truth : an array, or the path of a file of labels, as `dmmc score` takes them
    """
    if isinstance(truth, str | os.PathLike):
        return read_named_labels(os.fspath(truth))
    return np.asarray(truth), None


def order_truth(known: tuple[Array, Array | None], ids: Array | None, n_rows: int) -> Array:
    """The class of each row: by ids where both have them, else in the order that it was given.

    ids : (n,) of the rows, if they have any
    """
    classes, class_ids = known
    if class_ids is not None and ids is not None:
        classes = classes[_find_places([str(name) for name in ids], class_ids.tolist())]
    if len(classes) != n_rows:
        raise InputError(f"the truth has {len(classes)} classes, and there are {n_rows} rows: one for each is wanted.")
    return classes


def _find_places(names: list[str], class_ids: list[str]) -> list[int]:
    """Where among the ids of a truth each name is."""
    if names == class_ids:
        return list(range(len(names)))
    place = {name: row for row, name in enumerate(class_ids)}
    if len(place) < len(class_ids):
        twice = next(name for row, name in enumerate(class_ids) if place[name] != row)
        raise InputError(f"the truth has more than one class of row {twice!r}; one for each row is wanted.")
    missing = next((name for name in names if name not in place), None)
    if missing is not None:
        raise InputError(f"the truth has no class of row {missing!r}; one for each row is wanted.")
    return [place[name] for name in names]


def score_files(labels: str | Remote, truth: str | Remote) -> dict[str, float]:
    """Scores of labels beside a truth, both in files; the same rows are wanted, by ids where both have them."""
    (found, ids), known = read_named_labels(labels), read_named_labels(truth)
    classes = order_truth(known, ids, len(found))
    if known[1] is not None and ids is not None and len(known[1]) > len(found):
        labelled = set(ids.tolist())
        more = next(name for name in known[1].tolist() if name not in labelled)
        raise InputError(f"{labels} has no label of row {more!r}, which {truth} has; the same rows are wanted.")
    return score(found, classes)


def compare_with_truth(labels: Array, ids: Array | None, known: tuple[Array, Array | None], k: int) -> Comparison:
    """How k clusters agree with a truth; rows are matched by their ids where both have them.

    labels : (n,) 0 to k - 1, or -1
    ids : (n,) of the rows, if they have any
    """
    classes = order_truth(known, ids, len(labels))
    scores = score(labels, classes)  # says what is wrong with values
    return Comparison(scores, *cross(labels, classes, k))
