"""Where a search takes place: over the rows as they are or transformed, or over features of them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.data.open import open_dataset
from dmmc.engine import Engine
from dmmc.estimators.anchor_space import AnchorSpace, enter_anchors, search_in, takes_anchors
from dmmc.estimators.context import FitContext
from dmmc.features import nystroem, transforms
from dmmc.features.build import Ask, Built, build
from dmmc.features.judge_transforms import judge_transforms
from dmmc.features.mapped_rows import fit_in_cache, mapped
from dmmc.features.maps import Map
from dmmc.features.nystroem import Kernel, Nystroem
from dmmc.machine import count_threads

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer


@contextmanager
def transform_rows(
    engine: Engine, asked: str, by_graph: bool, seed: int, n_clusters: int, n_jobs: object = 1
) -> Iterator[Any]:
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
        kind = kinds[0]
        if by_graph and len(kinds) > 1:
            kind = judge_transforms(kinds, dataset, facts, n_clusters, seed, count_threads(n_jobs))
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
    if not by_graph and model.features in ("raw", "nystroem"):
        with _enter_kernel(model, context) if by_kernel else nullcontext(context) as inner:
            yield inner
        return
    with enter_graph(model, context, "raw" if by_kernel else model.features, by_graph) as built:
        context = replace(context, notes={**context.notes, **built.notes})
        context = search_starts.add_starts(model, context, built)
        if by_kernel:
            with _enter_kernel(model, context) as inner:
                yield inner
        elif model.features == "raw":
            yield context
        elif isinstance(built, AnchorSpace):
            with built.enter_features(context, model.features) as inner:
                yield inner
        else:
            assert built.row_map is not None
            with enter_space(model, context, built.row_map, built.rows, model.features) as inner:
                yield inner


@contextmanager
def _enter_kernel(model: "MarginClusterer", context: FitContext) -> Iterator[FitContext]:
    """The context of a search in features of a kernel."""
    row_map, chosen = model.make_kernel_map(context)
    context = replace(context, notes={**context.notes, **chosen})
    with enter_space(model, context, row_map, None, model.features) as inner:
        yield inner


@contextmanager
def enter_graph(
    model: "MarginClusterer", context: FitContext, features: str, by_graph: bool
) -> Iterator[Built | AnchorSpace]:
    """Axes, a graph and features as a model asks for them; what takes long is remembered."""
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
    engine, data = context.engine, context.engine.dataset
    if takes_anchors(model, data.n_rows) and (by_graph or features not in ("axes", "lsa")):
        with enter_anchors(model, context, ask) as space:
            yield space
        return
    yield build(
        ask, data, engine.run, engine.rows, context.geometry, context.remember, context.limit, context.tell_part
    )


@contextmanager
def enter_space(
    model: "MarginClusterer", context: FitContext, row_map: Map, rows: Array | None, features: str
) -> Iterator[FitContext]:
    """The context of a search in features: those that are at hand (`rows`), or each block's, computed in each pass."""
    name = f"{features} features of {context.engine.dataset.name}"
    with model.enter_features(context.engine, row_map, rows, name) as inner:
        yield search_in(context, inner, row_map, model.outliers == "lower")


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
