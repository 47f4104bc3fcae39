"""parquet files, read with pyarrow where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import (
    PIECE_BYTES,
    Piece,
    Reader,
    damage_named,
    optional,
    removed,
    rows_at_once,
    rows_of_columns,
)
from dmmc.data.readers.numbers import memory_dtype
from dmmc.errors import InputError
from dmmc.machine import MIB

COLUMNS_AT_ONCE = 32
"""Columns of a large row group that are read at once: pyarrow needs some 2.5 MB for each."""

ROW_GROUP_BYTES = 64 * MIB
"""Smaller row groups are read with all their columns."""


class Parquet(Reader):
    """A parquet file: its numeric columns; a single column of text, or an index of pandas, is the row ids.

    Missing numbers are NaN. All columns come out in the one dtype that numpy promotes theirs to.
    """

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._arrow = optional("pyarrow", self.name)
        parquet = optional("pyarrow.parquet", self.name)
        self._damage = (self._arrow.ArrowException, OSError, ValueError, KeyError)
        with damage_named(self.name, *self._damage):
            # without buffering ahead, whole row groups are never in memory
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18)
            self._open()

    def _open(self) -> None:
        schema = self._file.schema_arrow
        self.n_rows = self._file.metadata.num_rows
        self._rows_read = 0
        self._ids, self._columns = self._sorted_out(schema)
        self.has_ids = self._ids is not None
        self.feature_names = [schema.names[column] for column in self._columns]
        self.n_features = len(self._columns)
        self._dtype = np.result_type(*(self._dtype_of(schema.field(column)) for column in self._columns))

    def _sorted_out(self, schema: Any) -> tuple[int | None, list[int]]:
        """Which column holds row ids, and which hold numbers."""
        types = self._arrow.types
        index = [name for name in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
        if len(set(schema.names)) < len(schema.names):
            raise InputError(f"{self.name} has several columns of one name: each needs its own.")
        texts, numbers = [], []
        for place, field in enumerate(schema):
            kind = field.type.value_type if types.is_dictionary(field.type) else field.type
            if field.name in index or types.is_string(kind) or types.is_large_string(kind):
                texts.append(place)
            elif _is_number(types, kind):
                numbers.append(place)
            else:
                raise InputError(
                    f"{self.name}, column {field.name!r} is of type {field.type}: numbers are wanted, and one "
                    "column of text as row ids."
                )
        if len(texts) > 1:
            listed = ", ".join(repr(schema.names[place]) for place in texts)
            raise InputError(f"{self.name} has {len(texts)} columns of text, {listed}: only one, of row ids, may be.")
        if not numbers:
            raise InputError(f"{self.name} has no column of numbers: nothing to convert.")
        return (texts[0] if texts else None), numbers

    def _dtype_of(self, field: Any) -> np.dtype[Any]:
        types = self._arrow.types
        if types.is_decimal(field.type):
            return np.dtype(np.float64)
        kind = field.type.value_type if types.is_dictionary(field.type) else field.type
        return memory_dtype(np.dtype(kind.to_pandas_dtype()), self.name)

    def pieces(self) -> Iterator[Piece]:
        """All rows, one row group after the other."""
        for group in range(self._file.num_row_groups):
            for piece in self._by_columns(group) if self._is_large(group) else self._by_rows(group):
                self._rows_read += len(piece.rows)
                yield piece

    def _batches(self, group: int, columns: list[int], step: int) -> Iterator[Any]:
        names = self._file.schema_arrow.names
        wanted = [names[column] for column in columns]
        with damage_named(self.name, *self._damage):
            batches = self._file.iter_batches(batch_size=step, row_groups=[group], columns=wanted, use_threads=False)
        while True:
            with damage_named(self.name, *self._damage):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _by_rows(self, group: int) -> Iterator[Piece]:
        """Rows of a group, all columns at once: each column of it in use takes some 2.5 MB."""
        names = self._file.schema_arrow.names
        ids = [] if self._ids is None else [self._ids]
        for batch in self._batches(group, ids + self._columns, rows_at_once(8 * self.n_features)):
            columns = [batch.column(names[column]) for column in self._columns]
            missing = any(column.null_count for column in columns)
            rows = np.empty((batch.num_rows, self.n_features), self._dtype_with(missing))
            for j, column in enumerate(columns):
                rows[:, j] = self._numbers(column)
            yield Piece(rows, None if self._ids is None else self._texts(batch.column(names[self._ids])))

    def _is_large(self, group: int) -> bool:
        """Whether a row group has too many columns to read them all at once, and says where numbers are missing."""
        metadata = self._file.metadata.row_group(group)
        return (
            self.n_features > COLUMNS_AT_ONCE
            and metadata.total_byte_size > ROW_GROUP_BYTES
            and self._missing(group) is not None
        )

    def _missing(self, group: int) -> bool | None:
        """Whether a row group has missing numbers, if it says so."""
        metadata = self._file.metadata.row_group(group)
        statistics = [metadata.column(column).statistics for column in self._columns]
        if any(found is None or not found.has_null_count for found in statistics):
            return None
        return any(found.null_count for found in statistics)

    def _by_columns(self, group: int) -> Iterator[Piece]:
        """Rows of a group, by way of a scratch file that is written some columns at a time."""
        path = self.scratch / "columns"
        n_rows = self._file.metadata.row_group(group).num_rows
        dtype = self._dtype_with(bool(self._missing(group)))
        step = max(1, PIECE_BYTES // (8 * COLUMNS_AT_ONCE))
        try:
            with path.open("wb") as file:
                for first in range(0, self.n_features, COLUMNS_AT_ONCE):
                    band = self._columns[first : first + COLUMNS_AT_ONCE]
                    start = 0
                    for batch in self._batches(group, band, step):
                        for j, column in enumerate(batch.columns, first):
                            file.seek((j * n_rows + start) * dtype.itemsize)
                            file.write(np.ascontiguousarray(self._numbers(column), dtype).tobytes())
                        start += batch.num_rows
            ids = iter(self._names(group))
            for rows in rows_of_columns(path, 0, dtype, n_rows, self.n_features):
                yield Piece(rows, None if self._ids is None else list(islice(ids, len(rows))))
        finally:
            removed(path)

    def _names(self, group: int) -> Iterator[str]:
        if self._ids is not None:
            for batch in self._batches(group, [self._ids], 2**16):
                yield from self._texts(batch.column(0))

    def _texts(self, column: Any) -> list[str]:
        with damage_named(self.name, *self._damage):
            return [str(value) for value in column.to_pylist()]

    def _dtype_with(self, missing: bool) -> np.dtype[Any]:
        return np.result_type(self._dtype, np.float64) if missing and self._dtype.kind != "f" else self._dtype

    def _numbers(self, column: Any) -> NDArray[Any]:
        types = self._arrow.types
        if types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if types.is_decimal(column.type):
            column = column.cast(self._arrow.float64())
        if types.is_boolean(column.type):
            column = column.cast(self._arrow.uint8())
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return values

    def fraction(self) -> float:
        """How many of the rows have been read."""
        return float(self._rows_read / max(1, self.n_rows))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _is_number(types: Any, kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))
