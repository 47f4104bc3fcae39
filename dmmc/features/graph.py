"""The graph of nearest neighbours: who they are, how near, and the graph's leading eigenvectors.

Up to `EXACT` rows neighbours are exact; beyond that one inverted-file index is asked, with a fixed seed, and how many
of the true neighbours it finds is measured. Distances are computed anew for a few more candidates than are wanted, one
pair at a time, so that a row's neighbours do not depend on the rows that are asked about along with it. Where the
index's rounding (it multiplies matrices of float32) may have hidden a neighbour, all points are compared.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from dmmc.array_types import Array
from dmmc.errors import NotFeasible
from dmmc.kernels.arguments import EXACT as ENTRY
from dmmc.kernels.arguments import EXACT_INNER as INNER
from dmmc.process_state import Forked
from dmmc.time_limit import NO_LIMIT, TimeLimit

EXACT = 150_000
"""Rows up to which neighbours are found by comparing all with all."""
SPARE = 6
"""Candidates beyond the wanted neighbours."""
NEAR = 6
"""The distance to this neighbour (counted from 0) is a row's own scale."""
LEAST = 1e-6
"""Weight of an edge at least, lest a row has none."""
SLICE = 4096
"""Rows that one thread asks about at a time, whatever the number of threads: a block of the index's own."""
PROBES = 24
"""Lists of the approximate index that are looked through for a row."""
SAMPLE = 1000
"""Rows on which its recall is measured."""
SMALL = 10
"""Pieces of the graph with less than n / (this times the eigenvectors) rows have no eigenvector of their own."""
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

    points : (n, p) float32
    threads : how many may be used; has no influence on the result
    exact : compare with all points, however many; for few queries
    """

    def __init__(self, points: Array, threads: int, exact: bool = False) -> None:
        import faiss

        self.points = np.ascontiguousarray(points, np.float32)
        self._threads = 1 if Forked.is_so else threads
        n, p = self.points.shape
        self._index: Any = faiss.IndexFlatL2(p)
        if n > EXACT and not exact:
            lists = int(4 * np.sqrt(n))
            self._index = faiss.IndexIVFFlat(self._index, p, lists)
            self._index.cp.seed, self._index.cp.niter, self._index.nprobe = 0, 10, PROBES
            with use_threads(1):  # training adds up in the order of the threads
                self._index.train(self.points[:: max(1, n // (64 * lists))])
        with use_threads(self._threads):
            self._index.add(self.points)

    def nearest(self, queries: Array, k: int) -> Neighbours:
        """The k nearest points of each query.

        Threads share the queries, not each query's work: linear algebra has one thread in a fit, and so each of ours
        multiplies matrices at its full speed.
        """
        asked = np.ascontiguousarray(queries, np.float32)
        who, squared = np.empty((len(asked), k), np.int64), np.empty((len(asked), k))
        starts = range(0, len(asked), SLICE)

        def find(start: int) -> None:
            part = slice(start, start + SLICE)
            with use_threads(1 if len(starts) > 1 else self._threads):
                reach, candidates = self._index.search(asked[part], min(k + SPARE, len(self.points)))
            rank_candidates(self.points, asked[part], candidates, who[part], squared[part])
            if candidates.shape[1] < len(self.points) <= EXACT:
                _complete(self.points, asked[part], reach[:, -1].astype(np.float64), who[part], squared[part])

        if self._threads == 1 or len(starts) == 1:
            for start in starts:
                find(start)
        else:
            with ThreadPoolExecutor(self._threads, "dmmc-neighbours") as pool:
                list(pool.map(find, starts))
        return Neighbours(who, np.sqrt(squared))

    def recall(self, k: int) -> float:
        """Part of the true neighbours that are found, on a sample of the points; 1 where the index is exact."""
        import faiss

        if len(self.points) <= EXACT:
            return 1.0
        chosen = np.arange(SAMPLE) * len(self.points) // SAMPLE
        exact = faiss.IndexFlatL2(self.points.shape[1])
        exact.add(self.points)
        with use_threads(self._threads):
            _, truth = exact.search(self.points[chosen], k)
        found = self.nearest(self.points[chosen], k).who
        return float(np.mean([len(np.intersect1d(a, b)) / k for a, b in zip(truth, found, strict=True)]))


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Let faiss use so many threads when it is called on this one."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(count)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


@njit(**INNER)
def _squared(a: Array, b: Array, limit: float) -> float:
    """Squared distance in float64, or some number of at least `limit` where it is not below that."""
    d = 0.0
    for q in range(len(a)):
        step = np.float64(a[q]) - np.float64(b[q])
        d += step * step
        if d >= limit:
            break
    return d


@njit(**ENTRY)
def rank_candidates(points: Array, queries: Array, candidates: Array, who: Array, squared: Array) -> None:
    """The nearest candidates of each query by distances in float64, ties to the lowest number."""
    k = who.shape[1]
    for i in range(queries.shape[0]):
        filled = 0
        for c in range(candidates.shape[1]):
            j = candidates[i, c]
            if j < 0:
                continue
            d = _squared(queries[i], points[j], np.inf)
            at = filled if filled < k else k
            while at > 0 and (squared[i, at - 1] > d or (squared[i, at - 1] == d and who[i, at - 1] > j)):
                at -= 1
            if at < k:
                last = filled if filled < k else k - 1
                for q in range(last, at, -1):
                    squared[i, q], who[i, q] = squared[i, q - 1], who[i, q - 1]
                squared[i, at], who[i, at] = d, j
                filled = min(filled + 1, k)
        if filled == 0:  # distances that overflow float32: the index finds none
            squared[i, 0], who[i, 0], filled = np.inf, 0, 1
        for q in range(filled, k):  # an approximate index may find too few
            squared[i, q], who[i, q] = squared[i, filled - 1], who[i, filled - 1]


@njit(**ENTRY)
def _complete(points: Array, queries: Array, reach: Array, who: Array, squared: Array) -> None:
    """Compare with all points where one that was no candidate may be as near as the last neighbour.

    `reach` is how far the candidates go, squared, as the index rounds it: `|a|² + |b|² - 2ab` in float32.
    """
    k, p = who.shape[1], points.shape[1]
    for i in range(queries.shape[0]):
        norm = 0.0
        for q in range(p):
            norm += np.float64(queries[i, q]) ** 2
        rounding = 1.2e-7 * p * (2.0 * np.sqrt(norm) + np.sqrt(squared[i, k - 1])) ** 2
        if squared[i, k - 1] < reach[i] - rounding:
            continue
        squared[i] = np.inf
        for j in range(points.shape[0]):
            d = _squared(queries[i], points[j], squared[i, k - 1])
            if d < squared[i, k - 1]:
                at = k - 1
                while at > 0 and squared[i, at - 1] > d:
                    squared[i, at], who[i, at] = squared[i, at - 1], who[i, at - 1]
                    at -= 1
                squared[i, at], who[i, at] = d, j


def scale_of(distance: Array) -> Array:
    """Each row's own scale: how far its neighbours are."""
    return np.asarray(np.maximum(distance[:, min(NEAR, distance.shape[1] - 1)], 1e-12))


