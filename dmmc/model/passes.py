"""Passes: what one sweep over the data computes. Each is a pure function `(block, params) -> Stats`, and Stats add.

Hyperplanes in params are in raw coordinates (see `geometry`), so no pass needs to know about centring or scaling.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import TILE_ROWS, Block, Csr
from dmmc.errors import InputError
from dmmc.kernels import FROZEN, GIVEN, NEAREST, OWN, Sums
from dmmc.model.losses import Table
from dmmc.model.packed_labels import unpack_labels

AT_ONCE = 2**25
"""Scores of a block that are held at a time."""
Oracle = Callable[[Callable[..., Any], Any], Any]
"""A pass and its parameters to its sum over all blocks."""


class Hyperplanes(NamedTuple):
    """K hyperplanes in raw coordinates; `price` is added to the scores only where labels are taken."""

    W: Array
    b: Array
    price: Array

    @property
    def n_scores(self) -> int:
        """Decision values of a row."""
        return len(self.W)

    @property
    def wide(self) -> bool:
        """Whether they are scored side by side: it decides the last bits."""
        return len(self.W) > 1

    def decide(self, products: Array) -> Array:
        """Decision values (m, K) from `rows @ W.T`, prices included."""
        lift: Array = self.b + self.price
        return products + lift


class Tree(NamedTuple):
    """Hyperplanes in raw coordinates that split the rows again and again, until a leaf is a cluster.

    A row goes to child 1 of a node where f = W x + b is at least 0, else to child 0. Nodes come after their parents;
    node 0 is the root. A child is the number of a node, or -1 - c for the leaf that is cluster c.
    """

    W: Array
    b: Array
    children: Array
    """(nodes, 2) int64."""

    @property
    def n_scores(self) -> int:
        """Decision values of a row: one a leaf."""
        return len(self.W) + 1

    @property
    def wide(self) -> bool:
        """Always side by side, so that a split has the same bits whatever splits stand beside it."""
        return True

    def decide(self, products: Array) -> Array:
        """The least signed margin on the way to each leaf: at least 0 at the leaf that is reached, else below 0."""
        f = products + self.b
        # 0 goes to child 1, so at 0 the way to child 0 is next to nothing below 0
        towards = -np.where(f >= 0, np.maximum(f, np.finfo(np.float64).tiny), f), f
        reached = np.full(f.shape, np.inf)
        leaves = np.empty((len(f), self.n_scores))
        for node, children in enumerate(self.children):
            for margin, child in zip(towards, children, strict=True):
                least = np.minimum(reached[:, node], margin[:, node])
                (leaves if child < 0 else reached)[:, -1 - child if child < 0 else child] = least
        return leaves

    def is_valid(self) -> bool:
        """Whether every node but the root, and every leaf, is the child of one node that comes before it."""
        nodes, parents = len(self.W), np.arange(len(self.W))[:, None]
        if self.children.shape != (nodes, 2) or self.children.dtype != np.int64 or nodes == 0:
            return False
        inner = (self.children >= 0) <= (self.children > parents)
        wanted = np.concatenate([np.arange(-self.n_scores, 0), np.arange(1, nodes)])
        return bool(inner.all() and np.array_equal(np.sort(self.children, axis=None), wanted))


def scores(block: Block, planes: Hyperplanes | Tree) -> Array:
    """Decision values (m, K), prices included; of a tree, one a leaf."""
    return planes.decide(kernels.scores(block.rows, planes.W, wide=planes.wide))


def score_parts(block: Block, planes: Hyperplanes | Tree) -> Iterator[Array]:
    """Decision values of a block's rows, in parts that take little memory where there are many hyperplanes."""
    size = max(TILE_ROWS, AT_ONCE // planes.n_scores // TILE_ROWS * TILE_ROWS)
    for start in range(0, block.stop - block.start, size):
        yield planes.decide(kernels.scores(cut(block.rows, start, start + size), planes.W, wide=planes.wide))


def label_rows(block: Block, planes: Hyperplanes | Tree) -> Array:
    """Number of the hyperplane with the highest score, for each row; there may be thousands of them."""
    return np.concatenate([np.asarray(f.argmax(axis=1), np.int32) for f in score_parts(block, planes)])


def decide_labels(decision: Array) -> Array:
    """Labels from decision values: the sign of one, the largest of several; f = 0 is label 1, ties to the lowest."""
    labels = decision[:, 0] >= 0 if decision.shape[1] == 1 else decision.argmax(axis=1)
    return np.asarray(labels, kernels.label_type(decision.shape[1]))


class ByScores(NamedTuple):
    """Rows labelled by hyperplanes; `wide` selects the scoring kernel, whose order of addition differs."""

    planes: Hyperplanes
    wide: bool

    @property
    def key(self) -> str:
        """Equal keys, equal labels."""
        parts = (np.ascontiguousarray(part) for part in self.planes)
        return hashlib.sha1(b"".join(part.tobytes() for part in parts) + bytes([self.wide])).hexdigest()

    def of(self, block: Block) -> Array:
        """The block's labels."""
        W, b, price = self.planes
        found = []
        size = max(TILE_ROWS, AT_ONCE // len(W) // TILE_ROWS * TILE_ROWS)
        for start in range(0, block.stop - block.start, size):
            f = kernels.scores(cut(block.rows, start, start + size), W, wide=self.wide)
            # the additions in the order of the kernels, so that a recomputed label is the same label
            found.append(decide_labels(f + (b + price) if len(W) == 1 else (f + b) + price))
        return np.concatenate(found)


class Given(NamedTuple):
    """Labels that came with the data; of several labellings in one number, digit `place` to the base `base`."""

    key: str = "given"
    base: int = 0
    place: int = 0

    def of(self, block: Block) -> Array:
        """The block's labels."""
        if block.given is None:
            raise InputError("labels that came with the rows are asked for, and these rows have none.")
        labels = unpack_labels(block.given, self.base, self.place)
        return labels.astype(kernels.label_type(int(labels.max(initial=0)) + 1))


def list_given(n_clusters: int, count: int) -> list[Given]:
    """The labellings that were packed together."""
    return [Given(f"given {place}", n_clusters, place) for place in range(count)]


class Drawn(NamedTuple):
    """Random labels, the same for a block wherever it is."""

    seed: int
    run: int
    n_clusters: int

    @property
    def key(self) -> str:
        """Equal keys, equal labels."""
        return f"drawn {self.seed} {self.run} {self.n_clusters}"

    def of(self, block: Block) -> Array:
        """The block's labels."""
        rng = np.random.default_rng([self.seed, self.run, block.index])
        return rng.integers(self.n_clusters, size=block.stop - block.start, dtype=kernels.label_type(self.n_clusters))


Labelling = ByScores | Given | Drawn


def labels_of(block: Block, labelling: Labelling, run: int) -> Array:
    """Labels of a block, kept with it for the next pass; recomputed where they are not at hand."""
    key, labels = block.cache.get(run, (None, None))
    if key != labelling.key:
        labels = labelling.of(block)
        block.cache[run] = (labelling.key, labels)
    return np.asarray(labels)


class Request(NamedTuple):
    """What one run asks of a sweep: a plane at `at`, and if `relabel`, new labels there and the planes they move."""

    run: int
    at: Hyperplanes
    labelling: Labelling
    relabel: bool
    points: Array
    """(m, K, d) raw hyperplanes of the planes to move when labels change."""
    offsets: Array
    """(m, K) their biases."""
    frozen: bool
    """Planes keep the rows they were cut with (CCCP inside) or take the rows violated under the new labels."""
    prices: Array | None = None
    """(m, K) the prices with which the frozen planes' labels were taken; None: all 0."""


class Answer(NamedTuple):
    """Sums over the rows; the caller divides by the total weight."""

    at: Sums
    """The plane at the requested hyperplane: risk, intercept, tilt, weighted rows, counts."""
    flips: float
    """Weight of the rows whose label changed."""
    moved: Sums
    """What the flips add to the m planes."""


class Sweep(NamedTuple):
    """One sweep for all runs: they share the read."""

    requests: tuple[Request, ...]
    table: Table
    wide: bool
    summed: bool = False
    """Whether a row pays for its margins to all other labels, or to the runner-up alone."""


def sweep(block: Block, params: Sweep) -> tuple[Answer, ...]:
    """Planes at the requested hyperplanes (E4, E8), labels taken again where asked, and what the flips move."""
    requests, table, wide, summed = params
    old = np.stack([labels_of(block, request.labelling, request.run) for request in requests])
    sums, new = kernels.losses(
        block.rows,
        np.stack([request.at.W for request in requests]),
        np.stack([request.at.b for request in requests]),
        table,
        np.array([OWN if request.relabel else GIVEN for request in requests]),
        labels=old,
        price=np.stack([request.at.price for request in requests]),
        weight=block.weight,
        wide=wide,
        keep=True,
        summed=summed,
    )
    answers = []
    K = requests[0].at.W.shape[0]
    for g, request in enumerate(requests):
        span = slice(g * K, (g + 1) * K)
        own = Sums(sums.weighted[span], sums.tilt[span], sums.intercept[g], sums.risk[g], sums.counts[g])
        flips, moved = _sum_moved(block, request, params, old[g], new[g])
        answers.append(Answer(own, flips, moved))
        if request.relabel:
            block.cache[request.run] = (ByScores(request.at, wide).key, new[g])
    return tuple(answers)


def _sum_moved(block: Block, request: Request, params: Sweep, old: Array, new: Array) -> tuple[float, Sums]:
    """Only flips matter: each plane changes by its flipped rows' contributions under the new and the old labels."""
    m, K, d = request.points.shape if request.relabel else (0, *request.points.shape[1:])
    flipped = np.flatnonzero(old != new)
    weight = None if block.weight is None else block.weight[flipped]
    flips = float(len(flipped) if weight is None else weight.sum())
    if m == 0 or len(flipped) == 0:
        return flips, Sums(np.zeros((m * K, d)), np.zeros(m * K), np.zeros(m), np.zeros(m), np.zeros((m, max(K, 2))))
    rows = take(block.rows, flipped)
    modes = np.full(m, FROZEN if request.frozen else GIVEN)

    def at_points(labels: Array) -> Sums:
        given = np.repeat(labels[flipped][None], m, axis=0)
        return kernels.losses(
            rows,
            request.points,
            request.offsets,
            params.table,
            modes,
            given,
            request.prices,
            weight=weight,
            wide=params.wide,
            summed=params.summed,
        )[0]

    after, before = at_points(new), at_points(old)
    return flips, Sums(*(a - b for a, b in zip(after, before, strict=True)))


def take(rows: Array | Csr, chosen: Array) -> Array | Csr:
    """A block's chosen rows."""
    if isinstance(rows, Csr):
        lengths = np.diff(rows.indptr)[chosen]
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        where = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
        return Csr(rows.data[where], rows.indices[where], indptr, rows.n_features)
    return rows[chosen]


def nearest(block: Block, params: tuple[Array, Array]) -> Sums:
    """Sums of the rows nearest to each centre: one Lloyd pass for G sets of centres, given as `2c`, `-|c|^2`."""
    W, b = params
    table = Table(np.zeros(0), np.zeros(1), np.zeros(1))
    return kernels.losses(block.rows, W, b, table, np.full(len(W), NEAREST), weight=block.weight)[0]


class Image(NamedTuple):
    """For each of several directions, sums of `f x` and of `f`, with f the score of x."""

    weighted: Array
    tilt: Array


def second_moment(block: Block, planes: Hyperplanes) -> Image:
    """What the rows' second moment makes of the directions W; the biases centre the scores."""
    dtype = kernels.compute_dtype(block.rows.data.dtype if isinstance(block.rows, Csr) else block.rows.dtype)
    H, d = planes.W.shape
    image = Image(np.zeros((H, d)), np.zeros(H))
    for start in range(0, block.stop - block.start, 4096):
        rows = cut(block.rows, start, start + 4096)
        coef = kernels.scores(rows, planes.W) + planes.b
        if block.weight is not None:
            coef *= block.weight[start : start + 4096, None]
        coef = coef.astype(dtype)  # what is summed is what is counted
        image.weighted[:] += kernels.weighted_sum(rows, coef)
        image.tilt[:] += coef.sum(axis=0, dtype=np.float64)
    return image


def cut(rows: Array | Csr, start: int, stop: int) -> Array | Csr:
    """Rows start to stop of a block."""
    return rows.cut(start, min(stop, rows.n_rows)) if isinstance(rows, Csr) else rows[start:stop]


class Gaps(NamedTuple):
    """Histogram request: edges (k, bins + 1) of the lead of each label over all others."""

    planes: Hyperplanes
    edges: Array


def leads(block: Block, params: Gaps) -> Array:
    """Weight of the rows whose lead of label p falls into each of p's bins (k, bins + 2, open ends)."""
    edges = params.edges
    out, start = np.zeros((len(edges), edges.shape[1] + 1)), 0
    for f in score_parts(block, params.planes):
        weight = None if block.weight is None else block.weight[start : start + len(f)]
        start += len(f)
        if f.shape[1] == 1:
            f = np.hstack([np.zeros_like(f), f])
        k = f.shape[1]
        order = np.partition(f, k - 2, axis=1)
        top, second = order[:, -1], order[:, -2]
        for p in range(k):
            lead = f[:, p] - np.where(f[:, p] == top, second, top)
            where = np.searchsorted(edges[p], lead, side="right")
            out[p] += np.bincount(where, weight, minlength=out.shape[1])
    return out
