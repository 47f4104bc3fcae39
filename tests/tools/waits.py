"""Waits of tests: limits are written for an idle machine, and grow with how slow this one is."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any

import pytest

IDLE = 0.6
"""Seconds in which an idle machine starts Python and imports distributed."""


def slowness() -> float:
    """How many times longer than on an idle machine a process takes to start right now; at least 1."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import distributed"], check=True)
    return max(1.0, (time.monotonic() - began) / IDLE)


def scale(seconds: float) -> int:
    """Whole seconds that mean the same to this machine, right now, as `seconds` to an idle one."""
    return math.ceil(seconds * slowness())


def until(
    condition: Callable[[], Any], what: str | Callable[[], str], seconds: float = 30.0, pause: float = 0.02
) -> Any:
    """Wait for a condition and give its first true value; a failure says what was waited for, and how long.

    The limit is made longer by how slow the machine is, which is measured when the limit has passed.
    """
    began, limit = time.monotonic(), seconds
    while not (found := condition()):
        waited = time.monotonic() - began
        if waited > limit:
            limit = scale(seconds)
            if waited > limit:
                pytest.fail(f"not within {waited:.0f} s: {what() if callable(what) else what}")
        time.sleep(pause)
    return found


def end_of(process: subprocess.Popen[Any], seconds: float = 60.0) -> tuple[Any, Any]:
    """Wait for the end of a process and give what it said on stdout and stderr, where these are pipes."""
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=seconds)
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=scale(seconds))
    process.kill()
    return pytest.fail(f"not within {seconds:.0f} s: the end of {process.args}\n{process.communicate()}")


def hear_signals() -> None:
    """Let a new process hear what this one may have been told to ignore (`preexec_fn`): nohup and `&` do that."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start_session(command: list[str], log: IO[Any], **options: Any) -> subprocess.Popen[Any]:
    """Begin a command in a session of its own, with what it says in a file."""
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, preexec_fn=hear_signals, **options)
