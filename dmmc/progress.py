"""Progress of a run: a live line on a terminal, JSON lines elsewhere; always on stderr."""

from __future__ import annotations

import json
import shutil
import sys
import time
from typing import Any, Self, TextIO

EVERY = 0.1
"""Seconds between two drawings of the line."""


class Progress:
    """Call it with events: a phase begins, or a pass ended.

    Parameters
    ----------
    quiet : say nothing
    stream : where to; stderr if left out
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._quiet = quiet
        self._live = self._stream.isatty()
        self._drawn = 0.0
        self._phase = ""
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live and not self._quiet:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event: `phase`, and for passes `iteration`, `objective`, `gap`, `rows_per_second`, `at_most`."""
        if self._quiet:
            return
        if not self._live:
            finite = {key: value for key, value in event.items() if value == value and value not in (float("inf"),)}
            self._stream.write(json.dumps(finite, default=str) + "\n")
            self._stream.flush()
            return
        now = time.perf_counter()
        if event.get("phase") == self._phase and now - self._drawn < EVERY:
            return
        self._phase, self._drawn = str(event.get("phase", "")), now
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + self._line(event, now)[:width])
        self._stream.flush()

    def _line(self, event: dict[str, Any], now: float) -> str:
        parts = [f"{now - self._began:6.1f} s  {event.get('phase', ''):10s}"]
        if "iteration" in event:
            parts.append(f"pass {event['iteration']}")
            parts.append(f"objective {event['objective']:.5g}")
            parts.append(f"gap {event['gap']:.2g}")
            parts.append(f"{event['rows_per_second']:.2g} rows/s")
            if event.get("at_most") is not None:
                parts.append(f"at most {event['at_most']:.0f} s left")
        return "  ".join(parts)
