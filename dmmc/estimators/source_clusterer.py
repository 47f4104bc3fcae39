"""What every estimator that can be fitted has: `fit` on any source, on threads of this process."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.estimators.fitted_model import FittedClusterer
from dmmc.estimators.local_engine import make_local_engine, open_here
from dmmc.pairs.io import Links
from dmmc.solvers.driver import Callback, Keeper
from dmmc.sources.open import open_source
from dmmc.stores.urls import find_remote
from dmmc.time_limit import TimeLimit


class SourceClusterer(FittedClusterer):
    """An estimator with `fit`; a subclass says how to find the clusters of an engine's rows (`fit_on`)."""

    max_seconds: float | None

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        raise NotImplementedError

    @property
    def max_passes(self) -> int:
        """Passes that a search makes at most."""
        raise NotImplementedError

    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        component: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : numpy array, scipy sparse, frame or table, dask array, zarr array or group, or path or URL of a zarr store
            or of files; a list of these is several views of the same rows
        y : ignored
        sample_weight : how much each row counts
        component : path inside the store, for a zarr store
        storage_options : as of `dmmc.fit`, for a URL
        """
        return self._fit_source(find_remote(X, storage_options), sample_weight, component)

    def _fit_source(
        self, source: Any, sample_weight: ArrayLike | None, component: str | None, links: Links | None = None
    ) -> Self:
        """Check the parameters, open the source and find its clusters, on threads of this process."""
        self.check_parameters()
        self.forget("cluster_names_")
        limit = TimeLimit(self.max_seconds)
        with open_source(source, component) as opened:
            dataset = open_here(opened, self.n_jobs, limit)
            self.preparation_ = opened.preparation
            if hasattr(source, "columns") and opened.preparation is None and opened.source is source:
                validate_data(self, source, skip_check_array=True)
            with make_local_engine(dataset, self.n_jobs, limit) as engine:
                return self.fit_on(engine, sample_weight=sample_weight, links=links, limit=limit)

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
        """Find the clusters of an engine's rows, with parameters that have been checked.

        engine : has the rows; whoever made it closes it
        sample_weight : how much each row counts
        links : pairs of rows that must or cannot be together, where the method takes them
        listener : hears when a phase begins, and each line of the history
        keeper : saves the search, and goes on with a saved one
        limit : `max_seconds`, where its time began earlier
        """
        raise NotImplementedError

    def _refuse_few_rows(self, dataset: Rows, n_clusters: int) -> None:
        """Refuse fewer rows than clusters."""
        if dataset.n_rows < n_clusters:
            raise InputError(
                f"{dataset.name} has {dataset.n_rows} sample(s), fewer than n_clusters={n_clusters}; "
                "at least one row a cluster is wanted."
            )

    def _set_columns(self, dataset: Rows) -> None:
        """Set `n_features_in_` and, where columns have names, `feature_names_in_`."""
        self.n_features_in_ = dataset.n_features
        if dataset.feature_names is not None:
            self.feature_names_in_ = np.array(dataset.feature_names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _put_all_in_one_cluster(self, engine: Engine, seed: int) -> None:
        """One cluster is every row; scikit-learn asks its clusterers to take it."""
        dataset = engine.dataset
        self.coef_, self.intercept_ = np.zeros((1, dataset.n_features)), np.array([-1.0])
        self.map_ = self.merge_tree_ = self.tree_ = None
        self.labels_ = np.concatenate([np.zeros(len(f), np.int32) for f in self._score_blocks(dataset, None)])
        self.objective_, self.gap_, self.n_iter_, self.history_, self.margin_scale_ = 0.0, 0.0, 0, [], 1.0
        self.choices_ = {"method": self.method, "random_state": seed, "ended": "converged"}
        warn("n_clusters is 1, so all rows are in one cluster and nothing was searched.", ClusteringWarning)

    def _take_over(self, other: FittedClusterer) -> None:
        """Set what another fit has found."""
        for name, value in vars(other).items():
            if name.endswith("_"):
                setattr(self, name, value)
