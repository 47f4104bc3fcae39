"""How many rows have each label, and which is the first, without copies as long as the labels."""

import numpy as np

from dmmc.array_types import Array

AT_ONCE = 2**20
"""Rows at a time: numpy counts in copies of eight bytes a row."""


def count_labels(labels: Array, k: int) -> Array:
    """Rows (k,) of each label 0 to k - 1; labels below 0 are of no cluster."""
    counts = np.zeros(k, np.int64)
    for start in range(0, len(labels), AT_ONCE):
        part = labels[start : start + AT_ONCE]
        counts += np.bincount(part[part >= 0], minlength=k)
    return counts


def find_first(labels: Array, k: int) -> Array:
    """Number (k,) of the first row with each label 0 to k - 1; the number of rows where none has it."""
    first = np.full(k, len(labels))
    for start in range(0, len(labels), AT_ONCE):
        present, where = np.unique(labels[start : start + AT_ONCE], return_index=True)
        first[present] = np.minimum(first[present], start + where)
    return first
