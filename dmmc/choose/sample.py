"""A sample of rows on their leading axes: where candidates are judged, structure is looked for and k is suggested."""

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import svds

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.features.projection import scale_rows
from dmmc.model.geometry import Geometry

ROWS = 4000
AXES = 64


class Sample(NamedTuple):
    """Rows that stand for all."""

    rows: Array
    """(m,) their numbers, rising."""
    places: Array
    """(m, p) float32, where they are on their principal axes; of norm 1 where rows are compared by angle."""


def take_sample(dataset: Rows, geometry: Geometry, seed: int, by_angle: bool) -> Sample:
    """Draw rows that have weight, and find their places.

    by_angle : whether rows are words, which are compared by the angle between them and not centred
    """
    known = np.arange(dataset.n_rows) if dataset.weight is None else np.flatnonzero(dataset.weight > 0)
    rng = np.random.default_rng([seed, 9])
    rows = known[np.sort(rng.choice(len(known), min(len(known), ROWS), replace=False, shuffle=False))]
    return Sample(rows, place_rows(geometry.apply(dataset.take(rows)), by_angle))


def put_on_one_scale(places: Array) -> Array:
    """Centred columns (m, p), each with the same variance; constant ones stay 0."""
    spread = places.std(axis=0)
    return scale_rows(places / np.where(spread > 0, spread, 1.0), unit=False)


def place_rows(rows: Any, by_angle: bool) -> Array:
    """Principal axes of rows (m, d), dense or sparse: as they are where there are few columns."""
    m, d = rows.shape
    if isinstance(rows, np.ndarray) and not by_angle:
        rows = rows - rows.mean(axis=0)
        if d <= AXES:
            return scale_rows(rows, unit=False)
        second = rows.T @ rows if d <= m else rows @ rows.T
        values, vectors = np.linalg.eigh(second.astype(np.float64))
        lead = vectors[:, ::-1][:, :AXES]
        places = rows @ lead if d <= m else lead * np.sqrt(np.maximum(values[::-1][:AXES], 0.0))
        return scale_rows(places, unit=False)
    count = min(AXES, m - 1, d - 1)
    if count < 1:
        return scale_rows(np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows), by_angle)
    U, s, _ = svds(rows.astype(np.float64), count, v0=np.random.default_rng(0).standard_normal(min(m, d)))
    return scale_rows(U * s, unit=by_angle)
