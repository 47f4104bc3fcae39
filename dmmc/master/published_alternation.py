"""The trace norm with the schedule that paper 001 prints (`schedule="paper"`), for comparison with the joint one."""

import numpy as np

from dmmc.array_types import Array
from dmmc.master import dual_qp
from dmmc.master.dual_qp import Solved
from dmmc.master.norms import TRACE_NORM, Budgets, sum_slopes
from dmmc.master.planes import Planes

FADED = 1e-12
"""Singular values below this fraction of the largest are rounding."""


class Alternation:
    """The trace norm as paper 001 prints it: W for a fixed D, then ``D = (W'W)^1/2 / tr``, from ``D = I / d`` on.

    D loses rank at once, and W never leaves the range of D: after the first master no direction outside the span of
    the first hyperplanes is ever tried (docs/mathematics.md, "Subspace"). Its bounds are those of the problem with D as
    it is.
    """

    by_row = False
    accuracy = 0.0
    inward = 0.0

    def cost(self, W: Array) -> float:
        """``1/2 |W|_*^2``, which is what W costs with the D that is made of it."""
        return TRACE_NORM.cost(W)

    def solve(self, planes: Planes, leader: Array, C: Budgets, box: float, tolerance: float) -> tuple[Solved, Array]:
        """(E6) with ``G = Z D Z'`` and ``W = V D``; D is a thin factor made of the last W."""
        m, K, d = planes.points.shape
        if not leader.any():
            solved = dual_qp.solve(
                planes.gram / d, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance
            )
            return solved, sum_slopes(planes, solved.multipliers) / d
        _, sigma, directions = np.linalg.svd(leader, full_matrices=False)
        kept = sigma > FADED * sigma[0]
        factor = np.sqrt(sigma[kept] / sigma[kept].sum())[:, None] * directions[kept]
        rows = (planes.slopes.reshape(m * K, d) @ factor.T).reshape(m, -1)
        solved = dual_qp.solve(rows @ rows.T, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance)
        return solved, (solved.multipliers @ rows).reshape(K, -1) @ factor


ALTERNATION = Alternation()