def weights(distance: Array, own: Array, theirs: Array) -> Array:
    """Self-tuned Gaussian weights of edges, from 0 to 1."""
    return np.asarray(np.maximum(np.exp(-(distance**2) / (own[:, None] * theirs)), LEAST))


def drop_self(found: Neighbours, rows: Array | None = None) -> Neighbours:
    """Neighbours of the points themselves, with each point taken out of its own list (or the last, among equals).

    rows : (m,) the numbers of the points that were asked about; all of them without
    """
    n, k = found.who.shape
    own = found.who == (np.arange(n) if rows is None else rows)[:, None]
    own &= own.cumsum(axis=1) == 1  # an approximate index may have found it several times
    own[~own.any(axis=1), -1] = True
    return Neighbours(found.who[~own].reshape(n, k - 1), found.distance[~own].reshape(n, k - 1))


def adjacency(found: Neighbours, scale: Array) -> Any:
    """The graph: an edge where either end has the other among its neighbours."""
    n, k = found.who.shape
    w = weights(found.distance, scale, scale[found.who])
    A = sparse.csr_array((w.ravel(), found.who.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    A.sum_duplicates()
    return A.maximum(A.T).tocsr()


def spectrum(A: Any, count: int, limit: TimeLimit = NO_LIMIT) -> Array:
    """The leading eigenvectors (n, count) of the graph's normalised adjacency; signs: largest entry positive.

    Those of eigenvalue 1 are known, one for each piece of the graph, largest piece first; the solver, which would miss
    some of equal ones, is asked for the others. Pieces too small to tell a cluster get none: zeros.
    """
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import LinearOperator, eigsh

    n = A.shape[0]
    degree = np.asarray(A.sum(axis=1)).ravel()
    _, piece = connected_components(A, directed=False)
    sizes = np.bincount(piece)
    order = np.argsort(-sizes, kind="stable")
    kept = order[sizes[order] >= min(n / (SMALL * count), sizes.max())][:count]
    place = np.full(len(sizes), -1)
    place[kept] = np.arange(len(kept))
    rows = np.flatnonzero(place[piece] >= 0)
    V = sparse.csr_array((np.sqrt(degree[rows]), (rows, place[piece[rows]])), shape=(n, len(kept)))
    V = V.multiply(1.0 / np.sqrt(np.asarray(V.multiply(V).sum(axis=0)))[None]).tocsr()
    known, more = V.toarray(), min(count, len(rows)) - len(kept)
    U = np.zeros((n, count))
    U[:, : len(kept)] = known
    if more > 0:
        inverse = np.zeros(n)
        inverse[rows] = 1.0 / np.sqrt(degree[rows])
        N = A.multiply(inverse[:, None]).multiply(inverse[None]).tocsr()
        if n <= max(DENSE, count + 1):
            dense = N.toarray() - 2.0 * known @ known.T
            others = np.setdiff1d(np.arange(n), rows)
            dense[others, others] = -2.0
            U[:, len(kept) : len(kept) + more] = np.linalg.eigh(dense)[1][:, ::-1][:, :more]
        else:
            # most of the time goes into keeping the solver's vectors orthogonal: in float32, which is far more exact
            # than its tolerance, that takes half as long
            single, W = N.astype(np.float32), V.astype(np.float32)
            WT = W.T.tocsr()

            def multiply(x: Array) -> Array:
                limit.check("eigenvectors of the graph were computed")
                return np.asarray(single @ x - np.float32(2.0) * (W @ (WT @ x)))

            shifted = LinearOperator((n, n), matvec=multiply, dtype=np.float32)
            v0 = (np.random.default_rng(0).standard_normal(n) * (inverse > 0)).astype(np.float32)
            values, found = eigsh(shifted, more, which="LA", v0=v0, tol=1e-3)
            found = found[:, np.argsort(-values, kind="stable")].astype(np.float64)
            U[:, len(kept) : len(kept) + more] = found - V @ (V.T @ found)
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(count)] < 0, -1.0, 1.0)
    return np.asarray(U * signs)


def smooth(A: Any, Z: Array, times: int) -> Array:
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
        raise NotFeasible(
            f"the graph of nearest neighbours of {name} needs about {wanted / 1e6:.0f} MB, and {available / 1e6:.0f} "
            "MB are free: use features='raw' and another start, or fit a part of the rows and predict the rest."
        )
