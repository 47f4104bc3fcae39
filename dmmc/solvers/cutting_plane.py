"""Cutting-plane MMC (papers 000 and 001): CCCP inside or outside a cutting plane.

Labels are taken from the hyperplanes; with labels fixed the loss is convex and bounded from below by planes (E4, E8),
each cut at one point by one pass over the data. The master (E6) gives the lowest point over the planes.

*Outside* (003's order): planes until the gap of the convex problem is small, then labels again. The objective never
rises. *Inside* (000's order): labels again after every master, until they settle, then the next plane; planes keep the
rows they were cut with. When labels change at a few rows, only those rows move the planes.

Restarts are runs side by side: one read of the data serves them all.
"""

from typing import Any, ClassVar

import numpy as np

from dmmc.master.planes import Planes
from dmmc.model import passes
from dmmc.model.losses import Loss
from dmmc.model.passes import Answer, ByScores, Drawn, Given, Hyperplanes, Labelling, Oracle, Request, Sweep
from dmmc.solvers import bias_box, count_bounds
from dmmc.solvers.cutting_plane_state import Point, Problem, Run, State, find_misfit
from dmmc.solvers.driver import Restarts
from dmmc.solvers.required_parts import check_convex, check_parts
from dmmc.solvers.reseed import reseed_cluster

NAME = "the cutting-plane solver"
IDLE_ROUNDS = 15
PATIENCE = 50
"""Passes without progress: inside a run then goes on outside, where the objective never rises; outside it ends."""
STALLED = 1e-3
"""CCCP outside ends when a round lowers the objective by less than this fraction, and less than the tolerance."""
USEFUL = 0.97
"""Labels whose objective is below this fraction of C tell more than chance."""
VIOLATED = 0.01
"""A plane of linked rows joins the working set where it adds more than this part of the tolerance."""
DYING = 0.01
"""One of three or more clusters is dying below this fraction of n / k."""


