"""Centre and scale of the data, worked out once and then applied implicitly (docs/mathematics.md, "Conventions").

Rows are seen as `(x - mean) / unit`, with root mean squared norm 1. Nothing is ever computed on a shifted or scaled
copy: hyperplanes are folded into raw coordinates on the way to the data, sums are centred on the way back.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import fill_columns
from dmmc.data.dataset import Rows
from dmmc.errors import ClusteringWarning, InputError, NotFeasible, warn
from dmmc.info import row_numbers
from dmmc.machine import free_memory
from dmmc.model import inspect, passes
from dmmc.model.inspect import Description, Inspection, Limits

SAMPLE_ROWS = 1024
"""Evenly spaced rows that give a centre and a spread which no single row can move."""
WIDELY, SOMEWHAT = 10.0, 3.0
"""Features are standardised where the largest spread is more than so many times that of the lowest tenth; beyond the
second it is not clear whether they should be."""
TENTH = 0.1
TABLE, UNCORRELATED = 64, 0.25
"""Columns that a table has at most, and correlations in a sample below which columns are principal components."""
FAR = 10.0
"""A row farther from the centre than this many times the median row has its influence limited."""
HOPELESS = 1e15
"""A row farther than this would overflow float32 when squared."""
EQUAL = 1e-6
"""Rows of a part that differ by less than this fraction of the whole do not differ."""
DENSE_ROWS = 8
"""Hyperplanes, means and scales that a fit holds at least."""
LARGEST = {np.float32: 1e30, np.float64: 1e150}
"""Numbers beyond this overflow when they are squared and summed in the compute type."""


@dataclass(frozen=True)
class Geometry:
    """`x -> (x - mean) / unit`, and back.

    mean : (d,)
    unit : (d,), the root mean squared norm, times each feature's standard deviation where features are standardised
    total : sum of the rows' weights
    standardised : whether features were put on one scale
    fingerprint : digest of the data
    norm : root mean squared norm of the centred rows, of standardised ones where they are
    unclear : whether features were left as they are, though their spreads differ
    """

    mean: Array
    unit: Array
    total: float
    standardised: bool
    fingerprint: str
    norm: float = 1.0
    unclear: bool = False

    def raw(self, W: Array, b: Array, price: Array | None = None) -> passes.Hyperplanes:
        """Hyperplanes on centred and scaled rows, as hyperplanes on the rows as they are."""
        folded = W / self.unit
        return passes.Hyperplanes(folded, b - folded @ self.mean, np.zeros_like(b) if price is None else price)

    def centre(self, weighted: Array, tilt: Array) -> Array:
        """Mean of `coef * row` from the sums of `coef * raw row` and of `coef`."""
        out: Array = (weighted - tilt[..., None] * self.mean) / (self.unit * self.total)
        return out

    def apply(self, rows: Any) -> Any:
        """A few rows, centred and scaled: dense float32; sparse rows are only scaled (distances do not change)."""
        if not isinstance(rows, np.ndarray):
            return rows.astype(np.float64).multiply(1.0 / self.unit).tocsr()
        return ((rows - self.mean) / self.unit).astype(np.float32)


def measure(dataset: Rows, run: Callable[..., Iterable[Any]], scale: str, lower: bool = True) -> tuple[Geometry, Rows]:
    """Validate the data and find its geometry.

    1. one pass reads every number: NaN and infinity are named, moments and the fingerprint computed
    2. a sample of rows tells whether feature scales differ widely, whatever a few rows may hold
    3. one pass measures each row's distance from the centre; gross outliers get a small weight, with a warning
    4. only if there were any: the moments again, with those weights

    dataset : Dataset or Stored
    run : the engine's `rows`: a pass over the blocks, one result a block
    scale : "auto", "standard" or "none"
    lower : whether gross outliers get a small weight
    Returns geometry, and the dataset with the weights of outliers lowered (or as it was)
    """
    _check_width(dataset)
    shift = _take_row(dataset, 0)
    found = list(run(inspect.inspect, shift))  # 1
    _check_numbers(dataset, found)
    total, mean, variance = _moments([block.moments for block in found], shift)
    weight = np.broadcast_to(1.0, dataset.n_rows) if dataset.weight is None else dataset.weight
    if not total > 0:
        raise InputError("the sample weights of all rows are 0; at least one row must count.")
    sample = _look_at_sample(dataset, weight)  # 2
    _warn_of_row_numbers(dataset, run, sample.numbers)
    standardise = scale == "standard" or (scale == "auto" and sample.differs_widely)
    unclear = scale == "auto" and sample.differs_somewhat and not standardise
    # a feature that hardly ever moves has no spread but that of its few rows
    spread = np.where(sample.spread > 0, sample.spread, np.sqrt(variance))
    inverse = 1.0 / np.where(spread > 0, spread, 1.0) if standardise else np.ones(dataset.n_features)

    def find_distances() -> Array:
        blocks = run(inspect.distances, (sample.centre, inverse))
        return fill_columns(((block,) for block in blocks), dataset.n_rows)[0]

    limits, nearest = _find_limits(dataset, find_distances, weight, lower)  # 3
    if limits is not None:
        shift = _take_row(dataset, nearest)
        total, mean, variance = _moments(run(inspect.describe, (shift, limits)), shift)  # 4
        weight = weight.copy()
        weight[limits.rows] *= limits.factors
        dataset = dataset.with_columns(weight=weight)
    deviation = np.sqrt(np.where(variance > 0, variance, 1.0)) if standardise else np.ones(dataset.n_features)
    norm = float(np.sqrt(np.sum(variance / deviation**2)))
    unit = norm * deviation
    _check_spread(dataset, unit[variance > 0], [block.moments for block in found])
    return Geometry(mean, unit, total, standardise, _fingerprint(dataset, found), norm, unclear), dataset


def measure_part(dataset: Rows, run: Callable[..., Iterable[Any]], whole: Geometry) -> Geometry | None:
    """The geometry of the rows that have weight, features on the scale of the whole; None where they do not differ."""
    total, mean, variance = _moments(run(inspect.describe, (whole.mean, None)), whole.mean)
    spread = float(np.sqrt(np.sum(variance / whole.unit**2)))
    if not (total > 0 and spread > EQUAL):
        return None
    return replace(whole, mean=mean, unit=spread * whole.unit, total=total)


def measure_more(dataset: Rows, run: Callable[..., Iterable[Any]], before: Geometry) -> tuple[Geometry, Geometry]:
    """The geometry when more rows have come: their mean joins that of the earlier ones, the unit stays.

    Returned twice: with the weight of the new rows alone, and with that of all.
    """
    found = list(run(inspect.inspect, before.mean))
    _check_numbers(dataset, found)
    total, mean, _ = _moments([block.moments for block in found], before.mean)
    every = before.total + total
    joint = replace(before, mean=before.mean + (total / every) * (mean - before.mean), total=every)
    return replace(joint, total=total), joint


def _check_width(dataset: Rows) -> None:
    """A few rows of float64, which every method holds, fit into memory, however sparse the data are."""
    wanted, free = 8 * dataset.n_features * DENSE_ROWS, free_memory()
    if free is not None and wanted > free:
        raise InputError(
            f"{dataset.name} has {dataset.n_features} features: {DENSE_ROWS} dense rows of them need "
            f"{wanted / 1e6:.0f} MB, and {free / 1e6:.0f} MB are free."
        )


def _check_numbers(dataset: Rows, found: list[Inspection]) -> None:
    """Numbers are finite, and small enough to be squared and added up."""
    for block in found:
        if block.nonfinite is not None:
            raise inspect.not_finite(dataset, block.nonfinite)
    largest = max(block.largest for block in found)
    if largest > LARGEST[kernels.compute_dtype(dataset.dtype)]:
        raise InputError(
            f"{dataset.name} holds numbers as large as {largest:.3g}, so large that their squares overflow "
            f"in {dataset.dtype}; rescale the data."
        )


def _check_spread(dataset: Rows, units: Array, parts: list[Description]) -> None:
    """Rows differ, and by enough to divide by: `units` are those of the features that vary."""
    if len(units) and units.min() > 1.0 / LARGEST[kernels.compute_dtype(dataset.dtype)]:
        return
    if len(units) or any(part.first.any() for part in parts):
        raise NotFeasible(
            f"the rows of {dataset.name} differ by so little that the squares of their differences vanish in "
            f"{dataset.dtype}; rescale the data."
        )
    raise NotFeasible(
        f"all {dataset.n_rows} rows of {dataset.name} are equal (or only rows of weight 0 differ); "
        "clustering needs rows that differ."
    )


def _fingerprint(dataset: Rows, found: list[Inspection]) -> str:
    digest = hashlib.sha256(f"{dataset.n_rows} {dataset.n_features} {dataset.dtype.str}".encode())
    digest.update("".join(block.digest for block in found).encode())
    return digest.hexdigest()


def _moments(parts: Iterable[Description], shift: Array) -> tuple[float, Array, Array]:
    """Total weight, mean and variance from the blocks' sums about the shift."""
    first, second, weights = zip(*parts, strict=True)
    total = sum(weights)
    mean = np.sum(first, axis=0) / (total or 1.0)
    variance = np.sum(second, axis=0) / (total or 1.0) - mean**2
    # what is left of a constant feature is rounding
    return total, mean + shift, np.where(variance > 1e-14 * mean**2, variance, 0.0)


