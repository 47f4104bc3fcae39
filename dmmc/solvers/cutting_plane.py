"""Cutting-plane MMC (papers 000 and 001): CCCP inside or outside a cutting plane.

Labels are taken from the hyperplanes; with labels fixed the loss is convex and bounded from below by planes (E4, E8),
each cut at one point by one pass over the data. The master (E6) gives the lowest point over the planes.

*Outside* (003's order): planes until the gap of the convex problem is small, then labels again. The objective never
rises. *Inside* (000's order): labels again after every master, until they settle, then the next plane; planes keep the
rows they were cut with. When labels change at a few rows, only those rows move the planes.

Restarts are runs side by side: one read of the data serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc import master, passes
from dmmc.geometry import Geometry
from dmmc.losses import Table
from dmmc.master import Planes
from dmmc.passes import Answer, ByScores, Labelling, Request, Sweep
from dmmc.solvers import prices

Array = NDArray[Any]
Oracle = Callable[[Callable[..., Any], Any], Any]

IDLE_ROUNDS = 15
SETTLED = 0.03
"""CCCP inside is settled when a step lowers the working set's objective by less than this fraction."""
PATIENCE = 50
"""Passes inside without a lower objective after which a run goes on outside, where the objective never rises."""
STALLED = 1e-3
"""CCCP outside ends when a round lowers the objective by less than this fraction."""
DYING = 0.01
"""A cluster below this fraction of n / k is dying."""


@dataclass(frozen=True)
class Problem:
    """(E2) for K = 1, (E7) for K = k > 2, on centred and scaled rows."""

    n_clusters: int
    C: float
    balance: float
    epsilon: float
    inside: bool
    lowest: float
    """Least weight of a cluster, as a fraction of all rows (0: no bound)."""
    highest: float
    geometry: Geometry
    sample: Any
    """A few centred and scaled rows, from which a dying cluster is seeded again."""
    table: Table
    wide: bool
    """Whether hyperplanes are scored side by side; fixed for a fit, as it decides the last bits of the scores."""

    k_wide: bool = False
    """Use one hyperplane a cluster for two clusters too (the same problem with C / 2)."""

    @property
    def K(self) -> int:
        """Hyperplanes a run: one for two clusters, else one a cluster."""
        return 1 if self.n_clusters == 2 and not self.k_wide else self.n_clusters

    @property
    def box(self) -> float:
        """Bound of each bias (E1); with k biases a common shift is free."""
        return self.balance if self.K == 1 else self.balance / 2


class Point(NamedTuple):
    """Hyperplanes on centred rows, and what they cost."""

    W: Array
    b: Array
    price: Array
    value: float


class Run(NamedTuple):
    """One restart: all that is needed to go on."""

    number: int
    planes: Planes
    labelling: Labelling
    at: Point
    """Where the next plane is cut; its value is the master's lower estimate there."""
    inside: bool
    relabel: bool
    best: Point
    """Lowest J seen."""
    leader: Point
    """Lowest J_y seen for the labels y of this round (outside)."""
    opened: float
    """J where this round's labels were taken (outside)."""
    bound: float
    """Certified lower bound of min J_y for the current labels."""
    counts: Array
    flips: float
    waited: int
    """Passes since the best point was found (inside)."""
    repriced: bool
    """Whether the labels about to be taken use prices found for this very point."""
    reseeded: int
    done: bool


class State(NamedTuple):
    """All runs."""

    runs: tuple[Run, ...]


