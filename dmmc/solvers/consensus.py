"""The consensus of several labellings: rows that most of them put together are together."""

from collections.abc import Sequence

import numpy as np
from scipy import sparse

from dmmc.array_types import Array
from dmmc.features.kmeans import fit_kmeans

TRIES = 10


def find_consensus(labellings: Sequence[Array], n_clusters: int, weight: Array | None = None) -> Array:
    """Labels (n,): k-means of the rows' labels in all labellings (n,), each label a column that is 0 or 1 (E39).

    The squared distance of two rows is twice the number of labellings that part them. Rows whose labels are all the
    same are one row of their joint weight; the lowest sum of squares of a few starts is taken.
    """
    patterns, which = np.unique(np.stack(labellings, axis=1), axis=0, return_inverse=True)
    which = which.ravel()
    m, r = patterns.shape
    columns = (patterns + n_clusters * np.arange(r)).astype(np.int32)  # scikit-learn takes no larger ones
    shape = (m, n_clusters * r)
    rows = sparse.csr_array((np.ones(m * r), columns.ravel(), np.arange(0, m * r + 1, r, dtype=np.int32)), shape=shape)
    total = np.bincount(which, weight, minlength=m)
    fits = [fit_kmeans(rows, min(n_clusters, m), seed, weight=total) for seed in range(TRIES)]
    best = min(fits, key=lambda fit: fit.inertia_)
    return np.asarray(best.labels_[which], np.int64)
