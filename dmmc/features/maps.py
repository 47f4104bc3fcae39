"""Maps of rows to features: pure functions of a row, the same for fitted and for new ones."""

from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import numpy as np
from scipy import sparse

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.open import open_dataset
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.graph import Index, Neighbours, weights
from dmmc.features.nystroem import Nystroem
from dmmc.features.projection import Projection, scale_rows
from dmmc.features.transforms import TRANSFORMS, Transform
from dmmc.features.view_map import ByView, Columns, views_from_arrays
from dmmc.model import inspect, passes
from dmmc.model.passes import Hyperplanes, Tree


@dataclass(frozen=True)
class Manifold:
    """Features of the nearest fitted rows, averaged by how near they are.

    projection : where nearness is measured
    points : (n, p) float32, the fitted rows there
    scale : (n,), each one's own scale
    values : (n, m) float32, their features
    n_neighbors : how many are asked
    unit : whether features are scaled to norm 1
    own : how much a row's own place counts beside its neighbours' features, which are their places then
    """

    projection: Projection
    points: Array
    scale: Array
    values: Array
    n_neighbors: int
    unit: bool
    own: float = 0.0
    _index: list[Index] = field(default_factory=list, init=False, repr=False, compare=False)
    _lock: Any = field(default_factory=Lock, init=False, repr=False, compare=False)

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return self.projection.n_features

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return int(self.values.shape[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Manifold, (self.projection, self.points, self.scale, self.values, self.n_neighbors, self.unit, self.own)

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        Z = self.projection.apply(block)
        with self._lock:
            if not self._index:
                self._index.append(Index(self.points, 1))
        return self.average(self._index[0].nearest(Z, min(self.n_neighbors + 1, len(self.points))), Z)

    def average(self, found: Neighbours, places: Array) -> Array:
        """Features of rows whose neighbours and own places (n, p) are known."""
        # a row's own scale is not known, as it may be new: that of its nearest fitted row stands for it
        w = weights(found.distance, self.scale[found.who[:, 0]], self.scale[found.who])
        mean = np.zeros((len(found.who), self.values.shape[1]))
        for j in range(found.who.shape[1]):
            mean += w[:, j, None] * self.values[found.who[:, j]]
        mean /= w.sum(axis=1, keepdims=True)
        if self.own:
            mean = self.own * places + (1.0 - self.own) * mean
        return scale_rows(mean, self.unit)

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        content, arrays = self.projection.to_arrays()
        content = {
            "kind": "averaged places" if self.own else "manifold",
            "unit": self.unit,
            "unit_rows": content["unit"],
            "n_neighbors": self.n_neighbors,
        }
        arrays = {**arrays, "map_points": self.points, "map_scale": self.scale}
        if self.own:
            return {**content, "own": self.own}, arrays
        return content, {**arrays, "map_values": self.values}


@dataclass(frozen=True)
class Composed:
    """Features of transformed rows."""

    transform: Transform | ByView
    then: Projection | Manifold | AnchorMap | Nystroem

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return self.transform.n_features

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return self.then.n_values

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        return self.then.apply(replace(block, rows=self.transform.apply(block), cache={}))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        (first, some), (content, arrays) = self.transform.to_arrays(), self.then.to_arrays()
        return {**content, "transform": first}, {**some, **arrays}


Map = Projection | Manifold | AnchorMap | Nystroem | Transform | ByView | Composed
Decision = tuple[Map | None, Hyperplanes | Tree]
"""What is made of a row, and the hyperplanes that decide about it, side by side or as a tree."""


def compose(transform: Transform | ByView | None, then: Map | None) -> Map | None:
    """First a transform, then a map; either may be missing."""
    if transform is None or then is None:
        return transform if then is None else then
    assert isinstance(then, Projection | Manifold | AnchorMap | Nystroem)
    return Composed(transform, then)


def map_rows(block: Block, row_map: Map | Columns) -> Any:
    """As a pass: features of a block."""
    return row_map.apply(block)


def scores(block: Block, params: Decision) -> Array:
    """As a pass: decision values of a block's features (or of its rows as they are)."""
    row_map, planes = params
    return passes.scores(block if row_map is None else embed_block(block, row_map), planes)


def check_and_score(block: Block, params: Decision) -> Array | tuple[int, int]:
    """As `scores`; where a row holds NaN or infinity, its place (row of the matrix, column) instead."""
    if not np.isfinite(inspect.magnitude(block)):
        return inspect.first_nonfinite(block)
    return scores(block, params)


def embed_block(block: Block, row_map: Map) -> Block:
    """The block with features for rows."""
    return Block(block.index, block.start, block.stop, row_map.apply(block))


def map_few_rows(row_map: Map | Columns, rows: Any) -> Any:
    """Features of a few rows, of an array or of scipy CSR rows; sparse features are scipy CSR rows too."""
    found: list[Any] = [row_map.apply(block) for block in open_dataset(rows, n_jobs=1).blocks]
    if isinstance(found[0], Csr):
        return sparse.vstack([part.to_scipy() for part in found], format="csr")
    return np.concatenate(found)


def from_arrays(content: Any, arrays: dict[str, Array]) -> Map | None:
    """The map that a model's files hold, which were looked at; None where it works on raw rows."""
    if content is None:
        return None
    if "transform" in content:
        inner = from_arrays({key: value for key, value in content.items() if key != "transform"}, arrays)
        assert inner is not None
        first = content["transform"]
        if first["kind"] == "views":
            return compose(views_from_arrays(first, arrays), inner)
        return compose(Transform.from_arrays(first, arrays, inner.n_features), inner)
    if content["kind"] == "views":
        return views_from_arrays(content, arrays)
    if content["kind"] == "nystroem":
        return Nystroem.from_arrays(content, arrays)
    if content["kind"] in ("anchors", "anchored places"):
        return AnchorMap.from_arrays(content, arrays)
    if content["kind"] in TRANSFORMS:
        return Transform.from_arrays(content, arrays, arrays["coef"].shape[1])
    unit = content["unit" if content["kind"] == "projection" else "unit_rows"]
    projection = Projection(arrays["map_w"], arrays["map_b"], unit)
    if content["kind"] == "projection":
        return projection
    points, scale, own = arrays["map_points"], arrays["map_scale"], content.get("own", 0.0)
    values = points if own else arrays["map_values"]
    return Manifold(projection, points, scale, values, content["n_neighbors"], content["unit"], own)