class CuttingPlane(Restarts):
    """The solver: `init`, `step`, `done`, `report`, and `best` at the end."""

    types = (State, Run, Planes, Point, ByScores, Hyperplanes, Given, Drawn)
    """What a state is made of."""
    loss_parts: ClassVar = {"table": "the loss of a margin", "surrogate": "the convex loss at fixed labels"}
    norm_parts: ClassVar = {
        "cost": "what W costs",
        "solve": "the lowest point over the planes",
        "by_row": "which inner products of planes it wants",
        "accuracy": "how exactly the master is solved",
        "inward": "how far from the master's point the next plane is cut",
    }

    def __init__(self, problem: Problem, oracle: Oracle) -> None:
        self.check_loss(problem.loss, problem.n_clusters)
        check_parts("norm", problem.norm, NAME, self.norm_parts)
        self.problem = problem
        self.oracle = oracle

    @classmethod
    def check_loss(cls, loss: Loss, n_clusters: int) -> None:
        """Refuse a loss that planes cannot bound from below."""
        check_parts("loss", loss, NAME, cls.loss_parts)
        check_convex(loss, NAME, n_clusters)

    def init(self, labellings: list[Labelling], d: int) -> State:
        """Start each run from its labels with the all-ones plane, the one cut at w = 0."""
        K = self.problem.K
        origin = Point(np.zeros((K, d)), np.zeros(K), np.zeros(K), np.inf)
        planes = Planes.empty(K, d, by_row=self.problem.norm.by_row)
        reach = self.problem.first_reach
        inside = self.problem.inside and not reach  # labels stay until it is known where the box is
        return State(
            tuple(
                Run(number, planes, labelling, origin, best=origin, leader=origin, inside=inside, reach=reach)
                for number, labelling in enumerate(labellings)
            )
        )

    def find_misfit(self, state: State) -> str:
        """Say where a state that was read from a file is not one of this problem; "" where it is."""
        return find_misfit(state, self.problem)

    def report(self, state: State) -> dict[str, Any]:
        """Of the best run: the objective at this pass's point and the lowest so far, and its convex problem's gap."""
        run = min(state.runs, key=lambda run: run.seen)
        return {
            "objective": run.objective if np.isfinite(run.objective) else run.seen,
            "best": min(run.seen, self.problem.nothing),
            "round": run.rounds,
            "gap": run.gap,
            "planes": run.planes.size,
            "flips": run.flips,
            "runs": self.count_active(state),
        }

    def best(self, state: State) -> Run:
        """The run with the lowest objective at its best point; a point whose labels were never taken gets them now."""
        run = min(state.runs, key=lambda run: min(run.best.value, run.leader.value))
        settled = run.ended in ("converged", "count bound") and np.isfinite(run.best.value)
        if run.leader.value < run.best.value and not settled:
            at = self._choose_label_point(run)
            tried = run._replace(at=at, relabel=True, planes=Planes.empty(*at.W.shape), repriced=False)
            remedy: Run | None = tried
            while remedy is not None:
                tried, value = self._receive(remedy, self._sweep([remedy])[0])
                remedy = self._restore_bounds(tried)
            if self._is_alive(tried) or not np.isfinite(run.best.value):
                run = run._replace(best=tried.at._replace(value=value), counts=tried.counts)
        return min((run, *state.runs), key=lambda run: run.best.value)

    def step(self, state: State) -> State:
        """One pass for all runs that are not done, then one master each."""
        active = [run for run in state.runs if not run.ended]
        answers = self._sweep(active)
        went = {run.number: self._advance(run, answer) for run, answer in zip(active, answers, strict=True)}
        return State(tuple(went.get(run.number, run) for run in state.runs))

    def _advance(self, run: Run, answer: Answer) -> Run:
        before = run
        run, value = self._receive(run, answer)
        if run.relabel:
            if bias_box.has_lost_start(self.problem, before, run):
                return self._begin_around_0(before)
            remedy = self._revive(run) or self._restore_bounds(run)
            if remedy is not None:
                return remedy
        p = self.problem
        tries = run.reach > 0 and p.inside
        first = not (tries or np.isfinite(run.best.value) or count_bounds.is_violated(run.counts, p.lowest, p.highest))
        if self._is_alive(run) and (run.relabel or first):
            run = run._replace(seen=min(run.seen, value))
        return (self._step_inside if run.inside else self._step_outside)(run, answer, run.at._replace(value=value))

    def _sweep(self, runs: list[Run]) -> tuple[Answer, ...]:
        """One pass for all these runs."""
        requests = []
        for run in runs:
            at, planes = self.problem.geometry.raw(run.at.W, run.at.b, run.at.price), run.planes
            # planes that do not move need not travel
            moving = planes.movable if run.relabel else np.zeros(0, np.int64)
            requests.append(
                Request(
                    run.number,
                    at,
                    run.labelling,
                    run.relabel,
                    planes.points[moving],
                    planes.offsets[moving],
                    run.inside,
                    planes.prices[moving],
                )
            )
        answers: tuple[Answer, ...] = self.oracle(
            passes.sweep, Sweep(tuple(requests), self.problem.table, self.problem.wide, self.problem.summed)
        )
        return answers

    def _receive(self, run: Run, answer: Answer) -> tuple[Run, float]:
        """Take in a pass: labels and planes as they are now, and the objective at the point it was made at."""
        p = self.problem
        total = p.geometry.total
        value = p.norm.cost(run.at.W) + p.C * float(answer.at.risk) / total
        if p.pairs is not None:
            value += p.pairs.value(run.at.W, run.at.b)
        planes = run.planes
        if run.relabel:
            moved = answer.moved
            if answer.flips and planes.size:
                m, K = len(planes.movable), planes.tilts.shape[1]
                slopes = p.geometry.centre(moved.weighted, moved.tilt).reshape(m, -1)
                planes = planes.shift(moved.intercept / total, slopes, moved.tilt.reshape(m, K) / total)
            run = run._replace(labelling=self._labels_at(run.at))
        run = run._replace(planes=planes, counts=answer.at.counts / total, flips=answer.flips, objective=value)
        return run._replace(rounds=run.rounds + run.relabel), value

    def _is_alive(self, run: Run) -> bool:
        """Whether every cluster has rows, and each of three or more a fair number of them."""
        k = self.problem.n_clusters
        return bool(run.counts.min() > 0 and (k == 2 or run.counts.min() >= DYING / k))

    def _revive(self, run: Run) -> Run | None:
        """A dying cluster that no bound protects is seeded again, and the search begins anew; None if all is well."""
        p = self.problem
        if self._is_alive(run) or p.lowest > 0 or p.K == 1 or run.reseeded >= 2 * p.n_clusters:
            return None
        return run._replace(
            at=reseed_cluster(run.at, run.counts, p.sample(), p.geometry),
            best=run.best._replace(value=np.inf),
            seen=np.inf,
            opened=np.inf,
            waited=0,
            reseeded=run.reseeded + 1,
            centre=np.zeros(0),
            reach=p.first_reach,
        )

    def _restore_bounds(self, run: Run) -> Run | None:
        """Labels out of bounds are taken again with prices; None if all is well."""
        p = self.problem
        priced = bool(run.at.price.any())
        off = count_bounds.is_violated(run.counts, p.lowest, p.highest)
        if run.repriced or not (
            off or (priced and count_bounds.is_stale(run.counts, run.at.price, p.lowest, p.highest))
        ):
            return None
        planes = p.geometry.raw(run.at.W, run.at.b)
        price = count_bounds.find_prices(self.oracle, planes, p.geometry.total, p.lowest, p.highest)
        return run._replace(at=run.at._replace(price=price), repriced=True)

    def _add_cut(self, run: Run, answer: Answer) -> Run:
        """The plane at this point joins the working set."""
        p = self.problem
        total = p.geometry.total
        at = p.geometry.raw(run.at.W, run.at.b)
        slope = p.geometry.centre(answer.at.weighted, answer.at.tilt).ravel()
        intercept, tilt = float(answer.at.intercept) / total, answer.at.tilt / total
        planes = run.planes.add(at.W, at.b, intercept, slope, tilt, run.at.price)
        if p.pairs is not None:
            for cut in p.pairs.cuts(run.at.W, run.at.b):
                estimate = planes.height(cut.group, run.at.W, run.at.b)
                if p.budgets[cut.group] * (cut.loss - estimate) > VIOLATED * p.tolerance:
                    planes = planes.add(at.W, at.b, 0.0, cut.slope, cut.tilt, group=cut.group)
        return run._replace(planes=planes)

    def _solve_master(self, run: Run) -> Run:
        """The master's lowest point is where the next plane is cut; idle planes leave."""
        p = self.problem
        solved, W = bias_box.solve_within(p, run)
        planes = run.planes.record_solution(solved.multipliers, p.C)
        at = self._pull_inward(run, Point(W, solved.bias, run.at.price, solved.value))
        return run._replace(planes=planes.drop_idle(IDLE_ROUNDS), at=at, bound=solved.lower_bound, repriced=False)

    def _pull_inward(self, run: Run, lowest: Point) -> Point:
        """Part of the way back from the master's lowest point to the leader, where a norm bends too little by itself.

        The master's point then jumps from one end of the working set to the other, and planes cut there tell little of
        the middle.
        """
        share = 0.0 if run.inside else self.problem.norm.inward
        if share == 0.0 or not np.isfinite(run.leader.value):
            return lowest
        W, b = (share * old + (1.0 - share) * new for old, new in zip(run.leader[:2], lowest[:2], strict=True))
        return lowest._replace(W=W, b=b)

    def _choose_label_point(self, run: Run) -> Point:
        """Where labels are taken: at the leader, but not at w = 0, where all rows would get the same one."""
        return run.leader if run.leader.W.any() else run.at

    def _choose_better(self, run: Run, here: Point) -> Point:
        """The better of the best point and this one, if this one's clusters are all alive.

        That is the lower one; of three or more clusters with linked rows, the one whose labels break fewer links, as
        there a lower objective is not a better clustering.
        """
        if not self._is_alive(run):
            return run.best
        pairs = self.problem.pairs
        if pairs is None or self.problem.K == 1 or not np.isfinite(run.best.value):
            return here if here.value < run.best.value else run.best
        broken = [pairs.broken(self._labels_at(point)) for point in (here, run.best)]
        return here if (broken[0], here.value) < (broken[1], run.best.value) else run.best

    def _labels_at(self, point: Point) -> ByScores:
        return ByScores(self.problem.geometry.raw(point.W, point.b, point.price), self.problem.wide)

    def _step_inside(self, run: Run, answer: Answer, here: Point) -> Run:
        """CCCP on the working set until the labels settle, then the most violated constraint joins it."""
        p = self.problem
        run = run._replace(leader=here)
        if not run.relabel:
            return self._solve_master(self._add_cut(run, answer))._replace(relabel=True)
        best = self._choose_better(run, here)
        run = run._replace(best=best, waited=0 if best is here else run.waited + 1)
        if run.waited >= PATIENCE:
            return self._go_on_outside(run)
        estimate = run.at.value
        fell = run.opened - estimate
        closed = run.gap <= p.tolerance
        if closed and (run.flips == 0 or fell <= p.tolerance):
            return run._replace(ended="converged")
        if not closed and (run.flips == 0 or fell <= p.alpha * abs(estimate)):
            return self._solve_master(self._add_cut(run, answer)._replace(opened=np.inf))
        return self._solve_master(run._replace(opened=estimate))

    def _begin_around_0(self, run: Run) -> Run:
        """Begin anew at w = 0, from the labels at hand, with the box of the biases around 0."""
        K, d = run.at.W.shape
        origin = Point(np.zeros((K, d)), np.zeros(K), np.zeros(K), np.inf)
        planes = Planes.empty(K, d, by_row=self.problem.norm.by_row)
        begun = Run(run.number, planes, run.labelling, origin, origin, run.leader, inside=self.problem.inside)
        return begun._replace(objective=run.objective)

    def _go_on_outside(self, run: Run) -> Run:
        """Go on outside from the best point, with a working set of its own: its planes follow another rule."""
        K, d = run.at.W.shape
        return run._replace(
            inside=False,
            at=run.best if np.isfinite(run.best.value) else run.at,
            planes=Planes.empty(K, d, by_row=self.problem.norm.by_row),
            opened=np.inf,
            waited=0,
            repriced=False,
        )

    def _step_outside(self, run: Run, answer: Answer, here: Point) -> Run:
        """Planes until the convex problem's gap is small against what was gained, then labels again."""
        p = self.problem
        if run.relabel:
            run = run._replace(best=self._choose_better(run, here), relabel=False)
            if run.repriced and p.guarded and self._is_useful(run):
                return run._replace(ended="count bound")
            stays = run.flips == 0 and run.planes.size > 0  # the labels, and so the convex problem
            if stays and run.gap > p.tolerance:
                return self._check_gap(self._solve_master(run._replace(opened=run.leader.value)))
            if stays or run.opened - here.value <= min(STALLED * abs(here.value), p.tolerance):
                return run._replace(ended="converged" if run.gap <= p.tolerance else "stalled")
            run = run._replace(leader=here, opened=here.value, narrowest=np.inf, waited=0)
        elif here.value < run.leader.value:
            run = run._replace(leader=here)
        return self._check_gap(self._solve_master(self._add_cut(run, answer)))

    def _check_gap(self, run: Run) -> Run:
        """Labels are due when the gap is small; a run whose gap no longer narrows ends."""
        gained = run.opened - run.leader.value if np.isfinite(run.opened) else 0.0
        enough = max(self.problem.tolerance, 0.5 * gained)
        while run.reach and run.gap <= enough:
            run = bias_box.move(self.problem, run)
            if self.problem.inside and not run.reach and not run.centre.size:
                return self._begin_around_0(run)
            run = self._solve_master(run) if run.reach else run
        if run.gap <= enough:
            return run._replace(at=self._choose_label_point(run)._replace(price=run.at.price), relabel=True)
        narrower = run.gap < 0.99 * run.narrowest
        waited = 0 if narrower else run.waited + 1
        ended = "stalled" if waited >= PATIENCE else ""
        if ended and self.problem.inside and run.reach:
            return self._begin_around_0(run)
        return run._replace(narrowest=min(run.gap, run.narrowest), waited=waited, ended=ended)

    def _is_useful(self, run: Run) -> bool:
        """Whether the labels of this round were taken without prices and are better than chance.

        The objective prefers few clusters. Where it leaves such labels for ones with a cluster out of bounds, going on
        would only feed its rows to the others.
        """
        return not run.leader.price.any() and run.leader.value <= USEFUL * self.problem.nothing
