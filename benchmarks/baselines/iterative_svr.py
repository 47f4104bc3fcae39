"""IterSVR: support vector regression on the labels, and labels from its signs, in turn (Zhang, Tsang, Kwok, 2007)."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.svm import SVR, LinearSVR

ROUNDS = 30


def choose_bias(scores: Any, balance: float) -> float:
    """The bias b with the least Σ ||score + b| - 1| of those that leave |mean sign| <= balance."""
    ordered = np.sort(scores)
    n = len(ordered)
    below = np.arange(1, n)
    allowed = below[np.abs(n - 2 * below) <= max(balance * n, n % 2)]
    middles = -0.5 * (ordered[allowed - 1] + ordered[allowed])
    if len(middles) > 200:
        middles = middles[np.linspace(0, len(middles) - 1, 200).astype(int)]
    losses = [np.abs(np.abs(scores + b) - 1.0).sum() for b in middles]
    return float(middles[int(np.argmin(losses))])


def cluster(
    X: Any, balance: float, C: float = 1.0, gamma: float | None = None, seed: int = 0, start: Any = None
) -> Any:
    """Labels 0 and 1 of the rows, from those of k-means or given ones; a Gaussian kernel where gamma is given."""
    y = 2 * (KMeans(2, n_init=10, random_state=seed).fit_predict(X) if start is None else start) - 1
    for _ in range(ROUNDS):
        if gamma is None:
            machine = LinearSVR(C=C, epsilon=0.0, max_iter=2000, random_state=seed)
        else:
            machine = SVR(kernel="rbf", C=C, gamma=gamma, epsilon=0.0, max_iter=20_000)
        scores = machine.fit(X, y).predict(X)
        new = np.where(scores + choose_bias(scores, balance) >= 0, 1, -1)
        if (new == y).all() or (new == -y).all():
            break
        y = new
    return (y > 0).astype(int)
