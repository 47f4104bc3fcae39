"""What all readers share: pieces of consecutive rows, and files read in blocks with their damage named."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.errors import InputError
from dmmc.machine import MIB

PIECE_BYTES = 4 * MIB
"""Readers hand over about this much at a time."""

TEXT_BYTES = 2 * MIB
"""Text is parsed in blocks of about this size: a few of them, and their numbers, are in memory at once."""

LONGEST_LINE = 64 * MIB

GZIP_DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error)


class Piece(NamedTuple):
    """Some consecutive rows, with what their file says about each of them."""

    rows: NDArray[Any] | Csr
    ids: list[str] | None = None
    labels: NDArray[Any] | None = None


class Reader:
    """A file as pieces of rows; what is known of it before the first piece is in the attributes.

    Parameters
    ----------
    path : Path
        The file.
    key : str, optional
        Which array inside the file is meant.
    scratch : Path
        A folder for files that are needed only while reading.
    """

    sparse: bool = False
    feature_names: list[str] | None = None
    has_ids: bool = False
    has_labels: bool = False
    image_shape: tuple[int, ...] | None = None
    n_features: int
    """Number of columns; only after the last piece where the file does not begin with it."""
    shift: int = 0
    """To add to all column numbers, known after the last piece."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        self.path = path
        self.name = path.name
        self.key = key
        self.scratch = scratch

    def pieces(self) -> Iterator[Piece]:
        """All rows, in order."""
        raise NotImplementedError

    def fraction(self) -> float:
        """How much of the file has been read, from 0 to 1."""
        return 0.0

    def close(self) -> None:
        """Let go of the file."""

    def refuse_key(self) -> None:
        """Say that a key makes no sense for this kind of file."""
        if self.key is not None:
            raise InputError(
                f"key={self.key!r} names an array inside an npz or h5ad file, and {self.name} is neither: leave it out."
            )


class Bytes:
    """The bytes of a file, unzipped if it is gzipped, read from the beginning to the end.

    Parameters
    ----------
    path : Path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._raw = path.open("rb")
        self._size = max(1, os.fstat(self._raw.fileno()).st_size)
        zipped = self._raw.read(2) == b"\x1f\x8b"
        self._raw.seek(0)
        self._stream: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if zipped else self._raw  # type: ignore[assignment]

    def read(self, size: int) -> bytes:
        """The next `size` bytes, or what is left."""
        with damage_named(self.name, *GZIP_DAMAGE):
            return self._stream.read(size)

    def exactly(self, size: int, what: str) -> bytes:
        """The next `size` bytes; a file that ends before is refused."""
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
def damage_named(name: str, *kinds: type[BaseException]) -> Iterator[None]:
    """Turn errors of these kinds, which a library raises over a damaged file, into an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except kinds as error:
        said = first_line(error) or type(error).__name__
        raise InputError(f"{name} is truncated or damaged ({said}): get the file again.") from error


class Lines(NamedTuple):
    """Whole lines of a text file, each ending in a newline; `first` is the number of the first one, from 1."""

    text: bytes
    first: int


def text_blocks(source: Bytes) -> Iterator[Lines]:
    """Blocks of whole lines, of about `TEXT_BYTES`; a byte order mark is dropped, other encodings are refused."""
    rest: list[bytes] = []
    held, line = 0, 1
    at_start = True
    while data := source.read(TEXT_BYTES):
        if at_start:
            _check_encoding(data, source.name)
            data, at_start = data.removeprefix(b"\xef\xbb\xbf"), False
        if b"\0" in data:
            raise InputError(f"{source.name} is not text: there are zero bytes near line {line}.")
        end = data.rfind(b"\n") + 1
        if end == 0:
            rest.append(data)
            held += len(data)
            if held > LONGEST_LINE:
                raise InputError(
                    f"{source.name} has a line of more than {LONGEST_LINE // MIB} MiB, line {line}: is it a text file?"
                )
            continue
        text = b"".join([*rest, data[:end]])
        rest, held = [data[end:]], len(data) - end
        yield Lines(text, line)
        line += text.count(b"\n")
    last = b"".join(rest)
    if last:
        yield Lines(last + b"\n", line)


def _check_encoding(data: bytes, name: str) -> None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InputError(f"{name} is UTF-16 text: save it as UTF-8.")


def decoded(text: bytes, name: str, line: int) -> str:
    """Text of a line, which must be UTF-8."""
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}, line {line} is not UTF-8 text: save the file as UTF-8.") from error


def rows_at_once(row_bytes: int) -> int:
    """How many rows make a piece."""
    return max(1, PIECE_BYTES // max(1, row_bytes))


def rows_of_columns(
    path: Path, offset: int, dtype: np.dtype[Any], n_rows: int, n_columns: int
) -> Iterator[NDArray[Any]]:
    """Rows of a matrix that lies column by column in a file.

    Parameters
    ----------
    path : Path
        The file.
    offset : int
        Where in it the first number is.
    dtype : numpy.dtype
        Of the numbers.
    n_rows, n_columns : int
        Shape of the matrix.

    Yields
    ------
    ndarray of shape (some rows, n_columns)
    """
    row_bytes = n_columns * dtype.itemsize
    # a page is the least that is read of a column, unless that would be too much of them all
    step = min(max(rows_at_once(row_bytes), 4096 // dtype.itemsize), max(1, 8 * PIECE_BYTES // row_bytes))
    # not mapped into memory: pages that were read would count as memory in use
    with path.open("rb", buffering=0) as file:
        for start in range(0, n_rows, step):
            columns = np.empty((n_columns, min(step, n_rows - start)), dtype)
            for j, column in enumerate(columns):
                file.seek(offset + (j * n_rows + start) * dtype.itemsize)
                if file.readinto(column) != column.nbytes:
                    raise InputError(f"{path.name} became shorter while it was read.")
            yield columns.T


def removed(path: Path) -> None:
    """Delete a file that may be gone."""
    with suppress(FileNotFoundError):
        path.unlink()


def optional(module: str, name: str) -> Any:
    """Import what reads a file, or say how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise InputError(
            f"{name} is read with {package}, which is not installed: pip install 'dmmc[convert]'."
        ) from error


def first_line(error: BaseException) -> str:
    """What an error says, as far as it fits into a sentence."""
    return str(error).partition("\n")[0]
