"""deploy/local.sh: a whole cluster on this machine, from certificates to labels, and nothing left afterwards."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from sys import executable
from typing import Any

import pytest
from waits import until

pytestmark = pytest.mark.slow


def start(processes: Any, deploy: Path, cwd: Path, *arguments: object, **variables: object) -> Any:
    given = {"PYTHON": executable, "TMPDIR": cwd / "tmp", **variables}
    (cwd / "tmp").mkdir()
    return processes.start("bash", deploy / "local.sh", *arguments, cwd=cwd, **given)


def test_without_arguments_it_clusters_the_digits_and_leaves_only_the_result(
    processes: Any, deploy: Path, tmp_path: Path, labels_of: Callable[[Path], list[int]]
) -> None:
    done = start(processes, deploy, tmp_path)
    assert done.end(120) == 0, done.said
    assert len(labels_of(tmp_path / "dmmc-local")) == 1797
    processes.none_left()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dmmc-local", "tmp"]
    assert list((tmp_path / "tmp").glob("dmmc-local*")) == []


def test_it_takes_a_store_certificates_and_options_and_gives_the_bits_of_one_process(
    processes: Any,
    deploy: Path,
    tmp_path: Path,
    digits_store: Path,
    certificates: Callable[[str], Path],
    labels_of: Callable[[Path], list[int]],
) -> None:
    variables = {"TLS": certificates("ours"), "LOGS": tmp_path / "logs", "WORKERS": 1, "THREADS": 2}
    done = start(processes, deploy, tmp_path, digits_store, 3, "there", "--", "--random-state", "7", **variables)
    assert done.end(120) == 0, done.said
    alone = processes.run("dmmc", "fit", digits_store, "-k", 3, "-o", tmp_path / "alone", "--random-state", 7)
    assert alone.popen.returncode == 0, alone.said
    assert labels_of(tmp_path / "there") == labels_of(tmp_path / "alone")
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["scheduler.log", "worker-0.log"]
    assert "Threads:                          2" in (tmp_path / "logs" / "worker-0.log").read_text()
    processes.none_left()


def test_it_ends_with_the_code_of_the_fit(processes: Any, deploy: Path, tmp_path: Path) -> None:
    done = start(processes, deploy, tmp_path, "nothing.zarr")
    assert done.end(60) == 2
    assert "nothing.zarr" in done.said
    processes.none_left()
    assert list((tmp_path / "tmp").glob("dmmc-local*")) == []


@pytest.mark.parametrize("group", [True, False], ids=["at a terminal", "by its number"])
def test_an_interrupt_in_the_middle_leaves_a_checkpoint_and_no_process(
    group: bool, processes: Any, deploy: Path, tmp_path: Path, digits_store: Path, slow: list[str]
) -> None:
    running = start(processes, deploy, tmp_path, digits_store, 10, "out", "--", *slow, WORKERS=1)
    running.until('"objective"', 60)  # a pass is done
    running.signal(signal.SIGINT, group=group)
    assert running.end(30) == 130, running.said
    processes.none_left()
    assert (tmp_path / "out" / "checkpoint").exists()
    assert list((tmp_path / "tmp").glob("dmmc-local*")) == []


def test_an_interrupt_at_the_start_leaves_nothing(
    processes: Any, deploy: Path, tmp_path: Path, digits_store: Path
) -> None:
    running = start(processes, deploy, tmp_path, digits_store, 10, "out")
    until(lambda: any("dask scheduler" in line for line in processes.left()), "a scheduler")
    running.signal(signal.SIGTERM)
    assert running.end(30) == 130, running.said
    processes.none_left()
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]
    assert list((tmp_path / "tmp").glob("dmmc-local*")) == []
