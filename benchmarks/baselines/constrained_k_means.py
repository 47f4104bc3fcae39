"""Constrained k-means (COP-k-means; Wagstaff et al., 2001): each row to the nearest centre that its links allow."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.cluster import KMeans

ROUNDS = 100


def assign(D: Any, apart: list[tuple[int, int]], order: Any) -> Any:
    """The cluster of each group: of those its cannot-links leave, the nearest; where none is left, the nearest."""
    groups, k = D.shape
    near: list[list[int]] = [[] for _ in range(groups)]
    for a, b in apart:
        near[a].append(b)
        near[b].append(a)
    labels = np.full(groups, -1)
    for g in order:
        taken = {int(labels[other]) for other in near[g]}
        left = [c for c in range(k) if c not in taken] or list(range(k))
        labels[g] = min(left, key=lambda c: D[g, c])
    return labels


def cluster(X: Any, k: int, links: Any, seed: int = 0) -> Any:
    """Labels of the rows; links are (i, j, 1 or -1). Rows that must be together move as one group."""
    X, n = np.asarray(X, float), len(X)
    links = np.asarray(links, int).reshape(-1, 3)
    must, cannot = links[links[:, 2] > 0], links[links[:, 2] < 0]
    graph = coo_array((np.ones(len(must)), (must[:, 0], must[:, 1])), (n, n))
    groups, group = connected_components(graph, directed=False)
    sizes = np.bincount(group).astype(float)
    apart = [(int(group[i]), int(group[j])) for i, j, _ in cannot if group[i] != group[j]]
    centres = KMeans(k, n_init=10, random_state=seed).fit(X).cluster_centers_
    order = np.random.default_rng(seed).permutation(groups)
    order = order[np.argsort(~np.isin(order, np.asarray(apart, int).ravel()), kind="stable")]
    labels = np.zeros(n, int)
    for _ in range(ROUNDS):
        distances = ((X[:, None] - centres) ** 2).sum(axis=2)
        D = np.zeros((groups, k))
        np.add.at(D, group, distances)
        new = assign(D / sizes[:, None], apart, order)[group]
        if (new == labels).all():
            break
        labels = new
        centres = np.stack([X[labels == c].mean(axis=0) if (labels == c).any() else centres[c] for c in range(k)])
    return labels
