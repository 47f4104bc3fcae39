"""Rows ψ for evolutionary MMC, of features A whose inner products are a kernel's (E21).

With `Σ ω A Aᵀ = QΛQᵀ` they are `ψ = A M`, `M = Q ((Λ + λn) / Σω)^-½`: then `φ_i = ω_i ψ_i / Σω`, and `f(x) = ψ(x)·p`
is the least-squares fit to y, for `p = Φᵀy`. Each block makes its own ψ; the driver holds M.
"""

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.kernels import weighted_sum
from dmmc.kernels.label_flips import exact_scores
from dmmc.solvers.sign_sums import dense_rows
from dmmc.time_limit import TimeLimit

SLAB = 4096
"""Rows that are converted to float64 at a time."""
HURRIED = 64
"""Directions of A that are left when the time is up, the leading ones: those that leaves of a tree differ in too."""


def moment(block: Block, leading: int | None) -> Array:
    """`Σ ω A Aᵀ` (q, q) of rows A, or of so many leading directions, which are the last ones."""
    features = dense_rows(block) if leading is None else dense_rows(block)[:, -leading:]
    total = np.zeros((features.shape[1], features.shape[1]))
    for start in range(0, len(features), SLAB):
        rows = np.ascontiguousarray(features[start : start + SLAB], np.float64)
        total += weighted_sum(rows, rows if block.weight is None else block.weight[start : start + SLAB, None] * rows)
    return total


def whiten(gram: Array, total: float, ridge: float) -> tuple[Array, Array]:
    """M, and the eigenvalues Λ, of the Gram matrix `Σ ω A Aᵀ` (q, q), Σω and the ridge λn."""
    values, Q = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    ridge = max(ridge, 1e-12 * float(values[-1]))  # below this eigenvalues are rounding
    Q = Q * np.where(Q[np.abs(Q).argmax(axis=0), range(len(Q))] < 0, -1.0, 1.0)
    return np.ascontiguousarray(Q / np.sqrt((values + ridge) / total)), values


class Whitened:
    """Passes over ψ, as passes over A.

    run, each : passes over A: to their sum over all blocks, and to what they give of each block
    total, ridge : Σω and λn
    keep : whether blocks keep their ψ for the next pass
    """

    def __init__(
        self, run: Callable[..., Any], each: Callable[..., Iterator[Any]], total: float, ridge: float, keep: bool
    ) -> None:
        self._run = run
        self._each = each
        self._total = total
        self._ridge = ridge
        self._keep = keep
        self._found: tuple[Array, Array, str] | None = None
        self.is_hurried = False
        """Whether only leading directions are seen, as the time was up."""

    def prepare(self, limit: TimeLimit, n_features: int) -> None:
        """Find M while there is time; when it is up, one that sees the leading directions of A alone.

        n_features : of the rows A
        """
        gram = None if limit.is_over else self._run(moment, None)
        if gram is not None and not limit.is_over:
            self._take(gram)
        if limit.is_over:
            self.is_hurried = True
            seen = min(HURRIED, n_features)
            self._take(self._run(moment, seen) if gram is None else gram[-seen:, -seen:], n_features - seen)

    def _take(self, gram: Array, left_out: int = 0) -> tuple[Array, Array, str]:
        """Know M by the Gram matrix of all directions but so many first ones."""
        M, values = whiten(gram, self._total, self._ridge)
        M = np.concatenate([np.zeros((left_out, len(gram))), M]) if left_out else M
        self._found = M, values, hashlib.sha1(M.tobytes()).hexdigest()
        return self._found

    def __call__(self, work: Callable[..., Any], params: Any) -> Any:
        """Sum of `work(block, params)` over all blocks of ψ."""
        return self._run(apply_whitened, (work, params, *self._of_blocks))

    def each(self, work: Callable[..., Any], params: Any) -> list[Any]:
        """What `work(block, params)` gives of each block of ψ, in order."""
        return list(self._each(apply_whitened, (work, params, *self._of_blocks)))

    def rows(self) -> Array:
        """All of ψ (n, q)."""
        return np.concatenate(self.each(rows_of, None))

    @property
    def M(self) -> Array:
        """`ψ = A M`."""
        return self._known[0]

    @property
    def values(self) -> Array:
        """Eigenvalues of the Gram matrix of A."""
        return self._known[1]

    @property
    def _known(self) -> tuple[Array, Array, str]:
        return self._take(self._run(moment, None)) if self._found is None else self._found

    @property
    def _of_blocks(self) -> tuple[Array, str, bool]:
        return self._known[0], self._known[2], self._keep


def apply_whitened(block: Block, params: tuple[Callable[..., Any], Any, Array, str, bool]) -> Any:
    """A pass over ψ."""
    work, inner, M, key, keep = params
    known = block.cache.get("whitened")
    if known is None or known["key"] != key:
        rows = np.ascontiguousarray(exact_scores(dense_rows(block), M.T).T, np.float32)
        known = {"key": key, "rows": rows}
        if keep:
            block.cache["whitened"] = known
    return work(replace(block, rows=known["rows"], cache=known), inner)


def rows_of(block: Block, params: None) -> Array:
    """The rows themselves."""
    return dense_rows(block)
