"""Which transform serves dense rows better, without labels: the one whose graph of neighbours is cut more easily.

A sample of rows is transformed in each way, linked to its neighbours and cut into clusters along the graph, as a graph
start does it with all rows. The lowest median normalised cut wins.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.decomposition import PCA

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.features import graph, graph_merge
from dmmc.features.graph import Index
from dmmc.features.kmeans import fit_kmeans
from dmmc.features.maps import map_few_rows
from dmmc.features.projection import scale_rows
from dmmc.features.transforms import Facts, make_transform
from dmmc.process_state import ThreadPools

SAMPLE_ROWS = 5000
AXES = 64
NEIGHBOURS = 7
TRIES = 3


def judge_transforms(
    kinds: Sequence[str], dataset: Rows, facts: Facts, n_clusters: int, seed: int, threads: int = 1
) -> str:
    """The kind whose sampled rows have the lowest median normalised cut."""
    count = min(dataset.n_rows, SAMPLE_ROWS)
    rng = np.random.default_rng([seed, 8])
    rows = dataset.take(np.sort(rng.choice(dataset.n_rows, count, replace=False, shuffle=False)))
    rows = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())

    def cut(kind: str) -> float:
        transformed = rows if kind == "none" else map_few_rows(make_transform(kind, dataset, facts), rows)
        return _cut(np.asarray(transformed, np.float32), kind != "none", n_clusters)

    with ThreadPools.use_one_thread(), ThreadPoolExecutor(threads) as pool:
        cuts = list(pool.map(cut, kinds))
    return kinds[int(np.argmin(cuts))]


def _cut(rows: Array, unit: bool, n_clusters: int) -> float:
    """Median normalised cut of a few clusterings along the graph of the rows (n, d)."""
    n, d = rows.shape
    m = min(max(4 * n_clusters, 8), n - 1)
    rows = PCA(min(AXES, n, d), svd_solver="randomized", random_state=0).fit_transform(rows)
    Z = scale_rows(np.asarray(rows, np.float64), unit)
    found = graph.drop_self(Index(Z, 1).nearest(Z, min(NEIGHBOURS, n - 1) + 1))
    A = graph.adjacency(found, graph.scale_of(found.distance))
    V = scale_rows(graph.spectrum(A, m), unit=True)
    cuts = []
    for number in range(TRIES):
        groups = fit_kmeans(V, min(8 * n_clusters, n), number).labels_
        cuts.append(graph_merge.cut_of(A, graph_merge.merge(A, groups, n_clusters).labels))
    return float(np.median(cuts))
