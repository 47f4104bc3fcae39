"""Counts and first rows of labels, part by part."""

from __future__ import annotations

import numpy as np
import pytest

from dmmc.model import label_counts


def test_counts_and_first_rows_are_those_of_numpy_on_all_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_counts, "AT_ONCE", 7)
    labels = np.random.default_rng(0).integers(0, 9, 100).astype(np.int32)
    labels[labels == 4] = 5
    present, where = np.unique(labels, return_index=True)
    first = label_counts.find_first(labels, 10)
    assert (label_counts.count_labels(labels, 10) == np.bincount(labels, minlength=10)).all()
    assert (first[present] == where).all()
    assert first[4] == first[9] == 100


def test_rows_of_no_cluster_are_not_counted() -> None:
    assert label_counts.count_labels(np.array([0, -1, 2, -1, 2]), 3).tolist() == [1, 0, 2]