def _take_row(dataset: Rows, number: int) -> Array:
    """A row to take moments about: nearer to the mean than 0 is, and a constant feature is exactly 0 from it."""
    row = dataset.take(np.array([number]))
    row = (row.toarray() if dataset.is_sparse else row)[0].astype(np.float64)
    return np.where(np.isfinite(row), row, 0.0)


class _Sample(NamedTuple):
    centre: Array
    """Median of each feature."""
    spread: Array
    """95 % quantile of the distance from it: 0 where a feature hardly ever moves."""
    differs_widely: bool
    differs_somewhat: bool
    numbers: Array
    """Columns that may number the rows."""


def _look_at_sample(dataset: Rows, weight: Array) -> _Sample:
    """Centre and spread of evenly spaced rows; whether spreads differ as those of different units do.

    Features that move in most rows are compared: others (words, rare events) differ in frequency rather than in unit.
    Where all of them lie on both sides of 0 and are uncorrelated (principal components) or many (embeddings), somebody
    has chosen the scale; a few correlated ones are a table that was centred.
    """
    count = min(dataset.n_rows, SAMPLE_ROWS)
    chosen = np.arange(count) * dataset.n_rows // count
    rows, omega = dataset.take(chosen), weight[chosen]
    if not omega.any():
        omega = np.ones(count)
    d = dataset.n_features
    centre, spread, moves, around = np.zeros(d), np.zeros(d), np.zeros(d, bool), np.zeros(d, bool)
    columns, numbers = np.arange(d), [np.zeros(0, np.int64)]
    if dataset.is_sparse:
        rows = rows.tocsc()
        # the others are 0 in at least 95 % of the rows, so both quantiles are 0
        columns = np.flatnonzero((rows != 0).T @ omega >= 0.05 * omega.sum())
    for start in range(0, len(columns), 256):
        some = columns[start : start + 256]
        part = rows[:, some]
        part = np.asarray(part.toarray() if dataset.is_sparse else part, np.float64)
        centre[some] = _quantile(part, omega, 0.5)
        away = np.abs(part - centre[some])
        spread[some] = _quantile(away, omega, 0.95)
        moves[some] = _quantile(away, omega, 0.5) > 0
        if not dataset.is_sparse:
            numbers.append(row_numbers.find_candidates(part, some, dataset.n_rows, dataset.feature_names))
        around[some] = np.minimum(omega @ (part < 0), omega @ (part > 0)) >= TENTH * omega.sum()
    widely = somewhat = False
    if moves.any():
        ratio = spread[moves].max() / np.quantile(spread[moves], TENTH, method="inverted_cdf")
        chosen_by_others = around[moves].all() and _look_like_components(rows, moves)
        widely, somewhat = bool(ratio > WIDELY and not chosen_by_others), bool(ratio > SOMEWHAT)
    return _Sample(centre, spread, widely, somewhat, np.concatenate(numbers))


