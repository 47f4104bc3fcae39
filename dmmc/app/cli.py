"""The command line: a thin shell over `dmmc.fit` and friends.

Exit codes: 0 done; 2 bad usage or bad input; 3 the cluster was lost; 4 the store or disk failed; 130 interrupted.
"""

from __future__ import annotations

import inspect
import json
import math
import os
import re
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dmmc import __version__
from dmmc.app.progress import Progress
from dmmc.errors import ClusteringWarning, ClusterLost, InputError
from dmmc.methods import METHODS

PATIENCE = 10.0
"""Seconds in which a second interrupt is taken for the first."""


class _Commands(click.Group):
    """All commands; an interrupt is told here, as click would print an empty line first."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            _complain(f"interrupted.{_noted(interrupt) or ' What was unfinished is removed.'}")
            raise click.exceptions.Exit(130) from None


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="dmmc")
@click.pass_context
def cli(context: click.Context) -> None:
    """Clusters that a support vector machine would separate with the widest margin, found without labels."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help(), err=True)
        context.exit(2)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every failure is one sentence and an exit code."""
    interrupt = _Interrupt()
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) in (signal.SIG_DFL, signal.default_int_handler):  # under nohup it stays ignored
            signal.signal(stop, interrupt)
    code = _code(sys.argv[1:] if arguments is None else arguments)
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the work is done or undone: its code stands
        signal.signal(stop, signal.SIG_IGN)
    if code == 130:  # at once, as Python may end itself by a signal after an interrupt, and then the code would be lost
        os._exit(code)
    sys.exit(code)


def _code(arguments: list[str]) -> int:
    try:
        return int(cli.main(arguments, prog_name="dmmc", standalone_mode=False, obj=arguments) or 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        _complain(error.format_message() + hint)
        return 2
    except InputError as error:
        _complain(f"{error}{_noted(error)}")
        return 2
    except ClusterLost as error:
        _complain(f"{error}{_noted(error)}")
        return 3
    except MemoryError as error:
        _complain(f"there is not enough memory: {error}.{_noted(error)}")
        return 4
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _complain(f"the disk or store failed: {error.strerror or error}{where}.{_noted(error)}")
        return 4


def _noted(error: BaseException) -> str:
    """What was said about going on after it."""
    return "".join(f" {note}" for note in getattr(error, "__notes__", ()))


class _Interrupt:
    """Turns signals into one KeyboardInterrupt: who asks again while a checkpoint is being written has to wait."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, *_: object) -> None:
        now = time.monotonic()
        if now - self._last > PATIENCE:
            self._last = now
            raise KeyboardInterrupt


def _complain(text: str) -> None:
    """One line on stderr, whatever characters the user's names hold."""
    line = " ".join(text.split())
    click.echo("dmmc: " + "".join(c if c.isprintable() else "?" for c in line), err=True)


def _name(path: Path) -> str:
    """A path as it can be printed."""
    return click.format_filename(path)


# -------------------------------------------------------------------------------------------------- options


OPTIONS = {"n_clusters": "-k", "random_state": "--random-state", "n_jobs": "--n-jobs", "max_seconds": "--max-seconds"}
"""Parameters of all methods that have options of their own."""


def _settings(texts: tuple[str, ...], taken: Container[str]) -> dict[str, Any]:
    """Parameters of a method from NAME=VALUE; names that are taken mean something else."""
    found = {}
    for text in texts:
        name, value = _setting(text)
        if name in OPTIONS:
            raise InputError(f"--set {text!r}: say {OPTIONS[name]} instead.")
        if name in taken:
            raise InputError(f"--set {text!r}: {name} is not a parameter of a method.")
        found[name] = value
    return found


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set {text!r}: NAME=VALUE is wanted, such as --set C=30.")
    words = {"none": None, "true": True, "false": False}
    if value.lower() in words:
        return name, words[value.lower()]
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            pass
    return name, value


