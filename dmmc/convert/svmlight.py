"""svmlight files, also called libsvm: ``label column:value column:value ...``, a row a line. Parsed by scikit-learn."""

import re
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.reading import Piece, Reader
from dmmc.convert.text import Lines, decode_line, parse_number, read_blocks, shrink
from dmmc.data.blocks import Csr
from dmmc.errors import InputError

QUERY = re.compile(r"(?<=[ \t])qid:\S+")


class Svmlight(Reader):
    """An svmlight file.

    Columns are numbered from 1, or from 0 if a column 0 occurs, as scikit-learn guesses too; there are as many as the
    largest number says. Comments and query ids are skipped; labels are kept.
    """

    sparse = True
    has_labels = True

    def pieces(self) -> Iterator[Piece]:
        """Read all rows, block by block, columns numbered as if from 1."""
        largest = 0
        for block in read_blocks(self.open_bytes()):
            labels, indptr, columns, values = parse_block(block, self.name)
            if len(columns):
                largest = max(largest, int(columns.max()))
                if columns.min() == 0:
                    self.shift = 1
            kind = np.int32 if largest <= np.iinfo(np.int32).max else np.int64
            rows = Csr(shrink(values), (columns - 1).astype(kind), indptr.astype(np.int64), largest)
            yield Piece(rows, labels=shrink(labels))
        self.n_features = largest + self.shift


def parse_block(block: Lines, name: str) -> tuple[NDArray[Any], ...]:
    """Labels, and the indptr, columns (as the file numbers them) and values of a block of lines."""
    from sklearn.datasets import load_svmlight_file

    if b"_" not in block.text:  # 1_000 is a number to Python only
        with suppress(ValueError, OverflowError):  # columns that are not sorted, or a line that is wrong
            matrix, labels = load_svmlight_file(BytesIO(block.text), zero_based=True)
            return labels, matrix.indptr, matrix.indices, matrix.data
    return _parse_lines(block, name)


def _parse_lines(block: Lines, name: str) -> tuple[NDArray[Any], ...]:
    """As `parse_block`, line by line: columns may come in any order, and what is wrong is named by its line."""
    labels: list[float] = []
    indptr = [0]
    columns: list[int] = []
    values: list[float] = []
    for line, raw in block.numbered():
        words = QUERY.sub("", decode_line(raw.partition(b"#")[0], name, line)).split()
        if not words:
            continue
        label = parse_number(words[0])
        if label is None:
            raise InputError(f"{name}, line {line} begins with {words[0]!r}: a number is wanted as the label.")
        row = dict(_parse_pair(word, name, line) for word in words[1:])
        if len(row) < len(words) - 1:
            raise InputError(f"{name}, line {line} gives a column twice: each is wanted at most once.")
        labels.append(label)
        columns.extend(sorted(row))
        values.extend(row[column] for column in sorted(row))
        indptr.append(len(columns))
    return np.array(labels, np.float64), np.array(indptr), np.array(columns, np.int64), np.array(values, np.float64)


def _parse_pair(word: str, name: str, line: int) -> tuple[int, float]:
    column, colon, value = word.partition(":")
    number = parse_number(value) if value else None
    if not (colon and column.isdecimal() and column.isascii() and len(column) < 19) or number is None:
        raise InputError(f"{name}, line {line} holds {word!r}: column:value is wanted, such as 3:0.5.")
    return int(column), number
