"""Maximum margin clustering by cutting planes, any number of clusters (papers 000 and 001)."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import ClusteringWarning, warn
from dmmc.estimators.balance import BalancedClusterer
from dmmc.estimators.context import FitContext
from dmmc.estimators.fitting import FeaturedClusterer
from dmmc.estimators.parameters import (
    LOSS,
    POSITIVE_OR_AUTO,
    Number,
    TransformParameters,
    Words,
    document,
    parameter,
)
from dmmc.master.norms import FROBENIUS, Norm
from dmmc.model.geometry import Geometry
from dmmc.model.losses import LOSSES, Loss, resolve_loss
from dmmc.model.passes import ByScores, Labelling
from dmmc.solvers import starts
from dmmc.solvers.count_bounds import is_violated
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import SETTLED, Problem, State

WISH = 0.5
"""A least size from here on is a wish to be kept to; below, it is a guard against collapse."""


def choose_C(C: float | str, n_clusters: int, features: str) -> float:
    """`C="auto"`: 30 for two clusters, 100 for more or with a kernel.

    30 keeps two clusters stable on a few hundred rows, and objectives of more clusters collapse below 100. In the many
    directions of a kernel, each of which tells little, 30 leaves curved clusters cut (rings: 20 % errors).
    """
    if not isinstance(C, str):
        return float(C)
    return 30.0 if n_clusters == 2 and features != "nystroem" else 100.0


def search_start(
    context: FitContext, problem: Problem, make_starts: Callable[[], list[Labelling]], max_iter: int, key: str
) -> Labelling:
    """The labels that cutting planes end with, for another search to start from; `key` tells it from others."""
    solver = CuttingPlane(problem, context.engine.run)
    n_features = context.engine.dataset.n_features
    state = context.drive_start(solver, lambda: solver.init(make_starts(), n_features), max_iter, key)
    best = solver.best(state).best
    return ByScores(context.geometry.raw(best.W, best.b, best.price), problem.wide)


@dataclass(eq=False, repr=False, kw_only=True)
class CuttingPlaneClusterer(FeaturedClusterer, BalancedClusterer):
    """What estimators that search by cutting planes share."""

    C: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        "weight of the loss against the width of the margin, on centred rows of mean squared norm 1. "
        '"auto" is 30 for two clusters, and 100 for more or with a kernel',
    )

    def _pose_problem(self, context: FitContext) -> Problem:
        """What the solver is to minimise, and within which bounds."""
        k, dataset, geometry = int(self.n_clusters), context.engine.dataset, context.geometry
        lowest, highest = self.choose_bounds(dataset.n_rows)
        return Problem(
            n_clusters=k,
            C=self._choose_C(),
            balance=self._choose_balance(dataset),
            epsilon=float(self.epsilon),
            inside=self._choose_inside(),
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: geometry.apply(dataset.take(starts.sample_rows(dataset, k, context.seed))),
            loss=self._choose_loss(),
            wide=k > 2 or self.choose_n_init(dataset.n_rows) > 1,
            guarded=k > 2 and self.max_size is None and 0 < self.min_size < WISH,
            norm=self._choose_norm(),
            from_start=self.balance == "auto" and self.start_name != "random" and self._may_follow_start(),
        )

    def _search(self, context: FitContext) -> None:
        problem = self._pose_problem(context)
        engine, geometry = context.engine, context.geometry
        solver = CuttingPlane(problem, engine.run)

        def begin() -> State:
            return solver.init(self._choose_starts(context, problem), engine.dataset.n_features)

        state, history, why = context.drive(solver, begin, self.max_passes)
        run = solver.best(state)
        if self.select == "medoid" and len(state.runs) > 2:
            finished = [solver.best(State((one,))) for one in state.runs]
            alive = [one for one in finished if np.isfinite(one.best.value)] or finished
            run = self._select_run(context, alive, lambda one: geometry.raw(one.best.W, one.best.b, one.best.price))
        best, ended = run.best, run.ended if why == "done" else why
        priced = bool(best.price.any())
        self._set_result(
            context,
            history,
            best.value,
            run.gap,
            ended,
            C=problem.C,
            order="inside" if problem.inside and not run.centre.size else "outside",
            init=self.start_name,
            n_init=self.choose_n_init(engine.dataset.n_rows),
            prices_folded_into_biases=priced,
            reseeded=run.reseeded,
            **self._list_choices(problem),
        )
        order = self._set_hyperplanes(geometry.raw(best.W, best.b, best.price), context)
        self._set_subspace(best.W, geometry)
        self._warn_of_early_end(ended)
        if run.reseeded:
            warn(f"a dying cluster was seeded again {run.reseeded} time(s).", ClusteringWarning)
        # at the run's last point, as the best one may be from before the fall
        fallen = np.flatnonzero(run.at.price[order] > 0).tolist() if ended == "count bound" else None
        self._warn_of_sizes(context, priced, fallen)
        shares = np.bincount(self.labels_, engine.dataset.weight, minlength=problem.n_clusters)
        if self._count_rows().all() and is_violated(shares / shares.sum(), problem.lowest, problem.highest):
            warn(
                f"cluster sizes {self._count_rows().tolist()} are out of their bounds (min_size={self.min_size}, "
                f"max_size={self.max_size}): too many rows are alike in {engine.dataset.name}.",
                ClusteringWarning,
            )

    def _list_choices(self, problem: Problem) -> dict[str, Any]:
        """What else was chosen, for `choices_`."""
        return {}

    def _choose_starts(self, context: FitContext, problem: Problem) -> list[Labelling]:
        """Labels to start from, one labelling a restart."""
        return self._make_starts(context)

    def _choose_norm(self) -> Norm:
        """What the hyperplanes cost."""
        return FROBENIUS

    def _set_subspace(self, W: Array, geometry: Geometry) -> None:
        """Set what an estimator tells of the hyperplanes W on centred and scaled rows besides `coef_`."""

    def _choose_inside(self) -> bool:
        """Whether CCCP is inside the cutting plane."""
        return False

    def _may_follow_start(self) -> bool:
        """Whether the search is one that may begin with the convex problem of the start's labels."""
        return not self._choose_inside() and self._may_trust_start

    @property
    def _may_trust_start(self) -> bool:
        """Whether biases may be those that the start's labels want.

        Of two clusters from a graph the start's shares say how wide the box is. Two clusters for which features of a
        kernel or of a graph are made lie around each other, and a start by centres is no guide to them.
        """
        return self.n_clusters > 2 or (self.start_name != "graph" and self.features == "raw")

    def _choose_loss(self) -> Loss:
        """What a row pays."""
        return LOSSES["hinge"]

    def _choose_C(self) -> float:
        return choose_C(self.C, self.n_clusters, self.features)


