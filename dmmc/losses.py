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


LOSSES: dict[str, PiecewiseLinear] = {"hinge": Hinge()}
