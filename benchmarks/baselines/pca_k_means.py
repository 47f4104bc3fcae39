"""PCA, and k-means on as many axes as hold a share of the variance (95 % in paper 001)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA


def cluster(X: Any, k: int, share: float = 0.95, seed: int = 0) -> Any:
    """Labels of the rows."""
    rows = X.toarray() if issparse(X) else np.asarray(X, float)
    return KMeans(k, n_init=10, random_state=seed).fit_predict(PCA(share, svd_solver="full").fit_transform(rows))
