"""Matrix Market files, sparse (coordinate) or dense (array), in whatever order their entries come. Read by scipy.

The matrix is in memory while it is converted, unlike those of other files: its entries may come in any order.
"""

import re
from collections.abc import Iterator
from typing import Any

from dmmc.convert.arrays import csr_bands
from dmmc.convert.reading import Bytes, Piece, Reader, count_rows, first_line
from dmmc.convert.text import read_blocks, shrink
from dmmc.data.blocks import Csr
from dmmc.errors import InputError
from dmmc.machine import free_memory

ENTRY_BYTES = 40  # memory for an entry of a sparse matrix: as scipy reads it, and once more by rows
WHOLE = rb"[+-]?\d++"
NUMBER = rb"[+-]?(?:(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d++)?|(?i:inf(?:inity)?|nan))"
VALUES = {"real": [NUMBER], "double": [NUMBER], "integer": [WHOLE], "pattern": []}
"""What stands on a line: after the row and the column of an entry, or alone where the matrix is dense."""

HEAD = re.compile(rb"(?:%[^\n]*\n|[ \t\r]*\n)*+[^\n]*\n")  # comments and empty lines, then the sizes


class MatrixMarket(Reader):
    """A Matrix Market file; repeated entries of a sparse one are added up, as scipy does."""

    def _open(self) -> None:
        from scipy.io import mminfo

        try:
            n_rows, n_columns, self._entries, form, self._field, self._symmetry = mminfo(self.open_bytes())
        except (ValueError, OverflowError) as error:
            raise InputError(f"{self.name} has no readable Matrix Market header ({first_line(error)}).") from error
        if self._field not in VALUES:
            raise InputError(f"{self.name} holds {self._field} numbers: {', '.join(VALUES)} are read.")
        if self._symmetry not in ("general", "symmetric", "skew-symmetric"):
            raise InputError(f"{self.name} is {self._symmetry}: general, symmetric or skew-symmetric is wanted.")
        if self._symmetry != "general" and n_rows != n_columns:
            raise InputError(f"{self.name} is {self._symmetry} but has {n_rows} rows and {n_columns} columns.")
        self.n_rows, self.n_features, self.sparse = n_rows, n_columns, form == "coordinate"

    def pieces(self) -> Iterator[Piece]:
        """Read the matrix, then give it out by rows."""
        matrix = self._read()
        if not self.sparse:
            step = count_rows(8 * self.n_features)
            for first in range(0, len(matrix), step):
                yield Piece(shrink(matrix[first : first + step]))
            return
        for first, last in csr_bands(matrix.indptr, matrix.data.itemsize):
            a, b = matrix.indptr[first], matrix.indptr[last]
            indptr = matrix.indptr[first : last + 1].astype("i8") - a
            yield Piece(Csr(shrink(matrix.data[a:b]), matrix.indices[a:b], indptr, self.n_features))

    def _read(self) -> Any:
        """Read the whole matrix: as CSR, or dense."""
        from scipy.io import mmread

        n_rows = self.n_rows or 0
        doubled = 1 if self._symmetry == "general" else 2
        needed = doubled * ENTRY_BYTES * self._entries + 16 * n_rows if self.sparse else 8 * n_rows * self.n_features
        free = free_memory()
        too_large = InputError(
            f"{self.name} promises {n_rows} rows, {self.n_features} columns and {self._entries} entries, for which "
            f"{needed / 1e6:.0f} MB of memory are needed and {(free or 0) / 1e6:.0f} MB are free: convert it on a "
            "larger machine, or save the matrix as a sparse npz file there."
        )
        if free is not None and needed > free:
            raise too_large
        try:
            matrix = mmread(CheckedLines(self.open_bytes(), self.sparse, self._field), spmatrix=False)
            if self.sparse:
                return matrix.tocsr()
        except MemoryError as error:
            raise too_large from error
        except (ValueError, OverflowError) as error:
            if isinstance(error, InputError):
                raise
            raise self._refuse(error) from error
        if self._symmetry == "skew-symmetric" and matrix.diagonal().any():  # which scipy lets pass
            raise InputError(f"{self.name} is skew-symmetric but holds more numbers than those below the diagonal.")
        return matrix

    def _refuse(self, error: Exception) -> InputError:
        said = first_line(error)
        place = re.match(r"Line (\d+): ", said)
        line, said = (f", line {place[1]}", said[place.end() :]) if place else ("", said)
        return InputError(
            f"{self.name}{line} cannot be read as Matrix Market: {said}; get the file again, or correct it."
        )


class CheckedLines:
    """The text of a Matrix Market file; a line with too many words, or a number that goes on with letters, is refused.

    scipy would leave out what follows a number on its line: 1.2.3 would be 1.2.
    """

    def __init__(self, source: Bytes, sparse: bool, field: str) -> None:
        self._name = source.name
        self._blocks = read_blocks(source)
        self._text = memoryview(b"")
        self._in_head = True
        words = [WHOLE, WHOLE, *VALUES[field]] if sparse else VALUES[field]
        self._lines = re.compile(rb"(?:(?:[ \t]*+%b)?[ \t\r]*+\n)*+" % rb"[ \t]++".join(words))
        self._wanted = f"{len(words)} {'whole ' * (field == 'integer')}number{'s' * (len(words) > 1)}"

    def read(self, size: int) -> bytes:
        """Read the next `size` bytes at most; none at the end."""
        while not self._text and (block := next(self._blocks, None)):
            self._check(block.text, block.first)
            self._text = memoryview(block.text)
        data, self._text = self._text[:size], self._text[size:]
        return bytes(data)

    def _check(self, text: bytes, first: int) -> None:
        start = 0
        if self._in_head:
            head = HEAD.match(text)
            if head is None:
                return
            start, self._in_head = head.end(), False
        good = self._lines.match(text, start)
        end = start if good is None else good.end()
        if end < len(text):
            line = text[end : text.index(b"\n", end)].decode("utf-8", "replace").strip()
            number = first + text.count(b"\n", 0, end)
            raise InputError(f"{self._name}, line {number} holds {line[:40]!r}: {self._wanted} wanted.")
