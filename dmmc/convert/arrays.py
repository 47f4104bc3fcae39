"""Arrays as numpy and MNIST's makers write them: npy, npz and idx files, read piece by piece and never unpickled."""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import (
    PIECE_BYTES,
    Bytes,
    Piece,
    Reader,
    damage_named,
    first_line,
    removed,
    rows_at_once,
    rows_of_columns,
)
from dmmc.data.blocks import Csr
from dmmc.data.readers.numbers import as_numbers, check_shape, memory_dtype
from dmmc.errors import InputError

ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, KeyError)
"""What zipfile raises over a damaged file."""


class Npy(NamedTuple):
    """What the header of an npy file says."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes that follow the header."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(file: IO[bytes], name: str) -> Npy:
    """Read the header of an npy file, up to where its numbers begin."""
    versions: dict[tuple[int, int], Callable[..., Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    try:
        version = np.lib.format.read_magic(file)
        if version not in versions:
            raise InputError(f"{name} is of npy version {version[0]}.{version[1]}: 1.0 and 2.0 are known.")
        header = Npy(*versions[version](file))
    except InputError:
        raise
    except Exception as error:  # numpy raises many kinds over a damaged header
        raise InputError(f"{name} has no readable npy header ({first_line(error)}): get the file again.") from error
    if header.dtype.hasobject:
        raise InputError(f"{name} holds pickled Python objects, which may run code and are never read: save numbers.")
    return header


class Stacked(Reader):
    """An array of two or more dimensions as rows: images, say, are flattened and their shape is kept."""

    def take_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Say of which shape the array is."""
        if len(shape) > 2:
            self.image_shape = shape[1:]
            shape = (shape[0], math.prod([int(size) for size in shape[1:]]))
        check_shape(shape, f"{name} of shape {shape}")
        self.n_rows, self.n_features = shape
        self.rows_read = 0

    def fraction(self) -> float:
        """How many of the rows have been read."""
        return self.rows_read / self.n_rows

    def in_order(self, read: Callable[[int], bytes], dtype: np.dtype[Any]) -> Iterator[Piece]:
        """Pieces of an array that lies row by row; `read` gives the next so many bytes."""
        row_bytes = self.n_features * dtype.itemsize
        step = rows_at_once(row_bytes)
        for start in range(0, self.n_rows, step):
            count = min(step, self.n_rows - start)
            values = np.frombuffer(read(count * row_bytes), dtype).reshape(count, self.n_features)
            self.rows_read = start + count
            yield Piece(as_numbers(values, self.name))

    def by_columns(self, path: Path, header: Npy, offset: int) -> Iterator[Piece]:
        """Pieces of an array in a file that lies column by column."""
        inner = header.shape[:0:-1]
        for values in rows_of_columns(path, offset, header.dtype, self.n_rows, self.n_features):
            # of more than two dimensions, the first varies first within a row too
            rows = values.T.reshape(*inner, len(values)).T.reshape(len(values), self.n_features)
            self.rows_read += len(rows)
            yield Piece(as_numbers(rows, self.name))


