"""Features and a graph from anchors: what is made of all rows by passes, and what the driver makes of the anchors."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dmmc.array_types import Array
from dmmc.features import graph
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.anchors import Anchors, Linked, Run, find_anchors, make_graph, sum_links
from dmmc.features.build import Ask, Remember, count_vectors, make_values, make_vectors
from dmmc.features.projection import Projection, scale_rows
from dmmc.machine import MIB
from dmmc.time_limit import TimeLimit

LEAST_ANCHORS, A_CLUSTER, MOST_ANCHORS = 5000, 50, 20_000
"""`n_anchors="auto"`: 5,000, or 50 a cluster where that is more, up to 20,000 ..."""
ROWS_AN_ANCHOR = 4
"""... but no more than one for so many rows."""
LINK_BYTES = 40
"""What a row's links take."""
KEPT = 256 * MIB
"""Blocks keep their links for the next pass if all of them together are no larger."""


class Anchored(NamedTuple):
    """Anchors, the graph between them, and what features were made of that."""

    projection: Projection
    anchors: Anchors
    key: str
    """By which blocks keep their links; "" where they do not."""
    graph: Any
    """Sparse (G, G)."""
    means: Array
    """(G, p) float32: mean places of the rows by their links to each anchor."""
    mass: Array
    """(G,): weight of the rows that are nearest to it."""
    vectors: Array | None
    """(G, m) leading eigenvectors of the graph, where they are wanted."""
    values: Array | None
    """(G, m) float32: the features that were asked for; None for raw ones and axes."""
    notes: dict[str, Any]
    """What is worth knowing: how many anchors, recall of the links, pieces that the graph falls into."""

    def map_places(self, values: Array, unit: bool, own: float = 0.0, beside: bool = False) -> AnchorMap:
        """A map of rows at their places on the axes."""
        values = np.ascontiguousarray(values, np.float32)
        return AnchorMap(None, self.anchors, values, unit, own, beside, self.key)

    def map_rows(self, of_places: AnchorMap) -> AnchorMap:
        """The same map, of rows."""
        return AnchorMap(self.projection, self.anchors, of_places.values, of_places.unit, of_places.own)

    def spectral(self) -> AnchorMap:
        """Eigenvectors of the graph as features, of places."""
        assert self.vectors is not None
        return self.map_places(scale_rows(self.vectors, unit=True), unit=True)

    def averages(self, own: float, beside: bool) -> AnchorMap:
        """Places averaged along the anchors, of places."""
        return self.map_places(self.means, unit=False, own=own, beside=beside)


def choose_count(asked: int | str, n_rows: int, n_clusters: int) -> int:
    """How many anchors are looked for: as asked, or by the number of clusters; never more than rows."""
    if not isinstance(asked, str):
        return min(asked, n_rows)
    wanted = min(max(LEAST_ANCHORS, A_CLUSTER * n_clusters), MOST_ANCHORS)
    return min(max(min(wanted, n_rows // ROWS_AN_ANCHOR), 3, 2 * n_clusters), n_rows)


def build_anchors(
    ask: Ask, projection: Projection, n_anchors: int, places: Run, remember: Remember, limit: TimeLimit
) -> Anchored:
    """Make the anchor graph and features from it.

    1. anchors: k-means centres of the rows on their axes
    2. the graph: a sum over the links of all rows
    3. its eigenvectors, and features of the anchors, here

    places : runs passes over rows at their places on the axes
    """
    p = places.dataset.n_features

    def find() -> dict[str, Array]:
        anchors, recall = find_anchors(places, n_anchors, ask.seed, limit)
        return {"points": anchors.points, "lists": anchors.lists, "recall": np.array([recall])}

    made = remember("anchors", find, p=p)  # 1
    anchors, G = Anchors(made["points"], made["lists"]), len(made["points"])
    key = anchors.key if LINK_BYTES * places.dataset.n_rows <= KEPT else ""

    def link() -> dict[str, Array]:
        linked: Linked = limit.guard(places.run, "rows were linked to anchors")(sum_links, anchors)
        A = make_graph(linked, anchors).tocoo()
        means = linked.weighted / np.maximum(linked.counts, 1e-300)[:, None]
        means[linked.counts <= 0] = anchors.points[linked.counts <= 0]
        edges = {"weight": A.data, "from": A.row.astype(np.int32), "to": A.col.astype(np.int32)}
        return {**edges, "means": means.astype(np.float32), "mass": linked.mass}

    found = remember("anchor_graph", link, G=G, p=p)  # 2
    A = sparse.csr_array((found["weight"], (found["from"], found["to"])), shape=(G, G))
    notes = {"graph": "anchors", "n_anchors": G, "recall": float(made["recall"][0]), "pieces": graph.pieces(A)}
    built = Anchored(projection, anchors, key, A, found["means"], found["mass"], None, None, notes)
    if ask.graph or ask.features == "spectral":  # 3
        m = count_vectors(ask.n_clusters, G + 1)  # few distinct rows are few anchors: all vectors tell them apart
        vectors = remember("spectral", lambda: {"vectors": make_vectors(A, m, limit)}, n=G, m=m)["vectors"]
        built = built._replace(vectors=vectors)
    if ask.features in ("smooth", "umap"):
        values = remember(
            "features", lambda: {"values": make_values(A, built.means, ask, limit)}, shapes="features of anchors", n=G
        )["values"]
        built = built._replace(values=values)
    return built
