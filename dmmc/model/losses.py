"""Losses: what a row pays, as a function of its margin alone.

All losses of the five papers are piecewise linear, so a loss is a table that the kernels can read. To add one, write
its pieces as a frozen dataclass and put an instance into `LOSSES`, or pass the instance to an estimator as `loss`;
`tests/model/test_losses.py` checks all that are in `LOSSES`.
"""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Floats
from dmmc.errors import InputError


class Table(NamedTuple):
    """A piecewise linear function of the margin: `intercepts[p] + slopes[p] * t`, p = number of knots <= t."""

    knots: Floats
    intercepts: Floats
    slopes: Floats

    def value(self, t: ArrayLike) -> Floats:
        """The function at margins t."""
        piece = np.searchsorted(self.knots, t, side="right")
        out: Floats = self.intercepts[piece] + self.slopes[piece] * np.asarray(t, np.float64)
        return out

    def derivative(self, t: ArrayLike) -> Floats:
        """Slopes at margins t; at a knot, that of the piece above it."""
        out: Floats = self.slopes[np.searchsorted(self.knots, t, side="right")]
        return out


def make_table(knots: ArrayLike, intercepts: ArrayLike, slopes: ArrayLike) -> Table:
    """A table of float64."""
    return Table(*(np.asarray(part, np.float64) for part in (knots, intercepts, slopes)))


class Split(NamedTuple):
    """A loss of t = |f| as the sum of two functions of f, up to a constant: what CCCP makes linear is the second."""

    convex: Table
    concave: Table


class Loss(Protocol):
    """The parts of a loss. A solver names those that it needs; see `solvers.required_parts`."""

    @property
    def table(self) -> Table:
        """The loss of a row's margin t under its own label."""
        ...

    @property
    def surrogate(self) -> Table:
        """The convex loss that is minimised where labels are given; it is the loss itself around its minimum."""
        ...

    @property
    def split(self) -> Split:
        """Convex and concave part of loss(|f|)."""
        ...


@dataclass(frozen=True)
class PiecewiseLinear:
    """`intercepts[p] + slopes[p] * t`, where p is the number of knots at or below the margin t.

    A subclass gives `knots`, `intercepts` and `slopes`, or the `table`; the other parts are made of it.
    """

    knots: ClassVar[tuple[float, ...]]
    intercepts: ClassVar[tuple[float, ...]]
    slopes: ClassVar[tuple[float, ...]]

    @property
    def table(self) -> Table:
        """The pieces as the kernels read them."""
        return make_table(self.knots, self.intercepts, self.slopes)

    @property
    def surrogate(self) -> Table:
        """The convex pieces around the minimum, the outermost two prolonged: the hinge of a ramp."""
        knots, intercepts, slopes = table = self.table
        if not knots.size:
            return table
        lowest = int(np.argmin(table.value(knots)))
        first, last = lowest, lowest + 1
        while first > 0 and slopes[first - 1] < slopes[first]:
            first -= 1
        while last < knots.size and slopes[last + 1] > slopes[last]:
            last += 1
        return Table(knots[first:last], intercepts[first : last + 1], slopes[first : last + 1])

    @property
    def split(self) -> Split:
        """The bends at which the slope of loss(|f|) rises, and those at which it falls."""
        knots, _, slopes = table = self.table
        bends, positive = np.diff(slopes), knots > 0
        start = float(table.value(0.0)), float(table.derivative(0.0))
        rises, falls = positive & (bends > 0), positive & (bends < 0)
        return Split(
            _bend(start[0], max(start[1], 0.0), knots[rises], bends[rises]),
            _bend(0.0, min(start[1], 0.0), knots[falls], bends[falls]),
        )

    def value(self, t: ArrayLike) -> Floats:
        """Loss at margin t."""
        return self.table.value(t)

    def derivative(self, t: ArrayLike) -> Floats:
        """Slope at margin t; at a knot, that of the piece above it."""
        return self.table.derivative(t)


def _bend(value: float, slope: float, knots: Floats, bends: Floats) -> Table:
    """The table of a continuous function with this value and slope at 0, whose slope changes by `bends` at `knots`."""
    return Table(knots, value - np.cumsum([0.0, *(bends * knots)]), np.cumsum([slope, *bends]))


@dataclass(frozen=True)
class Hinge(PiecewiseLinear):
    """max(0, 1 - t): rows inside the margin pay. With t = |f|, or the lead over the runner-up, it is (E2) or (E7)."""

    knots = (1.0,)
    intercepts = (1.0, 0.0)
    slopes = (-1.0, 0.0)


