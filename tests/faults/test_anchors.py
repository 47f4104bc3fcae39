"""The graph of anchors on a cluster: a worker killed in each phase, the same bits as threads of one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from fault_tools import bits
from grids import Grid
from sklearn.datasets import load_digits

import dmmc

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")]
PHASES = ("axes", "anchors", "anchor_graph", "spectral", "join", "probe", "start", "search", "label")
DIGITS = load_digits().data[:800]
ASKED: dict[str, Any] = {"method": "lsmmc", "graph": "anchors", "n_anchors": 120, "random_state": 0}


@cache
def by_threads() -> dict[str, Any]:
    return bits(dmmc.fit(DIGITS, 10, **ASKED))


@pytest.fixture
def wanted(small_blocks: None) -> dict[str, Any]:
    """Of the same small blocks as on the cluster."""
    return by_threads()


@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_killed_in_a_phase_of_the_anchor_graph_does_not_change_a_bit(
    phase: str, grids: Callable[..., Grid], wanted: dict[str, Any]
) -> None:
    grid, lost = grids(2), []

    def lose(event: dict[str, Any]) -> None:
        if event.get("phase") == phase and not lost:
            name = next(iter(grid.names()))
            grid.kill(name)
            lost.append(name)

    got = dmmc.fit(DIGITS, 10, scheduler=grid.client, progress=lose, **ASKED)
    assert len(lost) == 1
    assert bits(got) == wanted


def test_workers_killed_in_every_phase_one_after_the_other_do_not_change_a_bit(
    grids: Callable[..., Grid], wanted: dict[str, Any]
) -> None:
    grid, left = grids(5), ["anchors", "anchor_graph", "join", "search"]

    def lose(event: dict[str, Any]) -> None:
        if left and event.get("phase") == left[0]:
            left.pop(0)
            grid.signal(next(iter(grid.names())))

    got = dmmc.fit(np.ascontiguousarray(DIGITS), 10, scheduler=grid.client, progress=lose, **ASKED)
    assert left == []
    assert bits(got) == wanted
