"""The graph of nearest neighbours: who they are, how near, and the graph's leading eigenvectors.

Up to `EXACT` rows neighbours are exact; beyond that one inverted-file index is asked, with a fixed seed, and how many
of the true neighbours it finds is measured. Distances are computed anew for a few more candidates than are wanted, one
pair at a time, so that a row's neighbours do not depend on the rows that are asked about along with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import sparse

from dmmc.errors import InputError

Array = NDArray[Any]

EXACT = 150_000
"""Rows up to which neighbours are found by comparing all with all."""
SPARE = 6
"""Candidates beyond the wanted neighbours."""
NEAR = 6
"""The distance to this neighbour (counted from 0) is a row's own scale."""
LEAST = 1e-6
"""Weight of an edge at least, lest a row has none."""
PROBES = 24
"""Lists of the approximate index that are looked through for a row."""
SAMPLE = 1000
"""Rows on which its recall is measured."""
DENSE = 600
"""Rows up to which a full eigendecomposition is the simplest."""


class Neighbours(NamedTuple):
    """The nearest points of each query, nearest first."""

    who: Array
    """(n, k) numbers of points."""
    distance: Array
    """(n, k)."""


class Index:
    """Points among which neighbours are looked for.

    Parameters
    ----------
    points : (n, p) float32
    threads : how many may be used; has no influence on the result
    """

    def __init__(self, points: Array, threads: int) -> None:
        import faiss

        self.points = np.ascontiguousarray(points, np.float32)
        self._threads = threads
        n, p = self.points.shape
        faiss.omp_set_num_threads(threads)
        if n <= EXACT:
            self._index: Any = faiss.IndexFlatL2(p)
        else:
            faiss.omp_set_num_threads(1)  # its training adds up in the order of the threads
            lists = int(4 * np.sqrt(n))
            self._index = faiss.IndexIVFFlat(faiss.IndexFlatL2(p), p, lists)
            self._index.cp.seed, self._index.cp.niter, self._index.nprobe = 0, 10, PROBES
            self._index.train(self.points[:: max(1, n // (64 * lists))])
            faiss.omp_set_num_threads(threads)
        self._index.add(self.points)

    def nearest(self, queries: Array, k: int) -> Neighbours:
        """The k nearest points of each query."""
        import faiss

        faiss.omp_set_num_threads(self._threads)
        asked = np.ascontiguousarray(queries, np.float32)
        _, candidates = self._index.search(asked, min(k + SPARE, len(self.points)))
        who, squared = np.empty((len(asked), k), np.int64), np.empty((len(asked), k))
        _ranked(self.points, asked, candidates, who, squared)
        return Neighbours(who, np.sqrt(squared))

    def recall(self, k: int) -> float:
        """Part of the true neighbours that are found, on a sample of the points; 1 where the index is exact."""
        import faiss

        if len(self.points) <= EXACT:
            return 1.0
        chosen = np.arange(SAMPLE) * len(self.points) // SAMPLE
        exact = faiss.IndexFlatL2(self.points.shape[1])
        exact.add(self.points)
        _, truth = exact.search(self.points[chosen], k)
        found = self.nearest(self.points[chosen], k).who
        return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(truth, found, strict=True)]))


@njit(cache=True, nogil=True)
def _ranked(points: Array, queries: Array, candidates: Array, who: Array, squared: Array) -> None:
    """The nearest candidates of each query by distances in float64, ties to the lowest number."""
    k, p = who.shape[1], points.shape[1]
    for i in range(queries.shape[0]):
        filled = 0
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if j < 0:
                continue
            d = 0.0
            for q in range(p):
                step = float(queries[i, q]) - float(points[j, q])
                d += step * step
            at = filled if filled < k else k
            while at > 0 and (squared[i, at - 1] > d or (squared[i, at - 1] == d and who[i, at - 1] > j)):
                at -= 1
            if at < k:
                last = filled if filled < k else k - 1
                for q in range(last, at, -1):
                    squared[i, q], who[i, q] = squared[i, q - 1], who[i, q - 1]
                squared[i, at], who[i, at] = d, j
                filled = min(filled + 1, k)
        for q in range(filled, k):  # an approximate index may find too few
            squared[i, q], who[i, q] = squared[i, filled - 1], who[i, filled - 1]


