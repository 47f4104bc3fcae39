"""The command line: a thin shell over `dmmc.fit` and friends.

Exit codes: 0 done; 2 bad usage or bad input; 3 the cluster was lost; 4 the store or disk failed; 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dmmc import __version__
from dmmc.errors import InputError
from dmmc.progress import Progress

METHODS = {
    "auto": "chooses for you; in this version it is cpmmc",
    "cpmmc": "CuttingPlaneMMC: maximum margin clustering by cutting planes, 2 to 100 clusters",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="dmmc")
def cli() -> None:
    """Clusters that a support vector machine would separate with the widest margin, found without labels."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; every failure is one sentence and an exit code."""
    signal.signal(signal.SIGTERM, _interrupt)
    code = 1
    try:
        code = int(cli.main(arguments, prog_name="dmmc", standalone_mode=False) or 0)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("dmmc: interrupted; unfinished output was removed.", err=True)
        code = 130
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        click.echo(f"dmmc: {_sentence(error.format_message())}{hint}", err=True)
        code = 2
    except InputError as error:
        click.echo(f"dmmc: {_sentence(str(error))}", err=True)
        code = 2
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        click.echo(f"dmmc: the disk or store failed: {error.strerror or error}{where}.", err=True)
        code = 4
    sys.exit(code)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _sentence(text: str) -> str:
    """One line, whatever characters the user's names hold."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


# -------------------------------------------------------------------------------------------------- options


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
    parts = text.lower().split("x")
    if not (2 <= len(parts) <= 3 and all(part.isdigit() and int(part) > 0 for part in parts)):
        raise InputError(f"--image-shape {text!r}: HEIGHTxWIDTH is wanted, such as 28x28 (or 32x32x3).")
    return tuple(int(part) for part in parts)


def _workers(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, help_text in reversed(
        [
            ("--workers", "start this many local worker processes"),
            ("--scheduler", "address or file of a Dask scheduler"),
            ("--tls-ca", "certificate authority of the cluster"),
            ("--tls-cert", "client certificate"),
            ("--tls-key", "client key"),
        ]
    ):
        function = click.option(name, help=f"{help_text} (not yet in this version)")(function)
    return function


def _refuse_cluster(**options: Any) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(
                f"--{name.replace('_', '-')} {value}: clusters are not in this version yet; leave it out to use "
                "the threads of this process."
            )


# ------------------------------------------------------------------------------------------------- commands


@cli.command()
@click.argument("source")
@click.option("-k", "--n-clusters", type=int, required=True, help="number of clusters, 2 to 100")
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="folder to write")
@click.option("--method", default="auto", show_default=True, help="see 'dmmc methods'")
@click.option("--component", help="path inside the store")
@click.option("--constraints", help="pairs.csv with the columns i,j,link (not yet in this version)")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="a parameter of the method; repeatable")
@click.option("--random-state", type=int, default=0, show_default=True, help="the seed")
@click.option("--resume", is_flag=True, help="go on with an interrupted run (not yet in this version)")
@click.option("--overwrite", is_flag=True, help="replace an earlier result")
@click.option("--max-seconds", type=float, help="stop then, with the best so far")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@click.option("--storage-option", "storage_options", multiple=True, metavar="N=V", help="(not yet in this version)")
@click.option("--scores", is_flag=True, help="write scores.zarr too")
@click.option("--image-shape", help="rows are images, e.g. 28x28: show them in the report")
@click.option("--performance-report", help="Dask's performance report (not yet in this version)")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@click.option("--quiet", is_flag=True, help="no progress")
@_workers
def fit(
    source: str,
    n_clusters: int,
    out: Path,
    method: str,
    component: str | None,
    settings: tuple[str, ...],
    random_state: int,
    overwrite: bool,
    max_seconds: float | None,
    n_jobs: int | None,
    scores: bool,
    image_shape: str | None,
    as_json: bool,
    quiet: bool,
    resume: bool,
    **later: Any,
) -> None:
    """Cluster the rows of SOURCE (a zarr store; see 'dmmc convert' for other files) into K clusters."""
    _refuse_cluster(**{name: value or None for name, value in later.items()}, resume=resume or None)
    from dmmc import api

    params = dict(_setting(text) for text in settings)
    with Progress(quiet=quiet) as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run = api.fit(
            source,
            n_clusters,
            method=method,
            component=component,
            out=out,
            overwrite=overwrite,
            scores=scores,
            image_shape=_shape(image_shape),
            n_jobs=n_jobs,
            max_seconds=max_seconds,
            random_state=random_state,
            progress=progress,
            command=shlex.join(["dmmc", *sys.argv[1:]]),
            **params,
        )
    _tell_warnings(caught)
    info = run.info
    if as_json:
        click.echo(json.dumps({"out": str(out), **{key: info[key] for key in info if key != "parameters"}}))
        return
    click.echo(f"{info['data']['n_rows']} rows in {n_clusters} clusters of {', '.join(map(str, info['sizes']))} rows")
    click.echo(f"objective {info['objective']:.6g} after {info['passes']} passes, {info['timings']['total']:.1f} s")
    click.echo(f"written to {out}: labels.zarr, model/, history.jsonl, run.json" + _report_words(out))


def _report_words(out: Path) -> str:
    if (out / "report.html").exists():
        return ", report.html"
    return " (no report.html: it needs plotly; pip install 'dmmc[report]', then dmmc report OUT)"


def _tell_warnings(caught: list[warnings.WarningMessage]) -> None:
    from dmmc.errors import ClusteringWarning

    for warning in caught:
        if issubclass(warning.category, ClusteringWarning):
            click.echo(f"dmmc: note: {_sentence(str(warning.message))}", err=True)
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.argument("source")
@click.option("-o", "--labels", type=click.Path(path_type=Path), required=True, help="LABELS.zarr to write")
@click.option("--scores", type=click.Path(path_type=Path), help="SCORES.zarr to write")
@click.option("--component", help="path inside the store")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@_workers
def predict(
    out: Path,
    source: str,
    labels: Path,
    scores: Path | None,
    component: str | None,
    n_jobs: int | None,
    **later: Any,
) -> None:
    """Label the rows of SOURCE with the model that a fit wrote to OUT."""
    _refuse_cluster(**later)
    from dmmc import api, output

    for target in (labels, scores):
        if target is not None and target.exists():
            raise InputError(f"{target} exists; choose another path, or remove it first.")
    model = api.load(out)
    model.set_params(n_jobs=n_jobs)
    found = model.predict(source, component=component)
    output.write_labels(labels, found)
    if scores is not None:
        output.write_labels(scores, model.decision_function(source, component=component))
    click.echo(f"{len(found)} labels written to {labels}")


@cli.command()
@click.argument("labels")
@click.argument("truth")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
def score(labels: str, truth: str, as_json: bool) -> None:
    """Compare LABELS with TRUTH: each a zarr array, .npy, .npz:key or .csv."""
    from dmmc.label_files import read_labels
    from dmmc.metrics import score as compare

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
def convert(
    input: Path, output: Path, key: str | None, chunk_rows: int | None, overwrite: bool, as_json: bool
) -> None:
    """Write INPUT (npy, npz, csv, parquet, svmlight, mtx, idx(.gz), h5ad) as the zarr store OUTPUT."""
    from dmmc.convert import convert as write

    done = write(input, output, key=key, chunk_rows=chunk_rows, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(done, default=str))
        return
    kind = "sparse " if done["sparse"] else ""
    click.echo(f"{done['rows']} x {done['columns']} {kind}{done['dtype']} written to {output}")


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

    found = look(source, component, n_clusters, check=check)
    click.echo(json.dumps(found, default=str) if as_json else format_info(found))


@cli.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--image-shape", help="rows are images, e.g. 28x28")
def report(out: Path, image_shape: str | None) -> None:
    """Write OUT/report.html again."""
    from dmmc import output
    from dmmc.report import available

    output.read_run(out)
    if not available():
        raise InputError("the report needs plotly; install it with: pip install 'dmmc[report]'.")
    click.echo(f"written: {output.write_report(out, _shape(image_shape))}")


@cli.command()
def methods() -> None:
    """The methods of this version, one line each."""
    for name, words in METHODS.items():
        click.echo(f"{name:8s}{words}")


@cli.command()
@click.option("-o", "--out", type=click.Path(path_type=Path), default=Path("dmmc-demo"), show_default=True)
def demo(out: Path) -> None:
    """Cluster 1,797 handwritten digits beside k-means, write a report, and say what to try next."""
    from dmmc.demo import tell

    tell(out, click.echo)
