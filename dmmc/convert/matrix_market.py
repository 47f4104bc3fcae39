"""Matrix Market files, sparse (coordinate) or dense (array), in whatever order their entries come.

Entries are parsed once into a scratch file, 24 bytes each, while the rows are counted. If they come by rows that
file is read as it is; otherwise it is first sorted into bands of rows, each small enough to be sorted in memory.
So memory holds a band of about half a million entries, or one row if that has more, and 32 bytes for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.convert import digits
from dmmc.convert.reading import Bytes, Lines, Piece, Reader, decoded, removed, text_blocks
from dmmc.data.blocks import Csr
from dmmc.errors import InputError

BAND = 2**19
"""Entries in a band of rows."""

HEAD = re.compile(rb"([^\n]*)\n((?:%[^\n]*\n|[ \t\r]*\n)*)([^%\n][^\n]*)\n")
"""The banner, comments and empty lines, the sizes."""

SPACES = bytes.maketrans(b"\t\r ", b"\n\n\n")


class Header(NamedTuple):
    """What the first lines of the file say."""

    sparse: bool
    field: str
    symmetry: str
    n_rows: int
    n_columns: int
    n_entries: int
    """Lines of numbers that follow."""

    @property
    def words(self) -> int:
        """Numbers on a line."""
        return 1 if not self.sparse else 2 if self.field == "pattern" else 3

    @property
    def record(self) -> np.dtype[np.void]:
        """How an entry is kept in the scratch file."""
        return np.dtype([("row", "<i8"), ("column", "<i8"), ("value", "<i8" if self.field != "real" else "<f8")])


class MatrixMarket(Reader):
    """A Matrix Market file; repeated entries of a sparse one are added up, as scipy does."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._source = Bytes(path)
        self._blocks = text_blocks(self._source)
        self._header, rest = self._read_header()
        self._blocks = chain([rest], self._blocks)
        self.sparse = self._header.sparse
        self.n_features = self._header.n_columns
        self._given = 0.0

    def fraction(self) -> float:
        """How far this is: reading the file is one half, giving out its rows the other."""
        return (self._source.fraction() + self._given) / 2

    def close(self) -> None:
        """Close the file."""
        self._source.close()

    # ------------------------------------------------------------------------------------------------ header

    def _read_header(self) -> tuple[Header, Lines]:
        text = b""
        for block in self._blocks:
            text += block.text
            if found := HEAD.match(text):
                banner, comments, sizes = found.groups()
                line = 2 + comments.count(b"\n")
                words = decoded(banner, self.name, 1).lower().split()
                header = self._sized(words, decoded(sizes, self.name, line).split(), line)
                return header, Lines(text[found.end() :], line + 1)
        raise InputError(f"{self.name} is truncated: it has no line with its sizes, get the file again.")

    def _sized(self, banner: list[str], sizes: list[str], line: int) -> Header:
        kinds = (
            ["%%matrixmarket"],
            ["matrix"],
            ["coordinate", "array"],
            ["real", "double", "integer", "pattern"],
            ["general", "symmetric", "skew-symmetric"],
        )
        for word, known in zip([*banner, *[""] * 5][:5], kinds, strict=True):
            if word not in known:
                raise InputError(f"{self.name} begins with {' '.join(banner)!r}: {' or '.join(known)} is wanted.")
        sparse, field, symmetry = banner[2] == "coordinate", banner[3].replace("double", "real"), banner[4]
        if not all(size.isdecimal() and len(size) < 19 for size in sizes) or len(sizes) != (3 if sparse else 2):
            raise InputError(f"{self.name}, line {line} holds {' '.join(sizes)!r}: the sizes of the matrix are wanted.")
        n_rows, n_columns = int(sizes[0]), int(sizes[1])
        if symmetry != "general" and n_rows != n_columns:
            raise InputError(f"{self.name} is {symmetry} but has {n_rows} rows and {n_columns} columns.")
        if sparse:
            count = int(sizes[2])
        elif symmetry == "general":
            count = n_rows * n_columns
        else:
            count = n_rows * (n_rows + (1 if symmetry == "symmetric" else -1)) // 2
        return Header(sparse, field, symmetry, n_rows, n_columns, count)

    # ------------------------------------------------------------------------------------------------ entries

    def pieces(self) -> Iterator[Piece]:
        """All rows, band by band."""
        header = self._header
        if header.n_rows == 0 or header.n_columns == 0:
            return
        try:
            counts = np.zeros(header.n_rows, np.int64)
        except MemoryError as error:
            raise InputError(
                f"{self.name} says it has {header.n_rows} rows: 32 bytes for each of them do not fit into memory."
            ) from error
        entries = self.scratch / "entries"
        banded = self.scratch / "banded"
        try:
            with entries.open("w+b") as file:
                in_order = self._spool(file, counts)
                bands = _bands(counts)
                before = np.concatenate([[0], np.cumsum(counts)])[bands]
                if in_order:
                    yield from self._emit(file, bands, before)
                else:
                    with banded.open("w+b") as other:
                        self._distribute(file, other, bands, before)
                        yield from self._emit(other, bands, before)
        finally:
            removed(entries)
            removed(banded)

    def _spool(self, file: IO[bytes], counts: NDArray[np.int64]) -> bool:
        """Write all entries to a file as they come, count them by row; says whether they come by rows."""
        header, in_order, last_row, seen = self._header, True, -1, 0
        for block in self._blocks:
            numbers = self._numbers(block)
            if seen + len(numbers) > header.n_entries:
                raise InputError(f"{self.name} promises {header.n_entries} entries and holds more.")
            records = self._records(numbers, seen, block)
            seen += len(numbers)
            if len(records) == 0:
                continue
            rows, found = np.unique(records["row"], return_counts=True)
            counts[rows] += found
            in_order = in_order and records["row"][0] >= last_row and bool((np.diff(records["row"]) >= 0).all())
            last_row = records["row"][-1]
            file.write(records.tobytes())
        if seen != header.n_entries:
            raise InputError(f"{self.name} is truncated: it promises {header.n_entries} entries and holds {seen}.")
        return in_order

    def _numbers(self, block: Lines) -> NDArray[np.float64] | NDArray[np.int64]:
        """Numbers of a block, a row for each of its lines."""
        words = self._header.words
        # with one number a line the count of numbers says it all
        lines = block.text.translate(SPACES)
        numbers = digits.one_a_line(lines, blank=False) if _has_words(block.text, words) else None
        if numbers is None or len(numbers) % words:
            raise self._bad_line(block)
        if self._header.field == "integer":
            if not digits.is_whole(numbers):
                raise self._bad_line(block)
            if digits.needs_whole_numbers(numbers):
                exact = digits.whole_numbers(lines.split())
                if exact is None:
                    raise InputError(f"{self.name} holds whole numbers that need more than 64 bits.")
                return exact.reshape(-1, words)
        return numbers.reshape(-1, words)

    def _bad_line(self, block: Lines) -> InputError:
        wanted = self._header.words
        for line, raw in enumerate(block.text.split(b"\n"), block.first):
            cells = decoded(raw, self.name, line).split()
            numbers = [digits.number(cell) for cell in cells]
            whole = self._header.field != "integer" or all(float(x).is_integer() for x in numbers if x is not None)
            if cells and (len(cells) != wanted or None in numbers or not whole):
                kind = "whole number" if self._header.field == "integer" else "number"
                return InputError(
                    f"{self.name}, line {line} holds {' '.join(cells)[:40]!r}: "
                    f"{wanted} {kind}{'s are' if wanted > 1 else ' is'} wanted."
                )
        return InputError(f"{self.name}, lines from {block.first} on could not be read as numbers.")

    def _records(self, numbers: NDArray[np.float64] | NDArray[np.int64], seen: int, block: Lines) -> NDArray[np.void]:
        """Entries with row and column from 0, those that symmetry implies included."""
        header = self._header
        records = np.empty(len(numbers), header.record)
        if header.sparse:
            self._check_places(numbers, block)
            records["row"] = numbers[:, 0] - 1
            records["column"] = numbers[:, 1] - 1
            records["value"] = numbers[:, 2] if header.words == 3 else 1
        else:
            records["row"], records["column"] = _places(np.arange(seen, seen + len(numbers)), header)
            records["value"] = numbers[:, 0]
        if header.symmetry == "general":
            return records
        mirrored = records[records["row"] != records["column"]]
        mirrored["row"], mirrored["column"] = mirrored["column"].copy(), mirrored["row"].copy()
        if header.symmetry == "skew-symmetric":
            mirrored["value"] *= -1
        return np.concatenate([records, mirrored])

    def _check_places(self, numbers: NDArray[np.float64] | NDArray[np.int64], block: Lines) -> None:
        sizes = (self._header.n_rows, self._header.n_columns)
        places = numbers[:, :2]
        bad = ~((places >= 1) & (places <= sizes) & (np.rint(places) == places)).all(axis=1)
        if bad.any():
            row, column = places[np.argmax(bad)]
            # lines that are not empty are as many as entries
            filled = [i for i, raw in enumerate(block.text.split(b"\n"), block.first) if raw.strip()]
            raise InputError(
                f"{self.name}, line {filled[int(np.argmax(bad))]} names row {row:g} and column {column:g} of a matrix "
                f"with {sizes[0]} rows and {sizes[1]} columns, numbered from 1."
            )

    def _distribute(
        self, file: IO[bytes], other: IO[bytes], bands: NDArray[np.int64], before: NDArray[np.int64]
    ) -> None:
        """Copy the entries, each to the part of the other file that belongs to its band."""
        record = self._header.record
        cursor = before.copy()
        for start in range(0, int(before[-1]), BAND):
            records = _read(file, record, start, min(start + BAND, int(before[-1])))
            band = np.searchsorted(bands, records["row"], side="right") - 1
            order = np.argsort(band, kind="stable")
            records = records[order]
            which, first = np.unique(band[order], return_index=True)
            for b, part in zip(which, np.split(records, first[1:]), strict=True):
                other.seek(int(cursor[b]) * record.itemsize)
                other.write(part.tobytes())
                cursor[b] += len(part)

    def _emit(self, file: IO[bytes], bands: NDArray[np.int64], before: NDArray[np.int64]) -> Iterator[Piece]:
        from scipy.sparse import coo_array

        header = self._header
        for b in range(len(bands) - 1):
            top, n_rows = int(bands[b]), int(bands[b + 1] - bands[b])
            records = _read(file, header.record, int(before[b]), int(before[b + 1]))
            self._given = (b + 1) / (len(bands) - 1)
            rows, columns, values = records["row"] - top, records["column"], np.ascontiguousarray(records["value"])
            if header.sparse:
                matrix = coo_array((values, (rows, columns)), shape=(n_rows, header.n_columns)).tocsr()
                matrix.sum_duplicates()
                yield Piece(
                    Csr(digits.smallest(matrix.data), matrix.indices, matrix.indptr.astype(np.int64), header.n_columns)
                )
            else:
                dense = np.zeros((n_rows, header.n_columns), values.dtype)
                dense[rows, columns] = values
                yield Piece(digits.smallest(dense))


