"""Blocks on the threads of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from numbers import Integral

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset, Rows
from dmmc.engine.tree_sum import Params, Stats, Sum
from dmmc.errors import InputError


def count_jobs(n_jobs: object) -> int:
    """How many threads `n_jobs` asks for: None or -1 is all the cores this process may use."""
    if n_jobs is None or (isinstance(n_jobs, Integral) and n_jobs == -1):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs < 1:
        raise InputError(f"n_jobs is {n_jobs!r}; give a positive number of threads, or None (or -1) for all cores.")
    return int(n_jobs)


class Local:
    """Blocks on the threads of this process.

    Parameters
    ----------
    dataset : Dataset
    n_jobs : number of threads; None for all cores
    """

    def __init__(self, dataset: Dataset, n_jobs: int | None = None) -> None:
        self.dataset = dataset
        self._n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(max(1, min(count_jobs(n_jobs), len(dataset.blocks))), "dmmc")

    def use(self, dataset: Rows) -> None:
        """Go on with the same rows, of which something else is said."""
        assert isinstance(dataset, Dataset)
        self.dataset = dataset

    def over(self, dataset: Rows) -> Local:
        """An engine of the same kind over other rows."""
        assert isinstance(dataset, Dataset)
        return Local(dataset, self._n_jobs)

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        total = Sum(len(self.dataset.blocks))
        for index, stats in enumerate(self.rows(work, params)):
            total.put((0, index), stats)
        result: Stats = total.total()
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
