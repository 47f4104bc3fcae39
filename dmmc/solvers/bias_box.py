"""The box of the biases (E1): around 0, or around the biases that the start's labels want.

Clusters of uneven sizes, or one that lies between others, want biases far from 0; in a box around 0 other clusters cost
less, whatever the rows say. So where the start's labels pull hard at the box, it moves while their convex problem is
solved, and only then: to the best biases so far, twice as wide each time. Small boxes come first, as nothing but planes
holds the biases, and planes cut far out tell little.

Two clusters, whose labels change inside the cutting plane, begin with that convex problem too. Where the box stays, or
where the biases give up a cluster, the search begins anew around 0; else labels change outside.
"""

import numpy as np

from dmmc.array_types import Array
from dmmc.master.dual_qp import Solved
from dmmc.solvers.cutting_plane_state import Problem, Run

PULL = 0.1
"""The box begins to move where the pull at it is more than this fraction of C."""
PULL_OF_TWO = 0.2
"""The same for two clusters: with less, starts are as often uneven by mistake, which a box around 0 mends."""
KEPT = 0.5
"""Two clusters: the smaller one keeps at least this part of the start's rows, or the box is around 0 after all."""


def solve_within(problem: Problem, run: Run) -> tuple[Solved, Array]:
    """Solve a run's master with biases in its box; the biases that it gives are around 0 again."""
    planes, centre = run.planes, run.centre
    rough = problem.norm.accuracy * min(run.gap / problem.C, 0.1)  # a coarse bound will do while the gap is wide
    budgets = problem.C if problem.pairs is None else problem.budgets
    if centre.size:
        planes = planes._replace(intercepts=planes.intercepts - planes.tilts @ centre)
    box, tolerance = run.reach or problem.box, max(0.01 * problem.epsilon, rough)
    solved, W = problem.norm.solve(planes, run.leader.W, budgets, box, tolerance)
    return (solved._replace(bias=centre + solved.bias) if centre.size else solved), W


def measure_pull(run: Run) -> float:
    """How much a wider box would lower the value of the last master, a unit of its half width (E27)."""
    return float(np.abs(run.planes.multipliers @ run.planes.tilts).sum())


def move(problem: Problem, run: Run) -> Run:
    """Move the box of a run whose convex problem is solved within it, or let it stay where it is from now on.

    It begins to move for a strong pull, and goes on until a box that is wider by a margin would not lower the objective
    by more than the tolerance. A reach of 0 says that it stays.
    """
    least = (PULL if problem.K > 1 else PULL_OF_TWO) * problem.C
    if measure_pull(run) > (problem.tolerance if run.centre.size else least):
        return run._replace(centre=run.leader.b, reach=2.0 * run.reach, narrowest=np.inf, waited=0)
    return run._replace(centre=run.leader.b if run.centre.size else run.centre, reach=0.0)


def has_lost_start(problem: Problem, before: Run, run: Run) -> bool:
    """Whether labels that were taken for the first time after the box has moved have given up one of two clusters.

    Where all rows are within the margin, as in many dimensions, free biases put nearly all of them on one side.
    """
    if problem.K > 1 or run.rounds > 1 or not run.centre.size:
        return False
    return bool(run.counts.min() < KEPT * before.counts.min())
