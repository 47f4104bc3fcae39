"""Maximum margin clustering with kernels by evolution: EvoMMC and FastEvoMMC (paper 002)."""

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Array
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.estimators.binary import BinaryClusterer
from dmmc.estimators.context import FitContext
from dmmc.estimators.feature_space import enter_rows
from dmmc.estimators.parameters import (
    AT_LEAST_1,
    POSITIVE,
    Number,
    TransformParameters,
    Words,
    at_least,
    document,
    parameter,
)
from dmmc.estimators.row_kernel import RowKernel
from dmmc.features import maps
from dmmc.features.mapped_rows import KEPT, fit_in_cache, mapped
from dmmc.features.maps import Map
from dmmc.features.nystroem import KERNELS
from dmmc.machine import MIB
from dmmc.model.passes import Hyperplanes
from dmmc.solvers import sign_sums, starts
from dmmc.solvers.evolution import Evolution, Problem
from dmmc.solvers.medoid import find_medoid
from dmmc.solvers.published_evolution import Published
from dmmc.solvers.sign_sums import Signs
from dmmc.solvers.state_shapes import Numbers, Spec
from dmmc.solvers.tree import Found, Search
from dmmc.solvers.whitening import Whitened

HELD = 1024 * MIB
"""Most bytes of Φ that the driver holds for the published mutation."""
BALANCES = (0.03, 0.1, 0.4, 0.6, 0.9)
"""Those that `balance="auto"` tries for two clusters, from even ones to nineteen to one."""
LOOSE = 0.4
"""Balance of a split that is to be split again: paper 002's loosest."""


