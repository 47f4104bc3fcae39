"""Cores and memory of the machine."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from dmmc.errors import InputError
from dmmc.machine import MIB, count_cores, count_threads, free_memory, peak_memory


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
