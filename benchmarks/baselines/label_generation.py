"""LG-MMC (Li, Tsang, Kwok, Zhou, 2009): label vectors are generated one by one, a mixture of their kernels is learned.

min over mixtures μ of max over α in the box of 1'α - ½ Σ_t μ_t α' (K ∘ y_t y_t') α, with a working set of label
vectors y_t to which the one that α violates most is added (found feature by feature, balance kept). Linear kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

MIXED = 4
"""Rounds in which the mixture of a working set settles."""


def generate_labels(X: Any, alpha: Any, balance: float) -> Any:
    """y with the largest |Σ_i α_i y_i x_ij| of any feature j, |mean y| <= balance: signs, the weakest ones moved."""
    pulls = alpha[:, None] * X
    order = np.argsort(pulls, axis=0)
    n = len(X)
    least, most = int(np.ceil(0.5 * n * (1 - balance))), int(np.floor(0.5 * n * (1 + balance)))
    ordered = np.take_along_axis(pulls, order, axis=0)
    tops = np.cumsum(ordered[::-1], axis=0)  # sum of the m largest in row m - 1
    counts = np.clip((pulls > 0).sum(axis=0), max(1, least), max(1, min(n - 1, most)))
    found = 2.0 * tops[counts - 1, np.arange(X.shape[1])] - pulls.sum(axis=0)
    j = int(np.argmax(np.abs(found)))
    y = -np.ones(n)
    y[order[::-1][: counts[j], j]] = 1.0
    return y


def solve_box(labels: list[Any], mixture: Any, X: Any, C: float, start: Any, most: int = 60) -> Any:
    """The α of the mixture: a quadratic problem in a box, without a matrix of all rows by all rows."""
    rows = np.concatenate([np.sqrt(mu) * one[:, None] * X for mu, one in zip(mixture, labels, strict=True)], axis=1)

    def cost(alpha: Any) -> tuple[float, Any]:
        w = alpha @ rows
        return float(0.5 * w @ w - alpha.sum()), rows @ w - 1.0

    return minimize(cost, start, jac=True, method="L-BFGS-B", bounds=[(0.0, C)] * len(X), options={"maxiter": most}).x


def cluster(X: Any, balance: float = 0.1, C: float = 1.0, rounds: int = 10) -> Any:
    """Labels 0 and 1 of the rows: signs of the leading vector of Σ_t μ_t y_t y_t'."""
    X = np.asarray(X, float)
    X = X - X.mean(axis=0)
    X = X / np.sqrt((X**2).sum(axis=1).mean())
    n = len(X)
    alpha, labels, mixture = np.full(n, min(1.0, C)), [], np.zeros(0)
    before = np.inf
    for _ in range(rounds):
        y = generate_labels(X, alpha, balance)
        if any(abs(y @ other) == n for other in labels):
            break
        labels.append(y)
        mixture = np.append(mixture * (1 - 1 / len(labels)), 1 / len(labels))
        for _ in range(MIXED):
            alpha = solve_box(labels, mixture, X, C, alpha)
            norms = np.array([np.linalg.norm((alpha * one) @ X) for one in labels])
            new = mixture * np.maximum(norms, 1e-12)
            new /= new.sum()
            settled = np.abs(new - mixture).max() < 1e-3
            mixture = new
            if settled:
                break
        value = float(alpha.sum() - 0.5 * mixture @ norms**2)
        if before - value < 1e-3 * abs(value):
            break
        before = value
    Y = np.stack(labels, axis=1) * np.sqrt(mixture)
    return (np.linalg.svd(Y, full_matrices=False)[0][:, 0] > 0).astype(int)
