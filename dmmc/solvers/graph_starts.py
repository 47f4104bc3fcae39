"""Starts from a graph of nearest neighbours: many small groups, merged along the graph until k are left (E26)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.features import graph_merge
from dmmc.features.graph_merge import Merged
from dmmc.features.projection import scale_rows
from dmmc.model import passes
from dmmc.model.geometry import measure
from dmmc.model.passes import ByScores
from dmmc.solvers.starts import k_means
from dmmc.time_limit import NO_LIMIT, TimeLimit

SETTINGS = ((4, 8), (4, 12), (3, 8), (3, 12))
"""Eigenvectors and groups, each times the clusters: one start after the other; then again, from other seeds."""
FEWEST_VECTORS, FEWEST_GROUPS = 8, 32


class Engine(Protocol):
    """What a start needs of an engine."""

    @property
    def dataset(self) -> Rows:
        """The rows that it runs over."""
        ...

    def run(self, work: Callable[..., Any], params: Any) -> Any:
        """A pass to its sum over all rows."""
        ...

    def rows(self, work: Callable[..., Any], params: Any) -> Iterator[Any]:
        """What a pass gives of each block, in order."""
        ...


def stack_starts(found: Sequence[Merged]) -> dict[str, Array]:
    """Labels (n, starts) and merge trees (starts, groups, 3; shorter ones end in zeros)."""
    longest = max(len(merged.tree) for merged in found)
    trees = np.stack([np.pad(merged.tree, ((0, longest - len(merged.tree)), (0, 0))) for merged in found])
    return {"labels": np.stack([merged.labels for merged in found], axis=1).astype(np.int16), "trees": trees}


def merge_starts(
    over: Callable[[Array], AbstractContextManager[Engine]],
    vectors: Array,
    graph: Any,
    n_clusters: int,
    count: int,
    seed: int,
    limit: TimeLimit = NO_LIMIT,
    tell: Callable[[float], Any] = lambda fraction: None,
) -> list[Merged]:
    """So many starts: groups by k-means on some eigenvectors (rows of norm 1), merged along the graph.

    When the time is up there are fewer, at least one.

    over : makes an engine over rows (n, m) float32
    vectors : (n, m) leading eigenvectors of the graph
    graph : sparse (n, n)
    tell : hears which part of them is made
    """
    found: list[Merged] = []
    for number in range(count):
        if found and limit.is_over:
            break
        times, groups = SETTINGS[number % len(SETTINGS)]
        m = min(max(times * n_clusters, FEWEST_VECTORS), vectors.shape[1])
        with over(scale_rows(vectors[:, :m], unit=True)) as engine:
            g = min(max(groups * n_clusters, FEWEST_GROUPS), engine.dataset.n_rows)
            geometry, _ = measure(engine.dataset, engine.rows, "none")
            key = seed + number // len(SETTINGS)
            (labelling,), _ = k_means(engine.dataset, engine.run, geometry, g, 1, key, limit)
            assert isinstance(labelling, ByScores)
            of = np.concatenate(list(engine.rows(passes.label_rows, labelling.planes)))
        found.append(graph_merge.merge(graph, of, n_clusters))
        tell((number + 1) / count)
    return found
