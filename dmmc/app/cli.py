"""The command line: a thin shell over `dmmc.fit` and friends. `exit_codes` says how a command ends."""

import inspect
import json
import os
import shlex
from pathlib import Path
from typing import Any

import click

from dmmc import __version__
from dmmc.app import exit_codes
from dmmc.app.cli_options import (
    FILE,
    NUMBER,
    PLACE,
    add_cluster_options,
    add_memory_option,
    add_storage_options,
    add_table_options,
    hide_arguments,
    join_paths,
    parse_settings,
    parse_shape,
    read_cluster,
)
from dmmc.app.exit_codes import show_path, show_scores, show_text, show_warnings
from dmmc.app.progress import Progress
from dmmc.errors import InputError
from dmmc.methods import METHODS


@click.group(
    cls=exit_codes.Commands,
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
    """Run the command line."""
    exit_codes.run(cli, arguments)


class FitCommand(click.Command):
    """`dmmc fit`, whose help names the most used parameters of the default method."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the parameters below the options."""
        from dmmc.app.parameter_tables import list_most_used

        with formatter.section("Most used parameters (--set NAME=VALUE; all: dmmc methods --parameters METHOD)"):
            formatter.write_dl(list_most_used("cpmmc"))


@cli.command(cls=FitCommand)
@click.argument("source")
@click.option(
    "-k",
    "--n-clusters",
    type=NUMBER,
    show_default="auto",
    help="2 to 10,000, a range such as 5..20, or auto",
)
@click.option("-o", "--out", type=FILE, required=True, help="folder to write")
@click.option("--method", default="auto", show_default=True, help="see 'dmmc methods'")
@click.option("--effort", type=click.Choice(["fast", "balanced", "best"]), help="how much auto tries")
@click.option(
    "--view", "views", multiple=True, metavar="PATH", help="another feature space of the same rows; repeatable"
)
@click.option("--component", help="path inside the store")
@click.option("--constraints", metavar="PAIRS.csv", help="rows that must or cannot be together: columns i,j,link")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="a parameter of the method; repeatable")
@click.option("--random-state", type=int, default=0, show_default=True, help="the seed")
@click.option("--resume", is_flag=True, help="go on with an interrupted run, or begin it")
@click.option("--overwrite", is_flag=True, help="replace an earlier result")
@click.option("--max-seconds", type=float, help="end then, with the best so far; code 5 if there is none")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@add_memory_option
@click.option("--scores", is_flag=True, help="write scores.zarr too")
@click.option("--image-shape", help="rows are images, e.g. 28x28: show them in the report")
@click.option("--match", metavar="OLD_OUT", help="number clusters as an earlier result did")
@click.option("--unassigned", type=float, metavar="P", help="label -1 for rows with a confidence below P, 0 to 1")
@click.option("--truth", metavar="FILE", help="known classes, as of 'dmmc score': scores and a table in the report")
@click.option("--performance-report", metavar="FILE", help="on a cluster, write Dask's performance report")
@click.option("--dashboard", is_flag=True, help="with --workers, show Dask's dashboard on this machine")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@click.option("--quiet", is_flag=True, help="say nothing but errors; notes are in OUT/run.json and the report")
@add_storage_options
@add_table_options
@add_cluster_options
@click.pass_obj
def fit(
    arguments: list[str],
    /,
    source: str,
    out: Path,
    n_clusters: int | str | None,
    views: tuple[str, ...],
    settings: tuple[str, ...],
    image_shape: str | None,
    effort: str | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Cluster the rows of SOURCE into K clusters.

    SOURCE is a zarr store, a file (csv, parquet, npy, npz, h5ad, mtx, svmlight, idx), a folder of parquet files, or a
    pattern of csv or parquet files in quotes. Large files are converted into dmmc-cache beside OUT, once.
    """
    shape = parse_shape(image_shape)
    from dmmc.app import api
    from dmmc.app.start_from import is_earlier
    from dmmc.choose.tell import tell_choice
    from dmmc.plain_json import plain

    params = parse_settings(settings, inspect.signature(api.fit).parameters)
    params |= {} if effort is None else {"effort": effort}
    if n_clusters is None and not is_earlier(params.get("init")):
        n_clusters = "auto"
    cluster = read_cluster(options)
    command = shlex.join(["dmmc", *hide_arguments(arguments)])
    with show_warnings(quiet=quiet), Progress(quiet=quiet) as progress:
        run = api.fit(
            join_paths(source, views),
            n_clusters,
            out=out,
            image_shape=shape,
            progress=progress,
            command=command,
            **options,
            **cluster,
            **params,
        )
    info = run.info
    if as_json:
        click.echo(json.dumps(plain({"out": str(out), **info})))
    elif not quiet:
        from dmmc.report.summary import MOST_CLUSTERS

        sizes, hidden = ", ".join(map(str, info["sizes"][:MOST_CLUSTERS])), len(info["sizes"]) - MOST_CLUSTERS
        sizes += f" and {hidden:,} more" if hidden > 0 else ""
        click.echo(f"{info['data']['n_rows']} rows in {len(info['sizes'])} clusters of {sizes} rows")
        for number, name in enumerate(info["names"][:MOST_CLUSTERS]):
            click.echo(f"  {number}: {show_text(name)} ({info['sizes'][number]} rows)")
        show_scores(info.get("scores", {}))
        if "unassigned" in info:
            click.echo(f"{info['unassigned']} rows are not sure enough for a label, and have -1")
        for line in tell_choice(info["choices"], info["parameters"].get("effort", "balanced")):
            click.echo(line)
        click.echo(f"objective {info['objective']:.6g} after {info['passes']} passes, {info['timings']['total']:.1f} s")
        click.echo(f"written to {show_path(out)}: {', '.join(sorted(os.listdir(out)))}{_report_words(out)}")


def _report_words(out: Path) -> str:
    if (out / "report.html").exists():
        return ""
    from dmmc.report import MISSING

    return f" (no report.html: {MISSING[:-1]}, then say dmmc report {show_path(out)})"


@cli.command()
@click.argument("out", type=FILE)
@click.argument("source")
@click.option("-o", "--labels", type=PLACE, required=True, help="LABELS.csv, .parquet or .zarr to write")
@click.option("--scores", type=PLACE, help="SCORES.zarr to write")
@click.option("--confidence", type=PLACE, help="CONFIDENCE.zarr to write; a csv or parquet file has it anyway")
@click.option("--runner-up", type=PLACE, help="RUNNER_UP.zarr to write, the next best cluster; as above")
@click.option("--unassigned", type=float, metavar="P", help="label -1 for rows with a confidence below P, 0 to 1")
@click.option(
    "--view", "views", multiple=True, metavar="PATH", help="another feature space of the same rows; repeatable"
)
@click.option("--component", help="path inside the store")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@add_memory_option
@add_storage_options
@add_cluster_options
def predict(
    out: Path,
    source: str,
    labels: Path | str,
    scores: Path | str | None,
    confidence: Path | str | None,
    runner_up: Path | str | None,
    unassigned: float | None,
    views: tuple[str, ...],
    component: str | None,
    n_jobs: int | None,
    memory: str | None,
    storage_options: dict[str, Any] | None,
    **options: Any,
) -> None:
    """Label the rows of SOURCE with the model that a fit wrote to OUT, block by block.

    A csv or parquet file has the columns id (row numbers, from 0, where rows have no ids), label, name (of the
    cluster), confidence and runner_up. A zarr array has labels alone, in the order of the rows.
    """
    cluster = read_cluster(options)
    from dmmc.app import api
    from dmmc.app.write_labels import check_targets
    from dmmc.stores.urls import find_all

    api.check_cluster(**cluster, memory=memory)
    targets = {"labels": labels, "scores": scores, "confidence": confidence, "runner_up": runner_up}
    rows, *places = find_all(storage_options, join_paths(source, views), *targets.values())
    wanted = check_targets(dict(zip(targets, places, strict=True)))
    with show_warnings():
        model = api.load(out).set_params(n_jobs=n_jobs)
        count = model.predict_to(rows, wanted, component, **cluster, memory=memory, unassigned=unassigned)
    click.echo(f"{count} labels written to {show_path(labels)}")


@cli.command()
@click.argument("out", type=FILE)
@click.argument("source")
@click.option("-n", "--n-pairs", type=click.IntRange(min=1), default=20, show_default=True, help="how many pairs")
@click.option("-o", "--pairs", "target", type=FILE, required=True, help="PAIRS.csv to write")
@click.option("--component", help="path inside the store")
@click.option("--constraints", metavar="ANSWERED.csv", help="pairs that are answered: they are not asked again")
@click.option("--restarts", type=click.IntRange(min=0), default=4, show_default=True, help="fits to compare with")
@click.option("--random-state", type=int, default=0, show_default=True, help="the seed")
@click.option("--n-jobs", type=int, help="threads; all cores if left out")
@add_storage_options
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
    storage_options: dict[str, Any] | None,
) -> None:
    """Propose pairs of rows to ask a person about, for the fit of SOURCE in OUT.

    Fill in the column link of PAIRS.csv with must or cannot, and give it to 'dmmc fit --constraints'.
    """
    from dmmc.app import api
    from dmmc.app.propose_pairs import propose_pairs
    from dmmc.pairs.io import write
    from dmmc.stores.urls import find_remote

    if os.path.lexists(target):
        raise InputError(f"{target} exists; choose another path, or remove it first.")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is not a folder; the folder to write {target.name} in is wanted.")
    with show_warnings():
        model = api.load(out).set_params(n_jobs=n_jobs)
        rows = model.open(find_remote(source, storage_options), component)
        found = propose_pairs(
            rows, model, n_pairs, constraints=constraints, n_restarts=restarts, random_state=random_state
        )
    write(target, found, rows.row_ids)
    click.echo(f"{len(found)} pairs written to {show_path(target)}: fill in the column link with must or cannot")


@cli.command()
@click.argument("labels")
@click.argument("truth")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@add_storage_options
def score(labels: Any, truth: Any, as_json: bool, storage_options: dict[str, Any] | None) -> None:
    """Compare LABELS with TRUTH: each a zarr array, .npy, .npz:key, .csv (one label a line, or row id and label).

    The OUT of a fit has labels too. Rows are compared by their ids where both have them, else in their order.
    """
    from dmmc.app.truth import score_files
    from dmmc.stores.urls import find_all

    found = score_files(*find_all(storage_options, labels, truth))
    if as_json:
        click.echo(json.dumps(found))
        return
    show_scores(found)


@cli.command()
@click.argument("input", type=PLACE)
@click.argument("output", type=PLACE)
@click.option("--key", help="which array of an .npz")
@click.option("--chunk-rows", type=click.IntRange(min=1), help="rows of a chunk; 4 to 16 MB if left out")
@click.option("--overwrite", is_flag=True, help="replace OUTPUT")
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@click.option("--quiet", is_flag=True, help="say nothing but errors")
@add_storage_options
def convert(
    input: Path | str,
    output: Path | str,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Write INPUT (npy, npz, csv, parquet, svmlight, mtx, idx(.gz), h5ad) as the zarr store OUTPUT."""
    from dmmc.convert import convert as write
    from dmmc.plain_json import plain

    with show_warnings(quiet=quiet), Progress(quiet=quiet) as progress:
        done = write(input, output, progress=progress, **options)
    if as_json:
        click.echo(json.dumps(plain(done)))
    elif not quiet:
        kind = "sparse " if done["sparse"] else ""
        click.echo(f"{done['rows']} x {done['columns']} {kind}{done['dtype']} written to {show_path(output)}")


@cli.command()
@click.argument("source")
@click.option("--component", help="path inside the store")
@click.option("-k", "--n-clusters", type=click.IntRange(2, 100), default=10, show_default=True)
@click.option("--check", is_flag=True, help="read all numbers; exit code 2 where a fit would refuse them")
@add_memory_option
@click.option("--json", "as_json", is_flag=True, help="print one JSON object")
@add_storage_options
@add_table_options
@click.pass_context
def info(
    context: click.Context,
    /,
    source: str,
    component: str | None,
    n_clusters: int,
    check: bool,
    memory: str | None,
    as_json: bool,
    storage_options: dict[str, Any] | None,
    **options: Any,
) -> None:
    """Shape, type, chunks and sparsity of SOURCE, the memory a fit needs, and what is wrong with it."""
    from dmmc.info import format_info
    from dmmc.plain_json import plain
    from dmmc.sources.describe import describe
    from dmmc.sources.open import TableOptions

    found = describe(
        source,
        component,
        n_clusters,
        check=check,
        table=TableOptions(**options),
        memory=memory,
        storage_options=storage_options,
    )
    click.echo(json.dumps(plain(found)) if as_json else format_info(found))
    if check and found["refused"]:
        context.exit(2)


@cli.command()
@click.argument("out", type=FILE)
@click.option("--image-shape", help="rows are images, e.g. 28x28")
@click.option("--truth", metavar="FILE", help="known classes, as of 'dmmc score': scores and a table")
def report(out: Path, image_shape: str | None, truth: str | None) -> None:
    """Write OUT/report.html again."""
    from dmmc.report import MISSING, available
    from dmmc.results import belonging, contents

    shape = parse_shape(image_shape)
    belonging.read_run(out)
    if not available():
        raise InputError(MISSING)
    compared = None
    if truth is not None:
        from dmmc.app.truth import compare_with_truth, read_truth
        from dmmc.results.earlier import read_earlier

        found = read_earlier(out)
        compared = compare_with_truth(found.labels, found.ids, read_truth(truth), found.n_clusters)
    click.echo(f"written: {show_path(contents.write_report(out, shape, compared))}")


@cli.command()
@click.option("--parameters", "method", metavar="METHOD", help="the parameters of this method: default, range, meaning")
@click.option("--markdown", is_flag=True, help="with --parameters: as a table of Markdown")
def methods(method: str | None, markdown: bool) -> None:
    """The methods of this version, one line each, or the parameters of one of them."""
    if method is not None:
        from dmmc.app.parameter_tables import show_parameters

        click.echo(show_parameters(method, markdown=markdown))
        return
    for name, record in METHODS.items():
        click.echo(f"{name:14s}{record.words}")


@cli.command()
@click.option("-o", "--out", type=FILE, default=Path("dmmc-demo"), show_default=True)
def demo(out: Path) -> None:
    """Cluster 1,797 handwritten digits beside k-means, write a report, and say what to try next."""
    from dmmc.app.demo import tell

    with show_warnings():
        tell(out, click.echo)


@cli.command()
@click.option("--quiet", is_flag=True, help="say nothing but errors")
def warmup(quiet: bool) -> None:
    """Compile the usual kernels now, so that no first fit waits: for images of containers, and for clusters.

    What is compiled is kept in $NUMBA_CACHE_DIR, or beside the package.
    """
    import time

    from dmmc.app.warm_up import PARTS, compile_parts

    began = time.perf_counter()
    compile_parts(list(PARTS), None if quiet else lambda name: click.echo(f"compiling: {name}", err=True))
    if not quiet:
        click.echo(f"kernels are compiled, or were before: {time.perf_counter() - began:.1f} s")
