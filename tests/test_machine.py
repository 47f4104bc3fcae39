"""Cores and memory of the machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dmmc import machine
from dmmc.errors import InputError
from dmmc.machine import MIB, count_cores, count_threads, free_memory, parse_size, peak_memory


def test_all_cores_are_meant_by_none_and_by_minus_one() -> None:
    assert count_threads(None) == count_threads(-1) == count_cores() == len(os.sched_getaffinity(0))
    assert count_threads(3) == 3
    assert count_threads(np.int64(2)) == 2


@pytest.mark.parametrize("bad", [0, -2, 1.5, "2", True, False, np.nan, [1]])
def test_a_number_of_threads_that_is_none_is_an_error_that_says_what_is_wanted(bad: Any) -> None:
    with pytest.raises(InputError) as error:
        count_threads(bad)
    assert str(error.value) == f"n_jobs is {bad!r}; give a positive number of threads, or None (or -1) for all cores."


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="the system does not tell")
def test_memory_is_told_in_bytes_and_mebibytes() -> None:
    free, peak = free_memory(), peak_memory()
    assert free is not None
    assert free > MIB
    assert peak is not None
    assert 10 < peak < 100_000


@pytest.mark.parametrize(
    ("size", "n_bytes"),
    [("1GB", 10**9), ("500 MB", 5 * 10**8), ("1.5gib", 3 * 2**29), ("64KiB", 2**16), (12345, 12345), ("7", 7)],
)
def test_a_size_is_read_as_people_write_it(size: Any, n_bytes: int) -> None:
    assert parse_size(size) == n_bytes


@pytest.mark.parametrize("bad", ["", "GB", "-1GB", "1XB", "1 000", 0, -5, 1.5, True, None, "nan"])
def test_a_size_that_is_none_is_an_error_that_says_what_is_wanted(bad: Any) -> None:
    with pytest.raises(InputError, match=r"^memory is .*; a size such as 500MB, 1GB or 2GiB is wanted"):
        parse_size(bad)


def write_group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_limits_of_control_groups_and_of_those_around_them_count_in_both_versions(tmp_path: Path) -> None:
    groups, root = tmp_path / "cgroup", tmp_path / "fs"
    groups.write_text("4:memory:/job/step\n3:cpuset:/\n0::/slice/unit\n")
    inner = {"memory__limit_in_bytes": "1000", "memory__usage_in_bytes": "700"}
    write_group(root / "memory" / "job" / "step", **inner, memory__stat="cache 5\ntotal_inactive_file 200\n")
    outer = {"memory__limit_in_bytes": "900", "memory__usage_in_bytes": "800"}
    write_group(root / "memory" / "job", **outer, memory__stat="total_inactive_file 0\n")
    write_group(root / "slice" / "unit", memory__max="max\n", memory__current="5", memory__stat="inactive_file 1\n")
    write_group(root / "slice", memory__max="600\n", memory__current="550", memory__stat="anon 3\ninactive_file 10\n")
    assert sorted(machine._free_of_groups(str(groups), str(root))) == [60, 100, 500]
    assert list(machine._free_of_groups(str(tmp_path / "none"), str(root))) == []


def test_free_memory_is_the_least_of_all_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_free_of_machine", lambda: 10**12)
    monkeypatch.setattr(machine, "_free_of_groups", lambda: iter([3 * 10**9, 5 * 10**9]))
    monkeypatch.setattr(machine, "resident_memory", lambda: 10**9)
    assert free_memory() == 3 * 10**9
    with machine.limit_memory(10**8):
        assert free_memory() == 10**8
        monkeypatch.setattr(machine, "resident_memory", lambda: 10**10)
        assert free_memory() == machine.SMALL
    assert free_memory() == 3 * 10**9
    with machine.limit_memory(None):
        assert free_memory() == 3 * 10**9
