"""Options of the command line that take some reading: NAME=VALUE, shapes, where to compute."""

import re
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import click

from dmmc.errors import InputError, refuse_url


class LocalPath(click.Path):
    """A path on this machine; a URL is refused as it was given."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Make a Path of the text."""
        refuse_url(value)
        return super().convert(value, param, ctx)


FILE = LocalPath(path_type=Path)

OPTIONS = {"n_clusters": "-k", "random_state": "--random-state", "n_jobs": "--n-jobs", "max_seconds": "--max-seconds"}
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


def read_cluster(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of a cluster out of a command's, as `dmmc.fit` wants them."""
    tls = {name: options.pop(f"tls_{name}") for name in ("ca", "cert", "key")}
    files = {name: path for name, path in tls.items() if path is not None}
    if files and len(files) < 3:
        raise InputError(f"--tls-{next(iter(files))} was given; --tls-ca, --tls-cert and --tls-key go together.")
    return {"scheduler": options.pop("scheduler"), "workers": options.pop("workers"), "security": files or None}
