"""Csv files as one table: what each column holds, typed parts of rows, and what is wrong in which line."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.csv
import pyarrow.parquet
from pyarrow import types

from dmmc.convert.csv_files import find_separator, parse_ahead, read_first_lines, split_line
from dmmc.convert.reading import Bytes
from dmmc.convert.text import Lines, decode_line, parse_number, read_blocks
from dmmc.data.readers.missing_words import MISSING
from dmmc.errors import InputError
from dmmc.info.row_numbers import BY_NAME, MAY_NAME
from dmmc.sources import frames
from dmmc.sources.parquet_tables import ParquetTable
from dmmc.tables.rows import TableInMemory, TableRows, refuse_twins
from dmmc.tables.texts import SAMPLE_ROWS, TYPES, is_kind, name_held, simplify_type

INDEX = "row"
"""Name of a first column without one."""


class Layout(NamedTuple):
    """How the lines of a csv table are to be read."""

    name: str
    separator: str
    names: list[str]
    skipped: int
    """Lines up to the header, that one included; 0 where there is none."""


class Block(NamedTuple):
    """Some lines of one file."""

    layout: Layout
    lines: Lines


def find_layout(path: Path) -> Layout:
    """Find out from the first two lines how a file is to be read."""
    name, lines = path.name, read_first_lines(path)
    if not any(raw.strip() for _, raw in lines):
        raise InputError(f"{name} is empty: a csv file with rows is wanted.")
    texts = [decode_line(raw, name, number) for number, raw in lines]
    separator = find_separator(texts)
    first, *rest = (split_line(text, separator, name, number) for text, (number, _) in zip(texts, lines, strict=True))
    if not _is_header(first, rest[0] if rest else None):
        return Layout(name, separator, [f"column {i}" for i in range(1, len(first) + 1)], 0)
    if not rest:
        raise InputError(f"{name} has a header but no rows.")
    names = [cell.strip() for cell in first]
    if len(rest[0]) == len(names) + 1:  # as R writes it: no name above the row ids
        names = ["", *names]
    names = [name or (INDEX if i == 0 else f"column {i + 1}") for i, name in enumerate(names)]
    refuse_twins(names, name)
    return Layout(name, separator, names, lines[0][0])


def _is_header(first: list[str], second: list[str] | None) -> bool:
    """Whether the first line has names: it has texts, and not a number or date wherever the second has one."""
    if second is None:
        return all(_find_kind(cell) == "text" for cell in first)
    if len(second) != len(first):
        return True
    pairs = [(_find_kind(one), _find_kind(other)) for one, other in zip(first, second, strict=True)]
    if all(one in ("text", "nothing") for one, _ in pairs):
        return any(one == "text" for one, _ in pairs)
    counted = first[0].strip() == "" and first[1:] == [str(i) for i in range(len(first) - 1)]
    return counted or any(one == "text" and other not in ("text", "nothing") for one, other in pairs)


def _find_kind(cell: str) -> str:
    cell = cell.strip()
    if cell in MISSING:
        return "nothing"
    if parse_number(cell) is not None:
        return "number"
    if cell.lower() in ("true", "false"):
        return "boolean"
    return "date" if _fits(cell, pyarrow.timestamp("us")) else "text"


def _fits(cell: str, kind: Any) -> bool:
    try:
        pyarrow.array([cell.strip()]).cast(kind)
    except pyarrow.ArrowInvalid:
        return False
    return True


def read_types(path: Path, layout: Layout, columns: Sequence[str]) -> dict[str, Any]:
    """The pyarrow type of each column: of its first rows, or of the first that have a value."""
    found: dict[str, Any] = {}
    for block in _blocks(path, layout):
        lines = block.lines.text.split(b"\n", SAMPLE_ROWS)
        text = block.lines.text if found else b"\n".join([*lines[:SAMPLE_ROWS], b""])
        open_ones = [name for name in columns if name not in found]
        table = _parse(text, layout, {}, open_ones)
        if table is None:
            _refuse(Block(layout, Lines(text, block.lines.first)), {})
        for field in table.schema:
            if not types.is_null(field.type):
                found[field.name] = simplify_type(field.type)
        if len(found) == len(columns):
            break
    return {name: found.get(name, pyarrow.null()) for name in columns}


def may_hold_ids(path: Path, layout: Layout) -> bool:
    """Whether a column of numbers that is called a number, code or key never repeats in the first rows."""
    named = [name for name in layout.names if MAY_NAME.fullmatch(name) is not None]
    block = next(_blocks(path, layout), None) if named else None
    if block is None:
        return False
    lines = block.lines.text.split(b"\n", SAMPLE_ROWS)[:SAMPLE_ROWS]
    table = _parse(b"\n".join([*lines, b""]), layout, dict.fromkeys(named, TYPES["number"]), named)
    return table is not None and frames.may_hold_ids(table)


def read_csv_table(
    name: str,
    paths: Sequence[Path],
    columns: Sequence[str] | None,
    texts: Sequence[str],
    kinds: Mapping[str, str],
    scratch: Path | None,
) -> TableRows:
    """Read csv files as one table.

    columns : those to read; None for all
    texts : columns that are read as they are written, such as ids
    kinds : of columns, where they are known
    scratch : folder for a copy that can be read in parts; None to hold the table in memory
    """
    layouts = [find_layout(path) for path in paths]
    first = layouts[0]
    for layout in layouts[1:]:
        if layout.names != first.names:
            raise InputError(
                f"{layout.name} has the columns {', '.join(map(repr, layout.names))}, and {first.name} has "
                f"{', '.join(map(repr, first.names))}: the same in the same order are wanted."
            )
    used = [name for name in first.names if columns is None or name in columns]
    found = read_types(paths[0], first, used)
    for column in used:
        if column in texts or (column not in kinds and BY_NAME.fullmatch(column) is not None):
            found[column] = pyarrow.string()
        elif column in kinds and not is_kind(found[column], kinds[column]):
            found[column] = TYPES[kinds[column]]
    kept = TypedBlocks(paths, layouts, found)
    if scratch is None:
        tables = list(kept.read())
        return CsvInMemory(pyarrow.concat_tables(tables), name, kept)
    copy = scratch / "table.parquet"
    schema = pyarrow.schema(list(found.items()))
    with pyarrow.parquet.ParquetWriter(copy, schema, use_dictionary=False, compression="lz4") as writer:
        for table in kept.read():
            writer.write_table(table)
    return CsvCopy(copy, name, kept)


class TypedBlocks:
    """The rows of csv files with known types, and where they were."""

    def __init__(self, paths: Sequence[Path], layouts: Sequence[Layout], kinds: Mapping[str, Any]) -> None:
        self.paths, self.layouts, self.kinds = paths, layouts, kinds
        self.starts: list[tuple[int, int, str]] = []
        """Of each block: its first row, the line of that row, and the file."""

    def read(self) -> Iterator[Any]:
        """Tables of the rows of each block."""
        self.starts.clear()
        n_rows = 0
        blocks = (
            block for path, layout in zip(self.paths, self.layouts, strict=True) for block in _blocks(path, layout)
        )
        for block, table in parse_ahead(blocks, lambda block: (block, self._parse(block))):
            self.starts.append((n_rows, block.lines.first, block.layout.name))
            n_rows += table.num_rows
            yield table
        if n_rows == 0:
            raise InputError(f"{self.layouts[0].name} has a header but no rows.")

    def _parse(self, block: Block) -> Any:
        table = _parse(block.lines.text, block.layout, self.kinds, list(self.kinds))
        if table is None:
            _refuse(block, self.kinds)
        return table

    def place(self, row: int) -> str:
        """File and line of a row; where lines are empty, it is a later one."""
        start, line, name = next(found for found in reversed(self.starts) if found[0] <= row)
        return f"line {line + row - start} of {name}"


class CsvInMemory(TableInMemory):
    """A csv table in memory."""

    def __init__(self, table: Any, name: str, kept: TypedBlocks) -> None:
        super().__init__(table, name)
        self._kept, self.names = kept, kept.layouts[0].names

    def place(self, row: int) -> str:
        """File and line."""
        return self._kept.place(row)


class CsvCopy(ParquetTable):
    """A csv table by its copy on disk."""

    def __init__(self, copy: Path, name: str, kept: TypedBlocks) -> None:
        super().__init__(name, [copy])
        self._kept, self.names = kept, kept.layouts[0].names

    def place(self, row: int) -> str:
        """File and line."""
        return self._kept.place(row)


def _blocks(path: Path, layout: Layout) -> Iterator[Block]:
    """Blocks of lines after the header."""
    with closing(Bytes(path)) as source:
        for lines in read_blocks(source):
            skip = layout.skipped + 1 - lines.first
            if skip > 0:
                lines = Lines(b"".join(lines.text.split(b"\n", skip)[skip:]), lines.first + skip)
            if lines.text.strip():
                yield Block(layout, lines)


def _parse(text: bytes, layout: Layout, kinds: Mapping[str, Any], columns: list[str]) -> Any:
    """The table of some lines; None where pyarrow refuses them."""
    text = text.replace(b"\r\n", b"\n")
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.py_buffer(text),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(text) + 1, column_names=layout.names
            ),
            parse_options=pyarrow.csv.ParseOptions(delimiter=layout.separator),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict(kinds), null_values=MISSING, strings_can_be_null=True, include_columns=columns
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    if b'"' in text and table.num_rows != sum(map(bool, text.split(b"\n"))):
        return None  # a cell of several lines
    return table


def _refuse(block: Block, kinds: Mapping[str, Any]) -> None:
    """Say what is wrong with a block that pyarrow did not take, by line and column."""
    layout = block.layout
    for line, raw in block.lines.numbered():
        cells = split_line(decode_line(raw, layout.name, line), layout.separator, layout.name, line)
        if len(cells) != len(layout.names):
            raise InputError(
                f"{layout.name}, line {line} has {len(cells)} cell{'s' * (len(cells) != 1)}: {len(layout.names)} are "
                f"wanted, as in the {'header' if layout.skipped else 'first line'}."
            )
        for name, cell in zip(layout.names, cells, strict=True):
            kind = kinds.get(name, pyarrow.string())
            if cell.strip() in MISSING or types.is_string(kind):
                continue
            good = parse_number(cell) is not None if types.is_floating(kind) else _fits(cell, kind)
            if not good or types.is_null(kind):
                held = f"{name_held(kind)} are wanted, as in other rows"
                wanted = "nothing was before it" if types.is_null(kind) else held
                shown = cell if len(cell) <= 40 else cell[:37] + "..."
                raise InputError(
                    f"{layout.name}, line {line}: column {name!r} holds {shown!r}, where {wanted}; correct the cell, "
                    "or leave the column out of the fit (--drop, drop=)."
                )
    raise InputError(f"{layout.name}, lines from {block.lines.first} on, cannot be read as a table.")
