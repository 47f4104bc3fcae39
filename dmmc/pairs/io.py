"""What a person knows of pairs of rows: must-links and cannot-links, as they are read and written.

Pairs come as an array or a list of `(i, j, link)`, a frame, or the path of a csv with the columns `i,j,link`; link is
"must" or "cannot" (or 1 or -1). Whatever is wrong with one is said with its place.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.array_types import Array, Integers
from dmmc.errors import ClusteringWarning, InputError, refuse_url, warn

COLUMNS = ("i", "j", "link")
WORDS = {"must": True, "cannot": False, "1": True, "-1": False}
WANTED = '(i, j, "must" or "cannot")'


class Links(NamedTuple):
    """Pairs of rows, in the order in which they were given."""

    one: Integers
    other: Integers
    must: NDArray[np.bool_]
    lines: Integers
    """Where each was given: a line of the file, or a place in the list."""
    name: str
    """Of the file; empty for a list."""

    @property
    def size(self) -> int:
        """How many there are (``len`` of a named tuple counts its fields)."""
        return len(self.one)

    def place(self, p: int) -> str:
        """Where pair p was given."""
        return f"line {self.lines[p]} of {self.name}" if self.name else f"constraints[{self.lines[p]}]"

    def short(self, p: int) -> str:
        """Where pair p was given, where the file is known."""
        return f"line {self.lines[p]}" if self.name else f"constraints[{self.lines[p]}]"

    def select(self, which: Array) -> Links:
        """Some of them."""
        return Links(self.one[which], self.other[which], self.must[which], self.lines[which], self.name)

    @property
    def digest(self) -> str:
        """The same for the same pairs in the same order, however they were given."""
        parts = (self.one, self.other, self.must)
        text = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()
        return f"{self.size} pairs, sha256 {text[:16]}"


def read(given: Any) -> Links:
    """Pairs from None, Links, a path of a csv, a frame with the columns i, j and link, an array or a sequence."""
    if isinstance(given, Links):
        return given
    if given is None:
        return _make_links([], [], "")
    if isinstance(given, str | os.PathLike):
        refuse_url(given)
        return _read_csv(Path(given))
    if hasattr(given, "columns"):
        missing = [column for column in COLUMNS if column not in list(given.columns)]
        if missing:
            raise InputError(f"constraints are a frame without the column {missing[0]!r}; i, j and link are wanted.")
        given = list(zip(*(given[column].to_numpy().tolist() for column in COLUMNS), strict=True))
        return _make_links(*_drop_unanswered(given, range(len(given)), "constraints"), "")
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.shape[1] != 3:
            raise InputError(f"constraints are an array of shape {given.shape}; (m, 3) is wanted, rows of {WANTED}.")
        given = given.tolist()
    if not isinstance(given, Iterable):
        raise InputError(f"constraints are a {type(given).__name__}; an array, a list or a path of pairs is wanted.")
    found = list(given)
    return _make_links(found, range(len(found)), "")


def _read_csv(path: Path) -> Links:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [word.strip() for word in next(reader, [])]
            if not set(COLUMNS) <= set(header):
                raise InputError(f"{path} begins with {','.join(header)!r}; the header i,j,link is wanted.")
            at = [header.index(column) for column in COLUMNS]
            rows, lines = [], []
            for row in reader:
                if row:
                    lines.append(reader.line_num)
                    rows.append(tuple(row[a].strip() if a < len(row) else "" for a in at))
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; a csv with the columns i,j,link is wanted.") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; a csv with the columns i,j,link is wanted.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as csv ({error}).") from error
    return _make_links(*_drop_unanswered(rows, lines, str(path)), str(path))


def _drop_unanswered(rows: Sequence[Any], lines: Sequence[int], name: str) -> tuple[list[Any], list[int]]:
    """Pairs of a table whose link was filled in, and their places: an empty cell is "", None or NaN."""
    kept = [p for p, row in enumerate(rows) if str(row[2]).strip().lower() not in ("", "nan", "none", "<na>")]
    if len(kept) < len(rows):
        warn(f"{len(rows) - len(kept)} pair(s) of {name} have no link and are left out.", ClusteringWarning)
    return [rows[p] for p in kept], [lines[p] for p in kept]


def _make_links(rows: Sequence[Any], lines: Sequence[int], name: str) -> Links:
    ends, must = np.empty((len(rows), 2), np.int64), np.empty(len(rows), np.bool_)
    for p, row in enumerate(rows):
        where = f"line {lines[p]} of {name}" if name else f"constraints[{lines[p]}]"
        if not (isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) and len(row) == 3):
            raise InputError(f"{where} is {row!r}; {WANTED} is wanted.")
        for q in (0, 1):
            ends[p, q] = _read_row_number(row[q], where)
        link = row[2]
        if isinstance(link, float | np.floating) and link in (1.0, -1.0):
            link = int(link)
        word = str(link).strip().lower()
        if isinstance(link, bool) or word not in WORDS:
            raise InputError(f"{where} has {row[2]!r} as its link; 'must' or 'cannot' is wanted.")
        must[p] = WORDS[word]
    return Links(ends[:, 0].copy(), ends[:, 1].copy(), must, np.array(lines, np.int64), name)


def _read_row_number(value: Any, where: str) -> int:
    """A row's number; text and floats may say one."""
    try:
        number = int(value)
        whole = not isinstance(value, bool) and (isinstance(value, str) or number == value)
    except (TypeError, ValueError, OverflowError):
        whole = False
    if not whole or abs(number) >= 2**63:
        raise InputError(f"{where} names row {value!r}; the number of a row, from 0 on, is wanted.")
    return number


def write(path: str | os.PathLike[str], pairs: Array, row_ids: Array | None = None) -> None:
    """Pairs (m, 2) as a csv whose links are to be filled in, with the names of the rows if they have any."""
    named = () if row_ids is None else ("name_i", "name_j")
    try:
        with open(path, "x", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow((*COLUMNS, *named))
            writer.writerows((i, j, "", *(() if row_ids is None else row_ids[[i, j]])) for i, j in pairs.tolist())
    except FileExistsError:
        raise InputError(f"{path} exists; choose another path, or remove it first.") from None
