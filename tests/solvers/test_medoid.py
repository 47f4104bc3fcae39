"""The medoid of several labellings."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dmmc.solvers.medoid import find_medoid


def test_the_medoid_agrees_most_with_the_others_by_the_adjusted_rand_index() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(4, size=200)
    labellings = []
    for changed in (120, 60, 10, 90, 40):
        labels = truth.copy()
        labels[rng.choice(200, changed, replace=False)] = rng.integers(4, size=changed)
        labellings.append(rng.permutation(4)[labels])
    agree = [sum(adjusted_rand_score(a, b) for b in labellings) for a in labellings]
    assert find_medoid(labellings) == int(np.argmax(agree)) == 2


def test_of_one_or_two_labellings_the_first_is_taken() -> None:
    a, b = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert find_medoid([a]) == find_medoid([a, b]) == 0
