"""Discriminative k-means (Ye, Zhao, Wu, 2007): k-means and linear discriminant analysis, made one kernel k-means.

Maximising trace (L' (I - (I + G / λ)^-1) L) over indicators L, G the inner products of centred rows. With G = U S² U',
that is k-means of the rows of U (S² / (S² + λ))^½.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import issparse
from sklearn.cluster import KMeans


def embed(X: Any, ridge: float) -> Any:
    """U (S² / (S² + λ))^½, with λ = ridge times the largest eigenvalue of G."""
    G = np.asarray((X @ X.T).toarray() if issparse(X) else np.asarray(X, float) @ np.asarray(X, float).T)
    G = G - G.mean(axis=0) - G.mean(axis=1)[:, None] + G.mean()
    values, U = eigh(G)
    values = np.maximum(values, 0.0)
    return U * np.sqrt(values / (values + ridge * values[-1]))


def cluster(X: Any, k: int, ridge: float = 0.1, seed: int = 0) -> Any:
    """Labels of the rows."""
    return KMeans(k, n_init=10, random_state=seed).fit_predict(embed(X, ridge))
