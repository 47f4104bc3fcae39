"""What a report shows of a fit: sizes, margins, a map of sampled rows, typical and borderline rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc import passes
from dmmc.data import Dataset
from dmmc.passes import Hyperplanes

Array = NDArray[Any]

SAMPLED = 3000
BINS = 60
SHOWN = 6
"""Rows of each kind shown for a cluster."""
LARGEST_ROW = 20_000
"""Rows with more features than this are not shown number by number."""


class Summary(NamedTuple):
    """Arrays of a report; `examples` are rows (cluster, borderline?, row, margin) and `values` their numbers."""

    sizes: Array
    edges: Array
    counts: Array
    map_xy: Array
    map_labels: Array
    map_rows: Array
    examples: Array
    values: Array


def summarise(dataset: Dataset, planes: Hyperplanes, labels: Array) -> Summary:
    """Look at a finished clustering.

    Parameters
    ----------
    dataset : the rows
    planes : the model's hyperplanes, in raw coordinates
    labels : of all rows
    """
    k = max(len(planes.W), 2)
    rows = np.arange(min(dataset.n_rows, SAMPLED)) * dataset.n_rows // min(dataset.n_rows, SAMPLED)
    sample = dataset.take(rows)
    f = np.asarray(sample @ planes.W.T) + (planes.b + planes.price)
    lead = margins(f)
    top = float(np.quantile(lead, 0.995)) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    counts = np.zeros((k, BINS))
    for block in dataset.blocks:
        decision = passes.scores(block, planes)
        own = labels[block.start : block.stop]
        where = np.clip(np.searchsorted(edges, margins(decision), side="right") - 1, 0, BINS - 1)
        np.add.at(counts, (own, where), 1)
    of = labels[rows]
    chosen = [pick for cluster in range(k) for pick in _examples(sample, of, lead, cluster)]
    examples = np.array([(c, kind, rows[i], lead[i]) for c, kind, i in chosen], np.float64).reshape(-1, 4)
    shown = sample[[i for _, _, i in chosen]] if chosen and dataset.n_features <= LARGEST_ROW else sample[:0]
    values = shown if isinstance(shown, np.ndarray) else shown.toarray()
    return Summary(
        np.bincount(labels, minlength=k), edges, counts, _map(sample, f), of, rows, examples, values
    )


def margins(f: Array) -> Array:
    """Lead of each row's cluster over the runner-up; |f| for two clusters."""
    if f.shape[1] == 1:
        return np.abs(f[:, 0])
    ordered = np.partition(f, f.shape[1] - 2, axis=1)
    lead: Array = ordered[:, -1] - ordered[:, -2]
    return lead


def _examples(sample: Any, of: Array, lead: Array, cluster: int) -> list[tuple[int, int, int]]:
    """Sampled rows nearest to the cluster's mean, and those with the least margin."""
    members = np.flatnonzero(of == cluster)
    if len(members) == 0:
        return []
    rows = sample[members]
    mean = np.asarray(rows.mean(axis=0), np.float64).ravel()
    squares = rows.multiply(rows) if hasattr(rows, "multiply") else np.square(rows, dtype=np.float64)
    away = np.asarray(squares.sum(axis=1)).ravel() - 2.0 * np.asarray(rows @ mean).ravel()
    typical = members[np.argsort(away, kind="stable")[:SHOWN]]
    border = members[np.argsort(lead[members], kind="stable")[:SHOWN]]
    return [(cluster, 0, int(i)) for i in typical] + [(cluster, 1, int(i)) for i in border]


def _map(sample: Any, f: Array) -> Array:
    """Two coordinates: the leading directions of the scores; for two clusters, f and what it leaves unexplained."""
    if f.shape[1] > 1:
        centred = f - f.mean(axis=0)
        _, _, directions = np.linalg.svd(centred, full_matrices=False)
        return np.asarray(centred @ directions[:2].T)
    from sklearn.utils.extmath import randomized_svd

    width = min(4, *sample.shape)
    left, scale, _ = randomized_svd(sample.astype(np.float64), n_components=width, random_state=0)
    rest = left * scale
    rest = rest - rest.mean(axis=0)
    along = f - f.mean()
    rest = rest - along @ (along.T @ rest) / max(float((along**2).sum()), 1e-300)
    _, _, directions = np.linalg.svd(rest, full_matrices=False)
    return np.hstack([f, rest @ directions[:1].T])
