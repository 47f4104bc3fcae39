"""Which of several clusterings of the same rows is the best, without labels.

A clustering is good where near rows are together. A sample of rows is linked to its nearest neighbours among all rows,
to few and to many, and the part of a cluster's links that leave it is taken, as a mean over clusters: the normalised
cut (E36). It does not ask for clusters of any shape, so it compares what hyperplanes, centres and graphs have found.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.features import graph
from dmmc.features.graph import Index
from dmmc.solvers.medoid import find_medoid

NEIGHBOURS = (5, 30)
FLOOR = 0.01
"""Added to a cut, which may be 0."""
CLEARLY = 1.4
"""A candidate is out where another's cut is so many times lower."""
SMALL, SUSPECT = 0.2, 3.0
"""A cluster of less than this part of n / k rows may be a few odd rows: the cut counts so many times."""


class Verdict(NamedTuple):
    """What the judge says of one clustering."""

    cut: float
    score: float
    """The cut, raised where a cluster is suspiciously small: lower is better."""


class Links(NamedTuple):
    """Rows of a sample and their nearest neighbours."""

    rows: Array
    """(m,) numbers of the sampled rows."""
    who: Array
    """(m, c) numbers of their neighbours, nearest first."""
    distance: Array
    """(m, c)."""


def link_rows(rows: Array, points: Array, threads: int = 1) -> Links:
    """Link rows of these numbers (m,) to the nearest of all points (n, p)."""
    found = Index(points, threads, exact=True).nearest(points[rows], min(max(NEIGHBOURS), len(points) - 1) + 1)
    others = graph.drop_self(found, rows)
    return Links(rows, others.who, others.distance)


def judge(links: Links, labels: Array, sizes: Array) -> Verdict:
    """Judge one clustering.

    links : of sampled rows
    labels : (n,) of all rows
    sizes : (k,) rows of each cluster, of all rows
    """
    k = len(sizes)
    own = labels[links.rows]
    leaves = labels[links.who] != own[:, None]
    logs = []
    for count in NEIGHBOURS:
        distance = links.distance[:, :count]
        scale = graph.scale_of(distance)
        weight = graph.weights(distance, scale, scale[:, None])
        out = np.bincount(own, (weight * leaves[:, :count]).sum(axis=1), minlength=k)
        total = np.bincount(own, weight.sum(axis=1), minlength=k)
        parts = np.where(total > 0, out / np.maximum(total, 1e-300), 1.0)  # no sampled row: as if cut off
        logs.append(np.log(parts.sum() / max(k - 1, 1) + FLOOR))
    cut = float(np.exp(np.mean(logs)))
    return Verdict(cut, cut * (SUSPECT if sizes.min() < SMALL * sizes.sum() / k else 1.0))


def choose(scores: Sequence[float], labellings: Sequence[Array], keep_first: bool = False) -> int:
    """The number of the winner: of those whose score is near the lowest, the one that agrees most with the others.

    scores : of each candidate
    labellings : of each candidate, the labels (m,) of the same rows
    keep_first : whether the first wins wherever its score is near the lowest
    """
    near = [number for number, score in enumerate(scores) if score <= CLEARLY * min(scores)]
    if keep_first and near[0] == 0:
        return 0
    return near[find_medoid([labellings[number] for number in near])]
