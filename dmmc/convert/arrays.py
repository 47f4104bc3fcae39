"""Arrays as numpy and MNIST's makers write them: npy, npz and idx files, read piece by piece and never unpickled."""

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import (
    BY_KEY,
    PIECE_BYTES,
    Piece,
    Reader,
    count_rows,
    first_line,
    name_damage,
    read_transposed,
)
from dmmc.data.blocks import Csr
from dmmc.data.readers.numbers import as_numbers, check_shape, memory_dtype
from dmmc.errors import InputError

ZIP_DAMAGE = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError, KeyError)
"""What zipfile raises over a damaged file."""


def read_npy_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, whether by columns, and dtype from an npy file, up to where its numbers begin."""
    versions = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(file)
        if version not in versions:
            raise InputError(f"{name} is of npy version {version[0]}.{version[1]}: 1.0 and 2.0 are known.")
        shape, by_columns, dtype = versions[version](file)
    except InputError:
        raise
    except Exception as error:  # numpy raises many kinds over a damaged header
        raise InputError(f"{name} has no readable npy header ({first_line(error)}): get the file again.") from error
    if dtype.hasobject:
        raise InputError(f"{name} holds pickled Python objects, which may run code and are never read: save numbers.")
    return shape, by_columns, dtype


class StackedReader(Reader):
    """An array of two or more dimensions as rows: images, say, are flattened and their shape is kept."""

    n_rows: int

    def take_shape(self, shape: tuple[int, ...], name: str) -> None:
        """Say of which shape the array is."""
        if len(shape) > 2:
            self.image_shape = shape[1:]
            shape = (shape[0], math.prod([int(size) for size in shape[1:]]))
        check_shape(shape, f"{name} of shape {shape}")
        self.n_rows, self.n_features = shape

    def read_in_order(self, read: Callable[[int], bytes], dtype: np.dtype[Any]) -> Iterator[Piece]:
        """Read an array that lies row by row; `read` gives the next so many bytes."""
        row_bytes = self.n_features * dtype.itemsize
        step = count_rows(row_bytes)
        for start in range(0, self.n_rows, step):
            count = min(step, self.n_rows - start)
            values = np.frombuffer(read(count * row_bytes), dtype).reshape(count, self.n_features)
            yield Piece(as_numbers(values, self.name))


class NpyStream:
    """An npy file, or one inside an npz file, of `size` bytes, read from its beginning to its end."""

    def __init__(self, file: IO[bytes], size: int, name: str) -> None:
        self.name, self._file = name, file
        self.shape, self.by_columns, self.dtype = read_npy_header(file, name)
        self.offset = file.tell()
        self.nbytes = math.prod(self.shape) * self.dtype.itemsize
        if size - self.offset < self.nbytes:
            raise InputError(
                f"{name} is truncated: an array of shape {self.shape} and dtype {self.dtype} has {self.nbytes} "
                f"bytes and {size - self.offset} are there, get the file again."
            )

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes."""
        with name_damage(self.name, *ZIP_DAMAGE):
            data = self._file.read(size)
        if len(data) < size:
            raise InputError(f"{self.name} is truncated: {size - len(data)} bytes are missing, get the file again.")
        return data

    def read_numbers(self, count: int) -> NDArray[Any]:
        """Read the next `count` numbers."""
        return as_numbers(np.frombuffer(self.read(count * self.dtype.itemsize), self.dtype), self.name)

    def read_all(self) -> NDArray[Any]:
        """Read the whole array, flat."""
        return np.frombuffer(self.read(self.nbytes), self.dtype)


