"""Blocks on the workers of a Dask cluster.

A pass is one task for each worker. A task carries its parameters and says which blocks are meant; the worker that runs
it has those blocks in its cache, reads them from their store, or is sent them. So a task can run anywhere, any number
of times, and a lost worker costs only time: its blocks are placed on others, and spread again when workers come.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset, Rows, Stored
from dmmc.engine import block_cache, worker_watch
from dmmc.engine.dask_client import Cluster, Outcome
from dmmc.engine.few_rows import gather_rows, take_rows
from dmmc.engine.local import Params, Stats
from dmmc.engine.messages import (
    Message,
    Reply,
    SentBlock,
    Sink,
    Span,
    Task,
    compare_checksums,
    list_spans,
    split_by_size,
)
from dmmc.engine.placement import Placement, check_memory, find_budget
from dmmc.engine.tree_sum import TreeSum
from dmmc.engine.worker import run_message
from dmmc.engine.worker_watch import WorkerWatch
from dmmc.errors import ClusterLost, InputError, StoreFailed
from dmmc.time_limit import NO_LIMIT, TimeLimit

TRIES = 3
"""Runs of a task that fails by itself, before its error is the user's."""
LOSSES = 10
"""How often a task may be lost on the way before that is an error."""
ROWS = 0
"""In `Placement.sent`: the rows. Versions of the columns are numbered from 1."""


