"""Normalised cut (Shi, Malik, 2000) and the spectral clustering of Ng, Jordan and Weiss (2001), on a Gaussian graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.cluster import KMeans, spectral_clustering
from sklearn.metrics import pairwise_distances
from sklearn.preprocessing import normalize


def affinity(X: Any, width: float) -> Any:
    """exp(-|x - x'|² / (2 s²)), s the width times the median distance."""
    D = pairwise_distances(X)
    A: Any = np.exp(-0.5 * (D / (width * np.median(D))) ** 2)
    np.fill_diagonal(A, 0.0)
    return A


def leading_vectors(A: Any, k: int) -> Any:
    """The k leading eigenvectors of D^-½ A D^-½, the first one first, and D^-½."""
    scale = 1.0 / np.sqrt(np.maximum(A.sum(axis=1), 1e-12))
    n = len(A)
    _, V = eigh(scale[:, None] * A * scale, subset_by_index=(n - k, n - 1))
    return V[:, ::-1], scale


def cut_value(A: Any, side: Any) -> float:
    """cut / volume of one side, and of the other."""
    degree = A.sum(axis=1)
    cut = float(A[side][:, ~side].sum())
    return cut / max(float(degree[side].sum()), 1e-12) + cut / max(float(degree[~side].sum()), 1e-12)


def normalised_cut(A: Any, k: int, seed: int = 0) -> Any:
    """Two clusters: the second vector, split where the normalised cut is lowest. More: Yu and Shi's discretisation."""
    if k > 2:
        return spectral_clustering(A, n_clusters=k, assign_labels="discretize", random_state=seed)
    V, scale = leading_vectors(A, 2)
    second = V[:, 1] * scale
    splits = np.quantile(second, np.linspace(0.02, 0.98, 49))
    sides = [second > split for split in splits]
    sides = [side for side in sides if 0 < side.sum() < len(side)]
    return min(sides, key=lambda side: cut_value(A, side)).astype(int)


def ng_jordan_weiss(A: Any, k: int, seed: int = 0) -> Any:
    """k-means of the rows, scaled to norm 1, of the k leading vectors."""
    return KMeans(k, n_init=10, random_state=seed).fit_predict(normalize(leading_vectors(A, k)[0]))
