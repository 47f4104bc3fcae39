"""csv files: comma, semicolon or tab; with or without a header; with or without row ids. Parsed by pyarrow."""

import csv
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow
import pyarrow.csv
from numpy.typing import NDArray

from dmmc.convert.reading import Bytes, Piece, Reader
from dmmc.convert.text import Lines, decode_line, may_be_rounded, parse_number, read_blocks, shrink
from dmmc.data.readers.missing_words import MISSING
from dmmc.errors import InputError
from dmmc.machine import MIB, count_cores

SEPARATORS = "\t;,"
Parsed = TypeVar("Parsed")

COLUMN_BYTES = 512
"""Bytes of a block for each column, as pyarrow takes some time for a column whatever its rows; up to `MOST_BYTES`."""
MOST_BYTES = 16 * MIB


class NoNumber(InputError):  # noqa: N818 - what a cell is not
    """A cell of a csv of numbers holds something else."""


class Layout(NamedTuple):
    """How the lines of a csv file are to be read."""

    name: str
    separator: str
    header: list[str] | None
    has_ids: bool
    n_cells: int
    like: int  # the line that says how many cells there are
    skipped: int  # lines up to the header, that one included

    @property
    def n_numbers(self) -> int:
        """Cells of a line without its row id."""
        return self.n_cells - self.has_ids


class Csv(Reader):
    """A csv file, parsed in blocks of lines on a few threads, each block to the smallest dtype that holds it."""

    def _open(self) -> None:
        self._layout = layout = find_layout(self.path)
        self.has_ids = layout.has_ids
        self.n_features = layout.n_numbers
        if layout.header is not None:
            self.feature_names = layout.header[-layout.n_numbers :]

    def pieces(self) -> Iterator[Piece]:
        """Read all rows, block by block, a few blocks ahead."""
        return parse_ahead(self._blocks(), lambda block: parse_block(block, self._layout))

    def _blocks(self) -> Iterator[Lines]:
        """Read the blocks of lines after the header."""
        for block in read_blocks(self.open_bytes(), min(MOST_BYTES, COLUMN_BYTES * self._layout.n_cells)):
            skip = self._layout.skipped + 1 - block.first
            if skip > 0:
                block = Lines(b"".join(block.text.split(b"\n", skip)[skip:]), block.first + skip)
            if block.text:
                yield block


def parse_ahead(blocks: Iterable[Any], parse: Callable[[Any], Parsed]) -> Iterator[Parsed]:
    """What `parse` makes of each block, in order, on a few threads and a few blocks ahead."""
    workers = min(4, count_cores())
    waiting: deque[Future[Parsed]] = deque()
    with ThreadPoolExecutor(workers, "dmmc-csv") as pool:
        try:
            for block in blocks:
                waiting.append(pool.submit(parse, block))
                if len(waiting) > workers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def find_layout(path: Path) -> Layout:
    """Find out from the first two lines how a file is to be read."""
    name, lines = path.name, read_first_lines(path)
    if not any(raw.strip() for _, raw in lines):
        raise InputError(f"{name} is empty: a csv file with rows of numbers is wanted.")
    texts = [decode_line(raw, name, number) for number, raw in lines]
    separator = find_separator(texts)
    first, *others = (split_line(text, separator, name, number) for text, (number, _) in zip(texts, lines, strict=True))
    second = others[0] if others else None
    line = lines[0][0]

    if not _is_header(first, second, name, line):
        layout = Layout(name, separator, None, parse_number(first[0]) is None, len(first), line, 0)
    elif second is None:
        raise InputError(f"{name} has a header but no rows: nothing to convert.")
    elif len(second) == len(first) + 1:  # as R writes it: no name above the row ids
        layout = Layout(name, separator, first, True, len(second), lines[1][0], line)
    else:
        # an index without a name, as pandas writes it, is no feature even if it is a number
        ids = len(first) > 1 and (first[0].strip() == "" or parse_number(second[0]) is None)
        layout = Layout(name, separator, first, ids, len(first), line, line)
    if layout.n_numbers == 0:
        raise InputError(
            f"{name} has a single column, and line {layout.like} holds text in it: numbers are wanted "
            "(columns are separated by comma, semicolon or tab)."
        )
    return layout


def find_separator(texts: Sequence[str]) -> str:
    """What is between the cells of lines."""
    return next((s for s in SEPARATORS if all(s in text for text in texts)), ",")


def read_first_lines(path: Path) -> list[tuple[int, bytes]]:
    """Read the first two lines that are not empty, each with its number."""
    with closing(Bytes(path)) as source:
        return list(islice((line for block in read_blocks(source) for line in block.numbered()), 2))