def _shape(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){1,2}", text.lower()):
        raise InputError(f"--image-shape {text!r}: HEIGHTxWIDTH is wanted, such as 28x28 (or 32x32x3).")
    return tuple(int(part) for part in text.lower().split("x"))


def _cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options = (
        click.option("--workers", type=int, help="start this many local worker processes for the run"),
        click.option("--scheduler", help="address (tcp://, tls://) or scheduler file of a Dask cluster"),
        click.option("--tls-ca", help="certificate authority of the cluster"),
        click.option("--tls-cert", help="client certificate"),
        click.option("--tls-key", help="client key"),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _cluster(scheduler: str | None, workers: int | None, **tls: str | None) -> dict[str, Any]:
    """Options of a cluster as `dmmc.fit` takes them."""
    files = {name.removeprefix("tls_"): path for name, path in tls.items() if path is not None}
    if files and len(files) < 3:
        raise InputError(f"--tls-{next(iter(files))} was given; --tls-ca, --tls-cert and --tls-key go together.")
    return {"scheduler": scheduler, "workers": workers, "security": files or None}


def _refuse(later: dict[str, Any]) -> None:
    """Say of an option that it is not there yet, if it was given."""
    for name, value in later.items():
        if value:
            raise InputError(f"--{name.replace('_', '-')} is not in this version yet; leave it out.")


@contextmanager
def _notes() -> Iterator[None]:
    """Tell what a fit warns of in a sentence each, when it is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ClusteringWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, ClusteringWarning):
            _complain(f"note: {warning.message}")
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


# ------------------------------------------------------------------------------------------------- commands


@cli.command()
@click.argument("source")
@click.option("-k", "--n-clusters", type=int, required=True, help="number of clusters, 2 to 100")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="folder to write")
@click.option("--method", default="auto", show_default=True, help="see 'dmmc methods'")
@click.option("--component", help="path inside the store")
@click.option("--constraints", metavar="PAIRS.csv", help="rows that must or cannot be together: columns i,j,link")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="a parameter of the method; repeatable")
@click.option("--random-state", type=int, default=0, show_default=True, help="the seed")
@click.option("--resume", is_flag=True, help="go on with an interrupted run, or begin it")
@click.option("--overwrite", is_flag=True, help="replace an earlier result")
@click.option("--max-seconds", type=float, help="stop then, with the best so far")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@click.option("--storage-option", multiple=True, metavar="N=V", help="(not yet in this version)")
@click.option("--scores", is_flag=True, help="write scores.zarr too")
@click.option("--image-shape", help="rows are images, e.g. 28x28: show them in the report")
@click.option("--performance-report", metavar="FILE", help="on a cluster, write Dask's performance report")
@click.option("--dashboard", is_flag=True, help="with --workers, show Dask's dashboard on this machine")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@click.option("--quiet", is_flag=True, help="no progress")
@_cluster_options
@click.pass_obj
def fit(
    arguments: list[str],
    /,
    source: str,
    n_clusters: int,
    out: Path,
    method: str,
    component: str | None,
    constraints: str | None,
    settings: tuple[str, ...],
    random_state: int,
    resume: bool,
    overwrite: bool,
    max_seconds: float | None,
    n_jobs: int | None,
    scores: bool,
    image_shape: str | None,
    performance_report: str | None,
    dashboard: bool,
    as_json: bool,
    quiet: bool,
    scheduler: str | None,
    workers: int | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    **later: Any,
) -> None:
    """Cluster the rows of SOURCE (a zarr store; see 'dmmc convert' for other files) into K clusters."""
    _refuse(later)
    shape = _shape(image_shape)
    from dmmc.app import api
    from dmmc.plain_json import plain

    params = _settings(settings, inspect.signature(api.fit).parameters)
    with _notes(), Progress(quiet=quiet) as progress:
        run = api.fit(
            source,
            n_clusters,
            method=method,
            component=component,
            constraints=constraints,
            out=out,
            resume=resume,
            overwrite=overwrite,
            scores=scores,
            image_shape=shape,
            performance_report=performance_report,
            dashboard=dashboard,
            **_cluster(scheduler, workers, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key),
            n_jobs=n_jobs,
            max_seconds=max_seconds,
            random_state=random_state,
            progress=progress,
            command=shlex.join(["dmmc", *arguments]),
            **params,
        )
    info = run.info
    if as_json:
        click.echo(json.dumps(plain({"out": str(out), **info})))
    elif not quiet:
        sizes = ", ".join(map(str, info["sizes"]))
        click.echo(f"{info['data']['n_rows']} rows in {n_clusters} clusters of {sizes} rows")
        click.echo(f"objective {info['objective']:.6g} after {info['passes']} passes, {info['timings']['total']:.1f} s")
        click.echo(f"written to {_name(out)}: {', '.join(sorted(os.listdir(out)))}{_report_words(out)}")


def _report_words(out: Path) -> str:
    if (out / "report.html").exists():
        return ""
    return " (report.html needs plotly: pip install 'dmmc[report]', then dmmc report OUT)"


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("source")
@click.option("-o", "--labels", type=click.Path(path_type=Path), required=True, help="LABELS.zarr to write")
@click.option("--scores", type=click.Path(path_type=Path), help="SCORES.zarr to write")
@click.option("--component", help="path inside the store")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@_cluster_options
def predict(
    out: Path,
    source: str,
    labels: Path,
    scores: Path | None,
    component: str | None,
    n_jobs: int | None,
    **cluster: Any,
) -> None:
    """Label the rows of SOURCE with the model that a fit wrote to OUT."""
    where = _cluster(**cluster)
    from dmmc.app import api

    api.check_cluster(**where)
    for target in (labels, scores):
        if target is not None and os.path.lexists(target):
            raise InputError(f"{target} exists; choose another path, or remove it first.")
        if target is not None and target.suffix in (".csv", ".npy", ".npz", ".txt"):
            raise InputError(f"{target} is to be written as a zarr store; a name such as {target.stem}.zarr is wanted.")
    if scores is not None and os.path.abspath(labels) == os.path.abspath(scores):
        raise InputError(f"labels and scores are both to be {labels}; choose two paths.")
    model = api.load(out).set_params(n_jobs=n_jobs)
    paths = {"labels": labels} if scores is None else {"labels": labels, "scores": scores}
    count = model.predict_to(source, paths, component, **where)
    click.echo(f"{count} labels written to {_name(labels)}")


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("source")
@click.option("-n", "--n-pairs", type=click.IntRange(min=1), default=20, show_default=True, help="how many pairs")
@click.option("-o", "--pairs", "target", type=click.Path(path_type=Path), required=True, help="PAIRS.csv to write")
@click.option("--component", help="path inside the store")
@click.option("--constraints", metavar="ANSWERED.csv", help="pairs that are answered: they are not asked again")
@click.option("--restarts", type=click.IntRange(min=0), default=4, show_default=True, help="fits to compare with")
@click.option("--random-state", type=int, default=0, show_default=True, help="the seed")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
def pairs(
    out: Path,
    source: str,
    n_pairs: int,
    target: Path,
    component: str | None,
    constraints: str | None,
    restarts: int,
    random_state: int,
    n_jobs: int | None,
) -> None:
    """Propose pairs of rows to ask a person about, for the fit of SOURCE in OUT.

    Fill in the column link of PAIRS.csv with must or cannot, and give it to 'dmmc fit --constraints'.
    """
    from dmmc.app import api
    from dmmc.app.propose_pairs import propose_pairs
    from dmmc.data.open import open_dataset
    from dmmc.pairs.io import write

    if os.path.lexists(target):
        raise InputError(f"{target} exists; choose another path, or remove it first.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; the folder to write {target.name} in is wanted.")
    model = api.load(out).set_params(n_jobs=n_jobs)
    rows = open_dataset(source, component, n_jobs)
    with _notes():
        found = propose_pairs(
            rows, model, n_pairs, constraints=constraints, n_restarts=restarts, random_state=random_state
        )
    write(target, found, rows.row_ids)
    click.echo(f"{len(found)} pairs written to {_name(target)}: fill in the column link with must or cannot")


@cli.command()
@click.argument("labels")
@click.argument("truth")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def score(labels: str, truth: str, as_json: bool) -> None:
    """Compare LABELS with TRUTH: each a zarr array, .npy, .npz:key or .csv (one label a line, or row id and label)."""
    from dmmc.results.label_arrays import read_ids, read_labels
    from dmmc.results.metrics import score as compare

    ids, true_ids = read_ids(labels), read_ids(truth)
    if ids is not None and true_ids is not None:
        for number, (one, other) in enumerate(zip(ids, true_ids, strict=False)):
            if one != other:
                raise InputError(
                    f"row {number} is {one!r} in {labels} but {other!r} in {truth}; the same rows in the same order "
                    "are wanted."
                )
    found = compare(read_labels(labels), read_labels(truth))
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        click.echo(f"{name:14s}{value:.4f}")


@cli.command()
@click.argument("input", type=click.Path(path_type=Path))
@click.argument("output", type=click.Path(path_type=Path))
@click.option("--key", help="which array of an .npz")
@click.option("--chunk-rows", type=click.IntRange(min=1), help="rows of a chunk; 4 to 16 MB if left out")
@click.option("--overwrite", is_flag=True, help="replace OUTPUT")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@click.option("--quiet", is_flag=True, help="no progress")
def convert(
    input: Path, output: Path, key: str | None, chunk_rows: int | None, overwrite: bool, as_json: bool, quiet: bool
) -> None:
    """Write INPUT (npy, npz, csv, parquet, svmlight, mtx, idx(.gz), h5ad) as the zarr store OUTPUT."""
    from dmmc.convert import convert as write
    from dmmc.plain_json import plain

    with Progress(quiet=quiet) as progress:
        done = write(input, output, key=key, chunk_rows=chunk_rows, overwrite=overwrite, progress=progress)
    if as_json:
        click.echo(json.dumps(plain(done)))
    elif not quiet:
        kind = "sparse " if done["sparse"] else ""
        click.echo(f"{done['rows']} x {done['columns']} {kind}{done['dtype']} written to {_name(output)}")


@cli.command()
@click.argument("source")
@click.option("--component", help="path inside the store")
@click.option("-k", "--n-clusters", type=click.IntRange(2, 100), default=10, show_default=True)
@click.option("--check", is_flag=True, help="read all numbers and look for NaN and infinity")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def info(source: str, component: str | None, n_clusters: int, check: bool, as_json: bool) -> None:
    """Shape, type, chunks and sparsity of SOURCE, the memory a fit needs, and what is wrong with it."""
    from dmmc.info import format_info
    from dmmc.info import info as look
    from dmmc.plain_json import plain

    found = look(source, component, n_clusters, check=check)
    click.echo(json.dumps(plain(found)) if as_json else format_info(found))


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--image-shape", help="rows are images, e.g. 28x28")
def report(out: Path, image_shape: str | None) -> None:
    """Write OUT/report.html again."""
    from dmmc.report import available
    from dmmc.results import contents

    shape = _shape(image_shape)
    contents.read_run(out)
    if not available():
        raise InputError("the report needs plotly; install it with: pip install 'dmmc[report]'.")
    click.echo(f"written: {_name(contents.write_report(out, shape))}")


@cli.command()
def methods() -> None:
    """The methods of this version, one line each."""
    for name, method in METHODS.items():
        click.echo(f"{name:14s}{method.words}")


@cli.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("dmmc-demo"), show_default=True)
def demo(out: Path) -> None:
    """Cluster 1,797 handwritten digits beside k-means, write a report, and say what to try next."""
    from dmmc.app.demo import tell

    with _notes():
        tell(out, click.echo)