def _look_like_components(rows: Any, moves: Array) -> bool:
    """Whether columns that move in a sample of rows are uncorrelated, or more than those of a table."""
    if not isinstance(rows, np.ndarray) or not 1 < np.count_nonzero(moves) <= TABLE:
        return True
    correlation = np.asarray(np.corrcoef(rows[:, moves].astype(np.float64), rowvar=False))
    return bool(np.abs(np.triu(correlation, 1)).max() < UNCORRELATED)


def _warn_of_row_numbers(dataset: Rows, run: Callable[..., Iterable[Any]], candidates: Array) -> None:
    """Warn of columns that number the rows; candidates are looked at in all rows, by one more pass."""
    names = dataset.feature_names
    found = row_numbers.confirm(
        candidates, dataset.n_rows, names, lambda columns: run(row_numbers.describe_block, columns)
    )
    if len(found):
        warn(row_numbers.tell(dataset.name, found, names), ClusteringWarning)


def _quantile(values: Array, weight: Array, q: float) -> Array:
    """Per column, the least value at or below which there is the fraction q of the weight."""
    if (weight == weight[0]).all():
        return np.asarray(np.quantile(values, q, axis=0, method="inverted_cdf"))
    order = np.argsort(values, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)
    at = np.minimum((below < q * weight.sum()).sum(axis=0), len(values) - 1)
    return np.asarray(values[order[at, np.arange(values.shape[1])], np.arange(values.shape[1])])


