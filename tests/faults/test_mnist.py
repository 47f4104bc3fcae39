"""The plain command on MNIST, while workers or the driver are killed: the same bytes of labels."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.slow
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def mnist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mnist") / "mnist.zarr"


@pytest.fixture
def store(mnist: Path, load: Callable[[str], Any], store_of: Callable[..., Path]) -> Path:
    rows = load("mnist")[0]
    return mnist if mnist.exists() else store_of(mnist, rows, 10_000)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    """Filled by the first fit that is left alone."""
    return {}


def begin(start: Start, store: Path, out: Path, *more: object) -> subprocess.Popen[str]:
    return start("fit", store, "-k", 10, "--method", "cpmmc", "--workers", 2, "-o", out, "--quiet", *more)


def labels(out: Path) -> dict[str, bytes]:
    files = sorted((out / "labels.zarr").rglob("*"))
    return {str(path.relative_to(out)): path.read_bytes() for path in files if path.is_file()}


def finished(process: subprocess.Popen[str], out: Path) -> dict[str, bytes]:
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return labels(out)


def wanted(undisturbed: dict[str, bytes], start: Start, store: Path, tmp_path: Path) -> dict[str, bytes]:
    if not undisturbed:
        undisturbed.update(finished(begin(start, store, tmp_path / "plain"), tmp_path / "plain"))
        assert len(undisturbed) == 3, "two chunks and their description"
    return undisturbed


def passes(out: Path) -> int:
    path = out / "history.jsonl"
    return len(path.read_text().splitlines()) if path.is_file() else 0


def await_pass(process: subprocess.Popen[str], out: Path, number: int) -> None:
    while passes(out) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def workers(process: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(process.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_a_worker_killed_in_three_passes_does_not_change_a_byte(
    start: Start, store: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    expected = wanted(undisturbed, start, store, tmp_path)
    process = begin(start, store, tmp_path / "out")
    killed = set()
    for number in (1, 5, 10):
        await_pass(process, tmp_path / "out", number)
        victim = max((worker for worker in workers(process) if worker.pid not in killed), key=lambda one: one.pid)
        victim.kill()
        killed.add(victim.pid)
    assert len(killed) == 3
    assert finished(process, tmp_path / "out") == expected


def test_a_driver_killed_twice_and_resumed_does_not_change_a_byte(
    start: Start, store: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    expected = wanted(undisturbed, start, store, tmp_path)
    out = tmp_path / "out"
    for number in (2, 8):
        process = begin(start, store, out, "--resume")
        await_pass(process, out, number)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    assert (out / "checkpoint").is_dir()
    assert finished(begin(start, store, out, "--resume"), out) == expected
    shutil.rmtree(out)
