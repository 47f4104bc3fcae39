"""A dying cluster is seeded again: the smallest cluster gets half of the largest one."""

from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.model import passes
from dmmc.model.geometry import Geometry
from dmmc.solvers.cutting_plane_state import Point

OUTLYING = 0.9
"""The seed is the row at this quantile of the distances from the largest cluster's mean: far, but no outlier."""


def reseed_cluster(at: Point, counts: Array, sample: Any, geometry: Geometry) -> Point:
    """The smallest cluster takes the rows of the largest that are nearer to an outlying row of it than to its mean.

    The sample is a few scaled rows; dense ones are centred too, sparse ones are not.
    """
    W, b = at.W.copy(), at.b + at.price
    offset = np.zeros(W.shape[1]) if isinstance(sample, np.ndarray) else geometry.mean / geometry.unit
    labels = passes.decide_labels(np.asarray(sample @ W.T) + (b - W @ offset))
    largest, smallest = int(counts.argmax()), int(counts.argmin())
    members = sample[labels == largest] if np.any(labels == largest) else sample
    mean = np.asarray(members.mean(axis=0)).ravel()
    squares = members.multiply(members) if hasattr(members, "multiply") else members**2
    far = np.asarray(squares.sum(axis=1)).ravel() - 2.0 * np.asarray(members @ mean).ravel()
    chosen = members[[np.argsort(far, kind="stable")[int(OUTLYING * (len(far) - 1))]]]
    seed = np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, np.float64).ravel()
    step = seed - mean
    strength = 2.0 / max(float(step @ step), 1e-12)
    W[smallest] = W[largest] + strength * step
    b[smallest] = b[largest] - strength * float(step @ (0.5 * (seed + mean) - offset))
    return Point(W, b, np.zeros_like(at.price), np.inf)
