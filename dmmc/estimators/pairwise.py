"""Maximum margin clustering of rows of which some must, and some cannot, be together (paper 003)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators.cutting_plane import CuttingPlaneMMC
from dmmc.estimators.fitting import BALANCE
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.model.geometry import Geometry
from dmmc.model.passes import ByScores, Labelling
from dmmc.pairs.closure import checked, closed
from dmmc.pairs.io import read
from dmmc.pairs.losses import PairLosses, gathered
from dmmc.solvers import starts
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem
from dmmc.solvers.driver import Callback, drive

FREE = 1000.0
"""A bound on the bias that does not bind, in units of the margin: rows have a root mean squared norm of 1."""
FEW = 25.0
"""Links at which their weight is half of what many get: a few would only fit the rows that they are about."""
CLEARLY = 0.8
"""The start that links shape is taken where it breaks less than this part of what the other breaks: it was made so."""


class PairwiseMMC(CuttingPlaneMMC):
    """Maximum margin clustering of rows of which some must, and some cannot, be together.

    Minimises `½|w|² + C mean(loss)` as `CuttingPlaneMMC` does, and to that adds the mean over must-links of how far the
    scores of both rows are apart, and the mean over cannot-links of how far they are from opposite. `fit` takes the
    links; without any it is the margin part alone, in the outside order.

    Parameters
    ----------
    n_clusters : int, 2 to 100
    C : float or "auto"
        Weight of the margin loss; "auto" is 30 for two clusters, and 100 for more or with a kernel.
    C_pairs : float or "auto"
        Weight of the mean loss of must-links, and of that of cannot-links. "auto" grows with their number m: C times
        m / (m + 25), and 0.4 / n_clusters of that for more than two clusters, where it is at odds with the margins.
    margin : "max" or "sum"
        For more than two clusters: whether a row pays for its margin to the runner-up, or to each of the others.
    balance : float in [0, 1), "auto" or None
        Bound on the mean decision value (for more than two clusters: on differences of biases). "auto" is 0.03; for two
        clusters from a graph start it is more, by the difference of their shares. None is no bound; it needs a
        cannot-link, without which one cluster of all rows would cost nothing.
    min_size, max_size, epsilon, max_iter, init, n_init, scale, features, n_neighbors, n_components, kernel, gamma, \
