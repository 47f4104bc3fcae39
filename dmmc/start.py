"""Where the search starts: labellings made by passes over the data.

k-means++ and Lloyd on a seeded sample of rows, then a few Lloyd passes over all rows, in the data's own type, dense
or sparse; principal directions; random labels; labels from the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc import passes
from dmmc.data import Dataset
from dmmc.geometry import Geometry
from dmmc.passes import ByScores, Drawn, Given, Hyperplanes, Labelling

Array = NDArray[Any]
Oracle = Callable[[Callable[..., Any], Any], Any]

SAMPLE_ROWS = 4096
SAMPLE_NUMBERS = 8_000_000
"""The sample has at most about this many numbers (32 MB of float32), and at least 20 rows a cluster."""
TRIES = 10
"""k-means++ seedings tried on the sample for each start."""
LLOYD_PASSES = 20
SETTLED = 1e-3
"""Lloyd passes end when the inertia falls by less than this fraction."""


def sample_rows(dataset: Dataset, n_clusters: int, seed: int) -> Array:
    """Sorted numbers of the rows that stand for all in seeding."""
    fit = SAMPLE_NUMBERS // (1 if dataset.is_sparse else dataset.n_features)
    count = min(dataset.n_rows, max(20 * n_clusters, min(SAMPLE_ROWS, fit)))
    rng = np.random.default_rng([seed, 1])
    return np.sort(rng.choice(dataset.n_rows, count, replace=False, shuffle=False))


def k_means(
    dataset: Dataset, oracle: Oracle, geometry: Geometry, n_clusters: int, n_starts: int, seed: int
) -> tuple[list[Labelling], Array]:
    """`n_starts` labellings by nearest centres, best inertia first, and their inertias.

    1. on the sample: k-means++ and Lloyd, TRIES times a start, the best kept
    2. on all rows: Lloyd passes; all starts share each read
    """
    sample = geometry.apply(dataset.take(sample_rows(dataset, n_clusters, seed)))
    weight = _sample_weight(dataset, sample_rows(dataset, n_clusters, seed))
    seeds = np.random.SeedSequence([seed, 2]).generate_state(n_starts * TRIES)
    tries = [_on_sample(sample, weight, n_clusters, int(s)) for s in seeds]
    centres = np.stack([
        min(tries[start * TRIES : (start + 1) * TRIES], key=lambda found: found[0])[1] for start in range(n_starts)
    ])
    offset = np.zeros(dataset.n_features) if isinstance(sample, np.ndarray) else geometry.mean / geometry.unit
    inertia = np.full(n_starts, np.inf)
    for _ in range(LLOYD_PASSES):
        moved, value = _lloyd(centres - offset, oracle, geometry)
        settled = bool(np.all(value >= inertia * (1 - SETTLED)))
        centres, inertia = moved + offset, value
        if settled:
            break
    order = np.argsort(inertia, kind="stable")
    return [_by_centres(centres[i] - offset, geometry) for i in order], inertia[order]


def _sample_weight(dataset: Dataset, rows: Array) -> Array:
    weights = [block.weight for block in dataset.blocks]
    if any(weight is None for weight in weights):
        return np.ones(len(rows))
    return np.concatenate(weights)[rows]  # type: ignore[arg-type]


def _on_sample(sample: Any, weight: Array, n_clusters: int, seed: int) -> tuple[float, Array]:
    """k-means++ seeding and Lloyd on the sample: inertia (up to a constant) and centres."""
    from sklearn.cluster import kmeans_plusplus

    centres, _ = kmeans_plusplus(sample, n_clusters, sample_weight=weight, random_state=seed % 2**32)
    centres = np.asarray(centres, np.float64)
    last = np.inf
    for _ in range(LLOYD_PASSES):
        reach = (sample @ (2.0 * centres).T.astype(sample.dtype)) - (centres**2).sum(axis=1)
        nearest = reach.argmax(axis=1)
        inertia = -float(weight @ reach[np.arange(len(weight)), nearest])
        if not inertia < last - SETTLED * abs(last):
            break
        last = inertia
        onehot = np.zeros((n_clusters, len(weight)), sample.dtype)
        onehot[nearest, np.arange(len(weight))] = weight
        mass = onehot.sum(axis=1)
        centres = np.where(mass[:, None] > 0, (onehot @ sample) / np.maximum(mass, 1e-300)[:, None], centres)
    return last, centres


def _lloyd(centres: Array, oracle: Oracle, geometry: Geometry) -> tuple[Array, Array]:
    """One Lloyd pass for G sets of centres (G, k, d): the moved centres, and the inertia of those given."""
    G, k, d = centres.shape
    planes = geometry.raw(2.0 * centres, -(centres**2).sum(axis=2))
    sums = oracle(passes.nearest, (planes.W, planes.b))
    counts = sums.tilt.reshape(G, k)
    totals = geometry.centred(sums.weighted, sums.tilt).reshape(G, k, d) * geometry.total
    alive = counts > 0
    means = np.where(alive[..., None], totals / np.where(alive, counts, 1.0)[..., None], centres)
    # mean |x|^2 is 1 by the choice of unit; standardised constant features do not count
    return means, 1.0 + sums.risk / geometry.total


def _by_centres(centres: Array, geometry: Geometry) -> Labelling:
    return ByScores(geometry.raw(2.0 * centres, -(centres**2).sum(axis=1)), wide=True)


def principal(dataset: Dataset, oracle: Oracle, geometry: Geometry, n_clusters: int, seed: int) -> Labelling:
    """Nearest centres within the leading principal directions; for two clusters, the sign of the first one.

    Subspace iteration, eight passes of k + 8 directions from a fixed start.
    """
    wanted = 1 if n_clusters == 2 else min(n_clusters - 1, dataset.n_features)
    width = min(dataset.n_features, wanted + 8)
    V = np.linalg.qr(np.random.default_rng([seed, 3]).standard_normal((dataset.n_features, width)))[0].T
    for _ in range(8):
        folded = V / geometry.unit
        product = oracle(passes.second_moment, folded)
        about = geometry.total * np.outer(folded @ geometry.mean, geometry.mean)
        image = (product - about) / (geometry.unit * geometry.total)
        V, values = _orthonormal(image, V)
    directions = V[:wanted]
    if n_clusters == 2:
        W = np.vstack([np.zeros(dataset.n_features), directions[0]])
        return ByScores(geometry.raw(W, np.zeros(2)), wide=True)
    sample = geometry.apply(dataset.take(sample_rows(dataset, n_clusters, seed)))
    shadow = np.asarray(sample @ directions.T.astype(sample.dtype))
    if not isinstance(sample, np.ndarray):
        shadow = shadow - directions @ (geometry.mean / geometry.unit)
    weight = np.ones(len(shadow))
    seeds = np.random.SeedSequence([seed, 4]).generate_state(TRIES)
    _, centres = min((_on_sample(shadow, weight, n_clusters, int(s)) for s in seeds), key=lambda found: found[0])
    return ByScores(geometry.raw(2.0 * centres @ directions, -(centres**2).sum(axis=1)), wide=True)


def _orthonormal(image: Array, V: Array) -> tuple[Array, Array]:
    """The span of the image, turned to the eigenvectors of the restriction; signs: largest entry positive."""
    values, turn = np.linalg.eigh((image @ V.T + V @ image.T) / 2)
    Q = np.linalg.qr((turn.T[::-1] @ image).T)[0].T
    signs = np.sign(Q[np.arange(len(Q)), np.abs(Q).argmax(axis=1)])
    return Q * signs[:, None], values[::-1]


def labellings(
    init: str,
    dataset: Dataset,
    oracle: Oracle,
    geometry: Geometry,
    n_clusters: int,
    n_starts: int,
    seed: int,
) -> list[Labelling]:
    """Starting labellings for `n_starts` runs."""
    if init == "k-means":
        return k_means(dataset, oracle, geometry, n_clusters, n_starts, seed)[0]
    if init == "random":
        return [Drawn(seed, run, n_clusters) for run in range(n_starts)]
    if init == "pca":
        return [principal(dataset, oracle, geometry, n_clusters, seed)]
    return [Given()]
