"""Where a search over several views takes place: each view measured and transformed by itself, all side by side."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dmmc.data.dataset import View
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators import feature_space
from dmmc.features.build import Ask, make_projection
from dmmc.features.mapped_rows import fit_in_cache, mapped
from dmmc.features.transforms import Transform
from dmmc.features.view_map import ByView, Columns, ViewPart
from dmmc.model.geometry import measure
from dmmc.time_limit import TimeLimit

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer

Prepared = tuple[Engine, Transform | ByView | None, str]
"""An engine over prepared rows, what prepares them, and how their columns are to be scaled."""


@contextmanager
def prepare_rows(model: "MarginClusterer", engine: Engine, seed: int, limit: TimeLimit) -> Iterator[Prepared]:
    """Transform rows as the model asks; several views become one row, whose scale is settled."""
    views = engine.dataset.views
    if not views:
        name, by_graph, k = model.transform_name, model.wants_graph, int(model.n_clusters)
        with feature_space.transform_rows(engine, name, by_graph, seed, k, model.n_jobs) as (inner, transform):
            yield inner, transform, model.scale
        return
    if model.method == "smmc":
        raise InputError(f"{len(views)} views were given, and method 'smmc' takes one; 'lsmmc' and 'cpmmc' take more.")
    bounds = np.cumsum([0, *(view.n_features for view in views)]).tolist()
    parts = []
    for view, (start, stop) in zip(views, pairwise(bounds), strict=True):
        columns = Columns(bounds[-1], start, stop, view.is_sparse)
        with mapped(engine, columns, view.name) as seen:
            parts.append(_prepare_view(model, seen, view, len(views), seed, limit))
    found = ByView(tuple(parts))
    with mapped(engine, found, engine.dataset.name, keep=fit_in_cache(engine.dataset, found)) as inner:
        yield inner, found, "none"


def _prepare_view(
    model: "MarginClusterer", engine: Engine, view: View, count: int, seed: int, limit: TimeLimit
) -> ViewPart:
    """How one of `count` views becomes features with a mean squared norm of 1 / count."""
    k, share = int(model.n_clusters), 1.0 / np.sqrt(count)
    with feature_space.transform_rows(engine, model.transform_name, model.wants_graph, seed, k) as (inner, transform):
        geometry, _ = measure(inner.dataset, inner.rows, model.scale)
        if not view.is_sparse:
            return ViewPart(view.n_features, False, transform, None, share / geometry.unit)
        cells = transform is not None and transform.kind == "log-normalise"
        ask = Ask("axes", k, 0, seed, 1, graph=False, by_angle=not cells)
        axes = make_projection(ask, inner.dataset, limit.guard(inner.run, "axes were computed"), geometry)
        return ViewPart(view.n_features, True, transform, axes, np.full(axes.n_values, share))
