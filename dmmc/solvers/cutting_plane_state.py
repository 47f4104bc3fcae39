"""What cutting-plane MMC is about (Problem), and all that is needed to go on (State): plain tuples of arrays."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.master.norms import FROBENIUS, Norm
from dmmc.master.planes import Planes
from dmmc.model.geometry import Geometry
from dmmc.model.losses import Loss, Table
from dmmc.model.passes import Labelling
from dmmc.pairs.losses import PairLosses
from dmmc.solvers import state_shapes
from dmmc.solvers.state_shapes import (
    COUNTED,
    REACH,
    Between,
    Each,
    Either,
    Flag,
    Numbers,
    OneOf,
    Spec,
    Whole,
    describe_labelling,
    describe_planes,
)

SETTLED = 0.03
"""The fall that CCCP inside counts as none, as a fraction of the objective; paper 000 prints 0.01."""
ROUNDING = 1e-9
"""Of shares, and of inner products."""
FARTHEST = 1e16
"""No row is as far out, in units of the root mean squared norm."""


@dataclass(frozen=True)
class Problem:
    """(E2) for K = 1, (E7) for K = k > 2, or with another norm of the hyperplanes, on centred and scaled rows."""

    n_clusters: int
    C: float
    balance: float
    epsilon: float
    inside: bool
    lowest: float
    """Least weight of a cluster, as a fraction of all rows (0: no bound)."""
    highest: float
    geometry: Geometry
    sample: Callable[[], Any]
    """Gives a few scaled rows (dense ones are centred too), from which a dying cluster is seeded again."""
    loss: Loss
    wide: bool
    """Whether hyperplanes are scored side by side; fixed for a fit, as it decides the last bits of the scores."""

    k_wide: bool = False
    """Use one hyperplane a cluster for two clusters too (the same problem with C / 2)."""
    summed: bool = False
    """Whether a row pays for its margins to all other clusters (003), or to the runner-up alone."""
    pairs: PairLosses | None = None
    """What linked rows pay (E14, E15)."""
    guarded: bool = False
    """Whether the bounds are loose, a guard against collapse rather than a wish: then the search ends at them."""
    norm: Norm = FROBENIUS
    """What the hyperplanes cost."""
    alpha: float = SETTLED
    """CCCP inside is settled when a step lowers the working set's objective by no more than this fraction."""
    from_start: bool = False
    """Whether biases are bounded around those that the start's labels want, where these are not nearly 0."""

    @property
    def K(self) -> int:
        """Hyperplanes a run: one for two clusters, else one a cluster."""
        return 1 if self.n_clusters == 2 and not self.k_wide else self.n_clusters

    @property
    def box(self) -> float:
        """Bound of each bias (E1); with k biases a common shift is free."""
        return self.balance if self.K == 1 else self.balance / 2

    @property
    def first_reach(self) -> float:
        """The first box of biases whose centre may move; 0 where it may not."""
        return self.box if self.from_start else 0.0

    @property
    def budgets(self) -> tuple[float, ...]:
        """The weight of each loss: of margins, and where rows are linked, of must-links and of cannot-links."""
        return (self.C,) if self.pairs is None else (self.C, self.pairs.C_must, self.pairs.C_cannot)

    @property
    def tolerance(self) -> float:
        """The gap at which a convex problem counts as solved."""
        return self.C * self.epsilon

    @property
    def nothing(self) -> float:
        """The objective at w = 0, b = 0."""
        per_row = float(self.table.value(0.0))
        return self.C * per_row * max(1, self.K - 1) if self.summed else self.C * per_row

    @property
    def table(self) -> Table:
        """What a row pays under a fixed label."""
        return self.loss.surrogate


class Point(NamedTuple):
    """Hyperplanes on centred rows, and what they cost."""

    W: Array
    b: Array
    price: Array
    value: float


