"""The machine this process runs on: its cores and its memory."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from pathlib import Path

import numpy as np

from dmmc.errors import InputError

MIB = 2**20
PROCESS = 400 * MIB
"""Memory of a process before it holds any rows: Python, all libraries, compiled kernels and the buffers of a reader.

Measured as peak resident set (VmHWM, x86-64 Linux) of fits of 160 kB: 304 to 325 MiB, of a plain process as of a Dask
worker, where compiled kernels are loaded from numba's cache; 413 MiB where they are compiled first.
"""


SMALL = 32 * MIB
"""Never refused for a limit of our own: how large a process is without rows is known no better."""


def count_cores() -> int:
    """Cores that this process may use; all of the machine's where the system cannot say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def count_threads(n_jobs: object) -> int:
    """Threads that `n_jobs` asks for: None or -1 is one for each core."""
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return count_cores()
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise InputError(f"n_jobs is {n_jobs!r}; give a positive number of threads, or None (or -1) for all cores.")
    return int(n_jobs)


def free_memory() -> int | None:
    """Bytes that this process can still have: of the machine, of its control groups, and of `limit_memory`.

    None where nothing tells.
    """
    known = [one for one in (_free_of_machine(), *_free_of_groups(), _free_of_limit()) if one is not None]
    return max(0, min(known)) if known else None


def _free_of_machine() -> int | None:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _free_of_groups(groups: str = "/proc/self/cgroup", root: str = "/sys/fs/cgroup") -> Iterator[int]:
    """Bytes that the limits of this process's control groups, version 1 or 2, and of those around them leave.

    groups : the file that names the groups of this process
    root : where they are mounted; in a container its own group is often the root of what is to be seen
    """
    try:
        lines = Path(groups).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds == "":
            base, most, used, idle = Path(root), "memory.max", "memory.current", "inactive_file"
        elif "memory" in kinds.split(","):
            base, most, used = Path(root, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"
            idle = "total_inactive_file"
        else:
            continue
        inner = Path(os.path.normpath("/" + path.lstrip("/"))).relative_to("/")
        for folder in (base / inner, *(base / above for above in inner.parents)):
            try:
                left = int((folder / most).read_text()) - int((folder / used).read_text())
                told = dict(row.split() for row in (folder / "memory.stat").read_text().splitlines())
            except (OSError, ValueError):  # no such group to be seen, or no limit: "max"
                continue
            # files that were read and are not in use are counted as used, and go when memory is wanted
            yield left + int(told.get(idle, 0))


_limit: ContextVar[int | None] = ContextVar("dmmc_memory_limit", default=None)
"""What the resident size of this process may become."""


@contextmanager
def limit_memory(room: int | None) -> Iterator[None]:
    """Until the block ends, `free_memory` is what is left of so many bytes beside the process; None: no limit.

    A process that has not imported everything yet is counted as one that has.
    """
    used = resident_memory()
    token = _limit.set(None if room is None or used is None else max(used, PROCESS) + room)
    try:
        yield
    finally:
        _limit.reset(token)


def _free_of_limit() -> int | None:
    limit, used = _limit.get(), resident_memory()
    return None if limit is None or used is None else max(limit - used, SMALL)


def resident_memory() -> int | None:
    """Bytes of this process that are in memory; None where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


UNITS = {"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
UNITS |= {"KiB": 2**10, "MiB": MIB, "GiB": 2**30, "TiB": 2**40}


def parse_size(size: int | str) -> int:
    """Bytes of a size: a number of them, or a text such as 500MB, 1.5GB or 2GiB."""
    if isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0:
        return int(size)
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]*)\s*", size) if isinstance(size, str) else None
    units = {name.lower(): factor for name, factor in UNITS.items()}
    if found is None or found[2].lower() not in units or not float(found[1]) > 0:
        raise InputError(f"memory is {size!r}; a size such as 500MB, 1GB or 2GiB is wanted, or a number of bytes.")
    return int(float(found[1]) * units[found[2].lower()])


def peak_memory() -> float | None:
    """Largest resident size of this process so far, in MiB; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (MIB if sys.platform == "darwin" else 2**10)
