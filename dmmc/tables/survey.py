"""What one reading of a table finds of each column: how many, how far apart, how often, all different or not."""

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import pyarrow.compute
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from dmmc.errors import InputError
from dmmc.info.row_numbers import (
    BY_NAME,
    BY_PLACE,
    FEWEST,
    MAY_NAME,
    Numbers,
    are_whole,
    describe_columns,
    join,
)
from dmmc.tables.columns import MISSING, find_kind, is_fraction, is_number, to_numbers, to_texts
from dmmc.tables.rows import TableRows

MOST_TEXTS = 100_000
"""Different texts of a column that are counted."""
MANY_NUMBERS, FEW_WORDS, MOSTLY = 20, 10, 0.8
"""Texts are numbers that something has spoilt if more than so many of them are numbers, no more than so many are words
without a digit, and so large a part of the cells holds a number: "unknown" among weights, not codes such as 7b."""
AT_ONCE = 2**22
"""Hashes that are sorted at once."""


class ColumnSurvey:
    """What was found of one column.

    kind : as of `find_kind`
    n_rows, missing, first_missing : rows, those without a value, and the first of these
    seen : how often each text occurs, in rows up to the one where there were more than `MOST_TEXTS`
    has_all : whether there never were
    scaler : mean and variance of the numbers that are given
    is_different : whether no two rows hold the same, in a column that may name them; False until `settle`
    never_repeats : whether the numbers that are given are whole and all different; likewise
    """

    is_different = never_repeats = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = "nothing"
        self.n_rows = self.missing = 0
        self.first_missing = -1
        self.seen: Counter[str] = Counter()
        self.has_all = True
        self.scaler = StandardScaler()
        self.run: Numbers | None = None
        self.hashes: Hashes | None = Hashes()
        self.numbers: Hashes | None = Hashes()
        """Whole numbers, as long as none came twice."""
        self.only_counts = BY_PLACE.fullmatch(name) is not None
        """Whether it may name the rows, but only says where they are: 0, 1, 2, ... or 1, 2, 3, ..."""
        self._from = ""

    def add(self, values: Any, place: Callable[[int], str]) -> None:
        """Look at the next cells; `place` says where a row is."""
        kind = find_kind(values, self.name)
        if self.kind == "nothing":
            self.kind = kind
        if kind not in (self.kind, "nothing"):
            raise InputError(
                f"column {self.name!r} holds a {self.kind} at first, and a {kind} in row {self.n_rows} (from 0) or "
                "after it: one kind is wanted, or leave the column out."
            )
        lost = find_missing(values, kind)
        if lost.any():
            if self.missing == 0:
                self.first_missing = self.n_rows + int(np.argmax(lost))
            self.missing += int(lost.sum())
            self._drop_hashes()
        if kind == "category":
            self._add_texts(values)
        elif kind != "nothing":
            numbers = to_numbers(values, kind)
            if np.isinf(numbers).any():
                where = place(self.n_rows + int(np.argmax(np.isinf(numbers))))
                raise InputError(f"column {self.name!r} holds infinity in {where}: finite numbers are wanted.")
            self._add_numbers(numbers[~lost])
            if kind == "number":
                self._add_whole(numbers[~lost])
        self.n_rows += len(values)
        named = BY_NAME.fullmatch(self.name) is not None
        if self.hashes is not None and not (kind == "category" or (kind == "number" and named)):
            self._drop_hashes()
        if self.hashes is None:
            return
        texts = to_texts(values)
        if self.only_counts:
            start = self.n_rows - len(texts)
            if start == 0:
                self._from = texts[0]
            first = int(self._from) if self._from in ("0", "1") else -start - 1
            self.only_counts = texts == [str(first + row) for row in range(start, start + len(texts))]
        if not self.hashes.add_texts(texts):
            self._drop_hashes()

    def _drop_hashes(self) -> None:
        if self.hashes is not None:
            self.hashes.close()
        self.hashes = None

    def _add_texts(self, values: Any) -> None:
        if not self.has_all:
            return
        for pair in values.drop_null().value_counts().to_pylist():
            self.seen[str(pair["values"])] += pair["counts"]
        self.has_all = len(self.seen) <= MOST_TEXTS

    def _add_numbers(self, given: NDArray[np.float64]) -> None:
        if len(given):
            self.scaler.partial_fit(given[:, None])
            run = describe_columns(given[:, None])
            self.run = run if self.run is None else join(self.run, run)

    def _add_whole(self, given: NDArray[np.float64]) -> None:
        if self.numbers is not None and not (are_whole(given) and self.numbers.add(given.astype(np.int64))):
            self.numbers.close()
            self.numbers = None

    def settle(self) -> None:
        """Tell what is different, once all rows were added."""
        if self.n_rows >= FEWEST and self.hashes is not None and not self.has_fractions:
            self.is_different = self.hashes.find_twin() is None
        if self.n_rows - self.missing >= FEWEST and self.numbers is not None and self.kind == "number":
            self.never_repeats = self.numbers.find_twin() is None

    def close(self) -> None:
        """Remove what is on disk."""
        for kept in (self.hashes, self.numbers):
            if kept is not None:
                kept.close()

    def list_spoilers(self) -> list[str]:
        """Texts in a column that otherwise holds numbers; none where it is one of texts, or of numbers alone."""
        if self.kind != "category" or BY_NAME.fullmatch(self.name) is not None:
            return []
        words = [text for text in self.seen if not is_number(text)]
        few = len(words) <= FEW_WORDS and not any(char.isdigit() for text in words for char in text)
        return words if few and self._is_mostly(is_number) else []

    @property
    def has_many_numbers(self) -> bool:
        """Whether so many texts are numbers that they are no codes of a few categories."""
        return sum(map(is_number, self.seen)) > MANY_NUMBERS

    @property
    def has_fractions(self) -> bool:
        """Whether most texts are numbers with a fraction, which name nothing."""
        return self.kind == "category" and self._is_mostly(is_fraction)

    def _is_mostly(self, test: Callable[[str], bool]) -> bool:
        """Whether most cells pass a test of their texts."""
        return sum(count for text, count in self.seen.items() if test(text)) >= MOSTLY * sum(self.seen.values())

    def count_texts(self) -> dict[str, int]:
        """How often each text occurs, cells without one included."""
        found = dict(self.seen)
        if self.missing:
            found[MISSING] = found.get(MISSING, 0) + self.missing
        return found

    def find_reason(self, most_categories: int) -> str:
        """Why the column says nothing of what a row is like; "" where it may."""
        if self.missing == self.n_rows:
            return "it is empty"
        if BY_NAME.fullmatch(self.name) is not None:
            return "it is called an id"
        if self.kind == "category":
            if not self.has_all:
                return f"it holds more than {MOST_TEXTS:,} different texts"
            counts = sorted(self.count_texts().values(), reverse=True)
            if len(counts) == 1:
                return "it holds one value"
            if sum(counts[:most_categories]) < self.n_rows / 2:
                return f"it holds {len(counts)} different texts, which hardly repeat"
            return ""
        assert self.run is not None
        if self.run.low[0] == self.run.high[0]:
            return "it holds one value"
        ordered = bool(self.run.whole[0] and (self.run.rises[0] or self.run.falls[0]))
        if self.kind == "number" and self.n_rows - self.missing >= FEWEST and ordered:
            return "it numbers the rows"
        if self.never_repeats and MAY_NAME.fullmatch(self.name) is not None:
            return "it never repeats and is called a number, code or key (--id, id= take it as the ids of the rows)"
        return ""


