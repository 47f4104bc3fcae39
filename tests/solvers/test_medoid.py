"""The medoid of several labellings."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dmmc.solvers.medoid import find_medoid, rand_index


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


@pytest.mark.parametrize("seed", range(20))
def test_the_rand_index_has_the_bits_of_scikit_learns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 300))
    one, other = (rng.integers(rng.integers(1, 9), size=n).astype(np.int32) for _ in range(2))
    mixed = np.where(rng.random(n) < 0.8, one, other)
    for a, b in ((one, other), (one, mixed), (mixed, one), (one, one), (one > 1, mixed > 1)):
        assert rand_index(a, b) == adjusted_rand_score(a, b)


def test_of_one_or_two_labellings_the_first_is_taken() -> None:
    a, b = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert find_medoid([a]) == find_medoid([a, b]) == 0


def test_the_weight_of_a_row_counts_as_so_many_rows() -> None:
    rng = np.random.default_rng(0)
    weight = rng.integers(0, 4, 80)
    labellings = [rng.integers(3, size=80) for _ in range(4)]
    repeated = [np.repeat(labels, weight) for labels in labellings]
    for one, other in pairwise(labellings):
        wanted = adjusted_rand_score(np.repeat(one, weight), np.repeat(other, weight))
        assert rand_index(one, other, weight.astype(float)) == pytest.approx(wanted, abs=1e-12)
    assert find_medoid(labellings, weight.astype(float)) == find_medoid(repeated)
