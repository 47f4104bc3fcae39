"""Where converted rows go: zarr arrays that grow at their end and widen when a number does not fit.

Every chunk is written, also one of zeros, and ends in a checksum: what is lost or damaged later is noticed.
"""

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import Piece, Reader
from dmmc.data.blocks import Csr
from dmmc.data.readers import store_checks
from dmmc.data.readers.zarr_nodes import MADE_UP
from dmmc.errors import InputError
from dmmc.machine import MIB

CHUNK_BYTES = 8 * MIB
LARGEST_CHUNK = 2**31 - 2**16
STRINGS_A_CHUNK = 65_536

ANNDATA = {"encoding-type": "anndata", "encoding-version": "0.1.0"}
ARRAY = {"encoding-type": "array", "encoding-version": "0.2.0"}
CSR = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0"}
STRINGS = {"encoding-type": "string-array", "encoding-version": "0.2.0"}
FRAME = {"encoding-type": "dataframe", "encoding-version": "0.2.0", "_index": "_index"}


class GrowingArray:
    """A zarr array in a scratch folder that grows along its first axis, a whole chunk at a time.

    A chunk has `chunk_rows` rows, by default as many as `CHUNK_BYTES` hold.
    """

    def __init__(self, folder: Path, chunk_rows: int | None = None) -> None:
        self._folder = folder
        self._wanted_rows = chunk_rows
        self._array: Any = None
        self._buffer: NDArray[Any] | None = None
        self._filled = 0

    def __len__(self) -> int:
        return self._filled + (0 if self._array is None else int(self._array.shape[0]))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers so far."""
        return np.dtype(np.uint8) if self._buffer is None else self._buffer.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers so far, in memory."""
        return 0 if self._buffer is None else len(self) * self._buffer[:1].nbytes

    def append(self, values: NDArray[Any]) -> None:
        """Add rows; the dtype widens as numpy promotes, and what is on disk is written again."""
        if len(values) == 0:
            return  # also an empty array has a dtype, and may not widen the others
        if self._buffer is None:
            self._buffer = self._make_buffer(values.dtype, values.shape[1:])
        dtype = np.promote_types(self.dtype, values.dtype)
        if dtype != self.dtype:
            self._widen(dtype)
        while len(values):
            part = values[: len(self._buffer) - self._filled]
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            values = values[len(part) :]
            if self._filled == len(self._buffer):
                self._flush(self._buffer)

    def add_to_all(self, number: int) -> None:
        """Add a whole number to every entry."""
        if self._buffer is not None:
            self._buffer[: self._filled] += number
        for chunk in self._chunks():
            self._array[chunk] = self._array[chunk] + number

    def finish(self, where: Path, attributes: dict[str, Any]) -> int:
        """Write what is left and move the array to its place; gives the rows of a chunk."""
        if self._filled or self._array is None:
            self._flush(np.empty(0, np.uint8) if self._buffer is None else self._buffer)
        self._array.attrs.update(attributes)
        self._folder.rename(where)
        return int(self._array.chunks[0])

    def _chunks(self) -> list[slice]:
        """Rows of each chunk on disk."""
        if self._array is None:
            return []
        rows = self._array.chunks[0]
        return [slice(start, start + rows) for start in range(0, self._array.shape[0], rows)]

    def _make_buffer(self, dtype: np.dtype[Any], width: tuple[int, ...]) -> NDArray[Any]:
        row_bytes = max(1, math.prod(width) * dtype.itemsize)
        rows = self._wanted_rows
        if rows is None:
            rows = STRINGS_A_CHUNK if dtype.kind == "T" else max(1, CHUNK_BYTES // row_bytes)
        if rows * row_bytes > LARGEST_CHUNK:
            raise InputError(
                f"a chunk of {rows} rows of {row_bytes} bytes is too large: {LARGEST_CHUNK} bytes are the most "
                "that the compressor takes."
            )
        return np.empty((rows, *width), dtype)

    def _flush(self, buffer: NDArray[Any]) -> None:
        import zarr
        from zarr.codecs import BloscCodec, Crc32cCodec, ZstdCodec

        if self._array is None:
            text = buffer.dtype.kind == "T"
            packer = ZstdCodec(level=3) if text else BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")
            self._array = zarr.create_array(
                str(self._folder),
                shape=(0, *buffer.shape[1:]),
                # what ends within its first chunk gets a chunk of its own size: zarr would fill up a larger one
                chunks=(max(1, self._filled), *buffer.shape[1:]),
                dtype=buffer.dtype,
                compressors=[packer, Crc32cCodec()],
                config={"write_empty_chunks": True},
                zarr_format=3,
            )
        if self._filled:
            self._array.append(buffer[: self._filled])
        self._filled = 0

    def _widen(self, dtype: np.dtype[Any]) -> None:
        """Begin again with a wider dtype, and copy what there was."""
        assert self._buffer is not None
        wider = GrowingArray(self._folder.with_name(self._folder.name + "+"), self._wanted_rows)
        wider._buffer = wider._make_buffer(dtype, self._buffer.shape[1:])
        for chunk in self._chunks():
            wider.append(self._array[chunk])
        wider.append(self._buffer[: self._filled])
        shutil.rmtree(self._folder, ignore_errors=True)
        self.__dict__.update(wider.__dict__)


class Writer:
    """Takes the pieces of a reader and leaves a store: one array, a CSR group, or an AnnData group around either.

    The arrays are in `scratch` until they are finished; a chunk of a dense matrix has `chunk_rows` rows.
    """

    def __init__(self, reader: Reader, scratch: Path, chunk_rows: int | None) -> None:
        self.reader = reader
        self.n_rows = 0
        self._values = GrowingArray(scratch / "values", None if reader.sparse else chunk_rows)
        self._columns = GrowingArray(scratch / "columns")
        self._indptr = GrowingArray(scratch / "indptr")
        self._ids = GrowingArray(scratch / "ids")
        self._names = GrowingArray(scratch / "names")
        self._labels = GrowingArray(scratch / "labels")
        if reader.sparse:
            self._indptr.append(np.zeros(1, np.int64))

    def add(self, piece: Piece) -> None:
        """Write the next rows."""
        rows = piece.rows
        if isinstance(rows, Csr):
            rows = sort_columns(rows)
            self._indptr.append(rows.indptr[1:] + len(self._values))
            self._values.append(rows.data)
            self._columns.append(rows.indices)
            self.n_rows += rows.n_rows
        else:
            self._values.append(rows)
            self.n_rows += len(rows)
        if piece.ids is not None:
            self._ids.append(_to_strings(piece.ids))
        if piece.labels is not None:
            self._labels.append(piece.labels)

    def finish(self, store: Path) -> dict[str, Any]:
        """Put everything in its place; gives what was written."""
        reader = self.reader
        n_features = reader.n_features
        if self.n_rows == 0 or n_features == 0:
            raise InputError(f"{reader.name} holds no {'rows' if self.n_rows == 0 else 'columns'}: nothing to convert.")
        annotated = reader.feature_names is not None or reader.has_ids or reader.has_labels
        if annotated:
            _create_group(store, ANNDATA)
            self._write_frames(store)
        chunk_rows = self._finish_matrix(store / "X" if annotated else store, n_features)
        _seal(store, annotated)
        size = self._values.nbytes + (self._columns.nbytes + self._indptr.nbytes if reader.sparse else 0)
        return {
            "rows": self.n_rows,
            "columns": n_features,
            "dtype": str(self._values.dtype),
            "sparse": reader.sparse,
            "nnz": len(self._values) if reader.sparse else None,
            "bytes": size,
            "chunk_rows": None if reader.sparse else chunk_rows,
            "feature_names": reader.feature_names is not None,
            "row_ids": reader.has_ids,
            "labels": reader.has_labels,
            "image_shape": None if reader.image_shape is None else list(reader.image_shape),
        }

    def _finish_matrix(self, where: Path, n_features: int) -> int:
        image = self.reader.image_shape
        more: dict[str, Any] = {} if image is None else {"image_shape": list(image)}
        more |= {store_checks.CELLS: True} if self.reader.cells else {}
        if not self.reader.sparse:
            return self._values.finish(where, ARRAY | more)
        if self.reader.shift:
            self._columns.add_to_all(self.reader.shift)
        _create_group(where, CSR | more | {"shape": [self.n_rows, n_features]})
        for part, growing in (("data", self._values), ("indices", self._columns), ("indptr", self._indptr)):
            growing.finish(where / part, ARRAY)
        return 0

    def _write_frames(self, store: Path) -> None:
        """Write obs and var: names of rows and of columns, and the labels of rows."""
        self._names.append(_to_strings(self.reader.feature_names or []))
        labelled = self.reader.has_labels
        _write_frame(store / "obs", self._ids, self.n_rows, ["label"] if labelled else [])
        _write_frame(store / "var", self._names, self.reader.n_features, [])
        if labelled:
            self._labels.finish(store / "obs" / "label", ARRAY)


def _seal(store: Path, annotated: bool) -> None:
    """Seal the matrix, and the names around it."""
    import zarr

    root: Any = zarr.open(str(store), mode="r+")
    if annotated:
        store_checks.seal(root)
    store_checks.seal(root["X"] if annotated else root, framed=annotated)


def _write_frame(where: Path, names: GrowingArray, length: int, columns: list[str]) -> None:
    """Write a frame as AnnData wants it, which is never without an index: numbers where there are no names."""
    made_up = len(names) == 0
    _create_group(where, FRAME | ({MADE_UP: True} if made_up else {}) | {"column-order": columns})
    for start in range(0, length if made_up else 0, STRINGS_A_CHUNK):
        numbers = np.arange(start, min(start + STRINGS_A_CHUNK, length))
        names.append(numbers.astype(np.dtypes.StringDType()))
    names.finish(where / "_index", STRINGS)


def _to_strings(values: list[str]) -> NDArray[Any]:
    return np.array(values, dtype=np.dtypes.StringDType())


def _create_group(where: Path, attributes: dict[str, Any]) -> None:
    import zarr

    zarr.create_group(str(where), attributes=attributes, zarr_format=3)


def sort_columns(rows: Csr) -> Csr:
    """Sort the columns of rows, add up repeated ones, and number columns by signed integers as scipy and anndata do."""
    matrix = rows.to_scipy()
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    indices = matrix.indices.astype(np.int32 if rows.n_features <= np.iinfo(np.int32).max else np.int64, copy=False)
    return Csr(matrix.data, indices, matrix.indptr.astype(np.int64, copy=False), rows.n_features)
