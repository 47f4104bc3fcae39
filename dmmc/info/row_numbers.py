"""Columns that number the rows: ids and row numbers, which say nothing of what a row is like.

A sample of rows tells which columns may be such; only those are then looked at in all rows.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset
from dmmc.info.check_numbers import NAMED, Note, list_features

FEWEST = 20
"""Of fewer rows nothing is said: whole numbers may differ by chance."""
EXACT = 2**53
"""Whole numbers up to here are exact in float64."""
PIECES, PIECE = 4, 256
"""Of a store, so many rows are looked at in so many chunks."""
_PLACE = "index|idx|row|row[ _.-]?(?:id|nr|no|number|index)|unnamed: 0"
BY_PLACE = re.compile(f"(?i:{_PLACE})")
"""Names of columns that may say where a row is, not which."""
BY_NAME = re.compile(f"(?i:(?:.*[ _.-])?(?:id|uid|guid|uuid)|{_PLACE})|.*[a-z]I[dD]")
"""Names of ids, and of those."""
_SHORT = "no|nr|nbr|num|key|sku|seq|ref|ean|upc|gtin|isbn|issn|imei|vin|ssn|iban|#"
_LONG = "number|nummer|num[eé]ro|n[uú]mero|code|c[oó]digo|barcode|serial|sequence|kennung|schl(?:ü|ue)ssel|matricule"
_WHO = (
    "account|acct|article|case|client|cust|customer|device|employee|emp|invoice|item|kunden?|member|order|patient|"
    "person|prod|product|record|sample|session|student|subject|ticket|trans|transaction|txn|user"
)
MAY_NAME = re.compile(
    f"(?i:(?:.*[ _.-])?(?:{_SHORT})|.*(?:{_LONG})|.*#|{_WHO}|(?:.*[ _.-])?(?:{_WHO})s?(?:{_SHORT}|u?id))"
    "|.*[a-z](?:No|Nr|Nbr|Num|Key|Sku|Seq|Ref)"
)
"""Names of numbers that may name the rows, where they never repeat: customer_number, orderNo, sku, userid, patient."""
HEAD = 1000
"""Rows that are looked at before all of them are."""


def list_index_columns(schema: Any) -> list[str]:
    """Columns of a table of pyarrow that pandas has noted to be its index; a ValueError where the note is damaged."""
    noted = schema.pandas_metadata or {}
    told = noted.get("index_columns", []) if isinstance(noted, dict) else None
    if not isinstance(told, list):
        raise ValueError("what pandas has noted of its index is no list")
    return [name for name in told if isinstance(name, str) and name in schema.names]


class Numbers(NamedTuple):
    """How some columns run through consecutive rows; each field has one value a column."""

    first: Array
    last: Array
    low: Array
    high: Array
    whole: NDArray[np.bool_]
    """Whether all are whole numbers, exact in float64."""
    rises: NDArray[np.bool_]
    falls: NDArray[np.bool_]
    total: Array
    """Sum, modulo 2^64."""
    squares: Array
    """Sum of squares, modulo 2^64."""


def describe_columns(values: NDArray[Any]) -> Numbers:
    """How columns run through some rows (at least one)."""
    values = values.astype(np.float64)
    whole = ((values == np.floor(values)) & (np.abs(values) <= EXACT)).all(axis=0)
    step = np.diff(values, axis=0)
    exact = np.where(whole, values, 0.0).astype(np.int64).view(np.uint64)
    low, high = values.min(axis=0), values.max(axis=0)
    rises, falls = np.asarray((step > 0).all(axis=0)), np.asarray((step < 0).all(axis=0))
    total, squares = exact.sum(axis=0), (exact * exact).sum(axis=0)
    return Numbers(values[0], values[-1], low, high, whole, rises, falls, total, squares)


def describe_block(block: Block, columns: Array) -> Numbers:
    """How columns run through a dense block: a pass."""
    return describe_columns(np.asarray(block.rows)[:, columns])


def join(one: Numbers, other: Numbers) -> Numbers:
    """How columns run through the rows of both, `other` after `one`."""
    return Numbers(
        one.first,
        other.last,
        np.minimum(one.low, other.low),
        np.maximum(one.high, other.high),
        one.whole & other.whole,
        one.rises & other.rises & (one.last < other.first),
        one.falls & other.falls & (one.last > other.first),
        one.total + other.total,
        one.squares + other.squares,
    )


def find_candidates(sample: Array, columns: Array, n_rows: int, names: tuple[str, ...] | None) -> Array:
    """Columns that may number n rows, of those that the sample (evenly spaced rows, in order) shows.

    Their numbers are whole and all different, and they rise, fall, lie as near to each other as row numbers, or have
    the name of an id.
    """
    if len(sample) < FEWEST:
        return columns[:0]
    wide = np.ptp(sample, axis=0) >= len(sample) - 1
    some = np.flatnonzero(wide & (sample == np.floor(sample)).all(axis=0))
    found = describe_columns(sample[:, some])
    near = found.rises | found.falls | (found.high - found.low < n_rows)
    good = [
        bool(
            found.whole[i] and (near[i] or has_name(columns[c], names)) and len(np.unique(sample[:, c])) == len(sample)
        )
        for i, c in enumerate(some)
    ]
    return np.asarray(columns[some[np.array(good, bool)]])


def has_name(column: int, names: tuple[str, ...] | None) -> bool:
    """Whether a column is called an id, a row number, or a number that may name the rows."""
    return names is not None and any(known.fullmatch(str(names[column])) for known in (BY_NAME, MAY_NAME))


def are_whole(values: NDArray[Any]) -> bool:
    """Whether all are whole numbers, exact in float64."""
    numbers = values.astype(np.float64, copy=False)
    return bool(((numbers == np.floor(numbers)) & (np.abs(numbers) <= EXACT)).all())


def never_repeats(values: NDArray[Any]) -> bool:
    """Whether a column (n,) holds whole numbers that are all different, of more than a few rows."""
    if len(values) < FEWEST or values.dtype.kind not in "iuf":
        return False
    parts = (values[:HEAD], values) if len(values) > HEAD else (values,)
    return all(are_whole(part) and len(np.unique(part)) == len(part) for part in parts)


def are_spread(low: float, high: float, n_rows: int) -> bool:
    """Whether whole numbers lie too far apart to be 1, 2, 3 and so on, of which `tell` tells."""
    return high - low >= n_rows


def list_unrepeated(columns: Iterable[tuple[str, NDArray[Any]]]) -> list[str]:
    """Names of columns of whole numbers that never repeat and are no row numbers."""
    return [
        name
        for name, values in columns
        if never_repeats(values) and are_spread(float(values.min()), float(values.max()), len(values))
    ]


def tell_unrepeated(names: Sequence[str]) -> str:
    """The sentence about used columns of whole numbers that never repeat."""
    many = len(names) > 1
    listed = ", ".join(map(repr, names[:NAMED])) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    return (
        f"column{'s' * many} {listed} hold{'s' * (not many)} whole numbers that never repeat, and count"
        f"{'s' * (not many)} like all others: if they only name the rows, leave them out (--drop, drop=)."
    )


def confirm(
    candidates: Array,
    n_rows: int,
    names: tuple[str, ...] | None,
    read: Callable[[Array], Iterable[Numbers]],
) -> Array:
    """The candidates that number the rows: by their name, or as all rows are 1, 2, 3 and so on, or rise or fall.

    read : how columns run through the rows, part by part, in order
    """
    named = np.array([has_name(column, names) for column in candidates], bool)
    others = candidates[~named]
    if len(others):
        found = reduce(join, read(others))
        good = found.whole & (found.rises | found.falls | _are_consecutive(found, n_rows))
        others = others[good]
    return np.sort(np.concatenate([candidates[named], others]))


def _are_consecutive(found: Numbers, n_rows: int) -> NDArray[np.bool_]:
    """Whether n whole numbers are all of those between the lowest and the highest: by their sums, with squares."""

    def squares_to(m: int) -> int:
        return m * (m + 1) * (2 * m + 1) // 6

    good = []
    for low, high, total, squares in zip(found.low, found.high, found.total, found.squares, strict=True):
        a, b = int(low), int(high)
        sums = (a + b) * n_rows // 2, squares_to(b) - squares_to(a - 1)
        good.append(b - a == n_rows - 1 and (int(total), int(squares)) == (sums[0] % 2**64, sums[1] % 2**64))
    return np.array(good, bool)


def tell(name: str, columns: Array, names: tuple[str, ...] | None) -> str:
    """The sentence about columns that number the rows."""
    listed = list_features(columns, names)
    return Note(
        f"{name} seems to have ids or row numbers among its features: {listed} (whole numbers, all different); they "
        "count like all others, so leave them out if they say nothing of a row."
    )


def find_in_dataset(dataset: Dataset) -> list[str]:
    """A sentence about columns of a dense matrix in memory, if there is one to say."""
    if dataset.is_sparse:
        return []
    n_rows, names = dataset.n_rows, dataset.feature_names
    count = min(n_rows, PIECES * PIECE)
    sample = np.asarray(dataset.take(np.arange(count) * n_rows // count), np.float64)
    candidates = find_candidates(sample, np.arange(dataset.n_features), n_rows, names)
    columns = confirm(candidates, n_rows, names, lambda some: (describe_block(block, some) for block in dataset.blocks))
    return [tell(dataset.name, columns, names)] if len(columns) else []


def find_in_zarr(array: Any, name: str, names: tuple[str, ...] | None, *, check: bool) -> list[str]:
    """A sentence about columns of a dense zarr array, if there is one to say: by a few chunks, or by all of them."""
    n_rows, step = array.shape[0], array.chunks[0]
    n_chunks = -(-n_rows // step)
    starts = [step * (i * n_chunks // min(PIECES, n_chunks)) for i in range(min(PIECES, n_chunks))]

    def read(columns: Array) -> Iterable[Numbers]:
        whole = range(0, n_rows, step)
        return (describe_columns(np.asarray(array[at : at + step])[:, columns]) for at in whole)

    try:
        sample = np.concatenate([np.asarray(array[at : at + min(step, PIECE)], np.float64) for at in starts])
        candidates = find_candidates(sample, np.arange(array.shape[1]), n_rows, names)
        columns = confirm(
            candidates, n_rows, names, read if check else lambda some: [describe_columns(sample[:, some])]
        )
    except Exception:  # a chunk that cannot be read: that is said elsewhere
        return []
    return [tell(name, columns, names)] if len(columns) else []
