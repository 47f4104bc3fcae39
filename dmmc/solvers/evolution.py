"""Evolutionary MMC (paper 002): the convex quadratic `|Φᵀy|²` is maximised over balanced signs y.

An individual climbs: balanced signs of its own scores (E13) until they stay, then the flips and swaps that gain most
(E12) until none gains. Neither ever lowers `|Φᵀy|²`. What climbs next are offspring: random members of the population
with some of their signs flipped at random, as many as the published mutation flips. The best μ of μ + ν stay. Random
signs are smoothed before they climb: of all that is random in them, a few leading directions of the kernel are kept.

Restarts are populations of their own, side by side: one read of Φ serves all of them.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.kernels.label_flips import flip_among
from dmmc.model.passes import Labelling, Oracle
from dmmc.solvers import sign_sums
from dmmc.solvers.balances import Evolved, choose_balance
from dmmc.solvers.driver import Restarts
from dmmc.solvers.sign_sums import Climb, Kick, Signs, Sweep
from dmmc.solvers.state_shapes import Between, Each, Either, Flag, Numbers, OneOf, Whole, find_misfit
from dmmc.time_limit import NO_LIMIT, TimeLimit

CANDIDATES = (16, 64)
"""Rows of each sign among which a sweep flips and swaps: the square root of n, within these bounds."""
PATIENCE = 10
"""Generations without a better individual after which a restart ends."""
LEADING = (2, 4, 8, 16)
"""Random labels are seen through so many leading directions of the kernel, in turn: most local optima are rough."""
FARTHEST = 2.0
"""No number of `p = Φᵀy` is larger: `|p|² = 1 - F` is at most 1."""
SAME = 1e-12
"""Individuals whose fitness differs by less are copies, or each other's negatives."""
PARENTS = 6
"""Names the stream of random numbers that chooses parents."""


@dataclass(frozen=True)
class Problem:
    """Lowest `F(y) = 1 - |Φᵀy|²` (E11) under `|Σ ω y| <= limit`, where `φ_i = ω_i ψ_i / Σω`."""

    n_features: int
    """Of the rows ψ; the leading directions of the kernel are the last of them."""
    n_rows: int
    total: float
    """Sum of the weights."""
    limit: float
    """At least the largest weight, or no signs might be balanced."""
    epsilon: float
    """Least fall of F that counts."""
    population: int
    offspring: int
    seed: int
    together: bool = False
    """Whether one block has all rows, so that one pass can climb to the end."""
    looser: tuple[float, ...] = ()
    """Further limits that are tried, each by restarts of its own."""
    most_flips: int = 0
    """Of the published mutation: flips of an offspring at most; 0: as many as there are rows."""
    generations: int = 0
    """Of the published search: its length; 0: until the fitness has not changed for long."""

    @property
    def candidates(self) -> int:
        """Rows of each sign among which a sweep flips and swaps."""
        return int(np.clip(np.sqrt(self.n_rows), *CANDIDATES))

    def fitness(self, p: Array) -> float:
        """(E11)."""
        return 1.0 - float(p @ p)


class Individual(NamedTuple):
    """A labelling and its `p = Φᵀy`."""

    p: Array
    signs: Signs
    """Empty weights: not yet known, p alone says where to climb."""
    balance: float
    fitness: float
    sweeping: bool = False
    """Whether flips are next; else balanced signs."""
    still: bool = False
    """Whether the other way to climb has found nothing since."""
    settled: bool = False


class Run(NamedTuple):
    """One restart."""

    number: int
    people: tuple[Individual, ...]
    """The population, best first."""
    young: tuple[Individual, ...]
    """Those who still climb."""
    generation: int = 0
    waited: int = 0
    """Generations since the best one was found."""
    ended: str = ""
    limit: float = 0.0
    """A looser one than the problem's; 0: the problem's."""


class Climber(NamedTuple):
    """Someone who climbs, and within which limit."""

    one: Individual
    limit: float


