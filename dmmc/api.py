"""`dmmc.fit`: any matrix in, clusters out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc.errors import InputError
from dmmc.estimators import CuttingPlaneMMC

METHODS: dict[str, type[CuttingPlaneMMC]] = {"auto": CuttingPlaneMMC, "cpmmc": CuttingPlaneMMC}
"""`auto` is `cpmmc` until there is more to choose from."""


class Run:
    """A finished fit.

    Attributes
    ----------
    labels : int32 array of n cluster numbers; 0 is the largest cluster
    model : the fitted estimator
    history : one dict a pass: objective, gap, planes, flips, seconds
    choices : what was chosen for this fit
    """

    def __init__(self, model: CuttingPlaneMMC) -> None:
        self.model = model

    @property
    def labels(self) -> NDArray[np.int32]:
        """Cluster of each training row."""
        labels: NDArray[np.int32] = self.model.labels_
        return labels

    @property
    def history(self) -> list[dict[str, Any]]:
        """One dict a pass."""
        return self.model.history_

    @property
    def choices(self) -> dict[str, Any]:
        """What was chosen, and what happened."""
        return self.model.choices_

    def __repr__(self) -> str:
        sizes = np.bincount(self.labels).tolist()
        return f"Run({self.choices['method']}: {len(self.labels)} rows in clusters of {sizes})"


def fit(
    source: Any,
    n_clusters: int = 2,
    *,
    method: str = "auto",
    component: str | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    random_state: Any = 0,
    progress: Callable[[dict[str, Any]], Any] | None = None,
    **params: Any,
) -> Run:
    """Cluster the rows of any matrix.

    Parameters
    ----------
    source : numpy array, scipy sparse, frame, dask array, zarr array or group, or path of a zarr store
    n_clusters : how many
    method : "auto" or "cpmmc" (auto is cpmmc in this version)
    component : path inside the store, for a zarr store
    sample_weight : how much each row counts
    n_jobs : threads; None for all cores
    max_seconds : stop then, with the best so far
    random_state : the seed
    progress : called with each line of the history as it is made
    **params : parameters of the method's estimator, such as C or n_init

    Returns
    -------
    Run
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}; this version has {', '.join(METHODS)}.")
    estimator = METHODS[method]
    known = set(estimator().get_params())
    unknown = sorted(set(params) - known)
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is not a parameter of method {method!r}; it takes {', '.join(sorted(known))}."
        )
    if progress is not None and "callbacks" not in params:
        params["callbacks"] = progress
    model = estimator(n_clusters, random_state=random_state, n_jobs=n_jobs, max_seconds=max_seconds, **params)
    return Run(model.fit(source, sample_weight=sample_weight, component=component))
