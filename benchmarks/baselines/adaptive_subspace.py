"""Adaptive subspace iteration (after Li, Ma, Ogihara, 2004): a subspace for the clusters, clusters in the subspace.

Minimises |X - D S F'|² over memberships D, centres S in the subspace, and orthonormal axes F, in turn: for given
labels F holds the leading right singular vectors of the rows' projection D (D'D)^-1 D' X onto the centres.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans

ROUNDS = 50


def find_axes(X: Any, labels: Any, k: int, axes: int) -> Any:
    """(d, axes): the leading directions of the cluster means, weighted by their sizes."""
    counts = np.bincount(labels, minlength=k).astype(float)
    sums = np.stack([np.asarray(X[labels == c].sum(axis=0), float).ravel() for c in range(k)])
    means = sums / np.sqrt(np.maximum(counts, 1.0))[:, None]
    return np.linalg.svd(means, full_matrices=False)[2][:axes].T


def cluster(X: Any, k: int, axes: int | None = None, seed: int = 0) -> Any:
    """Labels of the rows, from a k-means start; k - 1 axes unless said otherwise, as in paper 001."""
    axes = max(1, k - 1) if axes is None else axes
    labels = KMeans(k, n_init=1, random_state=seed).fit_predict(X)
    for _ in range(ROUNDS):
        Z = np.asarray(X @ find_axes(X, labels, k, axes))
        means = np.stack([Z[labels == c].mean(axis=0) if (labels == c).any() else Z[c] for c in range(k)])
        new = KMeans(k, init=means, n_init=1).fit_predict(Z)
        if (new == labels).all():
            break
        labels = new
    return labels
