"""Where the search starts: labellings made by passes over the data.

k-means++ and Lloyd on a seeded sample of rows, then a few Lloyd passes over all rows, in the data's own type, dense
or sparse; principal directions; random labels; labels from the user.
"""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Csr
from dmmc.data.dataset import Rows
from dmmc.features.axes import principal_axes
from dmmc.model import passes
from dmmc.model.geometry import Geometry
from dmmc.model.passes import ByScores, Drawn, Given, Labelling, Oracle, list_given
from dmmc.pairs.closure import Pairs
from dmmc.time_limit import NO_LIMIT, TimeLimit

SAMPLE_ROWS = 4096
SAMPLE_NUMBERS = 800_000
"""The sample has at most about this many numbers; ten times as many where rows are so wide that it would have ..."""
ROWS_A_CLUSTER = 100
"""... fewer rows than these, as centres of few wide rows say little of the others; and 20 rows a cluster at least."""
SEEDING = 100_000_000
"""Numbers of the sample times clusters times seedings: small data can afford more of them (2 to 40)."""
CENTRES = 20_000_000
"""Numbers in the centres of all seedings."""
MANY = 1000
"""Clusters beyond which one seeding is made, and one candidate is drawn for each next centre."""
SAMPLE_PASSES = 50
LLOYD_PASSES = 20
LINKS_AN_AXIS = 8
"""Must-links for each principal axis on which they shape the distances, ..."""
LINKED_AXES = 64
"""... of which there are at least one a cluster, and no more than this."""
SETTLED = 1e-3
"""Lloyd passes end when the variance explained by the centres grows by less than this fraction."""


def sample_rows(dataset: Rows, n_clusters: int, seed: int) -> Array:
    """Sorted numbers of the rows that stand for all in seeding; rows of weight 0 do not."""
    fit = SAMPLE_NUMBERS // (1 if dataset.is_sparse else dataset.n_features)
    weight = dataset.weight
    rows = None if weight is None else np.flatnonzero(weight > 0)
    n_rows = dataset.n_rows if rows is None else len(rows)
    wanted = max(fit, min(ROWS_A_CLUSTER * n_clusters, 10 * fit))
    count = min(n_rows, max(20 * n_clusters, min(SAMPLE_ROWS, wanted)))
    rng = np.random.default_rng([seed, 1])
    chosen = np.sort(rng.choice(n_rows, count, replace=False, shuffle=False))
    return chosen if rows is None else rows[chosen]


def _sample(dataset: Rows, geometry: Geometry, n_clusters: int, seed: int) -> tuple[Any, Array]:
    """Rows that stand for all, centred (dense) and scaled, and their weights."""
    chosen = sample_rows(dataset, n_clusters, seed)
    weight = dataset.weight
    return geometry.apply(dataset.take(chosen)), np.ones(len(chosen)) if weight is None else weight[chosen]


def k_means(
    dataset: Rows,
    oracle: Oracle,
    geometry: Geometry,
    n_clusters: int,
    n_starts: int,
    seed: int,
    limit: TimeLimit = NO_LIMIT,
    tries: int = 40,
    settled: float = SETTLED,
    least: int = 0,
) -> tuple[list[Labelling], Array]:
    """`n_starts` labellings by nearest centres, best inertia first, and their inertias.

    1. on the sample: k-means++ and Lloyd several times a start, the best kept
    2. on all rows: Lloyd passes; all starts share each read

    When the time is up there are fewer starts and passes, perhaps one and none, but `least` passes.
    """
    sample, weight = _sample(dataset, geometry, n_clusters, seed)
    made = [_seed_centres(sample, weight, n_clusters, [seed, 2, 0], tries)]
    while len(made) < n_starts and not limit.is_over:
        made.append(_seed_centres(sample, weight, n_clusters, [seed, 2, len(made)], tries))
    centres = np.stack(made)
    offset = np.zeros(dataset.n_features) if isinstance(sample, np.ndarray) else geometry.mean / geometry.unit
    inertia = np.full(len(centres), np.inf)
    for number in range(LLOYD_PASSES):
        if number >= least and limit.is_over:
            break
        moved, value = _lloyd(centres - offset, oracle, geometry)
        done = bool(np.all(inertia - value <= settled * (1.0 - value)))
        centres, inertia = moved + offset, value
        if done:
            break
    order = np.argsort(inertia, kind="stable")
    return [_label_by_centres(centres[i] - offset, geometry) for i in order], inertia[order]


