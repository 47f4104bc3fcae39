"""Progress of a run: a live line on a terminal, a JSON line every few seconds elsewhere; always on stderr."""

import json
import math
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Self, TextIO

EVERY = 0.1
"""Seconds between two drawings of the line."""
EVERY_LINE = 5.0
"""Seconds between two lines where there is no terminal."""
HOLD = 1.0
"""Seconds for which the first of them is held back: a command that is refused at once says its one sentence alone."""
DIGITS = 4
"""Of a number in such a line."""


class Progress:
    """Call it with events: a phase begins or is done in part, or a pass ended.

    quiet : say nothing
    stream : where to; stderr if left out
    """

    def __init__(self, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        found = sys.stderr if stream is None else stream
        self._stream = None if quiet else found  # stderr is None where it was closed before the start
        self._live = self._stream is not None and self._stream.isatty()
        self._drawn = -math.inf
        self._phase = ""
        self._waiting: dict[str, Any] | None = None
        self._first: dict[str, Any] | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if error is None:
            self._write_first()
        with self._lock:
            self._first = self._waiting = None
            if self._timer is not None:
                self._timer.cancel()
        if self._live:
            self._write("\r\x1b[K")

    def __call__(self, event: dict[str, Any]) -> None:
        """Show an event, unless one was shown a moment ago: then the last one that came is shown when its time comes.

        event : `phase`; `compiling` when numba begins or ends to compile; for a pass also `iteration`, `objective`,
            `gap` where there is one, `rows_per_second` and `at_most`; for a part of a phase `fraction`, `seconds`
            since it began and perhaps `rows`
        """
        if self._stream is None:
            return
        if not self._live:
            self._write_line(event)
            return
        now = time.perf_counter()
        if event["phase"] == self._phase and now - self._drawn < EVERY and "compiling" not in event:
            return
        self._phase, self._drawn = event["phase"], now
        width = shutil.get_terminal_size().columns - 1
        self._write("\r\x1b[K" + _line(event)[:width])

    def _write_line(self, event: dict[str, Any]) -> None:
        if self._drawn == -math.inf:
            self._first, self._drawn = event, time.perf_counter()
            self._start_timer(HOLD, self._write_first)
            return
        self._write_first()
        with self._lock:
            wait = self._drawn + EVERY_LINE - time.perf_counter()
            if wait <= 0:
                self._waiting, self._drawn = None, time.perf_counter()
                self._write(_json_line(event))
                return
            if self._waiting is None:
                self._start_timer(wait, self._write_waiting)
            self._waiting = event

    def _start_timer(self, seconds: float, work: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, work)
        self._timer.daemon = True
        self._timer.start()

    def _write_first(self) -> None:
        """Show what was held back, once."""
        with self._lock:
            if self._first is not None:
                self._write(_json_line(self._first))
                self._first = None

    def _write_waiting(self) -> None:
        """Show what has waited: a phase may take long and say nothing more."""
        with self._lock:
            if self._waiting is not None:
                self._drawn = time.perf_counter()
                self._write(_json_line(self._waiting))
                self._waiting = None

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def _json_line(event: dict[str, Any]) -> str:
    from dmmc.plain_json import plain  # not above: numpy comes with it, and `dmmc --help` is quick without

    told = {name: _round(value) for name, value in plain(event).items()}
    if "fraction" in event:
        told["left"] = _round(plain(_find_left(event)))
    return json.dumps(told) + "\n"


def _round(value: Any) -> Any:
    """A number with few digits."""
    if not isinstance(value, float) or value == 0:
        return value
    rounded = round(value, DIGITS - 1 - math.floor(math.log10(abs(value))))
    return int(rounded) if abs(rounded) >= 10 ** (DIGITS - 1) else rounded


def _find_left(event: dict[str, Any]) -> float:
    """Seconds that the rest of a phase takes, if it goes on as it began."""
    return event["seconds"] * (1 / event["fraction"] - 1) if event["fraction"] > 0 else math.inf


def _line(event: dict[str, Any]) -> str:
    """One line that fits into 80 columns."""
    parts = [": ".join(str(event[key]) for key in ("candidate", "phase") if key in event)]
    if event.get("compiling"):
        parts.append("compiling, once after an installation")
    if "iteration" in event:
        parts += [
            f"pass {event['iteration']}",
            f"objective {event.get('best', event['objective']):.5g}",
            *([f"gap {event['gap']:.2g}"] if "gap" in event else []),
            f"{_short(event['rows_per_second'])} rows/s",
            f"< {_time(event['at_most'])} left",
        ]
    if "fraction" in event:
        parts += [f"{event['rows']:,} rows"] if "rows" in event else []
        parts += [f"{event['fraction']:.0%}", f"about {_time(_find_left(event))} left"]
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
