"""The evolutionary search as paper 002 prints it (Algorithm 1, `mutation="paper"`), for comparison.

Generation t flips max(1, n / (t + 1)) random signs of each parent, or fewer (`flips`); a flip that would break the
balance goes together with one of the opposite sign. Fitness follows from `p = Φᵀy`, which a flip changes by one row of
Φ, so Φ is held here.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.kernels.published_flips import evolve
from dmmc.solvers.balances import Evolved, choose_balance
from dmmc.solvers.driver import Restarts
from dmmc.solvers.evolution import FARTHEST, Problem
from dmmc.solvers.state_shapes import Each, Numbers, OneOf, Whole, find_misfit

PATIENCE = 10
"""A restart ends when this many offspring a row have not changed the best fitness."""
STARTS = 8
"""Names the stream of random numbers of the first population."""


class Population(NamedTuple):
    """One restart: signs (μ, n), their `p = Φᵀy`, balance and `|p|²`, best first."""

    Y: Array
    P: Array
    balance: Array
    squares: Array
    random: Array
    """State of the random numbers."""
    generation: int = 0
    waited: int = 0
    """Generations since the best fitness changed."""
    ended: str = ""
    limit: float = 0.0
    """A looser one than the problem's; 0: the problem's."""


class Populations(NamedTuple):
    """All restarts."""

    runs: tuple[Population, ...]


class Published(Restarts):
    """The solver: `init`, `step`, `done`, `report`, and `best` at the end; `rows` gives ψ (n, q)."""

    types = (Populations, Population)
    """What a state is made of."""

    def __init__(self, problem: Problem, rows: Callable[[], Array], weight: Array) -> None:
        self.problem = problem
        self.weight = np.array(weight, np.float64)
        self._rows = rows
        self._Phi: Array | None = None

    @property
    def Phi(self) -> Array:
        """(n, q), float64."""
        if self._Phi is None:
            self._Phi = (self.weight / self.problem.total)[:, None] * self._rows()
        return self._Phi

    def init(self, restarts: int) -> Populations:
        """Random signs whose positive side has half of the weight; again for each further limit."""
        first = [self._begin(number) for number in range(restarts)]
        return Populations(tuple(run._replace(limit=limit) for limit in (0.0, *self.problem.looser) for run in first))

    def _begin(self, number: int) -> Population:
        problem = self.problem
        rng = np.random.default_rng([problem.seed, STARTS, number])
        Y = np.full((problem.population, problem.n_rows), -1, np.int8)
        for y in Y:
            order = rng.permutation(problem.n_rows)
            y[order[np.cumsum(self.weight[order]) <= 0.5 * problem.total]] = 1
        P = np.stack([y @ self.Phi for y in Y])
        squares = (P**2).sum(axis=1)
        order = np.argsort(-squares, kind="stable")
        random = rng.integers(2**63, size=1, dtype=np.uint64)
        return Population(Y[order], P[order], (Y @ self.weight)[order], squares[order], random)

    def find_misfit(self, state: Populations) -> str:
        """Say where a state that was read from a file is not one of this problem; "" where it is."""
        problem = self.problem
        floats = partial(Numbers, np.float64, "mu")
        run = {
            "Y": Numbers(np.int8, "mu", "n", values=(-1, 1)),
            "P": floats("q", low=-FARTHEST, high=FARTHEST),
            "balance": floats(low=-problem.total, high=problem.total),
            "squares": floats(low=0, high=FARTHEST),
            "random": Numbers(np.uint64, 1),
            **dict.fromkeys(("generation", "waited"), Whole()),
            "ended": OneOf("", "converged"),
            "limit": OneOf(0.0, *problem.looser),
        }
        sizes = {"mu": problem.population, "n": problem.n_rows, "q": problem.n_features}
        return find_misfit(state, {"runs": Each(run)}, sizes)

    def report(self, state: Populations) -> dict[str, Any]:
        """The lowest fitness, which a population never loses, and how far the restarts are."""
        best = 1.0 - max(float(run.squares[0]) for run in state.runs)
        return {
            "objective": best,
            "best": best,
            "generation": max(run.generation for run in state.runs),
            "runs": self.count_active(state),
        }

    def best(self, state: Populations) -> tuple[Array, Evolved]:
        """Signs y (n,) of the lowest fitness, and their `p = Φᵀy`; of several limits, of the one that is chosen."""
        lowest: dict[float, Population] = {}
        for run in sorted(state.runs, key=lambda run: -run.squares[0]):
            lowest.setdefault(run.limit or self.problem.limit, run)
        found = [Evolved(limit, run.P[0], float(run.balance[0])) for limit, run in lowest.items()]
        chosen = choose_balance(found, self.Phi.sum(axis=0), self.problem.total)
        return lowest[chosen.limit].Y[0], chosen

    def step(self, state: Populations) -> Populations:
        """As many offspring as there are rows, in each restart."""
        return Populations(tuple(run if run.ended else self._evolve(run) for run in state.runs))

    def _evolve(self, run: Population) -> Population:
        problem = self.problem
        generations = -(-problem.n_rows // problem.offspring)
        if problem.generations:
            generations = min(generations, problem.generations - run.generation)

        def with_young(part: Array) -> Array:
            return np.concatenate([part, np.empty((problem.offspring, *part.shape[1:]), part.dtype)])

        Y, P, balance, squares = (with_young(part) for part in run[:4])
        random, mu = run.random.copy(), problem.population
        last = evolve(
            self.Phi,
            self.weight,
            (run.limit or problem.limit) * (1.0 + 1e-12),
            Y,
            P,
            balance,
            squares,
            mu,
            run.generation,
            generations,
            problem.most_flips or problem.n_rows,
            random,
        )
        waited = generations - last if last else run.waited + generations
        over = waited * problem.offspring >= PATIENCE * problem.n_rows
        if problem.generations:
            over = run.generation + generations >= problem.generations
        ended = "converged" if over else ""
        return run._replace(
            Y=Y[:mu],
            P=P[:mu],
            balance=balance[:mu],
            squares=squares[:mu],
            random=random,
            generation=run.generation + generations,
            waited=waited,
            ended=ended,
        )
