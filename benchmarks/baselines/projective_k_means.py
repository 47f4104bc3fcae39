"""Projective k-means (Agarwal, Mustafa, 2004): each cluster is a flat, a row belongs to the flat nearest to it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

ROUNDS = 50


def cluster(X: Any, k: int, dimensions: int, seed: int = 0) -> Any:
    """Labels of the rows, from a k-means start."""
    X = np.asarray(X, float)
    labels = KMeans(k, n_init=1, random_state=seed).fit_predict(X)
    for _ in range(ROUNDS):
        away = []
        for c in range(k):
            own = X[labels == c] if np.count_nonzero(labels == c) > 1 else X
            flat = PCA(min(dimensions, *own.shape), svd_solver="full").fit(own)
            rest = X - flat.mean_
            away.append((rest**2).sum(axis=1) - ((rest @ flat.components_.T) ** 2).sum(axis=1))
        new = np.argmin(away, axis=0)
        if (new == labels).all():
            break
        labels = new
    return labels
