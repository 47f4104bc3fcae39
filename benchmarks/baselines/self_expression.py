"""Sparse subspace clustering and low-rank representation: rows written by other rows, then spectral clustering.

`sparse`: each row by a few others, orthogonal matching pursuit (You, Robinson, Vidal, 2016, of Elhamifar and Vidal's
problem). `low_rank`: min |Z|_* + (λ / 2) |X' - X' Z|², whose solution is V (1 - 1 / (λ S²)) V' over the singular values
S > 1 / √λ (Favaro, Vidal, Ravichandran, 2011, of Liu, Lin and Yu's problem).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import spectral_clustering
from sklearn.linear_model import orthogonal_mp_gram
from sklearn.preprocessing import normalize


def write_sparsely(X: Any, others: int) -> Any:
    """(n, n) coefficients, none of a row by itself."""
    rows = normalize(np.asarray(X, float))
    G = rows @ rows.T
    n = len(rows)
    Z = np.zeros((n, n))
    for i in range(n):
        rest = np.delete(np.arange(n), i)
        near = rest[np.argsort(-np.abs(G[i, rest]), kind="stable")[: max(50, 5 * others)]]
        Z[i, near] = orthogonal_mp_gram(G[np.ix_(near, near)], G[near, i], n_nonzero_coefs=others)
    return Z


def write_by_low_rank(X: Any, weight: float) -> Any:
    """(n, n) coefficients of the low-rank problem; the weight is λ times the square of the largest singular value."""
    U, S, _ = np.linalg.svd(np.asarray(X, float), full_matrices=False)
    kept = S[0] / np.sqrt(weight) < S
    shrunk = 1.0 - S[0] ** 2 / (weight * S[kept] ** 2)
    return (U[:, kept] * shrunk) @ U[:, kept].T


def cluster(Z: Any, k: int, seed: int = 0) -> Any:
    """Spectral clustering of |Z| + |Z|'."""
    A = np.abs(Z) + np.abs(Z).T
    np.fill_diagonal(A, 0.0)
    return spectral_clustering(A + 1e-9, n_clusters=k, random_state=seed)


def sparse(X: Any, k: int, others: int = 5, seed: int = 0) -> Any:
    """Labels of the rows by sparse coefficients."""
    return cluster(write_sparsely(X, others), k, seed)


def low_rank(X: Any, k: int, weight: float = 100.0, seed: int = 0) -> Any:
    """Labels of the rows by low-rank coefficients."""
    return cluster(write_by_low_rank(X, weight), k, seed)
