"""The working set of cutting planes, with its Gram matrix kept up to date."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from dmmc.array_types import Floats, Integers

_CARRIES = 1e-9  # of C: a plane with less weight than this is idle


class Planes(NamedTuple):
    """The working set: each plane is the loss's subgradient plane at one point (E4, E8).

    points : shape (m, K, d); the hyperplanes at which the planes were cut; they determine which rows count
        (docs/mathematics.md, "Two clusters")
    offsets, prices : shape (m, K); their biases, and the prices with which labels were taken there
    intercepts, slopes, tilts : shape (m,); ``a``, ``z`` and ``s``: the loss is at least ``a_k - z_k.w - s_k.b``
    gram : shape (m, m); ``slopes @ slopes.T``; or, by row, the inner products of each plane's rows with those of each
        other
    multipliers : shape (m,); the last solution, and the next warm start
    idle : shape (m,); rounds since the plane last carried weight
    groups : shape (m,); which loss the plane bounds: 0 is the margin's, the only one that labels move
    """

    points: NDArray[np.floating[Any]]
    offsets: NDArray[np.floating[Any]]
    prices: Floats
    intercepts: Floats
    slopes: Floats
    tilts: Floats
    gram: Floats
    multipliers: Floats
    idle: Integers
    groups: Integers

    @classmethod
    def empty(cls, K: int, d: int, dtype: DTypeLike = np.float64, by_row: bool = False) -> Planes:
        """No planes yet, for K hyperplanes in d dimensions; `dtype` is that of the points, `by_row` is of the Gram."""
        return cls(
            points=np.zeros((0, K, d), dtype),
            offsets=np.zeros((0, K), dtype),
            prices=np.zeros((0, K)),
            intercepts=np.zeros(0),
            slopes=np.zeros((0, K * d)),
            tilts=np.zeros((0, K)),
            gram=np.zeros((0, 0, K, K) if by_row else (0, 0)),
            multipliers=np.zeros(0),
            idle=np.zeros(0, np.int64),
            groups=np.zeros(0, np.int64),
        )

    @property
    def size(self) -> int:
        """How many planes there are (``len`` of a named tuple counts its fields)."""
        return self.intercepts.size

    @property
    def by_row(self) -> bool:
        """Whether the Gram matrix knows the planes' rows."""
        return self.gram.ndim == 4

    def add(
        self,
        point: ArrayLike,
        offset: ArrayLike,
        intercept: float,
        slope: ArrayLike,
        tilt: ArrayLike,
        price: ArrayLike | None = None,
        group: int = 0,
    ) -> Planes:
        """One more plane, without weight as yet; the Gram matrix grows by one row."""
        m, K, d = self.points.shape
        slopes = np.append(self.slopes, np.reshape(slope, (1, K * d)), axis=0)
        gram = np.empty((m + 1, m + 1, *self.gram.shape[2:]))
        gram[:m, :m] = self.gram
        if self.by_row:
            products = (slopes.reshape(-1, d) @ slopes[m].reshape(K, d).T).reshape(m + 1, K, K)
            gram[:, m], gram[m] = products, products.transpose(0, 2, 1)
        else:
            gram[m] = gram[:, m] = slopes @ slopes[m]
        return Planes(
            points=np.append(self.points, np.reshape(point, (1, K, d)).astype(self.points.dtype), axis=0),
            offsets=np.append(self.offsets, np.reshape(offset, (1, K)).astype(self.offsets.dtype), axis=0),
            prices=np.append(self.prices, np.zeros((1, K)) if price is None else np.reshape(price, (1, K)), axis=0),
            intercepts=np.append(self.intercepts, intercept),
            slopes=slopes,
            tilts=np.append(self.tilts, np.reshape(tilt, (1, K)), axis=0),
            gram=gram,
            multipliers=np.append(self.multipliers, 0.0),
            idle=np.append(self.idle, 0),
            groups=np.append(self.groups, group),
        )

    @property
    def movable(self) -> Integers:
        """The planes that labels move: those of the margins."""
        return np.flatnonzero(self.groups == 0)

    def height(self, group: int, W: Floats, b: Floats) -> float:
        """How high the highest plane of a group is at a point; at least 0, as losses are."""
        of = self.groups == group
        heights = self.intercepts[of] - self.slopes[of] @ W.ravel() - self.tilts[of] @ b
        return max(0.0, float(heights.max(initial=0.0)))

    def shift(self, intercepts: Floats, slopes: Floats, tilts: Floats) -> Planes:
        """The same points after the labels changed, which adds this to the movable planes."""
        m = self.movable
        changed = [array.copy() for array in (self.intercepts, self.slopes, self.tilts)]
        for array, change in zip(changed, (intercepts, slopes, tilts), strict=True):
            array[m] += change
        return self.move(*changed)

    def move(self, intercepts: ArrayLike, slopes: ArrayLike, tilts: ArrayLike) -> Planes:
        """The same points after the labels changed: every plane moved, the weights stay as the warm start."""
        z = np.array(slopes, dtype=np.float64).reshape(self.slopes.shape)
        m, K, d = self.points.shape
        if self.by_row:
            rows = z.reshape(m * K, d)
            gram = np.ascontiguousarray((rows @ rows.T).reshape(m, K, m, K).transpose(0, 2, 1, 3))
        else:
            gram = z @ z.T
        return self._replace(
            intercepts=np.array(intercepts, dtype=np.float64).reshape(self.intercepts.shape),
            slopes=z,
            tilts=np.array(tilts, dtype=np.float64).reshape(self.tilts.shape),
            gram=gram,
        )

    def record_solution(self, multipliers: ArrayLike, C: float) -> Planes:
        """Keep a solution of the master, and count who carried no weight in it."""
        weight = np.array(multipliers, dtype=np.float64)
        return self._replace(multipliers=weight, idle=np.where(weight > _CARRIES * C, 0, self.idle + 1))

    def drop_idle(self, rounds: int) -> Planes:
        """Without the planes that carried no weight for `rounds` rounds or more; the last of all stays."""
        keep = self.idle < rounds
        if keep.all():
            return self
        if not keep.any():
            keep[np.flatnonzero(self.idle == self.idle.min())[-1]] = True
        kept = Planes._make(part[keep] for part in self)
        return kept._replace(gram=self.gram[np.ix_(keep, keep)])

    def weights(self) -> Floats:
        """``w = Z' lam`` of (E6), as K hyperplanes in d dimensions."""
        _, K, d = self.points.shape
        return (self.multipliers @ self.slopes).reshape(K, d)
