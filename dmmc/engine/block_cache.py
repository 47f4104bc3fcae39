"""The blocks that a worker process keeps between passes, as far as its memory allows.

Nothing here is needed: whatever is lost is read or sent again. A session that is not heard of for some minutes, as its
driver was killed, is cleared away.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from dmmc.data.blocks import Block, Csr
from dmmc.engine.messages import Order, Span, Supply

Array = NDArray[Any]

IDLE = 600.0
"""Seconds after which a session that asks for nothing is forgotten."""

_shelves: dict[str, Shelf] = {}
_lock = threading.Lock()


class Shelf:
    """Blocks of one session."""

    def __init__(self) -> None:
        self.used = time.monotonic()
        self.users = 0
        self._lock = threading.Lock()
        self._version = -1
        self._rows: dict[int, Array | Csr] = {}
        self._columns: dict[int, tuple[Array | None, Array | None]] = {}
        self._caches: dict[int, dict[Any, Any]] = {}
        self._bytes = 0

    def prepare(self, order: Order, at_home: bool) -> None:
        """Make room: what is outdated or belongs elsewhere goes."""
        with self._lock:
            if order.version != self._version:
                self._columns.clear()
                self._caches.clear()
                self._version = order.version
            if at_home:
                for index in [index for index in self._rows if index not in order.keep]:
                    self._bytes -= self._rows.pop(index).nbytes
                for known in (self._columns, self._caches):
                    for index in [index for index in known if index not in order.keep]:
                        del known[index]

    def lacks(self, index: int, order: Order) -> bool:
        """Whether something of a block must be supplied by the driver."""
        no_rows = order.reader is None and index not in self._rows
        return no_rows or (order.has_columns and index not in self._columns)

    def put(self, index: int, supply: Supply) -> None:
        """Keep the columns of a block that the driver has sent."""
        with self._lock:
            self._columns[index] = (supply.weight, supply.given)

    def rows(self, index: int) -> Array | Csr | None:
        """Rows of a block, if they are kept here."""
        return self._rows.get(index)

    def block(self, span: Span, rows: Array | Csr, order: Order, at_home: bool) -> Block:
        """A block to work on; its rows are kept where they belong and there is room."""
        with self._lock:
            fits = self._bytes + rows.nbytes <= order.budget
            if at_home and fits and span.number in order.keep and span.number not in self._rows:
                self._rows[span.number] = rows
                self._bytes += rows.nbytes
            weight, given = self._columns.get(span.number, (None, None))
            cache = self._caches.setdefault(span.number, {}) if at_home else {}
        return Block(*span, rows, weight, given, cache)


@contextmanager
def shelf_of(session: str) -> Iterator[Shelf]:
    """The shelf of a session, in use."""
    with _lock:
        if not _shelves:
            threading.Thread(target=_tidy, name="dmmc-shelf", daemon=True).start()
        shelf = _shelves.setdefault(session, Shelf())
        shelf.users += 1
    try:
        yield shelf
    finally:
        with _lock:
            shelf.users -= 1
            shelf.used = time.monotonic()


def clear(session: str) -> None:
    """Forget a session."""
    with _lock:
        _shelves.pop(session, None)


def _tidy() -> None:
    """Forget sessions that are idle, until there is none."""
    while True:
        time.sleep(IDLE / 10)
        with _lock:
            now = time.monotonic()
            for session, shelf in list(_shelves.items()):
                if shelf.users == 0 and now - shelf.used > IDLE:
                    del _shelves[session]
            if not _shelves:
                return