class NpyFile(Stacked):
    """An npy file."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._file = path.open("rb")
        self._header = read_npy_header(self._file, self.name)
        memory_dtype(self._header.dtype, self.name)
        self.take_shape(self._header.shape, self.name)
        self._offset = self._file.tell()
        held = os.fstat(self._file.fileno()).st_size - self._offset
        if held < self._header.nbytes:
            raise InputError(
                f"{self.name} is truncated: an array of shape {self._header.shape} and dtype {self._header.dtype} "
                f"has {self._header.nbytes} bytes and {held} are there, get the file again."
            )

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        if self._header.by_columns and self.n_features > 1:
            return self.by_columns(self.path, self._header, self._offset)
        return self.in_order(self._file.read, self._header.dtype)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


# -------------------------------------------------------------------------------------------------------- npz


class Member:
    """An array inside an npz file, from its beginning to its end."""

    def __init__(self, archive: zipfile.ZipFile, key: str, name: str) -> None:
        self.name = f"{name}[{key!r}]"
        with damage_named(self.name, *ZIP_DAMAGE):
            entry = archive.getinfo(key if key in archive.namelist() else key + ".npy")
            self._file = archive.open(entry)
            self.header = read_npy_header(self._file, self.name)
        if entry.file_size < self.header.nbytes:
            raise InputError(f"{self.name} is truncated: its header promises more than is there, get the file again.")

    def read(self, size: int) -> bytes:
        """The next `size` bytes."""
        with damage_named(self.name, *ZIP_DAMAGE):
            data = self._file.read(size)
        if len(data) < size:
            raise InputError(f"{self.name} is truncated: {size - len(data)} bytes are missing, get the file again.")
        return data

    def numbers(self, count: int) -> NDArray[Any]:
        """The next `count` numbers."""
        dtype = self.header.dtype
        return as_numbers(np.frombuffer(self.read(count * dtype.itemsize), dtype), self.name)

    def all(self) -> NDArray[Any]:
        """The whole array, flat."""
        dtype = self.header.dtype
        return np.frombuffer(self.read(self.header.nbytes), dtype)


class NpzFile(Stacked):
    """One array of an npz file, or the parts of a CSR matrix as `scipy.sparse.save_npz` writes them."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        with ExitStack() as stack:
            with damage_named(self.name, *ZIP_DAMAGE):
                self._archive = stack.enter_context(zipfile.ZipFile(path))
            keys = [member.removesuffix(".npy") for member in self._archive.namelist() if member.endswith(".npy")]
            self.sparse = key is None and {"data", "indices", "indptr", "shape"} <= set(keys)
            if self.sparse:
                self._sparse_shape("format" in keys)
            else:
                self._member = Member(self._archive, self._chosen(keys), self.name)
                memory_dtype(self._member.header.dtype, self._member.name)
                self.take_shape(self._member.header.shape, self._member.name)
            stack.pop_all()

    def _chosen(self, keys: list[str]) -> str:
        listed = ", ".join(repr(key) for key in keys)
        if not keys:
            raise InputError(f"{self.name} is a zip file without npy arrays: an npz file is wanted.")
        if self.key is None and len(keys) > 1:
            raise InputError(f"{self.name} holds {len(keys)} arrays, {listed}: choose one with key=.")
        if self.key is not None and self.key not in keys:
            raise InputError(f"{self.name} holds no {self.key!r}: choose with key= one of {listed}.")
        return self.key or keys[0]

    def _sparse_shape(self, has_format: bool) -> None:
        form = Member(self._archive, "format", self.name).all().tobytes() if has_format else b"csr"
        form = form.replace(b"\0", b"")
        if form != b"csr":
            raise InputError(f"{self.name} is a sparse matrix in {form.decode('latin-1')} form: save it after tocsr().")
        shape = tuple(Member(self._archive, "shape", self.name).all().tolist())
        if len(shape) != 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise InputError(f"{self.name} holds a sparse matrix of shape {shape}: two sizes are wanted.")
        self.take_shape(shape, self.name)

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        if self.sparse:
            return self._sparse_pieces()
        header = self._member.header
        if header.by_columns and self.n_features > 1:
            return self._unpacked()
        return self.in_order(self._member.read, header.dtype)

    def _unpacked(self) -> Iterator[Piece]:
        """An array that lies column by column is unzipped into a scratch file first."""
        path = self.scratch / "unzipped"
        header = self._member.header
        try:
            with path.open("wb") as file:
                for start in range(0, header.nbytes, PIECE_BYTES):
                    file.write(self._member.read(min(PIECE_BYTES, header.nbytes - start)))
            yield from self.by_columns(path, header, 0)
        finally:
            removed(path)

    def _sparse_pieces(self) -> Iterator[Piece]:
        indptr = np.asarray(Member(self._archive, "indptr", self.name).all()).astype(np.int64)
        data, columns = Member(self._archive, "data", self.name), Member(self._archive, "indices", self.name)
        memory_dtype(data.header.dtype, data.name)
        sizes = data.header.shape, columns.header.shape
        check_csr(indptr, self.n_rows, sizes, columns.header.dtype, self.name)
        for first, last in csr_bands(indptr, data.header.dtype.itemsize):
            count = int(indptr[last] - indptr[first])
            self.rows_read = last
            yield csr_piece(
                data.numbers(count), columns.numbers(count), indptr[first : last + 1], self.n_features, first, self.name
            )

    def close(self) -> None:
        """Close the file."""
        self._archive.close()


