"""Losses: what a row pays, as a function of its margin alone.

All losses of the five papers are piecewise linear, so a loss is a table that the kernels can read. To add one, write
its pieces as a frozen dataclass and put it into `LOSSES`; `tests/test_losses.py` then checks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Table(NamedTuple):
    """A piecewise linear function of the margin: `intercepts[p] + slopes[p] * t`, p = number of knots <= t."""

    knots: NDArray[np.float64]
    intercepts: NDArray[np.float64]
    slopes: NDArray[np.float64]


@dataclass(frozen=True)
class PiecewiseLinear:
    """`intercepts[p] + slopes[p] * t`, where p is the number of knots at or below the margin t."""

    knots: ClassVar[tuple[float, ...]]
    intercepts: ClassVar[tuple[float, ...]]
    slopes: ClassVar[tuple[float, ...]]

    @property
    def table(self) -> Table:
        """The pieces as the kernels read them."""
        return Table(*(np.asarray(part, np.float64) for part in (self.knots, self.intercepts, self.slopes)))

    @property
    def convex(self) -> PiecewiseLinear:
        """The convex loss that takes its place where labels are given: itself, unless it is capped."""
        return self

    def value(self, t: ArrayLike) -> NDArray[np.float64]:
        """Loss at margin t."""
        knots, intercepts, slopes = self.table
        piece = np.searchsorted(knots, t, side="right")
        out: NDArray[np.float64] = intercepts[piece] + slopes[piece] * np.asarray(t, np.float64)
        return out

    def derivative(self, t: ArrayLike) -> NDArray[np.float64]:
        """Slope at margin t; at a knot, that of the piece above it."""
        knots, _, slopes = self.table
        out: NDArray[np.float64] = slopes[np.searchsorted(knots, t, side="right")]
        return out


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
    def knots(self) -> tuple[float, ...]:  # type: ignore[override]
        """Where the ramp begins and ends."""
        return (-self.s, 1.0)

    @property
    def intercepts(self) -> tuple[float, ...]:  # type: ignore[override]
        """Of its pieces."""
        return (1.0 + self.s, 1.0, 0.0)

    slopes = (0.0, -1.0, 0.0)

    @property
    def convex(self) -> PiecewiseLinear:
        """The hinge."""
        return Hinge()


@dataclass(frozen=True)
class Compact(PiecewiseLinear):
    """max(0, |t - 1| - zeta), 0 <= zeta < 1: with t = |f| each cluster hugs its own hyperplane, f = 1 or f = -1."""

    zeta: float = 0.1

    @property
    def knots(self) -> tuple[float, ...]:  # type: ignore[override]
        """Sides of the well."""
        return (1.0 - self.zeta, 1.0 + self.zeta)

    @property
    def intercepts(self) -> tuple[float, ...]:  # type: ignore[override]
        """Of its pieces."""
        return (1.0 - self.zeta, 0.0, -1.0 - self.zeta)

    slopes = (-1.0, 0.0, 1.0)


CAP = 0.8
"""What a row pays at most for being far from its hyperplane, by paper 004's (23)."""


@dataclass(frozen=True)
class RobustCompact(PiecewiseLinear):
    """Two wells with a plateau: with t = |f|, `m(f - 1) + m(f + 1) - 0.8`, `m(u) = min(0.8, max(0, |u| - tau))`.

    It is paper 004's (23) plus 2.4: 0 in the wells, 0.8 for outliers, which pull no more. 0 <= tau <= 0.5; beyond 0.2
    the wells overlap, and the barrier between them is lower than the plateau.
    """

    tau: float = 0.1

    @property
    def knots(self) -> tuple[float, ...]:  # type: ignore[override]
        """Barrier, sides of the well, plateau."""
        return (abs(1.0 - CAP - self.tau), 1.0 - self.tau, 1.0 + self.tau, 1.0 + CAP + self.tau)

    @property
    def intercepts(self) -> tuple[float, ...]:  # type: ignore[override]
        """Of its pieces."""
        return (min(CAP, 2.0 - CAP - 2.0 * self.tau), 1.0 - self.tau, 0.0, -1.0 - self.tau, CAP)

    slopes = (0.0, -1.0, 0.0, 1.0, 0.0)

    @property
    def convex(self) -> PiecewiseLinear:
        """The well without its cap."""
        return Compact(self.tau)


LOSSES: dict[str, PiecewiseLinear] = {
    "hinge": Hinge(),
    "ramp": Ramp(),
    "compact": Compact(),
    "robust-compact": RobustCompact(),
}
"""By the names that `StochasticMMC` knows, with their default parameters."""
