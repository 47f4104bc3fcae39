"""Text to numbers, quickly where all is well and carefully where it is not, with the same result.

pyarrow's parser is used where it is installed: given one number a line, whatever the columns, it needs no time
for columns. Without it Python's own `float` does the same at a fraction of the speed. Both round correctly.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(("", "NA", "N/A", "NaN", "nan", "null", "NULL"))
"""Cells that say that there is no number."""

EXACT = 2.0**53
"""Whole numbers below this are the same as float64."""


@cache
def arrow_csv() -> Any | None:
    """The module `pyarrow.csv`, or None where pyarrow is not installed."""
    try:
        return import_module("pyarrow.csv")
    except ImportError:
        return None


def one_a_line(text: bytes, *, blank: bool) -> NDArray[np.float64] | None:
    """Numbers of a text with one on each line, or None if there is anything else or nothing.

    Parameters
    ----------
    text : bytes
        Ends in a newline.
    blank : bool
        Whether an empty line is a missing number; otherwise it is skipped.

    Returns
    -------
    ndarray of float64, or None
        NaN where a number is missing.
    """
    if not (text if blank else text.strip()):
        return np.empty(0)
    if b"\r" in text or b'"' in text or b"," in text:
        return None
    csv = arrow_csv()
    values = None if csv is None else _by_arrow(csv, text, blank)
    # Python knows some more ways to write a number, such as +1
    return _by_python(text, blank) if values is None else values


def _by_arrow(csv: Any, text: bytes, blank: bool) -> NDArray[np.float64] | None:
    arrow = import_module("pyarrow")
    try:
        table = csv.read_csv(
            arrow.BufferReader(text),
            # the whole text as one block, on this thread: blocks are parsed side by side
            read_options=csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=["number"]),
            parse_options=csv.ParseOptions(quote_char=False, ignore_empty_lines=not blank),
            convert_options=csv.ConvertOptions(column_types={"number": arrow.float64()}, null_values=list(MISSING)),
        )
    except arrow.ArrowInvalid:
        return None
    values: NDArray[np.float64] = table.column(0).to_numpy()
    return values


def _by_python(text: bytes, blank: bool) -> NDArray[np.float64] | None:
    if b"_" in text:  # 1_000 is a number to Python only
        return None
    if blank:
        # twice, as a pair of newlines may begin with the end of the one before
        text = b"\n" + text
        text = text.replace(b"\n\n", b"\nnan\n").replace(b"\n\n", b"\nnan\n")[1:]
        cells = text.split(b"\n")[:-1]
    else:
        cells = text.split()
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None


def number(cell: str) -> float | None:
    """The number in one cell, NaN for a missing one, None for a text."""
    cell = cell.strip()
    if cell in MISSING:
        return float("nan")
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def whole_numbers(cells: list[bytes]) -> NDArray[np.int64] | None:
    """The cells as int64, or None if one of them is not such a number."""
    try:
        return np.array(list(map(int, cells)), dtype=np.int64)
    except (ValueError, OverflowError):
        return None


def needs_whole_numbers(values: NDArray[np.float64]) -> bool:
    """Whether all are whole but some so large that float64 may have rounded them."""
    return bool(len(values)) and is_whole(values) and bool(np.abs(values).max() >= EXACT)


def is_whole(values: NDArray[Any]) -> bool:
    """Whether all numbers are finite and without a fraction."""
    if values.dtype.kind in "iu":
        return True
    flat = values.reshape(-1)
    # most data with fractions show them at once
    for part in (flat[:1000], flat):
        with np.errstate(invalid="ignore"):
            if not ((np.rint(part) == part) & np.isfinite(part)).all():
                return False
    return True


def smallest(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers in the smallest of uint8, uint16, int32, int64 and float64 that holds them all without loss."""
    if values.size == 0 or not is_whole(values):
        return values
    low, high = values.min(), values.max()
    if values.dtype.kind == "f" and (low <= -EXACT or high >= EXACT):
        return values
    for dtype in (np.uint8, np.uint16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.int64, copy=False)
