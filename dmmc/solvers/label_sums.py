"""Passes of least-squares MMC: labels by the largest score, and what the rows of each label add up to."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.kernels import NEAREST
from dmmc.model.losses import Table
from dmmc.model.passes import ByScores, Hyperplanes, Labelling, cut, labels_of

DENSE = 100
"""Clusters up to which the rows of each are told by a dense matrix."""
SLAB = 1024
"""Rows of which products are summed in the compute type, before they join a sum of float64."""
NO_LOSS = Table(np.zeros(0), np.zeros(1), np.zeros(1))


class Request(NamedTuple):
    """What one run asks: sums by the labels it has, or by those that it takes now."""

    run: int
    labelling: Labelling
    """The labels that it has."""
    at: Hyperplanes | None
    """Where labels are taken, one hyperplane a cluster; None: sum by those that it has."""


class LabelSums(NamedTuple):
    """Sums over the rows of each label."""

    weighted: Array
    """(k, d): of raw rows, by weight."""
    counts: Array
    """(k,): weight of the rows."""
    flips: float
    """Weight of the rows whose label has changed."""


class Requests(NamedTuple):
    """One pass for all runs: they share the read."""

    requests: tuple[Request, ...]
    n_clusters: int


def sum_by_label(block: Block, params: Requests) -> tuple[LabelSums, ...]:
    """Labels of the rows, by their largest score where a run takes them, and the sums of each label's rows."""
    requests, k = params
    old = [labels_of(block, request.labelling, request.run) for request in requests]
    taking = [g for g, request in enumerate(requests) if request.at is not None]
    found: dict[int, LabelSums] = {}
    if taking:
        planes = [at for at in (requests[g].at for g in taking) if at is not None]
        sums, new = kernels.losses(
            block.rows,
            np.stack([at.W for at in planes]),
            np.stack([at.b for at in planes]),
            NO_LOSS,
            np.full(len(taking), NEAREST),
            price=np.stack([at.price for at in planes]),
            weight=block.weight,
            keep=True,
        )
        for i, (g, at) in enumerate(zip(taking, planes, strict=True)):
            changed = old[g] != new[i]
            flips = float(changed.sum() if block.weight is None else block.weight[changed].sum())
            found[g] = LabelSums(sums.weighted[i * k : (i + 1) * k], sums.counts[i], flips)
            block.cache[requests[g].run] = (ByScores(at, wide=True).key, new[i])
    for g in range(len(requests)):
        if g not in found:
            found[g] = _sum_given(block, old[g], k)
    return tuple(found[g] for g in range(len(requests)))


def _sum_given(block: Block, labels: Array, k: int) -> LabelSums:
    """Sums by labels (m,) that rows have."""
    m = len(labels)
    weight = np.ones(m) if block.weight is None else block.weight
    if k > DENSE:
        member = sparse.csr_array((weight, (labels.astype(np.int32), np.arange(m))), shape=(k, m))
        rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else np.asarray(block.rows)
        rows = rows.astype(np.float64)
        sums = member @ rows
        return LabelSums(sums.toarray() if sparse.issparse(sums) else sums, np.bincount(labels, weight, k), 0.0)
    onehot = np.zeros((m, k))
    onehot[np.arange(m), labels] = weight
    return LabelSums(kernels.weighted_sum(block.rows, onehot), onehot.sum(axis=0), 0.0)


def multiply_rows(block: Block, params: tuple[Array, Array]) -> Array:
    """`Σ ω x xᵀ` (d, d) of centred and scaled rows."""
    mean, unit = params
    if isinstance(block.rows, Csr):
        X = block.rows.to_scipy().astype(np.float64)
        weight = np.ones(X.shape[0]) if block.weight is None else block.weight
        first = X.T @ weight
        second = (X.T @ X.multiply(weight[:, None])).toarray()
        second -= np.outer(first, mean) + np.outer(mean, first) - weight.sum() * np.outer(mean, mean)
        return np.asarray(second / np.outer(unit, unit))
    dtype = kernels.compute_dtype(block.rows.dtype)
    about, inverse = mean.astype(dtype), (1.0 / unit).astype(dtype)
    total = np.zeros((len(mean), len(mean)))
    for start in range(0, block.stop - block.start, SLAB):
        rows = (cut(block.rows, start, start + SLAB) - about) * inverse
        if block.weight is not None:
            rows *= np.sqrt(block.weight[start : start + SLAB, None]).astype(dtype)
        total += kernels.weighted_sum(rows, rows)  # the bits of BLAS would be those of its threads
    return total
