"""Rows of several views as one row: each view transformed by itself, sparse ones on their axes, all of equal weight."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.features.projection import Projection
from dmmc.features.transforms import Transform


@dataclass(frozen=True)
class Columns:
    """Some columns of a row: one view.

    n_features : of the whole row
    start, stop : its columns
    is_sparse : whether it is given as sparse rows; else it is made dense
    """

    n_features: int
    start: int
    stop: int
    is_sparse: bool

    @property
    def n_values(self) -> int:
        """Columns of the view."""
        return self.stop - self.start

    def apply(self, block: Block) -> Array | Csr:
        """The block's rows as this view sees them."""
        rows = block.rows
        if not isinstance(rows, Csr):
            return np.ascontiguousarray(rows[:, self.start : self.stop])
        own = (rows.indices >= self.start) & (rows.indices < self.stop)
        before = np.concatenate([[0], np.cumsum(own)])
        columns = (rows.indices[own] - rows.indices.dtype.type(self.start)).astype(rows.indices.dtype)
        found = Csr(rows.data[own], columns, before[rows.indptr].astype(np.int64), self.n_values)
        return found if self.is_sparse else found.to_scipy().toarray()


class ViewPart(NamedTuple):
    """How the features of one view are made."""

    columns: int
    """Of its rows."""
    is_sparse: bool
    transform: Transform | None
    axes: Projection | None
    weight: Array
    """(m,): what each feature is multiplied by."""


@dataclass(frozen=True)
class ByView:
    """Features of all views side by side."""

    parts: tuple[ViewPart, ...]

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return sum(part.columns for part in self.parts)

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return sum(len(part.weight) for part in self.parts)

    @property
    def kind(self) -> str:
        """The transforms' names."""
        return ", ".join("none" if part.transform is None else part.transform.kind for part in self.parts)

    @property
    def views(self) -> list[Columns]:
        """Which columns are whose."""
        bounds = np.cumsum([0, *(part.columns for part in self.parts)]).tolist()
        return [
            Columns(bounds[-1], start, stop, part.is_sparse)
            for (start, stop), part in zip(pairwise(bounds), self.parts, strict=True)
        ]

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        return np.hstack(
            [_apply_part(part, view.apply(block), block) for part, view in zip(self.parts, self.views, strict=True)]
        )

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        contents, arrays = [], {}
        for number, part in enumerate(self.parts):
            content: dict[str, Any] = {
                "columns": part.columns,
                "sparse": part.is_sparse,
                "transform": None,
                "axes": None,
            }
            own = {"weight": part.weight}
            for name, made in (("transform", part.transform), ("axes", part.axes)):
                if made is not None:
                    content[name], more = made.to_arrays()
                    own.update(more)
            contents.append(content)
            arrays.update({name_array(number, name): values for name, values in own.items()})
        return {"kind": "views", "views": contents}, arrays


def _apply_part(part: ViewPart, rows: Array | Csr, block: Block) -> Array:
    """Features of one view's rows."""
    if part.transform is not None:
        rows = part.transform.apply(replace(block, rows=rows, cache={}))
    if part.axes is not None:
        rows = part.axes.apply(replace(block, rows=rows, cache={}))
    assert isinstance(rows, np.ndarray)
    return (rows * part.weight).astype(np.float32)


def name_array(number: int, name: str) -> str:
    """What an array of this view is called in a file."""
    return f"view{number}_{name}"


def views_from_arrays(content: Any, arrays: dict[str, Array]) -> ByView:
    """The map again, from files that were looked at."""
    parts = []
    for number, about in enumerate(content["views"]):
        first = name_array(number, "")
        own = {name.removeprefix(first): values for name, values in arrays.items() if name.startswith(first)}
        transform = about["transform"] and Transform.from_arrays(about["transform"], own, about["columns"])
        axes = about["axes"] and Projection(own["map_w"], own["map_b"], about["axes"]["unit"])
        parts.append(ViewPart(about["columns"], about["sparse"], transform, axes, own["weight"]))
    return ByView(tuple(parts))
