"""What passes over the rows find out about a finished fit: where rows stand, what clusters are, their numbers."""

from typing import NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.model.margins import Standing
from dmmc.profile.cluster_sums import ColumnMeans, find_means
from dmmc.profile.confidence import find_confidence, find_standing, unassign
from dmmc.profile.match import Matching, match_by_centres, match_by_rows
from dmmc.results.earlier import Earlier


class Findings(NamedTuple):
    """What passes over the rows of a finished fit have found."""

    standing: Standing
    confidence: Array
    """(n,) of each row's label."""
    labels: Array
    """(n,) int32; -1 where confidence is below what was asked for."""
    means: ColumnMeans
    matching: Matching | None = None


def look(engine: Engine, model: SourceClusterer, unassigned: float | None = None) -> Findings:
    """Where all rows stand, and the means of their clusters: one pass over the features, one over the raw columns."""
    standing = find_standing(engine.rows, model.decision(), engine.dataset.n_rows)
    confidence = find_confidence(standing.margins, model.margin_scale_)
    if np.array_equal(standing.labels, model.labels_):
        standing = standing._replace(labels=model.labels_)  # once in memory
    labels = unassign(standing.labels, confidence, unassigned)
    means = find_means(engine.dataset, engine.use, engine.run, labels, model.count_clusters())
    if model.preparation_ is not None:
        means = means.restore(model.preparation_.units)
    model.cluster_centers_ = means.centres
    return Findings(standing, confidence, labels, means)


def keep_numbers(
    engine: Engine,
    model: SourceClusterer,
    found: Findings,
    earlier: Earlier,
    unassigned: float | None,
) -> Findings:
    """Number the model's clusters as those of an earlier result; sets `labels_`."""
    matching = _match(engine.dataset, found, earlier)
    number = matching.number
    model.renumber(number)
    if (found.standing.margins == 0).any():  # ties go to the lowest number, so new numbers may decide otherwise
        found = look(engine, model, unassigned)
    else:
        labels, runner_up, margins = found.standing
        numbers = number.astype(np.int32)
        found = Findings(
            Standing(numbers[labels], numbers[runner_up], margins),
            found.confidence,
            np.where(found.labels < 0, -1, numbers[found.labels]).astype(np.int32),
            found.means.reorder(number),
        )
    model.labels_, model.cluster_centers_ = found.standing.labels, found.means.centres
    return found._replace(matching=matching)


def check_match(dataset: Rows, earlier: Earlier) -> None:
    """Refuse an earlier result whose clusters cannot be compared with those of other rows: neither ids nor columns."""
    if len(_find_shared(dataset, earlier)[0]):
        return
    if earlier.centres is None:
        raise InputError(
            f"{earlier.name} was written by an older version, which kept no centres, and rows with the same ids are "
            "missing: fit it again to match with it."
        )
    if earlier.centres.shape[1] != dataset.n_features:
        raise InputError(
            f"{earlier.name} is of rows with {earlier.centres.shape[1]} columns, and {dataset.name} has "
            f"{dataset.n_features}: without row ids, clusters are matched by their centres in the same columns."
        )


def _match(dataset: Rows, found: Findings, earlier: Earlier) -> Matching:
    """By the rows that both results have; by centres where rows have no ids, or share none."""
    k = len(found.means.sizes)
    here, there = _find_shared(dataset, earlier)
    if len(here):
        return match_by_rows(found.labels[here], earlier.labels[there], k, earlier.n_clusters)
    check_match(dataset, earlier)
    assert earlier.centres is not None
    return match_by_centres(found.means.centres, earlier.centres, found.means.spread)


def _find_shared(dataset: Rows, earlier: Earlier) -> tuple[Array, Array]:
    """Rows with the same ids, as their numbers in both results; none where either has no ids."""
    if earlier.ids is None or dataset.row_ids is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ids = np.asarray(dataset.row_ids).astype(str)
    _, here, there = np.intersect1d(ids, earlier.ids, return_indices=True)
    return here, there