class State(NamedTuple):
    """All restarts."""

    runs: tuple[Run, ...]


class Evolution(Restarts):
    """The solver: `init`, `step`, `done`, `report`, and `best` at the end."""

    types = (State, Run, Individual, Signs)
    """What a state is made of."""

    def __init__(self, problem: Problem, oracle: Oracle, limit: TimeLimit = NO_LIMIT) -> None:
        self.problem = problem
        self.oracle = oracle
        self.limit = limit

    def init(self, labellings: list[list[Labelling]], random: bool = True) -> State:
        """Each restart begins with the individuals that climb from its labels; `random` ones are smoothed.

        There are as many restarts for each further limit, from the same labels.
        """
        sums = self.oracle(sign_sums.sum_started, tuple(one for run in labellings for one in run))
        begun = [weighted / self.problem.total for weighted in sums.weighted]
        turn = self.problem.seed
        young = iter([_make_beginner(_smooth(p, turn + number) if random else p) for number, p in enumerate(begun)])
        first = [tuple(next(young) for _ in run) for run in labellings]
        each = [(members, limit) for limit in (0.0, *self.problem.looser) for members in first]
        return State(tuple(Run(number, (), members, limit=limit) for number, (members, limit) in enumerate(each)))

    def find_misfit(self, state: State) -> str:
        """Say where a state that was read from a file is not one of this problem; "" where it is."""
        problem = self.problem
        p, flags = Numbers(np.float64, "q", low=-FARTHEST, high=FARTHEST), ("sweeping", "still", "settled")
        signs = {
            "w": p,
            "threshold": Between(),
            "cut": Whole(0, problem.n_rows),
            "flipped": Numbers(np.int64, "flips", low=0, high=problem.n_rows - 1, rising=True),
        }
        beginner = {"p": p, "signs": {**signs, "w": Numbers(np.float64, 0)}, **dict.fromkeys(flags, OneOf(False))}
        weighed = {"balance": Between(-problem.total, problem.total), "fitness": Between()}
        grown = {"p": p, "signs": signs, **weighed, **dict.fromkeys(flags, Flag())}
        run = {
            "people": Each(grown, least=0),
            "young": Each(Either(grown, beginner), least=0),
            **dict.fromkeys(("generation", "waited"), Whole()),
            "ended": OneOf("", "converged"),
            "limit": OneOf(0.0, *problem.looser),
        }
        misfit = find_misfit(state, {"runs": Each(run, numbered="number")}, {"q": problem.n_features})
        if misfit:
            return misfit
        for number, (_, people, young, *_, ended, _) in enumerate(state.runs):
            climbs = any(not one.settled for one in young)
            if climbs == bool(ended) or not (people or climbs):
                return f"runs[{number}] has ended though some still climb, or goes on though nobody does"
        return ""

    def report(self, state: State) -> dict[str, Any]:
        """The lowest fitness, which a population never loses, and how far the restarts are."""
        best = min(1.0, *(one.fitness for run in state.runs for one in (*run.people, *run.young)))
        return {
            "objective": best,
            "best": best,
            "generation": max(run.generation for run in state.runs),
            "runs": self.count_active(state),
        }

    def best(self, state: State) -> tuple[Individual, float]:
        """Whoever has the lowest fitness, and the limit; where there were several, of the one that is chosen (E34)."""
        lowest: dict[float, Individual] = {}
        for run in state.runs:
            for one in (*run.people, *run.young):
                limit = self.limit_of(run)
                if one.signs.w.size and (limit not in lowest or one.fitness < lowest[limit].fitness):
                    lowest[limit] = one
        if len(lowest) > 1:
            seen = len(next(iter(lowest.values())).p)
            everyone = Signs(np.zeros(seen), -1.0, 0, np.zeros(0, np.int64))  # all have the sign +1
            ones = self.oracle(sign_sums.sum_signed, (everyone,)).weighted[0] / self.problem.total
            found = [Evolved(limit, one.p, one.balance) for limit, one in lowest.items()]
            chosen = choose_balance(found, ones, self.problem.total).limit
        else:
            (chosen,) = lowest
        return lowest[chosen], chosen

    def has_climbed(self, run: Run) -> bool:
        """Whether someone's signs are known: when the time is up there may be runs where nobody has set out."""
        return any(one.signs.w.size for one in (*run.people, *run.young))

    def limit_of(self, run: Run) -> float:
        """Most that a run's |Σ ω y| may be."""
        return run.limit or self.problem.limit

    def step(self, state: State) -> State:
        """Climb, then see who stays.

        1. balanced signs for those who ascend, flips for those who sweep
        2. restarts whose young have all settled keep the best
        3. and have offspring, or end
        """
        climbing = [Climber(one, self.limit_of(run)) for run in state.runs for one in run.young if not one.settled]
        went = iter(self._climb(climbing))
        runs = []
        for run in state.runs:
            run = run._replace(young=tuple(one if one.settled else next(went) for one in run.young))  # 1
            if not run.ended and all(one.settled for one in run.young):
                run = self._select(run)  # 2
            runs.append(run)
        return State(self._add_offspring(runs))  # 3

    def _climb(self, people: list[Climber]) -> list[Individual]:
        if self.problem.together:
            return self._climb_to_the_end(people)
        ascend = [i for i, (one, _) in enumerate(people) if not one.sweeping]
        sweep = [i for i, (one, _) in enumerate(people) if one.sweeping]
        went = [one for one, _ in people]
        for who, how in ((ascend, self._ascend), (sweep, self._sweep)):
            if who:
                for i, one in zip(who, how([people[i] for i in who]), strict=True):
                    went[i] = one
        return went

    def _climb_to_the_end(self, people: list[Climber]) -> list[Individual]:
        """All in one pass; where time is limited one by one, of all limits in turn, until it is up: then some wait."""
        if self.limit.seconds is None:
            return self._climb_in_one_pass(people)
        went, seen, turns = [one for one, _ in people], Counter[float](), []
        for number, (_, limit) in enumerate(people):
            turns.append((seen[limit], number))
            seen[limit] += 1
        for turn, (_, number) in enumerate(sorted(turns)):
            if turn == 0 or not self.limit.is_over:
                (went[number],) = self._climb_in_one_pass([people[number]])
        return went

    def _climb_in_one_pass(self, people: list[Climber]) -> list[Individual]:
        problem = self.problem
        P, limits = _stack(people)
        params = Climb(P, problem.total, limits, problem.epsilon, problem.candidates)
        ends = self.oracle(sign_sums.climb_all, params)
        return [Individual(one.p, one.signs, one.balance, one.fitness, settled=True) for one in ends]

    def _ascend(self, people: list[Climber]) -> list[Individual]:
        """Balanced signs of everyone's scores (E13)."""
        problem = self.problem
        P, limits = _stack(people)
        found = sign_sums.find_thresholds(self.oracle, P, problem.n_rows, problem.total, limits)
        none = np.zeros(0, np.int64)
        new = tuple(Signs(p, at.threshold, at.cut, none) for p, at in zip(P, found, strict=True))
        sums = self.oracle(sign_sums.sum_signed, new)
        went = []
        for (one, _), labels, weighted, balance in zip(people, new, sums.weighted, sums.balance, strict=True):
            p = weighted / problem.total
            fitness = problem.fitness(p)
            if one.fitness - fitness > problem.epsilon:
                went.append(one._replace(p=p, signs=labels, balance=float(balance), fitness=fitness, still=False))
            else:
                went.append(one._replace(sweeping=True, still=True, settled=one.still))
        return went

    def _sweep(self, people: list[Climber]) -> list[Individual]:
        """The flips and swaps that gain most, among the candidates of one pass (E12)."""
        problem = self.problem
        params = Sweep(tuple(one.signs for one, _ in people), _stack(people)[0], problem.total, problem.candidates)
        return [self._flip(one, *best) for one, best in zip(people, self.oracle(sign_sums.gains, params), strict=True)]

    def _flip(self, climber: Climber, up: sign_sums.Best, down: sign_sums.Best) -> Individual:
        problem, (one, limit) = self.problem, climber
        weight = np.concatenate([up.weight, down.weight])
        phi = (weight / problem.total)[:, None] * np.concatenate([up.rows, down.rows])
        before = np.repeat([1.0, -1.0], [len(up.number), len(down.number)])
        y = before.copy()
        gained, balance = flip_among(
            len(phi), phi @ phi.T, phi @ one.p, y, weight, one.balance, limit, 0.01 * problem.epsilon
        )
        if gained <= problem.epsilon:
            return one._replace(sweeping=False, still=True, settled=one.still)
        p = one.p + (y - before) @ phi
        moved = np.concatenate([up.number, down.number])[y != before]
        flipped = np.setxor1d(one.signs.flipped, moved)
        return one._replace(
            p=p,
            signs=one.signs._replace(flipped=flipped),
            balance=float(balance),
            fitness=problem.fitness(p),
            still=False,
        )

    def _select(self, run: Run) -> Run:
        """The best of the population and of the young who have settled; of copies, one."""
        lowest = run.people[0].fitness if run.people else np.inf
        kept: list[Individual] = []
        for one in sorted((*run.people, *run.young), key=lambda one: one.fitness):
            if not kept or one.fitness - kept[-1].fitness > SAME:
                kept.append(one)
        better = lowest - kept[0].fitness > self.problem.epsilon
        run = run._replace(people=tuple(kept[: self.problem.population]), young=())
        waited = 0 if better else run.waited + 1
        ended = "converged" if waited >= PATIENCE or self.problem.offspring == 0 else ""
        return run._replace(waited=waited, ended=ended)

    def _add_offspring(self, runs: list[Run]) -> tuple[Run, ...]:
        """Kick random parents of the restarts that go on."""
        problem = self.problem
        kicks, parents, turns = [], [], []
        for run in runs:
            if run.ended or run.young:
                continue
            rng = np.random.default_rng([problem.seed, PARENTS, run.number, run.generation])
            for child in range(problem.offspring):
                parent = run.people[int(rng.integers(len(run.people)))]
                parents.append(parent)
                turns.append(problem.seed + run.generation + run.number + child)
                seed = (problem.seed, run.number, run.generation, child)
                kicks.append(Kick(parent.signs, 1.0 / (run.generation + 2), seed))
        if not kicks:
            return tuple(runs)
        moved = self.oracle(sign_sums.sum_kicked, tuple(kicks)).weighted
        young = iter(
            [
                _make_beginner(_smooth(one.p - 2.0 * weighted / problem.total, turn))
                for one, weighted, turn in zip(parents, moved, turns, strict=True)
            ]
        )
        return tuple(
            run
            if run.ended or run.young
            else run._replace(young=tuple(next(young) for _ in range(problem.offspring)), generation=run.generation + 1)
            for run in runs
        )


def _stack(people: list[Climber]) -> tuple[Array, Array]:
    """Everyone's p (K, q) and limit (K,)."""
    return np.stack([one.p for one, _ in people]), np.array([limit for _, limit in people])


def _smooth(p: Array, turn: int) -> Array:
    """The part of p in a few leading directions, which are the last ones."""
    count = LEADING[turn % len(LEADING)]
    return np.concatenate([np.zeros(max(0, len(p) - count)), p[-count:]])


def _make_beginner(p: Array) -> Individual:
    """Someone who is to climb from p, without signs yet."""
    return Individual(p, Signs(np.zeros(0), 0.0, 0, np.zeros(0, np.int64)), 0.0, np.inf)
