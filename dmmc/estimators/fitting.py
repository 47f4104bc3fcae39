"""What all searches share: `fit`, choices that depend on the data, labels of the training rows, warnings."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Array
from dmmc.engine import Engine
from dmmc.errors import ConvergenceWarning, warn
from dmmc.estimators import feature_space, parameters, size_notes
from dmmc.estimators.checks import attach_labels, attach_weights, draw_seed
from dmmc.estimators.context import FitContext
from dmmc.estimators.enter_views import prepare_rows
from dmmc.estimators.parameters import SearchParameters, Words, list_parameters
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.features import nystroem
from dmmc.features.maps import Map, compose
from dmmc.features.nystroem import Nystroem
from dmmc.model import passes
from dmmc.model.geometry import measure
from dmmc.model.label_counts import count_labels, find_first
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.pairs.io import Links
from dmmc.process_state import use_one_blas_thread
from dmmc.profile.confidence import find_scale, find_standing
from dmmc.solvers import starts
from dmmc.solvers.driver import Callback, Keeper
from dmmc.solvers.medoid import find_medoid
from dmmc.time_limit import TimeLimit


@dataclass(eq=False, repr=False)
class MarginClusterer(SearchParameters, SourceClusterer):
    """An estimator that searches: a subclass has its own parameters, says how to search (`_search`) and its name."""

    def _search(self, context: FitContext) -> None:
        """Find the hyperplanes over the context's rows, and set what a fit sets (`_set_result`, `_set_hyperplanes`)."""
        raise NotImplementedError

    def fit_on(
        self,
        engine: Engine,
        *,
        sample_weight: ArrayLike | None = None,
        links: Links | None = None,
        listener: Callback | None = None,
        keeper: Keeper | None = None,
        limit: TimeLimit | None = None,
    ) -> Self:
        """Find the clusters of an engine's rows, with parameters that have been checked."""
        limit = TimeLimit(self.max_seconds) if limit is None else limit
        seed = draw_seed(self.random_state)
        dataset = attach_weights(engine.dataset, sample_weight)
        self._refuse_few_rows(dataset, int(self.n_clusters))
        self._set_columns(dataset)
        engine.use(attach_labels(dataset, self.init, self.n_clusters, self._start_names()))
        if self.n_clusters == 1:
            self._put_all_in_one_cluster(engine, seed)
            return self
        if listener is not None:
            listener({"phase": "measure"})
        with use_one_blas_thread(), prepare_rows(self, engine, seed, limit) as (engine, transform, scale):
            geometry, limited = measure(engine.dataset, engine.rows, scale, self.outliers == "lower")
            if limited is not engine.dataset:
                engine.use(limited)
            callbacks = self.callbacks if isinstance(self.callbacks, Sequence) else (self.callbacks,)
            context = FitContext(
                engine,
                geometry,
                seed,
                limit,
                listener,
                keeper,
                tuple(callback for callback in callbacks if callback is not None),
                links,
                geometry.standardised,
                transform,
            )
            self._fit_features(context)
        return self

    def _fit_features(self, context: FitContext) -> None:
        """Make the features that are asked for, and search there."""
        with feature_space.make_features(self, context) as inner:
            self._search(inner)

    def make_kernel_map(self, context: FitContext) -> tuple[Nystroem, dict[str, Any]]:
        """The map of rows to features of a kernel, and what was chosen for it."""
        raise NotImplementedError

    def enter_features(
        self, engine: Engine, row_map: Map, rows: Array | None, name: str
    ) -> AbstractContextManager[Engine]:
        """An engine over the features of the engine's rows."""
        return feature_space.enter_features(engine, row_map, rows, name)

    def _set_result(
        self,
        context: FitContext,
        history: list[dict[str, Any]],
        objective: float,
        gap: float,
        ended: str,
        **choices: Any,
    ) -> None:
        """Set what a search has found and chosen, but for the hyperplanes."""
        self.objective_, self.gap_, self.n_iter_, self.history_ = objective, gap, len(history), history
        self.choices_ = {
            "method": self.method,
            **choices,
            "transform": "none" if context.transform is None else context.transform.kind,
            "features": self.features,
            **context.notes,
            "standardised": context.standardised,
            "random_state": context.seed,
            "fingerprint": context.geometry.fingerprint,
            "ended": ended,
        }

    def _set_hyperplanes(self, planes: Hyperplanes | Tree, context: FitContext) -> Array:
        """Set the hyperplanes, clusters numbered by size, prices in the biases; label the rows by `predict`'s rule.

        Gives the label that each cluster had before: its hyperplane, or leaf.
        """
        context.tell_phase("label")
        self.map_, self.merge_tree_ = compose(context.transform, context.row_map), context.merge_tree
        engine = context.engine
        labels, _, margins = find_standing(engine.rows, (None, planes), engine.dataset.n_rows)
        self.margin_scale_, ties = find_scale(margins), not margins.all()
        del margins
        order = order_by_size(labels, max(planes.n_scores, 2))
        self.tree_ = None
        if isinstance(planes, Tree):
            number = np.argsort(order)  # of each leaf
            leaves = planes.children < 0
            self.tree_ = np.where(leaves, -1 - number[np.where(leaves, -1 - planes.children, 0)], planes.children)
            self.coef_, self.intercept_ = planes.W, planes.b
            self.labels_ = number.astype(np.int32)[labels]
            return order
        bias = planes.b + planes.price
        if len(planes.W) == 1:
            sign = 1.0 if order[0] == 0 else -1.0
            self.coef_, self.intercept_ = sign * planes.W, sign * bias
        else:
            self.coef_, self.intercept_ = planes.W[order], bias[order]
        if ties:
            # a tie goes to the lowest number, so new numbers may give the row to another cluster
            self.labels_ = find_standing(engine.rows, (None, self.hyperplanes()), engine.dataset.n_rows).labels
        else:
            self.labels_ = np.argsort(order).astype(np.int32)[labels]
        return order

    @property
    def max_passes(self) -> int:
        """Passes that a search makes at most."""
        return int(self.max_iter)

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        parameters.check_parameters(self)

    def _start_names(self) -> str:
        """Names that `init` may be, for messages."""
        (start,) = (p.range for p in list_parameters(self) if p.name == "init")
        assert isinstance(start, Words)
        return ", ".join(map(repr, start.words))

    @property
    def start_name(self) -> str:
        """Name of the start; given labels are "labels"."""
        return self.init if isinstance(self.init, str) else "labels"

    @property
    def wants_graph(self) -> bool:
        """Whether the start is made along a graph of nearest neighbours."""
        return self.start_name == "graph"

    @property
    def transform_name(self) -> str:
        """Name of the transform of rows."""
        return "none"

    def choose_bounds(self, n: int) -> tuple[float, float]:
        """Least and largest share of a cluster, in whole rows of n: at least one where there is a bound."""
        each = n / self.n_clusters
        lowest = max(1, math.floor(self.min_size * each + 1e-9)) / n if self.min_size > 0 else 0.0
        if self.max_size is None or self.max_size >= self.n_clusters:
            return lowest, 1.0
        return lowest, min(1.0, math.ceil(self.max_size * each - 1e-9) / n)

    def choose_n_init(self, n_rows: int) -> int:
        """Number of starts."""
        if self.start_name in ("labels", "pca"):
            return 1  # there is only one such start
        if not isinstance(self.n_init, str):
            return int(self.n_init)
        return 10 if self.start_name == "random" else 1

    def _make_starts(
        self, context: FitContext, n_labels: int | None = None, init: str | None = None
    ) -> list[passes.Labelling]:
        """Labels to start from, one labelling a restart.

        n_labels : how many different ones; n_clusters by default
        init : another start than was asked for
        """
        engine, count = context.engine, self.choose_n_init(context.engine.dataset.n_rows)
        k = n_labels or int(self.n_clusters)
        if init is None and context.n_given:
            init, count = "labels", context.n_given
        init = init or self.start_name
        geometry, seed, limit = context.geometry, context.seed, context.limit
        return starts.make_labellings(init, engine.dataset, engine.run, geometry, k, count, seed, limit)

    def _select_run(self, context: FitContext, runs: Sequence[Any], planes: Callable[[Any], Hyperplanes]) -> Any:
        """Of several finished runs, the one whose labels agree most with the others'; rows of weight 0 do not count."""
        engine = context.engine
        counted = slice(None) if engine.dataset.weight is None else engine.dataset.weight > 0
        n_rows = engine.dataset.n_rows
        labels = [find_standing(engine.rows, (None, planes(run)), n_rows).labels[counted] for run in runs]
        return runs[find_medoid(labels)]

    def _warn_of_early_end(self, ended: str) -> None:
        """Warn where a search was stopped before its end."""
        if ended not in ("converged", "count bound"):
            by = "the search stalled" if ended == "stalled" else f"stopped by {ended}={getattr(self, ended)}"
            gap = f" with a gap of {self.gap_:.3g}" if np.isfinite(self.gap_) and self.gap_ > 0 else ""
            warn(
                f"{by} after {self.n_iter_} pass(es){gap} at objective {self.objective_:.4g}; "
                "the best hyperplanes so far were kept.",
                ConvergenceWarning,
            )

    def _warn_of_sizes(self, context: FitContext, priced: bool, fallen: Sequence[int] | None = None) -> None:
        """Warn where a count bound is active, and of clusters without rows.

        priced : whether prices hold clusters at a bound
        fallen : clusters that ended the search, as of `size_notes.warn_of_bounds`
        """
        n = len(self.labels_)
        if priced or fallen is not None:
            least, most = self.choose_bounds(n)
            bounds = (least * n, most * n)
            weight = context.engine.dataset.weight
            sizes = self._count_rows() if weight is None else np.bincount(self.labels_, weight, self.n_clusters)
            size_notes.warn_of_bounds(sizes * n / sizes.sum(), bounds, (self.min_size, self.max_size), fallen)
        size_notes.warn_of_empty_clusters(self._count_rows())

    def _count_rows(self) -> Array:
        return count_labels(self.labels_, int(self.n_clusters))


@dataclass(eq=False, repr=False, kw_only=True)
class FeaturedClusterer(parameters.FeatureParameters, MarginClusterer):
    """An estimator whose hyperplanes are between rows as they are, or between features of them."""

    def make_kernel_map(self, context: FitContext) -> tuple[Nystroem, dict[str, Any]]:
        """The map of rows to features of a kernel by landmarks, and what was chosen for it."""
        count, degree = int(self.n_components), int(self.degree)
        ask = nystroem.Ask(self.kernel, self.gamma, degree, self.coef0, count, self.landmarks, context.seed)
        return feature_space.make_kernel_map(context, ask)


def order_by_size(labels: Array, k: int) -> Array:
    """Labels from the largest cluster to the smallest; of equal ones, the one whose first row comes first."""
    return np.lexsort((find_first(labels, k), -count_labels(labels, k)))
