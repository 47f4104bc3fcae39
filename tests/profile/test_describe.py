"""What sets clusters apart, and their names."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dmmc
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.profile.cluster_sums import ColumnMeans, find_means
from dmmc.profile.describe import describe_clusters, find_distinctive, name_columns

QUICK: dict[str, Any] = {"method": "cpmmc", "max_iter": 20, "random_state": 0}


def means_of(X: Any, labels: Any, k: int) -> ColumnMeans:
    with Local(open_dataset(X)) as engine:
        return find_means(engine.dataset, engine.use, engine.run, labels, k)


def customers() -> tuple[pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    young = np.arange(300) % 3 == 0
    frame = pd.DataFrame({"age": np.where(young, 25, 60) + rng.normal(size=300), "visits": rng.normal(size=300)})
    return frame, young


def test_distinctive_is_the_correlation_with_being_in_the_cluster() -> None:
    X, labels = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 3
    X[:, 0] += labels
    means = means_of(X, labels, 3)
    for cluster in range(3):
        wanted = [np.corrcoef(column, labels == cluster)[0, 1] for column in X.T]
        assert np.allclose(find_distinctive(means, cluster), wanted)


def test_words_are_compared_by_the_rows_that_have_them() -> None:
    counts, labels = np.zeros((100, 2)), np.arange(100) % 2
    counts[:40:2, 0], counts[0, 1] = 1, 1000
    found = find_distinctive(means_of(sparse.csr_array(counts), labels, 2), 0)
    wanted = np.corrcoef(counts[:, 0] != 0, labels == 0)[0, 1]
    assert np.isclose(found[0], wanted)
    assert found[0] > 3 * found[1]


def test_names_say_high_and_low_of_numbers() -> None:
    frame, young = customers()
    old, new = describe_clusters(means_of(frame.to_numpy(), young.astype(int), 2), list(frame))
    assert (old.name.split(",")[0], new.name.split(",")[0]) == ("high age", "low age")
    assert new.features[0].name == "age"
    assert new.features[0].inside == pytest.approx(frame["age"][young].mean())


def test_words_that_are_rare_name_their_cluster_by_themselves() -> None:
    texts = np.repeat(np.array([[2, 1, 0, 0], [0, 0, 3, 1], [0, 0, 0, 0]]), 20, axis=0)
    words = ["bike", "ride", "ice", "puck"]
    named = describe_clusters(means_of(sparse.csr_array(texts), np.repeat([0, 1, 2], 20), 3), words)
    assert [profile.name for profile in named] == ["bike ride", "ice puck", "cluster 2"]


def test_clusters_that_nothing_tells_apart_have_different_names() -> None:
    named = describe_clusters(means_of(np.ones((6, 2)), np.array([0, 1, 2, 0, 1, 2]), 3), ["a", "b"])
    assert [profile.name for profile in named] == ["cluster 0", "cluster 1", "cluster 2"]
    assert named[0].features == ()
    both = means_of(np.array([[1.0], [1.0], [-2.0]] * 4), np.arange(12) % 3, 3)
    assert len({profile.name for profile in describe_clusters(both, ["a"])}) == 3


def test_columns_are_named_by_the_data_by_pixels_or_by_numbers() -> None:
    assert name_columns(("a", "b"), 2, None) == ["a", "b"]
    assert name_columns(None, 4, (2, 2)) == ["pixel 0,0", "pixel 0,1", "pixel 1,0", "pixel 1,1"]
    assert name_columns(None, 6, (1, 2, 3))[2:4] == ["pixel 0,0b", "pixel 0,1r"]
    assert name_columns(None, 2, None) == ["feature 0", "feature 1"]


def test_the_profile_of_a_run_is_a_frame_of_raw_columns_whatever_the_model_uses() -> None:
    frame, _ = customers()
    for more in ({}, {"features": "nystroem", "n_components": 20}, {"transform": "unit"}):
        run = dmmc.fit(frame, 2, **QUICK, **more)
        found = run.profile()
        assert list(found) == ["cluster", "name", "size", "feature", "inside", "outside", "distinctive"]
        means = frame.groupby(run.labels).mean()
        for line in found.itertuples():
            assert line.inside == pytest.approx(means.loc[line.cluster, line.feature])
            assert line.size == (run.labels == line.cluster).sum()
            assert line.name == run.names[line.cluster]


def test_the_profile_is_a_list_of_dicts_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, _ = customers()
    run = dmmc.fit(frame.to_numpy(), 2, **QUICK)
    monkeypatch.setitem(sys.modules, "pandas", None)
    found = run.profile(1)
    assert [line["feature"] for line in found] == ["feature 0", "feature 0"]
