"""Tables that are read in parts: what `TablePreparation` learns from and applies to, in memory or in files."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow
from pyarrow import types

from dmmc.errors import InputError
from dmmc.info.row_numbers import list_index_columns
from dmmc.results.label_table import as_text

MOST_ROWS = 65_536
CELLS = 2**22
"""A part has at most so many rows and cells, whatever it is read from: what is learned has the same bits."""


def tell_row(row: int) -> str:
    """Where a row is, in words."""
    return f"row {row} (from 0)"


class TableRows:
    """A table that can be read again and again, part by part.

    name : for messages
    names : of the columns
    index : name of the column that names the rows by its very place (the index of a frame), or None
    """

    name: str
    names: list[str]
    index: str | None = None

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Pyarrow tables of these columns, of any lengths, in order."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        return tell_row(row)

    def parts(self, columns: Sequence[str]) -> Iterator[Any]:
        """Pyarrow tables of these columns, each but the last of the same number of rows."""
        return cut_evenly(self.read(columns), count_rows(len(self.names)))


class TableInMemory(TableRows):
    """A pyarrow table."""

    def __init__(self, table: Any, name: str = "the table", index: str | None = None) -> None:
        self.table, self.name, self.names, self.index = table, name, list(table.column_names), index
        refuse_twins(self.names, name)

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """All rows at once."""
        yield self.table.select(list(columns))


def count_rows(n_columns: int) -> int:
    """Rows of a part."""
    return max(1, min(MOST_ROWS, CELLS // max(1, n_columns)))


def cut_evenly(tables: Iterable[Any], size: int) -> Iterator[Any]:
    """The same rows in tables of `size` rows."""
    held: list[Any] = []
    count = 0
    for table in tables:
        start = 0
        while count + table.num_rows - start >= size:
            stop = start + size - count
            yield _join([*held, table.slice(start, stop - start)])
            held, count, start = [], 0, stop
        if start < table.num_rows:
            held.append(table.slice(start))
            count += table.num_rows - start
    if held:
        yield _join(held)


def _join(tables: list[Any]) -> Any:
    """Tables below each other; those whose columns are of kinds that do not go together are refused."""
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive").combine_chunks()
    except pyarrow.ArrowException as error:
        for name in tables[0].column_names:
            kinds = list(dict.fromkeys(str(table.schema.field(name).type) for table in tables))
            if len(kinds) > 1:
                raise InputError(f"column {name!r} holds {' and '.join(kinds)}: one kind is wanted.") from error
        raise


def to_table(source: Any, *, index: bool = False) -> Any:
    """A pyarrow table of a frame of pandas or polars, of a pyarrow table, or of a dict of columns.

    index : keep the index of a pandas frame as a column, unless it only counts
    """
    try:
        if isinstance(source, dict):
            table = pyarrow.table({name: pyarrow.array(values, from_pandas=True) for name, values in source.items()})
        elif hasattr(source, "dtypes") and hasattr(source, "iloc"):
            named = source.set_axis(
                [as_text(name) if isinstance(name, str) else name for name in source.columns], axis=1
            )
            table = pyarrow.Table.from_pandas(named, preserve_index=None if index else False)
        else:
            table = pyarrow.table(source)
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        said = "; ".join(str(part) for part in error.args) or type(error).__name__
        raise InputError(f"{type(source).__name__} cannot be read as a table: {said}.") from error
    refuse_twins(table.column_names, "the table")
    return simplify(table)


def simplify(table: Any) -> Any:
    """The same table without types that few functions of pyarrow know: views of texts, and dictionaries."""
    for place, field in enumerate(table.schema):
        kind = field.type
        if types.is_string_view(kind):
            table = table.set_column(place, field.name, table.column(place).cast(pyarrow.large_string()))
        elif types.is_dictionary(kind):
            table = table.set_column(place, field.name, table.column(place).cast(kind.value_type))
    return table


def refuse_twins(names: Sequence[str], where: str) -> None:
    """Refuse columns of one name."""
    if len(set(names)) < len(names):
        twin = next(name for name in names if list(names).count(name) > 1)
        raise InputError(f"{where} has several columns of the name {twin!r}: each needs its own.")


def find_index(schema: Any, where: str) -> str | None:
    """The column that is the index of a pandas frame, if there is one."""
    try:
        names = list_index_columns(schema)
    except ValueError as error:
        raise InputError(f"{where} is damaged, as to what pandas has noted of its index ({error}).") from error
    return names[0] if len(names) == 1 else None
