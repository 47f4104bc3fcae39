"""`dmmc.fit`: any matrix in, clusters out; `dmmc.load`: a model from its folder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dmmc import estimators
from dmmc.app.fit_listener import FitListener, Progress
from dmmc.app.run import Run
from dmmc.data.dataset import Rows
from dmmc.data.open import open_dataset, open_rows
from dmmc.engine import Engine, Local
from dmmc.errors import ClusteringWarning, InputError, refuse_url
from dmmc.estimators.checks import draw_seed
from dmmc.estimators.fitting import MarginClusterer
from dmmc.estimators.parameters import list_parameters
from dmmc.machine import peak_memory
from dmmc.methods import METHODS
from dmmc.pairs.io import read as read_links
from dmmc.plain_json import plain
from dmmc.results import array_folder, contents
from dmmc.results.checkpoints import Checkpoints, describe_request
from dmmc.results.contents import UNFINISHED, check_image_shape
from dmmc.results.folder import Out
from dmmc.time_limit import TimeLimit

if TYPE_CHECKING:
    from dmmc.engine.dask_client import Cluster


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
    performance_report: str | Path | None = None,
    dashboard: bool = False,
    command: str | None = None,
    **params: Any,
) -> Run:
    """Cluster the rows of any matrix.

    Parameters
    ----------
    source : numpy array, scipy sparse, frame, dask array, zarr array or group, or path of a zarr store
    n_clusters : how many
    method : a name that `dmmc methods` lists; "auto" is "cpmmc" in this version, and "pairwise" with constraints
    component : path inside the store, for a zarr store
    out : folder to write labels, model, history, run.json and report to
    sample_weight : how much each row counts
    scheduler : where to run: None (this process), an address (tcp://, tls://), the path of a scheduler file, or a
        `distributed.Client`
    workers : start a local cluster of this many processes for the run
    security : with an address, `distributed.Security` or a mapping of `ca`, `cert` and `key` to files
    resume : go on with the fit of the same data and parameters that was interrupted while it wrote `out`, to the same
        bits as if it had not been; begin it where there is none
    overwrite : replace an earlier result in `out`
    n_jobs : threads; None for all cores
    max_seconds : end then, from this call on, with the best so far; `OutOfTime` where that is nothing (rows are still
        being read, or a graph is made). What was found is then labelled and written
    random_state : the seed
    progress : called with a dict when a phase begins and after each pass
    scores : with `out`, write the decision values too
    image_shape : rows are images of this shape; the report shows them. A store that `dmmc convert` made knows it
    performance_report : on a cluster, write Dask's own report of the run to this file
    dashboard : with `workers`, show Dask's dashboard on this machine
    command : what to name in run.json and the report as the command that made them
    constraints : pairs of rows that must or cannot be together, for method "pairwise" (or "auto"): an array, a list or
        a frame of (i, j, "must" or "cannot"), or the path of a csv with the columns i,j,link; rows are numbered from 0
    **params : parameters of the method's estimator, such as C or n_init

    Returns
    -------
    Run
    """
    limit = TimeLimit(max_seconds)
    with warnings.catch_warnings(record=True) as early:
        warnings.simplefilter("always")
        links = None if constraints is None else read_links(constraints)
    if links is not None and links.size == 0 and method == "auto":
        links = None  # a file in which nothing was answered yet
    check_cluster(scheduler, workers, security, performance_report)
    if resume and (out is None or overwrite):
        rest = "overwrite=True too: choose one of them" if overwrite else "no out: the folder to go on in is wanted"
        raise InputError(f"resume=True was given, and {rest}.")
    model = _make_model(
        _choose_method(method) if links is not None else method,
        n_clusters,
        {"random_state": random_state, "n_jobs": n_jobs, "max_seconds": max_seconds, **params},
    )
    model.check_parameters()
    if model.n_clusters == 1:  # the estimator takes it, as scikit-learn asks; here it is a mistake
        raise InputError("n_clusters is 1; a whole number of clusters, 2 to 100, is wanted.")
    started = datetime.now(UTC)
    with ExitStack() as stack:
        folder = stack.enter_context(Out(out, overwrite=overwrite, resume=resume)) if out is not None else None
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        keeper = Checkpoints(folder) if folder is not None else None
        recorded = keeper.seed if keeper is not None and random_state is None else None
        model.set_params(random_state=draw_seed(random_state) if recorded is None else recorded)
        if keeper is not None:
            defaults = {name: default for name, default, _, _ in list_parameters(model)}
            keeper.compare(describe_request(method, model.get_params(), sample_weight, links), defaults)
        watch = FitListener(folder, progress, model, limit)
        cluster = None
        if scheduler is not None or workers is not None:
            from dmmc.engine.connect import connect

            watch({"phase": "connect"})
            profile = performance_report is not None
            cluster = stack.enter_context(connect(scheduler, workers, security, dashboard=dashboard, profile=profile))
            stack.enter_context(cluster.performance_report(performance_report))
        watch({"phase": "read"})
        dataset = _open_rows(source, component, n_jobs, cluster, limit)
        check_image_shape(image_shape, dataset.n_features)
        if image_shape is None and math.prod(dataset.image_shape or ()) == dataset.n_features:
            image_shape = dataset.image_shape
        watch.n_rows = dataset.n_rows
        data = {
            "n_rows": dataset.n_rows,
            "n_features": dataset.n_features,
            "dtype": str(dataset.dtype),
            "sparse": dataset.is_sparse,
        }
        engine = stack.enter_context(_make_engine(dataset, n_jobs, cluster, limit))
        if keeper is not None:
            keeper.compare_data(**data)
            stack.enter_context(keeper)  # last, as saving comes before all that ends with the run
        model.fit_on(engine, sample_weight=sample_weight, links=links, listener=watch, keeper=keeper, limit=limit)
        watch({"phase": "write" if folder is not None else "done"})
        run = Run(model, dataset, {})
        run._image_shape = image_shape
        run.info.update(
            method=method,
            command=command or "dmmc.fit(...) in Python",
            parameters=plain(model.plain_params()),
            choices=model.choices_,
            seed=model.choices_["random_state"],
            data={"name": dataset.name, **data, "fingerprint": model.choices_["fingerprint"]},
            sizes=np.bincount(run.labels, minlength=n_clusters).tolist(),
            objective=model.objective_,
            gap=model.gap_,
            passes=model.n_iter_,
            started=started.isoformat(timespec="seconds"),
            versions=contents.describe_environment(),
            warnings=[str(w.message) for w in (*early, *caught) if issubclass(w.category, ClusteringWarning)],
            timings=watch.timings,
            peak_memory_mb=peak_memory(),
        )
        if folder is not None:
            run._finish(folder, engine, scores, image_shape)
    for warning in (*early, *caught):
        warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return run


def load(path: str | Path) -> MarginClusterer:
    """Read the model of a result folder; nothing in it is ever run as code.

    Parameters
    ----------
    path : the folder that `out=` or `Run.save` wrote, or its `model/`

    Returns
    -------
    The fitted estimator, ready to predict (its training labels are in `labels.zarr`).
    """
    refuse_url(path)
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{path} is not a folder that dmmc wrote; the OUT of a fit is wanted.")
    if contents.is_unfinished(folder):
        raise InputError(f"{path} {UNFINISHED}")
    inner = folder / "model" if (folder / "model").is_dir() else folder
    content, arrays = array_folder.read(inner, "model", sealed=True)
    kinds = sorted({method.estimator for method in METHODS.values()})
    kind = content.get("estimator")
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{path} holds a model of kind {kind!r}; this version knows {', '.join(kinds)}.")
    model: MarginClusterer = getattr(estimators, kind).from_arrays(content, arrays, str(path))
    return model


def check_cluster(scheduler: Any, workers: Any, security: Any, performance_report: Any = None) -> None:
    """Refuse options of a cluster that contradict each other."""
    if scheduler is not None and workers is not None:
        raise InputError("scheduler and workers were both given; choose a cluster, or local workers.")
    if scheduler is None and security is not None:
        raise InputError("TLS files were given without a scheduler; they are for one with an address (tls://...).")
    if scheduler is None and workers is None and performance_report is not None:
        raise InputError("a performance report is made by a cluster; give a scheduler or workers too.")


def _make_engine(
    dataset: Rows, n_jobs: int | None, cluster: Cluster | None, limit: TimeLimit
) -> AbstractContextManager[Engine]:
    if cluster is None:
        return Local(open_dataset(dataset), n_jobs)
    from dmmc.engine.distributed import Distributed

    return Distributed(dataset, cluster, limit)


def _open_rows(
    source: Any, component: str | None, n_jobs: int | None, cluster: Cluster | None, limit: TimeLimit
) -> Rows:
    """The rows; names that do not fit them are refused now, not when they are written."""
    if cluster is None:
        dataset: Rows = open_dataset(source, component, n_jobs, limit)
    else:
        dataset = open_rows(source, component, n_jobs, cluster.compute)
    ids, columns = (dataset.row_ids, dataset.n_rows), (dataset.feature_names, dataset.n_features)
    for what, (names, count) in {"row ids": ids, "feature names": columns}.items():
        if names is not None and len(names) != count:
            raise InputError(f"{dataset.name} has {len(names)} {what}, but {count} are wanted.")
    return dataset


def _choose_method(method: Any) -> Any:
    """The method that takes constraints: auto chooses it, others are refused."""
    if method == "auto":
        return "pairwise"
    if isinstance(method, str) and method in METHODS and METHODS[method].estimator != "PairwiseMMC":
        raise InputError(
            f"constraints were given, but method {method!r} takes none; 'pairwise' does, and 'auto' is it."
        )
    return method


def _make_model(method: Any, n_clusters: int, params: Mapping[str, Any]) -> MarginClusterer:
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method is {method!r}; this version has {', '.join(METHODS)}.")
    cls = getattr(estimators, METHODS[method].estimator)
    fixed = METHODS[method].params
    known = set(cls().get_params()) - set(fixed)
    unknown = sorted(set(params) - known)
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is not a parameter of method {method!r}; it takes {', '.join(sorted(known))}."
        )
    model: MarginClusterer = cls(n_clusters, **{**METHODS[method].defaults, **fixed, **params})
    return model
