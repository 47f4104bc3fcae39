"""A fitted model: labels predicted by hyperplanes, on threads or by a cluster's workers, and models as plain arrays."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dmmc.array_types import Array
from dmmc.data.blocks import fill_columns
from dmmc.data.dask_rows import compute_here
from dmmc.data.dataset import Dataset, Rows
from dmmc.data.readers.numbers import is_dask_array
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators import model_shapes, predict_cluster, predict_dask, predict_write
from dmmc.estimators.local_engine import make_local_engine, open_here
from dmmc.estimators.score_transformer import ScoreTransformer
from dmmc.features import maps
from dmmc.features.maps import Composed, Decision, Map
from dmmc.features.view_map import ByView
from dmmc.model import inspect
from dmmc.model.margins import Standing
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.profile.confidence import check_unassigned, find_confidence, find_scale, find_standing, unassign
from dmmc.results.label_arrays import refuse_taken
from dmmc.solvers.state_shapes import Spec
from dmmc.sources.frames import is_frame
from dmmc.sources.open import Wanted, open_source
from dmmc.stores.urls import Place, Remote, find_all, find_place, find_remote
from dmmc.tables.preparation import TablePreparation


class FittedClusterer(ScoreTransformer, ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters separated by hyperplanes: `coef_` (K, d) and `intercept_` (K,), K = 1 for two clusters.

    Where `tree_` is not None they are the k - 1 splits of a tree, and it is their children, as of `passes.Tree`.
    """

    n_clusters: Any
    n_jobs: int | None
    init: Any
    features: str
    n_neighbors: int
    graph: str
    n_anchors: int | str
    coef_: Array
    intercept_: Array
    labels_: Array
    cluster_centers_: Array
    """(k, d) means of the raw columns of each cluster: set by `dmmc.fit` with `out`, and read after `dmmc.load`."""
    cluster_names_: Array
    """(k,) a short name of each cluster, as `cluster_centers_`; (0,) where the result is of an older version."""
    n_features_in_: int
    objective_: float
    gap_: float
    n_iter_: int
    history_: list[dict[str, Any]]
    choices_: dict[str, Any]
    map_: Map | None = None
    merge_tree_: Array | None = None
    tree_: Array | None = None
    preparation_: TablePreparation | None = None
    """What makes a matrix of a table, where the model was fitted with one."""
    margin_scale_: float | None = None
    """Median margin of the training rows, in which margins are measured; None in models of older versions."""

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        raise NotImplementedError

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; none of them is an estimator with parameters of its own."""
        return {name: self.__dict__[name] for name in self._get_param_names()}

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def hyperplanes(self) -> Hyperplanes | Tree:
        """The fitted hyperplanes, in the coordinates of the raw rows, or of the features made of them."""
        if self.tree_ is not None:
            return Tree(self.coef_, self.intercept_, self.tree_)
        return Hyperplanes(self.coef_, self.intercept_, np.zeros_like(self.intercept_))

    def count_clusters(self) -> int:
        """How many clusters there are: as asked for, or as found."""
        return int(getattr(self, "n_clusters_", self.n_clusters))

    def decision(self) -> Decision:
        """All that decides about a row: what is made of it, and the hyperplanes."""
        return self.map_, self.hyperplanes()

    def renumber(self, number: Array) -> None:
        """Give clusters other numbers: `number` (k,) is the new one of each. `labels_` are left as they are."""
        if self.tree_ is not None:
            leaves = self.tree_ < 0
            self.tree_ = np.where(leaves, -1 - number[np.where(leaves, -1 - self.tree_, 0)], self.tree_)
        elif len(self.coef_) > 1:
            order = np.argsort(number)
            self.coef_, self.intercept_ = self.coef_[order], self.intercept_[order]
        elif number[0] == 1:
            self.coef_, self.intercept_ = -self.coef_, -self.intercept_

    def subspace(self) -> Hyperplanes | None:
        """Directions that were learned besides, as hyperplanes in the same coordinates; None where none are."""
        return None

    def plain_params(self) -> dict[str, Any]:
        """Parameters that a file can hold: the seed that was used, no callbacks, no arrays."""
        params: dict[str, Any] = self.get_params()
        params["random_state"] = self.choices_["random_state"]
        params["callbacks"] = None
        if not isinstance(params.get("init", ""), str):
            params["init"] = "labels"
        if not isinstance(params.get("loss", ""), str):
            params["loss"] = "own"
        return params

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `array_folder.write` needs to write the model."""
        names = getattr(self, "feature_names_in_", None)
        content = {
            "estimator": type(self).__name__,
            "params": self.plain_params(),
            "choices": _forget_seconds(self.choices_),
            "objective": self.objective_,
            "gap": self.gap_ if np.isfinite(self.gap_) else None,
            "n_iter": self.n_iter_,
            "feature_names": None if names is None else [str(name) for name in names],
            "margin_scale": self.margin_scale_,
        }
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        if self.tree_ is not None:
            arrays["tree"] = self.tree_
        if self.merge_tree_ is not None:
            arrays["merge_tree"] = self.merge_tree_
        if self.preparation_ is not None:
            content["table"] = self.preparation_.to_recipe()
        if self.map_ is not None:
            content["features"], more = self.map_.to_arrays()
            arrays.update(more)
        return content, arrays

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        params = model_shapes.read_params(content, name)
        try:
            model = cls(**params)
        except TypeError as error:
            raise InputError(f"{name} holds a model of another kind: {error}.") from error
        model.check_parameters()
        model_shapes.check(content, arrays, model.n_clusters, cls.describe_arrays(arrays), name)
        model.coef_, model.intercept_, model.tree_ = arrays["coef"], arrays["intercept"], arrays.get("tree")
        model.margin_scale_ = content.get("margin_scale")
        model.map_ = maps.from_arrays(content.get("features"), arrays)
        model.merge_tree_ = arrays.get("merge_tree")
        model.objective_, model.gap_, model.n_iter_ = content["objective"], content["gap"], content["n_iter"]
        model.choices_, model.history_ = content["choices"], []
        if content["feature_names"] is not None:
            model.feature_names_in_ = np.array(content["feature_names"], object)
        model.n_features_in_ = model.coef_.shape[1] if model.map_ is None else model.map_.n_features
        if content.get("table") is not None:
            model.preparation_ = model_shapes.read_table(content, model.n_features_in_, name)
            model.feature_names_in_ = model.preparation_.get_feature_names_out()  # others in models of older versions
        return model

    @classmethod
    def describe_arrays(cls, names: Collection[str]) -> Mapping[str, Spec]:
        """The arrays that models of this method alone have, where some have these names, and their shapes."""
        return {}

    def predict(
        self,
        X: Any,
        *,
        component: str | None = None,
        out: str | Path | None = None,
        unassigned: float | None = None,
        scheduler: Any = None,
        workers: int | None = None,
        security: Any = None,
        memory: int | str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> Any:
        """Cluster of each row.

        Parameters
        ----------
        X : any source that `fit` takes
        component : path inside the store, for a zarr store
        out : path or URL to write the labels to, instead of returning them: a .csv or .parquet file (ids, labels,
            names of clusters if they are known, confidence and runner-up), else a zarr array of labels alone. They are
            written block by block, as rows of a store are read
        unassigned : rows whose confidence is below this, 0 to 1, get label -1; on a cluster only with `out`
        scheduler, workers, security : as of `dmmc.fit`; rows of a store or a dask array are read by the workers,
            which write the labels to `out` (a path that they see too), or send them back. Rows in this process's memory
            are labelled by this process.
        memory : as of `dmmc.fit`
        storage_options : as of `dmmc.fit`, for `X` and `out` where they are URLs

        Returns
        -------
        int32 array of n labels; a lazy dask array for a dask array; with `out`, its path or URL
        """
        check_is_fitted(self)
        X, out = find_all(storage_options, X, out)
        if out is not None:
            refuse_taken(find_place(out))
        check_unassigned(unassigned)
        on_cluster = scheduler is not None or workers is not None
        if unassigned is not None and out is None and (on_cluster or is_dask_array(X)):
            raise InputError("unassigned was given with a cluster or a dask array, but no `out` for its labels.")
        if out is not None:
            paths = {"labels": find_place(out)}
            self.predict_to(X, paths, component, scheduler, workers, security, memory=memory, unassigned=unassigned)
            return str(out) if isinstance(out, Remote) else Path(out)
        if on_cluster:
            with predict_cluster.rows_on_cluster(
                X, component, self.n_jobs, scheduler, workers, security, self.wanted()
            ) as (rows, cluster):
                if isinstance(rows, Dataset):
                    return self.predict(rows)
                self._check_features(X, rows)
                return predict_cluster.find_labels(rows, cluster, self.decision())
        if is_dask_array(X):
            self.wanted().refuse_matrix(X)
            return predict_dask.predict(X, self.decision(), self.n_features_in_, type(self).__name__)
        with self._open_engine(X, component, memory) as engine:
            ask = predict_write.Ask(self.decision(), engine.dataset.name, engine.dataset.feature_names, scores=False)
            found = (one.standing for one in engine.rows(predict_write.decide, ask))
            standing = Standing(*fill_columns(found, engine.dataset.n_rows))
        if unassigned is None:
            return standing.labels
        return unassign(standing.labels, find_confidence(standing.margins, self.margin_scale_), unassigned)

    def predict_to(
        self,
        X: Any,
        paths: Mapping[str, Place],
        component: str | None = None,
        scheduler: Any = None,
        workers: int | None = None,
        security: Any = None,
        *,
        memory: int | str | None = None,
        unassigned: float | None = None,
    ) -> int:
        """Write what is found of each row, block by block; where there is a cluster, its workers write it.

        Parameters
        ----------
        paths : where each goes, on this machine or in an object store: "labels", and "scores", "confidence" or
            "runner_up" if they are wanted. All are zarr arrays, but labels may be a csv or a parquet file, as `out` of
            `predict`
        others : as of `predict`

        Returns
        -------
        The number of rows.
        """
        check_is_fitted(self)

        def write(rows: Rows, make_engine: Callable[[Rows], Any], *, by_workers: bool = False) -> int:
            scale = self.margin_scale_
            if scale is None:  # of an older version: the median of these rows
                with make_engine(rows) as engine:
                    scale = find_scale(find_standing(engine.rows, self.decision(), rows.n_rows).margins)
            rule = predict_write.Ruled(scale, unassigned)
            names = getattr(self, "cluster_names_", ())
            predict_write.write(rows, make_engine, self.decision(), rule, paths, by_workers=by_workers, names=names)
            return rows.n_rows

        if scheduler is not None or workers is not None:
            with predict_cluster.rows_on_cluster(
                X, component, self.n_jobs, scheduler, workers, security, self.wanted()
            ) as (rows, cluster):
                if not isinstance(rows, Dataset):
                    self._check_features(X, rows)
                    return write(rows, lambda rows: predict_cluster.make_engine(rows, cluster), by_workers=True)
                X, component = rows, None
        with self._open_here(X, component, memory) as here:
            return write(here, lambda rows: make_local_engine(rows, self.n_jobs, memory=memory))

    def decision_function(
        self, X: Any, *, component: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> Any:
        """Scores: (n,) for two clusters, where f >= 0 is label 1, else (n, n_clusters)."""
        check_is_fitted(self)
        X = find_remote(X, storage_options)
        if is_dask_array(X):
            self.wanted().refuse_matrix(X)
            return predict_dask.decision_function(X, self.decision(), self.n_features_in_, type(self).__name__)
        f = np.concatenate(list(self._score_blocks(X, component)))
        return f[:, 0] if f.shape[1] == 1 else f

    def _score_blocks(self, X: Any, component: str | None, decision: Decision | None = None) -> Iterator[Array]:
        """Scores of each block with the model's own hyperplanes, or with others in the same features."""
        decision = self.decision() if decision is None else decision
        with self._open_engine(X, component) as engine:
            for f in engine.rows(maps.check_and_score, decision):
                if isinstance(f, tuple):
                    raise inspect.not_finite(engine.dataset, f)
                yield f

    @contextmanager
    def _open_here(self, X: Any, component: str | None, memory: int | str | None = None) -> Iterator[Rows]:
        """Rows to label, in memory or in their store, for as long as the block lasts."""
        if isinstance(X, Dataset):
            self._check_features(None, X)
            yield X
            return
        with open_source(X, component, wanted=self.wanted()) as opened:
            # chunk by chunk, as a lazy array may be larger than memory
            rows = (
                opened.open_rows(1, compute_here) if is_dask_array(X) else open_here(opened, self.n_jobs, memory=memory)
            )
            self._check_features(opened.source, rows)
            yield rows

    @contextmanager
    def _open_engine(self, X: Any, component: str | None, memory: int | str | None = None) -> Iterator[Engine]:
        """Threads of this process over rows to label."""
        with (
            self._open_here(X, component, memory) as rows,
            make_local_engine(rows, self.n_jobs, memory=memory) as engine,
        ):
            yield engine

    def open(self, X: Any, component: str | None = None) -> Dataset:
        """Rows to label, in memory; of a table, what the model's preparation makes of it."""
        if isinstance(X, Dataset):
            self._check_features(None, X)
            return X
        with open_source(X, component, wanted=self.wanted()) as opened:
            dataset = opened.load(self.n_jobs)
        self._check_features(opened.source, dataset)
        return dataset

    def wanted(self) -> Wanted:
        """What the model wants of a table."""
        names = getattr(self, "feature_names_in_", None)
        known = None if names is None else tuple(str(name) for name in names)
        return Wanted(self.preparation_, known, self.n_features_in_)

    def _check_features(self, X: Any, dataset: Rows) -> None:
        """Refuse rows that are not of the features that were fitted."""
        if is_frame(X) or (isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_")):
            try:
                validate_data(self, X, reset=False, skip_check_array=True)
            except ValueError as error:
                raise InputError(str(error)) from error
        self.check_rows(dataset)

    def check_rows(self, dataset: Rows) -> None:
        """Refuse rows whose columns are not those that were fitted: their number, and their names if they have any."""
        self._check_views(dataset)
        if dataset.n_features != self.n_features_in_:
            raise predict_dask.other_columns(dataset.n_features, self.n_features_in_, type(self).__name__, dataset.name)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and dataset.feature_names is not None:
            for column, (wanted, given) in enumerate(zip(known, dataset.feature_names, strict=True)):
                if str(wanted) != str(given):
                    raise InputError(
                        f"{dataset.name} has {given!r} as feature {column}, where the model was fitted with "
                        f"{wanted!r}: the same features in the same order are wanted."
                    )

    def _check_views(self, dataset: Rows) -> None:
        """Refuse other views than those that were fitted; one matrix of all their columns will do."""
        first = self.map_.transform if isinstance(self.map_, Composed) else self.map_
        wanted = [part.columns for part in first.parts] if isinstance(first, ByView) else [self.n_features_in_]
        given = [view.n_features for view in dataset.views] or [dataset.n_features]
        if max(len(given), len(wanted)) > 1 and given not in (wanted, [sum(wanted)]):
            raise InputError(
                f"the model was fitted with {_tell_views(wanted)}, and {dataset.name} has {_tell_views(given)}: the "
                "same views in the same order are wanted."
            )


def _tell_views(columns: list[int]) -> str:
    return f"{len(columns)} view{'s' * (len(columns) > 1)} of {', '.join(map(str, columns))} columns"


def _forget_seconds(choices: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen; of candidates all but how long they took, so that a model has the same bits each time."""
    if "candidates" not in choices:
        return dict(choices)
    return {**choices, "candidates": [{**one, "seconds": None} for one in choices["candidates"]]}
