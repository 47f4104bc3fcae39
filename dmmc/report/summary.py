"""What a report shows of a fit: sizes, margins, a map of sampled rows, typical and borderline rows."""

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.features import maps
from dmmc.features.maps import Decision
from dmmc.machine import MIB
from dmmc.model.label_counts import AT_ONCE, count_labels
from dmmc.model.margins import Standing, find_margins
from dmmc.model.passes import Hyperplanes
from dmmc.profile.cluster_sums import ColumnMeans
from dmmc.profile.units import Units
from dmmc.report.circle import is_on_circle, place_on_circle

SAMPLED = 3000  # rows of the sample; if they are long, as many as `SAMPLE_BYTES` hold
SAMPLE_BYTES = 64 * MIB
BINS = 60
SHOWN = 6  # most rows of each kind shown for a cluster
WHOLE = 2**22  # most numbers of rows that are kept whole; of longer rows only the columns that say most are
MOST_CLUSTERS = 100  # clusters of which rows are kept and shown: the largest, as they are numbered by size
HOVERED = 3  # columns in which a sampled row stands out
TOLD = 8  # columns that say most, of each such row


class Summary(NamedTuple):
    """Arrays of a report."""

    sizes: Array  # rows of each cluster
    edges: Array  # of the histogram of margins, (bins + 1,)
    counts: Array  # rows of each cluster in each bin, (k, bins)
    map_xy: Array  # two coordinates of each sampled row
    map_labels: Array  # cluster of each sampled row
    map_rows: Array  # number of each sampled row
    examples: Array  # (cluster, 0 for typical or 1 for borderline, row, margin) of each row worth looking at
    values: Array  # those rows
    columns: Array  # the columns that are kept of them
    map_told: Array  # (sampled, 3) columns in which each sampled row stands out; -1: no more
    map_values: Array  # (sampled, 3) its numbers there


