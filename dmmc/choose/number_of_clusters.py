"""How many clusters? Evidence from one graph of a sample, for every number at once: a suggestion, no verdict (E38)."""

from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.choose.evidence import make_evidence
from dmmc.features import graph_merge
from dmmc.features.kmeans import fit_kmeans
from dmmc.features.projection import scale_rows

LOWEST, HIGHEST = 2, 20
"""Numbers that are compared where none are named."""
FEWEST = 3
"""Rows of which there is a graph."""
GROUPS = 3
"""Groups that are joined, times the highest number."""
EVIDENCE = ("cut_jumps", "merge_jumps", "eigengaps", "strengths")
FLOOR = 2e-3
"""Added to cuts and to distances from 1, which may be 0."""


class Suggestion(NamedTuple):
    """What speaks for each number of clusters."""

    numbers: Array
    """(r,) the numbers that were compared."""
    cut_jumps: Array
    """(r,) how much more of a cluster's edges leave it with one cluster more, as a log ratio."""
    merge_jumps: Array
    """(r,) how much weaker the next join of two clusters is than the last one was, as a log ratio."""
    eigengaps: Array
    """(r,) how much farther from 1 the next eigenvalue is, as a log ratio."""
    strengths: Array
    """(r,) how well centres of one half of the rows tell which rows of the other half are together (E38), 0 to 1."""
    number: int
    runner_up: int

    def describe(self) -> dict[str, Any]:
        """As `run.json` has it."""
        evidence = {name: getattr(self, name) for name in EVIDENCE}
        return {
            "suggestion": self.number,
            "runner_up": self.runner_up,
            "compared": self.numbers.tolist(),
            **{name: np.round(values, 4).tolist() for name, values in evidence.items()},
        }


def suggest_number(places: Array, low: int = LOWEST, high: int = HIGHEST) -> Suggestion:
    """Compare numbers of clusters from `low` to `high` on rows (n, p).

    1. the graph of the rows and its leading eigenvectors, by which rows are put into many small groups
    2. groups are joined along the graph until one is left; the cut of each number of clusters on the way
    3. four kinds of evidence, each in units of its highest, are added up: the number with the largest sum is suggested,
       then the next
    """
    if len(places) < FEWEST:
        nothing = np.zeros(1)
        return Suggestion(np.array([low]), nothing, nothing, nothing, nothing, low, low)
    high = max(min(high, len(places) - 2), 1)
    low = min(low, high)
    found = make_evidence(places, high + 1)  # 1
    count = min(GROUPS * high, len(places))
    groups = fit_kmeans(scale_rows(found.vectors[:, :high], unit=True), count, 0).labels_
    strengths, cuts = graph_merge.join_all(found.graph, groups, high + 1)  # 2
    numbers = np.arange(low, high + 1)
    levels = np.log(cuts / np.maximum(np.arange(len(cuts)) - 1, 1) + FLOOR)
    away = np.log(np.maximum(1.0 - found.values, 0.0) + FLOOR)
    evidence = (
        levels[numbers + 1] - levels[numbers],
        strengths[numbers + 1] - strengths[numbers],
        away[numbers] - away[numbers - 1],
        np.array([find_strength(scale_rows(found.vectors[:, :k], unit=True), int(k)) for k in numbers]),
    )
    total = sum(np.maximum(values, 0.0) / max(float(values.max()), 1e-300) for values in evidence)  # 3
    order = np.argsort(-total, kind="stable")
    return Suggestion(numbers, *evidence, int(numbers[order[0]]), int(numbers[order[min(1, len(order) - 1)]]))


def find_strength(rows: Array, k: int) -> float:
    """The prediction strength of k clusters of rows (n, p).

    Each half of the rows, drawn at random, is clustered. Of the pairs of rows that are together in a cluster of the
    second half, the share that have the same nearest centre of the first half: in the worst cluster.
    """
    order = np.random.default_rng(0).permutation(len(rows))
    first, second = rows[order[::2]], rows[order[1::2]]
    if k > len(second):
        return 0.0
    told = fit_kmeans(first, k, 0).predict(second)
    together = fit_kmeans(second, k, 0).labels_
    counts = np.zeros((together.max() + 1, k))
    np.add.at(counts, (together, told), 1.0)
    sizes = counts.sum(axis=1)
    pairs = (counts * (counts - 1.0)).sum(axis=1)[sizes > 1] / (sizes * (sizes - 1.0))[sizes > 1]
    return float(pairs.min()) if len(pairs) else 0.0
