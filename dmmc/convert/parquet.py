"""parquet files, read by pyarrow."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import types

from dmmc.convert.reading import PIECE_BYTES, Piece, Reader, count_rows, name_damage, read_transposed
from dmmc.data.readers.numbers import memory_dtype
from dmmc.errors import InputError
from dmmc.info.row_numbers import list_index_columns
from dmmc.machine import MIB

COLUMNS_AT_ONCE = 32  # of a large row group: pyarrow needs some 2.5 MB for each
ROW_GROUP_BYTES = 64 * MIB  # smaller row groups are read with all their columns
DAMAGE = (pyarrow.ArrowException, OSError, ValueError, KeyError)  # what pyarrow raises over a damaged file


class Parquet(Reader):
    """A parquet file: its numeric columns; a single column of text, or an index of pandas, is the row ids.

    Missing numbers are NaN. All columns come out in the one dtype that numpy promotes theirs to.
    """

    feature_names: list[str]

    def _open(self) -> None:
        with name_damage(self.name, *DAMAGE):
            # without buffering ahead, whole row groups are never in memory
            self._file = self.files.enter_context(
                pyarrow.parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**18)
            )
            schema = self._file.schema_arrow
            self._ids, self.feature_names = self._sort_columns(schema)
            self._dtype = np.result_type(*(self._find_dtype(schema.field(name).type) for name in self.feature_names))
        self.n_rows, self.n_features = self._file.metadata.num_rows, len(self.feature_names)
        self.has_ids = bool(self._ids)

    def _sort_columns(self, schema: Any) -> tuple[list[str], list[str]]:
        """Find the column that holds row ids, if there is one, and those that hold numbers."""
        index = list_index_columns(schema)
        if len(set(schema.names)) < len(schema.names):
            raise InputError(f"{self.name} has several columns of one name: each needs its own.")
        texts, numbers = [], []
        for field in schema:
            kind = _value_type(field.type)
            if field.name in index or types.is_string(kind) or types.is_large_string(kind):
                texts.append(field.name)
            elif types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
                numbers.append(field.name)
            else:
                raise InputError(
                    f"{self.name}, column {field.name!r} is of type {field.type}: numbers are wanted, and one "
                    "column of text as row ids."
                )
        if len(texts) > 1:
            listed = ", ".join(map(repr, texts))
            raise InputError(f"{self.name} has {len(texts)} columns of text, {listed}: only one, of row ids, may be.")
        if not numbers:
            raise InputError(f"{self.name} has no column of numbers: nothing to convert.")
        return texts, numbers

    def _find_dtype(self, kind: Any) -> np.dtype[Any]:
        if types.is_decimal(kind):
            return np.dtype(np.float64)
        return memory_dtype(np.dtype(_value_type(kind).to_pandas_dtype()), self.name)

    def pieces(self) -> Iterator[Piece]:
        """Read all rows, one row group after the other."""
        for group in range(self._file.num_row_groups):
            size, missing = self._file.metadata.row_group(group).total_byte_size, self._count_missing(group)
            if self.n_features > COLUMNS_AT_ONCE and size > ROW_GROUP_BYTES and missing is not None:
                yield from self._read_by_columns(group, self._widen(missing))
            else:
                yield from self._read_rows(group)

    def _count_missing(self, group: int) -> int | None:
        """How many numbers of a row group are missing, if it says so."""
        metadata = self._file.metadata.row_group(group)
        places = [self._file.schema_arrow.get_field_index(name) for name in self.feature_names]
        found = [metadata.column(place).statistics for place in places]
        if any(statistics is None or not statistics.has_null_count for statistics in found):
            return None
        return sum(int(statistics.null_count) for statistics in found)

    def _batches(self, group: int, names: list[str], step: int) -> Iterator[Any]:
        with name_damage(self.name, *DAMAGE):
            yield from self._file.iter_batches(batch_size=step, row_groups=[group], columns=names, use_threads=False)

    def _read_rows(self, group: int) -> Iterator[Piece]:
        """Read the rows of a group, all columns at once: each column in use takes some 2.5 MB."""
        for batch in self._batches(group, self._ids + self.feature_names, count_rows(8 * self.n_features)):
            columns = [batch.column(name) for name in self.feature_names]
            dtype = self._widen(sum(column.null_count for column in columns))
            rows = np.empty((batch.num_rows, self.n_features), dtype)
            for j, column in enumerate(columns):
                rows[:, j] = _to_numpy(column)
            yield Piece(rows, self._to_texts(batch.column(self._ids[0])) if self._ids else None)

    def _read_by_columns(self, group: int, dtype: np.dtype[Any]) -> Iterator[Piece]:
        """Read the rows of a group by way of a scratch file that is written some columns at a time."""
        path = self.scratch / "columns"
        n_rows = self._file.metadata.row_group(group).num_rows
        step = max(1, PIECE_BYTES // (8 * COLUMNS_AT_ONCE))
        with path.open("wb") as file:
            for first in range(0, self.n_features, COLUMNS_AT_ONCE):
                start = 0
                for batch in self._batches(group, self.feature_names[first : first + COLUMNS_AT_ONCE], step):
                    for j, column in enumerate(batch.columns, first):
                        file.seek((j * n_rows + start) * dtype.itemsize)
                        file.write(np.ascontiguousarray(_to_numpy(column), dtype).tobytes())
                    start += batch.num_rows
        ids = (name for batch in self._batches(group, self._ids, 2**16) for name in self._to_texts(batch.column(0)))
        for rows in read_transposed(path, 0, dtype, n_rows, self.n_features):
            yield Piece(rows, list(islice(ids, len(rows))) if self._ids else None)

    def _to_texts(self, column: Any) -> list[str]:
        with name_damage(self.name, *DAMAGE):
            return [str(value) for value in column.to_pylist()]

    def _widen(self, missing: int) -> np.dtype[Any]:
        """The dtype of some rows: whole numbers of which some are missing are float64."""
        return np.result_type(self._dtype, np.float64) if missing and self._dtype.kind != "f" else self._dtype


def _value_type(kind: Any) -> Any:
    return kind.value_type if types.is_dictionary(kind) else kind


def _to_numpy(column: Any) -> NDArray[Any]:
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_decimal(column.type):
        column = column.cast(pyarrow.float64())
    if types.is_boolean(column.type):
        column = column.cast(pyarrow.uint8())
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values
