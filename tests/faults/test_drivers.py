"""The process that was asked for a fit is interrupted, killed, cut off from its cluster, or out of disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from fault_tools import Command, bits, blobs, written
from grids import QUIET, Grid, alive, family
from waits import until

import dmmc
from dmmc.results import array_folder

pytestmark = pytest.mark.slow
Grids = Callable[..., Grid]
Store = Callable[..., Path]
Begin = Callable[..., Command]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, store_of: Store) -> Path:
    return store_of(tmp_path_factory.mktemp("source") / "X.zarr", blobs(), 100)


@pytest.fixture
def wanted(source: Path) -> dict[str, Any]:
    """What a fit in this process gives."""
    return bits(dmmc.fit(source, 3, method="cpmmc"))


def begin_with_workers(begin: Begin, source: Path, out: Path) -> tuple[Command, set[int]]:
    """A fit with two workers that has made three passes, and all processes that it consists of."""
    command = begin("fit", source, "-k", 3, "-o", out, "--workers", 2, "--quiet", pause=0.3)
    command.await_passes(3)
    processes = family(command.process.pid)
    assert len(processes) >= 3
    return command, processes


def resumed(begin: Begin, source: Path, out: Path, *arguments: object) -> dict[str, Any]:
    code, said = begin("fit", source, "-k", 3, "-o", out, "--resume", "--quiet", *arguments).ended()
    assert code == 0, said
    assert not (out / "checkpoint").exists()
    return written(out)


# ------------------------------------------------------------------------------------------------ interrupted


@pytest.mark.parametrize("to", ["driver", "group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_driver_leaves_a_checkpoint_and_no_processes(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path, number: int, to: str
) -> None:
    out = tmp_path / "out"
    command, processes = begin_with_workers(begin, source, out)
    if to == "group":
        os.killpg(command.process.pid, number)
    else:
        command.process.send_signal(number)
    code, said = command.ended(30)
    assert code == 130, said
    assert said == (
        f"dmmc: interrupted. A checkpoint was written ({out / 'checkpoint'}): say --resume (resume=True) to go on "
        "with it.\n"
    )
    until(lambda: not any(map(alive, processes)), "the end of its processes", 20)
    assert resumed(begin, source, out) == wanted


def test_a_killed_driver_takes_its_workers_along(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command, processes = begin_with_workers(begin, source, out)
    command.process.kill()
    command.process.wait(10)
    until(lambda: not any(map(alive, processes)), "the end of its workers", 60)
    assert resumed(begin, source, out, "--workers", 2) == wanted


def idle_after(seconds: float) -> None:
    from dmmc.engine import block_cache

    block_cache.IDLE = seconds


def count_caches() -> int:
    from dmmc.engine import block_cache

    return len(block_cache._caches)


def test_workers_of_others_forget_the_rows_of_a_driver_that_was_killed(
    grids: Grids, begin: Begin, source: Path, tmp_path: Path
) -> None:
    grid = grids(2)
    grid.client.run(idle_after, 2.0)
    command = begin("fit", source, "-k", 3, "-o", tmp_path / "out", "--scheduler", grid.file, "--quiet", pause=0.3)
    command.await_passes(2)
    assert list(grid.client.run(count_caches).values()) == [1, 1]
    command.process.kill()
    command.process.wait(10)
    until(lambda: list(grid.client.run(count_caches).values()) == [0, 0], "empty caches", 20)


# ---------------------------------------------------------------------------------------- the cluster is lost


def test_when_the_scheduler_dies_the_fit_ends_with_3_and_goes_on_with_another(
    grids: Grids, begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    grid, out = grids(2), tmp_path / "out"
    waits = {"DASK_DMMC__WAIT__CONNECT": "2s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    where = ("--scheduler", grid.address, "--quiet")
    command = begin("fit", source, "-k", 3, "-o", out, *where, pause=0.2, **waits)
    command.await_passes(3)
    grid.scheduler.kill()
    code, said = command.ended(40)
    assert code == 3, said
    assert f"the scheduler at {grid.address} is gone or does not answer: start it again" in said
    assert "say --resume (resume=True) to go on" in said
    assert "Traceback" not in said
    another = grids(2)
    assert resumed(begin, source, out, "--scheduler", another.file) == wanted


def test_when_all_workers_die_the_fit_ends_with_3_and_goes_on_with_others(
    grids: Grids, begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path
) -> None:
    grid, out = grids(2), tmp_path / "out"
    where = ("--scheduler", grid.file, "--quiet")
    command = begin("fit", source, "-k", 3, "-o", out, *where, pause=0.2, DASK_DMMC__WAIT__WORKERS="3s")
    command.await_passes(3)
    for name in list(grid.workers):
        grid.kill(name)
    code, said = command.ended(40)
    assert code == 3, said
    assert f"dmmc: the scheduler at {grid.address} has had no worker for 3 s (dmmc.wait.workers)" in said
    content, _ = array_folder.read(out / "checkpoint", "checkpoint")
    assert content["data"]["n_rows"] == 1500
    grid.add(1)
    assert resumed(begin, source, out, "--scheduler", grid.address) == wanted


@pytest.mark.parametrize(
    ("scheduler", "words"),
    [
        ("tcp://127.0.0.1:9", "no scheduler let us in at tcp://127.0.0.1:9 within 2 s (dmmc.wait.connect)"),
        ("never.json", "there is no scheduler file never.json that names an address after 2 s (dmmc.wait.connect)"),
    ],
)
def test_a_scheduler_that_is_not_there_is_3_within_the_limit(
    scheduler: str, words: str, begin: Begin, source: Path, tmp_path: Path
) -> None:
    where = ("--scheduler", scheduler)
    command = begin("fit", source, "-k", 3, "-o", tmp_path / "out", *where, DASK_DMMC__WAIT__CONNECT="2s")
    code, said = command.ended(30)
    assert code == 3, said
    assert words in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


# ------------------------------------------------------------------------------------------------------ disk full


@pytest.fixture
def small_disk(tmp_path: Path, skip: Callable[[str, str], NoReturn]) -> Iterator[Path]:
    """A disk of 1 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        skip("tmpfs", f"a tmpfs cannot be mounted: {made.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def fill(disk: Path, leave: int) -> Path:
    """Use up all but so many bytes."""
    block = 4096
    with open(disk / "ballast", "wb") as file:
        free = shutil.disk_usage(disk).free
        file.write(b"\0" * (max(0, free - leave) // block * block))
    return disk / "ballast"


def test_a_disk_that_fills_up_during_the_search_keeps_the_old_checkpoint(
    small_disk: Path, begin: Begin, source: Path, wanted: dict[str, Any]
) -> None:
    out = small_disk / "out"
    command = begin("fit", source, "-k", 3, "-o", out, "--workers", 2, "--quiet", pause=0.3)
    command.await_passes(3)
    ballast = fill(small_disk, 0)
    code, said = command.ended(40)
    assert code == 4, said
    assert "No space left on device" in said
    assert "Traceback" not in said
    content, _ = array_folder.read(out / "checkpoint", "checkpoint")
    assert content["data"]["n_rows"] == 1500
    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert resumed(begin, source, out) == wanted


def test_a_disk_too_small_for_the_result_keeps_the_search(
    small_disk: Path, begin: Begin, source: Path, wanted: dict[str, Any]
) -> None:
    out = small_disk / "out"
    command = begin("fit", source, "-k", 3, "-o", out, "--workers", 2, "--quiet")
    code, said = command.ended(60)  # the report alone takes more than this disk has
    assert code == 4, said
    assert "No space left on device" in said
    assert not (out / "labels.zarr").exists()
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert resumed(begin, source, out) == wanted


# ---------------------------------------------------------------------------------------------------------- scripts

SCRIPT = """
import sys
import numpy as np
import dmmc

X = np.load(sys.argv[1])
run = dmmc.fit(X, 3, workers=2, method="cpmmc")
np.save(sys.argv[2], run.labels)
print("once")
"""


def test_a_script_without_a_guard_can_start_workers(tmp_path: Path) -> None:
    X = blobs()
    np.save(tmp_path / "X.npy", X)
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py", "X.npy", "labels.npy"],
        cwd=tmp_path,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "once\n"
    with pytest.MonkeyPatch.context() as usual:  # blocks of the usual size, as there
        from dmmc.data import blocks
        from dmmc.machine import MIB

        usual.setattr(blocks, "ONE_BLOCK", 14 * MIB)
        usual.setattr(blocks, "FOUR_BLOCKS", 28 * MIB)
        np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), dmmc.fit(X, 3, method="cpmmc").labels)
