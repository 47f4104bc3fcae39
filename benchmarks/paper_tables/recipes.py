"""Settings to choose from, and methods that several papers share: a name each, and labels by a seed."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from baselines import iterative_svr, spectral
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

import dmmc
from dmmc import CuttingPlaneMMC
from paper_tables.named_sets import FEW
from paper_tables.study import Fit

MOST_GRAPH = 2500
"""Rows of which a Gaussian graph is made, and on which a kernel machine is trained."""


def dense(X: Any) -> Any:
    """Rows as an array of floats."""
    return X.toarray() if issparse(X) else np.asarray(X, float)


def k_means(X: Any, k: int = 2) -> dict[str, Fit]:
    """scikit-learn's k-means."""
    rows = X if issparse(X) else dense(X)
    return {"n_init=10": lambda seed: KMeans(k, n_init=10, random_state=seed).fit_predict(rows)}


def normalised_cut(X: Any, k: int = 2) -> dict[str, Fit]:
    """Widths of the Gaussian graph, in units of the median distance."""
    return {
        f"width={width:g}": lambda seed, width=width: spectral.normalised_cut(spectral.affinity(X, width), k, seed)
        for width in (0.05, 0.1, 0.2, 0.5)
    }


def ng_jordan_weiss(X: Any, k: int = 2) -> dict[str, Fit]:
    """The same widths."""
    return {
        f"width={width:g}": lambda seed, width=width: spectral.ng_jordan_weiss(spectral.affinity(X, width), k, seed)
        for width in (0.05, 0.1, 0.2, 0.5)
    }


def iter_svr(X: Any) -> dict[str, Fit]:
    """Balance and C of a linear machine, and of a Gaussian one where there are few rows."""
    found: dict[str, Fit] = {}
    rows = X if issparse(X) else StandardScaler(with_std=False).fit_transform(dense(X))
    scale = float(np.sqrt(rows.multiply(rows).sum(axis=1).mean() if issparse(X) else (rows**2).sum(axis=1).mean()))
    rows = rows / scale
    for balance, C in product((0.03, 0.1, 0.3), (0.1, 1.0)):
        found[f"linear, l={balance}n, C={C:g}"] = lambda seed, b=balance, C=C: iterative_svr.cluster(
            rows, b, C, None, seed
        )
        if rows.shape[0] <= 600:
            for gamma in (0.3, 1.0):
                found[f"gamma={gamma:g}, l={balance}n, C={C:g}"] = lambda seed, b=balance, C=C, g=gamma: (
                    iterative_svr.cluster(rows, b, C, g, seed)
                )
    return found


def cutting_planes(X: Any, quick: bool, **others: Any) -> dict[str, Fit]:
    """CPMMC in the order of paper 000: C and l / n from two starts, and from random hyperplanes w0, tuned too.

    The authors' own code says that C, l and w0 "need to be fine tuned"; here labels choose among up to 20 random w0.
    """
    Cs = (10, 100) if quick else (3, 10, 30, 100, 300, 1000)
    balances = (0.03,) if quick else (0.03, 0.1, 0.3)
    tuned = [{"init": init, "C": C, "balance": beta} for init, C, beta in product(("k-means", "pca"), Cs, balances)]
    if not (quick or others):
        drawn = range(3 if issparse(X) else 20)
        scales = ("none",) if issparse(X) else ("none", "standard")
        tuned += [
            {"init": "random", "C": C, "balance": beta, "scale": scale, "random_state": w0}
            for C, beta, scale, w0 in product((30, 100, 300), (0.03, 0.1), scales, drawn)
        ]
    found: dict[str, Fit] = {}
    for params in tuned:

        def fit(seed: int, params: dict[str, Any] = params) -> Any:
            model = CuttingPlaneMMC(**{"random_state": seed, "n_init": 1, "n_jobs": 1, **others, **params})
            return model.fit(X).labels_

        found[", ".join(f"{name}={value}" for name, value in params.items())] = fit
    return found


def ours(X: Any, k: int = 2, **params: Any) -> dict[str, Fit]:
    """`dmmc.fit` with its defaults, and no label."""
    return {"defaults": lambda seed: dmmc.fit(X, k, random_state=seed, n_jobs=1, **params).labels}


def size(X: Any) -> str:
    """Rows × features."""
    return f"{X.shape[0]:,} × {X.shape[1]:,}"


__all__ = [
    "FEW",
    "MOST_GRAPH",
    "cutting_planes",
    "dense",
    "iter_svr",
    "k_means",
    "ng_jordan_weiss",
    "normalised_cut",
    "ours",
    "size",
]
