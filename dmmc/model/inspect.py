"""Looking at the data: moments, digests, distances, and numbers that are not finite. Each is a pass over a block."""

import hashlib
from typing import Any, NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.errors import InputError


class Limits(NamedTuple):
    """Rows of the matrix (sorted) whose weight is multiplied by a factor."""

    rows: Array
    factors: Array


class Description(NamedTuple):
    """Per feature sums of `x - shift` and its square, and the weight of all rows."""

    first: Array
    second: Array
    weight: float


def describe(block: Block, params: tuple[Array, Limits | None]) -> Description:
    """Moments of a block about a shift."""
    shift, limits = params
    weight = block.weight
    if limits is not None:
        here = slice(*np.searchsorted(limits.rows, (block.start, block.stop)))
        weight = np.ones(block.stop - block.start) if weight is None else weight.copy()
        weight[limits.rows[here] - block.start] *= limits.factors[here]
    first, second = kernels.moments(block.rows, shift, weight)
    return Description(first, second, float(block.stop - block.start if weight is None else weight.sum()))


class Inspection(NamedTuple):
    """One block as it was read."""

    moments: Description
    digest: str
    """Of its bytes."""
    largest: float
    """Largest magnitude."""
    nonfinite: tuple[int, int] | None
    """Where the first NaN or infinity is: row of the matrix, column."""


def inspect(block: Block, shift: Array) -> Inspection:
    """Validate a block: moments, a digest of the bytes, and numbers that are not finite."""
    digest = hashlib.sha256()
    for part in block.rows[:3] if isinstance(block.rows, Csr) else (block.rows,):
        digest.update(part.data)
    largest = magnitude(block)
    bad = None if np.isfinite(largest) else first_nonfinite(block)
    return Inspection(describe(block, (shift, None)), digest.hexdigest(), largest, bad)


def magnitude(block: Block) -> float:
    """The largest magnitude in a block: not finite if any number is not. Integers are taken to be small."""
    values = block.rows.data if isinstance(block.rows, Csr) else block.rows
    if values.dtype.kind != "f" or values.size == 0:
        return 0.0
    return float(np.maximum(values.max(), -values.min()))  # NaN goes through all three


def first_nonfinite(block: Block) -> tuple[int, int]:
    """Row of the matrix and column of the first NaN or infinity of a block that has one."""
    values = block.rows.data if isinstance(block.rows, Csr) else block.rows.reshape(-1)
    return locate(block, int(np.argmin(np.isfinite(values))))


def locate(block: Block, where: int) -> tuple[int, int]:
    """Row of the matrix and column of a block's stored number, counted row by row."""
    rows = block.rows
    if isinstance(rows, Csr):
        row = int(np.searchsorted(rows.indptr, where, side="right")) - 1
        return block.start + row, int(rows.indices[where])
    return block.start + where // rows.shape[1], where % rows.shape[1]


def not_finite(dataset: Rows, where: tuple[int, int]) -> InputError:
    """The sentence about a number that is not finite."""
    names = dataset.feature_names
    column = None if names is None else str(names[where[1]])
    return named_not_finite(dataset.name, where, dataset.take(np.array([where[0]]))[0, where[1]], column)


def named_not_finite(name: str, where: tuple[int, int], value: Any, called: str | None = None) -> InputError:
    """The same, where only the matrix's name and the number are at hand."""
    row, column = where
    what = "NaN" if np.isnan(value) else "infinity"
    where_to = column if called is None else repr(called)
    return InputError(
        f"{name} contains {what} at row {row}, column {where_to}; every number must be finite "
        "(no NaN, no infinity): impute or drop such rows first."
    )


def distances(block: Block, params: tuple[Array, Array]) -> Array:
    """Distance of each row from a centre, features multiplied by `inverse`."""
    return np.sqrt(kernels.squared_distances(block.rows, *params))
