"""A search along anchors: engines over places and over features from anchors, starts by the vote of anchors."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.open import open_dataset
from dmmc.engine import Engine
from dmmc.errors import NotFeasible
from dmmc.estimators.context import FitContext
from dmmc.features import graph
from dmmc.features.anchor_build import Anchored, build_anchors, choose_count
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.anchors import Ballot, Run, vote
from dmmc.features.build import Ask, check_features, count_axes, make_projection
from dmmc.features.graph_merge import cut_of
from dmmc.features.mapped_rows import fit_in_cache, mapped
from dmmc.features.maps import Map
from dmmc.features.projection import Projection
from dmmc.model.geometry import measure
from dmmc.model.packed_labels import pack_labels
from dmmc.model.passes import Hyperplanes, label_rows
from dmmc.solvers.graph_starts import merge_starts, stack_starts
from dmmc.solvers.medoid import find_medoid

if TYPE_CHECKING:
    from dmmc.estimators.fitting import MarginClusterer


def takes_anchors(model: "MarginClusterer", n_rows: int) -> bool:
    """Whether a graph of so many rows is one of anchors: where neighbours of rows would not be exact, or if asked."""
    return model.graph == "anchors" or (model.graph == "auto" and n_rows > graph.EXACT)


@dataclass(frozen=True)
class AnchorSpace:
    """The rows at their places on the axes, and the anchors that they are linked to."""

    places: Engine
    anchored: Anchored

    @property
    def notes(self) -> dict[str, object]:
        """What is worth knowing, for `choices_`."""
        return self.anchored.notes

    @contextmanager
    def enter_features(self, context: FitContext, features: str) -> Iterator[FitContext]:
        """The context of a search in features by their name, other than raw ones."""
        if features in ("axes", "lsa"):
            yield search_in(context, self.places, self.anchored.projection)
            return
        values = self.anchored.values
        of_places = self.anchored.spectral() if values is None else self.anchored.map_places(values, unit=False)
        with self.enter(of_places, f"{features} features of {context.engine.dataset.name}") as engine:
            yield search_in(context, engine, self.anchored.map_rows(of_places))

    def enter(self, of_places: AnchorMap, name: str) -> AbstractContextManager[Engine]:
        """An engine over features of places, kept for the next pass if they are small."""
        return mapped(self.places, of_places, name, keep=fit_in_cache(self.places.dataset, of_places))

    def start(self, context: FitContext, n_clusters: int, count: int, wanted: int) -> FitContext:
        """The context with labels to start from: groups of anchors merged along their graph, rows by their vote.

        count : how many starts are made
        wanted : how many are kept; one is the medoid of all
        """
        A, vectors = self.anchored, self.anchored.vectors
        assert vectors is not None

        def over(rows: Array) -> AbstractContextManager[Engine]:
            return self.places.over(open_dataset(rows).with_columns(np.maximum(A.mass, graph.LEAST)))

        def join() -> dict[str, Array]:
            return stack_starts(merge_starts(over, vectors, A.graph, n_clusters, count, context.seed, context.limit))

        made = context.remember("join", join, n=len(A.mass), k=n_clusters)
        labels, number = made["labels"], 0
        wanted = min(wanted, labels.shape[1])
        if wanted == 1:
            number = find_medoid(list(labels.T), A.mass)
            labels = labels[:, [number]]
        ballot = Ballot(A.anchors, A.key, labels[:, :wanted], n_clusters)
        context.engine.use(
            context.engine.dataset.with_columns(given=np.concatenate(list(self.places.rows(vote, ballot))))
        )
        return replace(context, merge_tree=made["trees"][number], n_given=wanted, anchor_labels=labels[:, :wanted])

    def cut(self, labels: Array) -> float:
        """Normalised cut of a labelling (G,) of the anchors."""
        return cut_of(self.anchored.graph, labels)

    def label_anchors(self, of_places: AnchorMap, planes: Hyperplanes) -> Array:
        """Labels (G,) of the anchors themselves, as if they were rows."""
        points = self.anchored.anchors.points
        features = replace(of_places, key="").apply(Block(0, 0, len(points), points))
        return label_rows(Block(0, 0, len(points), features), planes)


def search_in(context: FitContext, engine: Engine, row_map: Map, lower: bool = True) -> FitContext:
    """The context of a search over an engine's rows, which the map makes of the context's.

    lower : whether gross outliers get a small weight
    """
    geometry, limited = measure(engine.dataset, engine.rows, "none", lower)
    if limited is not engine.dataset:
        engine.use(limited)
    geometry = replace(geometry, fingerprint=context.geometry.fingerprint)
    return replace(context, engine=engine, geometry=geometry, row_map=row_map)


class Packing(NamedTuple):
    """What labels are taken by: several sets of hyperplanes, one a cluster."""

    planes: tuple[Hyperplanes, ...]


def pack_by_planes(block: Block, packing: Packing) -> Array:
    """As a pass: labels (m,) of each set, as the digits of one number."""
    return pack_labels([label_rows(block, planes) for planes in packing.planes], len(packing.planes[0].W))


@contextmanager
def enter_anchors(model: "MarginClusterer", context: FitContext, ask: Ask) -> Iterator[AnchorSpace]:
    """Axes, anchors and their graph, as a model asks for them; what takes long is remembered."""
    dataset, geometry, limit = context.engine.dataset, context.geometry, context.limit
    check_features(ask)
    if dataset.n_rows < 3:
        raise NotFeasible(f"{dataset.name} has {dataset.n_rows} rows; a graph of anchors needs at least 3.")

    def find_axes() -> dict[str, Array]:
        run = limit.guard(context.engine.run, "axes were computed")
        found = make_projection(ask, dataset, run, geometry)
        return {"w": found.W, "b": found.b}

    made = context.remember("axes", find_axes, shapes="axes of anchors", p=count_axes(ask, dataset.n_features))
    projection = Projection(made["w"], made["b"], unit=ask.by_angle or ask.unit)
    keep = fit_in_cache(dataset, projection)
    with mapped(context.engine, projection, f"axes of {dataset.name}", keep=keep) as places:

        def over(rows: Array, weight: Array | None) -> AbstractContextManager[Engine]:
            return places.over(open_dataset(rows).with_columns(weight))

        run = Run(places.dataset, places.run, over)
        count = choose_count(model.n_anchors, dataset.n_rows, model.n_clusters)
        yield AnchorSpace(places, build_anchors(ask, projection, count, run, context.remember, limit))
