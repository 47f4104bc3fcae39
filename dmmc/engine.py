"""Engines: run a pass over all blocks and add up what it returns, in block order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral
from typing import Any, TypeVar

from dmmc.data import Block, Dataset
from dmmc.errors import InputError

Params = TypeVar("Params")
Stats = TypeVar("Stats")

GROUP = 16
"""Consecutive blocks whose sums are added first, so that where a block runs cannot change a bit of the total."""


def count_jobs(n_jobs: object) -> int:
    """How many threads `n_jobs` asks for: None or -1 is all the cores this process may use."""
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise InputError(f"n_jobs is {n_jobs!r}; give a positive number of threads, or None (or -1) for all cores.")
    return int(n_jobs)


def add(left: Any, right: Any) -> Any:
    """Add two Stats: arrays and numbers add, tuples of them add member by member."""
    if isinstance(left, tuple):
        members = [add(a, b) for a, b in zip(left, right, strict=True)]
        return type(left)(*members) if hasattr(left, "_fields") else tuple(members)
    return left + right


class Local:
    """Blocks on the threads of this process.

    Parameters
    ----------
    dataset : Dataset
    n_jobs : number of threads; None for all cores
    """

    def __init__(self, dataset: Dataset, n_jobs: int | None = None) -> None:
        self.dataset = dataset
        self._pool = ThreadPoolExecutor(max(1, min(count_jobs(n_jobs), len(dataset.blocks))), "dmmc")

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks: within groups of 16 first, then over the groups."""
        total: Any = None
        group: Any = None
        for index, stats in enumerate(self.rows(work, params)):
            group = stats if group is None else add(group, stats)
            if index % GROUP == GROUP - 1:
                total, group = (group if total is None else add(total, group)), None
        result: Stats = total if group is None else group if total is None else add(total, group)
        return result

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        if len(self.dataset.blocks) == 1:
            return iter([work(self.dataset.blocks[0], params)])
        return self._pool.map(lambda block: work(block, params), self.dataset.blocks)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> Local:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
