"""Features of a row from those of its anchors: a pure function of the row, the same for fitted and for new ones."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.features.anchors import Anchors, link_block
from dmmc.features.projection import Projection, scale_rows


@dataclass(frozen=True)
class AnchorMap:
    """Features of the anchors that a row is linked to, averaged by the weights of the links.

    projection : where rows are linked; None where they are at their places there already
    anchors : Anchors
    values : (G, m) float32, their features
    unit : whether features are scaled to norm 1
    own : how much a row's own place counts beside its anchors' features, which are mean places then
    beside : whether the row's place comes after its features, as columns of their own
    key : by which a block of places keeps its links for the next pass; "" where it does not
    """

    projection: Projection | None
    anchors: Anchors
    values: Array
    unit: bool
    own: float = 0.0
    beside: bool = False
    key: str = ""

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return int(self.anchors.points.shape[1]) if self.projection is None else self.projection.n_features

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return int(self.values.shape[1]) + self.beside * int(self.anchors.points.shape[1])

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        if self.projection is not None:
            block = replace(block, rows=self.projection.apply(block), cache={})
        places = np.asarray(block.rows)
        mean = link_block(block, self.anchors, self.key).average(self.values)
        if self.own:
            mean = self.own * places + (1.0 - self.own) * mean
        rows = scale_rows(mean, self.unit)
        return np.hstack([rows, places]) if self.beside else rows

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        assert self.projection is not None
        assert not self.beside
        content, arrays = self.projection.to_arrays()
        kind = {"kind": "anchored places", "own": self.own} if self.own else {"kind": "anchors"}
        mine = {"map_points": self.anchors.points, "map_lists": self.anchors.lists, "map_values": self.values}
        return {**kind, "unit": self.unit, "unit_rows": content["unit"]}, {**arrays, **mine}

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array]) -> "AnchorMap":
        """The map again."""
        projection = Projection(arrays["map_w"], arrays["map_b"], content["unit_rows"])
        anchors = Anchors(arrays["map_points"], arrays["map_lists"])
        return cls(projection, anchors, arrays["map_values"], content["unit"], content.get("own", 0.0))
