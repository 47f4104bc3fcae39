"""Least-squares MMC: ridge regression on the labels, labels by the largest score, again until they stay.

One pass gives the second moment A of the rows, which is factored once (E30). Then each pass takes labels at the
hyperplanes of the last regression and sums the rows of each label, which is all that the next one needs (E31).
Restarts are runs side by side: one read of the data serves them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dmmc.array_types import Array
from dmmc.model.geometry import Geometry
from dmmc.model.passes import ByScores, Drawn, Given, Hyperplanes, Labelling, Oracle
from dmmc.solvers import count_bounds, label_sums, state_shapes
from dmmc.solvers.cutting_plane_state import ROUNDING, Point
from dmmc.solvers.driver import Restarts
from dmmc.solvers.label_sums import LabelSums, Request, Requests
from dmmc.solvers.reseed import reseed_cluster

PATIENCE = 10
"""Rounds without a lower objective after which labels that still change go round in circles."""
SMALLEST = 1e-12
"""Deviation of scores, at least: those of an emptied cluster have none."""


@dataclass(frozen=True)
class Problem:
    """What is to be found, on centred and scaled rows."""

    n_clusters: int
    ridge: float
    """λ."""
    settled: float
    """The search ends when no more than this share of the rows changes its label."""
    lowest: float
    """Least weight of a cluster, as a fraction of all rows (0: no bound)."""
    highest: float
    geometry: Geometry
    sample: Callable[[], Any]
    """Gives a few scaled rows (dense ones are centred too), from which an emptied cluster is seeded again."""
    scored: int = 0
    """Where not 0, scores are taken of so many first columns, and the others, as many, are regressed on."""


class Run(NamedTuple):
    """One restart."""

    number: int
    labelling: Labelling
    at: Point
    """Where labels were taken or are to be taken next; its value is the objective of the labels before."""
    started: bool = False
    repriced: bool = False
    """Whether the labels about to be taken use prices found for this very point."""
    counts: Array = np.zeros(0)
    """Share of the weight that each cluster has."""
    flips: float = np.inf
    objective: float = np.inf
    """Of the labels of the last pass."""
    best: float = np.inf
    """The lowest objective so far."""
    waited: int = 0
    """Rounds since then."""
    rounds: int = 0
    reseeded: int = 0
    ended: str = ""
    """"" or "converged"."""


class State(NamedTuple):
    """All runs."""

    runs: tuple[Run, ...]


class Regression(NamedTuple):
    """Hyperplanes (k, d), biases (k,) and what is left of the labels."""

    W: Array
    b: Array
    objective: float


class LeastSquares(Restarts):
    """The solver: `init`, `step`, `done`, `report`, and `best` at the end."""

    types = (State, Run, Point, ByScores, Hyperplanes, Given, Drawn)
    """What a state is made of."""

    def __init__(self, problem: Problem, oracle: Oracle) -> None:
        self.problem = problem
        self.oracle = oracle
        self._factored: tuple[Array, Any] | None = None

    def init(self, labellings: list[Labelling], d: int) -> State:
        """Start each run from its labels."""
        k = self.problem.n_clusters
        origin = Point(np.zeros((k, d)), np.zeros(k), np.zeros(k), np.inf)
        return State(tuple(Run(number, labelling, origin) for number, labelling in enumerate(labellings)))

    def find_misfit(self, state: State) -> str:
        """Say where a state that was read from a file is not one of this problem; "" where it is."""
        reach = state_shapes.REACH
        point = {**state_shapes.describe_planes("k", low=-reach, high=reach), "value": state_shapes.Between()}
        shares = state_shapes.Numbers(np.float64, "k", low=0, high=1 + ROUNDING)
        run = {
            "labelling": state_shapes.describe_labelling(self.problem.n_clusters, "k"),
            "at": point,
            **dict.fromkeys(("started", "repriced"), state_shapes.Flag()),
            "counts": state_shapes.Either(shares, state_shapes.Numbers(np.float64, 0)),
            "flips": state_shapes.Between(0),
            **dict.fromkeys(("waited", "reseeded", "rounds"), state_shapes.Whole()),
            "ended": state_shapes.OneOf("", "converged"),
        }
        sizes = {"k": self.problem.n_clusters, "d": len(self.problem.geometry.mean)}
        return state_shapes.find_misfit(state, {"runs": state_shapes.Each(run, numbered="number")}, sizes)

    def report(self, state: State) -> dict[str, Any]:
        """Of the best run: the objective of this pass's labels and the lowest so far."""
        run = min(state.runs, key=lambda run: run.best)
        return {
            "objective": run.objective,
            "best": run.best,
            "round": run.rounds,
            "flips": run.flips if np.isfinite(run.flips) else self.problem.geometry.total,
            "runs": self.count_active(state),
        }

    def best(self, state: State) -> Run:
        """The run with the lowest objective."""
        return min(state.runs, key=lambda run: run.objective)

    def step(self, state: State) -> State:
        """One pass for all runs that are not done, then one regression each."""
        active = [run for run in state.runs if not run.ended]
        requests = tuple(
            Request(run.number, run.labelling, self._fold(run.at) if run.started else None) for run in active
        )
        answers = self.oracle(label_sums.sum_by_label, Requests(requests, self.problem.n_clusters))
        went = {run.number: self._advance(run, answer) for run, answer in zip(active, answers, strict=True)}
        return State(tuple(went.get(run.number, run) for run in state.runs))

    def _fold(self, at: Point) -> Hyperplanes:
        return self.problem.geometry.raw(at.W, at.b, at.price)

    def _advance(self, run: Run, answer: LabelSums) -> Run:
        p = self.problem
        run = run._replace(counts=answer.counts / p.geometry.total)
        if run.started:
            run = run._replace(labelling=ByScores(self._fold(run.at), wide=True), flips=answer.flips)
            remedy = self._reseed(run) or self._restore_bounds(run)
            if remedy is not None:
                return remedy
        found = self.regress(answer)
        better = found.objective < run.best - 1e-9 * abs(run.best) if np.isfinite(run.best) else True
        run = run._replace(
            objective=found.objective,
            best=min(run.best, found.objective),
            waited=0 if better else run.waited + 1,
            rounds=run.rounds + run.started,
        )
        if run.started and (run.flips <= p.settled * p.geometry.total or run.waited >= PATIENCE):
            return run._replace(ended="converged")
        at = Point(found.W, found.b, run.at.price, found.objective)
        return run._replace(at=at, started=True, repriced=False)

    def _reseed(self, run: Run) -> Run | None:
        """An emptied cluster that no bound protects gets half of the largest one; None if all is well."""
        p = self.problem
        if run.counts.min() > 0 or p.lowest > 0 or run.reseeded >= 2 * p.n_clusters:
            return None
        at = reseed_cluster(run.at, run.counts, p.sample(), p.geometry)
        return run._replace(at=at, reseeded=run.reseeded + 1, best=np.inf, waited=0)

    def _restore_bounds(self, run: Run) -> Run | None:
        """Labels out of bounds are taken again with prices; None if all is well."""
        p = self.problem
        price = run.at.price
        off = count_bounds.is_violated(run.counts, p.lowest, p.highest)
        stale = bool(price.any()) and count_bounds.is_stale(run.counts, price, p.lowest, p.highest)
        if run.repriced or not (off or stale):
            return None
        planes = self._fold(run.at._replace(price=np.zeros_like(price)))
        price = count_bounds.find_prices(self.oracle, planes, p.geometry.total, p.lowest, p.highest)
        return run._replace(at=run.at._replace(price=price), repriced=True)

    def regress(self, sums: LabelSums) -> Regression:
        """Ridge regression on the labels (E31), from the sums of each label's rows; scores have deviation 1.

        k columns, 1/√share on the rows of each cluster, and an intercept. For two clusters one column of ±1 on centred
        rows, cut halfway between the means of both clusters: with an intercept, one cluster of all rows would be best.
        """
        p = self.problem
        covariance, factor = self._factor()
        share = np.maximum(sums.counts / p.geometry.total, SMALLEST)
        means = p.geometry.centre(sums.weighted, sums.counts)[:, p.scored :]
        root = np.sqrt(share)
        targets = means[1:] - means[:1] if p.n_clusters == 2 else means / root[:, None]
        V = cho_solve(factor, targets.T).T
        spread = np.sqrt(np.maximum(np.einsum("kd,kd->k", V @ covariance, V), SMALLEST**2))
        left = len(V) - float((V * targets).sum())
        if p.n_clusters == 2:
            b = -0.5 * V @ (means / share[:, None]).sum(axis=0)
        else:
            b = np.where(sums.counts > 0, root, 0.0) / (1.0 + p.ridge)
            left -= float(share.sum()) / (1.0 + p.ridge)
        W, b = np.zeros((len(V), sums.weighted.shape[1])), b / spread
        W[:, : V.shape[1]] = V / spread[:, None]
        if p.n_clusters == 2:
            W, b = np.vstack([-W, W]) / 2.0, np.concatenate([-b, b]) / 2.0
        return Regression(W, b, left)

    def _factor(self) -> tuple[Array, Any]:
        """Covariance of the columns that are regressed on, and the Cholesky factor of it plus λI (E30); one pass."""
        if self._factored is None:
            p, g = self.problem, self.problem.geometry
            moment = self.oracle(label_sums.multiply_rows, (g.mean, g.unit))
            covariance = np.ascontiguousarray(moment[p.scored :, p.scored :] / g.total)
            factor = cho_factor(covariance + p.ridge * np.eye(len(covariance)), lower=True)
            self._factored = covariance, factor
        return self._factored
