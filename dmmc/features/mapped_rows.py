"""An engine whose rows are features of another one's, computed block by block in each pass; small ones may be kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block, block_bounds
from dmmc.data.dataset import Rows, Stored, cut_finer
from dmmc.features import maps
from dmmc.features.maps import Map
from dmmc.features.transforms import Transform
from dmmc.features.view_map import Columns
from dmmc.machine import MIB

if TYPE_CHECKING:
    from dmmc.engine import Engine

KEPT = 256 * MIB
"""Blocks keep their features for the next pass if all of them together are no larger."""


class Mapped:
    """Passes over features.

    engine : has the rows
    row_map : makes features of them
    name : how to call the features in a message
    keep : whether blocks keep their features for the next pass
    """

    def __init__(self, engine: Engine, row_map: Map | Columns, name: str, keep: bool = False) -> None:
        self._engine = engine
        self._map = row_map
        self._name = name
        self._key = uuid.uuid4().hex if keep else None

    @property
    def dataset(self) -> Rows:
        """The features, as something that lies in a store."""
        rows = self._engine.dataset
        reader = _Features(self._engine, self._map)
        m, sparse = self._map.n_values, _stay_sparse(rows, self._map)
        return Stored(
            self._name,
            rows.n_rows,
            m,
            rows.dtype if isinstance(self._map, Columns) else np.dtype(np.float32),
            sparse,
            rows.bounds,
            rows.nnz if sparse else rows.n_rows * m,
            reader,
            rows.weight,
            rows.given,
            reader.take,
            row_ids=rows.row_ids,
            feature_names=_name_features(rows, self._map),
        )

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        self._engine.use(self._engine.dataset.with_columns(dataset.weight, dataset.given))

    def over(self, dataset: Rows) -> AbstractContextManager[Engine]:
        """An engine of the same kind over other rows."""
        return self._engine.over(dataset)

    def run(self, work: Callable[[Block, Any], Any], params: Any) -> Any:
        """Sum of `work(block, params)` over all blocks of features."""
        return self._engine.run(_Through(work), (self._map, params, self._key))

    def rows(self, work: Callable[[Block, Any], Any], params: Any) -> Iterator[Any]:
        """`work(block, params)` of each block of features, in block order."""
        return self._engine.rows(_Through(work), (self._map, params, self._key))


@contextmanager
def mapped(engine: Engine, row_map: Map | Columns, name: str, keep: bool = False) -> Iterator[Mapped]:
    """Passes over features, in blocks that are small as features too."""
    rows = engine.dataset
    bounds = rows.bounds if _stay_sparse(rows, row_map) else _finer(rows.bounds, row_map.n_values)
    if len(bounds) == len(rows.bounds):
        yield Mapped(engine, row_map, name, keep)
        return
    with _cut_engine(engine, bounds) as inner:
        yield Mapped(inner, row_map, name, keep)


@contextmanager
def _cut_engine(engine: Engine, bounds: Array) -> Iterator[Engine]:
    """The same rows in smaller blocks; features are those of smaller blocks of rows."""
    if isinstance(engine, Mapped):
        with _cut_engine(engine._engine, bounds) as inner:
            yield Mapped(inner, engine._map, engine._name, engine._key is not None)
    else:
        with engine.over(cut_finer(engine.dataset, bounds)) as inner:
            yield inner


def _stay_sparse(rows: Rows, row_map: Map | Columns) -> bool:
    """Whether the features are sparse rows too."""
    if isinstance(row_map, Columns):
        return row_map.is_sparse
    return rows.is_sparse and isinstance(row_map, Transform)


def _name_features(rows: Rows, row_map: Map | Columns) -> tuple[str, ...] | None:
    """Names of the columns, where they are still those of the rows."""
    if isinstance(row_map, Columns) and rows.feature_names is not None:
        return rows.feature_names[row_map.start : row_map.stop]
    return rows.feature_names if isinstance(row_map, Transform) else None


def fit_in_cache(rows: Rows, row_map: Map | Columns) -> bool:
    """Whether the features of all rows are small enough to be kept between passes."""
    sparse = _stay_sparse(rows, row_map)
    return (8 * rows.nnz if sparse else 4 * rows.n_rows * row_map.n_values) <= KEPT


def _finer(bounds: Array, n_values: int) -> Array:
    """Blocks cut again where their features would be larger than a block may be."""
    parts = [start + block_bounds(stop - start, n_values, 4)[:-1] for start, stop in pairwise(bounds)]
    return np.append(np.concatenate(parts), bounds[-1])


class _Through:
    """A pass over features as a pass over rows: by its own name, and it pickles."""

    def __init__(self, work: Callable[[Block, Any], Any]) -> None:
        self.work = work
        self.__name__ = work.__name__
        self.__qualname__ = f"{work.__qualname__} of features"
        self.__module__ = work.__module__

    def __reduce__(self) -> tuple[Any, ...]:
        return _Through, (self.work,)

    def __call__(self, block: Block, params: tuple[Map | Columns, Any, str | None]) -> Any:
        row_map, inner, key = params
        known = block.cache.get("features")
        if key is None or known is None or known["key"] != key:
            known = {"key": key, "rows": row_map.apply(block)}
        if key is not None:
            block.cache["features"] = known
        # what is kept with features is not what is kept with rows
        return self.work(replace(block, rows=known["rows"], cache=block.cache if key is None else known), inner)


class _Features:
    """Reads features: maps the rows that it takes."""

    def __init__(self, engine: Engine, row_map: Map | Columns) -> None:
        self._engine = engine
        self._map = row_map

    def take(self, rows: Array) -> Any:
        """Features of a few rows: an array, or scipy CSR rows."""
        return maps.map_few_rows(self._map, self._engine.dataset.take(rows))

    def read(self, start: int, stop: int) -> Any:
        """Features of rows start to stop."""
        return self.take(np.arange(start, stop))

    def load(self, n_jobs: int | None) -> Any:
        """All features."""
        return self.read(0, self._engine.dataset.n_rows)
