"""Hears of each phase and each pass of a fit: takes the time, writes the history, tells the user."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any, Self

from numba.core import event as numba_events

from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.results.folder import Out
from dmmc.time_limit import NO_LIMIT, TimeLimit

Progress = Callable[[dict[str, Any]], Any]


class _CompileListener(numba_events.Listener):
    """Tells when numba begins and ends to compile; kernels that are compiled on the way to another are part of it."""

    def __init__(self, tell: Callable[[bool], Any]) -> None:
        self._tell = tell
        self._depth = 0

    def on_start(self, event: object) -> None:
        """One more kernel is being compiled; numba's lock is held, so there is one thread here at a time."""
        self._depth += 1
        if self._depth == 1:
            self._tell(True)

    def on_end(self, event: object) -> None:
        """One fewer."""
        self._depth -= 1
        if self._depth == 0:
            self._tell(False)


class FitListener(AbstractContextManager["FitListener"]):
    """Hears of each phase and each pass of a fit: takes the time, writes the history, tells the user."""

    def __init__(
        self, folder: Out | None, progress: Progress | None, model: SourceClusterer, limit: TimeLimit = NO_LIMIT
    ) -> None:
        self.n_rows = 0
        self._folder = folder
        self._progress = progress
        self._model = model
        self._limit = limit
        self._began = time.perf_counter()
        self._starts: list[tuple[str, float]] = []
        self._last = self._began
        self._compile_listener = _CompileListener(self._tell_compiling)

    def __enter__(self) -> Self:
        if self._progress is not None:
            numba_events.register("numba:compile", self._compile_listener)  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *exc: object) -> None:
        if self._progress is not None:
            numba_events.unregister("numba:compile", self._compile_listener)  # type: ignore[no-untyped-call]

    def _tell_compiling(self, begins: bool) -> None:
        if self._progress is not None:
            phase = self._starts[-1][0] if self._starts else "read"
            self._progress({"phase": phase, "compiling": begins})

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each phase that has ended, and of all of them."""
        seconds = {name: end - start for (name, start), (_, end) in pairwise(self._starts)}
        return {**seconds, "total": self._starts[-1][1] - self._began}

    def __call__(self, event: dict[str, Any]) -> None:
        """Take note of a phase that begins or is done in part, or of a line of the history."""
        now = time.perf_counter()
        each, self._last = now - self._last, now
        if "fraction" in event:
            event = {**event, "seconds": event.get("seconds", now - self._starts[-1][1])}
        elif "iteration" not in event:
            self._starts.append((" ".join(str(event[key]) for key in ("candidate", "phase") if key in event), now))
        else:
            if self._folder is not None:
                self._folder.log(event)
            left = (self._model.max_passes - event["iteration"]) * each
            if self._limit.left is not None:
                left = min(left, self._limit.left)
            event = {"phase": "search", **event, "rows_per_second": self.n_rows / max(each, 1e-9), "at_most": left}
        if self._progress is not None:
            self._progress(event)
