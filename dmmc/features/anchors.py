"""Anchors: a few thousand centres of the rows, to which every row is linked, and the graph between them (E41).

Anchors are k-means centres of the rows on their axes. A row is linked to the five nearest ones; what rows link to
together is near. All that needs the rows is a sum over blocks: the centres of a Lloyd pass, the graph of the anchors,
averages over their rows. So nothing of the graph is as long as the data, and a block's links are found where it lies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Rows
from dmmc.features import graph
from dmmc.features.graph import Index, Neighbours
from dmmc.time_limit import TimeLimit

LINKS = 5
"""Anchors that a row is linked to; the next one's distance is its scale."""
STEEP = 2.0
"""The weight of a link is exp(-2 d² / σ²), before those of a row are made to add up to 1."""
COARSE = 20_000
"""Anchors beyond which a row is compared with those of the nearest lists only, of which there are about √G."""
PROBES = 16
"""Lists that are looked through for a row."""
TRAINING = 10
"""Passes over the anchors that make the lists."""
SAMPLE = 20
"""Rows an anchor in the sample on which centres move first."""
SAMPLE_PASSES, PASSES = 5, 1
"""Lloyd passes over the sample; over all rows, where there are more."""
ASKED = 1000
"""Rows on which the recall of the lists is measured."""


class Links(NamedTuple):
    """The anchors that rows are linked to, nearest first."""

    who: Array
    """(m, s) int32, their numbers."""
    weight: Array
    """(m, s) float32, adding up to 1 in a row."""

    def to_matrix(self, n_anchors: int) -> Any:
        """B, sparse (m, anchors)."""
        m, s = self.who.shape
        weight = self.weight.astype(np.float64).ravel()
        return sparse.csr_array((weight, self.who.ravel(), np.arange(0, m * s + 1, s)), shape=(m, n_anchors))

    def average(self, values: Array) -> Array:
        """`B values` (m, q), of values (anchors, q), added up in float64 from the nearest anchor on."""
        out = np.zeros((len(self.who), values.shape[1]))
        _average(self.who, self.weight, values, out)
        return out


@njit(cache=True, nogil=True)
def _average(who: Array, weight: Array, values: Array, out: Array) -> None:
    for i in range(who.shape[0]):
        for j in range(who.shape[1]):
            w, a = np.float64(weight[i, j]), who[i, j]
            for q in range(values.shape[1]):
                out[i, q] += w * values[a, q]


@dataclass(frozen=True)
class Anchors:
    """Points to which rows are linked.

    points : (G, p) float32
    lists : (C, p) float32, centres of lists of anchors, where there are many; none of them: all are compared
    """

    points: Array
    lists: Array
    _index: list[Any] = field(default_factory=list, init=False, repr=False, compare=False)
    _lock: Any = field(default_factory=Lock, init=False, repr=False, compare=False)

    @classmethod
    def at(cls, points: Array) -> Anchors:
        """With lists where there are many."""
        points = np.ascontiguousarray(points, np.float32)
        return cls(points, _make_lists(points) if len(points) > COARSE else points[:0])

    def __reduce__(self) -> tuple[Any, ...]:
        return Anchors, (self.points, self.lists)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def key(self) -> str:
        """Equal keys, equal links."""
        return hashlib.sha1(self.points.tobytes() + self.lists.tobytes()).hexdigest()

    def nearest(self, places: Array, count: int) -> Neighbours:
        """The nearest anchors of rows (m, p): what a row gets does not depend on the rows beside it."""
        with self._lock:
            if not self._index:
                self._index.append(Index(self.points, 1, exact=True) if not len(self.lists) else _Listed(self))
        found: Neighbours = self._index[0].nearest(places, count)
        return found

    def link(self, places: Array) -> Links:
        """The links of rows (m, p), weighted by their own scale."""
        s = min(LINKS, len(self.points) - 1)
        found = self.nearest(places, s + 1)
        squared = found.distance**2
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.exp(-STEEP * squared[:, :s] / np.maximum(squared[:, s:], 1e-24))
        w /= w.sum(axis=1, keepdims=True)
        return Links(found.who[:, :s].astype(np.int32), w.astype(np.float32))

    def recall(self, places: Array) -> float:
        """Part of the linked anchors of rows (m, p) that are their nearest ones; 1 where all are compared."""
        if not len(self.lists):
            return 1.0
        s = min(LINKS, len(self.points) - 1)
        truth, found = Index(self.points, 1, exact=True).nearest(places, s).who, self.nearest(places, s).who
        return float(np.mean([len(np.intersect1d(a, b)) / s for a, b in zip(truth, found, strict=True)]))


