"""Maximum margin clustering by stochastic gradient, with four losses (paper 004)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from dmmc.data.open import open_dataset
from dmmc.engine import Engine, Local
from dmmc.errors import InputError
from dmmc.estimators import parameters
from dmmc.estimators.binary import BinaryClusterer
from dmmc.estimators.fitting import BALANCE, INITS, one_blas_thread
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.model import geometry as geometries
from dmmc.model.geometry import Geometry
from dmmc.model.losses import LOSSES, Compact, Loss, Ramp, RobustCompact
from dmmc.model.passes import ByScores, Given, Labelling
from dmmc.solvers import sgd
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem as Planes
from dmmc.solvers.driver import Callback, drive
from dmmc.solvers.sgd import Point, Problem, Run, State, Stochastic
from dmmc.solvers.tree import Found, Search

Array = NDArray[Any]

STARTS, FEW = 8, 10_000
"""Restarts where there are at most so many rows."""
WHOLE_BATCH = 20
"""Rows of a stream that tell how large a cluster is at most."""
METHODS = {"hinge": "mmc-sg", "ramp": "rmmc-sg", "compact": "cmmc-sg", "robust-compact": "rcmmc-sg"}


def _goes_on(model: Any) -> bool:
    """Whether a model can be fitted row by row; scikit-learn asks for an AttributeError where it cannot."""
    if model.n_clusters != 2 or model.features != "raw":
        raise AttributeError(
            f"n_clusters is {model.n_clusters!r} and features is {model.features!r}; partial_fit is there for "
            'n_clusters=2 and features="raw" only.'
        )
    return True


class StochasticMMC(BinaryClusterer):
    """Maximum margin clustering one row at a time: epochs of stochastic gradient, averaged over blocks of rows.

    Minimises `½|w|² + C mean(loss(|f|))` on rows that are centred and scaled to a root mean squared norm of 1
    (implicitly). Each block of rows descends by itself from the common hyperplane, and the next epoch begins at the
    mean of where they have come to. More than two clusters are found by splitting: a tree of hyperplanes.

    Parameters
    ----------
    n_clusters : int, 2 to 100
    loss : "hinge", "ramp", "compact" or "robust-compact"
        The methods mmc-sg, rmmc-sg, cmmc-sg and rcmmc-sg. "hinge" charges rows inside the margin. "ramp" charges those
        near the hyperplane alike, and lets them go. "compact" wants each cluster close to its own hyperplane, f = 1 or
        f = -1; "robust-compact" charges rows far from both no more than 0.8, so outliers have no pull.
    C : float or "auto"
        Weight of the loss; "auto" is 30, and 100 for features of a kernel.
    s : float, -1 < s <= 0
        "ramp": rows with |f| below -s pull no more.
    zeta : float, 0 <= zeta < 1
        "compact": half the width of each cluster's slab, in which nothing is charged.
    tau : float, 0 <= tau <= 0.5
        "robust-compact": the same. Beyond 0.2 the two wells overlap.
    ramp : "direct" or "cccp"
        "ramp": descend on it, or, as published, on a convex loss that is made anew every few epochs.
    step : "auto" or "paper"
        "auto" falls as one over the rows visited, and no step goes beyond the next bend of the loss. "paper" is the
        published one: `rate` over the number of the epoch and of the rows.
    rate : float up to 20
        Of the published step.
    balance, min_size, max_size, scale, random_state, n_jobs, max_seconds, callbacks
        As of CuttingPlaneMMC; in a tree, the sizes are those of the leaves.
    n_init : int or "auto"
        Restarts, of which the lowest objective wins: "auto" is 8 up to 10,000 rows and 1 beyond; 10 for "random".
    features, n_neighbors, n_components, landmarks, kernel, gamma, degree, coef0
        As of CuttingPlaneMMC.
    epsilon : float
        The search ends when an epoch moves the average hyperplane by less than this fraction.
    max_iter : int
        Most epochs; in a tree, of each split.
    init : "k-means", "cpmmc", "graph", "pca", "random" or labels
        Where the search starts: a hyperplane is fitted to these labels first. "cpmmc" is the result of CuttingPlaneMMC.

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplanes in the coordinates of the raw rows; in a tree, of its splits
    tree_ : (k - 1, 2) array, the children of each split: another split, or -1 - c for cluster c; None for two clusters
    objective_ : float, the objective reached; in a tree, the sum over its splits by their share of the rows
    n_iter_ : int, epochs made
    history_ : list of dict, one an epoch
    choices_ : dict, what was chosen for this fit and why
    n_features_in_, feature_names_in_
    """

    inits = (*INITS, "cpmmc")
    types = Stochastic.types
    _few = False
    """Whether rows are so few that several restarts cost little."""
    _stream: Geometry | None = None
    """Centre, scale and weight of the rows seen so far, for `partial_fit`."""

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        loss: str = "hinge",
        C: float | str = "auto",
        s: float = -0.5,
        zeta: float = 0.3,
        tau: float = 0.2,
        ramp: str = "direct",
        step: str = "auto",
        rate: float = 1.0,
        balance: float | str = "auto",
        min_size: float = 0.1,
        max_size: float | None = None,
        epsilon: float = 0.01,
        max_iter: int = 100,
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
        self.loss = loss
        self.C = C
        self.s = s
        self.zeta = zeta
        self.tau = tau
        self.ramp = ramp
        self.step = step
        self.rate = rate
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
        return METHODS[self.loss]

    # ------------------------------------------------------------------------------------------------- searching

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        self._few = engine.dataset.n_rows <= FEW
        super()._search(engine, geometry, seed, began)
        self._stream = geometry if self.n_clusters == 2 and self.map_ is None else None

    def _two(self, engine: Engine, geometry: Geometry, seed: int, lowest: float, highest: float) -> Search:
        dataset = engine.dataset
        count = dataset.n_rows if dataset.weight is None else int(np.count_nonzero(dataset.weight))
        rows = max(1, count // (len(dataset.bounds) - 1))
        problem = self._problem(geometry, seed, self._balance(dataset), lowest, highest, rows)
        solver = Stochastic(problem, engine.run)

        def begin() -> State:
            if self._init == "cpmmc":
                return solver.init([self._cut(engine, geometry, seed, lowest, highest)])
            return solver.init(self._labellings(engine, geometry, seed))

        def found(state: State, why: str) -> Found:
            run = solver.best(state)
            planes = solver.planes(run.best)
            return Found(planes, run.best.value, math.inf, run.ended or why)

        return Search(solver, begin, found)

    def _problem(
        self, geometry: Geometry, seed: int, balance: float, lowest: float, highest: float, rows: int
    ) -> Problem:
        return Problem(
            loss=self._loss(),
            C=self._C(),
            balance=balance,
            epsilon=float(self.epsilon),
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            seed=seed,
            rate=float(self.rate) if self.step == "paper" else None,
            cccp=self.loss == "ramp" and self.ramp == "cccp",
            fitting=sgd.epochs_to_fit(rows),
        )

    def _cut(self, engine: Engine, geometry: Geometry, seed: int, lowest: float, highest: float) -> Labelling:
        """The labels that CuttingPlaneMMC ends with."""
        problem = Planes(
            n_clusters=2,
            C=self._C(),
            balance=self._balance(engine.dataset),
            epsilon=0.01,
            inside=True,
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: None,  # of two clusters none is ever seeded again
            loss=LOSSES["hinge"],
            wide=False,
        )
        solver = CuttingPlane(problem, engine.run)
        begun = solver.init(self._labellings(engine, geometry, seed, "k-means"), engine.dataset.n_features)
        best = solver.best(drive(solver, begun, max_iter=1000)[0]).best
        return ByScores(geometry.raw(best.W, best.b, best.price), wide=False)

    def _loss(self) -> Loss:
        if self.loss == "ramp":
            return Ramp(float(self.s))
        if self.loss == "compact":
            return Compact(float(self.zeta))
        return RobustCompact(float(self.tau)) if self.loss == "robust-compact" else LOSSES["hinge"]

    def _C(self) -> float:
        """As of CuttingPlaneMMC for two clusters: 30, and 100 for a kernel."""
        if not isinstance(self.C, str):
            return float(self.C)
        return 100.0 if self.features == "nystroem" else 30.0

    def _starts(self) -> int:
        """Of few rows each restart costs little, and steps lead to another optimum each time: then there are eight."""
        if self._init == "k-means" and isinstance(self.n_init, str) and self._few:
            return STARTS
        return 1 if self._init == "cpmmc" else super()._starts()

    def _chosen(self) -> dict[str, Any]:
        return {"C": self._C(), "loss": self.loss, "step": self.step}

    # -------------------------------------------------------------------------------------------------- streams

    @available_if(_goes_on)
    def partial_fit(
        self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, *, component: str | None = None
    ) -> Self:
        """Go on with more rows: one epoch over them from where the model is; the first rows are fitted.

        Clusters keep their numbers, and `labels_` are those of the new rows. The centre follows all rows seen, the
        scale stays that of the first ones. For two clusters of raw rows.

        Parameters
        ----------
        X, y, sample_weight, component : as of `fit`
        """
        if not hasattr(self, "coef_"):
            return self.fit(X, y, sample_weight, component=component)
        self.check_parameters()
        if self._stream is None:
            raise InputError("this model was not fitted with two clusters of raw rows, so partial_fit cannot go on.")
        dataset = open_dataset(X, component, self.n_jobs)
        self._check_features(X, dataset)
        dataset = open_dataset(parameters.weighted(dataset, sample_weight))
        with one_blas_thread(), Local(dataset, self.n_jobs) as engine:
            self._go_on(engine, self._stream)
        return self

    def _go_on(self, engine: Engine, before: Geometry) -> None:
        """One epoch over the engine's rows, with the centre of all rows seen so far."""
        batch, joint = geometries.with_more(engine.dataset, engine.rows, before)
        n, seen = engine.dataset.n_rows, before.total
        balance = BALANCE if isinstance(self.balance, str) else float(self.balance)
        lowest, highest = self._bounds(n)
        if self.min_size * n < 2.0:  # not one whole row: so few say nothing of sizes
            lowest = 0.0
        if n < WHOLE_BATCH:
            highest = 1.0
        problem = self._problem(batch, int(self.choices_["random_state"]), balance, lowest, highest, n)
        solver = Stochastic(replace(problem, fitting=0), engine.run)
        bias = float(self.intercept_[0] + self.coef_[0] @ joint.mean)
        within = min(max(bias, -balance), balance)
        here = Point(self.coef_[0] * joint.unit, within, bias - within)
        run = Run(0, Given(), here, here, here, here, epoch=self.n_iter_, steps=seen / n)
        run = solver.best(solver.step(State((run,))), last=True)
        planes = solver.planes(run.best)
        self.coef_, self.intercept_ = planes.W, planes.b + planes.price
        self._stream = joint
        self.objective_, self.n_iter_ = run.best.value, self.n_iter_ + 1
        line = {"iteration": self.n_iter_, "objective": run.best.value, "moved": run.moved}
        self.history_ = [*self.history_, line]
        self.labels_ = np.concatenate([(f[:, 0] >= 0).astype(np.int32) for f in self._decisions(engine.dataset, None)])

    # ------------------------------------------------------------------------------------------ to and from files

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `checkpoint.write` needs to write the model; `partial_fit` can go on with what is read."""
        content, arrays = super().to_arrays()
        if self._stream is not None:
            arrays["stream_mean"], arrays["stream_unit"] = self._stream.mean, self._stream.unit
            arrays["stream_total"] = np.array([self._stream.total])
        return content, arrays

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        model = super().from_arrays(content, arrays, name)
        found = [arrays.get(f"stream_{part}") for part in ("mean", "unit", "total")]
        if all(part is None for part in found):
            return model
        d = model.n_features_in_
        for part, shape in zip(found, ((d,), (d,), (1,)), strict=True):
            if part is None or part.shape != shape or part.dtype != np.float64 or not np.isfinite(part).all():
                raise InputError(f"{name} holds a model whose centre or scale does not fit it.")
        mean, unit, total = (np.asarray(part) for part in found)
        if not (unit.min() > 0 and total[0] > 0 and model.tree_ is None and model.map_ is None):
            raise InputError(f"{name} holds a model whose centre or scale does not fit it.")
        model._stream = Geometry(mean, unit, float(total[0]), bool(np.ptp(unit)), "")
        return model

    # ------------------------------------------------------------------------------------------------ parameters

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        choice("loss", self.loss, tuple(METHODS))
        super().check_parameters()
        if not (isinstance(self.C, str) and self.C == "auto"):
            number("C", self.C, 'a number above 0, or "auto",', ABOVE_0, np.inf)
        number("s", self.s, "a number above -1 and up to 0", np.nextafter(-1.0, 0.0), ABOVE_0)
        number("zeta", self.zeta, "a number of at least 0 and below 1", 0.0, 1.0)
        number("tau", self.tau, "a number from 0 to 0.5", 0.0, np.nextafter(0.5, 1.0))
        choice("ramp", self.ramp, ("direct", "cccp"))
        choice("step", self.step, ("auto", "paper"))
        number("rate", self.rate, "a number above 0, up to 20,", ABOVE_0, np.nextafter(20.0, 21.0))
