"""Groups of rows joined along the graph until k are left.

Of all pairs the one is joined whose edges exceed most what they would be if edges fell at random, measured against the
pair's size: `(W_ij / D - d_i d_j / D^2) / sqrt(d_i d_j)`, with W the weight between two groups, d a group's degree and
D that of all rows. The plain average linkage `W_ij / (d_i d_j)` leaves tiny groups to the end; the gain in modularity
alone joins the large ones first. Between them, this one does neither.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[Any]


class Merged(NamedTuple):
    """What joining came to."""

    labels: Array
    """(n,) numbers of the clusters, 0 to k - 1."""
    tree: Array
    """(groups - 1, 3): which two were joined, and how strong their link was; all the way to one, as evidence for k."""


def merge(A: Any, groups: Array, k: int) -> Merged:
    """Join groups of rows along a graph.

    Parameters
    ----------
    A : sparse (n, n), the graph
    groups : (n,) number of each row's group
    k : how many clusters to leave; the tree goes on to one
    """
    _, P = np.unique(groups, return_inverse=True)
    n, g = len(P), int(P.max()) + 1
    member = sparse.csr_array((np.ones(n), (np.arange(n), P)), shape=(n, g))
    W = (member.T @ A @ member).toarray()
    W = 0.5 * (W + W.T)
    degree = W.sum(axis=1)
    total = degree.sum()
    owner, alive = np.arange(g), np.ones(g, bool)
    labels, tree = owner[P], []
    for left in range(g, 1, -1):
        if left == k:
            labels = owner[P]
        i, j, link = _strongest(W, degree, total, alive)
        W[i] += W[j]
        W[:, i] += W[:, j]
        degree[i] += degree[j]
        alive[j] = False
        owner[owner == j] = i
        tree.append((i, j, link))
    return Merged(np.unique(labels, return_inverse=True)[1], np.array(tree, np.float64).reshape(-1, 3))


def _strongest(W: Array, degree: Array, total: float, alive: Array) -> tuple[int, int, float]:
    here = np.flatnonzero(alive)
    d = degree[here]
    root = np.sqrt(np.maximum(d, 1e-300))
    link = (W[np.ix_(here, here)] / total - np.outer(d, d) / total**2) / np.outer(root, root)
    link[np.tril_indices(len(here))] = -np.inf
    a, b = np.unravel_index(int(link.argmax()), link.shape)
    return int(here[a]), int(here[b]), float(link[a, b])
