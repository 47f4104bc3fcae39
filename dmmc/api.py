"""`dmmc.fit`: any matrix in, clusters out; `dmmc.load`: a model from its folder."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dmmc import checkpoint, output
from dmmc.data import Dataset, open_dataset
from dmmc.errors import ClusteringWarning, InputError
from dmmc.estimators import CuttingPlaneMMC
from dmmc.summary import summarise

Progress = Callable[[dict[str, Any]], Any]

METHODS: dict[str, type[CuttingPlaneMMC]] = {"auto": CuttingPlaneMMC, "cpmmc": CuttingPlaneMMC}
"""`auto` is `cpmmc` until there is more to choose from."""
NOT_YET = {"constraints": "pairwise constraints", "scheduler": "clusters", "workers": "clusters", "security": "clusters"}


class Run:
    """A finished fit.

    Attributes
    ----------
    labels : int32 array of n cluster numbers; 0 is the largest cluster
    model : the fitted estimator
    history : one dict a pass: objective, gap, planes, flips, seconds
    choices : what was chosen for this fit
    info : what `run.json` holds: parameters, versions, data, timings, warnings
    """

    def __init__(self, model: CuttingPlaneMMC, dataset: Dataset, info: dict[str, Any]) -> None:
        self.model = model
        self.info = info
        self._dataset = dataset

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

    def save(
        self, path: str | Path, *, overwrite: bool = False, scores: bool = False, image_shape: Any = None
    ) -> Path:
        """Write labels, model, history, run.json and report to a folder, as `out=` does."""
        with output.Out(path, overwrite=overwrite) as out:
            for line in self.history:
                out.log(line)
            self._finish(out, scores, image_shape)
        return Path(path)

    def _finish(self, out: output.Out, scores: bool, image_shape: tuple[int, ...] | None) -> None:
        names = self._dataset.feature_names
        planes = self.model.hyperplanes()
        out.finish(
            output.Result(
                labels=self.labels,
                scores=self.model.decision_function(self._dataset) if scores else None,
                row_ids=self._dataset.row_ids,
                model=self.model.to_arrays(),
                run=self.info,
                history=self.history,
                summary=summarise(self._dataset, planes, self.labels),
                feature_names=names,
                image_shape=image_shape or getattr(self._dataset, "image_shape", None),
            )
        )

    def __repr__(self) -> str:
        sizes = np.bincount(self.labels).tolist()
        return f"Run({self.choices['method']}: {len(self.labels)} rows in clusters of {sizes})"


def fit(
    source: Any,
    n_clusters: int = 2,
    *,
    method: str = "auto",
    component: str | None = None,
    out: str | Path | None = None,
    constraints: Any = None,
    sample_weight: ArrayLike | None = None,
    scheduler: Any = None,
    workers: int | None = None,
    security: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    n_jobs: int | None = None,
    max_seconds: float | None = None,
    random_state: Any = 0,
    progress: Progress | None = None,
    scores: bool = False,
    image_shape: tuple[int, ...] | None = None,
    command: str | None = None,
    **params: Any,
) -> Run:
    """Cluster the rows of any matrix.

    Parameters
    ----------
    source : numpy array, scipy sparse, frame, dask array, zarr array or group, or path of a zarr store
    n_clusters : how many
    method : "auto" or "cpmmc" (auto is cpmmc in this version)
    component : path inside the store, for a zarr store
    out : folder to write labels, model, history, run.json and report to
    sample_weight : how much each row counts
    overwrite : replace an earlier result in `out`
    n_jobs : threads; None for all cores
    max_seconds : stop then, with the best so far
    random_state : the seed
    progress : called with a dict when a phase begins and after each pass
    scores : with `out`, write the decision values too
    image_shape : rows are images of this shape; the report shows them
    command : what to name in run.json and the report as the command that made them
    constraints, scheduler, workers, security, resume : not in this version yet
    **params : parameters of the method's estimator, such as C or n_init

    Returns
    -------
    Run
    """
    asked = {"constraints": constraints, "scheduler": scheduler, "workers": workers, "security": security}
    for name, value in asked.items():
        if value is not None:
            raise InputError(f"{name}={value!r} was given, but {NOT_YET[name]} are not in this version yet.")
    if resume:
        raise InputError("resume=True was given, but resuming is not in this version yet.")
    model = _model(method, n_clusters, {"random_state": random_state, "n_jobs": n_jobs, "max_seconds": max_seconds, **params})
    model.check_parameters()
    began = time.perf_counter()
    started = datetime.now(UTC).isoformat(timespec="seconds")
    with ExitStack() as stack:
        folder = stack.enter_context(output.Out(out, overwrite=overwrite)) if out is not None else None
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        dataset = open_dataset(source, component, n_jobs)
        model.watch(_listener(folder, progress, dataset.n_rows, model))
        _say(progress, "read", dataset)
        model.fit(dataset, sample_weight=sample_weight)
        run = Run(model, dataset, {})
        run.info.update(
            method=method,
            command=command or "dmmc.fit(...) in Python",
            parameters=_plain_params(model),
            choices=model.choices_,
            data={
                "name": dataset.name,
                "n_rows": dataset.n_rows,
                "n_features": dataset.n_features,
                "dtype": str(dataset.dtype),
                "sparse": dataset.is_sparse,
                "fingerprint": model.choices_["fingerprint"],
            },
            sizes=np.bincount(run.labels, minlength=n_clusters).tolist(),
            objective=model.objective_,
            gap=model.gap_,
            passes=model.n_iter_,
            started=started,
            versions=output.environment(),
            warnings=[str(w.message) for w in caught if issubclass(w.category, ClusteringWarning)],
            timings={"total": time.perf_counter() - began},
            peak_memory_mb=output.peak_memory(),
        )
        if folder is not None:
            _say(progress, "write", dataset)
            run._finish(folder, scores, image_shape)
    for warning in caught:
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return run


def load(path: str | Path) -> CuttingPlaneMMC:
    """Read the model of a result folder; nothing in it is ever run as code.

    Parameters
    ----------
    path : the folder that `out=` or `Run.save` wrote, or its `model/`

    Returns
    -------
    The fitted estimator, ready to predict (its training labels are in `labels.zarr`).
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{path} is not a folder that dmmc wrote; the OUT of a fit is wanted.")
    content, arrays = checkpoint.read(folder / "model" if (folder / "model").is_dir() else folder, "model")
    kinds = {cls.__name__: cls for cls in METHODS.values()}
    kind = content.get("estimator")
    if kind not in kinds:
        raise InputError(f"{path} holds a model of kind {kind!r}; this version knows {', '.join(kinds)}.")
    return kinds[kind].from_arrays(content, arrays, str(path))


