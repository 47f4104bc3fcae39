"""How much memory a fit needs: one formula for each family of methods.

Every formula takes a `Size` and the number of clusters, and gives bytes, the process included.
"""

from collections.abc import Callable
from typing import NamedTuple

from dmmc.machine import MIB, PROCESS
from dmmc.methods import METHODS

GRAPH_ROWS = 150_000
"""Rows up to which they are linked to their neighbours; beyond, to anchors (`EXACT` of dmmc/features/graph.py)."""
PLANES = 20
"""Cutting planes held at a time, as seen in fits of real data."""


class Size(NamedTuple):
    """What the memory of a fit depends on."""

    n_rows: int
    n_features: int
    nnz: int | None
    data_bytes: int

    @property
    def blocks_at_work(self) -> int:
        """Blocks that threads work on at a time."""
        return min(8, max(1, self.data_bytes // (16 * MIB)))


def _count_hyperplanes(n_clusters: int) -> int:
    return 1 if n_clusters == 2 else n_clusters


def _plane_bytes(size: Size, n_clusters: int) -> int:
    """Planes are held twice, and once for each block at work."""
    return 8 * _count_hyperplanes(n_clusters) * size.n_features * PLANES * (2 + size.blocks_at_work)


def cutting_plane_bytes(size: Size, n_clusters: int) -> int:
    """Memory for a fit by cpmmc with one start and as many threads as cores.

    With n rows, d features, k clusters and K hyperplanes (1 for k = 2, else k) it is the sum of

    - the process itself (`dmmc.machine.PROCESS`), and the data as they are held in memory
    - 12 + 4 k bytes a row: labels, and scores of the blocks at work; k counts up to 100, as more are taken in parts
    - the sample that seeds k-means, 4 copies of its float64 numbers, and 3 of its centres: 24 bytes times the lesser of
      40 k d and 20 million
    - cutting planes: 20 of K d float64 numbers, held twice and once for each of up to 8 blocks at work
    """
    n, d, k = size.n_rows, size.n_features, n_clusters
    rows = n * (12 + 4 * min(k, 100))
    fit = 800_000 // (1 if size.nnz is not None else d)
    sampled = min(n, max(20 * k, min(4096, max(fit, min(100 * k, 10 * fit)))))
    numbers = sampled * (d if size.nnz is None else 2 * size.nnz / n)
    seeding = 32 * numbers + 24 * min(40 * k * d, 20_000_000)
    return int(PROCESS + size.data_bytes + rows + seeding + _plane_bytes(size, k))


def pairwise_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc, and the driver's planes of linked rows: as many again of either kind, held twice.

    The linked rows themselves come on top, each once, as they are held in memory: at most the data again.
    """
    planes = 2 * 16 * _count_hyperplanes(n_clusters) * size.n_features * PLANES
    return cutting_plane_bytes(size, n_clusters) + planes


def subspace_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc, and the inner products of all rows of the planes, held three times."""
    products = (PLANES * _count_hyperplanes(n_clusters)) ** 2
    return cutting_plane_bytes(size, n_clusters) + 3 * 8 * products


def least_squares_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc without planes, and what 200 axes of all rows, their graph and its eigenvectors need.

    That is 4 bytes for each of 2 times 200 axes, 1 KiB for 7 neighbours and the graph, and 96 bytes a cluster, a row.
    Beyond 150,000 rows the graph is one of anchors: places, features and links of rows, as far as blocks keep them, 20
    bytes a row, and 300 MB for the anchors.
    """
    if size.n_rows > GRAPH_ROWS:
        kept = sum(min(each * size.n_rows, 256 * MIB) for each in (4 * min(200, size.n_features), 4 * 256, 40))
        own = kept + 20 * size.n_rows + 300_000_000
        return cutting_plane_bytes(size, n_clusters) - _plane_bytes(size, n_clusters) + own
    own = size.n_rows * (8 * min(200, size.n_features) + 1024 + 96 * n_clusters)
    return cutting_plane_bytes(size, n_clusters) - _plane_bytes(size, n_clusters) + own


def stochastic_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc without planes, and 40 bytes a row and 10 vectors of d float64 numbers for each block at work.

    The bytes of a row are its norm, its place in the order of visits, its weight in a tree, and its score.
    """
    own = 40 * size.n_rows + 80 * size.n_features * size.blocks_at_work
    return cutting_plane_bytes(size, n_clusters) - _plane_bytes(size, n_clusters) + own


def evolution_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc, and what the full kernel of n rows needs (more rows than 5,000 are refused).

    That is the kernel and its eigenvectors, 5 arrays of n² float64 numbers; features in two bases and a copy, 3 of n²
    float32 numbers; the rows in float64, 3 times.
    """
    n = min(size.n_rows, 5000)
    return cutting_plane_bytes(size, n_clusters) + n * (52 * n + 24 * size.n_features)


def fast_evolution_bytes(size: Size, n_clusters: int) -> int:
    """As by cpmmc, and what a kernel of the default rank r needs.

    That is r² float64 numbers 6 times, the r rows in float64 3 times; features in two bases, n r float32 numbers each,
    if one basis takes at most 256 MiB, else those of 8 blocks; and 40 bytes a row.
    """
    n, d = size.n_rows, size.n_features
    r = max(2, min(n // 10 + 1, 200), min(n // 100 + 1, 1000))
    features = 8 * n * r if 4 * n * r <= 256 * MIB else 16 * 16 * MIB
    return cutting_plane_bytes(size, n_clusters) + 48 * r * r + 24 * r * d + features + 40 * n


FORMULAS: dict[str, Callable[[Size, int], int]] = {
    "cutting_plane": cutting_plane_bytes,
    "pairwise": pairwise_bytes,
    "subspace": subspace_bytes,
    "least_squares": least_squares_bytes,
    "stochastic": stochastic_bytes,
    "evolution": evolution_bytes,
    "fast_evolution": fast_evolution_bytes,
}
"""The formulas by the names that the records of methods use."""


def estimate_bytes(method: str, size: Size, n_clusters: int) -> int:
    """Bytes that a fit by this method needs."""
    return FORMULAS[METHODS[method].memory](size, n_clusters)