class Run(NamedTuple):
    """One restart."""

    number: int
    planes: Planes
    labelling: Labelling
    at: Point
    """Where the next plane is cut; its value is the master's lower estimate there."""
    best: Point
    """Lowest J seen, with labels taken at the point itself and all clusters alive."""
    leader: Point
    """Outside: lowest J_y seen for the labels y of this round. Inside: the last point."""
    inside: bool
    relabel: bool = False
    """Whether the next pass takes labels again."""
    seen: float = np.inf
    """The history's `best`: the lowest J seen; before labels are first taken again, J_y of the labels at hand."""
    opened: float = np.inf
    """Outside: J where this round's labels were taken. Inside: the master's value before the last labels."""
    bound: float = 0.0
    """Certified lower bound of min J_y for the labels of the last master."""
    narrowest: float = np.inf
    """Smallest gap of this round (outside)."""
    waited: int = 0
    """Passes since the best point was found (inside) or the gap was narrowed (outside)."""
    counts: Array = np.zeros(0)
    """Share of the weight that each cluster has."""
    flips: float = 0.0
    repriced: bool = False
    """Whether the labels about to be taken use prices found for this very point."""
    reseeded: int = 0
    ended: str = ""
    """"", "converged", "stalled" (the gap no longer narrows) or "count bound" (a cluster fell to its guard)."""
    objective: float = np.inf
    """J_y at the point of the last pass."""
    rounds: int = 0
    """How often labels were taken (CCCP)."""
    centre: Array = np.zeros(0)
    """(K,) around which biases are bounded; empty is around 0."""
    reach: float = 0.0
    """How far from it they may be before labels are first taken, if the centre may still move until then; else 0."""

    @property
    def gap(self) -> float:
        """What is certified of the current convex problem: no (w, b) has a J_y lower than the leader's by more."""
        return max(0.0, self.leader.value - self.bound)


class State(NamedTuple):
    """All runs."""

    runs: tuple[Run, ...]


def find_misfit(state: State, problem: Problem) -> str:
    """Say where a state is none of this problem; "" where it is one."""
    misfit = state_shapes.find_misfit(state, *describe_shapes(problem))
    if misfit:
        return misfit
    for number, run in enumerate(state.runs):
        planes = run.planes
        gram = planes.move(planes.intercepts, planes.slopes, planes.tilts).gram
        if not np.allclose(gram, planes.gram, ROUNDING, ROUNDING * np.abs(gram).max(initial=0.0)):
            return f"runs[{number}].planes.gram is not that of its slopes"
    return ""


def describe_shapes(problem: Problem) -> tuple[Spec, dict[str, int]]:
    """The specification of a State of this problem, and the sizes in it."""
    floats, integers = partial(Numbers, np.float64), partial(Numbers, np.int64)
    reach = REACH * (1.0 + sum(problem.budgets))
    point = {**describe_planes("K", low=-reach, high=reach), "value": Between()}
    # a plane is a mean over rows, whose root mean squared norm is 1; linked rows may be far out
    height, pull = (2.0 * problem.n_clusters * (1.0 + float(np.abs(part).max())) for part in problem.table[1:])
    far = pull if problem.pairs is None else FARTHEST
    planes = {
        "points": floats("m", "K", "d"),
        "offsets": floats("m", "K"),
        "prices": floats("m", "K"),
        "intercepts": floats("m", low=-height, high=height),
        "slopes": floats("m", "Kd", low=-far, high=far),
        "tilts": floats("m", "K", low=-pull, high=pull),
        "gram": floats("m", "m", "K", "K") if problem.norm.by_row else floats("m", "m"),
        "multipliers": floats("m", low=0, high=2.0 * max(problem.budgets)),
        "idle": integers("m", low=0, high=COUNTED),
        "groups": integers("m", low=0, high=len(problem.budgets) - 1),
    }
    run = {
        "planes": planes,
        "labelling": describe_labelling(problem.n_clusters, "K", "k"),
        "at": point,
        "best": point,
        "leader": point,
        "inside": Flag() if problem.inside else OneOf(False),
        "counts": Either(floats("k", low=0, high=1 + ROUNDING), floats(0)),
        "flips": Between(0),
        **dict.fromkeys(("waited", "reseeded", "rounds"), Whole()),
        "ended": OneOf("", "converged", "stalled", "count bound"),
        "centre": Either(floats("K", low=-reach, high=reach), floats(0)) if problem.from_start else floats(0),
        "reach": Between(0, reach if problem.from_start else 0),
    }
    K, d = problem.K, len(problem.geometry.mean)
    return {"runs": Each(run, numbered="number")}, {"k": problem.n_clusters, "K": K, "d": d, "Kd": K * d}
