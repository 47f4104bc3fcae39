"""What hyperplanes cost before any row pays: a norm of W, and the master that goes with it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from dmmc.array_types import Array
from dmmc.master import dual_qp, trace_norm
from dmmc.master.dual_qp import Solved
from dmmc.master.planes import Planes

Budgets = float | Sequence[float]
"""C of the margins; and, where linked rows pay too, those of either kind of link."""


class Norm(Protocol):
    """A regulariser of W (K, d)."""

    by_row: bool
    """Whether its master needs the inner products of all rows of the planes, or only those of whole planes."""
    accuracy: float
    """The master is solved to this fraction of the current gap, or to what the problem asks for if that is more."""
    inward: float
    """How far from the master's lowest point back to the best point the next plane is cut."""

    def cost(self, W: Array) -> float:
        """What W costs."""
        ...

    def solve(self, planes: Planes, leader: Array, C: Budgets, box: float, tolerance: float) -> tuple[Solved, Array]:
        """The lowest point over the planes: multipliers, biases and values, and W.

        planes : the working set, with the multipliers to start from
        leader : the best W so far for these labels; with CCCP inside, the last one
        C, box, tolerance : as of `master.solve`
        """
        ...


class Frobenius:
    """Half the squared Euclidean norm, (E2) and (E7)."""

    by_row = False
    accuracy = 0.0
    inward = 0.0

    def cost(self, W: Array) -> float:
        """``1/2 |W|^2``."""
        return 0.5 * float(np.sum(W**2))

    def solve(self, planes: Planes, leader: Array, C: Budgets, box: float, tolerance: float) -> tuple[Solved, Array]:
        """The master (E6)."""
        known = planes.gram, planes.intercepts, planes.tilts, C, box, planes.multipliers, tolerance
        solved = dual_qp.solve(*known, planes.groups)
        return solved, sum_slopes(planes, solved.multipliers)


class TraceNorm:
    """Half the squared trace norm (E9): hyperplanes in a subspace of few dimensions cost less.

    The bound is that of its own master. But the norm bends so little that the master's lowest point jumps about while
    planes are few; until the gap is narrow, the next one is cut at the lowest point of (E6) with
    ``G_kl = tr(E Z_k Z_l')``, where E is made of the best W so far. E has a floor that falls with the gap: (E10), on
    the side of the clusters.
    """

    by_row = True
    accuracy = 0.3
    inward = 0.6
    floor = 2.0
    """Of E, in units of the gap."""
    narrow = 1e-3
    """From this tolerance on planes are cut near the master's own point."""

    def cost(self, W: Array) -> float:
        """``1/2 |W|_*^2``, with the sum of the singular values."""
        return 0.5 * float(np.linalg.svd(W, compute_uv=False).sum()) ** 2

    def solve(self, planes: Planes, leader: Array, C: Budgets, box: float, tolerance: float) -> tuple[Solved, Array]:
        """Certified bound, and the lowest point in the metric of the best one."""
        assert isinstance(C, float)  # linked rows pay beside the Frobenius norm only
        m, _, K, _ = planes.gram.shape
        known = planes.intercepts, planes.tilts, C, box, planes.multipliers
        solved, mixing, weights = trace_norm.solve(planes.gram, *known, tolerance)
        if tolerance < self.narrow:
            return solved, mixing @ sum_slopes(planes, weights)
        E = _metric(leader, self.floor * tolerance / self.accuracy)
        near = dual_qp.solve((planes.gram.reshape(m * m, K * K) @ E.ravel()).reshape(m, m), *known, 0.1 * tolerance)
        # planes that carry weight in either of the two stay
        multipliers = 0.5 * (solved.multipliers + near.multipliers)
        return solved._replace(multipliers=multipliers, bias=near.bias), E @ sum_slopes(planes, near.multipliers)


def _metric(W: Array, floor: float) -> Array:
    """``E = (W W')^1/2 / tr``, with a part of ``I / K`` in it; that alone where W is 0."""
    K = len(W)
    squares, vectors = np.linalg.eigh(W @ W.T)
    sigma = np.sqrt(np.maximum(squares, 0.0))
    if not sigma.any():
        return np.eye(K) / K
    E: Array = (1.0 - floor) * (vectors * (sigma / sigma.sum())) @ vectors.T
    return E + floor * np.eye(K) / K


def sum_slopes(planes: Planes, multipliers: Array) -> Array:
    """``V = sum_k lam_k Z_k``."""
    return planes._replace(multipliers=multipliers).weights()


FROBENIUS = Frobenius()
TRACE_NORM = TraceNorm()
