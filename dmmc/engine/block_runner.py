"""Runs a pass over consecutive blocks: each is read while the one before it is worked on, and results are added up.

What a worker of a cluster does with a message, and an engine that reads its rows from a store in each pass.
"""

import copy
import fcntl
import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import Any

import google_crc32c
import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.readers.numbers import name_rows
from dmmc.engine.block_cache import BlockCache
from dmmc.engine.messages import Message, Reply, SentBlock, Span
from dmmc.engine.tree_sum import TreeSum
from dmmc.errors import InputError, StoreFailed

LONGEST = 2000
"""Characters of an error that travel back."""
PATIENCE = 30.0
"""Seconds to wait at most for another process that compiles: it may stand still, and compiling twice does no harm."""

_compiled: set[tuple[str, str]] = set()
_lock = threading.Lock()


def describe_error(error: BaseException) -> str:
    """An exception as a text that can travel."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:  # its __str__ raises
        text = type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


class BlockError(Exception):
    """An error while a block was read or worked on."""

    def __init__(self, span: Span, error: BaseException) -> None:
        super().__init__(f"block {span.number} ({name_rows(span.start, span.stop)}): {describe_error(error)}")


def run_blocks(message: Message, sent: Mapping[int, SentBlock], cache: BlockCache, placed_here: bool) -> Reply:
    """Run the blocks of a message on threads; each takes consecutive blocks, as readers read forward."""
    checksums: dict[int, int] = {}

    def run(spans: tuple[Span, ...]) -> tuple[TreeSum, list[tuple[int, Any]]]:
        total, values, unit = TreeSum(message.n_blocks), [], []
        for number, block in enumerate(_read_blocks(message, spans, sent, cache, placed_here, checksums)):
            result = _run_block(message, block)
            if message.summed:
                total.put((0, block.index), result)
            elif message.sink is None:
                values.append((block.index, result))
            else:
                unit.append((block, result))
                if len(unit) == message.every or number == len(spans) - 1:
                    first, last = unit[0][0], unit[-1][0]
                    values.append((first.index, message.sink(first.start, last.stop, [found for _, found in unit])))
                    unit = []
        return total, values

    parts = _split_by_threads(message)
    if len(parts) == 1:
        found = [run(parts[0])]
    else:
        with ThreadPoolExecutor(len(parts), "dmmc-block") as pool:
            found = list(pool.map(run, parts))
    total = TreeSum(message.n_blocks)
    for part, _ in found:
        total.put_all(part.nodes)
    return Reply(total.nodes, [pair for _, values in found for pair in values], checksums)


def _split_by_threads(message: Message) -> list[tuple[Span, ...]]:
    """Consecutive spans for each thread, about as many for each; what goes to a sink together stays together."""
    units = [message.spans[i : i + message.every] for i in range(0, len(message.spans), message.every)]
    count = max(1, min(message.threads, len(units)))
    cuts = [len(units) * i // count for i in range(count + 1)]
    return [tuple(span for unit in units[a:b] for span in unit) for a, b in pairwise(cuts)]


def _run_block(message: Message, block: Block) -> Any:
    rows, work = block.rows, message.work
    kind = f"csr {rows.data.dtype}" if isinstance(rows, Csr) else str(rows.dtype)
    try:
        with _compile_alone(f"{work.__module__}.{work.__qualname__}", kind):
            return work(block, message.params)
    except (InputError, StoreFailed):
        raise
    except (Exception, SystemExit) as error:
        raise BlockError(Span(block.index, block.start, block.stop), error) from error


@contextmanager
def _compile_alone(work: str, kind: str) -> Iterator[None]:
    """Hold a lock if this process runs `work` on rows of this kind for the first time.

    So one process of a machine at a time compiles kernels, and the others load what it wrote. Without a lock, those
    that find compiled code missing at the same time would each compile it and overwrite one another's files.
    """
    if (work, kind) in _compiled:
        yield
        return
    with _lock, _lock_file():
        yield
        _compiled.add((work, kind))


@contextmanager
def _lock_file() -> Iterator[None]:
    """Lock a file of this user; go on without the lock when it cannot be had in time."""
    path = os.path.join(tempfile.gettempdir(), f"dmmc-compiling-{os.getuid()}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)


def _read_blocks(
    message: Message,
    spans: tuple[Span, ...],
    sent: Mapping[int, SentBlock],
    cache: BlockCache,
    placed_here: bool,
    checksums: dict[int, int],
) -> Iterator[Block]:
    """Blocks in order; one that has to be read is read while the one before it is worked on."""
    reader = copy.copy(message.reader)  # readers keep a place, so each thread has its own

    def fetch(span: Span) -> Array | Csr:
        rows = sent[span.number].rows if span.number in sent else None
        if rows is None:
            assert reader is not None
            rows = reader.read(span.start, span.stop)
            checksums[span.number] = _checksum(rows)
        return rows

    with ThreadPoolExecutor(1, "dmmc-read") as pool:
        coming: deque[tuple[Span, Array | Csr | Future[Array | Csr]]] = deque()

        def make_next() -> Block:
            span, rows = coming.popleft()
            if isinstance(rows, Future):
                try:
                    rows = rows.result()
                except (InputError, StoreFailed):
                    raise
                except Exception as error:
                    raise BlockError(span, error) from error
            return cache.make_block(span, rows, message, placed_here)

        for span in spans:
            kept = cache.rows(span.number)
            coming.append((span, kept if kept is not None else pool.submit(fetch, span)))
            if len(coming) > 1:
                yield make_next()
        while coming:
            yield make_next()


def _checksum(rows: Array | Csr) -> int:
    """CRC-32C of the numbers of a block: it shows if they change between two reads."""
    total = 0
    for part in rows[:3] if isinstance(rows, Csr) else (rows,):
        view = np.ascontiguousarray(part).view()
        view.flags.writeable = False
        total = google_crc32c.extend(total, view)
    return int(total)
