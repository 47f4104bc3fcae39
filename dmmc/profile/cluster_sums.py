"""Sums of the raw columns over the rows of each cluster, in one pass over the data."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.errors import InputError
from dmmc.model.passes import Oracle, take
from dmmc.profile.units import Units

SHIFT_ROWS = 1000
"""Rows whose mean the sums are taken about, so that squares of large numbers do not cancel."""


class Ask(NamedTuple):
    """Parameters of the pass."""

    n_groups: int
    """Labels that came with the rows are 0 to n_groups - 1."""
    shift: Array
    """(d,) what is subtracted from each row."""


class ClusterSums(NamedTuple):
    """Stats of the pass: they add."""

    rows: Array
    """(groups,) how many rows there are."""
    first: Array
    """(groups, d) sums of x - shift."""
    nonzero: Array
    """(groups, d) uint32, how many numbers are not 0."""
    second: Array
    """(d,) sum of (x - shift)² over all rows."""


def sum_clusters(block: Block, ask: Ask) -> ClusterSums:
    """The pass: sums of a block's rows, group by group; their groups are the labels that came with them."""
    if block.given is None:
        raise InputError("sums of clusters are asked for, and these rows have no labels.")
    shape = (ask.n_groups, len(ask.shift))
    counts, second = np.bincount(block.given, minlength=shape[0]), np.zeros(shape[1])
    sums = ClusterSums(counts, np.zeros(shape), np.zeros(shape, np.uint32), second)
    for group in np.flatnonzero(counts):
        rows = take(block.rows, np.flatnonzero(block.given == group))
        sums.first[group], squares = kernels.moments(rows, ask.shift)
        sums.nonzero[group] = _count_nonzero(rows)
        second += squares
    return sums


def _count_nonzero(rows: Array | Csr) -> Array:
    """How many numbers of each column are not 0."""
    if isinstance(rows, Csr):
        return np.asarray(np.bincount(rows.indices[rows.data != 0], minlength=rows.n_features))
    return np.asarray(np.count_nonzero(rows, axis=0))


class Comparison(NamedTuple):
    """Columns inside and outside of one cluster; NaN where there are no rows."""

    inside: Array
    """(d,) mean of a column over the cluster's rows."""
    outside: Array
    """(d,) its mean over all other rows."""
    present_inside: Array
    """(d,) part of the cluster's rows in which the column is not 0."""
    present_outside: Array
    """(d,) the same of all other rows."""


@dataclass(frozen=True, eq=False)
class ColumnMeans:
    """What the sums say of columns and clusters.

    sums : of k clusters, and of the rows that belong to none
    shift : (d,) what they are taken about
    """

    sums: ClusterSums
    shift: Array

    @property
    def n_rows(self) -> int:
        """Rows of all clusters, and of none."""
        return int(self.sums.rows.sum())

    @property
    def sizes(self) -> Array:
        """(k,) rows of each cluster."""
        return self.sums.rows[:-1]

    @property
    def present(self) -> Array:
        """(d,) part of all rows in which a column is not 0."""
        return np.asarray(self.sums.nonzero.sum(axis=0, dtype=np.float64) / self.n_rows)

    @property
    def mean(self) -> Array:
        """(d,) mean of all rows."""
        return np.asarray(self.sums.first.sum(axis=0) / self.n_rows + self.shift)

    @property
    def spread(self) -> Array:
        """(d,) standard deviation of all rows."""
        mean = self.sums.first.sum(axis=0) / self.n_rows
        return np.asarray(np.sqrt(np.maximum(self.sums.second / self.n_rows - mean**2, 0.0)))

    @property
    def centres(self) -> Array:
        """(k, d) float32, mean of each cluster; 0 without rows."""
        found = np.empty((len(self.sizes), len(self.shift)), np.float32)
        for cluster in range(len(found)):
            found[cluster] = np.nan_to_num(self.compare(cluster).inside)
        return found

    def compare(self, cluster: int) -> Comparison:
        """Columns inside and outside of a cluster."""
        rows, first, nonzero, _ = self.sums
        here, elsewhere = rows[cluster], self.n_rows - rows[cluster]
        total, count = first.sum(axis=0), nonzero.sum(axis=0, dtype=np.int64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return Comparison(
                first[cluster] / here + self.shift,
                (total - first[cluster]) / elsewhere + self.shift,
                nonzero[cluster] / here,
                (count - nonzero[cluster]) / elsewhere,
            )

    def restore(self, units: Units) -> Self:
        """The same columns in other units."""
        rows, first, nonzero, second = self.sums
        sums = ClusterSums(rows, first * units.scale, nonzero, second * units.scale**2)
        return replace(self, sums=sums, shift=units.restore(self.shift))

    def reorder(self, number: Array) -> Self:
        """The same clusters with other numbers: `number` (k,) is the new one of each."""
        order = np.append(np.argsort(number), len(number))
        rows, first, nonzero, second = self.sums
        return replace(self, sums=ClusterSums(rows[order], first[order], nonzero[order], second))


def find_means(dataset: Rows, use: Callable[[Rows], None], run: Oracle, labels: Array, k: int) -> ColumnMeans:
    """Means of the raw columns of each cluster, and of all other rows, by one pass.

    dataset : the rows
    use, run : of an engine over them: replace the labels that come with the rows; sum a pass over them
    labels : (n,) 0 to k - 1; rows with -1 belong to no cluster
    """
    shift = _choose_shift(dataset)
    use(dataset.with_columns(given=np.where(labels < 0, k, labels) if labels.min() < 0 else labels))
    return ColumnMeans(run(sum_clusters, Ask(k + 1, shift)), shift)


def _choose_shift(dataset: Rows) -> Array:
    """The mean of evenly spaced rows; 0 for sparse rows, most of whose numbers are 0."""
    if dataset.is_sparse:
        return np.zeros(dataset.n_features)
    rows = np.unique(np.linspace(0, dataset.n_rows - 1, min(SHIFT_ROWS, dataset.n_rows)).astype(np.int64))
    mean: Array = np.asarray(dataset.take(rows), np.float64).mean(axis=0)
    return mean