class _Listed:
    """Anchors in lists; the lists of a row are found exactly, so that they are the same whatever rows stand beside."""

    def __init__(self, anchors: Anchors) -> None:
        import faiss

        self._points, self._lists = anchors.points, Index(anchors.lists, 1, exact=True)
        flat = faiss.IndexFlatL2(anchors.points.shape[1])
        self._index = faiss.IndexIVFFlat(flat, anchors.points.shape[1], len(anchors.lists))
        self._index.nprobe = min(PROBES, len(anchors.lists))
        with graph.use_threads(1):
            flat.add(anchors.lists)
            self._index.is_trained = True
            self._index.add(anchors.points)

    def nearest(self, places: Array, count: int) -> Neighbours:
        """The nearest anchors of the nearest lists."""
        asked = np.ascontiguousarray(places, np.float32)
        lists = self._lists.nearest(asked, self._index.nprobe)
        with graph.use_threads(1):
            search: Any = self._index.search_preassigned
            _, candidates = search(asked, count + graph.SPARE, lists.who, lists.distance.astype(np.float32))
        who, squared = np.empty((len(asked), count), np.int64), np.empty((len(asked), count))
        graph.rank_candidates(self._points, asked, candidates, who, squared)
        return Neighbours(who, np.sqrt(squared))


def _make_lists(points: Array) -> Array:
    """Centres of about √G lists of anchors (G, p)."""
    import faiss

    count = int(np.sqrt(len(points)))
    with graph.use_threads(1):
        found = faiss.Kmeans(points.shape[1], count, niter=TRAINING, seed=1)
        found.train(points)
    return np.ascontiguousarray(found.centroids, np.float32)


class Moved(NamedTuple):
    """Sums over the rows that are nearest to each anchor."""

    weighted: Array
    """(G, p)."""
    counts: Array
    """(G,)."""


def sum_nearest(block: Block, anchors: Anchors) -> Moved:
    """As a pass over places: one Lloyd pass."""
    nearest = anchors.nearest(block.rows, 1).who[:, 0]  # type: ignore[arg-type]
    m, G = len(nearest), len(anchors)
    weight = np.ones(m) if block.weight is None else block.weight
    member = sparse.csr_array((weight, (nearest, np.arange(m))), shape=(G, m))
    return Moved(np.asarray(member @ np.asarray(block.rows, np.float64)), np.bincount(nearest, weight, minlength=G))


class Linked(NamedTuple):
    """Sums over all rows and their links B."""

    graph: Any
    """`Bᵀ Ω B`, sparse (G, G)."""
    counts: Array
    """(G,): weight of the links to each anchor."""
    mass: Array
    """(G,): weight of the rows nearest to it."""
    weighted: Array
    """(G, p): places of the rows, by the weight of their links."""


def sum_links(block: Block, anchors: Anchors) -> Linked:
    """As a pass over places: what the rows' links add up to."""
    links = link_block(block, anchors, "")
    B, rows = links.to_matrix(len(anchors)), np.asarray(block.rows, np.float64)
    weight = np.ones(len(rows)) if block.weight is None else block.weight
    heavy = (B * weight[:, None]).T.tocsr()
    mass = np.bincount(links.who[:, 0], weight, minlength=len(anchors))
    together = sparse.csr_array(heavy @ B)
    together.sort_indices()
    return Linked(together, np.asarray(heavy.sum(axis=1)).ravel(), mass, np.asarray(heavy @ rows))


def link_block(block: Block, anchors: Anchors, key: str) -> Links:
    """The links of a block of places, kept with it for the next pass where there is a key."""
    known = block.cache.get("links")
    if key and known is not None and known[0] == key:
        links: Links = known[1]
        return links
    links = anchors.link(block.rows)  # type: ignore[arg-type]
    if key:
        block.cache["links"] = (key, links)
    return links


