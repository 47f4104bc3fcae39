"""What all estimators share: parameters checked in sentences, sources opened, labels predicted by hyperplanes."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from dmmc import passes
from dmmc.data import Dataset, open_dataset
from dmmc.engine import Local
from dmmc.errors import InputError
from dmmc.passes import Hyperplanes

Array = NDArray[Any]

MAX_CLUSTERS = 100


def choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuse a word that is not among the allowed ones."""
    if not (isinstance(value, str) and value in allowed):
        raise InputError(f"{name} is {value!r}; choose one of {', '.join(repr(word) for word in allowed)}.")


def number(name: str, value: object, wanted: str, low: float, high: float, *, whole: bool = False) -> None:
    """Refuse anything but a finite number in [low, high)."""
    kind = numbers.Integral if whole else numbers.Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if not (good and low <= float(value) < high):  # type: ignore[arg-type]
        raise InputError(f"{name} is {value!r}; {wanted} is wanted.")


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

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn that sparse rows are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # ------------------------------------------------------------------------------------------------ fitting

    def _open(self, source: Any, component: str | None, sample_weight: ArrayLike | None) -> Dataset:
        """The training rows with their weights; sets `n_features_in_` and, for frames, `feature_names_in_`."""
        dataset = open_dataset(source, component, self.n_jobs)
        if hasattr(source, "columns"):
            validate_data(self, source, skip_check_array=True)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = dataset.n_features
        if dataset.n_rows < self.n_clusters:
            raise InputError(
                f"{dataset.name} has {dataset.n_rows} sample(s), fewer than n_clusters={self.n_clusters}; "
                "at least one row a cluster is wanted."
            )
        if sample_weight is None:
            return dataset
        weight = np.asarray(sample_weight, np.float64)
        if weight.ndim == 0:
            weight = np.full(dataset.n_rows, float(weight))
        if weight.shape != (dataset.n_rows,):
            raise InputError(
                f"sample_weight has shape {weight.shape}; one weight for each of the {dataset.n_rows} rows is wanted."
            )
        bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
        if len(bad):
            raise InputError(f"sample_weight[{bad[0]}] is {weight[bad[0]]}; finite weights of at least 0 are wanted.")
        return dataset.with_columns(weight=weight)

    def _seed(self, random_state: Any) -> int:
        """The seed of this fit, drawn once: an int is itself."""
        if isinstance(random_state, numbers.Integral) and not isinstance(random_state, bool):
            if random_state < 0:
                raise InputError(f"random_state is {random_state}; a seed of at least 0, or None, is wanted.")
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))

    def _settle(self, planes: Hyperplanes, engine: Local) -> None:
        """Fold prices into the biases, number the clusters by size, and label the training rows by `predict`'s rule."""
        k = max(len(planes.W), 2)
        labels = np.concatenate([passes.largest(f) for f in engine.rows(passes.scores, planes)])
        order = by_size(labels, k)
        bias = planes.b + planes.price
        if len(planes.W) == 1:
            sign = 1.0 if order[0] == 0 else -1.0
            self.coef_, self.intercept_ = sign * planes.W, sign * bias
        else:
            self.coef_, self.intercept_ = planes.W[order], bias[order]
        self.labels_ = np.concatenate([passes.largest(f) for f in engine.rows(passes.scores, self._planes())])
        self.labels_ = self.labels_.astype(np.int32)

    def _planes(self) -> Hyperplanes:
        return Hyperplanes(self.coef_, self.intercept_, np.zeros_like(self.intercept_))

    # --------------------------------------------------------------------------------------------- predicting

    def predict(self, X: Any, *, component: str | None = None, out: str | Path | None = None) -> Any:
        """Cluster of each row.

        Parameters
        ----------
        X : any source that `fit` takes
        component : path inside the store, for a zarr store
        out : path of a zarr array to write the labels to, instead of returning them

        Returns
        -------
        int32 array of n labels; a lazy dask array for a dask array; the path, with `out`
        """
        if is_dask(X):
            return self._lazily(X, "predict", np.int32, None)
        labels = np.concatenate([passes.largest(f).astype(np.int32) for f in self._decisions(X, component)])
        return labels if out is None else _written(labels, out)

    def decision_function(self, X: Any, *, component: str | None = None) -> Any:
        """Scores: (n,) for two clusters, where f >= 0 is label 1, else (n, n_clusters)."""
        if is_dask(X):
            check_is_fitted(self)
            return self._lazily(X, "decision_function", np.float64, None if len(self.coef_) == 1 else len(self.coef_))
        f = np.concatenate(list(self._decisions(X, component)))
        return f[:, 0] if f.shape[1] == 1 else f

    def _decisions(self, X: Any, component: str | None) -> Iterator[Array]:
        check_is_fitted(self)
        dataset = open_dataset(X, component, self.n_jobs)
        if hasattr(X, "columns") or (isinstance(X, np.ndarray) and hasattr(self, "feature_names_in_")):
            validate_data(self, X, reset=False, skip_check_array=True)
        if dataset.n_features != self.n_features_in_:
            raise InputError(
                f"X has {dataset.n_features} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input ({dataset.name} was given)."
            )
        with Local(dataset, self.n_jobs) as engine:
            for block, f in zip(dataset.blocks, engine.rows(passes.checked_scores, self._planes()), strict=True):
                if isinstance(f, tuple):
                    raise passes.not_finite(dataset, f)
                assert len(f) == block.stop - block.start
                yield f

    def _lazily(self, X: Any, method: str, dtype: Any, width: int | None) -> Any:
        check_is_fitted(self)
        whole = X.rechunk({1: -1})
        call = getattr(self, method)
        meta = np.empty((0,) if width is None else (0, width), dtype)
        if width is None:
            return whole.map_blocks(call, dtype=dtype, drop_axis=1, meta=meta)
        return whole.map_blocks(call, dtype=dtype, chunks=(whole.chunks[0], (width,)), meta=meta)


def by_size(labels: Array, k: int) -> Array:
    """Labels from the largest cluster to the smallest; of equal ones, the one whose first row comes first."""
    counts = np.bincount(labels, minlength=k)
    first = np.full(k, len(labels))
    present, where = np.unique(labels, return_index=True)
    first[present] = where
    return np.lexsort((first, -counts))


def is_dask(X: Any) -> bool:
    """Whether X is a dask array, found out without importing dask."""
    return type(X).__module__.split(".")[0] == "dask"


def _written(labels: Array, out: str | Path) -> Path:
    import zarr

    zarr.save_array(str(out), labels)
    return Path(out)
