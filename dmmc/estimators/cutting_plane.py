"""Maximum margin clustering by cutting planes, any number of clusters (papers 000 and 001)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, warn
from dmmc.estimators.fitting import MarginClusterer
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.master.norms import FROBENIUS, Norm
from dmmc.model.geometry import Geometry
from dmmc.model.losses import LOSSES
from dmmc.solvers import starts
from dmmc.solvers.count_bounds import violated
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem, State
from dmmc.solvers.driver import Callback

Array = NDArray[Any]

WISH = 0.5
"""A least size from here on is a wish to be kept to; below, it is a guard against collapse."""


class CuttingPlaneMMC(MarginClusterer):
    """Clusters that a support vector machine would separate with the widest margin, found without labels.

    Minimises `½|w|² + C mean(loss)` over hyperplanes and labels, on rows that are centred and scaled to a root mean
    squared norm of 1 (implicitly: no copy of the data is made).

    Parameters
    ----------
    n_clusters : int, 2 to 100
    C : float or "auto"
        Weight of the loss; "auto" is 30 for two clusters, and 100 for more or with a kernel.
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
    features : "raw", "nystroem", "lsa", "smooth", "spectral" or "umap"
        What the hyperplanes are in: the columns as they are; latent semantic axes with rows of norm 1; or features of
        the graph of nearest neighbours, which follow curved clusters: columns smoothed along it, its eigenvectors, a
        UMAP embedding. New rows get the features of the fitted rows nearest to them. "nystroem" are features of a
        kernel, by its values at a few landmarks.
    n_neighbors : int
        Neighbours of a row in that graph.
    n_components, landmarks : int; "k-means" or "random"
        How many landmarks a kernel has: centres of k-means on a sample of rows, or rows drawn at random.
    kernel : "rbf", "polynomial" or "linear"
        `exp(-gamma |x - p|²)`, `(gamma x·p + coef0)^degree` or `x·p`, of centred rows (or standardised).
    gamma : float or "auto"
        "auto" is 1 / (5 h²) for "rbf", with h the spacing of k-means centres, and 1 / mean |x|² for "polynomial".
    degree, coef0 : int, float
        Of a polynomial kernel.
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
        return "cpmmc"

    def _problem(self, dataset: Rows, geometry: Geometry, seed: int) -> Problem:
        k = int(self.n_clusters)
        lowest, highest = self._bounds(dataset.n_rows)
        return Problem(
            n_clusters=k,
            C=self._C(),
            balance=self._balance(dataset),
            epsilon=float(self.epsilon),
            inside=self._inside(),
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: geometry.apply(dataset.take(starts.sample_rows(dataset, k, seed))),
            loss=LOSSES["hinge"],
            wide=k > 2 or self._starts() > 1,
            guarded=k > 2 and self.max_size is None and 0 < self.min_size < WISH,
            norm=self._norm(),
        )

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        problem = self._problem(engine.dataset, geometry, seed)
        solver = CuttingPlane(problem, engine.run)

        def begin() -> State:
            return solver.init(self._labellings(engine, geometry, seed), engine.dataset.n_features)

        state, history, why = self._driven(solver, begin, geometry, began)
        best = solver.best(state)
        why = best.ended if why == "done" else why
        self._found(
            geometry,
            seed,
            history,
            best.best.value,
            best.gap,
            why,
            C=problem.C,
            order="inside" if problem.inside else "outside",
            init=self._init,
            n_init=self._starts(),
            prices_folded_into_biases=bool(best.best.price.any()),
            reseeded=best.reseeded,
        )
        self._phase("label")
        self._settle(geometry.raw(best.best.W, best.best.b, best.best.price), engine)
        self._look_at(best.best.W, geometry)
        self._tell_of_end(why)
        if best.reseeded:
            warn(f"a dying cluster was seeded again {best.reseeded} time(s).", ClusteringWarning)
        self._tell_of_bound(why, bool(best.best.price.any()))
        shares = np.bincount(self.labels_, engine.dataset.weight, minlength=problem.n_clusters)
        if self._counts().all() and violated(shares / shares.sum(), problem.lowest, problem.highest):
            warn(
                f"cluster sizes {self._counts().tolist()} are out of their bounds (min_size={self.min_size}, "
                f"max_size={self.max_size}): too many rows are alike in {engine.dataset.name}.",
                ClusteringWarning,
            )
        self._tell_of_empty()

    def _norm(self) -> Norm:
        """What the hyperplanes cost."""
        return FROBENIUS

    def _look_at(self, W: Array, geometry: Geometry) -> None:
        """Set what an estimator tells of the hyperplanes W on centred and scaled rows besides `coef_`."""

    def _inside(self) -> bool:
        """Whether CCCP is inside the cutting plane."""
        return self.order == "inside" or (self.order == "auto" and self.n_clusters == 2)

    def _C(self) -> float:
        """30 keeps two clusters stable on a few hundred rows; k-wide objectives collapse below 100 (MATH.md, 8).

        In the many directions of a kernel each of which tells little, 30 leaves curved clusters cut (rings: 20 %).
        """
        if not isinstance(self.C, str):
            return float(self.C)
        return 30.0 if self.n_clusters == 2 and self.features != "nystroem" else 100.0

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        super().check_parameters()
        if not (isinstance(self.C, str) and self.C == "auto"):
            number("C", self.C, 'a number above 0, or "auto",', ABOVE_0, np.inf)
        choice("order", self.order, ("auto", "inside", "outside"))