class NpyFile(StackedReader):
    """An npy file."""

    _array: NpyStream

    def _open(self) -> None:
        file = self.files.enter_context(self.path.open("rb"))
        self._take_array(NpyStream(file, os.fstat(file.fileno()).st_size, self.name))

    def _take_array(self, array: NpyStream) -> None:
        memory_dtype(array.dtype, array.name)
        self.take_shape(array.shape, array.name)
        self._array = array

    def pieces(self) -> Iterator[Piece]:
        """Read all rows."""
        if self._array.by_columns and self.n_features > 1:
            return self._read_by_columns(*self._find_bytes())
        return self.read_in_order(self._array.read, self._array.dtype)

    def _find_bytes(self) -> tuple[Path, int]:
        """The file that holds the numbers as they are, and where in it they begin."""
        return self.path, self._array.offset

    def _read_by_columns(self, path: Path, offset: int) -> Iterator[Piece]:
        inner = self._array.shape[:0:-1]
        for values in read_transposed(path, offset, self._array.dtype, self.n_rows, self.n_features):
            # of more than two dimensions, the first varies first within a row too
            rows = values.T.reshape(*inner, len(values)).T.reshape(len(values), self.n_features)
            yield Piece(as_numbers(rows, self.name))


COLUMN_NAMES = ("feature_names", "vocab", "vocabulary")
"""Arrays of an npz file that may name the columns."""


