"""`dmmc.fit`: any matrix in, clusters out; `dmmc.load`: a model from its folder."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dmmc import estimators
from dmmc.app.findings import Findings, check_match, keep_numbers, look
from dmmc.app.fit_listener import FitListener, Progress
from dmmc.app.run import Run
from dmmc.app.start_from import check_start, is_earlier, predict_start
from dmmc.app.truth import compare_with_truth, order_truth, read_truth
from dmmc.app.warm_up import compile_parts, find_missing
from dmmc.data.dataset import Rows
from dmmc.data.memory_plan import find_room
from dmmc.engine import Engine, Streamed
from dmmc.errors import ClusteringWarning, InputError, collect_warnings, refuse_url, warn
from dmmc.estimators.checks import draw_seed
from dmmc.estimators.local_engine import make_local_engine, open_here
from dmmc.estimators.parameters import Clusters, list_parameters
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.machine import limit_memory, peak_memory
from dmmc.methods import METHODS
from dmmc.model.label_counts import count_labels
from dmmc.pairs.io import read as read_links
from dmmc.plain_json import plain
from dmmc.profile.confidence import check_unassigned
from dmmc.results import array_folder, belonging, contents
from dmmc.results.checkpoints import Checkpoints, describe_request
from dmmc.results.contents import check_image_shape
from dmmc.results.earlier import read_earlier
from dmmc.results.folder import Out
from dmmc.results.label_arrays import read_labels
from dmmc.results.summary_folder import read_centres, read_cluster_names
from dmmc.sources.open import Opened, TableOptions, open_source
from dmmc.stores.urls import find_remote
from dmmc.time_limit import TimeLimit

if TYPE_CHECKING:
    from dmmc.engine.dask_client import Cluster


def fit(
    source: Any,
    n_clusters: int | str | None = None,
    *,
    method: str = "auto",
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    constraints: Any = None,
    sample_weight: ArrayLike | None = None,
    scheduler: Any = None,
    workers: int | None = None,
    security: Any = None,
    resume: bool = False,
    overwrite: bool = False,
    n_jobs: int | None = None,
    memory: int | str | None = None,
    max_seconds: float | None = None,
    random_state: Any = 0,
    progress: Progress | None = None,
    scores: bool = False,
    image_shape: tuple[int, ...] | None = None,
    match: str | Path | None = None,
    unassigned: float | None = None,
    truth: Any = None,
    performance_report: str | Path | None = None,
    dashboard: bool = False,
    command: str | None = None,
    id: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    missing: str | None = None,
    **params: Any,
) -> Run:
    """Cluster the rows of any matrix.

    Parameters
    ----------
    source : numpy array, scipy sparse, frame of pandas, polars or dask, pyarrow table, dask array, zarr array or group,
        or a path: of a zarr store, of a csv, parquet, npy, npz, h5ad, mtx, svmlight or idx file, of a folder of parquet
        files, or a pattern of csv or parquet files; or the URL of a store or of a file (s3://, gs://, az://, abfs://,
        http://, https://, memory://). A list of these is several views of the same rows, for one
        labelling by the sum of their scores. Large files are converted first, into the folder dmmc-cache beside `out`,
        where the next run finds them as long as the files stay as they are
    n_clusters : how many; "auto", or a range such as "5..20", suggests a number (`run.choices["n_clusters"]`). Left out
        it is "auto", and 2 where another method is named
    method : a name that `dmmc methods` lists. "auto" tries several and judges them without labels
        (`run.choices["candidates"]`); it is "cpmmc" where a parameter is given that only methods have (such as
        `features`), and "pairwise" with constraints
    component : path inside the store, for a zarr store
    storage_options : of the file system of a URL, as fsspec takes them (`key`, `secret` and `endpoint_url` of s3fs,
        say). Workers get them; nothing that is written holds them, so that `resume` needs them again
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
    memory : without a cluster, what this process may take in all, such as "1GB" or a number of bytes; by default half
        of what is free. A store whose rows do not fit stays where it is, and is read block by block in each pass
    max_seconds : end then, from this call on, with the best so far; `OutOfTime` where that is nothing (rows are still
        being read, or a graph is made). What was found is then labelled and written
    random_state : the seed
    progress : called with a dict when a phase begins and after each pass, and with one that has `compiling` when numba
        begins (True) and ends (False) to compile
    scores : with `out`, write the decision values too
    image_shape : rows are images of this shape; the report shows them. A store that `dmmc convert` made knows it
    match : folder of an earlier result: clusters get the numbers that they have there, by the rows with the same ids
        or, without any, by their centres; what is new or gone is a warning, and in `info["matched"]`
    unassigned : rows whose confidence is below this, 0 to 1, get label -1; by default every row has a cluster
    truth : known classes of the rows, an array or the path of a file as of `dmmc score`: scores (`info["scores"]`) and,
        in the report, the table of clusters and classes. The fit does not see it
    performance_report : on a cluster, write Dask's own report of the run to this file
    dashboard : with `workers`, show Dask's dashboard on this machine
    command : what to name in run.json and the report as the command that made them
    init : in **params, besides what the method takes: the folder of an earlier result, whose model labels the rows for
        the search to start from; the number of clusters is then its own, if none is given
    constraints : pairs of rows that must or cannot be together, for method "pairwise" (or "auto"): an array, a list or
        a frame of (i, j, "must" or "cannot"), or the path of a csv with the columns i,j,link; rows are numbered from 0
    id : of a table, the column that names the rows; found if left out
    columns, drop : of a table, names of the columns to use, or to leave out
    missing : what is done with missing cells of a table: "median" fills them (the default), "drop" leaves out their
        rows, "refuse" raises InputError
    **params : parameters of the method's estimator, such as C or n_init

    Returns
    -------
    Run
    """
    limit = TimeLimit(max_seconds)
    source = find_remote(source, storage_options)
    with collect_warnings() as early:
        links = None if constraints is None else read_links(constraints)
    if links is not None and links.size == 0 and method == "auto":
        links = None  # a file in which nothing was answered yet
    check_cluster(scheduler, workers, security, performance_report, memory)
    if memory is not None and (scheduler is not None or workers is not None):
        raise InputError(
            "memory was given with a cluster; it is for this process, and workers have limits of their own."
        )
    room = find_room(memory)
    check_unassigned(unassigned)
    known = None if truth is None else read_truth(truth)
    earlier = None if match is None else read_earlier(match)  # what is wrong with it is said before the search
    if resume and (out is None or overwrite):
        rest = "overwrite=True too: choose one of them" if overwrite else "no out: the folder to go on in is wanted"
        raise InputError(f"resume=True was given, and {rest}.")
    start = params["init"] if is_earlier(params.get("init")) else None
    begun_by = None if start is None else load(start)
    if begun_by is not None:
        params["init"] = "k-means"  # until the rows are there
        n_clusters = begun_by.count_clusters() if n_clusters in (None, "auto") else n_clusters
    params = {"random_state": random_state, "n_jobs": n_jobs, "max_seconds": max_seconds, **params}
    chosen = _choose_method(method, params, links is not None)
    if method == "auto" and chosen == "pairwise" and not {"init", "features", "transform"} & set(params):
        params["init"] = "auto"
    if n_clusters is None:
        n_clusters = "auto" if chosen == "auto" else 2
    model = _make_model(chosen, n_clusters, params)
    table = TableOptions(id, columns, drop, missing)
    check_start(params.get("init"), model)
    model.check_parameters()
    if model.n_clusters == 1:  # the estimator takes it, as scikit-learn asks; here it is a mistake
        raise InputError(f"n_clusters is 1; {Clusters(model.most_clusters)}, is wanted.")
    started = datetime.now(UTC)
    with ExitStack() as stack:
        folder = stack.enter_context(Out(out, overwrite=overwrite, resume=resume)) if out is not None else None
        caught = stack.enter_context(collect_warnings())
        stack.enter_context(limit_memory(None if memory is None else room))
        keeper = Checkpoints(folder) if folder is not None else None
        recorded = keeper.seed if keeper is not None and random_state is None else None
        model.set_params(random_state=draw_seed(random_state) if recorded is None else recorded)
        if keeper is not None:
            defaults = {name: default for name, default, _, _ in list_parameters(model)}
            asked = model.get_params() | ({} if start is None else {"init": str(start)})
            request = describe_request(method, asked, sample_weight, links)
            keeper.compare(request | {name: getattr(table, name) for name in table.given}, defaults)
        watch = stack.enter_context(FitListener(folder, progress, model, limit))
        cluster = None
        if scheduler is not None or workers is not None:
            from dmmc.engine.connect import connect

            watch({"phase": "connect"})
            profile = performance_report is not None
            cluster = stack.enter_context(connect(scheduler, workers, security, dashboard=dashboard, profile=profile))
            stack.enter_context(cluster.performance_report(performance_report))
        watch({"phase": "read"})
        opened = stack.enter_context(
            open_source(
                source, component, table=table, beside=None if folder is None else folder.path, progress=progress
            )
        )
        dataset = _open_rows(opened, n_jobs, cluster, limit, memory)
        if known is not None:
            order_truth(known, dataset.row_ids, dataset.n_rows)  # what is wrong with it is said before the search
        if earlier is not None:
            check_match(dataset, earlier)
        model.preparation_ = opened.preparation
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
        engine = stack.enter_context(_make_engine(dataset, n_jobs, cluster, limit, memory))
        if keeper is not None:
            keeper.compare_data(**data)
            stack.enter_context(keeper)  # last, as saving comes before all that ends with the run
        if cluster is None and (uncompiled := find_missing(model, dataset)):
            watch({"phase": "compile"})
            compile_parts(uncompiled)
        if begun_by is not None:
            model.set_params(init=predict_start(engine, begun_by, model, str(start)))
        model.fit_on(engine, sample_weight=sample_weight, links=links, listener=watch, keeper=keeper, limit=limit)
        if folder is not None and "candidates" in model.choices_:
            folder.rewrite_history(model.history_)  # of the candidate that was chosen
        watch({"phase": "write" if folder is not None else "done"})
        found = None
        if folder is not None or earlier is not None or unassigned is not None:
            found = look(engine, model, unassigned)
        if found is not None and earlier is not None:
            found = keep_numbers(engine, model, found, earlier, unassigned)
        run = Run(model, dataset, {}, image_shape, found, memory)
        _tell_changes(run, found, unassigned)
        if known is not None:
            run._truth = compare_with_truth(run.labels, dataset.row_ids, known, model.count_clusters())
            run.info["scores"] = run._truth.scores
        run.info.update(
            method=method,
            command=command or "dmmc.fit(...) in Python",
            parameters=plain(model.plain_params()),
            choices=model.choices_ | ({} if start is None else {"init": str(start)}),
            seed=model.choices_["random_state"],
            data={
                "name": dataset.name,
                **data,
                "n_columns": None if opened.preparation is None else len(opened.preparation.columns_),
                "ids": dataset.row_ids is not None,
                "fingerprint": model.choices_["fingerprint"],
            },
            sizes=count_labels(run.labels, model.count_clusters()).tolist(),
            objective=model.objective_,
            gap=model.gap_,
            passes=model.n_iter_,
            started=started.isoformat(timespec="seconds"),
            versions=contents.describe_environment(),
            warnings=[warned.message for warned in (*early, *caught)],
            timings=watch.timings,
            peak_memory_mb=peak_memory(),
            reading=engine.reading if isinstance(engine, Streamed) else None,
        )
        if folder is not None:
            run._finish(folder, engine, scores)
    for warned in (*early, *caught):
        warnings.warn_explicit(*warned)
    return run


def _tell_changes(run: Run, found: Findings | None, unassigned: float | None) -> None:
    """Note and say which clusters kept their numbers, and how many rows have none."""
    if found is None:
        return
    if unassigned is not None:
        run.info["unassigned"] = int(np.count_nonzero(found.labels < 0))
    if found.matching is not None:
        run.info["matched"] = {name: getattr(found.matching, name) for name in ("by", "kept", "new", "gone")}
        warn(found.matching.tell(), ClusteringWarning)


def load(path: str | Path) -> SourceClusterer:
    """Read the model of a result folder; nothing in it is ever run as code.

    Parameters
    ----------
    path : the folder that `out=` or `Run.save` wrote, or its `model/`

    Returns
    -------
    The fitted estimator, ready to predict; `labels_`, `cluster_centers_` and `cluster_names_` are read from the folder
    when asked for.
    """
    refuse_url(path)
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{path} is not a folder that dmmc wrote; the OUT of a fit is wanted.")
    if belonging.is_unfinished(folder):
        raise InputError(f"{path} {belonging.UNFINISHED}")
    inner = folder / "model" if (folder / "model").is_dir() else folder
    content, arrays = array_folder.read(inner, "model", sealed=True)
    belonging.check_model(inner, content)
    kinds = sorted({method.estimator for method in METHODS.values()})
    kind = content.get("estimator")
    if not isinstance(kind, str) or kind not in kinds:
        raise InputError(f"{path} holds a model of kind {kind!r}; this version knows {', '.join(kinds)}.")
    model: SourceClusterer = getattr(estimators, kind).from_arrays(content, arrays, str(path))
    known: dict[str, Any] = {}
    if (folder / "labels.zarr").is_dir():
        known["labels_"] = partial(read_labels, str(folder))
    if (folder / "centres").is_dir():
        known["cluster_centers_"] = partial(read_centres, folder / "centres", model.count_clusters())
    if (folder / "summary").is_dir():
        known["cluster_names_"] = partial(read_cluster_names, folder / "summary")
    model.remember(known)
    return model


def check_cluster(
    scheduler: Any, workers: Any, security: Any, performance_report: Any = None, memory: Any = None
) -> None:
    """Refuse options of a cluster that contradict each other."""
    if scheduler is not None and workers is not None:
        raise InputError("scheduler and workers were both given; choose a cluster, or local workers.")
    if scheduler is None and security is not None:
        raise InputError("TLS files were given without a scheduler; they are for one with an address (tls://...).")
    if scheduler is None and workers is None and performance_report is not None:
        raise InputError("a performance report is made by a cluster; give a scheduler or workers too.")
    if memory is not None and (scheduler is not None or workers is not None):
        raise InputError(
            "memory was given with a cluster; it is for this process, and workers have limits of their own."
        )


def _make_engine(
    dataset: Rows, n_jobs: int | None, cluster: Cluster | None, limit: TimeLimit, memory: int | str | None
) -> AbstractContextManager[Engine]:
    if cluster is None:
        return make_local_engine(dataset, n_jobs, limit, memory)
    from dmmc.engine.distributed import Distributed

    return Distributed(dataset, cluster, limit)


def _open_rows(
    opened: Opened, n_jobs: int | None, cluster: Cluster | None, limit: TimeLimit, memory: int | str | None
) -> Rows:
    """The rows; names that do not fit them are refused now, not when they are written."""
    if cluster is None:
        dataset = open_here(opened, n_jobs, limit, memory)
    else:
        dataset = opened.open_rows(n_jobs, cluster.compute)
    ids, columns = (dataset.row_ids, dataset.n_rows), (dataset.feature_names, dataset.n_features)
    for what, (names, count) in {"row ids": ids, "feature names": columns}.items():
        if names is not None and len(names) != count:
            raise InputError(f"{dataset.name} has {len(names)} {what}, but {count} are wanted.")
    return dataset


def _choose_method(method: Any, params: Mapping[str, Any], has_links: bool) -> Any:
    """The method to use: where pairs or parameters of a method are given, `auto` is the one that takes them."""
    if has_links:
        if method == "auto" and "effort" in params:
            raise InputError(
                "effort was given with constraints; 'pairwise', the method that takes them, has no effort: leave out "
                "one of them."
            )
        if method == "auto":
            return "pairwise"
        if isinstance(method, str) and method in METHODS and METHODS[method].estimator != "PairwiseMMC":
            raise InputError(
                f"constraints were given, but method {method!r} takes none; 'pairwise' does, and 'auto' is it."
            )
    more = set(params) - set(estimators.AutoMMC().get_params())
    if method == "auto" and more and more <= set(estimators.CuttingPlaneMMC().get_params()):
        return "cpmmc"
    return method


def _make_model(method: Any, n_clusters: int | str, params: Mapping[str, Any]) -> SourceClusterer:
    if not isinstance(method, str) or method not in METHODS:
        near = get_close_matches(str(method), METHODS, 1)
        hint = f"did you mean {near[0]!r}? This" if near else "this"
        raise InputError(f"method is {method!r}; {hint} version has {', '.join(METHODS)}.")
    cls = getattr(estimators, METHODS[method].estimator)
    if isinstance(n_clusters, str) and method != "auto":
        raise InputError(
            f"method {method!r} does not look for the number of clusters (n_clusters is {n_clusters!r}): say how many, "
            "with -k at the terminal, or leave the choice of method and parameters to 'auto'."
        )
    fixed = METHODS[method].params
    known = set(cls().get_params()) - set(fixed)
    unknown = sorted(set(params) - known)
    if unknown:
        others = set(estimators.CuttingPlaneMMC().get_params()) if method == "auto" else set()  # which it then is
        arguments = set(inspect.signature(fit).parameters) - {"source", "params"}
        near = get_close_matches(unknown[0], known | others | arguments, 1)
        hint = f"did you mean {near[0]!r}? It" if near else "it"
        rest = ", and those of 'cpmmc', which it is with one of them" if others else ""
        raise InputError(
            f"{unknown[0]!r} is not a parameter of method {method!r}; {hint} takes {', '.join(sorted(known))}{rest}."
        )
    model: SourceClusterer = cls(n_clusters, **{**METHODS[method].defaults, **fixed, **params})
    return model
