"""What all estimators share: sources opened, labels predicted by hyperplanes, models as plain arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from dmmc import passes, start
from dmmc.data import Block, Dataset, Rows, Stored, open_dataset
from dmmc.engine import Engine, Local, count_jobs
from dmmc.errors import InputError
from dmmc.estimators import checks, lazy, remote
from dmmc.features import maps
from dmmc.features.build import Ask, Built, build
from dmmc.features.maps import Map
from dmmc.geometry import Geometry, measure
from dmmc.label_files import read_labels, write_arrays
from dmmc.passes import Hyperplanes
from dmmc.solvers.base import Callback, Keeper
from dmmc.sources.numbers import is_dask_array

Array = NDArray[Any]

MAX_CLUSTERS = 100


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Driver linear algebra on one thread: the same bits whatever the machine does."""
    with threadpool_limits(1, user_api="blas"):
        yield


class LinearClusterer(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Clusters separated by hyperplanes: `coef_` (K, d) and `intercept_` (K,), K = 1 for two clusters."""

    n_clusters: int
    n_jobs: int | None
    coef_: Array
    intercept_: Array
    labels_: Array
    n_features_in_: int
    objective_: float
    gap_: float
    n_iter_: int
    history_: list[dict[str, Any]]
    choices_: dict[str, Any]
    features: str
    init: Any
    n_neighbors: int
    map_: Map | None = None
    merge_tree_: Array | None = None
    _notes: dict[str, Any]
    _standardised: bool
    _listener: Callback | None = None
    _engine: Engine | None = None
    _keeper: Keeper | None = None

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------------------------------------ fitting

    def on(self, engine: Engine | None) -> None:
        """Let the next fit run on this engine, whose rows it is then given; whoever made it closes it."""
        self._engine = engine

    @contextmanager
    def _working(self, dataset: Rows) -> Iterator[Engine]:
        """The engine of a fit, with these rows: the one it was told to use, or threads of its own."""
        if self._engine is not None:
            self._engine.use(dataset)
            yield self._engine
            return
        with Local(open_dataset(dataset), self.n_jobs) as engine:
            yield engine

    @contextmanager
    def _with_features(self, engine: Engine, geometry: Geometry, seed: int) -> Iterator[tuple[Engine, Geometry]]:
        """Where a search takes place: over the rows as they are, or over features of them; with a graph start's labels.

        Sets `map_` (None for raw rows), and `merge_tree_` where groups were joined along the graph.
        """
        self.map_, self.merge_tree_, self._notes = None, None, {}
        self._standardised = geometry.standardised
        starts = isinstance(self.init, str) and self.init == "graph"
        if self.features == "raw" and not starts:
            yield engine, geometry
            return
        ask = Ask(self.features, self.n_clusters, self.n_neighbors, seed, count_jobs(self.n_jobs), starts)

        def remember(phase: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
            self._phase(phase)
            return make() if self._keeper is None else self._keeper.remember(geometry.fingerprint, phase, make)

        built = build(ask, engine.dataset, engine.run, engine.rows, geometry, remember)
        self.map_, self._notes = built.row_map, built.notes
        labels = None
        if starts:
            joined = remember("join", lambda: self._joined(engine, built, seed))
            labels, self.merge_tree_ = joined["labels"], joined["tree"]
        if built.row_map is None:
            engine.use(engine.dataset.with_columns(given=labels))
            yield engine, geometry
            return
        assert built.rows is not None
        named = replace(open_dataset(built.rows), name=f"{self.features} features of {engine.dataset.name}")
        whole = named.with_columns(engine.dataset.weight, engine.dataset.given if labels is None else labels)
        with engine.over(whole) as inner:
            its_geometry, limited = measure(inner.dataset, inner.rows, "none")
            if limited is not inner.dataset:
                inner.use(limited)
            yield inner, replace(its_geometry, fingerprint=geometry.fingerprint)

    def _joined(self, engine: Engine, built: Built, seed: int) -> dict[str, Array]:
        """Labels of a graph start, and the tree of its groups."""
        assert built.spectral is not None
        with engine.over(open_dataset(built.spectral)) as grouping:
            geometry, _ = measure(grouping.dataset, grouping.rows, "none")
            return start.by_graph(grouping.dataset, grouping, geometry, built.graph, self.n_clusters, seed)._asdict()

    def _open(self, source: Any, component: str | None, sample_weight: ArrayLike | None) -> Rows:
        """The training rows with their weights; sets `n_features_in_` and, for frames, `feature_names_in_`."""
        dataset = source if self._engine is not None else open_dataset(source, component, self.n_jobs)
        if hasattr(source, "columns"):
            validate_data(self, source, skip_check_array=True)
        elif isinstance(source, Dataset | Stored) and source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = dataset.n_features
        if dataset.n_rows < self.n_clusters:
            raise InputError(
                f"{dataset.name} has {dataset.n_rows} sample(s), fewer than n_clusters={self.n_clusters}; "
                "at least one row a cluster is wanted."
            )
        return checks.weighted(dataset, sample_weight)

    def _settle(self, planes: Hyperplanes, engine: Engine) -> None:
        """Fold prices into the biases, number the clusters by size, and label the training rows by `predict`'s rule."""
        k = max(len(planes.W), 2)
        found = list(engine.rows(_labels_and_ties, planes))
        labels = np.concatenate([block for block, _ in found])
        order = by_size(labels, k)
        bias = planes.b + planes.price
        if len(planes.W) == 1:
            sign = 1.0 if order[0] == 0 else -1.0
            self.coef_, self.intercept_ = sign * planes.W, sign * bias
        else:
            self.coef_, self.intercept_ = planes.W[order], bias[order]
        if any(ties for _, ties in found):
            # a tie goes to the lowest number, so new numbers may give the row to another cluster
            found = list(engine.rows(_labels_and_ties, self.hyperplanes()))
            self.labels_ = np.concatenate([block for block, _ in found]).astype(np.int32)
        else:
            self.labels_ = np.argsort(order).astype(np.int32)[labels]

    def hyperplanes(self) -> Hyperplanes:
        """The fitted hyperplanes, in the coordinates of the raw rows, or of the features made of them."""
        return Hyperplanes(self.coef_, self.intercept_, np.zeros_like(self.intercept_))

    def decision(self) -> tuple[Map | None, Hyperplanes]:
        """All that decides about a row: what is made of it, and the hyperplanes."""
        return self.map_, self.hyperplanes()

    def watch(self, listener: Callback | None, keeper: Keeper | None = None) -> None:
        """Tell `listener` when a phase of the next fit begins, and about each pass; let `keeper` save its search."""
        self._listener, self._keeper = listener, keeper

    def _phase(self, name: str) -> None:
        if self._listener is not None:
            self._listener({"phase": name})

    # ------------------------------------------------------------------------------------------ to and from files

    def plain_params(self) -> dict[str, Any]:
        """Parameters that a file can hold: the seed that was used, no callbacks, no arrays."""
        params: dict[str, Any] = self.get_params()
        params["random_state"] = self.choices_["random_state"]
        params["callbacks"] = None
        if not isinstance(params["init"], str):
            params["init"] = "labels"
        return params

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `checkpoint.write` needs to write the model."""
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
        if self.merge_tree_ is not None:
            arrays["merge_tree"] = self.merge_tree_
        if self.map_ is not None:
            content["features"], more = self.map_.to_arrays()
            arrays.update(more)
        return content, arrays

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        try:
            params = {**content["params"]}
            if params.get("init") == "labels":
                del params["init"]
            model = cls(**params)
            model.check_parameters()
            model.coef_, model.intercept_ = arrays["coef"], arrays["intercept"]
            model.map_, model.merge_tree_ = (
                maps.from_arrays(content.get("features"), arrays, name),
                arrays.get("merge_tree"),
            )
            model.objective_, model.gap_, model.n_iter_ = content["objective"], content["gap"], content["n_iter"]
            model.choices_, model.history_ = content["choices"], []
            if content["feature_names"] is not None:
                model.feature_names_in_ = np.array(content["feature_names"], object)
        except (KeyError, TypeError) as error:
            raise InputError(f"{name} holds a model that is not whole: {error}.") from error
        K = 1 if model.n_clusters == 2 else model.n_clusters
        coef, intercept = model.coef_, model.intercept_
        whole = coef.dtype == intercept.dtype == np.float64 and coef.ndim == 2 and coef.shape[1] > 0
        if not (whole and len(coef) == K and intercept.shape == (K,)):
            raise InputError(f"{name} holds a model whose arrays do not fit {model.n_clusters} clusters.")
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise InputError(f"{name} holds a model with numbers that are not finite.")
        model.n_features_in_ = coef.shape[1] if model.map_ is None else model.map_.n_features
        if model.map_ is not None and model.map_.n_values != coef.shape[1]:
            raise InputError(f"{name} holds a model whose hyperplanes do not fit its features.")
        return model

    # --------------------------------------------------------------------------------------------- predicting

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
        scheduler, workers, security : as of `dmmc.fit`; with `out`, rows of a store or a dask array are read and
            labels written by the workers. Rows in this process's memory are labelled by this process.

        Returns
        -------
        int32 array of n labels; a lazy dask array for a dask array; the path, with `out`
        """
        check_is_fitted(self)
        if out is not None and Path(out).exists():
            raise InputError(f"{out} exists; choose another path to write labels to, or remove it first.")
        if scheduler is not None or workers is not None:
            return self._predict_on_cluster(X, component, out, scheduler, workers, security)
        if is_dask_array(X):
            labels = lazy.predict(X, self.decision(), self.n_features_in_, type(self).__name__)
            labels = labels if out is None else labels.compute()
        else:
            labels = np.concatenate([passes.largest(f).astype(np.int32) for f in self._decisions(X, component)])
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
        with TemporaryDirectory() as folder:
            path = Path(folder) / "labels.zarr"
            self.predict_to(X, {"labels": path}, component, scheduler, workers, security)
            return read_labels(str(path))

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
            with remote.rows_on_cluster(X, component, self.n_jobs, scheduler, workers, security) as (rows, cluster):
                if not isinstance(rows, Dataset):
                    self._check_features(X, rows)
                    remote.write(rows, cluster, self.decision(), paths)
                    return rows.n_rows
                X, component = rows, None
        f = np.concatenate(list(self._decisions(X, component)))
        found = {paths["labels"]: passes.largest(f).astype(np.int32)}
        if "scores" in paths:
            found[paths["scores"]] = f[:, 0] if f.shape[1] == 1 else f
        write_arrays(found)
        return len(f)

    def decision_function(self, X: Any, *, component: str | None = None) -> Any:
        """Scores: (n,) for two clusters, where f >= 0 is label 1, else (n, n_clusters)."""
        check_is_fitted(self)
        if is_dask_array(X):
            return lazy.decision_function(X, self.decision(), self.n_features_in_, type(self).__name__)
        f = np.concatenate(list(self._decisions(X, component)))
        return f[:, 0] if f.shape[1] == 1 else f

    def _decisions(self, X: Any, component: str | None) -> Iterator[Array]:
        dataset = open_dataset(X, component, self.n_jobs)
        self._check_features(X, dataset)
        with Local(dataset, self.n_jobs) as engine:
            for block, f in zip(dataset.blocks, engine.rows(maps.checked_scores, self.decision()), strict=True):
                if isinstance(f, tuple):
                    raise passes.not_finite(dataset, f)
                assert len(f) == block.stop - block.start
                yield f

    def _check_features(self, X: Any, dataset: Rows) -> None:
        """Refuse rows that are not of the features that were fitted."""
        if hasattr(X, "columns") or (isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_")):
            validate_data(self, X, reset=False, skip_check_array=True)
        if dataset.n_features != self.n_features_in_:
            raise lazy.other_columns(dataset.n_features, self.n_features_in_, type(self).__name__, dataset.name)
        known = getattr(self, "feature_names_in_", None)
        if known is not None and dataset.feature_names is not None:
            for column, (wanted, given) in enumerate(zip(known, dataset.feature_names, strict=True)):
                if str(wanted) != str(given):
                    raise InputError(
                        f"{dataset.name} has {given!r} as feature {column}, where the model was fitted with "
                        f"{wanted!r}: the same features in the same order are wanted."
                    )


def _labels_and_ties(block: Block, planes: Hyperplanes) -> tuple[Array, int]:
    """Labels of a block, and how many rows have two equal largest scores."""
    f = passes.scores(block, planes)
    top = np.partition(f, -2, axis=1)[:, -2:] if f.shape[1] > 1 else np.hstack([f, np.zeros_like(f)])
    return passes.largest(f), int(np.count_nonzero(top[:, 0] == top[:, 1]))


def by_size(labels: Array, k: int) -> Array:
    """Labels from the largest cluster to the smallest; of equal ones, the one whose first row comes first."""
    counts = np.bincount(labels, minlength=k)
    first = np.full(k, len(labels))
    present, where = np.unique(labels, return_index=True)
    first[present] = where
    return np.lexsort((first, -counts))