def scale_of(distance: Array) -> Array:
    """Each row's own scale: how far its neighbours are."""
    return np.asarray(np.maximum(distance[:, min(NEAR, distance.shape[1] - 1)], 1e-12))


def weights(distance: Array, own: Array, theirs: Array) -> Array:
    """Self-tuned Gaussian weights of edges, from 0 to 1."""
    return np.asarray(np.maximum(np.exp(-(distance**2) / (own[:, None] * theirs)), LEAST))


def without_self(found: Neighbours) -> Neighbours:
    """Neighbours of the points themselves, with each point taken out of its own list (or the last, among equals)."""
    n, k = found.who.shape
    own = found.who == np.arange(n)[:, None]
    own[~own.any(axis=1), -1] = True
    return Neighbours(found.who[~own].reshape(n, k - 1), found.distance[~own].reshape(n, k - 1))


def adjacency(found: Neighbours, scale: Array) -> Any:
    """The graph: an edge where either end has the other among its neighbours."""
    n, k = found.who.shape
    w = weights(found.distance, scale, scale[found.who])
    A = sparse.csr_array((w.ravel(), found.who.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    A.sum_duplicates()
    return A.maximum(A.T).tocsr()


def spectrum(A: Any, count: int) -> Array:
    """The leading eigenvectors (n, count) of the graph's normalised adjacency; signs: largest entry positive."""
    from scipy.sparse.linalg import eigsh

    n = A.shape[0]
    inverse = 1.0 / np.sqrt(np.asarray(A.sum(axis=1)).ravel())
    N = A.multiply(inverse[:, None]).multiply(inverse[None]).tocsr()
    if n <= max(DENSE, count + 1):
        _, U = np.linalg.eigh(N.toarray())
        U = U[:, ::-1][:, :count]
    else:
        values, U = eigsh(N, count, which="LA", v0=np.random.default_rng(0).standard_normal(n), tol=1e-3)
        U = U[:, np.argsort(-values, kind="stable")]
    signs = np.sign(U[np.abs(U).argmax(axis=0), np.arange(U.shape[1])])
    return np.asarray(U * signs)


def smoothed(A: Any, Z: Array, times: int) -> Array:
    """`Z <- (Z + P Z) / 2`, so many times: rows move towards the mean of their neighbours."""
    inverse = 1.0 / np.asarray(A.sum(axis=1))
    P = A.multiply(inverse.reshape(-1, 1)).tocsr()
    moved = np.asarray(Z, np.float64)
    for _ in range(times):
        moved = 0.5 * (moved + P @ moved)
    return moved


def pieces(A: Any) -> int:
    """How many parts of the graph have no edge between them."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(A, directed=False)[0])


def need(n_rows: int, n_axes: int, k: int, n_vectors: int) -> int:
    """About the bytes that a graph and its features take at their peak, on top of the data.

    Rows on their axes, held by us and by the index; neighbours with spare ones; the graph's edges, both ways, in three
    copies while it is made; for eigenvectors twice as many of the solver's own.
    """
    return n_rows * (8 * n_axes + 32 * (k + 1 + SPARE) + 3 * 2 * 12 * k + 8 * (3 * n_vectors + 20))


def check_size(name: str, wanted: int, available: int | None) -> None:
    """Refuse a graph that this machine cannot hold, with the numbers."""
    if available is not None and wanted > available:
        raise InputError(
            f"the graph of nearest neighbours of {name} needs about {wanted / 1e6:.0f} MB here, and {available / 1e6:.0f} "
            "MB are free: use features='raw' and another start, or fit a part of the rows and predict the rest."
        )


def free_memory() -> int | None:
    """Bytes that this machine can still give; None where it does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
