"""Where a search takes place: over the rows as they are or transformed, or over features of them."""

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
from dmmc.features import nystroem, transforms
from dmmc.features.build import Ask, Built, build
from dmmc.features.judge_transforms import judge_transforms
from dmmc.features.mapped_rows import fit_in_cache, mapped
from dmmc.features.maps import Map
from dmmc.features.nystroem import Kernel, Nystroem
from dmmc.machine import count_threads
from dmmc.model.geometry import measure

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer


@contextmanager
def transform_rows(engine: Engine, asked: str, by_graph: bool, seed: int, n_clusters: int) -> Iterator[Any]:
    """An engine over transformed rows, and the transform; the engine itself and None where rows stay as they are.

    asked : name of the transform; "auto" chooses it by what the rows look like and, where a graph of them will be
        made, by the graphs of a sample
    """
    if asked == "none":
        yield engine, None
        return
    dataset = engine.dataset
    facts = transforms.look_at_rows(dataset, engine.rows)
    kind = asked
    if asked == "auto":
        kinds = transforms.suggest(dataset, facts)
        kind = judge_transforms(kinds, dataset, facts, n_clusters, seed) if by_graph and len(kinds) > 1 else kinds[0]
    if kind == "none":
        yield engine, None
        return
    found = transforms.make_transform(kind, dataset, facts)
    name = f"{kind} rows of {dataset.name}"
    with mapped(engine, found, name, keep=fit_in_cache(dataset, found)) as inner:
        yield inner, found


@contextmanager
def make_features(model: "MarginClusterer", context: FitContext) -> Iterator[FitContext]:
    """The context of a search in the features that the model asks for, with starts that were made on the way there.

    `row_map` of the context is set where there are features, and `merge_tree` where groups were merged along the graph.
    """
    from dmmc.estimators import search_starts

    by_graph, by_kernel = model.start_name == "graph", model.features == "nystroem"
    built, row_map, rows = None, None, None
    if by_graph or model.features not in ("raw", "nystroem"):
        built = build_features(model, context, "raw" if by_kernel else model.features, by_graph)
        row_map, rows = built.row_map, built.rows
        context = replace(context, notes={**context.notes, **built.notes})
        context = search_starts.add_starts(model, context, built)
    if by_kernel:
        row_map, chosen = model.make_kernel_map(context)
        rows, context = None, replace(context, notes={**context.notes, **chosen})
    if row_map is None:
        yield context
        return
    with enter_space(model, context, row_map, rows, model.features) as inner:
        yield inner


def build_features(model: "MarginClusterer", context: FitContext, features: str, by_graph: bool) -> Built:
    """Axes, neighbours and features as a model asks for them; what takes long is remembered."""
    kind = None if context.transform is None else context.transform.kind
    sparse = context.engine.dataset.is_sparse and kind != "log-normalise"
    ask = Ask(
        features,
        model.n_clusters,
        model.n_neighbors,
        context.seed,
        count_threads(model.n_jobs),
        by_graph,
        by_angle=sparse or features == "lsa",
        unit=kind in ("unit", "sqrt-unit"),
    )
    engine = context.engine
    return build(ask, engine.dataset, engine.run, engine.rows, context.geometry, context.remember, context.limit)


@contextmanager
def enter_space(
    model: "MarginClusterer", context: FitContext, row_map: Map, rows: Array | None, features: str
) -> Iterator[FitContext]:
    """The context of a search in features: those that are at hand (`rows`), or each block's, computed in each pass."""
    name = f"{features} features of {context.engine.dataset.name}"
    with model.enter_features(context.engine, row_map, rows, name) as inner:
        geometry, limited = measure(inner.dataset, inner.rows, "none")
        if limited is not inner.dataset:
            inner.use(limited)
        geometry = replace(geometry, fingerprint=context.geometry.fingerprint)
        yield replace(context, engine=inner, geometry=geometry, row_map=row_map)


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
