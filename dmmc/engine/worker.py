"""What a worker does with an order: its blocks in as many lanes as it has threads, results added up on the way."""

from __future__ import annotations

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

from dmmc.data.blocks import Block, Csr
from dmmc.data.readers.numbers import row_words
from dmmc.engine.block_cache import Shelf, shelf_of
from dmmc.engine.dask_client import here
from dmmc.engine.messages import Array, Order, Reply, Span, Supply
from dmmc.engine.tree_sum import Sum
from dmmc.errors import InputError

LONGEST = 2000
"""Characters of an error that travel back."""
COMPILING = 120.0
"""Seconds to wait at most for another process that compiles the same kernels."""

_compiled: set[tuple[str, str]] = set()
_compiling = threading.Lock()


def carry_out(order: Order, supply: Mapping[int, Supply]) -> Reply:
    """Do it. Errors come back as sentences: whatever a library raises need not survive the journey."""
    try:
        at_home = order.home == here()
        with shelf_of(order.session) as shelf:
            shelf.prepare(order, at_home)
            for index, given in supply.items():
                shelf.put(index, given)
            missing = tuple(s.number for s in order.spans if shelf.lacks(s.number, order) and s.number not in supply)
            if missing:
                return Reply({}, [], {}, missing)
            return _worked(order, supply, shelf, at_home)
    except InputError as error:
        return Reply({}, [], {}, refused=str(error))
    except _BlockError as error:
        return Reply({}, [], {}, failed=str(error))
    except (Exception, SystemExit) as error:  # an exit would close the worker
        return Reply({}, [], {}, failed=_told(error))


def _told(error: BaseException) -> str:
    """An error as text, however odd it is."""
    try:
        text = f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."


class _BlockError(Exception):
    """Something went wrong at these rows."""

    def __init__(self, span: Span, error: BaseException) -> None:
        super().__init__(f"block {span.number} ({row_words(span.start, span.stop)}): {_told(error)}")


def _worked(order: Order, supply: Mapping[int, Supply], shelf: Shelf, at_home: bool) -> Reply:
    """Each lane takes consecutive blocks, so that it reads on where it stopped."""
    checksums: dict[int, int] = {}

    def lane(spans: tuple[Span, ...]) -> tuple[Sum, list[tuple[int, Any]]]:
        total, values, unit = Sum(order.n_blocks), [], []
        for number, block in enumerate(_blocks(order, spans, supply, shelf, at_home, checksums)):
            result = _result(order, block)
            if order.summed:
                total.put((0, block.index), result)
            elif order.sink is None:
                values.append((block.index, result))
            else:
                unit.append((block, result))
                if len(unit) == order.every or number == len(spans) - 1:
                    first, last = unit[0][0], unit[-1][0]
                    values.append((first.index, order.sink(first.start, last.stop, [found for _, found in unit])))
                    unit = []
        return total, values

    lanes = _lanes(order)
    if len(lanes) == 1:
        found = [lane(lanes[0])]
    else:
        with ThreadPoolExecutor(len(lanes), "dmmc-lane") as pool:
            found = list(pool.map(lane, lanes))
    total = Sum(order.n_blocks)
    for part, _ in found:
        for node, stats in part.nodes.items():
            total.put(node, stats)
    return Reply(total.nodes, [pair for _, values in found for pair in values], checksums)


def _lanes(order: Order) -> list[tuple[Span, ...]]:
    """The spans cut into as many equal parts as there are threads, in whole units of what goes to a sink together."""
    units = [order.spans[i : i + order.every] for i in range(0, len(order.spans), order.every)]
    count = max(1, min(order.threads, len(units)))
    cuts = [len(units) * i // count for i in range(count + 1)]
    return [tuple(span for unit in units[a:b] for span in unit) for a, b in pairwise(cuts)]


def _result(order: Order, block: Block) -> Any:
    rows = block.rows
    kind = f"csr {rows.data.dtype}" if isinstance(rows, Csr) else str(rows.dtype)
    try:
        with _compiled_once(f"{order.work.__module__}.{order.work.__qualname__}", kind):
            return order.work(block, order.params)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        raise _BlockError(Span(block.index, block.start, block.stop), error) from error


# ------------------------------------------------------------------------------------------------------ reading


def _blocks(
    order: Order,
    spans: tuple[Span, ...],
    supply: Mapping[int, Supply],
    shelf: Shelf,
    at_home: bool,
    checksums: dict[int, int],
) -> Iterator[Block]:
    """Blocks in order; one that has to be read is read while the one before it is worked on."""
    reader = copy.copy(order.reader)  # a lane reads forward by itself

    def fetched(span: Span) -> Array | Csr:
        rows = supply[span.number].rows if span.number in supply else None
        if rows is None:
            assert reader is not None
            rows = reader.read(span.start, span.stop)
            checksums[span.number] = _checksum(rows)
        return rows

    with ThreadPoolExecutor(1, "dmmc-read") as pool:
        coming: deque[tuple[Span, Array | Csr | Future[Array | Csr]]] = deque()

        def next_block() -> Block:
            span, rows = coming.popleft()
            if isinstance(rows, Future):
                try:
                    rows = rows.result()
                except InputError:
                    raise
                except Exception as error:
                    raise _BlockError(span, error) from error
            return shelf.block(span, rows, order, at_home)

        for span in spans:
            held = shelf.rows(span.number)
            coming.append((span, held if held is not None else pool.submit(fetched, span)))
            if len(coming) > 1:
                yield next_block()
        while coming:
            yield next_block()


def _checksum(rows: Array | Csr) -> int:
    """Of the numbers as they were read: should a chunk change during a run, its next reading shows it."""
    total = 0
    for part in rows[:3] if isinstance(rows, Csr) else (rows,):
        view = np.ascontiguousarray(part).view()
        view.flags.writeable = False
        total = google_crc32c.extend(total, view)
    return int(total)


# ---------------------------------------------------------------------------------------------------- compiling


@contextmanager
def _compiled_once(work: str, kind: str) -> Iterator[None]:
    """Let one process of a machine at a time do what it has not done before: it compiles, the others then load.

    Compiled code is kept in files that all processes share. Many that find it missing at once would each compile, and
    write it over one another.
    """
    if (work, kind) in _compiled:
        yield
        return
    with _compiling, _file_lock():
        yield
        _compiled.add((work, kind))


@contextmanager
def _file_lock() -> Iterator[None]:
    """Hold a lock file of this user's, or go on without when it cannot be had in time."""
    path = os.path.join(tempfile.gettempdir(), f"dmmc-compiling-{os.getuid()}.lock")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield
        return
    try:
        until = time.monotonic() + COMPILING
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.02)
        yield
    finally:
        os.close(descriptor)