degree, coef0, landmarks, random_state, n_jobs, max_seconds, callbacks
        As of `CuttingPlaneMMC`.

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplanes in the coordinates of the raw rows
    objective_ : float, the objective reached
    gap_ : float, certified gap of the last convex problem
    n_iter_ : int, passes made
    history_ : list of dict, one a pass
    choices_ : dict, what was chosen for this fit; links that the labels break are counted here
    n_features_in_, feature_names_in_
    """

    order = "outside"
    balance: Any
    _pairs: PairLosses | None = None

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        C: float | str = "auto",
        C_pairs: float | str = "auto",
        margin: str = "max",
        balance: float | str | None = "auto",
        min_size: float = 0.1,
        max_size: float | None = None,
        epsilon: float = 0.003,
        max_iter: int = 1000,
        init: str | ArrayLike = "k-means",
        n_init: int | str = "auto",
        scale: str = "auto",
        features: str = "raw",
        n_neighbors: int = 10,
        n_components: int = 200,
        kernel: str = "rbf",
        gamma: float | str = "auto",
        degree: int = 3,
        coef0: float = 1.0,
        landmarks: str = "k-means",
        random_state: Any = None,
        n_jobs: int | None = None,
        max_seconds: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.C = C
        self.C_pairs = C_pairs
        self.margin = margin
        self.balance = balance
        self.min_size = min_size
        self.max_size = max_size
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.init = init
        self.n_init = n_init
        self.scale = scale
        self.features = features
        self.n_neighbors = n_neighbors
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.landmarks = landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_seconds = max_seconds
        self.callbacks = callbacks

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "pairwise"

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        constraints: Any = None,
        component: str | None = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : numpy array, scipy sparse, frame, dask array, zarr array or group, or path of a zarr store
        y : ignored
        sample_weight : how much each row counts; links count alike, whatever their rows weigh
        constraints : pairs of rows, numbered from 0: an array, a list or a frame of (i, j, "must" or "cannot"), or
            the path of a csv with the columns i,j,link
        component : path inside the store, for a zarr store
        """
        self._links = read(constraints)
        return super().fit(X, y, sample_weight, component=component)

    def _open(self, source: Any, component: str | None, sample_weight: ArrayLike | None) -> Rows:
        dataset = super()._open(source, component, sample_weight)
        self._links = checked(self._links, dataset.n_rows, int(self.n_clusters))
        if self.balance is None and self._links.must.all():
            raise InputError(
                "balance is None and no cannot-link was given: one cluster of all rows would cost nothing; give a "
                "cannot-link, or a balance."
            )
        return dataset

    def _problem(self, dataset: Rows, geometry: Geometry, seed: int) -> Problem:
        problem = super()._problem(dataset, geometry, seed)
        self._pairs = self._pair_losses(dataset, geometry, problem.C)
        return replace(problem, summed=self.margin == "sum", pairs=self._pairs)

    def _pair_losses(self, dataset: Rows, geometry: Geometry, C: float) -> PairLosses | None:
        if not self._links.size:
            return None
        follows = closed(self._links, int(self.n_clusters))
        weights = []
        for pairs in (follows.must, follows.cannot):
            m = float(pairs.weight.sum())
            auto = C * m / (m + FEW) * (1.0 if self.n_clusters == 2 else 0.4 / self.n_clusters)
            weights.append(auto if isinstance(self.C_pairs, str) else float(self.C_pairs) * bool(m))
        return PairLosses(gathered(dataset, follows.rows), follows.must, follows.cannot, geometry, *weights)

    def _labellings(self, engine: Engine, geometry: Geometry, seed: int, init: str | None = None) -> list[Labelling]:
        """Where links can shape the distances of k-means, that start is tried too, and taken if it breaks far fewer."""
        begun = super()._labellings(engine, geometry, seed, init)
        pairs, k = self._pairs, int(self.n_clusters)
        if pairs is None or (init or self._init) != "k-means":
            return begun
        linked = starts.by_links(engine.dataset, engine.run, geometry, k, pairs.rows, pairs.must, seed)
        if linked is not None and pairs.broken(linked) < CLEARLY * min(map(pairs.broken, begun)):
            return [linked, *begun[:-1]]
        if k == 2:
            searched = self._without_links(engine, geometry, seed, begun)
            if pairs.broken(searched) <= min(map(pairs.broken, begun)):
                return [searched, *begun[:-1]]
        return begun

    def _without_links(self, engine: Engine, geometry: Geometry, seed: int, starts: list[Labelling]) -> Labelling:
        """What CuttingPlaneMMC ends with: labels that change inside the cutting plane leave a bad start behind."""
        problem = super()._problem(engine.dataset, geometry, seed)
        problem = replace(problem, inside=True, balance=BALANCE if self.balance is None else problem.balance)
        solver = CuttingPlane(problem, engine.run)
        begun = solver.init(starts, engine.dataset.n_features)
        state, _, _ = drive(solver, begun, max_iter=self.most_passes, max_seconds=self.max_seconds)
        best = solver.best(state).best
        return ByScores(geometry.raw(best.W, best.b, best.price), problem.wide)

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        super()._search(engine, geometry, seed, began)
        weights = (0.0, 0.0) if self._pairs is None else (self._pairs.C_must, self._pairs.C_cannot)
        self._pairs, links = None, self._links  # the rows may go
        together = self.labels_[links.one] == self.labels_[links.other]
        self.choices_.update(
            C_must=weights[0],
            C_cannot=weights[1],
            must_links=int(np.count_nonzero(links.must)),
            cannot_links=int(np.count_nonzero(~links.must)),
            must_links_broken=int(np.count_nonzero(links.must & ~together)),
            cannot_links_broken=int(np.count_nonzero(~links.must & together)),
        )

    def _balance(self, dataset: Rows) -> float:
        return FREE if self.balance is None else super()._balance(dataset)

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        super().check_parameters()
        if not (isinstance(self.C_pairs, str) and self.C_pairs == "auto"):
            number("C_pairs", self.C_pairs, 'a number above 0, or "auto",', ABOVE_0, np.inf)
        choice("margin", self.margin, ("max", "sum"))

    def _check_balance(self) -> None:
        if self.balance is not None:
            super()._check_balance()