class Hashes:
    """Hashes of texts, or whole numbers, kept on disk until `close`, to tell whether any came twice."""

    def __init__(self) -> None:
        self._count = 0
        self._file: Any = None
        self._twin: Any = False

    def add_texts(self, texts: list[str]) -> bool:
        """Take the next texts; whether they differ among themselves."""
        return self.add(np.fromiter(map(hash, texts), np.int64, len(texts)))

    def add(self, found: NDArray[np.int64]) -> bool:
        """Take the next hashes; whether they differ among themselves."""
        if len(np.unique(found)) < len(found):
            return False
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dmmc-ids-")  # noqa: SIM115 - it lives as long as this object
        self._file.write(found.tobytes())
        self._count += len(found)
        return True

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
        self._file = None

    def find_twin(self) -> int | None:
        """A hash that came twice, or None."""
        if self._twin is False:
            self._twin = self._search() if self._count else None
        found: int | None = self._twin
        return found

    def _search(self) -> int | None:
        parts = -(-self._count // AT_ONCE)
        for part in range(parts):
            chosen = np.sort(np.concatenate([some[some % parts == part] for some in self._read()]))
            twins = np.flatnonzero(chosen[1:] == chosen[:-1])
            if len(twins):
                return int(chosen[twins[0]])
        return None

    def _read(self) -> Iterable[NDArray[np.int64]]:
        self._file.seek(0)
        while data := self._file.read(8 * AT_ONCE // 4):
            yield np.frombuffer(data, np.int64)


def survey(rows: TableRows, columns: list[str], keep: Any = None) -> dict[str, ColumnSurvey]:
    """Read a table once; `keep` takes a part to the rows of it that count."""
    found = {name: ColumnSurvey(name) for name in columns}
    with ExitStack() as stack:
        for column in found.values():
            stack.callback(column.close)
        for part in rows.parts(columns):
            part = part if keep is None else keep(part)
            for name, column in found.items():
                column.add(part.column(name), rows.place)
        for column in found.values():
            column.settle()
    return found


def find_missing(values: Any, kind: str) -> NDArray[np.bool_]:
    """Which cells hold nothing; a number that is none counts as such."""
    lost: NDArray[np.bool_] = np.asarray(pyarrow.compute.is_null(values, nan_is_null=kind == "number"))
    return lost


def find_text(rows: TableRows, name: str, text: str) -> int:
    """The first row that holds a text."""
    start = 0
    for part in rows.parts([name]):
        texts = to_texts(part.column(name))
        if text in texts:
            return start + texts.index(text)
        start += part.num_rows
    raise AssertionError(f"no row holds {text!r}")


def find_repeated(rows: TableRows, name: str) -> tuple[str, list[int]] | None:
    """A text that a column holds more than once, and the first two rows that hold it; None where there is none."""
    seen: dict[str, int] = {}
    start = 0
    with closing(Hashes()) as hashes:
        for part in rows.parts([name]):
            texts = to_texts(part.column(name))
            if not hashes.add_texts(texts):
                for row, text in enumerate(texts, start):
                    if text in seen:
                        return text, [seen[text], row]
                    seen[text] = row
            start += len(texts)
        twin = hashes.find_twin()
    if twin is None:
        return None
    seen, start = {}, 0
    for part in rows.parts([name]):
        for row, text in enumerate(to_texts(part.column(name)), start):
            if hash(text) == twin:
                if text in seen:
                    return text, [seen[text], row]
                seen[text] = row
        start += part.num_rows
    return None
