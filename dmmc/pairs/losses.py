"""What linked rows pay: must-links for being apart, cannot-links for being on one side (003; E14, E15).

Linked rows are few, so they are gathered once and their losses are worked out by the driver. All are convex whatever
the labels, so a plane of theirs stays valid for a whole search.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Labelling
from dmmc.pairs.closure import Pairs

MUST, CANNOT = 1, 2
"""Groups of planes; 0 is the margin's."""


class Cut(NamedTuple):
    """The mean loss of one kind of links at a point, and its plane there: a loss is at least `-slope.w - tilt.b`."""

    group: int
    loss: float
    slope: Array
    tilt: Array


def gather_rows(dataset: Rows, wanted: Array) -> Array | Csr:
    """A few rows of a data set, as the kernels read them."""
    rows = dataset.take(wanted)
    if isinstance(rows, np.ndarray):
        return rows
    columns = np.uint32 if rows.indices.dtype == np.int32 or dataset.n_features < 2**31 else np.uint64
    return Csr(rows.data, rows.indices.astype(columns), rows.indptr.astype(np.int64), dataset.n_features)


@dataclass(eq=False)
class PairLosses:
    """Weighted mean losses of must-links and of cannot-links."""

    rows: Array | Csr
    """The linked rows as they are, each once."""
    must: Pairs
    """Pairs of places in `rows`."""
    cannot: Pairs
    geometry: Geometry
    """Of the data that they are from."""
    C_must: float
    C_cannot: float
    """Weights of the two means."""
    _last: tuple[Array, Array, Array] | None = field(default=None, init=False)

    def value(self, W: Array, b: Array) -> float:
        """Weighted sum of both means at hyperplanes on centred rows."""
        f = self._scores(W, b)
        apart, _ = self._apart(f)
        together, _ = self._together(f)
        return self.C_must * apart + self.C_cannot * together

    def cuts(self, W: Array, b: Array) -> list[Cut]:
        """Losses and planes of the kinds of links that there are."""
        f = self._scores(W, b)
        found = []
        if len(self.must.ends):
            loss, coef = self._apart(f)
            slope, _ = self._mean(coef)
            found.append(Cut(MUST, loss, slope, np.zeros(len(W))))
        if len(self.cannot.ends):
            loss, coef = self._together(f)
            slope, tilt = self._mean(coef)
            if len(W) > 1:  # the mean over the clusters is not paid for
                slope, tilt = slope - slope.mean(axis=0), tilt - tilt.mean()
            found.append(Cut(CANNOT, loss, slope, tilt))
        return found

    def broken(self, labelling: Labelling) -> float:
        """The share of must-links that labels break, and that of cannot-links."""
        n = self.rows.n_rows if isinstance(self.rows, Csr) else len(self.rows)
        labels = labelling.of(Block(0, 0, n, self.rows))
        shares = 0.0
        for pairs, wanted in ((self.must, True), (self.cannot, False)):
            together = labels[pairs.ends[:, 0]] == labels[pairs.ends[:, 1]]
            shares += float(np.sum(_share(pairs)[:, 0] * (together != wanted)))
        return shares

    def _scores(self, W: Array, b: Array) -> Array:
        """Scores of the linked rows; those of the last point are kept, as its planes are asked for after its value."""
        if self._last is None or not (np.array_equal(self._last[0], W) and np.array_equal(self._last[1], b)):
            planes = self.geometry.raw(W, b)
            self._last = W, b, kernels.scores(self.rows, planes.W, wide=len(W) > 1) + planes.b
        return self._last[2]

    def _apart(self, f: Array) -> tuple[float, Array]:
        """Mean over must-links of `sum_r |f_r(x1) - f_r(x2)|`, and how much each row counts in its slope."""
        share = _share(self.must)
        one, other = self.must.ends.T
        t = f[one] - f[other]
        pull = share * np.sign(t)
        return float(np.sum(share * np.abs(t))), _sum_pulls(one, pull, f) - _sum_pulls(other, pull, f)

    def _together(self, f: Array) -> tuple[float, Array]:
        """Mean over cannot-links of `|f(x1) + f(x2)|`, or of `max_r h_r - mean_r h_r`, h = f(x1) + f(x2)."""
        share = _share(self.cannot)
        one, other = self.cannot.ends.T
        h = f[one] + f[other]
        if f.shape[1] == 1:
            loss, pull = np.abs(h), share * np.sign(h)
        else:
            loss = (h.max(axis=1) - h.mean(axis=1))[:, None]
            pull = share * (np.arange(f.shape[1]) == h.argmax(axis=1)[:, None])
        return float(np.sum(share * loss)), _sum_pulls(one, pull, f) + _sum_pulls(other, pull, f)

    def _mean(self, coef: Array) -> tuple[Array, Array]:
        """Minus the sums of `coef * row` on centred rows, and of `coef`."""
        values = self.rows.data if isinstance(self.rows, Csr) else self.rows
        coef = coef.astype(kernels.compute_dtype(values.dtype))  # what is summed is what is counted
        tilt = coef.sum(axis=0, dtype=np.float64)
        weighted = kernels.weighted_sum(self.rows, coef)
        return -(weighted - tilt[:, None] * self.geometry.mean) / self.geometry.unit, -tilt


def _share(pairs: Pairs) -> Array:
    return np.asarray(pairs.weight / max(pairs.weight.sum(), 1.0))[:, None]


def _sum_pulls(rows: Array, pull: Array, f: Array) -> Array:
    """Sum of the pulls at each row."""
    return np.stack([np.bincount(rows, column, minlength=len(f)) for column in pull.T], axis=1)
