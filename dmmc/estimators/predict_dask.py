"""Predicting chunk by chunk: a dask array in, a lazy dask array out."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.open import open_dataset
from dmmc.errors import InputError
from dmmc.features import maps
from dmmc.features.maps import Decision
from dmmc.model import inspect, passes


def other_columns(given: int, wanted: int, estimator: str, name: str) -> InputError:
    """The sentence about a matrix that is not as wide as the one which was fitted (as scikit-learn puts it)."""
    return InputError(
        f"X has {given} features, but {estimator} is expecting {wanted} features as input ({name} was given)."
    )


def predict(X: Any, decision: Decision, n_features: int, estimator: str) -> Any:
    """Labels of the rows of a dask array."""
    meta = np.empty(0, np.int32)
    return _whole_rows(X, n_features, estimator).map_blocks(_labels, decision, dtype=meta.dtype, drop_axis=1, meta=meta)


def decision_function(X: Any, decision: Decision, n_features: int, estimator: str) -> Any:
    """Scores of the rows of a dask array."""
    whole = _whole_rows(X, n_features, estimator)
    K = decision[1].n_scores
    if K == 1:
        meta = np.empty(0)
        return whole.map_blocks(_scores, decision, dtype=meta.dtype, drop_axis=1, meta=meta)
    meta = np.empty((0, K))
    return whole.map_blocks(_scores, decision, dtype=meta.dtype, chunks=(whole.chunks[0], (K,)), meta=meta)


def _whole_rows(X: Any, n_features: int, estimator: str) -> Any:
    if X.ndim != 2 or X.shape[1] != n_features:
        name = f"dask array of shape {X.shape}"
        if X.ndim != 2:
            raise InputError(f"Expected 2D array, got {name} instead. Reshape your data to rows by features.")
        raise other_columns(X.shape[1], n_features, estimator, name)
    return X.rechunk({1: -1})


def _labels(chunk: Any, decision: Decision) -> Array:
    return _each(chunk, decision, lambda f: passes.decide_labels(f).astype(np.int32))


def _scores(chunk: Any, decision: Decision) -> Array:
    return _each(chunk, decision, lambda f: f[:, 0] if decision[1].n_scores == 1 else f)


def _each(chunk: Any, decision: Decision, of: Callable[[Array], Array]) -> Array:
    """One chunk on one thread, as dask runs several at once; a chunk may have no rows."""
    if chunk.shape[0] == 0:
        return of(np.empty((0, decision[1].n_scores)))
    dataset = open_dataset(chunk, n_jobs=1)
    found = []
    for block in dataset.blocks:
        f = maps.check_and_score(block, decision)
        if isinstance(f, tuple):
            raise inspect.not_finite(dataset, f)
        found.append(of(f))
    return np.concatenate(found)