class Distributed(AbstractContextManager["Distributed"]):
    """An engine on a cluster.

    dataset : rows in this process's memory are sent to the workers; those in a store are read by them
    cluster : Cluster
    limit : ends the first pass over rows that the workers read; later passes are not cut short
    """

    def __init__(self, dataset: Rows, cluster: Cluster, limit: TimeLimit = NO_LIMIT) -> None:
        self._cluster = cluster
        self._limit = limit
        self._has_read = isinstance(dataset, Dataset)
        self._session = uuid.uuid4().hex[:12]
        self._spans = list_spans(dataset.bounds)
        sizes = np.diff(dataset.bounds) * (dataset.nbytes / dataset.n_rows)
        self._largest_block = float(sizes.max())
        self._placement = Placement(sizes)
        self._watch = WorkerWatch(cluster)
        self._version = ROWS
        self._n_tasks = 0
        self._checksums: dict[int, int] = {}
        self.blocks_read = 0
        """Blocks that workers have read from their store so far; those that they cannot keep count each time."""
        self.use(dataset)
        self._update_placement()
        workers = self._watch.workers.values()
        check_memory(dataset, self._largest_block, workers, streams=self._reader is not None)

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        self._version += 1
        self._source = dataset
        self._piece = getattr(dataset.reader, "piece", None) if isinstance(dataset, Stored) else None
        """Gives rows as a graph of Dask's, which only the driver has."""
        self._reader = dataset.reader if isinstance(dataset, Stored) and self._piece is None else None
        with_columns = dataset.blocks if isinstance(dataset, Dataset) else (dataset,)
        self._has_columns = any(part.weight is not None or part.given is not None for part in with_columns)
        self.dataset = replace(dataset, gather=self.take) if isinstance(dataset, Stored) else dataset

    def over(self, dataset: Rows) -> Distributed:
        """An engine of the same kind over other rows."""
        return Distributed(dataset, self._cluster)

    def close(self) -> None:
        """Let the workers forget the rows."""
        self._cluster.run_everywhere(block_cache.clear, self._session)

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        total = TreeSum(len(self._spans))
        for reply in self._run_tasks(work, params, self._spans, summed=True):
            total.put_all(reply.nodes)
        result: Stats = total.total()
        return result

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        return iter(self._find_values(work, params, self._spans))

    def take(self, rows: Array) -> Any:
        """A few rows, from the blocks that hold them."""
        return gather_rows(self._source, rows, lambda wanted, spans: self._find_values(take_rows, wanted, spans))

    def write(self, work: Callable[[Block, Params], Any], params: Params, sink: Sink, every: int) -> None:
        """Hand the results of consecutive blocks, `every` at a time, to a sink on the worker that has them."""
        for _ in self._run_tasks(work, params, self._spans, summed=False, sink=sink, every=every):
            pass

    def _find_values(self, work: Callable[..., Any], params: Any, spans: Sequence[Span]) -> list[Any]:
        """`work(block, params)` of each of these blocks."""
        found: dict[int, Any] = {}
        for reply in self._run_tasks(work, params, spans, summed=False):
            found.update(reply.values)
        return [found[span.number] for span in spans]

    def _run_tasks(
        self,
        work: Callable[..., Any],
        params: Any,
        spans: Sequence[Span],
        *,
        summed: bool,
        sink: Sink | None = None,
        every: int = 1,
    ) -> Iterator[Reply]:
        """Replies that together cover these blocks, each of them once.

        1. each worker gets the blocks that are placed on it; placement follows workers that have come or gone
        2. good replies are handed on; what a worker lacks is sent; what failed or was lost is run again
        3. while nothing ends, the workers are watched: tasks of stuck or lost ones go to others
        """
        n_blocks, reader = len(self._spans), self._reader
        whole = Message(
            self._session, self._version, n_blocks, work, params, summed, sink, every, reader, self._has_columns
        )
        if self._watch.is_due:
            self._update_placement()
        waiting = deque(self._make_tasks(spans, every))  # 1
        running: list[Task] = []
        try:
            while waiting or running:
                if not self._has_read:
                    self._limit.check(f"{self._source.name} was being read")
                while waiting and self._may_start(waiting[0], running):
                    running.append(self._start(waiting.popleft(), whole))
                self._cluster.wait([task.future for task in running], worker_watch.INTERVAL)
                ended = [task for task in running if task.future.done()]
                if not ended:
                    for task in self._watch.find_lost(running, self._source.name):  # 3
                        running.remove(task)
                        self._cluster.release([task.future])
                        waiting.extend(self._replace_lost(task))
                    continue
                outcomes = self._cluster.collect_outcomes([task.future for task in ended])
                for task, outcome in zip(ended, outcomes, strict=True):
                    running.remove(task)
                    self._cluster.release([task.future])
                    reply, again = self._handle_outcome(task, outcome)  # 2
                    waiting.extend(again)
                    if reply is not None:
                        yield reply
            self._has_read |= len(spans) == n_blocks
        finally:
            self._cluster.release([task.future for task in running])

    def _make_tasks(self, spans: Sequence[Span], every: int) -> Iterator[Task]:
        """One task for each worker; more where rows have to be sent along."""
        by_worker: dict[str, list[Span]] = {}
        for span in spans:
            first = span.number // every * every  # what goes to a sink together stays together
            by_worker.setdefault(self._placement.worker_of(first), []).append(span)
        for worker, own in by_worker.items():
            new = {span for span in own if self._must_send(worker, span.number)}
            for part in split_by_size([span for span in own if span in new], self._placement.sizes):
                yield Task(part, worker, sends=True)
            rest = tuple(span for span in own if span not in new)
            if rest:
                yield Task(rest, worker)

    def _must_send(self, worker: str, index: int) -> bool:
        """Whether a worker lacks something of a block that it cannot get by itself, as far as we know."""
        rows = self._reader is None and index not in self._placement.sent(worker, ROWS)
        return rows or (self._has_columns and index not in self._placement.sent(worker, self._version))

    def _may_start(self, task: Task, running: list[Task]) -> bool:
        if not running:
            return True
        if task.alone or running[0].alone:
            return False
        return not task.sends or len(running) < 2 * len(self._watch.workers)

    def _start(self, task: Task, whole: Message) -> Task:
        """Start a task; `whole` is the message of its pass, without blocks."""
        self._n_tasks += 1
        worker = self._watch.workers.get(task.worker)
        message = whole._replace(
            spans=task.spans,
            worker=task.worker,
            keep=self._placement.blocks_of(task.worker),
            budget=find_budget(worker, self._largest_block),
            threads=worker.threads if worker is not None else 1,
        )
        sent = {span.number: self._block_to_send(span, task.worker) for span in task.spans} if task.sends else {}
        task.began = time.monotonic()
        task.future = self._cluster.submit(
            run_message,
            message,
            sent,
            name=f"{whole.work.__name__}-{self._session}-{self._n_tasks}",
            worker=task.worker,
            is_graph=self._piece is not None and bool(sent),
        )
        return task

    def _block_to_send(self, span: Span, worker: str) -> SentBlock:
        """What a worker cannot get by itself of a block, but for rows that it has been sent."""
        source = self._source
        has_rows = span.number in self._placement.sent(worker, ROWS)
        if isinstance(source, Dataset):
            block = source.blocks[span.number]
            return SentBlock(None if has_rows else block.rows, block.weight, block.given)
        part = slice(span.start, span.stop)
        return SentBlock(
            None if self._piece is None or has_rows else self._piece(span.start, span.stop),
            None if source.weight is None else source.weight[part],
            None if source.given is None else source.given[part],
        )

    def _handle_outcome(self, task: Task, outcome: Outcome | None) -> tuple[Reply | None, Sequence[Task]]:
        """The reply, if all is well; else the tasks to run again."""
        if outcome is None or (outcome.error and not outcome.killed):
            task.losses += 1
            if task.losses >= (LOSSES if outcome is None else TRIES):
                why = "it was lost each time" if outcome is None else outcome.error
                raise ClusterLost(
                    f"a task over {task.rows} of {self._source.name} could not be run in {task.losses} tries: {why}."
                )
            return None, [self._place_again(task)]
        if outcome.killed:
            return None, self._split_to_blocks(task)
        reply: Reply = outcome.value
        if reply.refused:
            raise InputError(reply.refused)
        if reply.store_failed:
            raise StoreFailed(reply.store_failed)
        if reply.failed:
            task.failures += 1
            if task.failures >= TRIES:
                raise ClusterLost(f"a task failed {task.failures} times on {self._source.name}: {reply.failed}.")
            return None, [self._place_again(task)]
        if reply.missing:
            return None, self._send_missing(task, set(reply.missing))
        self._compare_checksums(reply)
        if task.sends:
            for version in (ROWS, self._version):
                self._placement.sent(task.worker, version).update(span.number for span in task.spans)
        return reply, []

    def _replace_lost(self, task: Task) -> Sequence[Task]:
        """What to run instead of a task whose worker is gone or stands still."""
        task.lost_workers += task.worker not in self._watch.workers
        return [self._place_again(task)] if task.lost_workers < TRIES else self._split_to_blocks(task)

    def _place_again(self, task: Task) -> Task:
        """The same task for the worker that keeps its blocks by now."""
        self._update_placement()
        worker = self._placement.worker_of(task.spans[0].number)
        return replace(task, worker=worker, sends=task.sends or self._reader is None or self._has_columns)

    def _split_to_blocks(self, task: Task) -> list[Task]:
        """A task that ended all workers that tried it, block by block, to find the block that does."""
        if len(task.spans) == 1:
            raise ClusterLost(
                f"block {task.spans[0].number} of {self._source.name} ({task.rows}) ended every worker that worked on "
                "it: look at those rows and at the workers' logs (too little memory and damaged chunks are common "
                "causes)."
            )
        self._update_placement()
        return [Task((s,), self._placement.worker_of(s.number), sends=True, alone=True) for s in task.spans]

    def _send_missing(self, task: Task, missing: set[int]) -> list[Task]:
        """The same task with what its worker lacks, which it has lost since it was sent."""
        for version in (ROWS, self._version):
            self._placement.sent(task.worker, version).difference_update(missing)
        lacking = [span for span in task.spans if span.number in missing]
        rest = tuple(span for span in task.spans if span.number not in missing)
        again = [Task(part, task.worker, sends=True) for part in split_by_size(lacking, self._placement.sizes)]
        return [*again, Task(rest, task.worker)] if rest else again

    def _compare_checksums(self, reply: Reply) -> None:
        """Refuse rows that are not what they were when they were first read."""
        self.blocks_read += len(reply.checksums)
        compare_checksums(self._checksums, reply.checksums, self._spans, self._source.name)

    def _update_placement(self) -> None:
        """Look at the workers: blocks of lost ones are placed on others, new ones get their share."""
        self._placement.update(self._watch.update())
