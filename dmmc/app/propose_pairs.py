"""Pairs of rows that are most worth asking a person about."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dmmc.app.run import Run
from dmmc.array_types import Array
from dmmc.errors import InputError, collect_warnings
from dmmc.estimators.checks import check_number, draw_seed
from dmmc.estimators.pairwise import PairwiseMMC
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.pairs.closure import check_links, parts_of
from dmmc.pairs.io import Links, read
from dmmc.stores.urls import find_remote

ANCHORS = 8
"""Rows of each cluster that stand for it."""
CORE = 0.8
"""They are those nearest to this quantile of their cluster's margins: well inside, but not odd."""
CANDIDATES = 20
"""Doubtful rows looked at, for each pair that is asked for."""


def propose_pairs(
    source: Any,
    model: Run | SourceClusterer,
    n_pairs: int = 20,
    *,
    constraints: Any = None,
    component: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
    n_restarts: int = 4,
    random_state: Any = 0,
) -> NDArray[np.int64]:
    """Find the pairs of rows that are most worth asking a person about: must they, or can they not, be together.

    A row is in doubt where its margin is small, and where restarts of the fit (with other seeds and randomly weighted
    rows) disagree about it. Each of the most doubtful rows is paired with a row well inside one of the two clusters
    that it is between. Write the answers as `(i, j, "must" or "cannot")` and fit again with them as constraints.

    Parameters
    ----------
    source : the rows that the model was fitted on
    model : what `dmmc.fit` gave, or a fitted estimator
    n_pairs : how many pairs; fewer are proposed where there are not as many rows
    constraints : pairs that have been answered; they are not asked again, nor is what follows from them
    component : path inside the store, for a zarr store
    storage_options : as of `dmmc.fit`, for a URL
    n_restarts : fits to compare with; 0 goes by the margins alone
    random_state : the seed

    Returns
    -------
    Array of shape (n_pairs, 2) of row numbers, the most doubtful first: a doubtful row, and the one to compare it with.
    """
    fitted = model.model if isinstance(model, Run) else model
    if not isinstance(fitted, SourceClusterer):
        raise InputError(f"model is a {type(fitted).__name__}; what dmmc.fit gave, or a fitted estimator, is wanted.")
    check_is_fitted(fitted)
    check_number("n_pairs", n_pairs, "a whole number of at least 1", 1, np.inf, whole=True)
    check_number("n_restarts", n_restarts, "a whole number of at least 0", 0, np.inf, whole=True)
    if fitted.count_clusters() < 2:
        raise InputError("the model has one cluster; pairs are proposed for at least two.")
    seed = draw_seed(random_state)
    dataset = fitted.open(find_remote(source, storage_options), component)
    links = check_links(read(constraints), dataset.n_rows, fitted.count_clusters())
    f = fitted.decision_function(dataset)
    f = np.stack([-f, f], axis=1) / 2 if f.ndim == 1 else f
    order = np.argsort(-f, axis=1, kind="stable")[:, :2]
    lead = np.take_along_axis(f, order, axis=1) @ [1.0, -1.0]
    labels = np.stack([order[:, 0], *_restarted(fitted, dataset, links, int(n_restarts), seed)])
    anchors = _anchors(order[:, 0], lead, labels, fitted.count_clusters())
    doubt = 1.0 - np.minimum(lead / max(float(np.median(lead)), 1e-300), 1.0)
    rows = np.argsort(-doubt - _disagreement(labels, anchors), kind="stable")[: CANDIDATES * int(n_pairs)]
    part, rng = _known_parts(links, dataset.n_rows, fitted.count_clusters()), np.random.default_rng([seed, 7])
    found: list[tuple[float, int, int]] = []
    for i in rows.tolist():
        others = np.concatenate([anchors[p] for p in order[i]])
        others = others[(others != i) & ~_answered(part, i, others)]
        if len(others):
            share = np.mean(labels[:, [i]] == labels[:, others], axis=0)
            worth = 4.0 * share * (1.0 - share)
            j = int(rng.choice(others[worth == worth.max()]))  # equally good ones take turns
            found.append((doubt[i] + float(worth.max()), i, j))
    found.sort(key=lambda pair: -pair[0])
    return _distinct(found, int(n_pairs))


def _restarted(fitted: SourceClusterer, dataset: Any, links: Links, count: int, seed: int) -> list[Array]:
    """Labels of fits with other seeds, of rows with random weights."""
    found = []
    for turn in range(count):
        rng = np.random.default_rng([seed, 6, turn])
        again = clone(fitted).set_params(
            n_clusters=fitted.count_clusters(), random_state=int(rng.integers(2**31)), callbacks=None
        )
        weight = rng.exponential(size=dataset.n_rows)
        told = {"constraints": links} if isinstance(fitted, PairwiseMMC) else {}
        if told and again.balance is None and links.must.all():
            again.set_params(balance="auto")  # without a cannot-link there has to be a bound
        with collect_warnings():  # what is said of these fits helps nobody
            found.append(again.fit(dataset, sample_weight=weight, **told).labels_)
    return found


def _anchors(own: Array, lead: Array, labels: Array, k: int) -> list[Array]:
    """Rows that stand for each cluster: well inside it, and where most restarts put most of its rows."""
    found = []
    for p in range(k):
        members = np.flatnonzero(own == p)
        if not len(members):
            found.append(members)
            continue
        usual = np.stack([again == np.bincount(again[members]).argmax() for again in labels])[:, members]
        steady = members[usual.all(axis=0)] if usual.all(axis=0).any() else members
        away = np.abs(lead[steady] - np.quantile(lead[members], CORE))
        found.append(steady[np.argsort(away, kind="stable")[:ANCHORS]])
    return found


def _disagreement(labels: Array, anchors: list[Array]) -> Array:
    """How much the restarts differ about which cluster's anchors a row is with: 0 to 1."""
    most = np.zeros(labels.shape[1])
    for rows in anchors:
        if len(rows):
            share = np.mean(labels == labels[:, rows[:1]], axis=0)
            most = np.maximum(most, 4.0 * share * (1.0 - share))
    return most


def _known_parts(links: Links, n_rows: int, n_clusters: int) -> tuple[Array, set[tuple[int, int]]]:
    """The part of each row that is linked (others: -1), and which parts are known to be apart."""
    part = np.full(n_rows, -1)
    if not links.size:
        return part, set()
    rows, numbers, apart = parts_of(links, n_clusters)
    part[rows] = numbers
    return part, apart


def _answered(known_parts: tuple[Array, set[tuple[int, int]]], i: int, others: Array) -> Array:
    """Whether it follows from the answers how row i and each of the others are linked."""
    part, apart = known_parts
    mine = int(part[i])
    return np.array([mine >= 0 and (part[j] == mine or (mine, int(part[j])) in apart) for j in others], bool)


def _distinct(found: list[tuple[float, int, int]], n_pairs: int) -> NDArray[np.int64]:
    """The first so many different pairs."""
    seen, pairs = set(), []
    for _, i, j in found:
        if (min(i, j), max(i, j)) not in seen:
            seen.add((min(i, j), max(i, j)))
            pairs.append((i, j))
    return np.array(pairs[:n_pairs], np.int64).reshape(-1, 2)
