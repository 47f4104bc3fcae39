"""Margins from decision values: which cluster is best, which is next, and by how much the best one leads."""

from typing import NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import TILE_ROWS, Csr
from dmmc.machine import MIB
from dmmc.model.passes import Hyperplanes, Tree, cut, decide_labels

AT_ONCE = 4 * MIB
"""Bytes of decision values at a time: those of a whole block can be many times the block."""


def find_margins(f: Array) -> Array:
    """Lead (m,) of each row's cluster over the runner-up, from decision values (m, K); |f| for two clusters."""
    return np.abs(f[:, 0]) if f.shape[1] == 1 else kernels.top_two(f)[2]


class Standing(NamedTuple):
    """Where each of m rows stands among the clusters."""

    labels: Array
    """(m,) int32, the cluster of each row, as `predict` gives it."""
    runner_up: Array
    """(m,) int32, the next best cluster."""
    margins: Array
    """(m,) float32, lead of the one over the other."""


def rank_clusters(f: Array) -> Standing:
    """Standing of rows with these decision values (m, K)."""
    if f.shape[1] == 1:
        labels = decide_labels(f).astype(np.int32)
        return Standing(labels, 1 - labels, np.abs(f[:, 0]).astype(np.float32))
    labels, runner_up, lead = kernels.top_two(f)
    return Standing(labels, runner_up, lead.astype(np.float32))


def rank_rows(rows: Array | Csr, planes: Hyperplanes | Tree) -> Standing:
    """Standing of a block's rows (or features), some of them at a time."""
    n_rows = rows.n_rows if isinstance(rows, Csr) else len(rows)
    each = max(1, AT_ONCE // (8 * planes.n_scores * TILE_ROWS)) * TILE_ROWS
    parts = []
    for start in range(0, n_rows, each):
        products = kernels.scores(cut(rows, start, min(start + each, n_rows)), planes.W, wide=planes.wide)
        parts.append(rank_clusters(planes.decide(products)))
    return parts[0] if len(parts) == 1 else Standing(*(np.concatenate(column) for column in zip(*parts, strict=True)))