@dataclass(frozen=True)
class Ramp(PiecewiseLinear):
    """min(1 + s, max(0, 1 - t)), -1 < s <= 0: rows within -s of the hyperplane pay alike, and pull no more.

    With t = |f| it is the symmetric ramp `R(f) + R(-f)` of paper 004 less its constant, 1 - s; at s = 0, the hinge.
    """

    s: float = -0.5

    @property
    def table(self) -> Table:
        """Plateau, slope, nothing."""
        return make_table((-self.s, 1.0), (1.0 + self.s, 1.0, 0.0), (0.0, -1.0, 0.0))


@dataclass(frozen=True)
class Compact(PiecewiseLinear):
    """max(0, |t - 1| - zeta), 0 <= zeta < 1: with t = |f| each cluster hugs its own hyperplane, f = 1 or f = -1."""

    zeta: float = 0.3

    @property
    def table(self) -> Table:
        """One side of the well, its floor, the other side."""
        zeta = self.zeta
        return make_table((1.0 - zeta, 1.0 + zeta), (1.0 - zeta, 0.0, -1.0 - zeta), (-1.0, 0.0, 1.0))


CAP = 0.8
"""What a row pays at most for being far from its hyperplane, by paper 004's (23)."""


@dataclass(frozen=True)
class RobustCompact(PiecewiseLinear):
    """Two wells with a plateau: with t = |f|, `m(f - 1) + m(f + 1) - 0.8`, `m(u) = min(0.8, max(0, |u| - tau))`.

    It is paper 004's (23) plus 2.4: 0 in the wells, 0.8 for outliers, which pull no more. 0 <= tau <= 0.5; beyond 0.2
    the wells overlap, and the barrier between them is lower than the plateau.
    """

    tau: float = 0.2

    @property
    def table(self) -> Table:
        """Barrier, side, floor, side, plateau."""
        tau = self.tau
        return make_table(
            (abs(1.0 - CAP - tau), 1.0 - tau, 1.0 + tau, 1.0 + CAP + tau),
            (min(CAP, 2.0 - CAP - 2.0 * tau), 1.0 - tau, 0.0, -1.0 - tau, CAP),
            (0.0, -1.0, 0.0, 1.0, 0.0),
        )


LOSSES: dict[str, Loss] = {
    "hinge": Hinge(),
    "ramp": Ramp(),
    "compact": Compact(),
    "robust-compact": RobustCompact(),
}
"""The losses that a parameter `loss` knows by name, with their default parameters."""


def resolve_loss(loss: object, **parameters: float) -> Loss:
    """The loss of a name in `LOSSES`, with those of the parameters that it has; or a loss object, checked."""
    if isinstance(loss, str) and loss in LOSSES:
        named: Any = LOSSES[loss]
        own = {field.name for field in fields(named)} if is_dataclass(named) else set()
        chosen = {name: float(value) for name, value in parameters.items() if name in own}
        return replace(named, **chosen) if chosen else named  # type: ignore[no-any-return]
    if isinstance(loss, type) and hasattr(loss, "table"):
        raise InputError(f"loss is the class {loss.__name__}; an instance is wanted, such as {loss.__name__}().")
    if isinstance(loss, str) or not hasattr(loss, "table"):
        names = ", ".join(map(repr, LOSSES))
        raise InputError(f"loss is {loss!r}; choose one of {names}, or pass a loss object such as Ramp(s=-0.3).")
    _check_table(loss)
    return loss  # type: ignore[return-value]


def _check_table(loss: Any) -> None:
    """Refuse a table that the kernels would misread."""
    knots, intercepts, slopes = (np.asarray(part, np.float64) for part in loss.table)
    shapes = knots.ndim == 1 and intercepts.shape == slopes.shape == (len(knots) + 1,)
    if not (shapes and np.all(np.diff(knots) > 0) and np.isfinite([*knots, *intercepts, *slopes]).all()):
        raise InputError(
            f"the table of the loss {loss!r} holds {knots.size} knots, {intercepts.size} intercepts and {slopes.size} "
            "slopes; finite knots in rising order and one intercept and slope more than knots are wanted."
        )
    if not np.allclose(intercepts[:-1] + slopes[:-1] * knots, intercepts[1:] + slopes[1:] * knots, atol=1e-9):
        raise InputError(f"the loss {loss!r} jumps at a knot; pieces that meet at the knots are wanted.")
