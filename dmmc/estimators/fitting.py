"""What all searches share: parameters, rows opened and measured, features made, a solver driven, labels settled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from dmmc.data.blocks import Block
from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, ConvergenceWarning, InputError, warn
from dmmc.estimators import parameters
from dmmc.estimators.featured import Featured
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.machine import count_threads
from dmmc.model import passes
from dmmc.model.geometry import Geometry, measure
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.solvers import starts
from dmmc.solvers.driver import Callback, drive

Array = NDArray[Any]

MAX_CLUSTERS = 100
INITS = ("k-means", "graph", "pca", "random")
BALANCE = 0.03


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Driver linear algebra on one thread: the same bits whatever the machine does."""
    with threadpool_limits(1, user_api="blas"):
        yield


class MarginClusterer(Featured):
    """An estimator that searches: a subclass says how (`_search`), what it is called, and checks its own parameters.

    Its constructor takes at least `n_clusters, balance, min_size, max_size, epsilon, max_iter, init, n_init, scale,
    features, n_neighbors, random_state, n_jobs, max_seconds, callbacks`.
    """

    inits: ClassVar[Sequence[str]] = INITS
    balance: float | str
    min_size: float
    max_size: float | None
    epsilon: float
    max_iter: int
    n_init: int | str
    scale: str
    random_state: Any
    max_seconds: float | None
    callbacks: Callback | Sequence[Callback] | None

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        raise NotImplementedError

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        """Find the hyperplanes over the engine's rows, and set what a fit sets (`_found`, `_settle`)."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------ fitting

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
        seed = parameters.seed_of(self.random_state)
        dataset = parameters.labelled(self._open(X, component, sample_weight), self.init, self.n_clusters, self.inits)
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

    def _do_not_search(self, dataset: Rows, seed: int) -> None:
        """One cluster is every row; scikit-learn asks its clusterers to take it."""
        self.coef_, self.intercept_ = np.zeros((1, dataset.n_features)), np.array([-1.0])
        self.map_ = self.merge_tree_ = self.tree_ = None
        self.labels_ = np.concatenate([np.zeros(len(f), np.int32) for f in self._decisions(dataset, None)])
        self.objective_, self.gap_, self.n_iter_, self.history_ = 0.0, 0.0, 0, []
        self.choices_ = {"method": self.method, "random_state": seed, "ended": "converged"}
        warn("n_clusters is 1, so all rows are in one cluster and nothing was searched.", ClusteringWarning)

    def _driven(
        self, solver: Any, begin: Callable[[], Any], geometry: Geometry, began: float
    ) -> tuple[Any, list[dict[str, Any]], str]:
        """Drive a solver from where an earlier run of the same fit stopped, or from where it begins.

        Parameters
        ----------
        solver : has `types`, `find_misfit`, `step`, `done` and `report`
        begin : makes the first state; a phase of its own
        geometry : of the rows
        began : when the fit did
        """
        found = (
            None if self._keeper is None else self._keeper.found(geometry.fingerprint, solver.types, solver.find_misfit)
        )
        if found is None:
            self._phase("start")
            found = begin(), []
        self._phase("search")
        return drive(
            solver,
            found[0],
            max_iter=self.most_passes,
            max_seconds=None if self.max_seconds is None else self.max_seconds - (time.perf_counter() - began),
            callbacks=self._callbacks(),
            history=found[1],
            keeper=self._keeper,
        )

    def _found(
        self,
        geometry: Geometry,
        seed: int,
        history: list[dict[str, Any]],
        objective: float,
        gap: float,
        why: str,
        **choices: Any,
    ) -> None:
        """Set what a search has found and chosen, but for the hyperplanes (`_settle`)."""
        self.objective_, self.gap_, self.n_iter_, self.history_ = objective, gap, len(history), history
        self.choices_ = {
            "method": self.method,
            **choices,
            "features": self.features,
            **self._notes,
            "standardised": self._standardised,
            "random_state": seed,
            "fingerprint": geometry.fingerprint,
            "ended": why,
        }

    @property
    def most_passes(self) -> int:
        """Passes that a search makes at most."""
        return int(self.max_iter)

    def _settle(self, planes: Hyperplanes | Tree, engine: Engine) -> None:
        """Fold prices into the biases, number the clusters by size, and label the training rows by `predict`'s rule."""
        found = list(engine.rows(_labels_and_ties, planes))
        labels = np.concatenate([block for block, _ in found])
        order = by_size(labels, max(planes.n_scores, 2))
        self.tree_ = None
        if isinstance(planes, Tree):
            number = np.argsort(order)  # of each leaf
            leaves = planes.children < 0
            self.tree_ = np.where(leaves, -1 - number[np.where(leaves, -1 - planes.children, 0)], planes.children)
            self.coef_, self.intercept_ = planes.W, planes.b
            self.labels_ = number.astype(np.int32)[labels]
            return
        bias = planes.b + planes.price
        if len(planes.W) == 1:
            sign = 1.0 if order[0] == 0 else -1.0
            self.coef_, self.intercept_ = sign * planes.W, sign * bias
        else:
            self.coef_, self.intercept_ = planes.W[order], bias[order]
        if any(ties for _, ties in found):
            # a tie goes to the lowest number, so new numbers may give the row to another cluster
            found = list(engine.rows(_labels_and_ties, self.hyperplanes()))
            self.labels_ = np.concatenate([block for block, _ in found]).astype(np.int32)
        else:
            self.labels_ = np.argsort(order).astype(np.int32)[labels]

    # ------------------------------------------------------------------------------------------------ parameters

    @property
    def _init(self) -> str:
        """Name of the start; given labels are "labels"."""
        return self.init if isinstance(self.init, str) else "labels"

    def _balance(self, dataset: Rows) -> float:
        """0.03; more where a graph start has found two clusters of uneven size, lest the search makes them even."""
        if not isinstance(self.balance, str):
            return float(self.balance)
        given = dataset.given
        if self.n_clusters != 2 or given is None or self._init != "graph":
            return BALANCE
        share = float(np.average(given, weights=dataset.weight))
        return min(BALANCE + abs(2.0 * share - 1.0), 0.9)

    def _bounds(self, n: int) -> tuple[float, float]:
        """Least and largest share of a cluster, in whole rows: at least one where there is a bound."""
        each = n / self.n_clusters
        lowest = max(1, math.floor(self.min_size * each + 1e-9)) / n if self.min_size > 0 else 0.0
        return lowest, 1.0 if self.max_size is None else min(1.0, math.ceil(self.max_size * each - 1e-9) / n)

    def _starts(self) -> int:
        """Restarts."""
        if self._init in ("labels", "graph", "pca"):
            return 1  # there is only one such start
        if not isinstance(self.n_init, str):
            return int(self.n_init)
        return 10 if self._init == "random" else 1

    def _labellings(
        self, engine: Engine, geometry: Geometry, seed: int, init: str | None = None
    ) -> list[passes.Labelling]:
        """Labels to start from, one labelling a restart; `init` where it is another one than was asked for."""
        init = init or ("labels" if self._init == "graph" else self._init)
        k, dataset = self._n_labels, engine.dataset
        return starts.labellings(init, dataset, engine.run, geometry, k, self._starts(), seed)

    @property
    def _n_labels(self) -> int:
        """Labels of a start."""
        return int(self.n_clusters)

    def _callbacks(self) -> Sequence[Callback]:
        heard = () if self._listener is None else (self._listener,)
        if self.callbacks is None:
            return heard
        return (*heard, self.callbacks) if callable(self.callbacks) else (*heard, *self.callbacks)

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        clusters = f"a whole number of clusters, 2 to {MAX_CLUSTERS},"
        number("n_clusters", self.n_clusters, clusters, 1, MAX_CLUSTERS + 1, whole=True)
        self._check_balance()
        number("min_size", self.min_size, "a fraction of n / n_clusters from 0 to 1", 0.0, np.nextafter(1.0, 2.0))
        if self.max_size is not None:
            number("max_size", self.max_size, "None, or a multiple of n / n_clusters of at least 1,", 1.0, np.inf)
        number("epsilon", self.epsilon, "a number above 0", ABOVE_0, np.inf)
        number("max_iter", self.max_iter, "a whole number of at least 1", 1, np.inf, whole=True)
        if isinstance(self.init, str):
            choice("init", self.init, self.inits)
        if not (isinstance(self.n_init, str) and self.n_init == "auto"):
            number("n_init", self.n_init, 'a whole number of at least 1, or "auto",', 1, np.inf, whole=True)
        choice("scale", self.scale, ("auto", "standard", "none"))
        self._check_feature_parameters()
        count_threads(self.n_jobs)
        if self.max_seconds is not None:
            number("max_seconds", self.max_seconds, "None, or a number of seconds above 0,", ABOVE_0, np.inf)
        several = self.callbacks if isinstance(self.callbacks, Sequence) else (self.callbacks,)
        if self.callbacks is not None and not all(callable(callback) for callback in several):
            raise InputError(f"callbacks is {self.callbacks!r}; a callable or a sequence of callables is wanted.")

    def _check_balance(self) -> None:
        if not (isinstance(self.balance, str) and self.balance == "auto"):
            below = 'a number of at least 0 and below 1 (at 1, w = 0 costs nothing), or "auto",'
            number("balance", self.balance, below, 0.0, 1.0)

    # ---------------------------------------------------------------------------------------------- what to say

    def _tell_of_end(self, why: str) -> None:
        """Warn where a search was stopped before its end."""
        if why not in ("converged", "count bound"):
            by = "the search stalled" if why == "stalled" else f"stopped by {why}={getattr(self, why)}"
            gap = f" with a gap of {self.gap_:.3g}" if np.isfinite(self.gap_) else ""
            warn(
                f"{by} after {self.n_iter_} pass(es){gap} at objective {self.objective_:.4g}; "
                "the best hyperplanes so far were kept.",
                ConvergenceWarning,
            )

    def _tell_of_bound(self, why: str, folded: bool) -> None:
        """Warn where a count bound is active."""
        if folded or why == "count bound":
            then = "the search ended there" if why == "count bound" else "the search went on within it"
            more = ", and its price is folded into the biases" if folded else ""
            warn(
                f"a count bound (min_size={self.min_size}, max_size={self.max_size}) is active: cluster sizes "
                f"{self._counts().tolist()}; {then}{more}.",
                ClusteringWarning,
            )

    def _tell_of_empty(self) -> None:
        """Warn where a cluster has no rows."""
        k, present = self.n_clusters, np.count_nonzero(self._counts())
        if present < k:
            warn(f"only {present} of {k} clusters have rows; are there {k} distinct groups of rows?", ClusteringWarning)

    def _counts(self) -> Array:
        return np.bincount(self.labels_, minlength=self.n_clusters)


def _labels_and_ties(block: Block, planes: Hyperplanes | Tree) -> tuple[Array, int]:
    """Labels of a block, and how many rows have two equal largest scores."""
    f = passes.scores(block, planes)
    top = np.partition(f, -2, axis=1)[:, -2:] if f.shape[1] > 1 else np.hstack([f, np.zeros_like(f)])
    return passes.largest(f), int(np.count_nonzero(top[:, 0] == top[:, 1]))


def by_size(labels: Array, k: int) -> Array:
    """Labels from the largest cluster to the smallest; of equal ones, the one whose first row comes first."""
    counts = np.bincount(labels, minlength=k)
    first = np.full(k, len(labels))
    present, where = np.unique(labels, return_index=True)
    first[present] = where
    return np.lexsort((first, -counts))