def summarise(
    dataset: Rows,
    decision: Decision,
    standing: Standing,
    *,
    means: ColumnMeans | None = None,
    units: Units | None = None,
    images: bool = False,
    standardised: bool = False,
    subspace: Hyperplanes | None = None,
) -> Summary:
    """Compute what a report shows of a finished clustering; `standing` is that of all rows, `means` of their columns.

    Rows and means that are shown are in the `units` of the table that the rows were made of, if there was one.
    For `images` whole rows are kept. Where features were `standardised`, distances are taken on that scale too. The map
    is along the first two directions of the `subspace` that the model has learned, if it has two; of many clusters in
    other features than raw ones it is a circle.
    """
    from sklearn.preprocessing import StandardScaler

    row_map, planes = decision
    labels = standing.labels
    k = max(planes.n_scores, 2)
    rows = _sample_rows(dataset, labels, k)
    sample = dataset.take(rows)
    seen = sample if row_map is None else maps.map_few_rows(row_map, sample)
    f = planes.decide(np.asarray(seen @ planes.W.T))
    lead, of = find_margins(f), labels[rows]
    shown = SHOWN
    if images:
        shown = int(np.clip(4 * WHOLE // (2 * k * dataset.n_features), 1, SHOWN))
    near = StandardScaler(with_mean=False).fit_transform(sample.astype(np.float64)) if standardised else sample
    told = range(min(k, MOST_CLUSTERS))
    chosen = [pick for cluster in told for pick in _choose_examples(near, of, lead, cluster, shown)]
    at = [i for _, _, i in chosen]
    columns = _choose_columns(sample[at], images)
    raw = sample if units is None else units.restore(sample)
    values = raw[at][:, columns]
    if is_on_circle(decision):
        map_xy = place_on_circle(f)
    elif subspace is None or len(subspace.W) < 2:
        map_xy = _make_map(seen, f)
    else:
        map_xy = np.asarray(seen @ subspace.W[:2].T) + subspace.b[:2]
    told_columns, told_values = _find_told(raw, means)
    top = float(np.quantile(lead, 0.995))
    edges = np.linspace(0.0, top if top > 0 else 1.0, BINS + 1)
    return Summary(
        sizes=count_labels(labels, k) if means is None else means.sizes,
        edges=edges,
        counts=_count_margins(standing, edges, k),
        map_xy=map_xy,
        map_labels=of,
        map_rows=rows,
        examples=np.array([(cluster, kind, rows[i], lead[i]) for cluster, kind, i in chosen], np.float64),
        values=values if isinstance(values, np.ndarray) else np.asarray(values.toarray()),
        columns=columns,
        map_told=told_columns,
        map_values=told_values,
    )


def _sample_rows(dataset: Rows, labels: Array, k: int) -> Array:
    """Numbers of evenly spaced rows, and more of clusters that have fewer than `SHOWN` among them."""
    row_bytes = 8 * max(1, dataset.nnz // dataset.n_rows)
    count = min(dataset.n_rows, SAMPLED, max(100, SAMPLE_BYTES // row_bytes))
    rows = np.arange(count) * dataset.n_rows // count
    rare = np.flatnonzero(np.bincount(labels[rows], minlength=k)[:MOST_CLUSTERS] < SHOWN)
    return np.unique(np.concatenate([rows, *(_thin(np.flatnonzero(labels == c), SHOWN) for c in rare)]))


def _thin(rows: Array, most: int) -> Array:
    """At most `most` of the rows, evenly spaced."""
    count = min(len(rows), most)
    return rows[np.arange(count) * len(rows) // max(count, 1)]


def _find_told(sample: Any, means: ColumnMeans | None) -> tuple[Array, Array]:
    """Of each sampled row the columns farthest from their mean, in units of their spread; of sparse rows, from 0."""
    columns, values = np.full((sample.shape[0], HOVERED), -1, np.int64), np.zeros((sample.shape[0], HOVERED))
    if means is None:
        return columns, values
    spread = np.where(means.spread > 0, means.spread, np.inf)
    mean = means.mean
    for row in range(len(columns)):
        if isinstance(sample, np.ndarray):
            found, own = np.arange(sample.shape[1]), sample[row].astype(np.float64)
            away = np.abs(own - mean) / spread
        else:
            part = slice(*sample.indptr[row : row + 2])
            found, own = sample.indices[part], sample.data[part].astype(np.float64)
            away = np.abs(own) / spread[found]
        best = np.argsort(-away, kind="stable")[:HOVERED]
        best = best[away[best] > 0]
        columns[row, : len(best)], values[row, : len(best)] = found[best], own[best]
    return columns, values


def _count_margins(standing: Standing, edges: Array, k: int) -> Array:
    """Rows of each cluster in each bin of the margins; those above the last edge are in the last bin."""
    counts = np.zeros(k * BINS, np.int64)
    for start in range(0, len(standing.labels), AT_ONCE):
        labels, _, margins = (column[start : start + AT_ONCE] for column in standing)
        bins = np.clip(np.searchsorted(edges, margins, side="right") - 1, 0, BINS - 1)
        counts += np.bincount(labels.astype(np.int64) * BINS + bins, minlength=k * BINS)
    return counts.reshape(k, BINS)


def _choose_examples(sample: Any, of: Array, lead: Array, cluster: int, shown: int) -> list[tuple[int, int, int]]:
    """Sampled rows nearest to the cluster's mean, sparse ones by angle, and those with the least margin."""
    from sklearn.preprocessing import normalize

    members = np.flatnonzero(of == cluster)
    if len(members) == 0:
        return []
    rows = sample[members].astype(np.float64)
    if not isinstance(rows, np.ndarray):  # of texts, the nearest by distance would be the shortest
        rows = normalize(rows)
    mean = np.asarray(rows.mean(axis=0)).ravel()
    away = np.asarray((rows**2).sum(axis=1)).ravel() - 2.0 * np.asarray(rows @ mean).ravel()
    typical = members[np.argsort(away, kind="stable")[:shown]]
    border = members[np.argsort(lead[members], kind="stable")[:shown]]
    return [(cluster, 0, int(i)) for i in typical] + [(cluster, 1, int(i)) for i in border]


def _choose_columns(rows: Any, images: bool) -> Array:
    """All columns; of long rows those in which some row is largest, or furthest from the mean of these rows."""
    if images or rows.shape[0] * rows.shape[1] <= WHOLE:
        return np.arange(rows.shape[1])
    if isinstance(rows, np.ndarray):
        middle, spread = rows.mean(axis=0, dtype=np.float64), rows.std(axis=0, dtype=np.float64)
        spread[spread == 0] = np.inf
        told = [np.argsort(-np.abs(row - middle) / spread, kind="stable")[:TOLD] for row in rows]
    else:
        size = np.abs(rows.data.astype(np.float64))
        parts = [slice(first, last) for first, last in pairwise(rows.indptr)]
        told = [rows.indices[part][np.argsort(-size[part], kind="stable")[:TOLD]] for part in parts]
    return np.unique(np.concatenate(told)).astype(np.int64)


def _make_map(sample: Any, f: Array) -> Array:
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
