"""Options of the command line that take some reading: NAME=VALUE, shapes, where to compute."""

import csv
import re
from collections.abc import Callable, Container, Sequence
from pathlib import Path
from typing import Any

import click

from dmmc.errors import InputError, hide_in_urls, refuse_url
from dmmc.stores.urls import is_url


class LocalPath(click.Path):
    """A path on this machine; a URL is refused as it was given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Make a Path of the text."""
        refuse_url(value)
        return super().convert(value, param, ctx)


class AnyPlace(click.Path):
    """A path on this machine, or the URL of a place in an object store."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Make a Path of the text, if it is one."""
        return value if is_url(value) else super().convert(value, param, ctx)


class NumberOfClusters(click.ParamType[Any]):
    """A number, or the words that stand for one: auto, or a range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Make a number of the text, if it is one; the fit refuses what it cannot take."""
        return int(value) if re.fullmatch(r"-?\d+", str(value)) else value


class Names(click.ParamType[Any]):
    """Names of columns, with commas between them; quoted as in a csv where they hold commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Make a list of the text."""
        return [name.strip() for name in next(csv.reader([value], skipinitialspace=True), [])]


FILE = LocalPath(path_type=Path)
PLACE = AnyPlace(path_type=Path)
NAMES = Names()
NUMBER = NumberOfClusters()

OPTIONS = {
    "n_clusters": "-k",
    "random_state": "--random-state",
    "n_jobs": "--n-jobs",
    "max_seconds": "--max-seconds",
    "effort": "--effort",
}
"""Parameters of all methods that have options of their own."""


def parse_settings(texts: tuple[str, ...], taken: Container[str]) -> dict[str, Any]:
    """Parameters of a method from NAME=VALUE; names that are taken mean something else."""
    found = {}
    for text in texts:
        name, value = parse_setting(text)
        if name in OPTIONS:
            raise InputError(f"--set {text!r}: say {OPTIONS[name]} instead.")
        if name in taken:
            raise InputError(f"--set {text!r}: {name} is not a parameter of a method.")
        found[name] = value
    return found


def parse_setting(text: str) -> tuple[str, Any]:
    """Name and value of NAME=VALUE: None, a truth value, a number, or text."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise InputError(f"--set {text!r}: NAME=VALUE is wanted, such as --set C=30.")
    words = {"none": None, "true": True, "false": False}
    from dmmc.app.parameter_tables import takes_word  # estimators take a while to import

    if value.lower() == "none" and takes_word(name, "none"):
        return name, "none"
    if value.lower() in words:
        return name, words[value.lower()]
    for kind in (int, float):
        try:
            return name, kind(value)
        except ValueError:
            pass
    return name, value


def parse_shape(text: str | None) -> tuple[int, ...] | None:
    """The shape of an image from HEIGHTxWIDTH or HEIGHTxWIDTHxCHANNELS."""
    if text is None:
        return None
    if not re.fullmatch(r"[1-9][0-9]{0,5}(x[1-9][0-9]{0,5}){1,2}", text.lower()):
        raise InputError(f"--image-shape {text!r}: HEIGHTxWIDTH is wanted, such as 28x28 (or 32x32x3).")
    return tuple(int(part) for part in text.lower().split("x"))


def add_memory_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option that says how much memory it may take."""
    words = "without a cluster, what the process may take in all, e.g. 1GB; half of what is free if left out"
    return click.option("--memory", metavar="SIZE", help=words)(function)


def add_cluster_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where to compute."""
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


def add_storage_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of object stores."""
    return click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, option, texts: parse_storage_options(texts),
        help="of a URL (s3://...): an endpoint, a key; repeatable, a.b=VALUE goes into a",
    )(function)


def parse_storage_options(texts: Sequence[str]) -> dict[str, Any] | None:
    """Options of a file system from NAME=VALUE: true, false, or text, which is never shown; None where none are."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        *outer, last = name.split(".")
        if not equals or not all((*outer, last)):
            raise InputError("--storage-option: NAME=VALUE is wanted, such as --storage-option anon=true.")
        inner = found
        for part in outer:
            inner = inner.setdefault(part, {})
            if not isinstance(inner, dict):
                raise InputError(f"--storage-option {name}: {part} has a value of its own.")
        inner[last] = {"true": True, "false": False}.get(value.lower(), value)
    return found or None


def hide_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command without what may be secret: values of storage options, and what is so in URLs."""
    shown: list[str] = []
    for text in arguments:
        if shown and shown[-1] == "--storage-option":
            shown.append(f"{text.partition('=')[0]}=...")
        elif text.startswith("--storage-option="):
            shown.append("=".join([*text.split("=")[:2], "..."]))
        else:
            shown.append(hide_in_urls(text))
    return shown


def add_table_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of tables."""
    options = (
        click.option("--id", metavar="COLUMN", help="of a table: the column that names the rows; found if left out"),
        click.option("--columns", metavar="A,B", type=NAMES, help="of a table: the columns to use"),
        click.option("--drop", metavar="C,D", type=NAMES, help="of a table: columns to leave out"),
        click.option(
            "--missing",
            type=click.Choice(["median", "drop", "refuse"]),
            help="of a table: fill missing cells (median; the default), leave out their rows, or refuse them",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def read_cluster(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a cluster out of a command's, as `dmmc.fit` wants them."""
    tls = {name: options.pop(f"tls_{name}") for name in ("ca", "cert", "key")}
    files = {name: path for name, path in tls.items() if path is not None}
    if files and len(files) < 3:
        raise InputError(f"--tls-{next(iter(files))} was given; --tls-ca, --tls-cert and --tls-key go together.")
    return {"scheduler": options.pop("scheduler"), "workers": options.pop("workers"), "security": files or None}


def join_paths(source: str, views: Sequence[str]) -> str | list[str]:
    """What to cluster: one path, or those of several views."""
    return [source, *views] if views else source