@document
@dataclass(eq=False, repr=False, kw_only=True)
class EvolutionaryMMC(TransformParameters, RowKernel, BinaryClusterer):
    """Clusters that a kernel machine fits best, found by evolution: EvoMMC, and FastEvoMMC with a `rank`.

    Minimises over balanced labels y = ±1 what regularised least squares in the kernel's space leaves of them,
    `F(y) = min_f mean (y - f(x))² + λ|f|²`. Labels climb by balanced signs of their own fit and by the flips and swaps
    that gain most; mutation is the kick out of a local optimum. New rows are labelled by f. More than two clusters are
    found by splitting: a tree.

    [parameters]

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplane in the kernel's features `map_`; in a tree, of its splits
    tree_ : (k - 1, 2) array, the children of each split: another split, or -1 - c for cluster c; None for two clusters
    objective_ : float, the F of `evolved_labels_`; in a tree, that of the labels of its splits, summed by their
        share of the rows
    evolved_labels_ : int32 array of n labels, the best that evolved, numbered as `labels_`; these are what the fit to
        them predicts, and may differ at `choices_["rows_predicted_otherwise"]` rows. None for a tree
    n_iter_, history_ : steps made, and one dict for each
    choices_ : dict, what was chosen for this fit and why
    n_features_in_, feature_names_in_
    """

    types = (*Evolution.types, *Published.types)
    features = "nystroem"
    n_neighbors = 7
    graph = "rows"
    n_anchors = "auto"
    evolved_labels_ = None

    kernel: str = parameter(
        "rbf", Words(KERNELS), "exp(-|x - p|² / σ²), (x·p / σ² + coef0)^degree or x·p, of centred rows"
    )
    rank: int | str | None = parameter(
        None,
        Number('None, "auto", or a whole number of at least 2', 2, whole=True, words=("auto", None)),
        "rows, drawn at random, through which the kernel is seen (Nyström): FastEvoMMC, for any number of rows. "
        '"auto" is a tenth of the rows up to 200, or a hundredth of them up to 1,000. None is the full kernel, up to '
        "5,000 rows",
    )
    sigma: float = parameter(
        1.0,
        POSITIVE,
        "σ in units of the length of the rows' range, (Σ_features (max - min)²)^½, about their largest distance. The "
        "paper tries 1, 3 and 5",
    )
    regularization: float = parameter(
        0.5, POSITIVE, "λ times the number of rows. The paper tries 1/2, 1/200 and 1/1000"
    )
    balance: float | str | None = parameter(
        "auto",
        Number('a number of at least 0 and below 1 (at 1, w = 0 costs nothing), or "auto",', 0.0, 1.0, words=("auto",)),
        'most that the shares of two clusters may differ. "auto" tries 0.03, 0.1, 0.4, 0.6 and 0.9, and takes '
        "the labels that their fit explains best, of equally good ones those of the tightest, and clusters more uneven "
        "than four to one only if explained far better; it is 0.4 for each split of more clusters",
    )
    mutation: str = parameter(
        "sweeps",
        Words(("sweeps", "paper")),
        '"paper" is the published search, for comparison: random flips alone, from random labels',
    )
    population: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        'labellings that stay in each generation. "auto" is 1; for mutation="paper" with the full kernel 10',
    )
    offspring: int | str = parameter(
        "auto",
        at_least(0, "auto"),
        'labellings that are tried in each generation. "auto" is 1; for mutation="paper" with the full kernel 10. '
        "0: each start climbs once",
    )
    flips: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        'mutation="paper": signs that an offspring flips at most. "auto" is n / (t + 1) in generation t, at least one; '
        "1 is one sign throughout",
    )
    generations: int | None = parameter(
        None,
        at_least(1, None),
        'mutation="paper": generations of a search. None goes on until the fitness has not changed for 10 offspring a '
        "row",
    )
    epsilon: float = parameter(1e-9, POSITIVE, "least fall of F that counts")
    max_iter: int = parameter(
        10_000,
        AT_LEAST_1,
        "most steps of a search: passes over the data, or climbs where one block holds all rows; in a tree, of each "
        "split",
    )
    init: str | ArrayLike = parameter(
        "random",
        Words(("random", "k-means", "pca"), "labels"),
        'where the search starts. "random" labels are smoothed: seen through 2, 4, 8 or 16 leading directions of the '
        'kernel, in turn. "k-means" and "pca" are those of the kernel\'s features',
    )
    n_init: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        'number of starts, of each balance that is tried; the lowest F wins. "auto" is 10 for "random" (3 for each '
        "split of more than two clusters), else 1",
    )

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "evommc" if self.rank is None else "fast-evommc"

    def enter_features(
        self, engine: Engine, row_map: Map, rows: Array | None, name: str
    ) -> AbstractContextManager[Engine]:
        """An engine over the kernel's features."""
        if self.rank is None:  # the map is as large as its features: they are made once, rather than by each pass
            return enter_rows(engine, np.concatenate(list(engine.rows(maps.map_rows, row_map))), name)
        return mapped(engine, row_map, name, keep=fit_in_cache(engine.dataset, row_map))

    def _pose_split(self, context: FitContext, lowest: float, highest: float) -> Search:
        engine, total, seed = context.engine, context.geometry.total, context.seed
        dataset = engine.dataset
        keep = 4 * dataset.n_rows * dataset.n_features <= KEPT
        psi = Whitened(engine.run, engine.rows, total, float(self.regularization), keep)
        weight = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
        by_size = min(1.0 - 2.0 * lowest, 2.0 * highest - 1.0)
        # of balances that a bound on sizes makes equal the tightest
        balances = {
            max(total * min(by_size, balance), float(weight.max())): balance for balance in self._list_balances()[::-1]
        }
        tightest, *looser = sorted(balances)
        problem = Problem(
            n_features=dataset.n_features,
            n_rows=dataset.n_rows,
            total=total,
            limit=tightest,
            epsilon=float(self.epsilon),
            population=self._choose_count(self.population),
            offspring=self._choose_count(self.offspring),
            seed=seed,
            together=len(dataset.bounds) == 2,
            looser=tuple(looser),
            most_flips=0 if isinstance(self.flips, str) else int(self.flips),
            generations=int(self.generations or 0),
        )

        def found(p: Array, limit: float, evolved: Callable[[], Array], ended: str) -> Found:
            """The fit to labels, by their p; of two clusters also the labels themselves."""
            ended = "max_seconds" if psi.is_hurried else ended
            at = sign_sums.find_thresholds(psi, p[None], problem.n_rows, total, limit)[0].middle
            W, none = (psi.M @ p)[None], np.zeros(1)
            # a threshold that keeps the balance is part of the model; one that keeps a bound on sizes is its price
            b, price = (none, np.array([-at])) if by_size < balances[limit] else (np.array([-at]), none)
            planes = Hyperplanes(W, b, price)
            predicted = Signs(p, at, problem.n_rows, np.zeros(0, np.int64))
            of_predicted = problem.fitness(psi(sign_sums.sum_signed, (predicted,)).weighted[0] / total)
            if self.n_clusters > 2:  # other leaves see the rows by the hyperplane's labels
                return Found(planes, of_predicted, math.inf, ended)
            if at and isinstance(self.balance, str) and balances[limit] == BALANCES[-1] <= by_size:
                warn(
                    f"clusters want to be more uneven than balance={BALANCES[-1]:g} allows, the loosest that is tried: "
                    "rows of the larger one were given to the smaller one. Choose a balance nearer to 1, and "
                    "min_size=0, if clusters may be so uneven.",
                    ClusteringWarning,
                )
            choices = {"balance": balances[limit], "objective_of_labels": of_predicted}
            return Found(planes, problem.fitness(p), math.inf, ended, choices, evolved())

        if self.mutation == "paper":
            return self._pose_published(context, problem, psi, found)
        solver = Evolution(problem, psi, context.limit)

        def begin() -> Any:
            n_init, init = self.choose_n_init(dataset.n_rows), self.start_name
            many = n_init * problem.population if init in ("random", "k-means") else 1
            each = starts.make_labellings(init, dataset, engine.run, context.geometry, 2, many, seed, context.limit)
            runs = [each[first::n_init] for first in range(min(n_init, len(each)))]
            psi.prepare(context.limit, problem.n_features)
            return solver.init(runs, random=init == "random")

        def climbed(state: Any, why: str) -> Found:
            best, limit = solver.best(state)
            rivals = [run for run in state.runs if solver.limit_of(run) == limit and solver.has_climbed(run)]
            if self.select == "medoid" and len(rivals) > 2:
                several = [solver.best(type(state)((run,)))[0] for run in rivals]
                signs = tuple(one.signs for one in several)
                each = zip(*psi.each(sign_sums.signs_of, signs), strict=True)
                best = several[find_medoid([np.concatenate(parts) > 0 for parts in each])]

            def evolved() -> Array:
                return np.concatenate([block[0] for block in psi.each(sign_sums.signs_of, (best.signs,))])

            return found(best.p, limit, evolved, "converged" if why == "done" else why)

        return Search(solver, begin, climbed)

    def _pose_published(self, context: FitContext, problem: Problem, psi: Whitened, found: Any) -> Search:
        weight = context.engine.dataset.weight
        solver = Published(problem, psi.rows, np.ones(problem.n_rows) if weight is None else weight)

        def begin() -> Any:
            psi.prepare(context.limit, problem.n_features)
            return solver.init(self.choose_n_init(problem.n_rows))

        def evolved(state: Any, why: str) -> Found:
            y, best = solver.best(state)
            told: Found = found(best.p, best.limit, lambda: y, "converged" if why == "done" else why)
            return told

        return Search(solver, begin, evolved)

    def _finish(self, context: FitContext, found: Found, history: list[dict[str, Any]], priced: bool) -> None:
        super()._finish(context, found, history, priced)
        self.evolved_labels_ = None
        if found.signs is None:
            return
        above = int(np.array_equal(self.coef_, found.planes.W))  # label of the rows with f >= 0 there
        evolved = np.where(found.signs > 0, above, 1 - above).astype(np.int32)
        self.evolved_labels_ = evolved
        self.choices_["rows_predicted_otherwise"] = int(np.count_nonzero(evolved != self.labels_))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `array_folder.write` needs to write the model; the labels that `objective` is of are among it."""
        content, arrays = super().to_arrays()
        if self.evolved_labels_ is not None:
            arrays["evolved_labels"] = self.evolved_labels_
        return content, arrays

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        model = super().from_arrays(content, arrays, name)
        model.evolved_labels_ = arrays.get("evolved_labels")
        return model

    @classmethod
    def describe_arrays(cls, names: Collection[str]) -> Mapping[str, Spec]:
        """The labels that the objective is of."""
        return {"evolved_labels": Numbers(np.int32, "n", values=(0, 1))} if "evolved_labels" in names else {}

    def _search(self, context: FitContext) -> None:
        engine = context.engine
        n, plain = engine.dataset.n_rows, engine.dataset.weight is None
        if self.n_clusters == 2 and plain and n % 2 and isinstance(self.balance, float | int) and self.balance * n < 1:
            warn(
                f"balance={self.balance:g} asks for two clusters of one size, but {n} rows are an odd number: they may "
                "differ by one row.",
                ClusteringWarning,
            )
        if self.mutation == "paper" and n * engine.dataset.n_features * 8 > HELD:
            raise InputError(
                f"mutation='paper' holds {n} rows of {engine.dataset.n_features} features in memory, more than "
                f"{HELD // MIB} MiB; choose a smaller rank, or mutation='sweeps'."
            )
        super()._search(context)

    def _list_balances(self) -> tuple[float, ...]:
        """Those to try, in rising order."""
        if not isinstance(self.balance, str):
            assert self.balance is not None
            return (float(self.balance),)
        return BALANCES if self.n_clusters == 2 else (LOOSE,)

    def choose_n_init(self, n_rows: int) -> int:
        """Number of starts; fewer for each split of a tree."""
        tree = self.start_name == "random" and self.n_init == "auto" and self.n_clusters > 2
        return 3 if tree else super().choose_n_init(n_rows)

    def _choose_count(self, asked: int | str) -> int:
        """Size of the population, or number of offspring."""
        if not isinstance(asked, str):
            return int(asked)
        return 10 if self.mutation == "paper" and self.rank is None else 1

    def _list_choices(self) -> dict[str, Any]:
        return {
            "sigma": float(self.sigma),
            "regularization": float(self.regularization),
            "mutation": self.mutation,
            "population": self._choose_count(self.population),
            "offspring": self._choose_count(self.offspring),
        }

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        super().check_parameters()
        if self.mutation != "paper":
            for name, usual in (("flips", "auto"), ("generations", None)):
                given = getattr(self, name)
                if given != usual:
                    raise InputError(
                        f"{name} is {given!r}, but mutation='sweeps' has no such thing; choose mutation='paper', or "
                        f"{name}={usual!r}."
                    )
            return
        if self.offspring != "auto":
            at_least(1, "auto").check("offspring", self.offspring)
        if self.start_name != "random":
            raise InputError(
                f"init is {self.start_name!r}, but mutation='paper' starts from random labels; choose init='random', "
                "or mutation='sweeps'."
            )
