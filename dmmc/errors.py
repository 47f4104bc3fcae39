"""What dmmc says when it cannot do what was asked, or only almost."""

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class InputError(ValueError):
    """Bad input, in one sentence: what was given, what is wanted, and where."""


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be read as numbers."""


class NotFeasible(InputError):  # noqa: N818 - what it is, not what was wrong
    """These rows are too many, or too few, for what was asked; other methods or features may do."""


class ClusterLost(RuntimeError):  # noqa: N818 - what happened, not what was wrong
    """The cluster can no longer, or not at all, do the work; what was done so far can be resumed."""


class StoreFailed(OSError):  # noqa: N818 - what happened, not what was wrong
    """An object store did not give, or take, what it has to, however often it was asked: which object, and why."""


class OutOfTime(RuntimeError):  # noqa: N818 - what happened, not what was wrong
    """`max_seconds` ended before there was anything to end with."""


class ClusteringWarning(UserWarning):
    """The result stands, but the user should know how it came about."""


class ConvergenceWarning(ClusteringWarning):
    """A limit ended the search before its gap was closed; the best iterate was kept."""


def needs(what: str, *packages: str) -> str:
    """The sentence about packages that are not installed; dmmc is on no index, so they are named, not its extras."""
    return f"{what} needs {' and '.join(packages)}; install with: pip install {' '.join(packages)}."


def hide_in_urls(text: str) -> str:
    """A text whose URLs have no user, password or query any more: these may be secret."""
    text = re.sub(r"\b([a-z][a-z0-9+.-]*://)[^\s/@'\"]*:[^\s/'\"]*@", r"\1", text, flags=re.IGNORECASE)
    text = re.sub(r"\b((?:https?|s3)://)[^\s/@'\"]*@", r"\1", text, flags=re.IGNORECASE)
    return re.sub(r"\b([a-z][a-z0-9+.-]*://[^\s?'\"]*)\?[^\s'\"]*", r"\1", text, flags=re.IGNORECASE)


def refuse_url(path: str | os.PathLike[str]) -> None:
    """Refuse a URL where a path is wanted, before anything makes a path of it."""
    if "://" in os.fspath(path):
        raise InputError(f"{hide_in_urls(str(path))} is a URL; a path on this machine is wanted here.")


class Warned(NamedTuple):
    """What was warned of, and the user's line that led there: arguments of `warnings.warn_explicit`."""

    message: str
    category: type[ClusteringWarning]
    filename: str
    lineno: int


_collected: ContextVar[list[Warned] | None] = ContextVar("dmmc_collected_warnings", default=None)


def warn(message: str, category: type[ClusteringWarning]) -> None:
    """Warn at the line of the user's that led here: the nearest one outside of dmmc and scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("dmmc", "sklearn"):
        frame, level = frame.f_back, level + 1
    collected = _collected.get()
    if collected is None:
        warnings.warn(message, category, stacklevel=level)
    else:
        collected.append(Warned(message, category, frame.f_code.co_filename, frame.f_lineno))


@contextmanager
def collect_warnings() -> Iterator[list[Warned]]:
    """Keep what dmmc warns of on this thread, in place of showing it.

    `warnings.catch_warnings` changes the filters of the whole process: of two fits on two threads, one would hear the
    other's warnings, and the last to end would leave the process deaf.
    """
    collected: list[Warned] = []
    token = _collected.set(collected)
    try:
        yield collected
    finally:
        _collected.reset(token)
