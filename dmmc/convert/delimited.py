"""csv files: comma, semicolon or tab; with or without a header; with or without row ids."""

from __future__ import annotations

import csv
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.convert import digits
from dmmc.convert.reading import Bytes, Lines, Piece, Reader, decoded, text_blocks
from dmmc.errors import InputError
from dmmc.machine import count_cores

SEPARATORS = (b"\t", b";", b",")

QUOTED = re.compile(rb'(?:(?:"[^"\n]*"|[^"\n]*)\n)*(?:"[^"\n]*"|[^"\n]*)')
"""Lines that are in quotes or have none."""


class Layout(NamedTuple):
    """How the lines of a csv file are to be read."""

    name: str
    separator: bytes
    header: list[str] | None
    has_ids: bool
    n_cells: int
    like: int
    """The line that says how many cells there are."""

    @property
    def n_numbers(self) -> int:
        """Cells of a line without its row id."""
        return self.n_cells - self.has_ids


class Csv(Reader):
    """A csv file, parsed in blocks of lines on a few threads.

    The numbers of a block are as small as they can be: see `dmmc.convert.digits.smallest`.
    """

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._source = Bytes(path)
        self._blocks = text_blocks(self._source)
        head = self._head()
        self._layout, body = _layout(head, self.name)
        self._blocks = chain([body] if body.text else [], self._blocks)
        layout = self._layout
        self.has_ids = layout.has_ids
        self.n_features = layout.n_numbers
        if layout.header is not None:
            self.feature_names = layout.header[-layout.n_numbers :]

    def _head(self) -> Lines:
        """The first lines that are not empty, two of them if there are two."""
        text, first = b"", 1
        for block in self._blocks:
            # empty lines at the beginning are dropped but counted
            whole = text + block.text
            text = whole.lstrip(b"\r\n")
            first += whole[: len(whole) - len(text)].count(b"\n")
            if text.rstrip().count(b"\n"):
                break
        if not text.strip():
            raise InputError(f"{self.name} is empty: a csv file with rows of numbers is wanted.")
        return Lines(text, first)

    def pieces(self) -> Iterator[Piece]:
        """All rows, block by block."""
        workers = min(4, count_cores())
        waiting: deque[Future[Piece]] = deque()
        with ThreadPoolExecutor(workers, "dmmc-csv") as pool:
            try:
                for block in self._blocks:
                    waiting.append(pool.submit(parse, block, self._layout))
                    if len(waiting) > workers:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()

    def fraction(self) -> float:
        """How much of the file has been read."""
        return self._source.fraction()

    def close(self) -> None:
        """Close the file."""
        self._source.close()


# ---------------------------------------------------------------------------------- what kind of csv file it is


def _layout(head: Lines, name: str) -> tuple[Layout, Lines]:
    """Look at the first two lines; gives how to read the file, and what follows the header."""
    ends = [place for place in (head.text.find(b"\n") + 1,) if place]
    line = head.first
    first_text = head.text[: ends[0]]
    rest = head.text[len(first_text) :]
    after = rest.lstrip(b"\r\n")
    second_line = line + 1 + rest[: len(rest) - len(after)].count(b"\n")
    second_text = after[: after.find(b"\n") + 1]
    separator = _separator(first_text, second_text)
    first = split_line(first_text, separator, name, line)
    second = split_line(second_text, separator, name, second_line) if second_text else None

    header = _is_header(first, second, name, line)
    if not header:
        ids = digits.number(first[0]) is None
        return _checked(Layout(name, separator, None, ids, len(first), line)), head
    if second is None:
        raise InputError(f"{name} has a header but no rows: nothing to convert.")
    if len(second) == len(first) + 1:
        # as R writes it: no name above the row names
        return _checked(Layout(name, separator, first, True, len(second), second_line)), Lines(after, second_line)
    # an index without a name, as pandas writes it, is no feature even if it is a number
    ids = first[0].strip() == "" or digits.number(second[0]) is None
    layout = Layout(name, separator, first, ids and len(first) > 1, len(first), line)
    return _checked(layout), Lines(after, second_line)


def _checked(layout: Layout) -> Layout:
    if layout.n_numbers == 0:
        raise InputError(
            f"{layout.name} has a single column, and line {layout.like} holds text in it: numbers are wanted "
            "(columns are separated by comma, semicolon or tab)."
        )
    return layout


def _separator(first: bytes, second: bytes) -> bytes:
    """The separator that both lines have; of several, tab before semicolon before comma."""
    for separator in SEPARATORS:
        if separator in first and (separator in second or not second):
            return separator
    return b","


def _is_header(first: list[str], second: list[str] | None, name: str, line: int) -> bool:
    texts = [digits.number(cell) is None for cell in first]
    counted = first[1:] == [str(i) for i in range(len(first) - 1)]
    if any(texts[1:]):
        return True
    if not texts[0]:
        # pandas numbers the columns of a frame without names, after an empty cell above the index
        return counted and first[0].strip() == "" and len(first) > 1
    if len(first) == 1 or counted:
        return True
    if second is not None and digits.number(second[0]) is not None:
        raise InputError(
            f"{name}, line {line}, column 1 holds {first[0]!r} where the next line has a number: "
            "is it a header, or a text among numbers?"
        )
    return False


