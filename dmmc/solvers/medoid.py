"""The medoid of several labellings: a choice among restarts that asks no objective."""

from collections.abc import Sequence

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dmmc.array_types import Array


def find_medoid(labellings: Sequence[Array]) -> int:
    """Number of the labelling (n,) that agrees most with the others: the highest sum of adjusted Rand indices."""
    if len(labellings) < 3:
        return 0
    agree = np.zeros((len(labellings), len(labellings)))
    for i, one in enumerate(labellings):
        for j in range(i):
            agree[i, j] = agree[j, i] = adjusted_rand_score(one, labellings[j])
    return int(agree.sum(axis=1).argmax())
