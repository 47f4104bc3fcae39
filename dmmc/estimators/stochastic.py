"""Maximum margin clustering by stochastic gradient, with four losses (paper 004)."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.metaestimators import available_if

from dmmc.array_types import Array
from dmmc.data.open import open_dataset
from dmmc.engine import Engine, Local
from dmmc.errors import InputError
from dmmc.estimators.balance import BALANCE
from dmmc.estimators.binary import BinaryClusterer
from dmmc.estimators.checks import attach_weights
from dmmc.estimators.context import FitContext
from dmmc.estimators.cutting_plane import choose_C, search_start
from dmmc.estimators.fitting import FeaturedClusterer
from dmmc.estimators.parameters import (
    ABOVE_0,
    AT_LEAST_1,
    LOSS,
    POSITIVE,
    POSITIVE_OR_AUTO,
    Number,
    TransformParameters,
    Words,
    at_least,
    document,
    parameter,
)
from dmmc.model import geometry as geometries
from dmmc.model.geometry import Geometry
from dmmc.model.losses import LOSSES, Loss, resolve_loss
from dmmc.model.passes import Given, Labelling
from dmmc.process_state import use_one_blas_thread
from dmmc.profile.confidence import find_scale
from dmmc.solvers.cutting_plane_state import Problem as Planes
from dmmc.solvers.sgd import Stochastic
from dmmc.solvers.sgd_state import Point, Problem, Run, State, epochs_to_fit
from dmmc.solvers.state_shapes import Numbers, Spec
from dmmc.solvers.tree import Found, Search

STARTS, FEW = 8, 10_000
"""Restarts where there are at most so many rows."""
WHOLE_BATCH = 20
"""Rows of a stream that tell how large a cluster is at most."""
SPLIT = ("ramp", "robust-compact")
"""Losses that are minimised by CCCP where that is asked for."""
METHODS = {"hinge": "mmc-sg", "ramp": "rmmc-sg", "compact": "cmmc-sg", "robust-compact": "rcmmc-sg"}


def _goes_on(model: Any) -> bool:
    """Whether a model can be fitted row by row; scikit-learn asks for an AttributeError where it cannot."""
    if model.n_clusters != 2 or model.features != "raw":
        raise AttributeError(
            f"n_clusters is {model.n_clusters!r} and features is {model.features!r}; partial_fit is there for "
            'n_clusters=2 and features="raw" only.'
        )
    return True


@document
@dataclass(eq=False, repr=False, kw_only=True)
class StochasticMMC(TransformParameters, FeaturedClusterer, BinaryClusterer):
    """Maximum margin clustering one row at a time: epochs of stochastic gradient, averaged over blocks of rows.

    Minimises `½|w|² + C mean(loss(|f|))` on rows that are centred and scaled to a root mean squared norm of 1
    (implicitly). Each block of rows descends by itself from the common hyperplane, and the next epoch begins at the
    mean of where they have come to. More than two clusters are found by splitting: a tree of hyperplanes.

    [parameters]

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

    types = Stochastic.types
    stream_ = None
    """Centre, scale and weight of the rows seen so far (a Geometry), for `partial_fit`."""

    loss: Any = parameter(
        "hinge",
        LOSS,
        'what a row pays: the methods mmc-sg, rmmc-sg, cmmc-sg and rcmmc-sg. "hinge" charges rows inside the margin; '
        '"ramp" charges those near the hyperplane alike, and lets them go; "compact" wants each cluster close to its '
        'own hyperplane, f = 1 or f = -1; "robust-compact" charges rows far from both no more than 0.8, so outliers '
        "have no pull",
    )
    C: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        'weight of the loss; "auto" is 30, and 100 for features of a kernel. Where the hyperplane of the start would '
        "cost more than none at all, as it may in many dimensions, it is as much more as is needed",
    )
    s: float = parameter(
        -0.5,
        Number("a number above -1 and up to 0", np.nextafter(-1.0, 0.0), ABOVE_0),
        "ramp: rows with |f| below -s pull no more",
    )
    zeta: float = parameter(
        0.3,
        Number("a number of at least 0 and below 1", 0.0, 1.0),
        "compact: half the width of each cluster's slab, in which nothing is charged",
    )
    tau: float = parameter(
        0.2,
        Number("a number from 0 to 0.5", 0.0, np.nextafter(0.5, 1.0)),
        "robust-compact: the same; beyond 0.2 the two wells overlap",
    )
    ramp: str = parameter(
        "direct",
        Words(("direct", "cccp")),
        "ramp and robust-compact: descend on it, or, as published for the ramp, by CCCP, on a convex loss that is made "
        "anew every few epochs",
    )
    step: str = parameter(
        "auto",
        Words(("auto", "paper")),
        '"auto" falls as one over the rows visited, and no step goes beyond the next bend of the loss. "paper" is the '
        "published one: `rate` over the number of the epoch and of the rows",
    )
    rate: float = parameter(
        1.0, Number("a number above 0, up to 20,", ABOVE_0, np.nextafter(20.0, 21.0)), "of the published step"
    )
    epsilon: float = parameter(
        0.01, POSITIVE, "the search ends when an epoch moves the average hyperplane by less than this fraction"
    )
    max_iter: int = parameter(100, AT_LEAST_1, "most epochs; in a tree, of each split")
    init: str | ArrayLike = parameter(
        "k-means",
        Words(("k-means", "graph", "pca", "random", "cpmmc"), "labels"),
        "where the search starts: a hyperplane is fitted to these labels first. "
        '"cpmmc" is the result of CuttingPlaneMMC',
    )
    n_init: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        "number of starts, of which the lowest objective wins. "
        '"auto" is 8 up to 10,000 rows and 1 beyond; 10 for random starts',
    )

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return METHODS[self.loss] if isinstance(self.loss, str) and self.loss in METHODS else "mmc-sg"

    def _search(self, context: FitContext) -> None:
        super()._search(context)
        self.stream_ = context.geometry if self.n_clusters == 2 and self.map_ is None else None

    def _pose_split(self, context: FitContext, lowest: float, highest: float) -> Search:
        dataset = context.engine.dataset
        count = dataset.n_rows if dataset.weight is None else int(np.count_nonzero(dataset.weight))
        rows = max(1, count // (len(dataset.bounds) - 1))
        balance = self._choose_balance(dataset)
        problem = self._pose_problem(context.geometry, context.seed, balance, lowest, highest, rows)
        solver = Stochastic(problem, context.engine.run)

        def begin() -> State:
            if self.start_name == "cpmmc":
                return solver.init([self._search_by_planes(context, lowest, highest)])
            return solver.init(self._make_starts(context))

        def found(state: State, why: str) -> Found:
            run = solver.best(state)
            if self.select == "medoid" and len(state.runs) > 2:
                finished = [solver.best(State((one,))) for one in state.runs]
                run = self._select_run(context, finished, lambda one: solver.planes(one.best))
            C = solver.C(run)
            if not solver.is_better_than_nothing(run):
                self._warn_of_nothing(context, solver, run)
            choices = {"C": C, "balance": solver.problem_of(run).balance}
            return Found(solver.planes(run.best), run.best.value, math.inf, run.ended or why, choices)

        return Search(solver, begin, found)

    def _warn_of_nothing(self, context: FitContext, solver: Stochastic, run: Run) -> None:
        """Warn where w = 0 costs less than the result."""
        fitting = solver.problem.fitting
        costs = (
            f"at C={solver.C(run):g} the loss {self._name_loss()} charges all rows together less without any "
            f"hyperplane ({solver.price_nothing(run):.4g}) than with the best one found"
        )
        if run.epoch > fitting:
            said = "so it cannot tell clusters apart: the hyperplane fitted to the start was kept. Choose a larger C."
        else:  # where C is "auto" it is raised when the search begins
            larger = "" if isinstance(self.C, str) else ", or choose a larger C"
            said = (
                f"and only the start has been fitted, which takes {fitting} epochs: allow more of them (max_iter)"
                f"{larger}."
            )
        context.warn_once("C", f"{costs}, {said}")

    def _pose_problem(
        self, geometry: Geometry, seed: int, balance: float, lowest: float, highest: float, rows: int
    ) -> Problem:
        return Problem(
            loss=self._choose_loss(),
            C=choose_C(self.C, 2, self.features),
            balance=balance,
            epsilon=float(self.epsilon),
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            seed=seed,
            rate=float(self.rate) if self.step == "paper" else None,
            cccp=isinstance(self.loss, str) and self.loss in SPLIT and self.ramp == "cccp",
            fitting=epochs_to_fit(rows),
            follow_start=isinstance(self.balance, str) and self.start_name != "graph",
            may_raise=isinstance(self.C, str),
        )

    def _search_by_planes(self, context: FitContext, lowest: float, highest: float) -> Labelling:
        """The labels that CuttingPlaneMMC ends with."""
        engine, geometry = context.engine, context.geometry
        problem = Planes(
            n_clusters=2,
            C=choose_C(self.C, 2, self.features),
            balance=self._choose_balance(engine.dataset),
            epsilon=0.01,
            inside=True,
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: None,  # of two clusters none is ever seeded again
            loss=LOSSES["hinge"],
            wide=False,
        )
        usual = partial(self._make_starts, context, init="k-means")
        return search_start(context, problem, usual, 1000, f"cpmmc {context.seed}")

    def _name_loss(self) -> str:
        return self.loss if isinstance(self.loss, str) else repr(self.loss)

    def _choose_loss(self) -> Loss:
        """What a row pays."""
        return resolve_loss(self.loss, s=self.s, zeta=self.zeta, tau=self.tau)

    def choose_n_init(self, n_rows: int) -> int:
        """Of few rows each restart costs little, and steps lead to another optimum each time: then there are eight."""
        if self.start_name == "k-means" and isinstance(self.n_init, str) and n_rows <= FEW:
            return STARTS
        return 1 if self.start_name == "cpmmc" else super().choose_n_init(n_rows)

    def _list_choices(self) -> dict[str, Any]:
        return {
            "C": choose_C(self.C, 2, self.features),
            "loss": self._name_loss(),
            "step": self.step,
        }

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
        if self.stream_ is None:
            raise InputError("this model was not fitted with two clusters of raw rows, so partial_fit cannot go on.")
        dataset = open_dataset(attach_weights(self.open(X, component), sample_weight))
        with use_one_blas_thread(), Local(dataset, self.n_jobs) as engine:
            self._go_on(engine, self.stream_)
        return self

    def _go_on(self, engine: Engine, before: Geometry) -> None:
        """One epoch over the engine's rows, with the centre of all rows seen so far."""
        batch, joint = geometries.measure_more(engine.dataset, engine.rows, before)
        n, seen = engine.dataset.n_rows, before.total
        balance = float(self.balance) if isinstance(self.balance, float | int) else self._recall("balance", BALANCE)
        lowest, highest = self.choose_bounds(n)
        if self.min_size * n < 2.0:  # not one whole row: so few say nothing of sizes
            lowest = 0.0
        if n < WHOLE_BATCH:
            highest = 1.0
        problem = self._pose_problem(batch, int(self.choices_["random_state"]), balance, lowest, highest, n)
        C = self._recall("C", problem.C) if isinstance(self.C, str) else problem.C
        solver = Stochastic(replace(problem, C=C, fitting=0), engine.run)
        bias = float(self.intercept_[0] + self.coef_[0] @ joint.mean)
        within = min(max(bias, -balance), balance)
        here = Point(self.coef_[0] * joint.unit, within, bias - within)
        run = Run(0, Given(), here, here, here, here, epoch=self.n_iter_, steps=seen / n)
        run = solver.best(solver.step(State((run,))), last=True)
        planes = solver.planes(run.best)
        self.coef_, self.intercept_ = planes.W, planes.b + planes.price
        self.stream_ = joint
        self.objective_, self.n_iter_ = run.best.value, self.n_iter_ + 1
        value = run.best.value
        line = {"iteration": self.n_iter_, "objective": value, "best": value, "moved": run.moved}
        self.history_ = [*self.history_, line]
        scores = np.concatenate(list(self._score_blocks(engine.dataset, None)))
        self.labels_ = (scores[:, 0] >= 0).astype(np.int32)
        self.margin_scale_ = find_scale(np.abs(scores[:, 0]))

    def _recall(self, name: str, otherwise: float) -> float:
        """What the fit has chosen for a parameter, where it tells."""
        chosen = self.choices_.get(name)
        return chosen if isinstance(chosen, float) and chosen > 0 else otherwise

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `array_folder.write` needs to write the model; `partial_fit` can go on with what is read."""
        content, arrays = super().to_arrays()
        if self.stream_ is not None and isinstance(self.loss, str):  # a loss of the user's own is in no file
            arrays["stream_mean"], arrays["stream_unit"] = self.stream_.mean, self.stream_.unit
            arrays["stream_total"] = np.array([self.stream_.total])
        return content, arrays

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        model = super().from_arrays(content, arrays, name)
        if "stream_mean" in arrays:
            mean, unit, total = (arrays[f"stream_{part}"] for part in ("mean", "unit", "total"))
            if model.tree_ is not None or model.map_ is not None:
                raise InputError(f"{name} holds a model with the centre of a stream, but it is not one of raw rows.")
            model.stream_ = Geometry(mean, unit, float(total[0]), bool(np.ptp(unit)), "")
        return model

    @classmethod
    def describe_arrays(cls, names: Collection[str]) -> Mapping[str, Spec]:
        """Centre, scale and weight of the rows seen so far, all or none of them."""
        if not any(name.startswith("stream_") for name in names):
            return {}
        return {
            "stream_mean": Numbers(np.float64, "d"),
            "stream_unit": Numbers(np.float64, "d", low=ABOVE_0),
            "stream_total": Numbers(np.float64, 1, low=ABOVE_0),
        }
