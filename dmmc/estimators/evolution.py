"""Maximum margin clustering with kernels by evolution: EvoMMC and FastEvoMMC (paper 002)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.estimators.binary import BinaryClusterer
from dmmc.estimators.fitting import BALANCE
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.features import maps
from dmmc.features.build import Remember
from dmmc.features.kernel_width import extent
from dmmc.features.mapped_rows import mapped
from dmmc.features.nystroem import FLOOR, Kernel, Nystroem
from dmmc.machine import MIB, free_memory
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Hyperplanes
from dmmc.solvers import sign_sums, starts
from dmmc.solvers.driver import Callback
from dmmc.solvers.evolution import LEADING, Evolution, Problem
from dmmc.solvers.evolution_published import Published
from dmmc.solvers.tree import Found, Search
from dmmc.solvers.whitening import Whitened

Array = NDArray[Any]

FULL = 5000
"""Most rows of a full kernel: its eigenvectors take time as the cube of them."""
KEPT = 256 * MIB
"""Blocks keep their features for the next pass if all of them together are no larger."""
HELD = 1024 * MIB
"""Most bytes of Φ that the driver holds for the published mutation."""
NEGLIGIBLE = 1e-6
"""Of F: directions of the kernel that change it by less are left out."""
MUTATIONS = ("sweeps", "paper")
LOOSE = 0.4
"""Balance of a split that is to be split again: paper 002's loosest."""


