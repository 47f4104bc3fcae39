"""An engine on threads of this process: over rows in memory, or in a store that is larger than its share of memory."""

import numpy as np

from dmmc.data.dataset import Rows, Stored
from dmmc.data.memory_plan import Plan, Size, find_room, plan_memory
from dmmc.engine import Local, Streamed
from dmmc.machine import count_threads
from dmmc.sources.open import Opened
from dmmc.time_limit import NO_LIMIT, TimeLimit


def open_here(opened: Opened, n_jobs: int | None, limit: TimeLimit = NO_LIMIT, memory: int | str | None = None) -> Rows:
    """The rows in memory; where they are in a store and larger than the share of it, they stay there.

    memory : as of `find_room`
    """
    room, wanted = find_room(memory), opened.measure_store()
    # most stores are so much smaller than memory that nobody need look closer
    if room is not None and wanted is not None and (memory is not None or wanted > room // 2):
        rows = opened.open_rows(n_jobs)
        if isinstance(rows, Stored) and not plan_rows(rows, n_jobs, memory).in_memory:
            return rows
    return opened.load(n_jobs, limit)


def plan_rows(rows: Stored, n_jobs: int | None, memory: int | str | None) -> Plan:
    """Whether rows of a store are to be held in memory, and what is kept of them if not."""
    block = int(np.diff(rows.bounds).max() * rows.nbytes / rows.n_rows)
    threads = min(count_threads(n_jobs), len(rows.bounds) - 1)
    return plan_memory(Size(rows.name, rows.n_rows, rows.nbytes, block), threads, memory)


def make_local_engine(
    rows: Rows, n_jobs: int | None, limit: TimeLimit = NO_LIMIT, memory: int | str | None = None
) -> Local | Streamed:
    """An engine on threads over rows wherever they are; a store that fits into memory is read into it."""
    if not isinstance(rows, Stored):
        return Local(rows, n_jobs)
    plan = plan_rows(rows, n_jobs, memory)
    if plan.in_memory:
        return Local(rows.load(n_jobs), n_jobs)
    return Streamed(rows, plan.kept, n_jobs, limit)
