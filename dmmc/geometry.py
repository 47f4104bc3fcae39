"""Centre and scale of the data, worked out once and then applied implicitly (MATH.md section 1).

Rows are seen as `(x - mean) / unit`, with root mean squared norm 1. Nothing is ever computed on a shifted or scaled
copy: hyperplanes are folded into raw coordinates on the way to the data, sums are centred on the way back.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc import passes
from dmmc.data import Dataset
from dmmc.errors import ClusteringWarning, InputError

Array = NDArray[Any]

SAMPLE_ROWS = 1024
"""Evenly spaced rows that give a centre and a spread which no single row can move."""
WIDELY = 30.0
"""Features are standardised where the largest spread is this many times the median one."""
FAR = 10.0
"""A row farther from the centre than this many times the median row has its influence limited."""


@dataclass(frozen=True)
class Geometry:
    """`x -> (x - mean) / unit`, and back.

    Parameters
    ----------
    mean : (d,)
    unit : (d,), the root mean squared norm, times each feature's standard deviation where features are standardised
    total : sum of the rows' weights
    standardised : whether features were put on one scale
    fingerprint : digest of the data
    """

    mean: Array
    unit: Array
    total: float
    standardised: bool
    fingerprint: str

    def raw(self, W: Array, b: Array, price: Array | None = None) -> passes.Hyperplanes:
        """Hyperplanes on centred and scaled rows, as hyperplanes on the rows as they are."""
        folded = W / self.unit
        return passes.Hyperplanes(folded, b - folded @ self.mean, np.zeros_like(b) if price is None else price)

    def centred(self, weighted: Array, tilt: Array) -> Array:
        """Mean of `coef * row` from the sums of `coef * raw row` and of `coef`."""
        out: Array = (weighted - tilt[..., None] * self.mean) / (self.unit * self.total)
        return out

    def apply(self, rows: Any) -> Any:
        """A few rows, centred and scaled: dense float32; sparse rows are only scaled (distances do not change)."""
        if not isinstance(rows, np.ndarray):
            return rows.astype(np.float64).multiply(1.0 / self.unit).tocsr()
        return ((rows - self.mean) / self.unit).astype(np.float32)


def measure(dataset: Dataset, run: Callable[..., Iterable[Any]], scale: str) -> tuple[Geometry, Dataset]:
    """Validate the data and find its geometry.

    1. one pass reads every number: NaN and infinity are named, moments and the fingerprint computed
    2. a sample of rows tells whether feature scales differ widely, whatever a few rows may hold
    3. one pass measures each row's distance from the centre; gross outliers get a small weight, with a warning
    4. only if there were any: the moments again, with those weights

    Parameters
    ----------
    dataset : Dataset
    run : the engine's `rows`: a pass over the blocks, one result a block
    scale : "auto", "standard" or "none"

    Returns
    -------
    geometry, and the dataset with the weights of outliers lowered (or as it was)
    """
    shift = _shift(dataset)
    found = list(run(passes.inspect, shift))
    for inspection in found:
        if inspection.nonfinite is not None:
            raise passes.not_finite(dataset, inspection.nonfinite)
    digest = hashlib.sha256(f"{dataset.n_rows} {dataset.n_features} {dataset.dtype.str}".encode())
    digest.update("".join(inspection.digest for inspection in found).encode())
    fingerprint = digest.hexdigest()
    sample = _spread(dataset)  # 2
    standardise = scale == "standard" or (scale == "auto" and sample.differs_widely)
    inverse = 1.0 / sample.spread if standardise else np.ones(dataset.n_features)
    far = np.concatenate(list(run(passes.distances, (sample.centre, inverse))))  # 3
    dataset, limited = _limit(dataset, far)
    parts = [inspection.moments for inspection in found]
    if limited:
        shift = np.zeros(dataset.n_features) if dataset.is_sparse else sample.centre
        parts = [passes.describe(block, shift) for block in dataset.blocks]  # 4
    total = sum(part.weight for part in parts)
    if not total > 0:
        raise InputError("the sample weights of all rows are 0; at least one row must count.")
    mean_shifted = np.sum([part.first for part in parts], axis=0) / total
    variance = np.sum([part.second for part in parts], axis=0) / total - mean_shifted**2
    mean = mean_shifted if dataset.is_sparse else mean_shifted + shift
    # a constant feature has no variance but rounding
    floor = 1e-14 * (mean_shifted**2 + 1e-300)
    variance = np.where(variance > floor, variance, 0.0)
    if not np.isfinite(variance.sum()):
        raise InputError(f"{dataset.name} holds numbers so large that their squares overflow; rescale the data.")
    if not variance.sum() > 0:
        raise InputError(
            f"all {dataset.n_rows} rows of {dataset.name} are equal (or only rows of weight 0 differ); "
            "clustering needs rows that differ."
        )
    deviation = np.sqrt(np.where(variance > 0, variance, 1.0)) if standardise else np.ones(dataset.n_features)
    norm = np.sqrt(np.sum(variance / deviation**2))
    return Geometry(mean, norm * deviation, total, standardise, fingerprint), dataset


def _shift(dataset: Dataset) -> Array:
    """The first row: near enough to the mean that squares do not cancel; a constant feature is exactly 0 from it."""
    if dataset.is_sparse:
        return np.zeros(dataset.n_features)
    row = dataset.take(np.array([0]))[0].astype(np.float64)
    return np.where(np.isfinite(row), row, 0.0)


@dataclass(frozen=True)
class _Spread:
    centre: Array
    spread: Array
    differs_widely: bool


def _spread(dataset: Dataset) -> _Spread:
    """Median and the 95 % quantile of the distance from it, per feature, of evenly spaced rows."""
    d = dataset.n_features
    if dataset.is_sparse:
        # the zeros are the centre, and features of text differ in frequency, not in unit
        return _Spread(np.zeros(d), np.ones(d), False)
    count = min(dataset.n_rows, SAMPLE_ROWS)
    rows = dataset.take(np.arange(count) * dataset.n_rows // count).astype(np.float64)
    centre = np.median(rows, axis=0)
    spread = np.quantile(np.abs(rows - centre), 0.95, axis=0)
    moving = spread > 0
    widely = bool(moving.any() and spread.max() > WIDELY * np.median(spread[moving]))
    return _Spread(centre, np.where(moving, spread, 1.0), widely)


def _limit(dataset: Dataset, far: Array) -> tuple[Dataset, bool]:
    """Let a row beyond FAR times the median distance count as much, in the second moment, as a median row."""
    typical = float(np.median(far))
    outlying = np.flatnonzero(far > FAR * typical) if typical > 0 else np.zeros(0, int)
    if len(outlying) == 0 or len(outlying) > 0.05 * dataset.n_rows:
        return dataset, False
    weight = np.concatenate(
        [np.ones(block.stop - block.start) if block.weight is None else block.weight for block in dataset.blocks]
    )
    weight[outlying] *= (typical / far[outlying]) ** 2
    worst = int(outlying[np.argmax(far[outlying])])
    warnings.warn(
        f"{len(outlying)} of {dataset.n_rows} rows lie more than {FAR:g} times as far out as the median row "
        f"(row {worst}: {far[worst] / typical:.3g} times); they get a cluster, but little influence on where it is.",
        ClusteringWarning,
        stacklevel=4,
    )
    return dataset.with_columns(weight=weight), True
