"""Text files: blocks of whole lines with their numbers, and what is written in a cell."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import Bytes
from dmmc.data.readers.missing_words import MISSING
from dmmc.errors import InputError
from dmmc.machine import MIB

BLOCK_BYTES = 2 * MIB  # text is parsed in blocks of about this size, of which a few are in memory at once
LONGEST_LINE = 64 * MIB
EXACT = 2.0**53  # whole numbers below this are the same as float64


class Lines(NamedTuple):
    """Whole lines of a text file, each ending in a newline; `first` is the number of the first one, from 1."""

    text: bytes
    first: int

    def numbered(self) -> Iterator[tuple[int, bytes]]:
        """Give the lines that are not empty, each with its number in the file."""
        for number, line in enumerate(self.text.split(b"\n"), self.first):
            if line.strip(b"\r"):
                yield number, line


def read_blocks(source: Bytes, block_bytes: int = 0) -> Iterator[Lines]:
    """Read blocks of whole lines; a byte order mark is dropped, other encodings are refused."""
    rest: list[bytes] = []
    held, line = 0, 1
    at_start = True
    while data := source.read(max(block_bytes, BLOCK_BYTES)):
        if at_start:
            if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise InputError(f"{source.name} is UTF-16 text: save it as UTF-8.")
            data, at_start = data.removeprefix(b"\xef\xbb\xbf"), False
        if b"\0" in data:
            raise InputError(f"{source.name} is not text: there are zero bytes near line {line}.")
        end = data.rfind(b"\n") + 1
        if end == 0:
            rest.append(data)
            held += len(data)
            if held > LONGEST_LINE:
                raise InputError(
                    f"{source.name} has a line of more than {LONGEST_LINE // MIB} MiB, line {line}: is it a text file?"
                )
            continue
        text = b"".join([*rest, data[:end]])
        rest, held = [data[end:]], len(data) - end
        yield Lines(text, line)
        line += text.count(b"\n")
    if last := b"".join(rest):
        yield Lines(last + b"\n", line)


def decode_line(line: bytes, name: str, number: int) -> str:
    """Decode a line, which must be UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}, line {number} is not UTF-8 text: save the file as UTF-8.") from error


def parse_number(cell: str) -> float | None:
    """Read the number in one cell: NaN for a missing one, None for a text."""
    cell = cell.strip()
    if cell in MISSING:
        return float("nan")
    if "_" in cell or not cell.isascii():  # 1_000 is a number to Python only
        return None
    try:
        return float(cell)
    except ValueError:
        return None


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


def may_be_rounded(values: NDArray[np.float64]) -> bool:
    """Whether all are whole but some so large that float64 may have rounded them."""
    return values.size > 0 and is_whole(values) and bool(np.abs(values).max() >= EXACT)


def shrink(values: NDArray[Any]) -> NDArray[Any]:
    """Give numbers in the smallest of uint8, uint16, int32, int64 and float64 that holds them all without loss."""
    if values.size == 0 or not is_whole(values):
        return values
    low, high = values.min(), values.max()
    if values.dtype.kind == "f" and (low <= -EXACT or high >= EXACT):
        return values
    for dtype in (np.uint8, np.uint16, np.int32):
        if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
            return values.astype(dtype)
    return values.astype(np.int64, copy=False)