class CuttingPlane:
    """The solver: `init`, `step`, `done`, `report`.

    Parameters
    ----------
    problem : Problem
    oracle : a pass and its params to the sum over all rows
    """

    def __init__(self, problem: Problem, oracle: Oracle) -> None:
        self.problem = problem
        self.oracle = oracle

    def init(self, labellings: list[Labelling], d: int) -> State:
        """Start each run from its labels with the all-ones plane, the one cut at w = 0."""
        K = self.problem.K
        origin = Point(np.zeros((K, d)), np.zeros(K), np.zeros(K), np.inf)
        return State(
            tuple(
                Run(
                    number=number,
                    planes=Planes.empty(K, d),
                    labelling=labelling,
                    at=origin,
                    inside=self.problem.inside,
                    relabel=False,
                    best=origin,
                    leader=origin,
                    opened=np.inf,
                    bound=-np.inf,
                    counts=np.zeros(self.problem.n_clusters),
                    flips=0.0,
                    waited=0,
                    repriced=False,
                    reseeded=0,
                    done=False,
                )
                for number, labelling in enumerate(labellings)
            )
        )

    def done(self, state: State) -> bool:
        """All runs have ended."""
        return all(run.done for run in state.runs)

    def report(self, state: State) -> dict[str, Any]:
        """The best run's objective, and the gap of the convex problem it is in."""
        best = self.best(state)
        return {
            "objective": best.best.value,
            "gap": best.leader.value - best.bound,
            "planes": best.planes.size,
            "flips": best.flips,
            "runs": sum(not run.done for run in state.runs),
        }

    def best(self, state: State) -> Run:
        """The run with the lowest objective; one that never had all clusters alive gives where it is."""
        run = min(state.runs, key=lambda run: run.best.value)
        return run if np.isfinite(run.best.value) else run._replace(best=run.at)

    def step(self, state: State) -> State:
        """One pass for all runs that are not done, then one master each."""
        active = [run for run in state.runs if not run.done]
        params = Sweep(tuple(self._request(run) for run in active), self.problem.table, self.problem.wide)
        answers = self.oracle(passes.sweep, params)
        went = {run.number: self._advance(run, answer) for run, answer in zip(active, answers, strict=True)}
        return State(tuple(went.get(run.number, run) for run in state.runs))

    def _advance(self, run: Run, answer: Answer) -> Run:
        run, value = self._received(run, answer)
        if run.relabel:
            remedy = self._remedy(run)
            if remedy is not None:
                return remedy
        return (self._inside if run.inside else self._outside)(run, answer, value)

    def _request(self, run: Run) -> Request:
        planes = self.problem.geometry.raw(run.at.W, run.at.b, run.at.price)
        return Request(
            run.number, planes, run.labelling, run.relabel, run.planes.points, run.planes.offsets, run.inside
        )

    # ------------------------------------------------------------------------------------ what both orders do

    def _received(self, run: Run, answer: Answer) -> tuple[Run, float]:
        """Take in a pass: labels and planes as they are now, and the objective at the point it was made at."""
        p = self.problem
        total = p.geometry.total
        value = 0.5 * float(np.sum(run.at.W**2)) + p.C * float(answer.at.risk) / total
        planes = run.planes
        if run.relabel:
            moved = answer.moved
            if answer.flips and planes.size:
                m, K = planes.tilts.shape
                slopes = p.geometry.centred(moved.weighted, moved.tilt).reshape(m, -1)
                planes = planes.moved(
                    planes.intercepts + moved.intercept / total,
                    planes.slopes + slopes,
                    planes.tilts + moved.tilt.reshape(m, K) / total,
                )
            at = p.geometry.raw(run.at.W, run.at.b, run.at.price)
            run = run._replace(labelling=ByScores(at, p.wide))
        run = run._replace(planes=planes, counts=answer.at.counts / total, flips=answer.flips)
        return run, value

    def _remedy(self, run: Run) -> Run | None:
        """Labels out of bounds are taken again with prices; a dying cluster is seeded again; None if all is well."""
        p = self.problem
        if run.counts.min() < DYING / p.n_clusters and run.reseeded < 2 * p.n_clusters and p.lowest == 0 and p.K > 1:
            return run._replace(at=self._seeded(run), reseeded=run.reseeded + 1, best=run.best._replace(value=np.inf))
        off = prices.violated(run.counts, p.lowest, p.highest)
        priced = bool(run.at.price.any())
        if run.repriced or not (off or (priced and prices.stale(run.counts, run.at.price, p.lowest, p.highest))):
            return None
        planes = p.geometry.raw(run.at.W, run.at.b)
        price = prices.find(self.oracle, planes, p.geometry.total, p.lowest, p.highest)
        return run._replace(at=run.at._replace(price=price), repriced=True)

    def _seeded(self, run: Run) -> Point:
        """The largest cluster is split: the smallest one gets its rows that are nearer to an outlying row than to its mean."""
        p = self.problem
        W, b, price, _ = run.at
        rows = p.sample if isinstance(p.sample, np.ndarray) else p.sample.toarray() - p.geometry.mean / p.geometry.unit
        of = passes.largest(rows @ W.T + (b + price))
        largest, smallest = int(run.counts.argmax()), int(run.counts.argmin())
        members = rows[of == largest] if np.any(of == largest) else rows
        mean = members.mean(axis=0)
        far = np.linalg.norm(members - mean, axis=1)
        seed = members[np.argsort(far, kind="stable")[int(0.9 * (len(far) - 1))]]
        step = seed - mean
        strength = 2.0 / max(float(step @ step), 1e-12)
        W, b = W.copy(), b + price
        W[smallest] = W[largest] + strength * step
        b[smallest] = b[largest] - strength * float(step @ (seed + mean)) / 2
        return Point(W, b, np.zeros_like(price), np.inf)

    def _with_cut(self, run: Run, answer: Answer) -> Run:
        """The plane at this point joins the working set."""
        p = self.problem
        total = p.geometry.total
        at = p.geometry.raw(run.at.W, run.at.b)
        slope = p.geometry.centred(answer.at.weighted, answer.at.tilt).ravel()
        planes = run.planes.add(at.W, at.b, float(answer.at.intercept) / total, slope, answer.at.tilt / total)
        return run._replace(planes=planes)

    def _solved(self, run: Run) -> Run:
        """The master's lowest point is where the next plane is cut; idle planes leave."""
        p = self.problem
        planes = run.planes
        solved = master.solve(
            planes.gram, planes.intercepts, planes.tilts, p.C, p.box, planes.multipliers, 0.01 * p.epsilon
        )
        planes = planes.solved(solved.multipliers, p.C)
        W = planes.weights()
        at = Point(W, solved.bias, run.at.price, solved.value)
        return run._replace(planes=planes.drop_idle(IDLE_ROUNDS), at=at, bound=solved.lower_bound, repriced=False)

    # ------------------------------------------------------------------------------------ 000's order: inside

    def _inside(self, run: Run, answer: Answer, value: float) -> Run:
        """CCCP on the working set until the labels settle, then the most violated constraint joins it."""
        p = self.problem
        if not run.relabel:
            return self._solved(self._with_cut(run, answer))._replace(relabel=True)
        here = run.at._replace(value=value)
        estimate = run.at.value
        best = self._better(run, here)
        run = run._replace(best=best, leader=here, waited=0 if best is here else run.waited + 1)
        if run.waited >= PATIENCE:
            return self._outwards(run)
        fell = run.opened - estimate
        closed = value - estimate <= p.C * p.epsilon
        if closed and (run.flips == 0 or fell <= p.C * p.epsilon):
            return run._replace(done=True)
        if not closed and (run.flips == 0 or fell <= SETTLED * abs(estimate)):
            return self._solved(self._with_cut(run, answer)._replace(opened=np.inf))
        return self._solved(run._replace(opened=estimate))

    def _outwards(self, run: Run) -> Run:
        """Go on outside from the best point, with a working set of its own: its planes follow another rule."""
        K, d = run.at.W.shape
        return run._replace(
            inside=False, at=run.best, relabel=True, planes=Planes.empty(K, d), opened=np.inf, repriced=False
        )

    # ---------------------------------------------------------------------------------- 003's order: outside

    def _outside(self, run: Run, answer: Answer, value: float) -> Run:
        """Planes until the convex problem's gap is small against what was gained, then labels again."""
        p = self.problem
        here = run.at._replace(value=value)
        if run.relabel:
            run = run._replace(best=self._better(run, here))
            if run.flips == 0 or run.opened - value <= STALLED * abs(value):
                return run._replace(done=True)
            run = run._replace(leader=here, opened=value, relabel=False)
        elif value < run.leader.value:
            run = run._replace(leader=here)
        run = self._solved(self._with_cut(run, answer))
        gap = run.leader.value - run.bound
        gained = run.opened - run.leader.value if np.isfinite(run.opened) else 0.0
        if gap <= max(p.C * p.epsilon, 0.5 * gained):
            run = run._replace(at=run.leader._replace(price=run.at.price), relabel=True)
        return run

    def _better(self, run: Run, here: Point) -> Point:
        """The lower of the best point and this one, if this one's clusters are all alive."""
        return here if here.value < run.best.value and run.counts.min() >= DYING / self.problem.n_clusters else run.best
