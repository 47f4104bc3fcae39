"""Columns of texts, in frames and parquet files, read as a csv file with the same cells would be.

What is no number in a csv is a date, a truth value or a text there; the reader of csv files itself decides it here.
Texts that look like numbers stay texts, as whoever made the frame could have had numbers.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow
import pyarrow.compute
import pyarrow.csv
from pyarrow import types

from dmmc.data.readers.missing_words import MISSING
from dmmc.errors import InputError
from dmmc.info.row_numbers import BY_NAME
from dmmc.tables.rows import TableRows, cut_evenly

SAMPLE_ROWS = 10_000
"""Rows that tell what a column holds; where they have no value, later ones."""
LONGEST = 40
"""Characters of a cell that are told."""
WORDS = {"number": "numbers", "boolean": "truth values", "date": "dates"}
TYPES = {
    "number": pyarrow.float64(),
    "boolean": pyarrow.bool_(),
    "date": pyarrow.timestamp("us"),
    "category": pyarrow.string(),
}


def is_text(kind: Any) -> bool:
    """Whether a type of pyarrow is one of texts."""
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_kind(kind: Any, wanted: str) -> bool:
    """Whether a type of pyarrow, as found in texts, is of a kind of column."""
    if wanted == "date":
        return bool(types.is_timestamp(kind) or types.is_date(kind))
    return bool(kind == TYPES[wanted])


def simplify_type(kind: Any) -> Any:
    """The type that columns have which a csv file gives this one."""
    if types.is_integer(kind):
        return TYPES["number"]
    return TYPES["category"] if types.is_time(kind) or types.is_binary(kind) else kind


def find_type(values: Any) -> Any:
    """The type that a csv file with these texts would have; null where all of them say that nothing is known."""
    return simplify_type(_parse(pyarrow.compute.unique(values), None).type)


def read_texts(values: Any, kind: Any, name: str, tell: Callable[[int, str], str]) -> Any:
    """Texts of a column as a type of pyarrow; `tell` ends the sentence about one that is none, in which row it is."""
    different = pyarrow.compute.unique(values).drop_null()
    parsed = _parse(different, kind)
    if parsed is None:
        first, last = 0, len(different)  # so many of the first are good, so many are not
        while last - first > 1:
            middle = (first + last) // 2
            first, last = (first, middle) if _parse(different[:middle], kind) is None else (middle, last)
        bad = different[first].as_py()
        shown = bad if len(bad) <= LONGEST else bad[: LONGEST - 3] + "..."
        row = pyarrow.compute.index(values, different[first]).as_py()
        raise InputError(f"column {name!r} holds {shown!r} in {tell(row, name_held(kind))}.")
    return parsed.take(pyarrow.compute.index_in(values, value_set=different))


def name_held(kind: Any) -> str:
    """What a column of a type of pyarrow holds, in words."""
    return next((words for name, words in WORDS.items() if is_kind(kind, name)), "texts")


def drop_words(values: Any, known: Sequence[str] = ()) -> Any:
    """Texts without those that say that nothing is known, but for `known` ones."""
    words = pyarrow.array([word for word in MISSING if word not in known], values.type)
    found = pyarrow.compute.is_in(values, value_set=words)
    return pyarrow.compute.if_else(found, pyarrow.scalar(None, values.type), values)


def _parse(texts: Any, kind: Any) -> Any:
    """Cells as a csv file would give them, of a type or of that which fits; None where there is one that does not."""
    texts = texts.cast(pyarrow.string())
    if texts.null_count == len(texts):
        return pyarrow.nulls(len(texts), pyarrow.null() if kind is None else kind)
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="all_valid")
    pyarrow.csv.write_csv(pyarrow.table({"x": pyarrow.compute.fill_null(texts, "")}), sink, options)
    data = sink.getvalue()
    try:
        table = pyarrow.csv.read_csv(
            pyarrow.py_buffer(data),
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=["x"]),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types={} if kind is None else {"x": kind}, null_values=MISSING, strings_can_be_null=True
            ),
        )
    except pyarrow.ArrowInvalid:
        return None
    return table.column("x")


class TypedTexts(TableRows):
    """The same rows, with columns of texts as a csv file would have them: dates, truth values, texts, missing cells.

    as_written : columns that stay texts, such as ids
    """

    def __init__(self, rows: TableRows, as_written: Sequence[str | None] = ()) -> None:
        self.rows, self.name, self.names, self.index = rows, rows.name, rows.names, rows.index
        self._as_written = [rows.index, *as_written]
        self._types: dict[str, Any] = {}

    def place(self, row: int) -> str:
        """As the rows say."""
        return self.rows.place(row)

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Tables as they come, each column of texts as its first rows say."""
        self._find_types([name for name in columns if name not in self._types])
        start = 0
        for table in self.rows.read(columns):
            if any(is_text(field.type) for field in table.schema):
                cells = [self._read(field.name, table.column(at), start) for at, field in enumerate(table.schema)]
                table = pyarrow.table(cells, names=table.column_names)
            start += table.num_rows
            yield table

    def _read(self, name: str, values: Any, start: int) -> Any:
        kind = self._types[name]
        if not is_text(values.type):
            return values
        if is_text(kind):
            return drop_words(values)

        def tell(row: int, held: str) -> str:
            rest = "correct the cell, or leave the column out of the fit (--drop, drop=)"
            return f"{self.place(start + row)}, where {held} are wanted, as in other rows; {rest}"

        return read_texts(values, kind, name, tell)

    def _find_types(self, names: list[str]) -> None:
        """Find out what columns hold: by the first rows, or by the first that have a value."""
        for part in cut_evenly(self.rows.read(names), SAMPLE_ROWS) if names else ():
            for name in names:
                kind = self._find_type(name, part.column(name))
                if not types.is_null(kind):
                    self._types[name] = kind
            names = [name for name in names if name not in self._types]
            if not names:
                return
        self._types |= dict.fromkeys(names, TYPES["category"])

    def _find_type(self, name: str, values: Any) -> Any:
        if not is_text(values.type):
            return values.type
        if name in self._as_written or BY_NAME.fullmatch(name) is not None:
            return TYPES["category"]
        kind = find_type(values)
        return TYPES["category"] if kind == TYPES["number"] else kind
