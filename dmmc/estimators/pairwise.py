"""Maximum margin clustering of rows of which some must, and some cannot, be together (paper 003)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators.balance import BALANCE
from dmmc.estimators.best_pairwise import fit_best
from dmmc.estimators.context import FitContext
from dmmc.estimators.cutting_plane import CuttingPlaneClusterer, search_start
from dmmc.estimators.parameters import (
    POSITIVE,
    POSITIVE_OR_AUTO,
    TRUTH,
    Number,
    TransformParameters,
    Words,
    document,
    parameter,
)
from dmmc.model.passes import Labelling
from dmmc.pairs.closure import check_links, close_links, take_links
from dmmc.pairs.io import Links, read
from dmmc.pairs.losses import PairLosses, gather_rows
from dmmc.solvers import starts
from dmmc.solvers.cutting_plane_state import Problem
from dmmc.solvers.driver import Callback, Keeper
from dmmc.stores.urls import find_remote
from dmmc.time_limit import TimeLimit

FREE = 1000.0
"""A bound on the bias that does not bind, in units of the margin: rows have a root mean squared norm of 1."""
FEW = 25.0
"""Links at which their weight is half of what many get: a few would only fit the rows that they are about."""
CLEARLY = 0.8
"""The start that links shape is taken where it breaks less than this part of what the other breaks: it was made so."""


@document
@dataclass(eq=False, repr=False, kw_only=True)
class PairwiseMMC(TransformParameters, CuttingPlaneClusterer):
    """Maximum margin clustering of rows of which some must, and some cannot, be together.

    Minimises `½|w|² + C mean(loss)` as `CuttingPlaneMMC` does, and to that adds the mean over must-links of how far the
    scores of both rows are apart, and the mean over cannot-links of how far they are from opposite. `fit` takes the
    links; without any it is the margin part alone, in the outside order.

    [parameters]

    Attributes
    ----------
    choices_ : dict, what was chosen for this fit; links that the labels break are counted here
    labels_, coef_, intercept_, objective_, gap_, n_iter_, history_, n_features_in_, feature_names_in_
        As of `CuttingPlaneMMC`.
    """

    C_pairs: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        "weight of the mean loss of must-links, and of that of cannot-links. "
        '"auto" grows with their number m: C m / (m + 25), and 0.4 / n_clusters of that for more than two clusters, '
        "where it is at odds with the margins",
    )
    margin: str = parameter(
        "max",
        Words(("max", "sum")),
        "for more than two clusters: whether a row pays for its margin to the runner-up, or to each of the others",
    )
    closure: bool = parameter(
        True,
        TRUTH,
        "whether pairs that follow from those given count too; they share the weight of the given ones. False is paper "
        "003, which has the given ones alone",
    )
    start: str = parameter(
        "auto",
        Words(("auto", "given")),
        'where the search starts: "auto" also tries, for k-means starts, labels that links have shaped and, for two '
        'clusters, what CuttingPlaneMMC ends with, and keeps one that breaks fewer links. "given" is `init` as it is, '
        "as in paper 003",
    )
    balance: float | str | None = parameter(
        "auto",
        Number(
            'a number of at least 0 and below 1 (at 1, w = 0 costs nothing), None or "auto",',
            0.0,
            1.0,
            words=("auto", None),
        ),
        "as of CuttingPlaneMMC. None is no bound; it needs a cannot-link, without which one cluster of all rows would "
        "cost nothing",
    )
    init: str | ArrayLike = parameter(
        "k-means",
        Words(("k-means", "graph", "pca", "random", "auto"), "labels"),
        'as of CuttingPlaneMMC. "auto" tries two and keeps the one that breaks fewer links: the labels that `auto` '
        "finds without links, in the features that it found them in, and k-means",
    )
    epsilon: float = parameter(0.003, POSITIVE, "gap at which a convex problem counts as solved, in units of C")

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
        storage_options: Mapping[str, Any] | None = None,
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
        storage_options : as of `dmmc.fit`, for a URL
        """
        return self._fit_source(find_remote(X, storage_options), sample_weight, component, read(constraints))

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
        """Find the clusters of an engine's rows; links that contradict each other or name no row are refused."""
        links = check_links(read(None) if links is None else links, engine.dataset.n_rows, int(self.n_clusters))
        if self.balance is None and links.must.all():
            raise InputError(
                "balance is None and no cannot-link was given: one cluster of all rows would cost nothing; give a "
                "cannot-link, or a balance."
            )
        if self.start_name == "auto" and self.n_clusters > 1:
            self._take_over(fit_best(self, engine, links, sample_weight, listener, keeper, limit))
            return self
        return super().fit_on(
            engine, sample_weight=sample_weight, links=links, listener=listener, keeper=keeper, limit=limit
        )

    def _pose_problem(self, context: FitContext) -> Problem:
        problem = super()._pose_problem(context)
        pairs = self._pose_pair_losses(context, problem.C)
        return replace(problem, summed=self.margin == "sum", pairs=pairs)

    def _pose_pair_losses(self, context: FitContext, C: float) -> PairLosses | None:
        links = context.links
        if links is None or not links.size:
            return None
        follows = close_links(links, int(self.n_clusters)) if self.closure else take_links(links)
        weights = []
        for pairs in (follows.must, follows.cannot):
            m = float(pairs.weight.sum())
            auto = C * m / (m + FEW) * (1.0 if self.n_clusters == 2 else 0.4 / self.n_clusters)
            weights.append(auto if isinstance(self.C_pairs, str) else float(self.C_pairs) * bool(m))
        rows = gather_rows(context.engine.dataset, follows.rows)
        return PairLosses(rows, follows.must, follows.cannot, context.geometry, *weights)

    def _choose_starts(self, context: FitContext, problem: Problem) -> list[Labelling]:
        """Where links can shape the distances of k-means, that start is tried too, and taken if it breaks far fewer."""
        usual = super()._choose_starts(context, problem)
        pairs, k, engine = problem.pairs, int(self.n_clusters), context.engine
        if pairs is None or self.start_name != "k-means" or self.start == "given":
            return usual
        fewest = min(map(pairs.broken, usual))
        linked = starts.start_from_links(
            engine.dataset, engine.run, context.geometry, k, pairs.rows, pairs.must, context.seed, context.limit
        )
        if linked is not None and pairs.broken(linked) < CLEARLY * fewest:
            return [linked, *usual[:-1]]
        if k == 2:
            searched = self._search_without_links(context, usual)
            if pairs.broken(searched) <= fewest:
                return [searched, *usual[:-1]]
        return usual

    def _search_without_links(self, context: FitContext, usual: list[Labelling]) -> Labelling:
        """What CuttingPlaneMMC ends with: labels that change inside the cutting plane leave a bad start behind."""
        problem = super()._pose_problem(context)
        problem = replace(problem, inside=True, balance=BALANCE if self.balance is None else problem.balance)
        return search_start(context, problem, lambda: usual, self.max_passes, "without links")

    def _search(self, context: FitContext) -> None:
        super()._search(context)
        links = context.links
        assert links is not None
        together = self.labels_[links.one] == self.labels_[links.other]
        self.choices_.update(
            must_links=int(np.count_nonzero(links.must)),
            cannot_links=int(np.count_nonzero(~links.must)),
            must_links_broken=int(np.count_nonzero(links.must & ~together)),
            cannot_links_broken=int(np.count_nonzero(~links.must & together)),
        )

    def _list_choices(self, problem: Problem) -> dict[str, Any]:
        pairs = problem.pairs
        weights = (0.0, 0.0) if pairs is None else (pairs.C_must, pairs.C_cannot)
        return {"C_must": weights[0], "C_cannot": weights[1]}

    def _choose_balance(self, dataset: Rows) -> float:
        return FREE if self.balance is None else super()._choose_balance(dataset)
