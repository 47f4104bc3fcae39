"""What hyperplanes cost before any row pays: a norm of W, and the master that goes with it."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dmmc import master, trace_master
from dmmc.master import Planes, Solved

Array = NDArray[Any]

FADED = 1e-12
"""Singular values below this fraction of the largest are rounding."""


class Norm(Protocol):
    """A regulariser of W (K, d)."""

    by_row: bool
    """Whether its master needs the inner products of all rows of the planes, or only those of whole planes."""
    accuracy: float
    """The master is solved to this fraction of the current gap, or to what the problem asks for if that is more."""
    inward: float
    """How far from the master's lowest point back to the best point the next plane is cut."""

    def cost(self, W: Array) -> float:
        """What W costs."""
        ...

    def solve(self, planes: Planes, last: Array, C: float, box: float, tolerance: float) -> tuple[Solved, Array]:
        """The lowest point over the planes: multipliers, biases and values, and W.

        Parameters
        ----------
        planes : the working set, with the multipliers to start from
        last : the W at which the last plane was cut
        C, box, tolerance : as of `master.solve`
        """
        ...


class Frobenius:
    """Half the squared Euclidean norm, (E2) and (E7)."""

    by_row = False
    accuracy = 0.0
    inward = 0.0

    def cost(self, W: Array) -> float:
        """``1/2 |W|^2``."""
        return 0.5 * float(np.sum(W**2))

    def solve(self, planes: Planes, last: Array, C: float, box: float, tolerance: float) -> tuple[Solved, Array]:
        """The master (E6)."""
        solved = master.solve(planes.gram, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance)
        return solved, _sum(planes, solved.multipliers)


class TraceNorm:
    """Half the squared trace norm (E9): hyperplanes in a subspace of few dimensions cost less."""

    by_row = True
    accuracy = 0.3
    inward = 0.7

    def cost(self, W: Array) -> float:
        """``1/2 |W|_*^2``, with the sum of the singular values."""
        return 0.5 * float(np.linalg.svd(W, compute_uv=False).sum()) ** 2

    def solve(self, planes: Planes, last: Array, C: float, box: float, tolerance: float) -> tuple[Solved, Array]:
        """The master of the trace norm, for K x K unknowns besides the multipliers."""
        solved, mixing, weights = trace_master.solve(
            planes.gram, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance
        )
        return solved, mixing @ _sum(planes, weights)


class Alternation:
    """The trace norm as paper 001 prints it: W for a fixed D, then ``D = (W'W)^1/2 / tr``, from ``D = I / d`` on.

    D loses rank at once, and W never leaves the range of D: after the first master no direction outside the span of
    the first hyperplanes is ever tried (MATH.md, section 4). Its bounds are those of the problem with D as it is.
    """

    by_row = False
    accuracy = 0.0
    inward = 0.0

    def cost(self, W: Array) -> float:
        """``1/2 |W|_*^2``, which is what W costs with the D that is made of it."""
        return TRACE_NORM.cost(W)

    def solve(self, planes: Planes, last: Array, C: float, box: float, tolerance: float) -> tuple[Solved, Array]:
        """(E6) with ``G = Z D Z'`` and ``W = V D``; D is a thin factor made of the last W."""
        m, K, d = planes.points.shape
        if not last.any():
            solved = master.solve(
                planes.gram / d, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance
            )
            return solved, _sum(planes, solved.multipliers) / d
        _, sigma, directions = np.linalg.svd(last, full_matrices=False)
        kept = sigma > FADED * sigma[0]
        factor = np.sqrt(sigma[kept] / sigma[kept].sum())[:, None] * directions[kept]
        rows = (planes.slopes.reshape(m * K, d) @ factor.T).reshape(m, -1)
        solved = master.solve(rows @ rows.T, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance)
        return solved, (solved.multipliers @ rows).reshape(K, -1) @ factor


def _sum(planes: Planes, multipliers: Array) -> Array:
    """``V = sum_k lam_k Z_k``."""
    return planes._replace(multipliers=multipliers).weights()


FROBENIUS = Frobenius()
TRACE_NORM = TraceNorm()
ALTERNATION = Alternation()
