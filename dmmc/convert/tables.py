"""parquet and h5ad files, read with pyarrow and h5py where they are installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.arrays import check_csr, csr_bands, csr_piece
from dmmc.convert.reading import Piece, Reader, rows_at_once
from dmmc.errors import InputError
from dmmc.sources import as_numbers, check_shape, memory_dtype


def optional(module: str, name: str) -> Any:
    """Import what reads a file, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(
            f"{name} is read with {package}, which is not installed: pip install 'dmmc[convert]'."
        ) from error


class Parquet(Reader):
    """A parquet file: its numeric columns; a single column of text, or an index of pandas, is the row ids.

    Missing numbers are NaN. All columns come out in the one dtype that numpy promotes theirs to.
    """

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._arrow = optional("pyarrow", self.name)
        parquet = optional("pyarrow.parquet", self.name)
        try:
            # without buffering ahead, whole row groups are never in memory
            self._file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**18)
            schema = self._file.schema_arrow
        except self._arrow.ArrowException as error:
            raise InputError(f"{self.name} is not a parquet file that can be read ({error}): get it again.") from error
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
            raise InputError(
                f"{self.name} has {len(texts)} columns that are no numbers, {listed}: one, the row ids, may be."
            )
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
        """All rows."""
        step = rows_at_once(8 * self.n_features)
        names = self._file.schema_arrow.names
        # by name, as columns of text may come anywhere
        wanted = [names[place] for place in ([] if self._ids is None else [self._ids]) + self._columns]
        try:
            for batch in self._file.iter_batches(batch_size=step, columns=wanted, use_threads=False):
                rows = np.empty((batch.num_rows, self.n_features), self._batch_dtype(batch, names))
                for j, place in enumerate(self._columns):
                    rows[:, j] = self._numbers(batch.column(names[place]))
                ids = None if self._ids is None else [str(x) for x in batch.column(names[self._ids]).to_pylist()]
                self._rows_read += len(rows)
                yield Piece(rows, ids)
        except (self._arrow.ArrowException, OSError) as error:
            raise InputError(
                f"{self.name} cannot be read after row {self._rows_read} ({_first_line(error)}): get the file again."
            ) from error

    def _batch_dtype(self, batch: Any, names: list[str]) -> np.dtype[Any]:
        missing = any(batch.column(names[place]).null_count for place in self._columns)
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


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


class H5ad(Reader):
    """An h5ad file of AnnData: its X, or with a key another matrix in it, such as ``layers/counts``."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        h5py = optional("h5py", self.name)
        with ExitStack() as stack:
            try:
                self._file = stack.enter_context(h5py.File(path, "r"))
            except OSError as error:
                raise InputError(
                    f"{self.name} is not an h5ad file that can be read ({error}): get it again."
                ) from error
            self._h5py = h5py
            self._matrix = self._found(key or "X")
            self._open_matrix()
            ids, names = self._index("obs", self.n_rows), self._index("var", self.n_features)
            self.has_ids, self._ids = ids is not None, ids
            self.feature_names = None if names is None else _texts(names[:])
            self._rows_read = 0
            stack.pop_all()

    def _found(self, key: str) -> Any:
        node = self._file.get(key)
        if node is None:
            paths: list[str] = []
            self._file.visititems(lambda path, node: paths.append(path) if self._is_matrix(node) else None)
            listed = ", ".join(repr(path) for path in paths) or "nothing of the kind"
            raise InputError(f"{self.name} holds no matrix {key!r}: choose with key= one of {listed}.")
        if not self._is_matrix(node):
            raise InputError(f"{self.name}: {key!r} is no matrix, a 2-D dataset or a CSR group is wanted.")
        return node

    def _is_matrix(self, node: Any) -> bool:
        if isinstance(node, self._h5py.Dataset):
            return bool(node.ndim == 2)
        return _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", ""))) in (
            "csr_matrix",
            "csc_matrix",
            "csr",
            "csc",
        )

    def _open_matrix(self) -> None:
        node = self._matrix
        self.sparse = not isinstance(node, self._h5py.Dataset)
        where = f"{self.name}{node.name}"
        if self.sparse:
            form = _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "")))
            if form.startswith("csc"):
                raise InputError(f"{where} is stored by columns ({form}): save it again after X = X.tocsr().")
            shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
            if len(shape) != 2 or any(part not in node for part in ("data", "indices", "indptr")):
                raise InputError(f"{where} says it is a csr_matrix but lacks data, indices, indptr or its shape.")
            memory_dtype(node["data"].dtype, where)
        else:
            shape = node.shape
            memory_dtype(node.dtype, where)
        check_shape(tuple(shape), f"{where} of shape {tuple(shape)}")
        self.n_rows, self.n_features = (int(size) for size in shape)

    def _index(self, axis: str, length: int) -> Any | None:
        """Names of rows or columns, as a dataset of strings, if they are there and fit."""
        frame = self._file.get(axis)
        if frame is None:
            return None
        if isinstance(frame, self._h5py.Dataset):
            # files of anndata before 0.7 have one table
            field = next((name for name in ("index", "_index") if name in (frame.dtype.names or ())), None)
            column = None if field is None else frame.fields(field)
        else:
            column = frame.get(_text(frame.attrs.get("_index", "_index")))
            if isinstance(column, self._h5py.Group):
                column = column.get("values")  # strings of which some may be missing
        return column if column is not None and len(column) == length else None

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        for first, last, piece in self._sparse() if self.sparse else self._dense():
            self._rows_read = last
            yield piece if self._ids is None else piece._replace(ids=_texts(self._ids[first:last]))

    def _dense(self) -> Iterator[tuple[int, int, Piece]]:
        node = self._matrix
        step = rows_at_once(self.n_features * node.dtype.itemsize)
        if node.chunks is not None:
            # whole chunks, as each is decoded whenever a part of it is read
            step = max(1, step // node.chunks[0]) * node.chunks[0]
        for first in range(0, self.n_rows, step):
            last = min(first + step, self.n_rows)
            yield first, last, Piece(as_numbers(self._read(node, first, last), self.name))

    def _sparse(self) -> Iterator[tuple[int, int, Piece]]:
        data, columns = self._matrix["data"], self._matrix["indices"]
        indptr = np.asarray(self._matrix["indptr"][:]).astype(np.int64)
        check_csr(indptr, self.n_rows, (data.shape, columns.shape), columns.dtype, self.name)
        for first, last in csr_bands(indptr, data.dtype.itemsize):
            a, b = int(indptr[first]), int(indptr[last])
            values = as_numbers(self._read(data, a, b), self.name)
            places = self._read(columns, a, b)
            yield first, last, csr_piece(values, places, indptr[first : last + 1], self.n_features, first, self.name)

    def _read(self, node: Any, start: int, stop: int) -> NDArray[Any]:
        try:
            return np.asarray(node[start:stop])
        except OSError as error:
            raise InputError(
                f"{self.name}{node.name} is damaged ({_first_line(error)}): get the file again."
            ) from error

    def fraction(self) -> float:
        """How many of the rows have been read."""
        return self._rows_read / self.n_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in values]
