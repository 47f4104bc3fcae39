"""Processes of `dmmc fit --workers` that die or stand still while they start and while they end, and what is heard."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fault_tools import Command, bits, blobs, limits, written
from grids import Grid, alive, family
from waits import scale, until

import dmmc
from dmmc.engine import local_workers
from dmmc.engine.dask_client import Cluster, Limits
from dmmc.engine.messages import Message

pytestmark = pytest.mark.slow
Begin = Callable[..., Command]
Grids = Callable[..., Grid]
AS_USERS_HAVE_IT = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "info"}
"""What Dask logs; other fault tests ask for less."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, store_of: Callable[..., Path]) -> Path:
    return store_of(tmp_path_factory.mktemp("source") / "X.zarr", blobs(), 100)


@pytest.fixture
def wanted(source: Path) -> dict[str, Any]:
    return bits(dmmc.fit(source, 3, method="cpmmc"))


def workers_of(command: Command) -> list[int]:
    """Worker processes of a command, from their first moment on."""
    found = []
    for pid in family(command.process.pid):
        with suppress(psutil.Error):
            if "spawn_main" in " ".join(psutil.Process(pid).cmdline()):
                found.append(pid)
    return sorted(found)


def begin_fit(begin: Begin, source: Path, out: Path, **settings: str) -> Command:
    return begin("fit", source, "-k", 3, "-o", out, "--workers", 2, "--quiet", **AS_USERS_HAVE_IT, **settings)


def await_workers(command: Command) -> list[int]:
    """The first worker processes."""
    return until(lambda: workers_of(command), "a worker process", pause=0.005)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_dies_while_it_starts_is_started_again_without_a_word(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path, number: int
) -> None:
    command = begin_fit(begin, source, tmp_path / "out")
    (victim, *_) = await_workers(command)
    os.kill(victim, number)
    assert command.ended() == (0, "")
    assert written(tmp_path / "out") == wanted


def test_a_worker_that_dies_at_each_start_is_a_sentence(begin: Begin, source: Path, tmp_path: Path) -> None:
    command = begin_fit(begin, source, tmp_path / "out")
    killed: set[int] = set()

    def kill_all_that_start() -> bool:
        for pid in workers_of(command):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
        return command.process.poll() is not None

    until(kill_all_that_start, "the end of the command", 60, 0.005)
    code, said = command.ended()
    assert code == 3
    assert said.startswith("dmmc: no worker could be started on this machine: its processes died or stood still")
    assert said.count("\n") == 1
    assert len(killed) <= 2 * local_workers.TRIES
    assert not (tmp_path / "out").exists()


def test_a_worker_that_stands_still_while_it_starts_is_replaced(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    command = begin_fit(begin, source, tmp_path / "out", DASK_DMMC__WAIT__WORKERS=f"{scale(6)}s")
    (victim, *_) = await_workers(command)
    os.kill(victim, signal.SIGSTOP)
    assert command.ended() == (0, "")
    assert written(tmp_path / "out") == wanted
    assert not alive(victim)


def test_workers_that_die_or_stand_still_at_the_end_cost_nothing(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = begin_fit(begin, source, out)
    until(lambda: (out / "model").exists(), "a model", pause=0.005)  # labels are written, workers have no more work
    one, other = workers_of(command)
    os.kill(one, signal.SIGSTOP)
    os.kill(other, signal.SIGKILL)
    assert command.ended() == (0, "")
    assert written(out) == wanted
    until(lambda: not alive(one), "the end of a worker that stood still")


def test_a_killed_driver_leaves_no_words_of_others(begin: Begin, source: Path, tmp_path: Path) -> None:
    command = begin_fit(begin, source, tmp_path / "out")
    command.await_passes(1)
    processes = family(command.process.pid)
    command.process.kill()
    command.process.wait(10)
    until(lambda: not any(map(alive, processes)), "the end of its workers", 60)
    assert command.process.stderr == ""


def test_a_scheduler_that_dies_is_one_sentence(grids: Grids, begin: Begin, source: Path, tmp_path: Path) -> None:
    grid = grids(2)
    waits = {"DASK_DMMC__WAIT__CONNECT": "2s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s", **AS_USERS_HAVE_IT}
    where = ("--scheduler", grid.address, "--quiet")
    command = begin("fit", source, "-k", 3, "-o", tmp_path / "out", *where, pause=0.2, **waits)
    command.await_passes(2)
    grid.scheduler.kill()
    code, said = command.ended()
    assert code == 3
    assert said.count("\n") == 1
    assert said.startswith(f"dmmc: the scheduler at {grid.address} is gone")


def test_a_result_that_is_lost_with_its_worker_is_not_waited_for(grids: Grids) -> None:
    grid = grids(1)
    with limits(stuck=600):  # longer than this test may take
        cluster = Cluster(grid.client, Limits.from_config())
    (name, address) = next(iter(grid.names().items()))
    future = cluster.submit(len, [1, 2], name="two", worker=address)
    cluster.wait([future], 60)
    assert future.done()
    collect = cluster._client.scheduler.gather

    async def lose_worker_first(**asked: Any) -> Any:
        grid.signal(name)
        return await collect(**asked)

    cluster._client.scheduler.gather = lose_worker_first
    assert cluster.collect_outcomes([future]) == [None]


def test_what_starting_workers_changes_in_this_process_is_undone(source: Path) -> None:
    dmmc.fit(source, 3, method="cpmmc")  # imports of libraries set variables, too
    main, environment = sys.modules["__main__"], dict(os.environ)
    before = main.__spec__, getattr(main, "__file__", None)
    dmmc.fit(source, 3, workers=1, method="cpmmc")
    assert (main.__spec__, getattr(main, "__file__", None)) == before
    assert dict(os.environ) == environment


def test_messages_that_were_sent_are_not_kept(source: Path) -> None:
    kept: list[int] = []

    def count(event: dict[str, Any]) -> None:
        if "iteration" in event:
            gc.collect()
            kept.append(sum(isinstance(one, Message) for one in gc.get_objects()))

    gc.collect()
    gc.freeze()  # what was there before is not looked through again and again
    try:
        dmmc.fit(source, 3, workers=1, progress=count, method="cpmmc")
    finally:
        gc.unfreeze()
    assert len(kept) > 10
    assert max(kept) < 5  # of this pass; scheduler and client are in this process


def test_workers_cannot_be_started_by_a_process_that_may_not_have_children(source: Path, forks: Any) -> None:
    process = forks.start("fault_work:fit_as_daemon", source, path=str(Path(__file__).parent))
    assert process.wait() == 0, process.stderr
    assert "ClusterLost: no worker could be started on this machine: daemonic processes" in process.stdout
