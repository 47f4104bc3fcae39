"""Maximum margin clustering by cutting planes, any number of clusters (papers 000 and 001)."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc import start
from dmmc.data import Rows
from dmmc.engine import Engine, count_jobs
from dmmc.errors import ClusteringWarning, ConvergenceWarning, InputError, warn
from dmmc.estimators.base import MAX_CLUSTERS, LinearClusterer, one_blas_thread
from dmmc.estimators.checks import ABOVE_0, choice, labelled, number, seed_of
from dmmc.features.build import FEATURES
from dmmc.geometry import Geometry, measure
from dmmc.losses import LOSSES
from dmmc.solvers.base import Callback, drive
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.state import Problem, Run

Array = NDArray[Any]

INITS = ("k-means", "graph", "pca", "random")
BALANCE = 0.03
WISH = 0.5
"""A least size from here on is a wish to be kept to; below, it is a guard against collapse."""


class CuttingPlaneMMC(LinearClusterer):
    """Clusters that a support vector machine would separate with the widest margin, found without labels.

    Minimises `½|w|² + C mean(loss)` over hyperplanes and labels, on rows that are centred and scaled to a root mean
    squared norm of 1 (implicitly: no copy of the data is made).

    Parameters
    ----------
    n_clusters : int, 2 to 100
    C : float or "auto"
        Weight of the loss; "auto" is 30 for two clusters and 100 for more.
    balance : float in [0, 1) or "auto"
        Bound on the mean decision value (for more than two clusters: on differences of biases). "auto" is 0.03; for two
        clusters from a graph start it is more, by the difference of their shares.
    min_size, max_size : float or None
        Least and largest weight of a cluster, as fractions of n / n_clusters: a guard against collapse. 0 and None
        switch them off. A bound that is active at the end is a warning. With more than two clusters and a least size
        below 0.5 alone, the search (outside) ends where a cluster falls to it, as the objective prefers few clusters.
    order : "auto", "inside" or "outside"
        CCCP inside the cutting plane (default for two clusters) or outside it (default for more).
    epsilon : float
        The gap at which a convex problem counts as solved, in units of C.
    max_iter : int
        Most passes over the data.
    init : "k-means", "graph", "pca", "random" or labels
        Where the search starts; "graph" joins many small groups along the graph of nearest neighbours.
    n_init : int or "auto"
        Restarts; they share each read of the data, and the lowest objective wins. "auto" is 1, and 10 for "random".
    scale : "auto", "standard" or "none"
        Whether to put features on one scale; "auto" does where scales differ widely.
    features : "raw", "lsa", "smooth", "spectral" or "umap"
        What the hyperplanes are in: the columns as they are; latent semantic axes with rows of norm 1; or features of
        the graph of nearest neighbours, which follow curved clusters: columns smoothed along it, its eigenvectors, a
        UMAP embedding. New rows get the features of the fitted rows nearest to them.
    n_neighbors : int
        Neighbours of a row in that graph.
    random_state : int, RandomState or None
    n_jobs : int or None
        Threads; None is all cores. The result does not depend on it.
    max_seconds : float or None
        Stop after this time with the best so far.
    callbacks : callable or sequence of callables
        Called with each line of the history as it is made.

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplanes in the coordinates of the raw rows
    objective_ : float, the objective reached
    gap_ : float, certified gap of the last convex problem
    n_iter_ : int, passes made
    history_ : list of dict, one a pass
    choices_ : dict, what was chosen for this fit and why
    n_features_in_, feature_names_in_
    """

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        C: float | str = "auto",
        balance: float | str = "auto",
        min_size: float = 0.1,
        max_size: float | None = None,
        order: str = "auto",
        epsilon: float = 0.01,
        max_iter: int = 1000,
        init: str | ArrayLike = "k-means",
        n_init: int | str = "auto",
        scale: str = "auto",
        features: str = "raw",
        n_neighbors: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        max_seconds: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.C = C
        self.balance = balance
        self.min_size = min_size
        self.max_size = max_size
        self.order = order
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.init = init
        self.n_init = n_init
        self.scale = scale
        self.features = features
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_seconds = max_seconds
        self.callbacks = callbacks

    def fit(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, *, component: str | None = None
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : numpy array, scipy sparse, frame, dask array, zarr array or group, or path of a zarr store
        y : ignored
        sample_weight : how much each row counts
        component : path inside the store, for a zarr store
        """
        began = time.perf_counter()
        self.check_parameters()
        seed = seed_of(self.random_state)
        dataset = labelled(self._open(X, component, sample_weight), self.init, self.n_clusters, INITS)
        if self.n_clusters == 1:
            self._do_not_search(dataset, seed)
            return self
        with one_blas_thread(), self._working(dataset) as engine:
            self._phase("measure")
            geometry, limited = measure(engine.dataset, engine.rows, self.scale)
            if limited is not engine.dataset:
                engine.use(limited)
            with self._with_features(engine, geometry, seed) as (embedded, its_geometry):
                self._search(embedded, its_geometry, seed, began)
        return self

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        dataset = engine.dataset
        k = int(self.n_clusters)
        init = self.init if isinstance(self.init, str) else "labels"
        starts = self._starts(init)
        given = init in ("labels", "graph")
        lowest, highest = self._bounds(dataset.n_rows)
        problem = Problem(
            n_clusters=k,
            C=self._C(),
            balance=self._balance(dataset),
            epsilon=float(self.epsilon),
            inside=self.order == "inside" or (self.order == "auto" and k == 2),
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: geometry.apply(dataset.take(start.sample_rows(dataset, k, seed))),
            table=LOSSES["hinge"].table,
            wide=k > 2 or starts > 1,
            guarded=k > 2 and self.max_size is None and 0 < self.min_size < WISH,
        )
        solver = CuttingPlane(problem, engine.run)
        found = None if self._keeper is None else self._keeper.found(geometry.fingerprint, solver.types, solver.whole)
        if found is None:
            self._phase("start")
            labellings = start.labellings("labels" if given else init, dataset, engine.run, geometry, k, starts, seed)
            found = solver.init(labellings, dataset.n_features), []
        self._phase("search")
        state, history, why = drive(
            solver,
            found[0],
            max_iter=int(self.max_iter),
            max_seconds=None if self.max_seconds is None else self.max_seconds - (time.perf_counter() - began),
            callbacks=self._callbacks(),
            history=found[1],
            keeper=self._keeper,
        )
        best = solver.best(state)
        why = best.ended if why == "done" else why
        self.objective_ = best.best.value
        self.gap_ = best.gap
        self.n_iter_ = len(history)
        self.history_ = history
        self.choices_ = {
            "method": "cpmmc",
            "C": problem.C,
            "order": "inside" if problem.inside else "outside",
            "init": init,
            "n_init": starts,
            "features": self.features,
            **self._notes,
            "standardised": self._standardised,
            "random_state": seed,
            "fingerprint": geometry.fingerprint,
            "ended": why,
            "prices_folded_into_biases": bool(best.best.price.any()),
            "reseeded": best.reseeded,
        }
        self._phase("label")
        self._settle(geometry.raw(best.best.W, best.best.b, best.best.price), engine)
        self._tell(best, why)

    def _do_not_search(self, dataset: Rows, seed: int) -> None:
        """One cluster is every row; scikit-learn asks its clusterers to take it."""
        self.coef_, self.intercept_ = np.zeros((1, dataset.n_features)), np.array([-1.0])
        self.labels_ = np.concatenate([np.zeros(len(f), np.int32) for f in self._decisions(dataset, None)])
        self.objective_, self.gap_, self.n_iter_, self.history_ = 0.0, 0.0, 0, []
        self.choices_ = {"method": "cpmmc", "random_state": seed, "ended": "converged"}
        warn("n_clusters is 1, so all rows are in one cluster and nothing was searched.", ClusteringWarning)

    # ------------------------------------------------------------------------------------------------ parameters

    def _C(self) -> float:
        """30 keeps two clusters stable on a few hundred rows; k-wide objectives collapse below 100 (MATH.md, 8)."""
        if not isinstance(self.C, str):
            return float(self.C)
        return 30.0 if self.n_clusters == 2 else 100.0

    def _balance(self, dataset: Rows) -> float:
        """0.03; more where a graph start has found two clusters of uneven size, lest the search makes them even."""
        if not isinstance(self.balance, str):
            return float(self.balance)
        given = dataset.given
        if self.n_clusters != 2 or given is None or not (isinstance(self.init, str) and self.init == "graph"):
            return BALANCE
        share = float(np.average(given, weights=dataset.weight))
        return min(BALANCE + abs(2.0 * share - 1.0), 0.9)

    def _bounds(self, n: int) -> tuple[float, float]:
        """Least and largest share of a cluster, in whole rows: at least one where there is a bound."""
        each = n / self.n_clusters
        lowest = max(1, math.floor(self.min_size * each + 1e-9)) / n if self.min_size > 0 else 0.0
        return lowest, 1.0 if self.max_size is None else min(1.0, math.ceil(self.max_size * each - 1e-9) / n)

    def _starts(self, init: str) -> int:
        if init in ("labels", "graph", "pca"):
            return 1  # there is only one such start
        if not isinstance(self.n_init, str):
            return int(self.n_init)
        return 10 if init == "random" else 1

    def _callbacks(self) -> Sequence[Callback]:
        heard = () if self._listener is None else (self._listener,)
        if self.callbacks is None:
            return heard
        return (*heard, self.callbacks) if callable(self.callbacks) else (*heard, *self.callbacks)

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        clusters = f"a whole number of clusters, 2 to {MAX_CLUSTERS},"
        number("n_clusters", self.n_clusters, clusters, 1, MAX_CLUSTERS + 1, whole=True)
        if not (isinstance(self.C, str) and self.C == "auto"):
            number("C", self.C, 'a number above 0, or "auto",', ABOVE_0, np.inf)
        if not (isinstance(self.balance, str) and self.balance == "auto"):
            below = 'a number of at least 0 and below 1 (at 1, w = 0 costs nothing), or "auto",'
            number("balance", self.balance, below, 0.0, 1.0)
        number("min_size", self.min_size, "a fraction of n / n_clusters from 0 to 1", 0.0, np.nextafter(1.0, 2.0))
        if self.max_size is not None:
            number("max_size", self.max_size, "None, or a multiple of n / n_clusters of at least 1,", 1.0, np.inf)
        choice("order", self.order, ("auto", "inside", "outside"))
        number("epsilon", self.epsilon, "a number above 0", ABOVE_0, np.inf)
        number("max_iter", self.max_iter, "a whole number of at least 1", 1, np.inf, whole=True)
        if isinstance(self.init, str):
            choice("init", self.init, INITS)
        if not (isinstance(self.n_init, str) and self.n_init == "auto"):
            number("n_init", self.n_init, 'a whole number of at least 1, or "auto",', 1, np.inf, whole=True)
        choice("scale", self.scale, ("auto", "standard", "none"))
        choice("features", self.features, FEATURES)
        number("n_neighbors", self.n_neighbors, "a whole number from 2 to 200", 2, 201, whole=True)
        count_jobs(self.n_jobs)
        if self.max_seconds is not None:
            number("max_seconds", self.max_seconds, "None, or a number of seconds above 0,", ABOVE_0, np.inf)
        several = self.callbacks if isinstance(self.callbacks, Sequence) else (self.callbacks,)
        if self.callbacks is not None and not all(callable(callback) for callback in several):
            raise InputError(f"callbacks is {self.callbacks!r}; a callable or a sequence of callables is wanted.")

    # ---------------------------------------------------------------------------------------------- what to say

    def _tell(self, run: Run, why: str) -> None:
        """Warn about whatever the user should know."""
        k = self.n_clusters
        counts = np.bincount(self.labels_, minlength=k)
        if why not in ("converged", "count bound"):
            by = "the search stalled" if why == "stalled" else f"stopped by {why}={getattr(self, why)}"
            warn(
                f"{by} after {self.n_iter_} pass(es) with a gap of {self.gap_:.3g} at objective {self.objective_:.4g}; "
                "the best hyperplanes so far were kept.",
                ConvergenceWarning,
            )
        if run.reseeded:
            warn(f"a dying cluster was seeded again {run.reseeded} time(s).", ClusteringWarning)
        if run.best.price.any() or why == "count bound":
            then = "the search ended there" if why == "count bound" else "the search went on within it"
            folded = ", and its price is folded into the biases" if run.best.price.any() else ""
            warn(
                f"a count bound (min_size={self.min_size}, max_size={self.max_size}) is active: cluster sizes "
                f"{counts.tolist()}; {then}{folded}.",
                ClusteringWarning,
            )
        if (counts == 0).any():
            warn(
                f"only {np.count_nonzero(counts)} of {k} clusters have rows; are there {k} distinct groups of rows?",
                ClusteringWarning,
            )
