"""How far rows reach: the unit in which paper 002 gives the width of a kernel."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.model.geometry import Geometry

COUNTS = 0.01
"""Rows that weigh less than this fraction of the mean do not stretch the extent: those far out are made so light."""


def ranges(block: Block, least: float) -> tuple[Array, Array]:
    """Lowest and highest value of each feature, over the rows whose weight is at least `least`."""
    rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else block.rows
    if block.weight is not None:
        rows = rows[block.weight >= least]
    if rows.shape[0] == 0:
        nothing = np.full(rows.shape[1], np.inf)
        return nothing, -nothing
    low, high = rows.min(axis=0), rows.max(axis=0)
    if isinstance(block.rows, Csr):
        low, high = low.toarray().ravel(), high.toarray().ravel()
    return np.asarray(low, np.float64), np.asarray(high, np.float64)


def extent(dataset: Rows, each: Callable[..., Iterable[Any]], geometry: Geometry) -> float:
    """`s = (Σ_j range_j²)^½`: about the largest distance between two rows, standardised where they are.

    dataset : the rows
    each : a pass to what it gives of each block
    geometry : of the rows
    """
    weight = dataset.weight
    least = 0.0 if weight is None else COUNTS * float(weight[weight > 0].mean())
    low, high = (np.stack(side) for side in zip(*each(ranges, least), strict=True))
    return float(np.linalg.norm((high.max(axis=0) - low.min(axis=0)) * geometry.norm / geometry.unit))
