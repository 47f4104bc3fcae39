"""Workers that die, leave, come, stand still, or raise: the same bits as threads of one process, or a sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import fault_work
import numpy as np
import pytest
from fault_tools import During, bits, blobs, limits
from grids import Grid
from scipy.sparse import csr_array
from waits import scale, until

import dmmc
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.engine.dask_client import Cluster, Limits
from dmmc.engine.distributed import TRIES, Distributed
from dmmc.errors import ClusterLost, InputError

pytestmark = pytest.mark.slow
Grids = Callable[..., Grid]
Store = Callable[..., Path]


def engine_on(grid: Grid, X: Any) -> Distributed:
    return Distributed(open_dataset(X), Cluster(grid.client, Limits.from_config()))


def by_threads(X: Any) -> bytes:
    with Local(open_dataset(X)) as engine:
        return np.asarray(engine.run(fault_work.total, None)).tobytes()


def stored(store_of: Store, folder: Path, X: Any) -> str:
    return str(store_of(folder / "X.zarr", X, 100))


# --------------------------------------------------------------------------------------------- dying and leaving


@pytest.mark.parametrize("how", ["sigkill", "segfault"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_that_dies_at_a_block_leaves_the_same_sum(grids: Grids, tmp_path: Path, how: str, times: int) -> None:
    grid, X = grids(3), blobs()
    with engine_on(grid, X) as engine:
        before = engine.run(fault_work.total, None)
        after = engine.run(fault_work.dies, (str(tmp_path), how, times))
        again = engine.run(fault_work.total, None)
    assert fault_work.runs(tmp_path, "death") == times
    assert before.tobytes() == after.tobytes() == again.tobytes() == by_threads(X)


@pytest.mark.parametrize("source", ["array", "store"])
@pytest.mark.parametrize("how", ["kill", "retire"])
def test_workers_lost_in_every_phase_of_a_fit_do_not_change_a_bit(
    grids: Grids, tmp_path: Path, store_of: Store, source: str, how: str
) -> None:
    grid, X = grids(4), blobs()
    where: Any = X if source == "array" else stored(store_of, tmp_path, X)
    moments = ["measure", "start", 4]
    lost = []

    def lose(event: dict[str, Any]) -> None:
        if moments and moments[0] in (event["phase"], event.get("iteration")):
            moments.pop(0)
            name, address = next(iter(grid.names().items()))
            if how == "kill":
                grid.signal(name)
            else:
                grid.client.retire_workers([address], close_workers=True)
            lost.append(name)

    wanted = bits(dmmc.fit(X, 3, method="cpmmc"))
    got = dmmc.fit(where, 3, scheduler=grid.client, progress=lose, method="cpmmc")
    assert len(lost) == len(set(lost)) == 3
    assert len(grid.names()) == 1
    assert bits(got) == wanted


@pytest.mark.parametrize("how", ["kill", "retire"])
def test_a_worker_lost_in_the_middle_of_a_pass_is_replaced(grids: Grids, tmp_path: Path, how: str) -> None:
    grid, X = grids(2), blobs()
    holder = tmp_path / "holder"

    def lose() -> None:
        until(holder.exists, "a worker at block 3")
        name = grid.pid_of(int(holder.read_text()))
        if how == "kill":
            grid.kill(name)
        else:
            grid.client.retire_workers([grid.names()[name]], close_workers=True)
        (tmp_path / "go").touch()

    with engine_on(grid, X) as engine, During(lose):
        got = engine.run(fault_work.held, str(tmp_path))
    assert got.tobytes() == by_threads(X)
    assert len(grid.names()) == 1


@pytest.mark.parametrize("sparse", [False, True])
def test_a_worker_that_dies_while_it_makes_a_chunk_of_a_dask_array_is_replaced(
    grids: Grids, tmp_path: Path, sparse: bool
) -> None:
    grid, X = grids(2), blobs()
    X = X * (X > 5.0)
    chunks = da.from_array(X, chunks=(137, 24)).map_blocks(
        fault_work.fatal_once, folder=str(tmp_path), how="once", meta=X[:0]
    )
    source = chunks.map_blocks(csr_array, meta=csr_array(X[:0])) if sparse else chunks
    got = dmmc.fit(source, 3, scheduler=grid.client, method="cpmmc")
    assert len(grid.names()) == 1
    assert bits(got) == bits(dmmc.fit(csr_array(X) if sparse else X, 3, method="cpmmc"))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_dask_array_that_cannot_be_made_is_a_sentence(steady: Grid, tmp_path: Path, sparse: bool) -> None:
    X = blobs()
    chunks = da.from_array(X, chunks=(137, 24)).map_blocks(
        fault_work.fatal_once, folder=str(tmp_path), how="always", meta=X[:0]
    )
    source = chunks.map_blocks(csr_array, meta=csr_array(X[:0])) if sparse else chunks
    with pytest.raises((InputError, ClusterLost), match="OSError: the tape is torn"):
        dmmc.fit(source, 3, scheduler=steady.client, method="cpmmc")


def test_workers_that_die_all_the_time_under_nannies_only_cost_time(
    grids: Grids, tmp_path: Path, store_of: Store
) -> None:
    grid, X = grids(2, nanny=True), blobs()
    children = {name: process.pid for name, process in grid.workers.items()}
    killed = []

    def kill(event: dict[str, Any]) -> None:
        if event.get("iteration") in (2, 5, 8):
            import psutil

            parent = psutil.Process(children[f"w{1 + len(killed) % 2}"])
            for child in parent.children(recursive=True):
                if "spawn_main" in " ".join(child.cmdline()):
                    child.kill()
                    killed.append(child.pid)

    got = dmmc.fit(stored(store_of, tmp_path, X), 3, scheduler=grid.client, progress=kill, method="cpmmc")
    assert len(killed) == 3
    assert bits(got) == bits(dmmc.fit(X, 3, method="cpmmc"))


# ------------------------------------------------------------------------------------------------ coming and going


def test_one_worker_then_four_then_two_give_the_same_bits(
    grids: Grids, tmp_path: Path, store_of: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmmc.engine.worker_watch.INTERVAL", 0.0)
    grid, X = grids(1), blobs()

    def rescale(event: dict[str, Any]) -> None:
        if event.get("iteration") == 3:
            grid.add(3)
        if event.get("iteration") == 8:
            for name in list(grid.workers)[:2]:
                grid.kill(name)

    wanted = bits(dmmc.fit(X, 3, method="cpmmc"))
    assert len(wanted["history"]) > 10
    assert (
        bits(dmmc.fit(stored(store_of, tmp_path, X), 3, scheduler=grid.client, progress=rescale, method="cpmmc"))
        == wanted
    )


def test_blocks_are_spread_again_over_workers_that_come_and_taken_from_those_that_go(
    grids: Grids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmmc.engine.worker_watch.INTERVAL", 0.0)
    grid, X = grids(1), blobs()

    def shares() -> dict[int, int]:
        by_pid: dict[int, int] = {}
        for found in engine.rows(fault_work.pids, None):
            for pid in found.values():
                by_pid[pid] = by_pid.get(pid, 0) + 1
        return by_pid

    with engine_on(grid, X) as engine:
        n_blocks = len(engine.dataset.blocks)
        assert shares() == {grid.workers["w1"].pid: n_blocks}
        grid.add(3)
        four = shares()
        assert set(four) == {process.pid for process in grid.workers.values()}
        assert max(four.values()) - min(four.values()) <= 2
        for name in ("w1", "w2"):
            grid.kill(name)
        until(lambda: set(grid.names()) == {"w3", "w4"}, "two workers")
        two = shares()
        assert set(two) == {process.pid for process in grid.workers.values()}
        assert sum(two.values()) == n_blocks
        assert max(two.values()) - min(two.values()) <= 2


# -------------------------------------------------------------------------------------------------- none is left


def test_without_workers_the_wait_has_an_end_and_a_sentence(grids: Grids, tmp_path: Path) -> None:
    grid, X = grids(2), blobs()

    def end(event: dict[str, Any]) -> None:
        if event.get("iteration") == 3:
            for name in list(grid.workers):
                grid.kill(name)

    with limits(workers=2), pytest.raises(ClusterLost) as error:
        dmmc.fit(X, 3, scheduler=grid.client, progress=end, method="cpmmc")
    assert str(error.value) == (
        f"the scheduler at {grid.address} has had no worker for 2 s (dmmc.wait.workers): start workers (dask worker "
        "ADDRESS), then go on with --resume (resume=True)."
    )


def test_workers_that_come_back_within_the_wait_go_on_with_the_run(grids: Grids) -> None:
    grid, X = grids(1), blobs()

    def replace(event: dict[str, Any]) -> None:
        if event.get("iteration") == 3:
            grid.kill("w1")
            grid.add(2, wait=False)

    with limits(workers=40):
        got = dmmc.fit(X, 3, scheduler=grid.client, progress=replace, method="cpmmc")
    assert bits(got) == bits(dmmc.fit(X, 3, method="cpmmc"))


# --------------------------------------------------------------------------------------------------------- poison


@pytest.mark.parametrize("workers", [1, 2])
def test_a_block_that_ends_every_worker_is_named_after_a_bounded_number_of_deaths(
    grids: Grids, tmp_path: Path, workers: int
) -> None:
    grid = grids(workers, settings={"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}, nanny=True)
    X = blobs()
    with engine_on(grid, X) as engine:
        bounds = engine.dataset.bounds
        with pytest.raises(ClusterLost) as error:
            engine.run(fault_work.poison, str(tmp_path))
    assert f"block 5 of {engine.dataset.name} (rows {bounds[5]} to {bounds[6] - 1}) ended every worker" in str(
        error.value
    )
    # Once with its neighbours and once by itself; each time two deaths, which is as often as Dask allows, or, if there
    # was no worker left in between, up to one more than the number of tries.
    assert 4 <= fault_work.runs(tmp_path, "death") <= 2 * (TRIES + 1)


# --------------------------------------------------------------------------------------------------- work that raises


def test_work_that_raises_once_is_done_again_and_nothing_else_is(steady: Grid, tmp_path: Path) -> None:
    X = blobs()
    with engine_on(steady, X) as engine:
        got = engine.run(fault_work.raises, (str(tmp_path), 1))
        n_blocks = len(engine.dataset.blocks)
        shared = engine._placement.blocks_of(engine._placement.worker_of(2))
    assert got.tobytes() == by_threads(X)
    assert fault_work.runs(tmp_path, "block2") == 2
    for index in range(n_blocks):
        if index not in shared:
            assert fault_work.runs(tmp_path, f"block{index}") == 1, index


def test_work_that_always_raises_is_run_so_many_times_and_its_error_can_be_read(steady: Grid, tmp_path: Path) -> None:
    with engine_on(steady, blobs()) as engine:
        bounds = engine.dataset.bounds
        with pytest.raises(ClusterLost) as error:
            engine.run(fault_work.raises, (str(tmp_path), 99))
    assert fault_work.runs(tmp_path, "block2") == TRIES == 3
    assert str(error.value) == (
        f"a task failed 3 times on {engine.dataset.name}: block 2 (rows {bounds[2]} to {bounds[3] - 1}): "
        "RuntimeError: the moon is in the wrong place."
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unpicklable", "UnpicklableError: 1 and 2"),
        ("unspeakable", "UnspeakableError"),
        ("huge", "RuntimeError: xxxx"),
        ("exit", "SystemExit: 9"),
        ("stop", "StopIteration: lost in a generator"),
    ],
)
def test_an_error_that_travels_badly_still_arrives_as_a_sentence(steady: Grid, kind: str, words: str) -> None:
    X = blobs()
    with engine_on(steady, X) as engine:
        with pytest.raises(ClusterLost) as error:
            engine.run(fault_work.odd, kind)
        assert "block 1 (rows" in str(error.value)
        assert words in str(error.value)
        assert len(str(error.value)) < 3000
        assert engine.run(fault_work.total, None).tobytes() == by_threads(X), "the cluster must be as good as before"


def test_a_result_that_cannot_be_sent_is_a_sentence(steady: Grid) -> None:
    with engine_on(steady, blobs()) as engine, pytest.raises(ClusterLost) as error:
        list(engine.rows(fault_work.bad_result, None))
    assert "generator" in str(error.value)
    assert len(str(error.value)) < 3000


# ----------------------------------------------------------------------------------------------------------- stuck


def test_a_worker_that_stands_still_is_passed_over(grids: Grids, tmp_path: Path, store_of: Store) -> None:
    grid, X = grids(3), blobs()
    source = stored(store_of, tmp_path, X)

    def stop(event: dict[str, Any]) -> None:
        if event.get("iteration") == 3:
            grid.signal("w2", signal.SIGSTOP)

    dmmc.fit(
        source, 3, scheduler=grid.client, method="cpmmc"
    )  # whoever imports and compiles gives no sign of life for a while either
    with limits(stuck=scale(4)):
        got = dmmc.fit(source, 3, scheduler=grid.client, progress=stop, method="cpmmc")
    assert bits(got) == bits(dmmc.fit(X, 3, method="cpmmc"))
    assert os.path.exists(f"/proc/{grid.workers['w2'].pid}"), "it was stopped, not killed"


def test_a_worker_that_stands_still_for_a_while_is_used_again(grids: Grids) -> None:
    grid, X = grids(2), blobs()
    with limits(stuck=scale(2)), engine_on(grid, X) as engine:
        engine.run(fault_work.total, None)
        grid.signal("w1", signal.SIGSTOP)
        assert engine.run(fault_work.total, None).tobytes() == by_threads(X)
        grid.signal("w1", signal.SIGCONT)

        def both() -> bool:
            found: dict[int, int] = {}
            for part in engine.rows(fault_work.pids, None):
                found.update(part)
            return len(set(found.values())) == 2

        until(both, "work for both workers")


def test_when_all_workers_stand_still_the_wait_has_an_end_and_a_sentence(grids: Grids) -> None:
    grid, X = grids(2), blobs()
    stuck = scale(2)
    with limits(stuck=stuck), engine_on(grid, X) as engine:
        engine.run(fault_work.total, None)
        for name in grid.workers:
            grid.signal(name, signal.SIGSTOP)
        with pytest.raises(
            ClusterLost, match=rf"no worker has given a sign of life for {stuck} s \(dmmc\.wait\.stuck\)"
        ):
            engine.run(fault_work.total, None)


def test_a_scheduler_that_stands_still_ends_the_wait_with_a_sentence(grids: Grids) -> None:
    grid, X = grids(1), blobs()
    address = grid.address
    with limits(stuck=scale(2)), engine_on(grid, X) as engine:
        engine.run(fault_work.total, None)
        grid.scheduler.send_signal(signal.SIGSTOP)
        with pytest.raises(ClusterLost, match=f"the scheduler at {address} is gone or does not answer"):
            engine.run(fault_work.total, None)


def test_a_task_that_takes_too_long_ends_in_a_sentence(steady: Grid) -> None:
    late = pytest.raises(ClusterLost, match=r"took longer than 2 s \(dmmc\.wait\.task\)")
    with limits(task=2), engine_on(steady, blobs(200)) as engine, late:
        engine.run(fault_work.sleeps, 8.0)