def _is_header(first: list[str], second: list[str] | None, name: str, line: int) -> bool:
    texts = [parse_number(cell) is None for cell in first]
    counted = first[1:] == [str(i) for i in range(len(first) - 1)]
    if any(texts[1:]):
        return True
    if not texts[0]:
        # pandas numbers the columns of a frame without names, after an empty cell above the index
        return counted and first[0].strip() == "" and len(first) > 1
    if len(first) == 1 or counted:
        return True
    if second is not None and parse_number(second[0]) is not None:
        raise InputError(
            f"{name}, line {line}, column 1 holds {first[0]!r} where the next line has a number: "
            "is it a header, or a text among numbers?"
        )
    return False


def parse_block(block: Lines, layout: Layout) -> Piece:
    """Rows of a block of lines: by pyarrow, or if anything is unusual line by line."""
    values, ids = _parse_with_pyarrow(block.text, layout) or _parse_lines(block, layout)
    return Piece(shrink(values), ids)


def _parse_with_pyarrow(text: bytes, layout: Layout) -> tuple[NDArray[Any], list[str] | None] | None:
    """Numbers and ids of a block; None where there is anything that pyarrow refuses or reads in its own way."""
    text = text.replace(b"\r\n", b"\n")
    quoted = b'"' in text
    edge = re.escape(layout.separator.encode())
    if b"\r" in text or (quoted and re.search(rb'[^\n%b]"[^\n%b]' % (edge, edge), text)):
        return None
    try:
        table = _read_table(text, layout, pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None
    if quoted and table.num_rows != sum(map(bool, text.split(b"\n"))):
        return None  # a cell of several lines
    values = _stack_columns(table, layout)
    if may_be_rounded(values):
        with suppress(pyarrow.ArrowInvalid):  # raised where one has a point or an exponent, or more than 64 bits
            values = _stack_columns(_read_table(text, layout, pyarrow.int64()), layout)
    return values, table.column(0).to_pylist() if layout.has_ids else None


def _read_table(text: bytes, layout: Layout, kind: Any) -> Any:
    names = [str(i) for i in range(layout.n_cells)]
    types = dict.fromkeys(names, kind) | ({"0": pyarrow.string()} if layout.has_ids else {})
    return pyarrow.csv.read_csv(
        pyarrow.py_buffer(text),
        # the whole text as one block, on this thread: blocks are parsed side by side
        read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.separator),
        convert_options=pyarrow.csv.ConvertOptions(column_types=types, null_values=MISSING),
    )


def _stack_columns(table: Any, layout: Layout) -> NDArray[Any]:
    return np.stack([column.to_numpy() for column in table.columns[layout.has_ids :]], axis=1)


def _parse_lines(block: Lines, layout: Layout) -> tuple[NDArray[Any], list[str] | None]:
    """Numbers and ids line by line; whatever is wrong is named by line and column."""
    rows: list[list[float]] = []
    texts: list[str] = []
    ids: list[str] = []
    for line, raw in block.numbered():
        cells = split_line(decode_line(raw, layout.name, line), layout.separator, layout.name, line)
        if len(cells) != layout.n_cells:
            raise InputError(
                f"{layout.name}, line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}: "
                f"{layout.n_cells} are wanted, as in line {layout.like}."
            )
        if layout.has_ids:
            ids.append(cells.pop(0))
        row = [parse_number(cell) for cell in cells]
        if None in row:
            place = row.index(None)
            cell = cells[place] if len(cells[place]) <= 40 else cells[place][:37] + "..."
            called = "" if layout.header is None else f" ({layout.header[place - layout.n_numbers]!r})"
            where = f"{layout.name}, line {line}, column {place + layout.has_ids + 1}{called}"
            raise NoNumber(f"{where} holds {cell!r}: a number is wanted.")
        rows.append(row)  # type: ignore[arg-type]
        texts.extend(cells)
    values: NDArray[Any] = np.array(rows, np.float64).reshape(-1, layout.n_numbers)
    if may_be_rounded(values):
        with suppress(ValueError, OverflowError):  # as above
            values = np.array([int(text) for text in texts], np.int64).reshape(values.shape)
    return values, ids if layout.has_ids else None


def split_line(text: str, separator: str, name: str, line: int) -> list[str]:
    """Split one line into cells."""
    try:
        # an empty line has no cells to csv, and one empty cell to us
        return next(csv.reader([text.rstrip("\r\n")], delimiter=separator, strict=True), [""]) or [""]
    except csv.Error as error:
        problem = f"{name}, line {line} cannot be split into cells ({error}): cells of several lines are not read."
        raise InputError(problem) from error