class EvolutionaryMMC(BinaryClusterer):
    """Clusters that a kernel machine fits best, found by evolution: EvoMMC, and FastEvoMMC with a `rank`.

    Minimises over balanced labels y = ±1 what regularised least squares in the kernel's space leaves of them,
    `F(y) = min_f mean (y - f(x))² + λ|f|²`. Labels climb by balanced signs of their own fit and by the flips and swaps
    that gain most; mutation is the kick out of a local optimum. New rows are labelled by f. More than two clusters are
    found by splitting: a tree.

    Parameters
    ----------
    n_clusters : int, 2 to 100
    kernel : "rbf", "polynomial" or "linear"
        `exp(-|x - x'|² / σ²)`, `(x·x' / σ² + coef0)^degree` or `x·x'`, of centred rows.
    rank : int, "auto" or None
        Rows, drawn at random, through which the kernel is seen (Nyström): FastEvoMMC, for any number of rows. "auto" is
        a tenth of the rows up to 200, or a hundredth of them up to 1,000. None is the full kernel, up to 5,000 rows.
    sigma : float
        σ in units of the length of the rows' range, `(Σ_features (max - min)²)^½`. The paper tries 1, 3 and 5.
    degree, coef0 : of the polynomial kernel
    regularization : float
        λ times the number of rows. The paper tries 1/2, 1/200 and 1/1000.
    balance : float in [0, 1) or "auto"
        Most that the shares of two clusters may differ. "auto" is 0.03, and 0.4 for a split of more than two clusters.
    min_size, max_size : float or None
        Least and largest weight of a cluster, as fractions of n / n_clusters.
    mutation : "sweeps" or "paper"
        "paper" is the published search, for comparison: random flips alone, from random labels.
    population, offspring : int or "auto"
        Labellings that stay, and that are tried, in each generation. "auto" is 1 and 1; for mutation="paper" with the
        full kernel 10 and 10, as published. No offspring: each start climbs once.
    epsilon : float
        Least fall of F that counts.
    max_iter : int
        Most steps of a search: passes over the data, or climbs where one block holds all rows.
    init : "random", "k-means", "pca" or labels
        Where the search starts. "random" labels are smoothed: seen through 2, 4, 8 or 16 leading directions of the
        kernel, in turn. "k-means" and "pca" are those of the kernel's features.
    n_init : int or "auto"
        Restarts; the lowest F wins. "auto" is 10 for "random" (3 for each split of more than two clusters), else 1.
    scale, random_state, n_jobs, max_seconds, callbacks
        As of CuttingPlaneMMC.

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplane in the kernel's features `map_`; in a tree, of its splits
    tree_ : (k - 1, 2) array, the children of each split: another split, or -1 - c for cluster c; None for two clusters
    objective_ : float, the F reached; in a tree, the sum over its splits by their share of the rows
    n_iter_, history_ : steps made, and one dict for each
    choices_ : dict, what was chosen for this fit and why
    n_features_in_, feature_names_in_
    """

    inits = ("random", "k-means", "pca")
    types = (*Evolution.types, *Published.types)
    features = "nystroem"
    n_neighbors = 10
    _extent: float

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        kernel: str = "rbf",
        rank: int | str | None = None,
        sigma: float = 1.0,
        degree: int = 3,
        coef0: float = 1.0,
        regularization: float = 0.5,
        balance: float | str = "auto",
        min_size: float = 0.1,
        max_size: float | None = None,
        mutation: str = "sweeps",
        population: int | str = "auto",
        offspring: int | str = "auto",
        epsilon: float = 1e-9,
        max_iter: int = 10_000,
        init: str | ArrayLike = "random",
        n_init: int | str = "auto",
        scale: str = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
        max_seconds: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.kernel = kernel
        self.rank = rank
        self.sigma = sigma
        self.degree = degree
        self.coef0 = coef0
        self.regularization = regularization
        self.balance = balance
        self.min_size = min_size
        self.max_size = max_size
        self.mutation = mutation
        self.population = population
        self.offspring = offspring
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.init = init
        self.n_init = n_init
        self.scale = scale
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_seconds = max_seconds
        self.callbacks = callbacks

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "evommc" if self.rank is None else "fast-evommc"

    # ------------------------------------------------------------------------------------------------ features

    @contextmanager
    def _with_features(self, engine: Engine, geometry: Geometry, seed: int) -> Iterator[tuple[Engine, Geometry]]:
        self._extent = extent(engine.dataset, engine.rows, geometry)
        with super()._with_features(engine, geometry, seed) as found:
            yield found

    def _kernel_map(self, dataset: Rows, geometry: Geometry, seed: int, remember: Remember) -> Nystroem:
        """Landmarks are rows drawn at random, or all of them."""
        eligible = np.arange(dataset.n_rows) if dataset.weight is None else np.flatnonzero(dataset.weight > 0)
        count = self._rank(dataset, len(eligible))
        wanted, free = 8 * (3 * count * dataset.n_features + 4 * count * count), free_memory()
        if free is not None and wanted > free:
            raise InputError(
                f"a kernel seen through {count} rows of {dataset.name} needs about {wanted / 1e6:.0f} MB, and "
                f"{free / 1e6:.0f} MB are free: choose a smaller rank (method fast-evommc)."
            )
        width = float(self.sigma) * self._extent
        if not 1e-150 < width < 1e150:
            raise InputError(
                f"sigma={self.sigma:g} makes the kernel {width:.3g} wide, whose square float64 cannot hold; "
                "choose a sigma nearer to 1."
            )
        gamma = 1.0 / width**2
        kernel = Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))
        mean, inverse = geometry.mean, geometry.norm / geometry.unit

        def make() -> dict[str, Array]:
            drawn = np.random.default_rng([seed, 6]).choice(len(eligible), count, replace=False, shuffle=False)
            rows = dataset.take(eligible[np.sort(drawn)])
            rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
            points = np.asarray((rows - mean) * inverse, np.float64)
            norms = (points**2).sum(axis=1)
            values = kernel.of(points @ points.T, norms, norms)
            if np.ptp(points, axis=0).any():
                self._look_at(values, len(eligible))
            return {"points": points, "root": self._root(values, len(eligible))}

        made = remember("landmarks", make)
        directions = len(made["root"])
        self._notes.update(kernel=self.kernel, gamma=gamma, extent=self._extent, rank=count, directions=directions)
        return Nystroem(kernel, made["points"], mean, inverse, made["root"])

    def _rank(self, dataset: Rows, n: int) -> int:
        """How many landmarks, of n rows that count."""
        if self.rank is None:
            if n > FULL:
                raise InputError(
                    f"{dataset.name} has {n} rows, and the full kernel of evommc is for up to {FULL}; choose method "
                    "fast-evommc (FastEvoMMC: EvolutionaryMMC with a rank)."
                )
            return n
        if isinstance(self.rank, str):
            return min(n, max(2, min(math.ceil(0.1 * n), 200), min(math.ceil(0.01 * n), 1000)))
        if self.rank > n:
            raise InputError(
                f"rank is {self.rank}, but {dataset.name} has {n} rows that count; at most as many are wanted."
            )
        return int(self.rank)

    def _root(self, values: Array, n: int) -> Array:
        """What makes features of kernel values at the landmarks, `Λ^-½ Vᵀ`, from the landmarks' own; n rows count.

        Directions that change no F by more than a millionth are left out: seen through r of n rows, their eigenvalues
        are about r / n of the whole kernel's, and they count as `Λ / (Λ + λn)`. The leading ones are where starts are.
        """
        found, vectors = np.linalg.eigh(values)
        floor = FLOOR * float(found[-1])
        counts = found > NEGLIGIBLE * self.regularization * len(values) / n
        counts[-max(LEADING) :] = True
        kept = np.flatnonzero(counts & (found > floor))
        return np.ascontiguousarray((vectors[:, kept] / np.sqrt(found[kept])).T)

    def _look_at(self, values: Array, n: int) -> None:
        """Warn where the kernel sees no two of n rows as alike, or no two as different."""
        if self.kernel != "rbf":
            return
        if np.ptp(values) < FLOOR:
            raise InputError(f"sigma={self.sigma:g} makes all values of the kernel equal; choose a smaller sigma.")
        mean = float((values.sum() - np.trace(values)) / (values.size - len(values)))
        if n * mean < 0.1:
            warn(
                f"sigma={self.sigma:g} makes the kernel matrix nearly the identity: no two rows are alike to it, and "
                "any labels fit as well as others. Choose a larger sigma.",
                ClusteringWarning,
            )
        elif n * (1.0 - mean) < 0.1 * self.regularization:
            warn(
                f"sigma={self.sigma:g} makes the kernel matrix nearly all ones: all rows are alike to it. Choose a "
                "smaller sigma, or a smaller regularization.",
                ClusteringWarning,
            )

    def _over_features(self, engine: Engine, rows: Array | None, name: str) -> AbstractContextManager[Engine]:
        assert self.map_ is not None
        if self.rank is None:  # the map is as large as its features: they are made once, rather than by each pass
            return super()._over_features(engine, np.concatenate(list(engine.rows(maps.mapped, self.map_))), name)
        return mapped(engine, self.map_, name, keep=self._keeps(engine.dataset))

    def _keeps(self, dataset: Rows) -> bool:
        assert self.map_ is not None
        return dataset.n_rows * self.map_.n_values * 4 <= KEPT

    # ------------------------------------------------------------------------------------------------ searching

    def _two(self, engine: Engine, geometry: Geometry, seed: int, lowest: float, highest: float) -> Search:
        dataset, total = engine.dataset, geometry.total
        psi = Whitened(engine.run, engine.rows, total, float(self.regularization), self._keeps(dataset))
        weight = np.ones(dataset.n_rows) if dataset.weight is None else dataset.weight
        by_size, by_balance = min(1.0 - 2.0 * lowest, 2.0 * highest - 1.0), self._balance(dataset)
        limit = max(total * min(by_size, by_balance), float(weight.max()))
        problem = Problem(
            n_features=dataset.n_features,
            n_rows=dataset.n_rows,
            total=total,
            limit=limit,
            epsilon=float(self.epsilon),
            population=self._population(),
            offspring=self._offspring(),
            seed=seed,
            together=len(dataset.bounds) == 2,
        )

        def found(p: Array, ended: str) -> Found:
            at = sign_sums.balanced(psi, p[None], problem.n_rows, total, limit)[0].middle
            W, none = (psi.M @ p)[None], np.zeros(1)
            # a threshold that keeps the balance is part of the model; one that keeps a bound on sizes is its price
            b, price = (none, np.array([-at])) if by_size < by_balance else (np.array([-at]), none)
            return Found(Hyperplanes(W, b, price), problem.fitness(p), math.inf, ended)

        if self.mutation == "paper":
            return self._published(problem, psi, weight, found)
        solver = Evolution(problem, psi)

        def begin() -> Any:
            many = self._starts() * problem.population if self._init in ("random", "k-means") else 1
            each = starts.labellings(self._init, dataset, engine.run, geometry, 2, many, seed)
            runs = [each[first :: self._starts()] for first in range(min(self._starts(), many))]
            return solver.init(runs, random=self._init == "random")

        return Search(
            solver, begin, lambda state, why: found(solver.best(state).p, "converged" if why == "done" else why)
        )

    def _published(self, problem: Problem, psi: Whitened, weight: Array, found: Any) -> Search:
        solver = Published(problem, psi.rows, weight)
        return Search(
            solver,
            lambda: solver.init(self._starts()),
            lambda state, why: found(solver.best(state), "converged" if why == "done" else why),
        )

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        n, plain = engine.dataset.n_rows, engine.dataset.weight is None
        if self.n_clusters == 2 and plain and n % 2 and not isinstance(self.balance, str) and self.balance * n < 1:
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
        super()._search(engine, geometry, seed, began)

    def _balance(self, dataset: Rows) -> float:
        if not isinstance(self.balance, str):
            return float(self.balance)
        return BALANCE if self.n_clusters == 2 else LOOSE

    def _starts(self) -> int:
        tree = self._init == "random" and self.n_init == "auto" and self.n_clusters > 2
        return 3 if tree else super()._starts()

    def _population(self) -> int:
        if not isinstance(self.population, str):
            return int(self.population)
        return 10 if self.mutation == "paper" and self.rank is None else 1

    def _offspring(self) -> int:
        if not isinstance(self.offspring, str):
            return int(self.offspring)
        return 10 if self.mutation == "paper" and self.rank is None else 1

    def _chosen(self) -> dict[str, Any]:
        return {
            "sigma": float(self.sigma),
            "regularization": float(self.regularization),
            "mutation": self.mutation,
            "population": self._population(),
            "offspring": self._offspring(),
        }

    # ------------------------------------------------------------------------------------------------ parameters

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        super().check_parameters()
        if self.rank is not None and not (isinstance(self.rank, str) and self.rank == "auto"):
            number("rank", self.rank, 'None, "auto", or a whole number of at least 2', 2, np.inf, whole=True)
        number("sigma", self.sigma, "a number above 0", ABOVE_0, np.inf)
        number("regularization", self.regularization, "a number above 0", ABOVE_0, np.inf)
        choice("mutation", self.mutation, MUTATIONS)
        for name, least in (("population", 1), ("offspring", int(self.mutation == "paper"))):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                number(name, value, f'a whole number of at least {least}, or "auto",', least, np.inf, whole=True)
        if self.mutation == "paper" and self._init != "random":
            raise InputError(
                f"init is {self._init!r}, but mutation='paper' starts from random labels; choose init='random', or "
                "mutation='sweeps'."
            )