def _has_words(text: bytes, words: int) -> bool:
    """Whether every line that is not empty has this many words."""
    letters = np.frombuffer(text, np.uint8)
    space = letters <= ord(" ")
    starts = ~space
    starts[1:] &= space[:-1]
    so_far = np.cumsum(starts, dtype=np.int32)[np.flatnonzero(letters == ord("\n"))]
    counts = np.diff(so_far, prepend=0)
    return bool(((counts == words) | (counts == 0)).all())


def _places(numbers: NDArray[np.int64], header: Header) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row and column of the entries with these numbers in a dense file, which goes column by column."""
    n = header.n_rows
    if header.symmetry == "general":
        return numbers % n, numbers // n
    # column j holds the rows from j (or below) on
    below = 0 if header.symmetry == "symmetric" else 1
    begins = np.concatenate([[0], np.cumsum(n - below - np.arange(n))])
    columns = np.searchsorted(begins, numbers, side="right") - 1
    return numbers - begins[columns] + columns + below, columns


def _bands(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """First row of each band, then the number of rows; a band is one row, or at most `BAND` entries and rows."""
    cost = np.concatenate([[0], np.cumsum(counts + 1)])
    bounds = [0]
    while bounds[-1] < len(counts):
        reach = int(np.searchsorted(cost, cost[bounds[-1]] + BAND, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, reach))
    return np.array(bounds, np.int64)


def _read(file: IO[bytes], record: np.dtype[np.void], start: int, stop: int) -> NDArray[np.void]:
    file.seek(start * record.itemsize)
    records = np.fromfile(file, record, stop - start)
    if len(records) < stop - start:
        raise OSError(f"{file.name} was cut while it was in use")
    return records
