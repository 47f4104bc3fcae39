"""Columns of a matrix that was made of a table, in the table's own units: years, money, dates, shares."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array

PRESENT = ("boolean", "category")
"""Kinds of columns that are 1 in rows that have something, and 0 in others: their mean is a share."""
ROUNDING = 1e-12
"""What is left of a mean of 0, as numbers are not exact."""
WHOLE = 1e-6
"""A number that is nearer to 0 or 1 is one of them."""


class Units(NamedTuple):
    """How numbers of the matrix become those of the table: times `scale`, plus `shift`."""

    kinds: Sequence[str]
    """(d,) "number", "boolean", "date" (days since 1970) or "category"."""
    shift: Array
    """(d,)"""
    scale: Array
    """(d,)"""

    def restore(self, values: Array) -> Array:
        """The numbers (..., d) of the table that belong to numbers of the matrix."""
        return np.asarray(values * self.scale + self.shift)


def tell_mean(number: float, kind: str) -> float | str:
    """A mean of a column as people write it: of dates, the day."""
    return tell_date(number) if kind == "date" else 0.0 if abs(number) < ROUNDING else number


def tell_date(days: float) -> str:
    """The day so many days after 1970 began, as 2024-02-29; nothing for no number, or outside of the calendar."""
    if not abs(days) < 3_000_000:
        return ""
    return str(np.datetime64(round(days), "D"))


def tell_cell(number: Any, kind: str) -> float | str:
    """A cell of a row as people write it: a day; yes or no; a number."""
    if kind == "date":
        return tell_date(number)
    if kind in PRESENT and min(abs(number), abs(number - 1.0)) < WHOLE:
        return "yes" if number > 0.5 else "no"
    return float(number)
