"""svmlight files, also called libsvm: ``label column:value column:value ...``, a row a line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.convert import digits
from dmmc.convert.reading import Bytes, Lines, Piece, Reader, decoded, text_blocks
from dmmc.data.blocks import Csr
from dmmc.errors import InputError

SPACES = bytes.maketrans(b"\t\r\v\f", b"    ")
ONE_A_LINE = bytes.maketrans(b" :", b"\n\n")

COMMENT = re.compile(rb"#[^\n]*")
QUERY = re.compile(rb"(?<=[ \t])qid:\S+")


class Entries(NamedTuple):
    """Labels, and the values of all rows one after the other, columns as numbered in the file."""

    labels: NDArray[np.float64]
    lengths: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: NDArray[np.float64]


class Svmlight(Reader):
    """An svmlight file.

    Columns are numbered from 1, or from 0 if a column 0 occurs, as scikit-learn guesses too; there are as many as the
    largest number says. Comments and query ids are skipped; labels are kept.
    """

    sparse = True
    has_labels = True

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        self.refuse_key()
        self._source = Bytes(path)

    def pieces(self) -> Iterator[Piece]:
        """All rows, block by block, columns numbered as if from 1."""
        largest = 0
        for block in text_blocks(self._source):
            entries = parse(block, self.name)
            if len(entries.columns):
                largest = max(largest, int(entries.columns.max()))
                if entries.columns.min() == 0:
                    self.shift = 1
            indptr = np.concatenate([[0], np.cumsum(entries.lengths, dtype=np.int64)])
            columns = entries.columns - 1
            kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
            rows = Csr(digits.smallest(entries.values), columns.astype(kind), indptr, largest)
            yield Piece(rows, labels=digits.smallest(entries.labels))
        self.n_features = largest + self.shift

    def fraction(self) -> float:
        """How much of the file has been read."""
        return self._source.fraction()

    def close(self) -> None:
        """Close the file."""
        self._source.close()


def parse(block: Lines, name: str) -> Entries:
    """Entries of a block of lines: all at once, or if anything is unusual line by line."""
    text = block.text
    if b"#" in text:
        text = COMMENT.sub(b"", text)
    if b"qid:" in text:
        text = QUERY.sub(b"", text)
    text = text.translate(SPACES)
    quick = _quick(text)
    return _careful(Lines(text, block.first), name) if quick is None else quick


def _quick(text: bytes) -> Entries | None:
    """Entries of well-formed lines, None if one is not."""
    letters = np.frombuffer(text, np.uint8)
    space = letters <= ord(" ")
    starts = ~space
    starts[1:] &= space[:-1]
    word_of = np.cumsum(starts, dtype=np.int32) - 1  # the word that a letter is in, or follows
    colons = np.flatnonzero(letters == ord(":"))
    ends = np.flatnonzero(letters == ord("\n"))
    first_word = np.concatenate([[0], word_of[ends] + 1])  # of each line, and one after the last
    words = np.diff(first_word)
    pairs = np.diff(np.concatenate([[0], np.searchsorted(colons, ends)]))
    filled = words > 0

    # one word without a colon and first, then words with one colon each, inside: so as many numbers as are
    # counted below can only be those wanted
    with_colon = np.zeros(int(first_word[-1]), bool)
    with_colon[word_of[colons]] = True
    well_formed = (
        (words[filled] == pairs[filled] + 1).all()
        and np.count_nonzero(with_colon) == len(colons)
        and not with_colon[first_word[:-1][filled]].any()
        and not (space[colons - 1].any() or space[colons + 1].any())
    )
    if not well_formed:
        return None
    numbers = digits.one_a_line(text.translate(ONE_A_LINE), blank=False)
    lengths = pairs[filled]
    if numbers is None or len(numbers) != len(lengths) + 2 * len(colons):
        return None
    at = np.concatenate([[0], np.cumsum(1 + 2 * lengths)])[:-1]
    is_label = np.zeros(len(numbers), bool)
    is_label[at] = True
    labels, others = numbers[is_label], numbers[~is_label]
    columns = others[0::2]
    if not ((columns >= 0) & (columns < 2.0**53) & (np.rint(columns) == columns)).all():
        return None
    row_begins = np.zeros(len(columns) + 1, bool)
    row_begins[np.concatenate([[0], np.cumsum(lengths)])] = True
    if not ((np.diff(columns) > 0) | row_begins[1:-1]).all():
        return None
    return Entries(labels, lengths, columns.astype(np.int64), others[1::2])


def _careful(block: Lines, name: str) -> Entries:
    """Entries line by line; what is wrong is named by its line."""
    labels: list[float] = []
    lengths: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for line, raw in enumerate(block.text.split(b"\n")[:-1], block.first):
        words = decoded(raw, name, line).split()
        if not words:
            continue
        label = digits.number(words[0])
        if label is None:
            raise InputError(f"{name}, line {line} begins with {words[0]!r}: a number is wanted as the label.")
        row = dict(_pair(word, name, line) for word in words[1:])
        if len(row) < len(words) - 1:
            raise InputError(f"{name}, line {line} gives a column twice: each is wanted at most once.")
        labels.append(label)
        lengths.append(len(row))
        columns.extend(sorted(row))
        values.extend(row[column] for column in sorted(row))
    return Entries(
        np.array(labels, np.float64),
        np.array(lengths, np.int64),
        np.array(columns, np.int64),
        np.array(values, np.float64),
    )


def _pair(word: str, name: str, line: int) -> tuple[int, float]:
    column, colon, value = word.partition(":")
    number = digits.number(value) if value else None
    if not (colon and column.isdecimal() and column.isascii() and len(column) < 19) or number is None:
        raise InputError(f"{name}, line {line} holds {word!r}: column:value is wanted, such as 3:0.5.")
    return int(column), number
