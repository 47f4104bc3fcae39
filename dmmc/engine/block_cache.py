"""The blocks that a process keeps between passes, as far as its memory allows.

A cache: every entry can be read or sent again. The cache of a session that asks for nothing for some minutes, because
its driver was killed, is dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.engine.messages import Message, SentBlock, Span

IDLE = 600.0
"""Seconds after which the cache of a session that asks for nothing is dropped."""

_caches: dict[str, BlockCache] = {}
_lock = threading.Lock()


class BlockCache:
    """Blocks of one session."""

    def __init__(self) -> None:
        self.used_at = time.monotonic()
        self.users = 0
        self._lock = threading.Lock()
        self._version = -1
        self._rows: dict[int, Array | Csr] = {}
        self._columns: dict[int, tuple[Array | None, Array | None]] = {}
        """Weights and given labels."""
        self._from_passes: dict[int, dict[Any, Any]] = {}
        """`Block.cache` of each block."""
        self._bytes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that are kept."""
        return self._bytes

    def drop_rows(self) -> None:
        """Keep no rows any more, until the next ones come."""
        with self._lock:
            self._rows.clear()
            self._bytes = 0

    def prepare(self, message: Message, placed_here: bool) -> None:
        """Drop columns of an older version, and blocks that are placed on another worker by now."""
        with self._lock:
            if message.version != self._version:
                self._columns.clear()
                self._from_passes.clear()
                self._version = message.version
            if placed_here:
                for index in self._rows.keys() - message.keep:
                    self._bytes -= self._rows.pop(index).nbytes
                for entries in (self._columns, self._from_passes):
                    for index in entries.keys() - message.keep:
                        del entries[index]

    def lacks(self, index: int, message: Message) -> bool:
        """Whether the driver must send something of a block."""
        no_rows = message.reader is None and index not in self._rows
        return no_rows or (message.has_columns and index not in self._columns)

    def put_columns(self, index: int, sent: SentBlock) -> None:
        """Keep the weights and given labels of a block that the driver has sent."""
        with self._lock:
            self._columns[index] = (sent.weight, sent.given)

    def rows(self, index: int) -> Array | Csr | None:
        """Rows of a block, if they are kept."""
        return self._rows.get(index)

    def make_block(self, span: Span, rows: Array | Csr, message: Message, placed_here: bool) -> Block:
        """A block to work on; its rows are kept if it is placed here and the budget allows."""
        with self._lock:
            fits = self._bytes + rows.nbytes <= message.budget
            if placed_here and fits and span.number in message.keep and span.number not in self._rows:
                self._rows[span.number] = rows
                self._bytes += rows.nbytes
            weight, given = self._columns.get(span.number, (None, None))
            cache = self._from_passes.setdefault(span.number, {}) if placed_here else {}
        return Block(*span, rows, weight, given, cache)


@contextmanager
def use_cache(session: str) -> Iterator[BlockCache]:
    """The cache of a session, which is not dropped meanwhile."""
    with _lock:
        if not _caches:
            threading.Thread(target=_drop_idle, name="dmmc-cache", daemon=True).start()
        cache = _caches.setdefault(session, BlockCache())
        cache.users += 1
    try:
        yield cache
    finally:
        with _lock:
            cache.users -= 1
            cache.used_at = time.monotonic()


def clear(session: str) -> None:
    """Drop the cache of a session."""
    with _lock:
        _caches.pop(session, None)


def _drop_idle() -> None:
    """Drop caches that are idle, until there is none."""
    while True:
        time.sleep(IDLE / 10)
        with _lock:
            now = time.monotonic()
            for session, cache in list(_caches.items()):
                if cache.users == 0 and now - cache.used_at > IDLE:
                    del _caches[session]
            if not _caches:
                return
