"""Parquet files as one table, read in parts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from pyarrow import types

from dmmc.convert.parquet import DAMAGE
from dmmc.convert.reading import name_damage
from dmmc.errors import InputError
from dmmc.tables.rows import TableRows, count_rows, find_index, refuse_twins, simplify


class ParquetTable(TableRows):
    """Files with the same columns, one after the other."""

    def __init__(self, name: str, paths: Sequence[Path]) -> None:
        self.name, self.paths = name, list(paths)
        self.schema = _read_schema(self.paths[0])
        self.names, self.index = list(self.schema.names), find_index(self.schema, self.paths[0].name)
        refuse_twins(self.names, self.paths[0].name)
        self._joined = simplify(self.schema.empty_table()).schema
        self._clashes: dict[str, str] = {}
        """Of columns whose types do not go together: in which files, in words."""
        for path in self.paths[1:]:
            schema = _read_schema(path)
            names = schema.names
            for lacks, has, some, others in (
                (path, self.paths[0], names, self.names),
                (self.paths[0], path, self.names, names),
            ):
                column = next((column for column in others if column not in some), None)
                if column is not None:
                    raise InputError(f"{lacks.name} lacks the column {column!r}, which {has.name} has.")
            refuse_twins(names, path.name)
            self._join_types(path, simplify(schema.empty_table()).schema)

    def _join_types(self, path: Path, schema: Any) -> None:
        """Note the columns of a file whose types do not go with those of the files before it."""
        for at, known in enumerate(self._joined):
            other = schema.field(known.name)
            if other.type == known.type:
                continue
            try:
                both = pyarrow.unify_schemas(
                    [pyarrow.schema([known.remove_metadata()]), pyarrow.schema([other.remove_metadata()])],
                    promote_options="permissive",
                )
            except pyarrow.ArrowException:
                first = next(one for one in self.paths if self._holds(one, known))
                told = f"{known.type} in {first.name} and {other.type} in {path.name}"
                self._clashes.setdefault(known.name, told)
            else:
                self._joined = self._joined.set(at, both.field(0))

    def _holds(self, path: Path, field: Any) -> bool:
        """Whether a column of a file has a value, of which its type is one."""
        found = simplify(_read_schema(path).empty_table()).schema.field(field.name).type
        return types.is_null(field.type) or not types.is_null(found)

    def read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Batches of rows, file after file."""
        size = count_rows(len(self.names))
        clash = next((name for name in columns if name in self._clashes), None)
        if clash is not None:
            raise InputError(
                f"column {clash!r} holds {self._clashes[clash]}: one kind is wanted, or leave the column out (--drop, "
                "drop=)."
            )
        for path in self.paths:
            with name_damage(path.name, *DAMAGE), _open(path) as file:
                for batch in file.iter_batches(batch_size=size, columns=list(columns), use_threads=False):
                    yield simplify(pyarrow.Table.from_batches([batch]).select(list(columns)))

    def place(self, row: int) -> str:
        """File and row."""
        for path in self.paths:
            with _open(path) as file:
                count = file.metadata.num_rows
            if row < count:
                return f"row {row} (from 0) of {path.name}"
            row -= count
        return f"row {row} (from 0)"


def _open(path: Path) -> Any:
    # without buffering ahead, whole row groups are never in memory
    return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18)


def _read_schema(path: Path) -> Any:
    with name_damage(path.name, *DAMAGE), _open(path) as file:
        return file.schema_arrow