def _model(method: str, n_clusters: int, params: Mapping[str, Any]) -> CuttingPlaneMMC:
    if method not in METHODS:
        raise InputError(f"method is {method!r}; this version has {', '.join(METHODS)}.")
    known = METHODS[method]().get_params()
    unknown = sorted(set(params) - set(known))
    if unknown:
        raise InputError(f"{unknown[0]!r} is not a parameter of method {method!r}; it takes {', '.join(sorted(known))}.")
    return METHODS[method](n_clusters, **params)


def _plain_params(model: CuttingPlaneMMC) -> dict[str, Any]:
    return {name: value for name, value in output.plain(model.plain_params()).items()}


def _say(progress: Progress | None, phase: str, dataset: Dataset) -> None:
    if progress is not None:
        progress({"phase": phase, "rows": dataset.n_rows, "features": dataset.n_features})


def _listener(
    folder: output.Out | None, progress: Progress | None, n_rows: int, model: CuttingPlaneMMC
) -> Callable[[dict[str, Any]], None]:
    """What happens after each pass: a line in the history file, an event for the user."""

    def listen(event: dict[str, Any]) -> None:
        if "iteration" in event:
            if folder is not None:
                folder.log(event)
            each = event["seconds"] / event["iteration"]
            left = (model.max_iter - event["iteration"]) * each
            if model.max_seconds is not None:
                left = min(left, max(0.0, model.max_seconds - event["seconds"]))
            event = {"phase": "search", **event, "rows_per_second": n_rows / max(each, 1e-9), "at_most": left}
        if progress is not None:
            progress(event)

    return listen
