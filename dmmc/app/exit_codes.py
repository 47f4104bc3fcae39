"""What a command says at the terminal and how it ends: one sentence for a failure, an exit code, one interrupt.

Exit codes: 0 done; 2 bad usage or bad input; 3 the cluster was lost; 4 the store or disk failed; 5 out of time
before anything was found; 130 interrupted.
"""

import logging
import math
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from dmmc.errors import ClusteringWarning, ClusterLost, InputError, OutOfTime, StoreFailed, hide_in_urls
from dmmc.stores.urls import Remote

PATIENCE = 10.0
"""Seconds in which a second interrupt is taken for the first."""


AGAIN = 0.02
"""Seconds until an interrupt that was dropped is made again."""


class Commands(click.Group):
    """All commands; an interrupt is told here, as click would print an empty line first."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            complain(f"interrupted.{list_notes(interrupt) or ' What was unfinished is removed.'}")
            raise click.exceptions.Exit(130) from None


def run(commands: click.Group, arguments: list[str] | None = None) -> None:
    """Run a command and end the process; every failure is one sentence and an exit code."""
    logging.disable()  # libraries' tales of lost connections: what matters of them is said in a sentence
    interrupt = Interrupt()
    sys.unraisablehook = interrupt.hear_unraisable
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(stop) in (signal.SIG_DFL, signal.default_int_handler):  # under nohup it stays ignored
            signal.signal(stop, interrupt)
    code = find_code(commands, sys.argv[1:] if arguments is None else arguments)
    for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # the work is done or undone: its code stands
        signal.signal(stop, signal.SIG_IGN)
    if code == 130:  # at once, as Python may end itself by a signal after an interrupt, and then the code would be lost
        os._exit(code)
    sys.exit(code)


def find_code(commands: click.Group, arguments: list[str]) -> int:
    """Run a command and give its exit code."""
    try:
        return int(commands.main(arguments, prog_name="dmmc", standalone_mode=False, obj=arguments) or 0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        complain(error.format_message() + hint)
        return 2
    except InputError as error:
        complain(f"{error}{list_notes(error)}")
        return 2
    except ClusterLost as error:
        complain(f"{error}{list_notes(error)}")
        return 3
    except OutOfTime as error:
        complain(f"{error}{list_notes(error)}")
        return 5
    except StoreFailed as error:
        complain(f"{error}{list_notes(error)}")
        return 4
    except MemoryError as error:
        complain(f"there is not enough memory: {error}.{list_notes(error)}")
        return 4
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        complain(f"the disk or store failed: {error.strerror or error}{where}.{list_notes(error)}")
        return 4


def list_notes(error: BaseException) -> str:
    """What was said about going on after it."""
    return "".join(f" {note}" for note in getattr(error, "__notes__", ()))


class Interrupt:
    """Turns signals into one KeyboardInterrupt: who asks again while a checkpoint is being written has to wait."""

    def __init__(self) -> None:
        self._last = -math.inf
        self._tell = sys.unraisablehook

    def __call__(self, number: int, *_: object) -> None:
        """Interrupt, unless that was done a moment ago."""
        now = time.monotonic()
        if now - self._last > PATIENCE:
            self._last, self._number = now, number
            raise KeyboardInterrupt

    def hear_unraisable(self, lost: "sys.UnraisableHookArgs") -> None:
        """As `sys.unraisablehook`: interrupt again where Python dropped it, as in destructors and callbacks."""
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            self._tell(lost)
            return
        self._last, main = -math.inf, threading.main_thread().ident
        assert main is not None
        threading.Timer(AGAIN, signal.pthread_kill, (main, self._number)).start()


def complain(text: str) -> None:
    """One line on stderr, whatever characters the user's names hold."""
    click.echo(f"dmmc: {show_text(hide_in_urls(text))}", err=True)


def show_text(text: str) -> str:
    """One line of text as it can be printed."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


def show_path(path: Path | str | Remote) -> str:
    """A path or URL as it can be printed."""
    return click.format_filename(path) if isinstance(path, Path) else hide_in_urls(str(path))


def show_scores(found: dict[str, float]) -> None:
    """Scores, one a line."""
    for name, value in found.items():
        click.echo(f"{name:14s}{value:.4f}")


@contextmanager
def show_warnings(*, quiet: bool = False) -> Iterator[None]:
    """Tell what a command warns of in a sentence each, when it is done; or nothing of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ClusteringWarning)
        yield
    for warning in () if quiet else caught:
        if issubclass(warning.category, ClusteringWarning):
            complain(f"note: {warning.message}")
        else:
            warnings.showwarning(warning.message, warning.category, warning.filename, warning.lineno)