class Ballot(NamedTuple):
    """What a vote is taken on: labels (G, starts) of the anchors of one to several clusterings into k clusters."""

    anchors: Anchors
    key: str
    labels: Array
    n_clusters: int


def vote(block: Block, ballot: Ballot) -> Array:
    """As a pass over places: packed labels (m,) of rows by the weighted vote of their anchors; ties to the lowest."""
    links = link_block(block, ballot.anchors, ballot.key)
    packed = np.zeros(len(links.who), np.int64)
    for labels in ballot.labels.T[::-1]:
        winner = np.empty(len(packed), np.int64)
        _elect(links.who, links.weight, labels.astype(np.int64), winner)
        packed = packed * ballot.n_clusters + winner
    return packed


@njit(cache=True, nogil=True)
def _elect(who: Array, weight: Array, labels: Array, winner: Array) -> None:
    s = who.shape[1]
    for i in range(who.shape[0]):
        most, best = -1.0, np.int64(0)
        for j in range(s):
            own, total = labels[who[i, j]], 0.0
            for q in range(s):
                if labels[who[i, q]] == own:
                    total += np.float64(weight[i, q])
            if total > most or (total == most and own < best):
                most, best = total, own
        winner[i] = best


class Run(NamedTuple):
    """What an engine over places does: `run` sums a pass over all rows, `over` makes an engine over other ones."""

    dataset: Rows
    run: Callable[[Callable[..., Any], Any], Any]
    over: Callable[[Array, Array | None], AbstractContextManager[Any]]


def find_anchors(places: Run, count: int, seed: int, limit: TimeLimit) -> tuple[Anchors, float]:
    """k-means centres of the rows on their axes, and the recall of the links to them.

    1. a seeded sample of the rows that count; some of its rows are where the centres begin
    2. Lloyd passes over the sample, then over all rows
    3. centres without rows are left out
    """
    dataset, weight = places.dataset, places.dataset.weight
    known = np.arange(dataset.n_rows) if weight is None else np.flatnonzero(weight > 0)
    rng = np.random.default_rng([seed, 11])
    chosen = known[np.sort(rng.choice(len(known), min(len(known), SAMPLE * count), replace=False, shuffle=False))]  # 1
    sample = np.asarray(dataset.take(chosen), np.float32)
    points = sample[np.sort(rng.permutation(len(sample))[:count])]
    with places.over(sample, None if weight is None else weight[chosen]) as engine:  # 2
        points, alive = _move(limit.guard(engine.run, _WHERE), points, SAMPLE_PASSES)
    if len(chosen) < len(known):
        points, alive = _move(limit.guard(places.run, _WHERE), points, PASSES)
    alive[:2] |= np.count_nonzero(alive) < 2  # rows that are all the same have two of them, too
    anchors = Anchors.at(points[alive])  # 3
    return anchors, anchors.recall(sample[:: max(1, len(sample) // ASKED)])


_WHERE = "anchors were looked for"


def _move(run: Callable[..., Any], points: Array, passes: int) -> tuple[Array, Array]:
    """Points after Lloyd passes, and which of them have rows."""
    alive = np.ones(len(points), bool)
    for _ in range(passes):
        sums: Moved = run(sum_nearest, Anchors.at(points))
        alive = sums.counts > 0
        means = sums.weighted / np.where(alive, sums.counts, 1.0)[:, None]
        points = np.where(alive[:, None], means, points).astype(np.float32)
    return points, alive


def make_graph(linked: Linked, anchors: Anchors) -> Any:
    """The graph of the anchors: `Bᵀ Ω B` without its diagonal; one that no row is linked to hangs on its nearest."""
    A = linked.graph.tocoo()
    apart = A.row != A.col
    W = sparse.csr_array((A.data[apart], (A.row[apart], A.col[apart])), shape=A.shape)
    alone = np.flatnonzero(np.asarray(W.sum(axis=1)).ravel() <= 0)
    if len(alone):
        near = graph.drop_self(anchors.nearest(anchors.points[alone], 2), alone).who[:, 0]
        little = np.full(len(alone), graph.LEAST)
        W = W + sparse.csr_array((little, (alone, near)), shape=A.shape)
    return W.maximum(W.T).tocsr()  # the same weight both ways, to the last bit
