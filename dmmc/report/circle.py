"""A map for many clusters in curved features: each has its place on a circle, rows lie between those they are near."""

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from dmmc.array_types import Array
from dmmc.features.maps import Decision

FEWEST = 4
"""Of fewer clusters two directions show all that scores say."""


def is_on_circle(decision: Decision) -> bool:
    """Whether two directions would lay clusters on each other: many clusters, in other features than raw ones."""
    row_map, planes = decision
    return row_map is not None and planes.n_scores >= FEWEST


def place_on_circle(f: Array) -> Array:
    """Two coordinates of each row (m, 2) by its scores f (m, k): the mean of the clusters' places, weighted by scores.

    Weights are exp(f / s), with s the median margin.
    Clusters that rows confuse are neighbours on the circle (the order of leaves of a tree over their mean scores).
    """
    m, k = f.shape
    labels = f.argmax(axis=1)
    relative = f - f.max(axis=1, keepdims=True)
    own = np.array([relative[labels == c].mean(axis=0) if (labels == c).any() else np.zeros(k) for c in range(k)])
    near = 0.5 * (own + own.T)
    order = leaves_list(linkage(near, "average", optimal_ordering=True))
    angle = np.empty(k)
    angle[order] = 2.0 * np.pi * np.arange(k) / k
    places = np.column_stack([np.cos(angle), np.sin(angle)])
    second = np.partition(relative, -2, axis=1)[:, -2] if m else np.zeros(0)
    scale = max(float(np.median(-second)) if m else 1.0, 1e-300)
    weights = np.exp(relative / scale)
    return np.asarray(weights @ places / weights.sum(axis=1, keepdims=True))
