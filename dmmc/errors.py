"""What dmmc says when it cannot do what was asked, or only almost."""

import os
import sys
import warnings


class InputError(ValueError):
    """Bad input, in one sentence: what was given, what is wanted, and where."""


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be read as numbers."""


class ClusterLost(RuntimeError):  # noqa: N818 - what happened, not what was wrong
    """The cluster can no longer, or not at all, do the work; what was done so far can be resumed."""


class OutOfTime(RuntimeError):  # noqa: N818 - what happened, not what was wrong
    """`max_seconds` ended before there was anything to end with."""


class ClusteringWarning(UserWarning):
    """The result stands, but the user should know how it came about."""


class ConvergenceWarning(ClusteringWarning):
    """A limit ended the search before its gap was closed; the best iterate was kept."""


def needs(what: str, *packages: str) -> str:
    """The sentence about packages that are not installed; dmmc is on no index, so they are named, not its extras."""
    return f"{what} needs {' and '.join(packages)}; install with: pip install {' '.join(packages)}."


def refuse_url(path: str | os.PathLike[str]) -> None:
    """Refuse a URL where a path is wanted, before anything makes a path of it."""
    if "://" in os.fspath(path):
        raise InputError(f"{path} is a URL, and those are not yet read or written: a path on this machine is wanted.")


def warn(message: str, category: type[ClusteringWarning]) -> None:
    """Warn at the line of the user's that led here: the nearest one outside of dmmc and scikit-learn."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("dmmc", "sklearn"):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
