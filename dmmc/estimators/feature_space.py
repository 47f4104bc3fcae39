"""Where a search takes place: over the rows as they are, or over features of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.data.open import open_dataset
from dmmc.engine import Engine
from dmmc.estimators.context import FitContext
from dmmc.features import nystroem
from dmmc.features.build import Ask, Built, build
from dmmc.features.mapped_rows import mapped
from dmmc.features.maps import Map
from dmmc.features.nystroem import Kernel, Nystroem
from dmmc.machine import count_threads
from dmmc.model.geometry import measure
from dmmc.solvers import starts

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer


@contextmanager
def make_features(model: "MarginClusterer", context: FitContext) -> Iterator[FitContext]:
    """The context of a search in the features that the model asks for, with a graph start's labels where it does.

    `row_map` of the context is set where there are features, and `merge_tree` where groups were merged along the graph.
    """
    engine, geometry = context.engine, context.geometry
    by_graph = isinstance(model.init, str) and model.init == "graph"
    by_kernel = model.features == "nystroem"
    rows, row_map = None, None
    if by_graph or model.features not in ("raw", "nystroem"):
        features = "raw" if by_kernel else model.features
        ask = Ask(features, model.n_clusters, model.n_neighbors, context.seed, count_threads(model.n_jobs), by_graph)
        built = build(ask, engine.dataset, engine.run, engine.rows, geometry, context.remember, context.limit)
        row_map, rows = built.row_map, built.rows
        context = replace(context, notes={**built.notes})
        if by_graph:
            merged = context.remember(
                "join", lambda: _merge_groups(context, built, model.n_clusters), k=model.n_clusters
            )
            context = replace(context, merge_tree=merged["tree"])
            engine.use(engine.dataset.with_columns(given=merged["labels"]))
    if by_kernel:
        row_map, chosen = model.make_kernel_map(context)
        context = replace(context, notes={**context.notes, **chosen})
    if row_map is None:
        yield context
        return
    name = f"{model.features} features of {engine.dataset.name}"
    with model.enter_features(engine, row_map, None if by_kernel else rows, name) as inner:
        its_geometry, limited = measure(inner.dataset, inner.rows, "none")
        if limited is not inner.dataset:
            inner.use(limited)
        its_geometry = replace(its_geometry, fingerprint=geometry.fingerprint)
        yield replace(context, engine=inner, geometry=its_geometry, row_map=row_map)


def enter_features(engine: Engine, row_map: Map, rows: Array | None, name: str) -> AbstractContextManager[Engine]:
    """An engine over features: those that are at hand (`rows`), or each block's, computed anew in each pass."""
    if rows is None:
        return mapped(engine, row_map, name)
    return enter_rows(engine, rows, name)


def enter_rows(engine: Engine, rows: Array, name: str) -> AbstractContextManager[Engine]:
    """An engine over features that are at hand, with the weights and given labels of the engine's rows."""
    named = replace(open_dataset(rows), name=name)
    return engine.over(named.with_columns(engine.dataset.weight, engine.dataset.given))


def make_kernel_map(context: FitContext, ask: nystroem.Ask) -> tuple[Nystroem, dict[str, Any]]:
    """Landmarks and the width of a kernel, and what was chosen for it."""
    dataset: Rows = context.engine.dataset
    geometry = context.geometry

    def make() -> dict[str, Array]:
        found = nystroem.nystroem(ask, dataset, geometry)
        return {"points": found.points, "root": found.root, "gamma": np.array([found.kernel.gamma])}

    made = context.remember("landmarks", make)
    gamma = float(made["gamma"][0])
    kernel = Kernel(ask.kernel, gamma, ask.degree, ask.coef0)
    row_map = Nystroem(kernel, made["points"], geometry.mean, geometry.norm / geometry.unit, made["root"])
    chosen = {"kernel": ask.kernel, "gamma": gamma, "n_components": len(made["points"]), "landmarks": ask.landmarks}
    return row_map, chosen


def _merge_groups(context: FitContext, built: Built, n_clusters: int) -> dict[str, Array]:
    """Labels of a graph start, and the tree of its groups."""
    assert built.spectral is not None
    with context.engine.over(open_dataset(built.spectral)) as grouping:
        geometry, _ = measure(grouping.dataset, grouping.rows, "none")
        return starts.start_from_graph(
            grouping.dataset, grouping, geometry, built.graph, n_clusters, context.seed
        )._asdict()