def _find_limits(
    dataset: Rows, find_distances: Callable[[], Array], weight: Array, lower: bool
) -> tuple[Limits | None, int]:
    """Let a row beyond FAR times the median distance count as much, in the second moment, as a median row.

    find_distances : a pass, gives the distance (n,) of each row; where rows weigh the same, it may be made twice
    lower : whether the weights of such rows are to be lowered at all
    Returns the limits, None where there are none, and the number of the row with the least distance.
    """
    far = find_distances()
    if (weight == weight[0]).all():
        middle = (len(far) - 1) // 2
        far.partition(middle)  # in place, as a copy of all of them is what memory is short of
        typical = float(far[middle])
        if not far.max() > FAR * typical > 0:
            return None, 0
        far = find_distances()
    else:
        typical = float(_quantile(far[:, None], weight, 0.5)[0])
    outlying = np.flatnonzero((far > FAR * typical) & (weight > 0)) if typical > 0 else np.zeros(0, int)
    if len(outlying) == 0 or weight[outlying].sum() > 0.05 * weight.sum():
        return None, 0
    worst = int(outlying[np.argmax(far[outlying])])
    times = far[worst] / typical
    if times > HOPELESS:
        raise InputError(
            f"row {worst} of {dataset.name} lies {times:.3g} times as far out as the median row, too far to compute "
            "with; correct or drop it."
        )
    if not lower:
        return None, 0
    warn(
        f"{len(outlying)} of {dataset.n_rows} rows lie more than {FAR:g} times as far out as the median row "
        f"(row {worst}: {times:.3g} times); they get a cluster, but little influence on where it is.",
        ClusteringWarning,
    )
    return Limits(outlying, (typical / far[outlying]) ** 2), int(far.argmin())
