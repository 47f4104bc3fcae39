"""Blocks on the workers of a Dask cluster.

A pass is one task a worker. A task carries its parameters and says which blocks are meant; whoever runs it has those
blocks at hand, reads them from their store, or is sent them. So a task can run anywhere, any number of times, and
losing a worker loses nothing but time: its blocks get another home, and they are spread again when workers come.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset, Rows, Stored, holders, joined, picked
from dmmc.data.readers.numbers import row_words
from dmmc.engine import block_cache
from dmmc.engine.dask_client import Cluster, Outcome, Worker
from dmmc.engine.messages import Order, Reply, Sink, Span, Supply
from dmmc.engine.placement import Homes, budget, check_room
from dmmc.engine.tree_sum import Params, Stats, Sum
from dmmc.engine.worker import carry_out
from dmmc.errors import ClusterLost, InputError
from dmmc.machine import MIB

Array = NDArray[Any]

TRIES = 3
"""Runs of a task that fails by itself, before its error is the user's."""
LOSSES = 10
"""How often a task may be lost on the way before that is an error."""
PARCEL = 64 * MIB
"""Rows from the driver's memory travel in parts of about this size."""
LOOK = 1.0
"""Seconds between two looks at the workers."""
ROWS = 0
"""Versions of columns are numbered from 1: 0 is what is said of rows."""


@dataclass(eq=False)
class _Job:
    """Blocks that are to be worked on by one task, and what has become of it so far."""

    spans: tuple[Span, ...]
    home: str
    sends: bool = False
    """Whether what the worker cannot get by itself travels with the task."""
    alone: bool = False
    """Whether nothing else may run meanwhile, as it may end its worker."""
    failures: int = 0
    losses: int = 0
    future: Any = None
    began: float = 0.0


@dataclass(frozen=True)
class _Pass:
    """What is done with every block."""

    name: str
    work: Callable[..., Any]
    params: Any
    summed: bool
    sink: Sink | None
    every: int


