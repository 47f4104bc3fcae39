"""How stochastic gradient sets out from the hyperplane fitted to a start, where w = 0 would cost no more (E28, E29).

Near w = 0 the objective says nothing of labels, but it may be the lowest there: where the loss is flat around 0 (the
ramp, the robust compact loss) and C is small beside the norm that a margin takes, as it is in many dimensions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.model.passes import Oracle
from dmmc.solvers import sgd_epoch
from dmmc.solvers.sgd_state import Point, Problem, Run

CLEAR = 0.8
"""Share of what w = 0 costs that the hyperplane of a start may cost, where the loss is flat; and where C is raised."""
RAISED = 1e6
"""C is raised at most so many times."""
SCALES = 2.0 ** (np.arange(41) / 4)
"""By which it may be stretched."""


class Stretched(NamedTuple):
    """A point at several scales: its biases there, half its squared norms, and the mean losses."""

    point: Point
    biases: Array
    norms: Array
    risks: Array

    def at(self, number: int) -> Point:
        """The point at one of the scales."""
        return Point(float(SCALES[number]) * self.point.w, float(self.biases[number]))

    def list_C(self, clear: float) -> Iterator[float]:
        """For each scale the C at which it costs `clear` times C, if there is one (E29)."""
        for norm, room in zip(self.norms, clear - self.risks, strict=True):
            if room > 0:
                yield float(norm / room)


def is_clear(problem: Problem, values: list[float]) -> bool:
    """Whether one of the starts, of these objectives, costs clearly less than w = 0."""
    return min(values) <= (CLEAR if problem.is_flat else 1.0) * problem.C * problem.nothing


def set_out(runs: tuple[Run, ...], problem: Problem, oracle: Oracle) -> tuple[Run, ...]:
    """The runs at hyperplanes that are stretched, and with a C that is raised, until w = 0 costs more.

    1. what each start costs at several scales, one pass each
    2. if C may be raised: the least one at which one of the starts costs clearly less than w = 0
    3. each begins at the scale at which it costs least. Where w = 0 costs less still it stays as large as it is, with
       a bias no larger beside w than where its rows pay least
    4. steps go on as small as they have become, as larger ones would forget the start
    """
    starts = [_stretch(run.mean, problem, oracle) for run in runs]  # 1
    C, nothing = problem.C, problem.nothing
    if problem.may_raise:  # 2
        needed = min((one for start in starts for one in start.list_C(CLEAR * nothing)), default=C)
        C = min(max(C, needed), RAISED * C)
    late = float(problem.fitting) if problem.rate is None else 0.0  # 4
    found = []
    for run, start in zip(runs, starts, strict=True):
        costs = start.norms + C * start.risks
        lowest = int(np.argmin(costs))  # 3
        if costs[lowest] < C * nothing:
            begin = start.at(lowest)
        else:
            least = int(np.argmin(start.risks))
            begin = Point(run.mean.w, float(start.biases[least] / SCALES[least]))
        found.append(run._replace(at=begin, mean=begin, reference=begin, raised=C / problem.C, late=late))
    return tuple(found)


def _stretch(point: Point, problem: Problem, oracle: Oracle) -> Stretched:
    biases = np.clip(SCALES * point.b, -problem.balance, problem.balance)
    asked = sgd_epoch.Stretch(problem.planes(point), point.b, SCALES, biases, problem.loss.table)
    risks = oracle(sgd_epoch.judge_stretched, asked) / problem.geometry.total
    return Stretched(point, biases, 0.5 * float(point.w @ point.w) * SCALES**2, risks)
