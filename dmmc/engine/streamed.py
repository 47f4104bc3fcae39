"""Rows that are larger than memory, on the threads of this process: read from their store block by block in each pass.

What fits into memory is decoded once and stays: always the same blocks. The rest is read again in each pass, each block
while the one before it is worked on, as workers of a cluster do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset, Rows, Stored
from dmmc.engine.block_cache import BlockCache
from dmmc.engine.block_runner import BlockError, run_blocks
from dmmc.engine.few_rows import gather_rows, take_rows
from dmmc.engine.local import Local, Params, Stats
from dmmc.engine.messages import Message, Reply, SentBlock, Sink, Span, compare_checksums, list_spans
from dmmc.engine.placement import choose_kept
from dmmc.engine.tree_sum import TreeSum
from dmmc.machine import count_threads
from dmmc.process_state import give_memory_back
from dmmc.time_limit import NO_LIMIT, TimeLimit

GROUP = 16
"""Blocks that a thread takes at a time, at most: readers read forward within them."""
GROUPS_A_THREAD = 4
"""At least so many, where there are blocks enough, or one thread would be left with the last one alone."""


class Streamed(AbstractContextManager["Streamed"]):
    """An engine on threads whose rows stay in their store.

    dataset : where the rows are
    budget : bytes of rows that may be kept between passes
    n_jobs : number of threads; None for all cores
    limit : ends the first pass, in which nothing is known of the rows yet
    caches : of the engines over the same rows, which share the budget
    """

    def __init__(
        self,
        dataset: Stored,
        budget: int,
        n_jobs: int | None = None,
        limit: TimeLimit = NO_LIMIT,
        caches: list[BlockCache] | None = None,
    ) -> None:
        give_memory_back()
        self._budget, self._n_jobs, self._limit = budget, n_jobs, limit
        self._spans = list_spans(dataset.bounds)
        self._threads = max(1, min(count_threads(n_jobs), len(self._spans)))
        self._pool = ThreadPoolExecutor(self._threads, "dmmc")
        sizes = np.diff(dataset.bounds) * (dataset.nbytes / dataset.n_rows)
        self._keep = choose_kept(sizes, [range(g[0].number, g[-1].number + 1) for g in self._group(1)], budget)
        self._cache = BlockCache()
        self._caches = [] if caches is None else caches
        self._caches.append(self._cache)
        self._checksums: dict[int, int] = {}
        self._has_read = False
        self._version = 0
        self._sizes = sizes
        self.bytes_read = 0
        """Bytes of the rows that were read from the store so far; those that are not kept count each time."""
        self.use(dataset)

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        assert isinstance(dataset, Stored)
        self._version += 1
        self._source = replace(dataset, gather=None)
        self.dataset = replace(dataset, gather=self.take)
        self._cache.prepare(self._make_message(take_rows, None, summed=False), placed_here=True)
        for span in self._spans:
            here = slice(span.start, span.stop)
            weight, given = (None if column is None else column[here] for column in (dataset.weight, dataset.given))
            self._cache.put_columns(span.number, SentBlock(None, weight, given))

    def over(self, dataset: Rows) -> Local | Streamed:
        """An engine of the same kind over other rows; of the same store, it takes over what may be kept."""
        if isinstance(dataset, Dataset):
            return Local(dataset, self._n_jobs)
        self._cache.drop_rows()
        return Streamed(dataset, self._budget, self._n_jobs, caches=self._caches)

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        total = TreeSum(len(self._spans))
        for reply in self._run_groups(self._make_message(work, params, summed=True), self._group(1)):
            total.put_all(reply.nodes)
        result: Stats = total.total()
        return result

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        replies = self._run_groups(self._make_message(work, params, summed=False), self._group(1))
        return (value for reply in replies for _, value in reply.values)

    def take(self, rows: Array) -> Any:
        """A few rows, from the blocks that hold them."""

        def find_values(wanted: dict[int, Array], spans: Sequence[Span]) -> list[Any]:
            message = self._make_message(take_rows, wanted, summed=False)
            replies = self._run_groups(message, _cut(spans, self._count_together(len(spans))))
            return [value for reply in replies for _, value in reply.values]

        return gather_rows(self._source, rows, find_values)

    def write(self, work: Callable[[Block, Params], Any], params: Params, sink: Sink, every: int) -> None:
        """Hand the results of consecutive blocks, `every` at a time, to a sink."""
        message = self._make_message(work, params, summed=False)._replace(sink=sink, every=every)
        for _ in self._run_groups(message, self._group(every)):
            pass

    @property
    def reading(self) -> dict[str, int]:
        """What was read, in bytes of rows: of all rows, kept between passes, and read so far."""
        kept = sum(int(self._sizes[number]) for number in self._keep)
        return {"bytes": self.dataset.nbytes, "kept_bytes": kept, "bytes_read": self.bytes_read}

    def close(self) -> None:
        """End the threads, and forget the rows."""
        self._pool.shutdown(cancel_futures=True)
        self._cache.drop_rows()
        self._caches.remove(self._cache)

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _count_together(self, n_blocks: int) -> int:
        return max(1, min(GROUP, n_blocks // (GROUPS_A_THREAD * self._threads)))

    def _group(self, every: int) -> list[Sequence[Span]]:
        """All blocks, in groups of consecutive ones; so many at a time stay together."""
        return _cut(self._spans, -(-self._count_together(len(self._spans)) // every) * every)

    def _make_message(self, work: Callable[..., Any], params: Any, *, summed: bool) -> Message:
        columns = self._source.weight is not None or self._source.given is not None
        others = sum(cache.nbytes for cache in self._caches if cache is not self._cache)
        return Message(
            "",
            self._version,
            len(self._spans),
            work,
            params,
            summed,
            None,
            1,
            self._source.reader,
            columns,
            keep=self._keep,
            budget=max(0, self._budget - others),
        )

    def _run_groups(self, message: Message, groups: Sequence[Sequence[Span]]) -> Iterator[Reply]:
        """The replies of all groups, in order; each group is one thread's."""

        def run(group: Sequence[Span]) -> Reply:
            if not self._has_read:
                self._limit.check(f"{self._source.name} was being read")
            try:
                return run_blocks(message._replace(spans=tuple(group)), {}, self._cache, placed_here=True)
            except BlockError as wrapped:  # no need to wrap what need not travel
                raise (wrapped.__cause__ or wrapped) from None

        replies = self._pool.map(run, groups)
        return self._check(replies, whole=sum(map(len, groups)) == len(self._spans))

    def _check(self, replies: Iterator[Reply], *, whole: bool) -> Iterator[Reply]:
        """The replies, after a look at whether the store has changed."""
        for reply in replies:
            self.bytes_read += int(self._sizes[list(reply.checksums)].sum())
            compare_checksums(self._checksums, reply.checksums, self._spans, self._source.name)
            yield reply
        self._has_read |= whole


def _cut(spans: Sequence[Span], each: int) -> list[Sequence[Span]]:
    return [spans[i : i + each] for i in range(0, len(spans), each)]
