"""The problem of stochastic gradient, and its State: all that is needed to go on after a crash."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.model.geometry import Geometry
from dmmc.model.losses import Loss
from dmmc.model.passes import Hyperplanes, Labelling

FITTED = 7000
"""Rows to visit while labels are fixed, in 2 to 20 epochs: the longer, the lower the optimum that is found then."""
FLAT = 1e-9
"""A loss that does not fall beyond this margin is flat at 0: there no row pulls."""


@dataclass(frozen=True)
class Problem:
    """`½|w|² + C mean loss(|f|)`, |b| <= balance, on centred and scaled rows."""

    loss: Loss
    C: float
    balance: float
    epsilon: float
    lowest: float
    highest: float
    geometry: Geometry
    seed: int
    rate: float | None
    """Of the published step; None for ours."""
    cccp: bool
    """Whether the loss's concave part is made linear, again and again."""
    fitting: int
    """Epochs with fixed labels."""
    may_raise: bool = False
    """Whether C may be raised, where w = 0 costs no more than the hyperplanes of the starts."""
    follow_start: bool = False
    """Whether the balance may be looser, where the start's clusters are uneven and the loss has wells."""

    @property
    def has_wells(self) -> bool:
        """Whether rows may be too far from the hyperplane: each cluster wants a mean score of its own, about ±1."""
        return bool(np.any(self.loss.table.slopes > 0))

    @property
    def is_flat(self) -> bool:
        """Whether no row near the hyperplane pulls, so that w = 0 is a local optimum whatever the bias."""
        return bool(self.loss.table.derivative(FLAT) >= 0)

    @property
    def nothing(self) -> float:
        """The mean loss of w = 0, with the bias and the sizes within bounds at which it is lowest (E28)."""
        table, share = self.loss.table, max(self.lowest, 1.0 - self.highest)
        biases = np.array([0.0, self.balance, *(knot for knot in table.knots if 0 < knot < self.balance)])
        return float(np.min((1.0 - share) * table.value(biases) + share * table.value(-biases)))

    def planes(self, point: "Point") -> Hyperplanes:
        """A point's hyperplane in raw coordinates."""
        return self.geometry.raw(point.w[None], np.array([point.b]), np.array([point.price]))


def epochs_to_fit(rows: int) -> int:
    """Epochs with fixed labels, for blocks of so many rows."""
    return min(max(2, -(-FITTED // rows)), 20)


class Point(NamedTuple):
    """A hyperplane on centred rows."""

    w: Array
    b: float
    price: float = 0.0
    value: float = np.inf


class Run(NamedTuple):
    """One restart."""

    number: int
    labelling: Labelling
    at: Point
    """Where the next epoch begins."""
    mean: Point
    """The average over the last epoch; not judged yet."""
    best: Point
    """The lowest that was judged, with both clusters within their bounds."""
    reference: Point
    """Where CCCP made the ramp's concave part linear."""
    epoch: int = 0
    value: float = np.inf
    """Of the last point that was judged."""
    moved: float = np.inf
    """How far the average went in the last epoch, relative to its norm."""
    steps: float = 0.0
    """Epochs of earlier rows that steps have got smaller for (a stream's)."""
    ended: str = ""
    raised: float = 1.0
    """C is so many times the problem's; the same in all runs."""
    late: float = 0.0
    """Epochs that the steps have got smaller for when labels are let go."""
    balance: float = 0.0
    """Most that |b| may be, the same in all runs; 0: the problem's."""


class State(NamedTuple):
    """All runs."""

    runs: tuple[Run, ...]