# ------------------------------------------------------------------------------------ CSR rows, here and in h5ad


def check_csr(
    indptr: NDArray[np.int64],
    n_rows: int,
    sizes: tuple[tuple[int, ...], tuple[int, ...]],
    index_dtype: np.dtype[Any],
    name: str,
) -> None:
    """Refuse parts that are no CSR matrix: `sizes` are the shapes of its data and its indices."""
    good = indptr.shape == (n_rows + 1,) and indptr[0] == 0 and bool((np.diff(indptr) >= 0).all())
    if not (good and sizes == ((indptr[-1],), (indptr[-1],)) and index_dtype.kind in "iu"):
        raise InputError(
            f"{name} says it is a CSR matrix of {n_rows} rows, but its data, indices and indptr do not fit together."
        )


def csr_bands(indptr: NDArray[np.int64], itemsize: int) -> Iterator[tuple[int, int]]:
    """Rows of about `PIECE_BYTES` of values and columns, one at least."""
    cost = indptr * (itemsize + 8) + 8 * np.arange(len(indptr))
    first, n_rows = 0, len(indptr) - 1
    while first < n_rows:
        last = max(first + 1, int(np.searchsorted(cost, cost[first] + PIECE_BYTES, side="right")) - 1)
        yield first, last
        first = last


def csr_piece(
    values: NDArray[Any], columns: NDArray[Any], indptr: NDArray[np.int64], n_features: int, first: int, name: str
) -> Piece:
    """Some rows of a CSR matrix, the first of them number `first`, once their columns are known to exist."""
    outside = (columns < 0) | (columns >= n_features)
    if outside.any():
        place = int(np.argmax(outside))
        row = first + int(np.searchsorted(indptr - indptr[0], place, side="right")) - 1
        raise InputError(f"{name}: row {row} has column {columns[place]}, but there are {n_features} columns.")
    kind = np.int32 if n_features <= np.iinfo(np.int32).max else np.int64
    return Piece(Csr(values, columns.astype(kind), indptr - indptr[0], n_features))


# -------------------------------------------------------------------------------------------------------- idx


class IdxFile(Stacked):
    """An idx file, gzipped or not, as MNIST comes in."""

    KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}  # noqa: RUF012

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._source = Bytes(path)
        magic = self._source.exactly(4, "its header")
        if magic[:2] != b"\0\0" or magic[2] not in self.KINDS:
            raise InputError(f"{self.name} does not begin as an idx file does: its first bytes are {magic.hex(' ')}.")
        self._dtype = np.dtype(self.KINDS[magic[2]])
        sizes = self._source.exactly(4 * magic[3], "its header")
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        if len(shape) == 1:
            raise InputError(f"{self.name} holds {shape[0]} single numbers, labels perhaps: images or rows are wanted.")
        self.take_shape(shape, self.name)

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        yield from self.in_order(lambda size: self._source.exactly(size, "its last row"), self._dtype)
        if self._source.read(1):
            raise InputError(f"{self.name} goes on after the {self.n_rows} rows that its header promises.")

    def close(self) -> None:
        """Close the file."""
        self._source.close()
