"""What the graph of a sample tells about clusters: its edges and leading eigenvectors."""

from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.features import graph
from dmmc.features.graph import Index

NEIGHBOURS = 7


class Evidence(NamedTuple):
    """The graph of rows."""

    graph: Any
    """Sparse (n, n)."""
    vectors: Array
    """(n, m) its leading eigenvectors."""
    values: Array
    """(m,) their eigenvalues, falling."""


def make_evidence(rows: Array, count: int) -> Evidence:
    """The graph of rows (n, p) and so many of its eigenvectors."""
    found = graph.drop_self(Index(rows, 1).nearest(rows, min(NEIGHBOURS, len(rows) - 1) + 1))
    A = graph.adjacency(found, graph.scale_of(found.distance))
    V = graph.spectrum(A, min(count, len(rows) - 1))
    inverse = 1.0 / np.sqrt(np.maximum(np.asarray(A.sum(axis=1)).ravel(), 1e-300))
    moved = inverse[:, None] * (A @ (inverse[:, None] * V))
    values = np.sum(V * moved, axis=0)
    order = np.argsort(-values, kind="stable")
    return Evidence(A, V[:, order], values[order])
