"""Rows on axes: scores with some directions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block


@dataclass(frozen=True)
class Projection:
    """Scores of a row with some directions: principal axes, or latent semantic ones; rows of norm 1 if `unit`."""

    W: Array
    b: Array
    unit: bool

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return int(self.W.shape[1])

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return len(self.W)

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        return scale_rows(kernels.scores(block.rows, self.W) + self.b, self.unit)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        return {"kind": "projection", "unit": self.unit}, {"map_w": self.W, "map_b": self.b}


def scale_rows(rows: Array, unit: bool) -> Array:
    """Rows as float32, scaled to norm 1 if wanted; a row of zeros stays."""
    if unit:
        rows = rows / np.maximum(np.sqrt((rows**2).sum(axis=1, keepdims=True)), 1e-12)
    return rows.astype(np.float32)
