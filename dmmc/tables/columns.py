"""What each column of a table is: number, category, truth value or date; and how it becomes numbers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
from numpy.typing import NDArray
from pyarrow import types

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.tables.texts import TYPES, drop_words, find_type, is_kind, is_text, read_texts

OTHER = "other"
"""Name of the column of categories that are rare, or were not met when the preparation was learned; where it is a
category itself, "other (rare)"."""
MISSING = "missing"
"""Category of cells without one."""
DAY = 86_400e6
"""Microseconds: dates are days since 1970."""


@dataclass(frozen=True)
class Column:
    """How one column of a table becomes numbers.

    kind : "number", "boolean", "date" (days since 1970) or "category" (one column a category, 1 where a row has it)
    fill : stands for a missing number
    shift, scale : numbers are less `shift`, then divided by `scale`; categories are only divided
    categories : those that have a column; others share the column `OTHER`
    """

    name: str
    kind: str
    fill: float = 0.0
    shift: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def names_out(self) -> list[str]:
        """Names of the columns of the matrix."""
        if self.kind != "category":
            return [self.name]
        other = OTHER
        while other in self.categories:
            other += " (rare)"
        return [f"{self.name}={category}" for category in (*self.categories, other)]

    def read(self, values: Any, place: Callable[[int], str]) -> Any:
        """Cells of new rows as this kind of column, texts as those of a csv file; `place` says where a row is."""
        if self.kind == "category":
            return drop_words(values, self.categories) if is_text(values.type) else values
        if not is_text(values.type):
            return values
        kind = TYPES[self.kind]
        if self.kind == "date" and is_kind(found := find_type(values), "date"):
            kind = found
        return read_texts(values, kind, self.name, lambda row, held: f"{place(row)}, where {held} are wanted")

    def encode_as_found(self, values: Any, place: Callable[[int], str]) -> Array:
        """The same as `encode`, if the cells hold what the column held that was learned; empty ones fit every kind."""
        kind = find_kind(values, self.name)
        if kind == "nothing":
            values = pyarrow.chunked_array([pyarrow.nulls(len(values), TYPES[self.kind])])
            kind = self.kind
        if self.kind == "category" and kind == "number":
            kind = "category"  # a code such as 7 among codes such as 7b
        if kind != self.kind and {kind, self.kind} != {"number", "boolean"}:
            where = f"in {place(0)}, where a {self.kind} is wanted"
            raise InputError(f"column {self.name!r} holds a {kind} {where}.")
        encoded = replace(self, kind=kind).encode(values)
        bad = ~np.isfinite(encoded).all(axis=1)
        if bad.any():
            where = place(int(np.argmax(bad)))
            raise InputError(f"column {self.name!r} holds infinity in {where}: finite numbers are wanted.")
        return encoded

    def encode(self, values: Any) -> Array:
        """The columns of the matrix, of shape (n, 1) or (n, categories + 1)."""
        if self.kind != "category":
            numbers = to_numbers(values, self.kind)
            numbers = np.where(np.isnan(numbers), self.fill, numbers)
            return ((numbers - self.shift) / self.scale)[:, None]
        texts = pyarrow.compute.fill_null(values.cast(pyarrow.string()), MISSING)
        found = pyarrow.compute.index_in(texts, value_set=pyarrow.array(self.categories, pyarrow.string()))
        codes = np.asarray(pyarrow.compute.fill_null(found, len(self.categories)))
        one_hot = np.zeros((len(codes), len(self.categories) + 1))
        one_hot[np.arange(len(codes)), codes] = 1.0 / self.scale
        return one_hot


def find_kind(values: Any, name: str) -> str:
    """What a column holds, by its type; "nothing" where every cell is missing."""
    return "nothing" if values.null_count == len(values) else name_kind(values.type, name)


def name_kind(kind: Any, name: str) -> str:
    """What a column of a type of pyarrow holds."""
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_null(kind):
        return "nothing"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "date"
    if is_text(kind):
        return "category"
    raise InputError(
        f"column {name!r} is of type {kind}: numbers, texts, truth values or dates are wanted; leave it out."
    )


def to_numbers(values: Any, kind: str) -> NDArray[np.float64]:
    """Cells of a column as float64, NaN where they are missing."""
    if kind == "date":
        if not types.is_timestamp(values.type) or values.type.unit != "us":
            values = values.cast(pyarrow.timestamp("us"), safe=False)
        values = values.cast(pyarrow.int64())
    elif kind == "boolean":
        values = values.cast(pyarrow.int8())
    numbers: NDArray[np.float64] = np.asarray(values.cast(pyarrow.float64(), safe=False).to_numpy(), np.float64)
    return numbers / DAY if kind == "date" else numbers


def is_number(text: str) -> bool:
    """Whether a text is a number."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def is_fraction(text: str) -> bool:
    """Whether a text is a number that is not whole."""
    return is_number(text) and not float(text).is_integer()


def to_texts(values: Any) -> list[str]:
    """Cells of a column as texts; `MISSING` where there is none."""
    texts: list[str] = pyarrow.compute.fill_null(values.cast(pyarrow.string()), MISSING).to_pylist()
    return texts
