"""A fitted model: labels predicted by hyperplanes, on threads or by a cluster's workers, and models as plain arrays."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dmmc.array_types import Array
from dmmc.data.dataset import Dataset, Rows
from dmmc.data.open import open_dataset
from dmmc.data.readers.numbers import is_dask_array
from dmmc.engine import Local
from dmmc.errors import InputError, refuse_url
from dmmc.estimators import model_shapes, predict_cluster, predict_dask
from dmmc.features import maps
from dmmc.features.maps import Decision, Map
from dmmc.model import inspect, passes
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.results.label_arrays import write_arrays
from dmmc.solvers.state_shapes import Spec


class FittedClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters separated by hyperplanes: `coef_` (K, d) and `intercept_` (K,), K = 1 for two clusters.

    Where `tree_` is not None they are the k - 1 splits of a tree, and it is their children, as of `passes.Tree`.
    """

    n_clusters: int
    n_jobs: int | None
    init: Any
    features: str
    n_neighbors: int
    coef_: Array
    intercept_: Array
    labels_: Array
    n_features_in_: int
    objective_: float
    gap_: float
    n_iter_: int
    history_: list[dict[str, Any]]
    choices_: dict[str, Any]
    map_: Map | None = None
    merge_tree_: Array | None = None
    tree_: Array | None = None

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

    def decision(self) -> Decision:
        """All that decides about a row: what is made of it, and the hyperplanes."""
        return self.map_, self.hyperplanes()

    def subspace(self) -> Hyperplanes | None:
        """Directions that were learned besides, as hyperplanes in the same coordinates; None where none are."""
        return None

    def plain_params(self) -> dict[str, Any]:
        """Parameters that a file can hold: the seed that was used, no callbacks, no arrays."""
        params: dict[str, Any] = self.get_params()
        params["random_state"] = self.choices_["random_state"]
        params["callbacks"] = None
        if not isinstance(params["init"], str):
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
            "choices": self.choices_,
            "objective": self.objective_,
            "gap": self.gap_ if np.isfinite(self.gap_) else None,
            "n_iter": self.n_iter_,
            "feature_names": None if names is None else [str(name) for name in names],
        }
        arrays = {"coef": self.coef_, "intercept": self.intercept_}
        if self.tree_ is not None:
            arrays["tree"] = self.tree_
        if self.merge_tree_ is not None:
            arrays["merge_tree"] = self.merge_tree_
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
        model.map_ = maps.from_arrays(content.get("features"), arrays)
        model.merge_tree_ = arrays.get("merge_tree")
        model.objective_, model.gap_, model.n_iter_ = content["objective"], content["gap"], content["n_iter"]
        model.choices_, model.history_ = content["choices"], []
        if content["feature_names"] is not None:
            model.feature_names_in_ = np.array(content["feature_names"], object)
        model.n_features_in_ = model.coef_.shape[1] if model.map_ is None else model.map_.n_features
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
        scheduler: Any = None,
        workers: int | None = None,
        security: Any = None,
    ) -> Any:
        """Cluster of each row.

        Parameters
        ----------
        X : any source that `fit` takes
        component : path inside the store, for a zarr store
        out : path of a zarr array to write the labels to, instead of returning them
        scheduler, workers, security : as of `dmmc.fit`; rows of a store or a dask array are read by the workers,
            which write the labels to `out` (a path that they see too), or send them back. Rows in this process's memory
            are labelled by this process.

        Returns
        -------
        int32 array of n labels; a lazy dask array for a dask array; the path, with `out`
        """
        check_is_fitted(self)
        if out is not None:
            refuse_url(out)
        if out is not None and Path(out).exists():
            raise InputError(f"{out} exists; choose another path to write labels to, or remove it first.")
        if scheduler is not None or workers is not None:
            return self._predict_on_cluster(X, component, out, scheduler, workers, security)
        if is_dask_array(X):
            labels = predict_dask.predict(X, self.decision(), self.n_features_in_, type(self).__name__)
            labels = labels if out is None else labels.compute()
        else:
            labels = np.concatenate(
                [passes.decide_labels(f).astype(np.int32) for f in self._score_blocks(X, component)]
            )
        if out is None:
            return labels
        write_arrays({Path(out): labels})
        return Path(out)

    def _predict_on_cluster(
        self, X: Any, component: str | None, out: str | Path | None, scheduler: Any, workers: Any, security: Any
    ) -> Any:
        """Labels by workers; without `out` they come back to this process."""
        if out is not None:
            self.predict_to(X, {"labels": Path(out)}, component, scheduler, workers, security)
            return Path(out)
        with predict_cluster.rows_on_cluster(X, component, self.n_jobs, scheduler, workers, security) as (
            rows,
            cluster,
        ):
            if isinstance(rows, Dataset):
                return self.predict(rows)
            self._check_features(X, rows)
            return predict_cluster.find_labels(rows, cluster, self.decision())

    def predict_to(
        self,
        X: Any,
        paths: Mapping[str, Path],
        component: str | None = None,
        scheduler: Any = None,
        workers: int | None = None,
        security: Any = None,
    ) -> int:
        """Write labels, and scores if asked, as zarr arrays; where there is a cluster, its workers write them.

        Parameters
        ----------
        paths : "labels", and "scores" if they are wanted, to where each goes
        others : as of `predict`

        Returns
        -------
        The number of rows.
        """
        check_is_fitted(self)
        if scheduler is not None or workers is not None:
            with predict_cluster.rows_on_cluster(X, component, self.n_jobs, scheduler, workers, security) as (
                rows,
                cluster,
            ):
                if not isinstance(rows, Dataset):
                    self._check_features(X, rows)
                    predict_cluster.write(rows, cluster, self.decision(), paths)
                    return rows.n_rows
                X, component = rows, None
        f = np.concatenate(list(self._score_blocks(X, component)))
        found = {paths["labels"]: passes.decide_labels(f).astype(np.int32)}
        if "scores" in paths:
            found[paths["scores"]] = f[:, 0] if f.shape[1] == 1 else f
        write_arrays(found)
        return len(f)

    def decision_function(self, X: Any, *, component: str | None = None) -> Any:
        """Scores: (n,) for two clusters, where f >= 0 is label 1, else (n, n_clusters)."""
        check_is_fitted(self)
        if is_dask_array(X):
            return predict_dask.decision_function(X, self.decision(), self.n_features_in_, type(self).__name__)
        f = np.concatenate(list(self._score_blocks(X, component)))
        return f[:, 0] if f.shape[1] == 1 else f

    def _score_blocks(self, X: Any, component: str | None, decision: Decision | None = None) -> Iterator[Array]:
        """Scores of each block with the model's own hyperplanes, or with others in the same features."""
        decision = self.decision() if decision is None else decision
        dataset = open_dataset(X, component, self.n_jobs)
        self._check_features(X, dataset)
        with Local(dataset, self.n_jobs) as engine:
            for block, f in zip(dataset.blocks, engine.rows(maps.check_and_score, decision), strict=True):
                if isinstance(f, tuple):
                    raise inspect.not_finite(dataset, f)
                assert len(f) == block.stop - block.start
                yield f

    def _check_features(self, X: Any, dataset: Rows) -> None:
        """Refuse rows that are not of the features that were fitted."""
        if hasattr(X, "columns") or (isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_")):
            try:
                validate_data(self, X, reset=False, skip_check_array=True)
            except ValueError as error:
                raise InputError(str(error)) from error
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
