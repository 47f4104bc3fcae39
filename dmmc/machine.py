"""The machine this process runs on: its cores and its memory."""

import os
import sys
from numbers import Integral

from dmmc.errors import InputError

MIB = 2**20
PROCESS = 400 * MIB
"""Memory of a process before it holds any rows: Python, all libraries, compiled kernels and the buffers of a reader.

Measured as peak resident set (VmHWM, x86-64 Linux) of fits of 160 kB: 304 to 325 MiB, of a plain process as of a Dask
worker, where compiled kernels are loaded from numba's cache; 413 MiB where they are compiled first.
"""


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
    """Bytes that the machine can still give to processes; None where it does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            found = dict(line.split(":", 1) for line in lines)
        return int(found["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def peak_memory() -> float | None:
    """Largest resident size of this process so far, in MiB; None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (MIB if sys.platform == "darwin" else 2**10)