# ------------------------------------------------------------------------------------------------- one block


def parse(block: Lines, layout: Layout) -> Piece:
    """Rows of a block of lines: quickly, or if anything is unusual line by line."""
    text = block.text.replace(b"\r\n", b"\n")
    quick = _quick(text, layout)
    if quick is None:
        values, ids = _careful(block, layout)
    else:
        values, ids = quick
    return Piece(digits.smallest(values), ids)


def _quick(text: bytes, layout: Layout) -> tuple[NDArray[Any], list[str] | None] | None:
    """Numbers and ids of a block of simple lines, None if they are not."""
    ids = None
    if layout.has_ids:
        split = _ids_split(text, layout.separator)
        if split is None:
            return None
        ids, text = split
    if b'"' in text:
        # quotes around numbers, and nowhere else
        edge = re.escape(layout.separator)
        if b'""' in text or re.search(rb'[^\n%b]"[^\n%b]' % (edge, edge), text):
            return None
        text = text.replace(b'"', b"")
    width = layout.n_numbers
    if not _has_shape(text, layout.separator, width):
        return None
    lines = text.replace(layout.separator, b"\n")
    values = digits.one_a_line(lines, blank=True)
    if values is None or len(values) % width:
        return None
    if digits.needs_whole_numbers(values):
        exact = digits.whole_numbers(lines.split(b"\n")[:-1])
        return (values if exact is None else exact).reshape(-1, width), ids
    return values.reshape(-1, width), ids


def _ids_split(text: bytes, separator: bytes) -> tuple[list[str], bytes] | None:
    """Row ids, and the lines without them."""
    parts = [line.partition(separator) for line in text.split(b"\n")[:-1]]
    ids = b"\n".join([before for before, _, _ in parts])
    if b'"' in ids:
        # quotes around ids, and nowhere else
        if not QUOTED.fullmatch(ids):
            return None
        ids = ids.replace(b'"', b"")
    try:
        names = ids.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None
    return names, b"\n".join([after for _, _, after in parts]) + b"\n"


def _has_shape(text: bytes, separator: bytes, width: int) -> bool:
    """Whether each line has `width` cells, and none is empty."""
    letters = np.frombuffer(text, np.uint8)
    newline = letters == ord("\n")
    if width == 1:
        # an empty line is no row, whatever it means among cells
        return separator not in text and not (newline[1:] & newline[:-1]).any() and not newline[:1].any()
    ends = np.flatnonzero(newline | (letters == ord(separator)))
    lines = int(np.count_nonzero(newline))
    return len(ends) == lines * width and bool(newline[ends[width - 1 :: width]].all())


def _careful(block: Lines, layout: Layout) -> tuple[NDArray[Any], list[str] | None]:
    """Numbers and ids line by line; whatever is wrong is named by line and column."""
    rows: list[list[float]] = []
    texts: list[str] = []
    ids: list[str] = []
    for line, raw in enumerate(block.text.split(b"\n")[:-1], block.first):
        if not raw.strip(b"\r"):
            continue
        cells = split_line(raw, layout.separator, layout.name, line)
        if len(cells) != layout.n_cells:
            raise InputError(
                f"{layout.name}, line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}: "
                f"{layout.n_cells} are wanted, as in line {layout.like}."
            )
        if layout.has_ids:
            ids.append(cells.pop(0))
        row = [digits.number(cell) for cell in cells]
        if None in row:
            raise _text_among_numbers(cells, row.index(None), line, layout)
        rows.append(row)  # type: ignore[arg-type]
        texts.extend(cells)
    values = np.array(rows, np.float64).reshape(-1, layout.n_numbers)
    if digits.needs_whole_numbers(values):
        exact = digits.whole_numbers([text.encode() for text in texts])
        if exact is not None:
            return exact.reshape(values.shape), ids if layout.has_ids else None
    return values, ids if layout.has_ids else None


def _text_among_numbers(cells: list[str], place: int, line: int, layout: Layout) -> InputError:
    column = place + layout.has_ids
    called = ""
    if layout.header is not None:
        called = f" ({layout.header[place - layout.n_numbers]!r})"
    return InputError(
        f"{layout.name}, line {line}, column {column + 1}{called} holds {_short(cells[place])}: a number is wanted."
    )


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= 40 else cell[:37] + "...")


def split_line(raw: bytes, separator: bytes, name: str, line: int) -> list[str]:
    """Cells of one line."""
    text = decoded(raw, name, line).rstrip("\r\n")
    try:
        # an empty line has no cells to csv, and one empty cell to us
        return next(csv.reader([text], delimiter=separator.decode(), strict=True), [""]) or [""]
    except csv.Error as error:
        raise InputError(
            f"{name}, line {line} cannot be split into cells ({error}): cells of several lines are not read."
        ) from error