def _seed_centres(sample: Any, weight: Array, n_clusters: int, key: list[int], most: int = 40) -> Array:
    """k-means++ and Lloyd on the sample, 2 to `most` seedings side by side; the centres with the least inertia."""
    numbers = sample.nnz if hasattr(sample, "nnz") else sample.size
    tries = min(SEEDING // (numbers * n_clusters), CENTRES // (n_clusters * sample.shape[1]))
    count = int(np.clip(tries, 1 if n_clusters > MANY else 2, most))
    centres = _plus_plus(sample, weight, n_clusters, count, np.random.default_rng(key))
    explained = np.full(count, -np.inf)
    moving = np.arange(count)  # seedings that have not settled
    each = np.arange(sample.shape[0])
    for _ in range(SAMPLE_PASSES):
        flat = centres[moving].reshape(-1, sample.shape[1])
        reach = np.asarray(sample @ (2.0 * flat).T)
        reach -= (flat**2).sum(axis=1)
        reach = reach.reshape(-1, len(moving), n_clusters)
        nearest = reach.argmax(axis=2)
        before = explained[moving]
        after = explained[moving] = weight @ np.take_along_axis(reach, nearest[:, :, None], axis=2)[:, :, 0]
        more = after - before > 1e-5 * np.abs(after)
        if not more.any():
            break
        moving, flat = moving[more], flat.reshape(len(moving), n_clusters, -1)[more]
        owner = (nearest[:, more] + n_clusters * np.arange(len(moving))).T.ravel()
        whose = (np.tile(weight, len(moving)), (owner, np.tile(each, len(moving))))
        members = sparse.csr_array(whose, shape=(len(moving) * n_clusters, len(each)), dtype=sample.dtype)
        mass = np.bincount(owner, whose[0], len(moving) * n_clusters).reshape(flat.shape[:2])[:, :, None]
        sums = members @ sample
        sums = np.asarray(sums.toarray() if hasattr(sums, "toarray") else sums).reshape(flat.shape)
        centres[moving] = np.where(mass > 0, sums / np.maximum(mass, 1e-300), flat)
    return np.asarray(centres[int(explained.argmax())], np.float64)


def _plus_plus(sample: Any, weight: Array, n_clusters: int, tries: int, rng: np.random.Generator) -> Array:
    """Greedy k-means++ seedings (tries, k, d).

    Candidates for a next centre are drawn by weight times squared distance from the last ones; the one that leaves the
    least of it is taken.
    """
    squares = sample.multiply(sample) if hasattr(sample, "multiply") else sample**2
    norms = np.asarray(squares.sum(axis=1), np.float64).ravel()
    chosen = np.empty((tries, n_clusters), int)
    chosen[:, 0] = rng.choice(len(norms), tries, p=weight / weight.sum())
    candidates = 1 if n_clusters > MANY else 2 + int(np.log(n_clusters))

    def distances(rows: Array) -> Array:
        product = sample @ sample[rows.ravel()].T
        product = product.toarray() if hasattr(product, "toarray") else product
        found = np.multiply(product, -2.0, dtype=np.float64).reshape(-1, *rows.shape)
        found += norms[rows]
        found += norms.reshape(-1, *(1,) * rows.ndim)
        return np.asarray(np.maximum(found, 0.0, out=found))

    distance = distances(chosen[:, 0])
    each = np.arange(tries)
    for j in range(1, n_clusters):
        mass = np.cumsum(weight[:, None] * distance, axis=0)
        drawn = rng.random((candidates, tries)) * mass[-1]
        rows = np.stack([np.minimum((mass <= one).sum(axis=0), len(norms) - 1) for one in drawn])
        nearer = distances(rows)
        np.minimum(nearer, distance[:, None, :], out=nearer)
        best = (weight @ nearer.reshape(len(nearer), -1)).reshape(rows.shape).argmin(axis=0)
        chosen[:, j] = rows[best, each]
        distance = nearer[:, best, each]
    rows = sample[chosen.ravel()]
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    return np.asarray(rows).reshape(tries, n_clusters, -1)


def _lloyd(centres: Array, oracle: Oracle, geometry: Geometry) -> tuple[Array, Array]:
    """One Lloyd pass for G sets of centres (G, k, d): the moved centres, and the inertia of those given."""
    G, k, d = centres.shape
    planes = geometry.raw(2.0 * centres, -(centres**2).sum(axis=2))
    sums = oracle(passes.nearest, (planes.W, planes.b))
    counts = sums.tilt.reshape(G, k)
    totals = geometry.centre(sums.weighted, sums.tilt).reshape(G, k, d) * geometry.total
    alive = counts > 0
    means = np.where(alive[..., None], totals / np.where(alive, counts, 1.0)[..., None], centres)
    # mean |x|^2 is 1 by the choice of unit; standardised constant features do not count
    return means, 1.0 + sums.risk / geometry.total


def _label_by_centres(centres: Array, geometry: Geometry) -> Labelling:
    return ByScores(geometry.raw(2.0 * centres, -(centres**2).sum(axis=1)), wide=True)


def start_from_axes(
    dataset: Rows, oracle: Oracle, geometry: Geometry, n_clusters: int, seed: int, limit: TimeLimit = NO_LIMIT
) -> Labelling:
    """Nearest centres within the leading principal directions; for two clusters, the sign of the first one.

    Eight passes of k + 8 directions from a fixed start.
    """
    wanted = 1 if n_clusters == 2 else min(n_clusters - 1, dataset.n_features)
    directions = principal_axes(oracle, geometry, wanted, [seed, 3], limit=limit)
    if n_clusters == 2:
        W = np.vstack([np.zeros(dataset.n_features), directions[0]])
        return ByScores(geometry.raw(W, np.zeros(2)), wide=True)
    sample, weight = _sample(dataset, geometry, n_clusters, seed)
    shadow = np.asarray(sample @ directions.T.astype(sample.dtype))
    if not isinstance(sample, np.ndarray):
        shadow = shadow - directions @ (geometry.mean / geometry.unit)
    centres = _seed_centres(shadow, weight, n_clusters, [seed, 4])
    return ByScores(geometry.raw(2.0 * centres @ directions, -(centres**2).sum(axis=1)), wide=True)


def start_from_links(
    dataset: Rows,
    oracle: Oracle,
    geometry: Geometry,
    n_clusters: int,
    rows: Array | Csr,
    must: Pairs,
    seed: int,
    limit: TimeLimit = NO_LIMIT,
) -> Labelling | None:
    """Nearest centres where rows that must be together are near: relevant components of the leading principal axes.

    1. the scatter of must-linked rows about each other, on as many axes as the links can tell about
    2. the directions along which all rows scatter most, in units of it
    3. k-means++ and Lloyd there, on the sample, then on all rows

    `rows` are the linked rows as they are, `must` pairs of them. None where there are too few links.
    """
    d, m = dataset.n_features, float(must.weight.sum())
    q = min(int(m // LINKS_AN_AXIS), LINKED_AXES, d)
    if q < min(n_clusters, d):
        return None
    axes = principal_axes(oracle, geometry, q, [seed, 5], limit=limit)
    sample, weight = _sample(dataset, geometry, n_clusters, seed)
    shadow = np.asarray(sample @ axes.T.astype(sample.dtype), np.float64)
    shadow -= np.average(shadow, axis=0, weights=weight)
    total = (shadow * weight[:, None]).T @ shadow / weight.sum()
    planes = geometry.raw(axes, np.zeros(q))
    at = kernels.scores(rows, planes.W) + planes.b
    apart = at[must.ends[:, 0]] - at[must.ends[:, 1]]  # 1
    within = (apart * must.weight[:, None]).T @ apart / 2.0
    within = (within + 0.5 * q * total) / (m + 0.5 * q)  # few links say little: the rest is as for any two rows
    within[np.diag_indices(q)] += 1e-6 * max(float(np.trace(total)) / q, 1e-12)
    _, turn = eigh(total, within)  # 2
    turn = turn[:, ::-1][:, : 2 * n_clusters]
    directions = turn.T @ axes
    centres = _seed_centres(shadow @ turn, weight, n_clusters, [seed, 6])  # 3
    for _ in range(LLOYD_PASSES // 2):
        if limit.is_over:
            break
        moved = _lloyd_along(centres, directions, oracle, geometry)
        settled = np.abs(moved - centres).max() <= SETTLED * np.abs(centres).max()
        centres = moved
        if settled:
            break
    return ByScores(geometry.raw(2.0 * centres @ directions, -(centres**2).sum(axis=1)), wide=True)


def _lloyd_along(centres: Array, directions: Array, oracle: Oracle, geometry: Geometry) -> Array:
    """One Lloyd pass of distances along some directions only: the moved centres."""
    planes = geometry.raw(2.0 * centres @ directions, -(centres**2).sum(axis=1))
    sums = oracle(passes.nearest, (planes.W[None], planes.b[None]))
    totals = geometry.centre(sums.weighted, sums.tilt) * geometry.total @ directions.T
    alive = (sums.tilt > 0)[:, None]
    return np.where(alive, totals / np.where(alive, sums.tilt[:, None], 1.0), centres)


def make_labellings(
    init: str,
    dataset: Rows,
    oracle: Oracle,
    geometry: Geometry,
    n_clusters: int,
    n_starts: int,
    seed: int,
    limit: TimeLimit = NO_LIMIT,
) -> list[Labelling]:
    """Starting labellings for `n_starts` runs, or fewer when the time is up."""
    if init == "k-means":
        return k_means(dataset, oracle, geometry, n_clusters, n_starts, seed, limit)[0]
    if init == "random":
        return [Drawn(seed, run, n_clusters) for run in range(n_starts)]
    if init == "pca":
        return [start_from_axes(dataset, oracle, geometry, n_clusters, seed, limit)]
    return [Given()] if n_starts == 1 else list(list_given(n_clusters, n_starts))
