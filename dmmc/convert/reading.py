"""What all readers share: pieces of consecutive rows, and files whose damage is named in a sentence."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.errors import InputError
from dmmc.machine import MIB

PIECE_BYTES = 4 * MIB  # readers give about this much at a time
BY_KEY = "component= or --component (dmmc convert: --key)"
"""How users name an array inside a file."""
GZIP_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)


class Piece(NamedTuple):
    """Some consecutive rows, with what their file says about each of them."""

    rows: NDArray[Any] | Csr
    ids: list[str] | None = None
    labels: NDArray[Any] | None = None


class Reader:
    """A file as pieces of rows; what is known of it before the first piece is in the attributes.

    `key` says which array inside the file is meant; `scratch` is a folder for files needed only while reading.
    """

    takes_key: bool = False
    sparse: bool = False
    feature_names: list[str] | None = None
    has_ids: bool = False
    has_labels: bool = False
    image_shape: tuple[int, ...] | None = None
    cells: bool = False  # of AnnData
    n_rows: int | None = None  # None where only the last piece tells
    n_features: int  # of an svmlight file only after the last piece
    shift: int = 0  # to add to all column numbers, known after the last piece
    source: Bytes | None = None

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        self.path, self.name, self.key, self.scratch = path, path.name, key, scratch
        self.files = ExitStack()
        if key is not None and not self.takes_key:
            raise InputError(
                f"key={key!r} names an array inside an npz or h5ad file, and {self.name} is neither: leave it out."
            )
        self._open()

    def _open(self) -> None:
        """Open the file and fill the attributes; nothing where they are known before the file is opened."""

    def open_bytes(self) -> Bytes:
        """Open the file, gzipped or not."""
        self.source = Bytes(self.path)
        self.files.callback(self.source.close)
        return self.source

    def pieces(self) -> Iterator[Piece]:
        """Read all rows, in order."""
        raise NotImplementedError

    def fraction(self, rows_read: int) -> float:
        """How much of the file has been read, from 0 to 1."""
        if self.n_rows:
            return rows_read / self.n_rows
        return 0.0 if self.source is None else self.source.fraction()

    def close(self) -> None:
        """Close what is open."""
        self.files.close()


class Bytes:
    """The bytes of a file, unzipped if it is gzipped, read from the beginning to the end."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._raw = path.open("rb")
        self._size = max(1, os.fstat(self._raw.fileno()).st_size)
        zipped = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._stream: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if zipped else self._raw  # type: ignore[assignment]

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes, or what is left."""
        with name_damage(self.name, *GZIP_DAMAGE):
            return self._stream.read(size)

    def read_exactly(self, size: int, what: str) -> bytes:
        """Read the next `size` bytes; a file that ends before is refused."""
        parts, missing = [], size
        while missing:
            part = self.read(min(missing, PIECE_BYTES))
            if not part:
                raise InputError(
                    f"{self.name} is truncated: {what} ends {missing} bytes too early, get the file again."
                )
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def fraction(self) -> float:
        """How much of the file on disk has been read."""
        return min(1.0, self._raw.tell() / self._size)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        self._raw.close()


@contextmanager
def name_damage(name: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn errors of these kinds, which a library raises over a damaged file, into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        said = first_line(error) or type(error).__name__
        raise InputError(f"{name} is truncated or damaged ({said}): get the file again.") from error


def first_line(error: BaseException) -> str:
    """What an error says, as far as it fits into a sentence."""
    return str(error).partition("\n")[0].rstrip(".")


def count_rows(row_bytes: int) -> int:
    """How many rows make a piece."""
    return max(1, PIECE_BYTES // max(1, row_bytes))


def read_transposed(
    path: Path, offset: int, dtype: np.dtype[Any], n_rows: int, n_columns: int
) -> Iterator[NDArray[Any]]:
    """Read a matrix that lies column by column in a file, its first number at `offset`, some rows at a time."""
    row_bytes = n_columns * dtype.itemsize
    # a page is the least that is read of a column, unless that would be too much of them all
    step = min(max(count_rows(row_bytes), 4096 // dtype.itemsize), max(1, 8 * PIECE_BYTES // row_bytes))
    # not mapped into memory: pages that were read would count as memory in use
    with path.open("rb", buffering=0) as file:
        for start in range(0, n_rows, step):
            columns = np.empty((n_columns, min(step, n_rows - start)), dtype)
            for j, column in enumerate(columns):
                file.seek(offset + (j * n_rows + start) * dtype.itemsize)
                if file.readinto(column) != column.nbytes:
                    raise InputError(f"{path.name} became shorter while it was read: convert it again.")
            yield columns.T
