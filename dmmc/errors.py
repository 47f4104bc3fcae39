"""What dmmc says when it cannot do what was asked, or only almost."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input, in one sentence: what was given, what is wanted, and where."""


class InputTypeError(InputError, TypeError):
    """Input of a kind that cannot be read as numbers."""


class ClusteringWarning(UserWarning):
    """The result stands, but the user should know how it came about."""


class ConvergenceWarning(ClusteringWarning):
    """A limit ended the search before its gap was closed; the best iterate was kept."""
