"""What estimators know of an engine, and the engine that runs blocks on the threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset, Rows
from dmmc.engine.messages import Sink
from dmmc.engine.tree_sum import TreeSum
from dmmc.machine import count_threads

Params = TypeVar("Params")
Stats = TypeVar("Stats")


class Engine(Protocol):
    """Runs a pass over all blocks of a matrix."""

    @property
    def dataset(self) -> Rows:
        """The rows that it runs over."""
        ...

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        ...

    def over(self, dataset: Rows) -> AbstractContextManager[Engine]:
        """An engine of the same kind over other rows, while this one goes on."""
        ...

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        ...

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        ...


class Local(AbstractContextManager["Local"]):
    """An engine on the threads of this process.

    dataset : Dataset
    n_jobs : number of threads; None for all cores
    """

    def __init__(self, dataset: Dataset, n_jobs: int | None = None) -> None:
        self.dataset = dataset
        self._n_jobs = n_jobs
        self._pool = ThreadPoolExecutor(max(1, min(count_threads(n_jobs), len(dataset.blocks))), "dmmc")

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        assert isinstance(dataset, Dataset)
        self.dataset = dataset

    def over(self, dataset: Rows) -> Local:
        """An engine of the same kind over other rows."""
        assert isinstance(dataset, Dataset)
        return Local(dataset, self._n_jobs)

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        total = TreeSum(len(self.dataset.blocks))
        for index, stats in enumerate(self.rows(work, params)):
            total.put((0, index), stats)
        result: Stats = total.total()
        return result

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        if len(self.dataset.blocks) == 1:
            return iter([work(self.dataset.blocks[0], params)])
        return self._pool.map(lambda block: work(block, params), self.dataset.blocks)

    def write(self, work: Callable[[Block, Params], Any], params: Params, sink: Sink, every: int) -> None:
        """Hand the result of each block to a sink, in block order; `every` is for engines that write side by side."""
        for block, result in zip(self.dataset.blocks, self.rows(work, params), strict=True):
            sink(block.start, block.stop, [result])

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def __exit__(self, *exc: object) -> None:
        self.close()
