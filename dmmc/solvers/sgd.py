"""MMC by stochastic gradient (paper 004): one row a step, block by block, averaged after each epoch.

1. with the labels of the start fixed the loss is convex: a few epochs fit a hyperplane to them (for the compact losses
   a pair of them, f = 1 and f = -1)
2. then a row's label is its side of the hyperplane, at each step

An epoch gives two points: where the steps have led, from where the next one goes on, and the average over the steps,
which is far less noisy: it is what is judged and kept. It is judged while the next epoch reads the rows.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.model.losses import Loss, Table
from dmmc.model.passes import ByScores, Drawn, Given, Hyperplanes, Labelling, Oracle
from dmmc.solvers import count_bounds, sgd_epoch
from dmmc.solvers.driver import Restarts
from dmmc.solvers.required_parts import check_parts
from dmmc.solvers.sgd_epoch import Came, Epoch, Leg
from dmmc.solvers.sgd_set_out import RAISED, is_clear, set_out
from dmmc.solvers.sgd_state import FLAT, Point, Problem, Run, State
from dmmc.solvers.state_shapes import (
    COUNTED,
    REACH,
    Between,
    Each,
    Numbers,
    OneOf,
    Whole,
    describe_labelling,
    find_misfit,
)

NAME = "the stochastic gradient solver"
LOSS_PARTS = {"table": "the loss of a margin", "surrogate": "the convex loss at fixed labels"}
CCCP_PARTS = {"split": "its convex and its concave part"}
CONVEX_EPOCHS = 4
"""CCCP: epochs of a convex problem; the search ends when one of them leads nowhere."""


class Stochastic(Restarts):
    """The solver: `init`, `step`, `done`, `report`, and `best` at the end."""

    types = (State, Run, Point, ByScores, Hyperplanes, Given, Drawn)
    """What a state is made of."""

    def __init__(self, problem: Problem, oracle: Oracle) -> None:
        self.check_loss(problem.loss, problem.cccp)
        self.problem = problem
        self.oracle = oracle

    @staticmethod
    def check_loss(loss: Loss, cccp: bool) -> None:
        """Refuse a loss that lacks a part which the search needs."""
        check_parts("loss", loss, NAME, LOSS_PARTS)
        if cccp:
            check_parts("loss", loss, f"{NAME} with CCCP", CCCP_PARTS)

    def init(self, labellings: list[Labelling]) -> State:
        """Each run begins at w = 0 with its labels; the first ones say whether the balance is to be looser."""
        origin = Point(np.zeros(len(self.problem.geometry.mean)), 0.0)
        first = Run(0, labellings[0], origin, origin, origin, origin, balance=self._find_balance(labellings[0]))
        return State(tuple(first._replace(number=number, labelling=each) for number, each in enumerate(labellings)))

    def _find_balance(self, labelling: Labelling) -> float:
        """Half the difference of the start's shares, where that is looser and the loss has wells (E35)."""
        p = self.problem
        if not (p.follow_start and p.has_wells):
            return p.balance
        below, above = self.oracle(sgd_epoch.count_labels, labelling) / p.geometry.total
        return max(p.balance, 0.5 * abs(float(above - below)))

    def problem_of(self, run: Run) -> Problem:
        """The problem that a run solves: with its own balance."""
        return replace(self.problem, balance=run.balance or self.problem.balance)

    def find_misfit(self, state: State) -> str:
        """Say where a state that was read from a file is not one of this problem; "" where it is."""
        reach = REACH * (1.0 + self.problem.C)
        within = Between(-reach, reach)
        w = Numbers(np.float64, "d", low=-reach, high=reach)
        point = {"w": w, "b": within, "price": within, "value": Between()}
        run = {
            "labelling": describe_labelling(2, 1, 2),
            **dict.fromkeys(("at", "mean", "best", "reference"), point),
            "epoch": Whole(),
            "moved": Between(0),
            "steps": Between(0, COUNTED),
            "ended": OneOf("", "converged"),
            "raised": Between(1, RAISED),
            "late": Between(0, COUNTED),
            "balance": Between(0, max(0.5, self.problem.balance)),
        }
        misfit = find_misfit(state, {"runs": Each(run, numbered="number")}, {"d": len(self.problem.geometry.mean)})
        different = len({(run.raised, run.balance) for run in state.runs}) > 1
        return misfit or ("runs have another C or balance each" if different else "")

    def report(self, state: State) -> dict[str, Any]:
        """Of the best run: the last average's objective, the lowest one, and how far the last epoch went."""
        run = min(state.runs, key=lambda run: run.best.value)
        p = self.problem
        origin = self.C(run) * float(p.loss.table.value(0.0))
        return {
            "objective": run.value if np.isfinite(run.value) else origin,
            "best": run.best.value if np.isfinite(run.best.value) else origin,
            **({"round": max(0, run.epoch - p.fitting) // CONVEX_EPOCHS} if p.cccp else {}),
            "moved": run.moved,
            "runs": self.count_active(state),
        }

    def step(self, state: State) -> State:
        """One epoch of all runs that are not done; before the first one without fixed labels, they are set out."""
        p, geometry = self.problem_of(state.runs[0]), self.problem.geometry
        if all(run.epoch == p.fitting > 0 for run in state.runs) and not is_clear(p, self._values_of_means(state)):
            state = State(set_out(state.runs, p, self.oracle))
        active = [run for run in state.runs if not run.ended]
        epoch = Epoch(
            tuple(self._leg(run) for run in active),
            geometry.mean,
            geometry.unit,
            p.loss.table,
            p.loss.surrogate,
            self.C(active[0]),
            p.balance,
            p.seed,
            p.rate,
            p.loss.split if p.cccp else None,
        )
        answers = self.oracle(sgd_epoch.descend, epoch)
        went = {run.number: self._advance(run, came) for run, came in zip(active, answers, strict=True)}
        return State(tuple(went.get(run.number, run) for run in state.runs))

    def best(self, state: State, last: bool = False) -> Run:
        """The run with the lowest objective at its best point; the last averages are judged now.

        With `last` only those count, unless w = 0 costs less than they do and more than what was best before.
        Where w = 0 costs less than any run's best point, all of them are starts: then the surrogate chooses.
        """
        runs = []
        for run in state.runs:
            before = run.best
            if last:
                run = run._replace(best=before._replace(value=np.inf))
            run = self._judge(run, *self._look(run.mean, self.problem.loss.table))
            if not np.isfinite(run.best.value):  # prices were found, or a cluster has no rows whatever the price
                run = self._keep_mean(run)
            if last and before.value < self.price_nothing(run) <= run.best.value:
                run = run._replace(best=before)
            runs.append(run)
        better = [run for run in runs if self.is_better_than_nothing(run)]
        return min(better, key=lambda run: run.best.value) if better else min(runs, key=self._value_of_fit)

    def C(self, run: Run) -> float:
        """Weight of the loss."""
        return self.problem.C * run.raised

    def price_nothing(self, run: Run) -> float:
        """What w = 0 costs."""
        return self.C(run) * self.problem_of(run).nothing

    def is_better_than_nothing(self, run: Run) -> bool:
        """Whether a run's best point costs less than w = 0."""
        return run.best.value < self.price_nothing(run)

    def _value_of_fit(self, run: Run) -> float:
        """What a run's best point costs by the convex surrogate."""
        surrogate = self.problem.loss.surrogate
        return self._value(run, run.best, self._look(run.best, surrogate)[0])

    def _values_of_means(self, state: State) -> list[float]:
        """What the last averages cost."""
        table = self.problem.loss.table
        return [self._value(run, run.mean, self._look(run.mean, table)[0]) for run in state.runs]

    def _look(self, point: Point, table: Table) -> tuple[float, Array]:
        """Loss at a point, summed over the rows, and the weight on either side."""
        found: tuple[float, Array] = self.oracle(sgd_epoch.judge, (self.planes(point), table))
        return found

    def _keep_mean(self, run: Run) -> Run:
        """Keep the last average, whatever it costs."""
        risk, _ = self._look(run.mean, self.problem.loss.table)
        return run._replace(best=run.mean._replace(value=self._value(run, run.mean, risk)))

    def _is_fitting(self, run: Run) -> bool:
        return run.epoch < self.problem.fitting

    def planes(self, point: Point) -> Hyperplanes:
        """A point's hyperplane in raw coordinates."""
        return self.problem.planes(point)

    def _leg(self, run: Run) -> Leg:
        p = self.problem
        fitting = self._is_fitting(run)
        return Leg(
            run=run.number,
            epoch=run.epoch,
            steps=run.steps if run.steps else float(run.epoch if fitting else run.late + run.epoch - p.fitting),
            W=run.at.w / p.geometry.unit,
            b=run.at.b,
            price=run.mean.price,
            labelling=run.labelling if fitting else None,
            reference=self.planes(run.reference) if p.cccp and not fitting else None,
            seen=self.planes(run.mean) if run.epoch >= p.fitting and run.epoch > 0 else None,
        )

    def _advance(self, run: Run, came: Came) -> Run:
        """Judge the last average, and go where this epoch has led."""
        p = self.problem
        total, unit = p.geometry.total, p.geometry.unit
        searched = run.epoch - p.fitting
        if searched >= 0:
            run = self._judge(run, came.risk, came.counts)
        if searched == 0 and not np.isfinite(run.best.value):  # a price was found for it
            run = self._keep_mean(run)
        at = Point(came.W * unit / total, came.b / total)
        mean = Point(came.mean_W * unit / total, came.mean_b / total, run.mean.price)
        moved = _distance(mean, run.mean)
        epoch = run.epoch + 1
        renew = epoch == p.fitting or (searched >= 0 and (searched + 1) % CONVEX_EPOCHS == 0)
        settled = searched >= 1 and moved <= p.epsilon
        if p.cccp:  # where a convex problem ends, unless it ended where it was made
            settled = renew and searched >= 0 and _distance(mean, run.reference) <= p.epsilon
        if searched >= 1 and p.is_flat and abs(came.risk / total - self.problem_of(run).nothing) <= FLAT:
            settled = True  # no row pulls any more, w only shrinks
        run = run._replace(at=at, mean=mean, moved=moved, epoch=epoch, reference=mean if renew else run.reference)
        if epoch == p.fitting:
            return run._replace(at=mean._replace(price=0.0))
        return run._replace(ended="converged") if settled else run

    def _value(self, run: Run, point: Point, risk: float) -> float:
        return 0.5 * float(point.w @ point.w) + self.C(run) * risk / self.problem.geometry.total

    def _judge(self, run: Run, risk: float, counts: Array) -> Run:
        """Keep the last average if it is the best, and the first one in any case: that is the start.

        Others must cost less than w = 0, whose neighbours say nothing of labels. Where clusters are out of bounds,
        prices are found for the average instead.
        """
        p = self.problem
        shares = counts / p.geometry.total
        point = run.mean._replace(value=self._value(run, run.mean, risk))
        off = count_bounds.is_violated(shares, p.lowest, p.highest)
        price = np.array([point.price])
        if off or (point.price != 0 and count_bounds.is_stale(shares, price, p.lowest, p.highest)):
            price = count_bounds.find_prices(self.oracle, self.planes(point), p.geometry.total, p.lowest, p.highest)
            run = run._replace(mean=point._replace(price=float(price[0])))
        if off or not shares.all():
            return run
        most = min(run.best.value, self.price_nothing(run)) if np.isfinite(run.best.value) else np.inf
        return run._replace(best=point if point.value < most else run.best, value=point.value)


def _distance(one: Point, other: Point) -> float:
    """How far two points are from each other, relative to the first one's norm."""
    away = float(np.linalg.norm(one.w - other.w)) + abs(one.b - other.b)
    return away / max(float(np.linalg.norm(one.w)), 1e-300)
