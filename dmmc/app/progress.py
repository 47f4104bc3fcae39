"""Progress of a run: a live line on a terminal, JSON lines elsewhere; always on stderr."""

import json
import math
import shutil
import sys
import time
from typing import Any, Self, TextIO

EVERY = 0.1
"""Seconds between two drawings of the line."""


class Progress:
    """Call it with events: a phase begins, or a pass ended.

    quiet : say nothing
    stream : where to; stderr if left out
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        found = sys.stderr if stream is None else stream
        self._stream = None if quiet else found  # stderr is None where it was closed before the start
        self._live = self._stream is not None and self._stream.isatty()
        self._drawn = 0.0
        self._phase = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._live:
            self._write("\r\x1b[K")

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event.

        event : `phase`; for a pass also `iteration`, `objective`, `gap` where there is one, `rows_per_second` and
            `at_most`; for a part of a conversion also `rows`, `fraction` and `seconds`
        """
        if not self._live:
            self._write(_json_line(event))
            return
        now = time.perf_counter()
        if event["phase"] == self._phase and now - self._drawn < EVERY:
            return
        self._phase, self._drawn = event["phase"], now
        width = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + _line(event)[:width])

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def _json_line(event: dict[str, Any]) -> str:
    from dmmc.plain_json import plain  # not above: numpy comes with it, and `dmmc --help` is quick without

    return json.dumps(plain(event)) + "\n"


def _line(event: dict[str, Any]) -> str:
    """One line that fits into 80 columns."""
    parts = [event["phase"]]
    if "iteration" in event:
        parts += [
            f"pass {event['iteration']}",
            f"objective {event.get('best', event['objective']):.5g}",
            *([f"gap {event['gap']:.2g}"] if "gap" in event else []),
            f"{_short(event['rows_per_second'])} rows/s",
            f"< {_time(event['at_most'])} left",
        ]
    if "fraction" in event:
        left = event["seconds"] * (1 / event["fraction"] - 1) if event["fraction"] > 0 else math.inf
        parts += [f"{event['rows']:,} rows", f"{event['fraction']:.0%}", f"about {_time(left)} left"]
    return "  ".join(parts)


def _short(count: float) -> str:
    """A large number in four characters: 850, 12k, 1.2M."""
    for unit in ("", "k", "M"):
        if count < 999.5:
            return f"{count:.3g}{unit}" if count < 99.5 else f"{count:.0f}{unit}"
        count /= 1000
    return f"{count:.3g}G"


def _time(seconds: float) -> str:
    """59 s, 12 min, 3 h, 4 d."""
    if not math.isfinite(seconds):
        return "?"
    for size, unit in ((1, "s"), (60, "min"), (3600, "h")):
        if seconds < 99.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"
