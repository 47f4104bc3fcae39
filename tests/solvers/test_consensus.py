"""The consensus of labellings."""

from __future__ import annotations

from itertools import product

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dmmc.solvers.consensus import find_consensus


def count_partings(labels: np.ndarray, labellings: list[np.ndarray]) -> float:
    """Sum over clusters of squared distances to the mean of their rows' labels, each label a column."""
    rows = np.hstack([np.eye(3)[one] for one in labellings])
    return float(sum(((rows[labels == p] - rows[labels == p].mean(axis=0)) ** 2).sum() for p in np.unique(labels)))


def test_numbers_of_clusters_may_differ_between_labellings() -> None:
    y = np.arange(30) % 3
    labellings = [y, (y + 1) % 3, np.array([2, 0, 1])[y]]
    assert adjusted_rand_score(find_consensus(labellings, 3), y) == 1.0


def test_errors_that_labellings_make_in_other_rows_are_outvoted() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 400)
    noisy = [np.where(rng.random(400) < 0.25, rng.integers(0, 4, 400), y) for _ in range(8)]
    found = adjusted_rand_score(find_consensus(noisy, 4), y)
    assert found > 0.95 > 0.7 > max(adjusted_rand_score(one, y) for one in noisy)


def test_no_labels_of_a_few_rows_are_nearer_to_all_labellings() -> None:
    rng = np.random.default_rng(1)
    labellings = [rng.integers(0, 3, 7) for _ in range(3)]
    lowest = min(count_partings(np.array(labels), labellings) for labels in product(range(3), repeat=7))
    assert abs(count_partings(find_consensus(labellings, 3), labellings) - lowest) < 1e-9


def test_a_row_of_weight_two_counts_as_two_rows() -> None:
    rng = np.random.default_rng(2)
    labellings = [rng.integers(0, 3, 40) for _ in range(4)]
    weight = rng.integers(1, 3, 40)
    again = np.repeat(np.arange(40), weight)
    whole = find_consensus([one[again] for one in labellings], 3)
    assert np.array_equal(find_consensus(labellings, 3, weight.astype(float))[again], whole)
