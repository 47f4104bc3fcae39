"""Searches that another search starts from run through the one driver: they share its time limit and checkpoint."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from stops import Stop

import dmmc
from dmmc.results import checkpoints
from dmmc.solvers.cutting_plane import CuttingPlane

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


def make_case(name: str) -> dict[str, Any]:
    X, y = data_sets.pair(*data_sets.load("digits"), 3, 8)
    X = X.astype(np.float32)
    if name == "pairwise":
        pairs = [(i, i + 50, "must" if y[i] == y[i + 50] else "cannot") for i in range(0, 100, 7)]
        return {"source": X, "n_clusters": 2, "method": "pairwise", "constraints": pairs}
    return {"source": X, "n_clusters": 2 if name == "mmc-sg" else 3, "method": "mmc-sg", "init": "cpmmc"}


def stop_at(monkeypatch: pytest.MonkeyPatch, last: int | None) -> list[int]:
    """Count the steps of all cutting-plane searches, and stop in the one of number `last`."""
    count = [0]
    step = CuttingPlane.step

    def counted(self: Any, state: Any) -> Any:
        count[0] += 1
        if count[0] == last:
            raise Stop
        return step(self, state)

    monkeypatch.setattr(CuttingPlane, "step", counted)
    return count


@pytest.mark.parametrize("name", ["pairwise", "mmc-sg", "tree"])
def test_a_fit_stopped_in_the_search_for_its_start_goes_on_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    with monkeypatch.context() as patch:
        steps = stop_at(patch, None)
        whole = dmmc.fit(**make_case(name))
        in_all = steps[0]
    with monkeypatch.context() as patch:
        stop_at(patch, 4)
        with pytest.raises(Stop):
            dmmc.fit(**make_case(name), out=tmp_path / "out")
    with monkeypatch.context() as patch:
        steps = stop_at(patch, None)
        resumed = dmmc.fit(**make_case(name), out=tmp_path / "out", resume=True)
    np.testing.assert_array_equal(resumed.labels, whole.labels)
    assert resumed.model.objective_ == whole.model.objective_
    assert steps[0] == in_all - 3, "three steps were made before the stop, and are not made again"


def test_a_start_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    step = CuttingPlane.step

    def slow(self: Any, state: Any) -> Any:
        time.sleep(0.05)
        return step(self, state)

    with monkeypatch.context() as patch:
        steps = stop_at(patch, None)
        dmmc.fit(**make_case("mmc-sg"))
    assert steps[0] > 3
    monkeypatch.setattr(CuttingPlane, "step", slow)
    count = stop_at(monkeypatch, None)
    run = dmmc.fit(**make_case("mmc-sg"), max_seconds=0.05)
    assert count[0] <= 2
    assert run.choices["ended"] == "max_seconds"
