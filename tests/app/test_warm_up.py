"""Kernels compiled ahead: by `dmmc warmup`, and by the first fit on two cores."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmmc
from dmmc import estimators
from dmmc.app import warm_up
from dmmc.app.fit_listener import FitListener
from dmmc.data.open import open_dataset

X = np.random.default_rng(0).normal(size=(60, 4))


def run_cold(cache: Path, code: str) -> str:
    """What a process prints that has an empty cache of numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kernels_of(cache: Path) -> set[str]:
    """Names of the kernels that numba keeps in a folder."""
    return {f"{path.parent}/{path.name.split('-')[0]}" for path in cache.rglob("*.nbi")}


@pytest.fixture(scope="module")
def cold_fit(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[dict[str, Any]], Path]:
    """Events of a first fit, and the cache that it has filled."""
    cache = tmp_path_factory.mktemp("cache")
    code = (
        "import json, dmmc, numpy as np; from dmmc.app import warm_up; warm_up.count_threads = lambda n: 2; "
        "X = np.random.default_rng(0).normal(size=(90, 4)).astype(np.float32); "
        "dmmc.fit(X, 3, method='cpmmc', progress=lambda event: print(json.dumps(event)), max_iter=3)"
    )
    return [json.loads(line) for line in run_cold(cache, code).splitlines()], cache


@pytest.mark.slow
def test_a_first_fit_compiles_in_a_phase_of_its_own_and_says_when_it_does(
    cold_fit: tuple[list[dict[str, Any]], Path],
) -> None:
    events, _ = cold_fit
    phases = [event["phase"] for event in events if "compiling" not in event and "iteration" not in event]
    assert phases[:3] == ["read", "compile", "measure"]
    notes = [event["compiling"] for event in events if "compiling" in event]
    assert notes[:2] == [True, False]
    assert notes.count(True) == notes.count(False)


@pytest.mark.slow
def test_the_second_process_compiles_no_kernel_that_another_part_compiles(
    cold_fit: tuple[list[dict[str, Any]], Path], tmp_path: Path
) -> None:
    _, cache = cold_fit
    run_cold(tmp_path, "from dmmc.app.warm_up import ALONE, PARTS; [PARTS[name]() for name in ALONE]")
    alone = {name.rsplit("/", 1)[1] for name in kernels_of(tmp_path)}
    assert {"active_set.ascend", "active_set.certify", "graph.rank_candidates"} <= alone
    fitted = {name.rsplit("/", 1)[1] for name in kernels_of(cache)}
    assert {"dense_pass.dense_many", "active_set.ascend"} <= fitted
    assert all(name.split(".")[0] in ("active_set", "search_directions", "graph") for name in alone)
    assert not any(name.split(".")[0] == "graph" for name in fitted)  # cpmmc from k-means makes none: not compiled


def test_a_later_fit_has_no_phase_of_compiling() -> None:
    warm_up.compile_parts(["master", "graph", "float32", "float64"])
    heard: list[dict[str, Any]] = []
    dmmc.fit(X, 3, method="cpmmc", max_iter=2, progress=heard.append)
    assert "compile" not in [event["phase"] for event in heard]
    assert warm_up.find_missing(estimators.AutoMMC(3), open_dataset(X)) == []


def test_what_one_process_must_compile_in_turn_is_left_to_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "_is_compiled", lambda kernel: False)
    rows = open_dataset(X)
    assert warm_up.find_missing(estimators.AutoMMC(3), rows) == ["master", "graph", "float32", "float64"]
    assert warm_up.find_missing(estimators.CuttingPlaneMMC(3), rows) == ["master", "float64"]
    float32 = open_dataset(X.astype(np.float32))
    assert warm_up.find_missing(estimators.CuttingPlaneMMC(3), float32) == ["master", "float32"]
    assert warm_up.find_missing(estimators.StochasticMMC(2), rows) == []


def test_parts_are_compiled_here_where_no_second_process_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "count_threads", lambda n: 2)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    told: list[str] = []
    warm_up.compile_parts(["master", "float64"], told.append)
    assert told == ["master", "float64"]
    monkeypatch.setattr(sys, "executable", "")
    warm_up.compile_parts(["master"], told.append)
    assert told == ["master", "float64", "master"]


def test_a_listener_hears_of_the_outermost_kernel_alone_and_no_longer_than_the_fit() -> None:
    from numba.core import event

    heard: list[dict[str, Any]] = []
    compiling = partial(event.trigger_event, "numba:compile")
    with FitListener(None, heard.append, estimators.CuttingPlaneMMC(3)), compiling(), compiling():
        assert [one["compiling"] for one in heard] == [True]
    with compiling():
        pass
    assert [one["compiling"] for one in heard] == [True, False]
