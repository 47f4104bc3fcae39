"""Confidence from margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dmmc
from dmmc.model.margins import find_margins, rank_clusters
from dmmc.profile.confidence import SLOPE, find_confidence, unassign

QUICK: dict[str, Any] = {"method": "cpmmc", "max_iter": 20, "random_state": 0}


def blobs(k: int) -> Any:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(60, 3)) + 3 * np.eye(3)[i] for i in range(k)])


def test_a_standing_is_the_best_and_the_next_of_sorted_scores() -> None:
    f = np.random.default_rng(0).normal(size=(50, 4))
    found, order = rank_clusters(f), np.argsort(-f, axis=1)
    assert np.array_equal(found.labels, order[:, 0])
    assert np.array_equal(found.runner_up, order[:, 1])
    assert np.allclose(found.margins, np.sort(f, axis=1)[:, -1] - np.sort(f, axis=1)[:, -2])
    two = rank_clusters(f[:, :1])
    assert np.array_equal(two.labels, f[:, 0] >= 0)
    assert np.array_equal(two.runner_up, 1 - two.labels)
    assert np.array_equal(find_margins(f[:, :1]), np.abs(f[:, 0]))


def test_confidence_is_half_at_a_tie_and_rises_with_the_margin() -> None:
    margins = np.array([0.0, 1.0, 2.0, 4.0])
    found = find_confidence(margins, 2.0)
    assert np.allclose(found, 1 / (1 + np.exp(-SLOPE * margins / 2)))
    assert found[0] == 0.5
    assert (np.diff(found) > 0).all()
    assert np.array_equal(find_confidence(margins, None), find_confidence(margins, 1.5))
    assert np.array_equal(find_confidence(np.zeros(3), None), np.full(3, 0.5))


@pytest.mark.parametrize("k", [2, 3])
def test_a_run_knows_how_sure_it_is_and_who_is_next(k: int) -> None:
    X = blobs(k)
    run = dmmc.fit(X, k, **QUICK)
    f = run.model.decision_function(X)
    margins = np.abs(f) if k == 2 else np.sort(f, axis=1)[:, -1] - np.sort(f, axis=1)[:, -2]
    assert np.allclose(run.confidence, find_confidence(margins, float(np.median(margins))))
    assert (run.runner_up != run.labels).all()
    assert run.labels.min() == 0


def test_unassigned_rows_are_those_below_and_never_by_default() -> None:
    X = blobs(3)
    plain, asked = dmmc.fit(X, 3, **QUICK), dmmc.fit(X, 3, unassigned=0.9, **QUICK)
    low = plain.confidence < 0.9
    assert 0 < low.sum() < len(X)
    assert np.array_equal(asked.labels, np.where(low, -1, plain.labels))
    assert asked.info["unassigned"] == low.sum()
    assert asked.info["sizes"] == np.bincount(plain.labels[~low]).tolist()
    assert np.array_equal(asked.model.labels_, plain.labels)
    assert asked.profile()["size"].max() == max(asked.info["sizes"])
    assert unassign(plain.labels, plain.confidence, None) is plain.labels


@pytest.mark.parametrize("bad", [-0.1, 1.5, "half", True, np.nan])
def test_what_is_no_confidence_is_refused(bad: Any) -> None:
    with pytest.raises(dmmc.InputError, match="a confidence from 0 to 1 is wanted"):
        dmmc.fit(blobs(2), 2, unassigned=bad, **QUICK)
