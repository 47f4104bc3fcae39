"""The medoid of several labellings: a choice among restarts that asks no objective."""

from collections.abc import Sequence

import numpy as np

from dmmc.array_types import Array


def find_medoid(labellings: Sequence[Array], weight: Array | None = None) -> int:
    """Number of the labelling (n,) that agrees most with the others: the highest sum of adjusted Rand indices.

    Labels are whole numbers from 0 on, or truth values. `weight` (n,) is how many rows each stands for, if not for one.
    """
    if len(labellings) < 3:
        return 0
    agree = np.zeros((len(labellings), len(labellings)))
    for i, one in enumerate(labellings):
        for j in range(i):
            agree[i, j] = agree[j, i] = rand_index(one, labellings[j], weight)
    return int(agree.sum(axis=1).argmax())


def rand_index(one: Array, other: Array, weight: Array | None = None) -> float:
    """The adjusted Rand index of two labellings (n,), as scikit-learn has it, but for its checks."""
    n, k = len(one) if weight is None else float(weight.sum()), int(other.max()) + 1
    pairs = (one.astype(np.int64) * k + other, one, other)
    both, first, second = (_count_pairs(labels, weight) for labels in pairs)
    together, apart_in_first, apart_in_second = both - n, second - both, first - both
    apart = n * n - first - second + both
    if apart_in_first == apart_in_second == 0:
        return 1.0
    expected = (together + apart_in_second) * (apart_in_second + apart)
    expected += (together + apart_in_first) * (apart_in_first + apart)
    return 2.0 * (together * apart - apart_in_second * apart_in_first) / expected


def _count_pairs(labels: Array, weight: Array | None) -> float:
    """Ordered pairs of rows with the same label, each row with itself among them."""
    if weight is not None:
        return float((np.bincount(labels, weight) ** 2).sum())
    return int((np.bincount(labels) ** 2).sum())