class Distributed:
    """An engine on a cluster.

    Parameters
    ----------
    dataset : Dataset or Stored
        Rows in this process's memory are sent to the workers; those in a store are read by them.
    cluster : Cluster
    """

    def __init__(self, dataset: Rows, cluster: Cluster) -> None:
        self._cluster = cluster
        self._session = uuid.uuid4().hex[:12]
        self._spans = tuple(
            Span(i, int(a), int(b))
            for i, (a, b) in enumerate(zip(dataset.bounds[:-1], dataset.bounds[1:], strict=True))
        )
        sizes = np.diff(dataset.bounds) * (dataset.nbytes / dataset.n_rows)
        self._block = float(sizes.max())
        self._homes = Homes(sizes)
        self._version = ROWS
        self._tasks = 0
        self._checksums: dict[int, int] = {}
        self.blocks_read = 0
        """Blocks that workers have read from their store so far; those that they cannot keep count each time."""
        self._workers: dict[str, Worker] = {}
        self._looked = 0.0
        self._heard: dict[str, tuple[float, float]] = {}
        self._empty_since: float | None = None
        self.use(dataset)
        self._look()
        check_room(dataset, self._block, self._workers.values(), streams=self._reader is not None)

    def use(self, dataset: Rows) -> None:
        """Go on with the same rows, of which something else is said."""
        self._version += 1
        self._source = dataset
        stored = dataset if isinstance(dataset, Stored) else None
        self._piece = getattr(stored.reader, "piece", None) if stored is not None else None
        """Makes a block from a graph of Dask's, which only the driver has."""
        self._reader = stored.reader if stored is not None and self._piece is None else None
        if stored is None:
            assert isinstance(dataset, Dataset)
            self._has_columns = any(block.weight is not None or block.given is not None for block in dataset.blocks)
            self.dataset: Rows = dataset
        else:
            self._has_columns = stored.weight is not None or stored.given is not None
            self.dataset = replace(stored, gather=self.take)

    def over(self, dataset: Rows) -> Distributed:
        """An engine of the same kind over other rows."""
        return Distributed(dataset, self._cluster)

    # --------------------------------------------------------------------------------------------------- passes

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        total = Sum(len(self._spans))
        for reply in self._replies(work, params, self._spans, summed=True):
            for node, stats in reply.nodes.items():
                total.put(node, stats)
        result: Stats = total.total()
        return result

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        return iter(self._values(work, params, self._spans))

    def take(self, rows: Array) -> Any:
        """A few rows, from the blocks that hold them."""
        holder = holders(self._source.bounds, rows)
        wanted = {int(b): rows[holder == b] for b in np.unique(holder)}
        parts = self._values(take_rows, wanted, [self._spans[b] for b in sorted(wanted)])
        return joined(self._source, holder, dict(zip(sorted(wanted), parts, strict=True)))

    def write(self, work: Callable[[Block, Params], Any], params: Params, sink: Sink, every: int) -> None:
        """Hand the results of consecutive blocks, `every` at a time, to a sink on the worker that has them."""
        for _ in self._replies(work, params, self._spans, summed=False, sink=sink, every=every):
            pass

    def _values(self, work: Callable[..., Any], params: Any, spans: Sequence[Span]) -> list[Any]:
        found: dict[int, Any] = {}
        for reply in self._replies(work, params, spans, summed=False):
            found.update(reply.values)
        return [found[span.number] for span in spans]

    # ------------------------------------------------------------------------------------------------ one pass

    def _replies(
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

        1. blocks go where they are at home; homes are looked over when workers have come or gone
        2. what ended well is handed on; what a worker lacks is sent; what failed or was lost is done again
        3. while nothing ends, the workers are looked after: stuck ones are passed over, missing ones awaited
        """
        this = _Pass(f"{work.__name__}-{self._session}", work, params, summed, sink, every)
        if time.monotonic() - self._looked > LOOK:
            self._look()
        waiting = deque(self._jobs(spans, every))  # 1
        running: list[_Job] = []
        try:
            while waiting or running:
                while waiting and self._may_start(waiting[0], running):
                    running.append(self._started(waiting.popleft(), this))
                self._cluster.wait([job.future for job in running], LOOK)
                ended = [job for job in running if job.future.done()]
                if not ended:
                    waiting.extend(self._looked_after(running))  # 3
                    continue
                for job, outcome in zip(ended, self._cluster.outcomes([job.future for job in ended]), strict=True):
                    running.remove(job)
                    self._cluster.forget([job.future])
                    reply, again = self._judged(job, outcome)  # 2
                    waiting.extend(again)
                    if reply is not None:
                        yield reply
        finally:
            self._cluster.forget([job.future for job in running])

    def _jobs(self, spans: Sequence[Span], every: int) -> Iterator[_Job]:
        """One job a worker; more where rows have to be sent along."""
        by_home: dict[str, list[Span]] = {}
        for span in spans:
            first = span.number // every * every  # what goes to a sink together stays together
            by_home.setdefault(self._homes.of(first), []).append(span)
        for home, own in by_home.items():
            new = {span for span in own if self._unsent(home, span.number)}
            for part in self._parcels([span for span in own if span in new]):
                yield _Job(part, home, sends=True)
            rest = tuple(span for span in own if span not in new)
            if rest:
                yield _Job(rest, home)

    def _unsent(self, home: str, index: int) -> bool:
        """Whether a worker lacks something of a block that it cannot get by itself, as far as we know."""
        rows = self._reader is None and index not in self._homes.sent(home, ROWS)
        return rows or (self._has_columns and index not in self._homes.sent(home, self._version))

    def _parcels(self, spans: Sequence[Span]) -> Iterator[tuple[Span, ...]]:
        """Spans in parts of not too many bytes."""
        part: list[Span] = []
        for span in spans:
            if part and sum(self._homes.sizes[other.number] for other in (*part, span)) > PARCEL:
                yield tuple(part)
                part = []
            part.append(span)
        if part:
            yield tuple(part)

    def _may_start(self, job: _Job, running: list[_Job]) -> bool:
        if not running:
            return True
        if job.alone or running[0].alone:
            return False
        return not job.sends or len(running) < 2 * len(self._workers)

    def _started(self, job: _Job, this: _Pass) -> _Job:
        self._tasks += 1
        worker = self._workers.get(job.home)
        order = Order(
            session=self._session,
            version=self._version,
            n_blocks=len(self._spans),
            spans=job.spans,
            work=this.work,
            params=this.params,
            summed=this.summed,
            home=job.home,
            keep=self._homes.blocks(job.home),
            budget=budget(worker, self._block),
            threads=worker.threads if worker is not None else 1,
            reader=self._reader,
            has_columns=self._has_columns,
            sink=this.sink,
            every=this.every,
        )
        supply = {span.number: self._supply(span, job.home) for span in job.spans} if job.sends else {}
        submit = self._cluster.submit if self._piece is None or not supply else self._cluster.submit_graph
        job.began = time.monotonic()
        job.future = submit(carry_out, order, supply, name=f"{this.name}-{self._tasks}", workers=[job.home])
        return job

    def _supply(self, span: Span, home: str) -> Supply:
        """What a worker cannot get by itself of a block, but for rows that it has been sent."""
        source = self._source
        has_rows = span.number in self._homes.sent(home, ROWS)
        if isinstance(source, Dataset):
            block = source.blocks[span.number]
            return Supply(None if has_rows else block.rows, block.weight, block.given)
        part = slice(span.start, span.stop)
        return Supply(
            None if self._piece is None or has_rows else self._piece(span.start, span.stop),
            None if source.weight is None else source.weight[part],
            None if source.given is None else source.given[part],
        )

    # ---------------------------------------------------------------------------------------- what became of it

    def _judged(self, job: _Job, outcome: Outcome | None) -> tuple[Reply | None, Sequence[_Job]]:
        """The reply, if all is well; else what is to be done again."""
        if outcome is None or (outcome.error and not outcome.killed):
            job.losses += 1
            if job.losses >= (LOSSES if outcome is None else TRIES):
                why = "it was lost each time" if outcome is None else outcome.error
                raise ClusterLost(f"a task over {self._named(job)} could not be run in {job.losses} tries: {why}.")
            return None, [self._moved(job)]
        if outcome.killed:
            return None, self._one_by_one(job)
        reply: Reply = outcome.value
        if reply.refused:
            raise InputError(reply.refused)
        if reply.failed:
            job.failures += 1
            if job.failures >= TRIES:
                raise ClusterLost(f"a task failed {job.failures} times on {self._source.name}: {reply.failed}.")
            return None, [self._moved(job)]
        if reply.missing:
            lacking = set(reply.missing)
            for version in (ROWS, self._version):
                self._homes.sent(job.home, version).difference_update(lacking)
            parts = self._parcels([span for span in job.spans if span.number in lacking])
            rest = tuple(span for span in job.spans if span.number not in lacking)
            again = [_Job(part, job.home, sends=True) for part in parts]
            return None, [*again, _Job(rest, job.home)] if rest else again
        self._verify(reply)
        if job.sends:
            for version in (ROWS, self._version):
                self._homes.sent(job.home, version).update(span.number for span in job.spans)
        return reply, []

    def _moved(self, job: _Job) -> _Job:
        """The same job, to be done by whoever keeps its blocks by now."""
        self._look()
        home = self._homes.of(job.spans[0].number)
        return replace(job, home=home, sends=job.sends or self._reader is None or self._has_columns)

    def _one_by_one(self, job: _Job) -> list[_Job]:
        """A task ended all workers that tried it: each of its blocks by itself tells which one does."""
        if len(job.spans) == 1:
            (span,) = job.spans
            raise ClusterLost(
                f"block {span.number} of {self._source.name} ({row_words(span.start, span.stop)}) ended every worker "
                "that worked on it: look at those rows and at the workers' logs (too little memory and damaged chunks "
                "are common causes)."
            )
        self._look()
        return [_Job((span,), self._homes.of(span.number), sends=True, alone=True) for span in job.spans]

    def _verify(self, reply: Reply) -> None:
        """What is read again must be what was read before."""
        self.blocks_read += len(reply.checksums)
        for index, checksum in reply.checksums.items():
            if self._checksums.setdefault(index, checksum) != checksum:
                span = self._spans[index]
                raise InputError(
                    f"{self._source.name} changed during the run: {row_words(span.start, span.stop)} are not what "
                    "they were when they were first read."
                )

    def _named(self, job: _Job) -> str:
        return f"{row_words(job.spans[0].start, job.spans[-1].stop)} of {self._source.name}"

    # ---------------------------------------------------------------------------------------------- the workers

    def _look(self) -> None:
        """Look at the workers: blocks of lost ones get new homes, new ones get their share."""
        self._workers = self._cluster.workers()
        if not self._workers:
            self._cluster.await_workers()
            self._workers = self._cluster.workers()
        self._looked = time.monotonic()
        out = self._stuck() | self._cluster.check_versions(self._workers)
        self._homes.settle({a: w for a, w in self._workers.items() if a not in out} or self._workers)

    def _stuck(self) -> set[str]:
        """Workers that have given no sign of life for too long."""
        now = time.monotonic()
        for address, worker in self._workers.items():
            if self._heard.get(address, (None, 0.0))[0] != worker.heard:
                self._heard[address] = (worker.heard, now)
        return {a for a in self._workers if now - self._heard[a][1] > self._cluster.limits.stuck}

    def _looked_after(self, running: list[_Job]) -> list[_Job]:
        """Nothing has ended for a while: is anybody there, and does anybody stand still? Gives jobs to do elsewhere."""
        now = time.monotonic()
        limits = self._cluster.limits
        self._workers = self._cluster.workers()
        if not self._workers:
            self._empty_since = self._empty_since or now
            if now - self._empty_since > limits.workers:
                raise self._cluster.no_workers()
            return []
        self._empty_since = None
        for job in running:
            if now - job.began > limits.task:
                raise ClusterLost(
                    f"a task over {self._named(job)} took longer than {limits.task:.0f} s (dmmc.wait.task): is its "
                    "store within reach? Go on with --resume (resume=True)."
                )
        stuck = self._stuck()
        if stuck == set(self._workers):
            raise ClusterLost(
                f"no worker has given a sign of life for {limits.stuck:.0f} s (dmmc.wait.stuck): look at "
                f"{', '.join(sorted(stuck)[:3])}, then go on with --resume (resume=True)."
            )
        passed = []
        if stuck or any(job.home not in self._workers for job in running):
            theirs = self._cluster.at_work(set(self._workers) - stuck)
            # one whose home is gone may be with nobody: Dask does not offer it to workers that come later
            passed = [
                job
                for job in running
                if (job.home in stuck or job.home not in self._workers) and str(job.future.key) not in theirs
            ]
        for job in passed:
            running.remove(job)
            self._cluster.forget([job.future])
        return [self._moved(job) for job in passed]

    def close(self) -> None:
        """Let the workers forget the rows."""
        self._cluster.everywhere(block_cache.clear, self._session)

    def __enter__(self) -> Distributed:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def take_rows(block: Block, wanted: dict[int, Array]) -> Any:
    """The wanted rows of a block."""
    return picked(block, wanted[block.index])
