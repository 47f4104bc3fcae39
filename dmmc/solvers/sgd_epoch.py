"""One epoch of stochastic gradient as a pass: each block descends by itself from the common hyperplane (local SGD).

What a block comes to is weighted by what its rows weigh; the sum over all blocks, divided by the weight of all rows, is
where the next epoch begins. Rows are visited in an order that is drawn from (seed, run, epoch, block), so an epoch is
the same wherever its blocks are.
"""

from typing import NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.model.losses import Split, Table
from dmmc.model.passes import Hyperplanes, Labelling, labels_of
from dmmc.solvers.published_step import constant_step

PURPOSE = 6
"""Of the random streams."""


class Leg(NamedTuple):
    """What one run asks of an epoch."""

    run: int
    epoch: int
    """Number of it, for the order of the rows."""
    steps: float
    """Epochs that the steps have got smaller for."""
    W: Array
    """(d,) in raw coordinates, and ..."""
    b: float
    """... the bias on centred rows."""
    price: float
    labelling: Labelling | None
    """Labels that stay; None where a row's label is its side of the hyperplane."""
    reference: Hyperplanes | None
    """CCCP: where the concave part of the ramp was made linear."""
    seen: Hyperplanes | None
    """What to look at besides: loss and counts there."""


class Epoch(NamedTuple):
    """All runs, which share the read, and what they have in common."""

    legs: tuple[Leg, ...]
    mean: Array
    unit: Array
    table: Table
    """The loss of a row's own label."""
    given: Table
    """The convex loss of a given label."""
    C: float
    box: float
    seed: int
    rate: float | None
    """The published step, this over the number of the epoch and of the rows; None: 1 / (1 + C + rows visited)."""
    split: Split | None = None
    """CCCP: the two parts of the loss."""


class Came(NamedTuple):
    """Where a run has come to, times the weight of the rows, and what it saw."""

    W: Array
    b: float
    mean_W: Array
    """The average over the steps."""
    mean_b: float
    risk: float
    counts: Array


def descend(block: Block, params: Epoch) -> tuple[Came, ...]:
    """One epoch of each run over the rows of a block."""
    weight = block.weight
    rows = np.arange(block.stop - block.start) if weight is None else np.flatnonzero(weight > 0)
    total = float(len(rows) if weight is None else weight.sum())
    norms = _norms(block, params.mean, params.unit)
    found = []
    for leg in params.legs:
        risk, counts = _judge_plane(block, leg.seen, params.table)
        if len(rows):
            rng = np.random.default_rng([params.seed, PURPOSE, leg.run, leg.epoch, block.index])
            course = _course(block, params, leg, rng.permutation(rows), norms)
            path = kernels.descend(block.rows, params.mean, params.unit, course, leg.W, leg.b)
        else:
            path = kernels.Path(leg.W, leg.b, leg.W, leg.b)
        where = (total * path.W, total * path.b, total * path.mean_W, total * path.mean_b)
        found.append(Came(*where, risk, counts))
    return tuple(found)


def _course(block: Block, params: Epoch, leg: Leg, order: Array, norms: Array) -> kernels.Course:
    weight = np.empty(0)
    if block.weight is not None:
        weight = block.weight * (len(order) / block.weight.sum())
    labels, pulls, table = np.empty(0, np.int8), np.empty(0), params.table
    if leg.labelling is not None:
        labels, table = labels_of(block, leg.labelling, leg.run), params.given
    elif leg.reference is not None:
        assert params.split is not None
        pulls, table = _pulls(block, leg.reference, params.split.concave), params.split.convex
    begun = 0.0 if params.rate is not None else 1.0 + params.C + leg.steps * len(order)
    rate = 1.0 if params.rate is None else constant_step(params.rate, leg.steps, len(order))
    return kernels.Course(
        order=order,
        labels=np.ascontiguousarray(labels, np.int8),
        pulls=pulls,
        weight=weight,
        norms=norms,
        knots=table.knots,
        slopes=table.slopes,
        price=leg.price,
        C=params.C,
        box=params.box,
        begun=begun,
        rate=rate,
        careful=params.rate is None,
    )


def _pulls(block: Block, reference: Hyperplanes, concave: Table) -> Array:
    """The slope of the loss's concave part at the reference: of a ramp, rows beyond its plateau are pulled outwards."""
    F = kernels.scores(block.rows, reference.W, wide=False)[:, 0]
    y = np.where(F + (reference.b[0] + reference.price[0]) >= 0, 1.0, -1.0)
    piece = np.searchsorted(concave.knots, y * (F + reference.b[0]), side="left")
    pulls: Array = y * concave.slopes[piece]
    return pulls


def _judge_plane(block: Block, planes: Hyperplanes | None, table: Table) -> tuple[float, Array]:
    """Loss of the rows' own labels, and the weight on either side."""
    if planes is None:
        return 0.0, np.zeros(2)
    F = kernels.scores(block.rows, planes.W, wide=False)[:, 0]
    omega = np.ones(len(F)) if block.weight is None else block.weight
    own = F + (planes.b[0] + planes.price[0]) >= 0
    t = np.where(own, 1.0, -1.0) * (F + planes.b[0])
    above = float(omega[own].sum())
    risk = float(np.sum(omega * table.value(t)))
    return risk, np.array([float(omega.sum()) - above, above])


def judge(block: Block, params: tuple[Hyperplanes, Table]) -> tuple[float, Array]:
    """As a pass: loss at a hyperplane, and the weight on either side."""
    return _judge_plane(block, *params)


def count_labels(block: Block, labelling: Labelling) -> Array:
    """As a pass: weight of the rows of label 0 and of label 1."""
    labels = labels_of(block, labelling, 0)
    return np.bincount(labels, block.weight, minlength=2).astype(np.float64)


class Stretch(NamedTuple):
    """A hyperplane at several scales: those of w, and the bias of each, on centred rows."""

    planes: Hyperplanes
    b: float
    """Its own bias, on centred rows."""
    scales: Array
    biases: Array
    table: Table


def judge_stretched(block: Block, params: Stretch) -> Array:
    """As a pass: loss of the rows' own labels at each scale."""
    F = kernels.scores(block.rows, params.planes.W, wide=False)[:, 0] + (params.planes.b[0] - params.b)
    omega = np.ones(len(F)) if block.weight is None else block.weight
    each = zip(params.scales, params.biases, strict=True)
    return np.array([np.sum(omega * params.table.value(np.abs(scale * F + bias))) for scale, bias in each])


def _norms(block: Block, mean: Array, unit: Array) -> Array:
    """Squared norms of the rows, centred and scaled; kept with the block."""
    kept = block.cache.get("norms")
    if kept is None or not (np.array_equal(kept[0], mean) and np.array_equal(kept[1], unit)):
        kept = mean, unit, kernels.squared_distances(block.rows, mean, 1.0 / unit)
        block.cache["norms"] = kept
    return np.asarray(kept[2])
