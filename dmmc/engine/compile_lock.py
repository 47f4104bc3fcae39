"""One process of a machine at a time compiles kernels; the others then load what it wrote.

Compiled code is kept in files that all processes share. Without a lock, processes that find it missing at the same time
would each compile it and overwrite one another's files.
"""

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PATIENCE = 120.0
"""Seconds to wait at most for another process that compiles."""

_compiled: set[tuple[str, str]] = set()
_lock = threading.Lock()


@contextmanager
def compile_alone(work: str, kind: str) -> Iterator[None]:
    """Hold the lock if this process runs `work` on rows of this kind for the first time."""
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
