"""Checks of numbers, seeds, weights and given labels: one sentence says what was given and what is wanted."""

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from dmmc.data.dataset import Rows
from dmmc.errors import InputError


def check_number(name: str, value: object, wanted: str, low: float, high: float, *, whole: bool = False) -> None:
    """Refuse anything but a finite number in [low, high)."""
    kind = numbers.Integral if whole else numbers.Real
    good = isinstance(value, kind) and not isinstance(value, bool)
    if not (good and low <= float(value) < high):  # type: ignore[arg-type]
        raise InputError(f"{name} is {value!r}; {wanted} is wanted.")


def draw_seed(random_state: Any) -> int:
    """The seed of a fit: an int is taken as it is, from anything else one is drawn."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    if random_state is None or isinstance(random_state, np.random.RandomState):
        return int(check_random_state(random_state).randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    raise InputError(
        f"random_state is {random_state!r}; a whole number of at least 0, None, or a generator of numpy's is wanted."
    )


def attach_weights(dataset: Rows, sample_weight: ArrayLike | None) -> Rows:
    """The rows with their weights; one number is the weight of each."""
    if sample_weight is None:
        return dataset
    try:
        given = np.asarray(sample_weight)
        weight = None if given.dtype.kind == "c" else given.astype(np.float64)
    except (TypeError, ValueError):
        weight = None
    if weight is None:
        raise InputError(f"sample_weight is not made of numbers; one for each of {dataset.n_rows} rows is wanted.")
    if weight.ndim == 0:
        weight = np.full(dataset.n_rows, float(weight))
    if weight.shape != (dataset.n_rows,):
        raise InputError(
            f"sample_weight has shape {weight.shape}; one weight for each of the {dataset.n_rows} rows is wanted."
        )
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise InputError(f"sample_weight[{bad[0]}] is {weight[bad[0]]}; finite weights of at least 0 are wanted.")
    if not weight.any():
        raise InputError("sample_weight is zero for every row; a weight above 0 is wanted for some of them.")
    return dataset.with_columns(weight=weight)


def attach_labels(dataset: Rows, init: str | ArrayLike, n_clusters: int, names: str) -> Rows:
    """The rows with the labels that `init` gives, if it does."""
    if isinstance(init, str):
        return dataset
    wanted = f"one of {names} or {dataset.n_rows} whole-number labels"
    try:
        labels = np.asarray(init)
    except ValueError as error:
        raise InputError(f"init is a {type(init).__name__} that is no array; {wanted} are wanted.") from error
    if labels.shape != (dataset.n_rows,) or labels.dtype.kind not in "iub":
        raise InputError(f"init is an array of shape {labels.shape} and dtype {labels.dtype}; {wanted} are wanted.")
    bad = np.flatnonzero((labels < 0) | (labels >= n_clusters))
    if len(bad):
        raise InputError(f"init[{bad[0]}] is {labels[bad[0]]}; labels from 0 to {n_clusters - 1} are wanted.")
    if n_clusters > 1 and (labels == labels[0]).all():
        raise InputError(f"init gives every row the label {labels[0]}; at least two labels are wanted.")
    return dataset.with_columns(given=labels)
