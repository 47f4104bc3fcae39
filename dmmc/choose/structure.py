"""Is there any structure? The cut of a clustering beside that of Gaussian rows of the same covariance (E37)."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from dmmc.array_types import Array
from dmmc.choose.evidence import make_evidence
from dmmc.features.graph_merge import cut_of
from dmmc.features.kmeans import fit_kmeans
from dmmc.features.projection import scale_rows

ROWS = 2000
NONE_ABOVE = 0.8
"""Rows whose cut is above this part of that of Gaussian rows have no structure: 27 sets with clusters are below .61."""
DRAWS = 3
FLOOR = 1e-3


def find_ratio(places: Array, n_clusters: int, unit: bool, seed: int, threads: int = 1) -> float:
    """The normalised cut of rows (n, p) over the mean of those of Gaussian rows of the same mean and covariance."""
    rng = np.random.default_rng([seed, 10])
    rows = places[np.sort(rng.choice(len(places), min(len(places), ROWS), replace=False, shuffle=False))]
    k = min(n_clusters, len(rows) - 1)
    values, vectors = np.linalg.eigh(np.cov(rows.astype(np.float64), rowvar=False).reshape(rows.shape[1], -1))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    mean = rows.mean(axis=0)
    drawn = [scale_rows(mean + rng.standard_normal((len(rows), len(values))) @ root.T, unit=unit) for _ in range(DRAWS)]
    with ThreadPoolExecutor(threads) as pool:
        cut, *of_drawn = pool.map(partial(_cut, k=k), [rows, *drawn])
    return (cut + FLOOR) / (float(np.mean(of_drawn)) + FLOOR)


def _cut(rows: Array, k: int) -> float:
    """The normalised cut of a spectral clustering."""
    found = make_evidence(rows, k)
    labels = fit_kmeans(scale_rows(found.vectors[:, :k], unit=True), k, 0).labels_
    return cut_of(found.graph, labels)
