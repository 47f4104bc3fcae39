"""Linked pairs and nothing else chosen: they start from the best that `auto` finds, and are never worse than alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from stops import Stop, stop_after

import dmmc
from dmmc import ClusteringWarning, PairwiseMMC


def fit(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        return dmmc.fit(*args, **options)


def draw_links(y: Any, count: int) -> list[tuple[int, int, str]]:
    drawn = np.random.default_rng(0).integers(len(y), size=(count, 2))
    return [(int(i), int(j), "must" if y[i] == y[j] else "cannot") for i, j in drawn if i != j]


def count_broken(choices: Any) -> int:
    return int(choices["must_links_broken"] + choices["cannot_links_broken"])


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    X, y = load_digits(n_class=5, return_X_y=True)
    return X[:500], y[:500]


def test_images_keep_what_the_graph_finds(digits: tuple[Any, Any]) -> None:
    X, y = load_digits(return_X_y=True)
    links = draw_links(y, 100)
    run, alone = fit(X, 10, constraints=links), fit(X, 10, method="pairwise", constraints=links)
    assert isinstance(run.model, PairwiseMMC)
    assert run.choices["started"] == "from lsmmc"
    assert dmmc.score(run.labels, y)["accuracy"] >= dmmc.score(alone.labels, y)["accuracy"] + 0.08
    assert count_broken(run.choices) <= count_broken(alone.choices)
    np.testing.assert_array_equal(run.model.predict(X), run.labels)


def test_where_links_alone_break_fewer_they_win() -> None:
    X, y = load_iris(return_X_y=True)
    links = draw_links(y, 200)
    run, alone = fit(X, 3, constraints=links), fit(X, 3, method="pairwise", constraints=links)
    assert run.choices["started"] == "from links"
    np.testing.assert_array_equal(run.labels, alone.labels)
    broken = {one["name"]: one["links_broken"] for one in run.choices["starts"]}
    (found,) = (count for name, count in broken.items() if name != "from links")
    assert broken["from links"] == count_broken(run.choices) < found


def test_a_start_that_is_named_is_taken(digits: tuple[Any, Any]) -> None:
    links = draw_links(digits[1], 20)
    assert "starts" not in fit(digits[0], 5, constraints=links, init="pca").choices


@pytest.mark.slow
def test_workers_and_a_run_that_was_stopped_give_the_same_bits(
    digits: tuple[Any, Any], clients: Callable[[int], Any], tmp_path: Path
) -> None:
    X, links = digits[0], draw_links(digits[1], 30)
    whole = fit(X, 5, constraints=links, n_jobs=1, out=tmp_path / "whole")
    workers = fit(X, 5, constraints=links, scheduler=clients(2), out=tmp_path / "workers")
    for passes in (1, 4, 9):
        with pytest.raises(Stop):
            fit(X, 5, constraints=links, out=tmp_path / "stopped", resume=True, callbacks=stop_after(passes))
    resumed = fit(X, 5, constraints=links, out=tmp_path / "stopped", resume=True)
    for run, name in ((workers, "workers"), (resumed, "stopped")):
        np.testing.assert_array_equal(run.labels, whole.labels)
        for part in ("coef.npy", "intercept.npy"):
            assert (tmp_path / name / "model" / part).read_bytes() == (tmp_path / "whole" / "model" / part).read_bytes()