@dataclass(eq=False, repr=False, kw_only=True)
class MarginLossClusterer(CuttingPlaneClusterer):
    """What `CuttingPlaneMMC` and `SubspaceMMC` share: any convex loss of a margin, and where labels change."""

    loss: Any = parameter("hinge", LOSS, "what a row pays, as a function of its margin")
    order: str = parameter(
        "auto",
        Words(("auto", "inside", "outside")),
        "where labels change: inside the cutting plane, or outside of it, with a convex problem for each labelling. "
        '"auto" is inside for two clusters (outside where `balance` is counted from what the start wants), outside for '
        "more",
    )
    alpha: float = parameter(
        SETTLED,
        Number("a number of at least 0 and below 1", 0.0, 1.0),
        "where labels change inside the cutting plane: they are taken again until that lowers the objective by no more "
        "than this fraction, then the next plane joins. Paper 000 prints 0.01",
    )

    def _pose_problem(self, context: FitContext) -> Problem:
        return replace(super()._pose_problem(context), alpha=float(self.alpha))

    def _choose_loss(self) -> Loss:
        return resolve_loss(self.loss)

    def _may_follow_start(self) -> bool:
        """With two clusters also where labels change inside, unless that was asked for."""
        return self._may_trust_start if self.order == "auto" else super()._may_follow_start()

    def _choose_inside(self) -> bool:
        return self.order == "inside" or (self.order == "auto" and self.n_clusters == 2)


@document
@dataclass(eq=False, repr=False, kw_only=True)
class CuttingPlaneMMC(TransformParameters, MarginLossClusterer):
    """Clusters that a support vector machine would separate with the widest margin, found without labels.

    Minimises `½|w|² + C mean(loss)` over hyperplanes and labels, on rows that are centred and scaled to a root mean
    squared norm of 1 (implicitly: no copy of the data is made). With more than two clusters and a `min_size` below 0.5
    alone, the search (outside) ends where a cluster falls to it, as the objective prefers few clusters.

    [parameters]

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

    most_clusters = 1000

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "cpmmc"