class NpzFile(NpyFile):
    """One array of an npz file, or the parts of a CSR matrix as `scipy.sparse.save_npz` writes them.

    Of a CSR matrix the key may name other values of the same pattern, such as counts beside weights. Columns are named
    by the first of `COLUMN_NAMES` that has a text for each.
    """

    takes_key = True

    def _open(self) -> None:
        with name_damage(self.name, *ZIP_DAMAGE):
            self._archive = self.files.enter_context(zipfile.ZipFile(self.path))
        keys = [member.removesuffix(".npy") for member in self._archive.namelist() if member.endswith(".npy")]
        self.sparse = {"data", "indices", "indptr", "shape"} <= set(keys) and (
            self.key is None or (self.key in keys and self._is_like_data(self.key))
        )
        if self.sparse:
            self._take_sparse_shape("format" in keys)
        else:
            self._take_array(self._open_member(self._choose(keys)))
        self.feature_names = self._find_names(keys)

    def _is_like_data(self, key: str) -> bool:
        """Whether an array has a number for each stored one of the CSR matrix."""
        shapes = [self._open_member(one).shape for one in (key, "data")]
        return key not in ("indices", "indptr", "shape") and len(shapes[0]) == 1 and shapes[0] == shapes[1]

    def _find_names(self, keys: list[str]) -> list[str] | None:
        """The names of the columns, if the file has them."""
        for key in COLUMN_NAMES:
            member = self._open_member(key) if key in keys else None
            if member is not None and member.dtype.kind in "US" and member.shape == (self.n_features,):
                texts = member.read_all()
                return [one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one) for one in texts]
        return None

    def _open_member(self, key: str) -> NpyStream:
        name = f"{self.name}[{key!r}]"
        with name_damage(name, *ZIP_DAMAGE):
            entry = self._archive.getinfo(key if key in self._archive.namelist() else key + ".npy")
            file = self._archive.open(entry)
        return NpyStream(file, entry.file_size, name)

    def _choose(self, keys: list[str]) -> str:
        listed = ", ".join(repr(key) for key in keys)
        if not keys:
            raise InputError(f"{self.name} is a zip file without npy arrays: an npz file is wanted.")
        if self.key is None and len(keys) > 1:
            raise InputError(f"{self.name} holds {len(keys)} arrays, {listed}: choose one with {BY_KEY}.")
        if self.key is not None and self.key not in keys:
            raise InputError(f"{self.name} holds no {self.key!r}: choose with {BY_KEY} one of {listed}.")
        return self.key or keys[0]

    def _take_sparse_shape(self, has_format: bool) -> None:
        if has_format:
            form = self._read_small("format").tobytes().replace(b"\0", b"").decode("latin-1")
            if form != "csr":
                raise InputError(f"{self.name} is a sparse matrix in {form} form: save it after tocsr().")
        shape = tuple(self._read_small("shape").tolist())
        if len(shape) != 2 or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise InputError(f"{self.name} holds a sparse matrix of shape {shape}: two sizes are wanted.")
        self.take_shape(shape, self.name)

    def _read_small(self, key: str) -> NDArray[Any]:
        member = self._open_member(key)
        if member.nbytes > 1000:
            raise InputError(f"{member.name} has {member.nbytes} bytes: a word or two numbers are wanted.")
        return member.read_all()

    def pieces(self) -> Iterator[Piece]:
        """Read all rows."""
        if not self.sparse:
            return super().pieces()
        indptr, data, columns = (self._open_member(key) for key in ("indptr", self.key or "data", "indices"))
        memory_dtype(data.dtype, data.name)

        def read(first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
            return data.read_numbers(last - first), columns.read_numbers(last - first)

        return csr_pieces(self, indptr.read_all().astype(np.int64), data, columns, read)

    def _find_bytes(self) -> tuple[Path, int]:
        """Unzip the numbers into a scratch file."""
        path, size = self.scratch / "unzipped", self._array.nbytes
        with path.open("wb") as file:
            for start in range(0, size, PIECE_BYTES):
                file.write(self._array.read(min(PIECE_BYTES, size - start)))
        return path, 0


def csr_pieces(
    reader: Reader,
    indptr: NDArray[np.int64],
    data: Any,
    columns: Any,
    read: Callable[[int, int], tuple[NDArray[Any], NDArray[Any]]],
) -> Iterator[Piece]:
    """Read the rows of a CSR matrix, once its parts are known to fit together.

    `data` and `columns` have the shape and the dtype of its values and of their columns; `read` gives both from one
    place to another, and is called in order.
    """
    n_rows, n_features = reader.n_rows, reader.n_features
    good = n_rows is not None and indptr.shape == (n_rows + 1,) and indptr[0] == 0 and (np.diff(indptr) >= 0).all()
    if not (good and data.shape == columns.shape == (indptr[-1],) and columns.dtype.kind in "iu"):
        raise InputError(
            f"{reader.name} says it is a CSR matrix of {n_rows} rows, but its data, indices and indptr do not "
            "fit together."
        )
    kind = np.int32 if n_features <= np.iinfo(np.int32).max else np.int64
    for first, last in csr_bands(indptr, data.dtype.itemsize):
        values, places = read(int(indptr[first]), int(indptr[last]))
        starts = indptr[first : last + 1] - indptr[first]
        outside = (places < 0) | (places >= n_features)
        if outside.any():
            place = int(np.argmax(outside))
            row = first + int(np.searchsorted(starts, place, side="right")) - 1
            raise InputError(
                f"{reader.name}: row {row} has column {places[place]}, but there are {n_features} columns."
            )
        yield Piece(Csr(values, places.astype(kind), starts, n_features))


def csr_bands(indptr: NDArray[Any], itemsize: int) -> Iterator[tuple[int, int]]:
    """Cut the rows of a CSR matrix into bands of about `PIECE_BYTES` of values and columns, one row at least."""
    cost = indptr.astype(np.int64) * (itemsize + 8) + 8 * np.arange(len(indptr))
    first, n_rows = 0, len(indptr) - 1
    while first < n_rows:
        last = max(first + 1, int(np.searchsorted(cost, cost[first] + PIECE_BYTES, side="right")) - 1)
        yield first, last
        first = last


class IdxFile(StackedReader):
    """An idx file, gzipped or not, as MNIST comes in."""

    KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}  # noqa: RUF012

    def _open(self) -> None:
        self._bytes = self.open_bytes()
        magic = self._bytes.read_exactly(4, "its header")
        if magic[:2] != b"\0\0" or magic[2] not in self.KINDS:
            raise InputError(f"{self.name} does not begin as an idx file does: its first bytes are {magic.hex(' ')}.")
        self._dtype = np.dtype(self.KINDS[magic[2]])
        shape = tuple(np.frombuffer(self._bytes.read_exactly(4 * magic[3], "its header"), ">u4").tolist())
        if len(shape) == 1:
            raise InputError(f"{self.name} holds {shape[0]} single numbers, labels perhaps: images or rows are wanted.")
        self.take_shape(shape, self.name)

    def pieces(self) -> Iterator[Piece]:
        """Read all rows."""
        yield from self.read_in_order(lambda size: self._bytes.read_exactly(size, "its last row"), self._dtype)
        if self._bytes.read(1):
            raise InputError(f"{self.name} goes on after the {self.n_rows} rows that its header promises.")
