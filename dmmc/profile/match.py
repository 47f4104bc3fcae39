"""Numbers that stay: which cluster of a new result is which of an earlier one."""

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from dmmc.array_types import Array

SHARED = 0.1
"""Two clusters are the same if they share at least this part of the rows that either has."""
NEAR = 0.5
"""Or if their centres are nearer than this part of the distance from the earlier one to the next."""


class Matching(NamedTuple):
    """Clusters of a new result, and those of the earlier one that they continue."""

    number: Array
    """(k,) the number that each cluster gets."""
    kept: list[tuple[int, int]]
    """Earlier number and new one of each cluster that goes on; they differ where there are no longer as many."""
    new: list[int]
    """Numbers of clusters that were not there before."""
    gone: list[int]
    """Earlier numbers of clusters that are no longer there."""
    by: str
    """What was compared: "row ids" or "centres"."""
    stayed: float | None = None
    """Of the rows that both have, the part whose number is as before."""

    def tell(self) -> str:
        """One sentence on what stayed, came and went."""
        stayed = [str(new) for old, new in self.kept if old == new]
        parts = [f"{len(stayed)} of {len(self.number)} clusters keep their numbers"]
        parts += [f"cluster {old} is now {new}" for old, new in self.kept if old != new]
        parts += [f"cluster {old} is gone" for old in self.gone]
        parts += [f"{number} is a new cluster" for number in self.new]
        if self.stayed is not None:
            parts.append(f"{math.floor(100 * self.stayed)} % of the rows that both have are where they were")
        return f"compared with the earlier result by {self.by}: {', '.join(parts)}."


def match_by_rows(labels: Array, earlier: Array, k: int, k_earlier: int) -> Matching:
    """Match clusters by the rows that they share: the assignment that keeps most rows.

    labels, earlier : (m,) of the same rows; negative ones are of no cluster
    """
    both = (labels >= 0) & (earlier >= 0)
    shared = np.zeros((k, k_earlier))
    np.add.at(shared, (labels[both], earlier[both]), 1)
    either = shared.sum(axis=1)[:, None] + shared.sum(axis=0) - shared
    pairs = zip(*linear_sum_assignment(shared, maximize=True), strict=True)
    same = {int(i): int(j) for i, j in pairs if shared[i, j] > 0 and shared[i, j] >= SHARED * either[i, j]}
    found = _give_numbers(same, k, k_earlier, "row ids")
    return found._replace(stayed=float(np.mean(found.number[labels[both]] == earlier[both])) if both.any() else None)


def match_by_centres(centres: Array, earlier: Array, spread: Array) -> Matching:
    """Match clusters by their centres (k, d) and (K, d), in units of the columns' spread: the nearest in sum."""
    scale = 1.0 / np.where(spread > 0, spread, np.inf)
    now, before = centres * scale, earlier * scale
    away = _find_distances(now, before)
    between = _find_distances(before, before)
    np.fill_diagonal(between, np.inf)
    pairs = zip(*linear_sum_assignment(away), strict=True)
    same = {int(i): int(j) for i, j in pairs if away[i, j] <= NEAR * between[j].min(initial=np.inf)}
    return _give_numbers(same, len(now), len(before), "centres")


def _find_distances(rows: Array, others: Array) -> Array:
    return np.stack([np.linalg.norm(others - row, axis=1) for row in rows])


def _give_numbers(same: dict[int, int], k: int, k_earlier: int, by: str) -> Matching:
    """The earlier number where it is one of 0 to k - 1; free numbers for all others, in their order."""
    number = np.full(k, -1)
    for cluster, old in same.items():
        if old < k:
            number[cluster] = old
    free = iter(sorted(set(range(k)) - set(number.tolist())))
    for cluster in np.flatnonzero(number < 0).tolist():
        number[cluster] = next(free)
    kept = sorted((old, int(number[cluster])) for cluster, old in same.items())
    new = sorted(int(number[cluster]) for cluster in range(k) if cluster not in same)
    return Matching(number, kept, new, sorted(set(range(k_earlier)) - set(same.values())), by)
