"""Groups of rows joined along the graph until k are left.

Whom to join first is a question of taste: by the average weight between two groups, small ones stay alone to the end;
where small ones are favoured, or clusters of one size, a large cluster may be cut. So groups are joined by three rules
to three clusterings. Of those whose normalised cut is near the lowest, the one with the most even sizes is taken: sizes
decide only where the graph does not.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dmmc.array_types import Array

Linkage = Callable[[Array, Array, float], Array]
"""Weights between groups, their degrees and the sum of these, to how strongly each two are linked."""

NEAR = 1.5
"""A normalised cut up to this many times the lowest counts as near it."""


def average(W: Array, d: Array, total: float) -> Array:
    """Weight between two groups against what it would be if edges fell at random: `W_ij / (d_i d_j)`."""
    return np.asarray(W / np.outer(d, d))


def small_first(W: Array, d: Array, total: float) -> Array:
    """The same, more if a group is small: times `(1 / d_i + 1 / d_j)^1/2`."""
    return np.asarray(average(W, d, total) * np.sqrt(1.0 / d[:, None] + 1.0 / d))


def even(W: Array, d: Array, total: float) -> Array:
    """The gain in modularity against the groups' size: `(W_ij / D - d_i d_j / D^2) / (d_i d_j)^1/2`."""
    expected = np.outer(d, d) / total**2
    return np.asarray((W / total - expected) / np.sqrt(np.outer(d, d)))


LINKAGES: tuple[Linkage, ...] = (average, small_first, even)


class Merged(NamedTuple):
    """What joining came to."""

    labels: Array
    """(n,) numbers of the clusters, 0 to k - 1."""
    tree: Array
    """(groups - 1, 3): which two were joined, and how strong their link was; all the way to one, as evidence for k."""


def merge(A: Any, groups: Array, k: int) -> Merged:
    """Join groups of rows along a graph.

    A : sparse (n, n), the graph
    groups : (n,) number of each row's group
    k : how many clusters to leave; where there are fewer groups, each is a cluster
    """
    W, P = _weigh_groups(A, groups)
    found = [_joined(W, k, linkage) for linkage in LINKAGES]
    cuts = np.array([normalised_cut(W, labels) for labels, _ in found])
    near = np.flatnonzero(cuts <= NEAR * cuts.min() + 1e-12)
    labels, tree = found[max(near, key=lambda i: (_evenness(W, found[i][0]), -i))]
    return Merged(labels[P], tree)


def join_all(A: Any, groups: Array, most: int) -> tuple[Array, Array]:
    """Join groups of rows (n,) to one, small ones first: evidence for each number of clusters up to `most`.

    Returns two arrays (most + 1,), by the number of clusters k: the log of how strong the link was whose join left
    k - 1 of them, which never rises as k falls, and the normalised cut of k clusters.
    """
    W, _ = _weigh_groups(A, groups)
    tree = _joined(W, 1, small_first)[1]
    logs = np.minimum.accumulate(np.log(np.maximum(tree[:, 2], 1e-300)))
    strengths, cuts, owner = np.full(most + 1, logs[0] if len(logs) else 0.0), np.zeros(most + 1), np.arange(len(W))
    for (i, j, _), strength, left in zip(tree, logs, range(len(W), 1, -1), strict=True):
        if left <= most:
            cuts[left] = normalised_cut(W, np.unique(owner, return_inverse=True)[1])
            strengths[left] = strength
        owner[owner == int(j)] = int(i)
    return strengths, cuts


def _joined(W: Array, k: int, linkage: Linkage) -> tuple[Array, Array]:
    """Cluster of each group when k are left, and the whole tree."""
    g = len(W)
    W, d = W.copy(), W.sum(axis=1)
    total = float(d.sum())
    owner, alive = np.arange(g), np.arange(g)
    labels, tree = owner.copy(), []
    twice = np.tri(g, dtype=bool)
    for left in range(g, 1, -1):
        link = linkage(W[np.ix_(alive, alive)], d[alive], total)
        link[twice[:left, :left]] = -np.inf
        a, b = np.unravel_index(int(link.argmax()), link.shape)
        i, j = alive[a], alive[b]
        tree.append((i, j, link[a, b]))
        W[i] += W[j]
        W[:, i] += W[:, j]
        d[i] += d[j]
        owner[owner == j] = i
        alive = np.delete(alive, b)
        if left - 1 == k:
            labels = owner.copy()
    return np.unique(labels, return_inverse=True)[1], np.array(tree, np.float64).reshape(-1, 3)


def cut_of(A: Any, labels: Array) -> float:
    """Normalised cut of a labelling (n,) of the graph A, sparse (n, n)."""
    W, _ = _weigh_groups(A, labels)
    return normalised_cut(W, np.arange(len(W)))


def _weigh_groups(A: Any, groups: Array) -> tuple[Array, Array]:
    """Weights (g, g) between groups of rows, and the number (n,) of each row's group."""
    _, P = np.unique(groups, return_inverse=True)
    n, g = len(P), int(P.max()) + 1
    member = sparse.csr_array((np.ones(n), (np.arange(n), P)), shape=(n, g))
    W = (member.T @ A @ member).toarray()
    return 0.5 * (W + W.T), P


def normalised_cut(W: Array, labels: Array) -> float:
    """Sum over clusters of the part of a cluster's edges that leave it."""
    within = _between(W, labels)
    return float(np.sum(1.0 - np.diag(within) / within.sum(axis=1)))


def _evenness(W: Array, labels: Array) -> float:
    """Entropy of the clusters' shares of all edges."""
    share = _between(W, labels).sum(axis=1) / W.sum()
    return float(-np.sum(share * np.log(np.maximum(share, 1e-300))))


def _between(W: Array, labels: Array) -> Array:
    member = np.eye(int(labels.max()) + 1)[labels]
    return np.asarray(member.T @ W @ member)
