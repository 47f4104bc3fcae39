"""Hears of each phase and each pass of a fit: takes the time, writes the history, tells the user."""

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from dmmc.estimators.fitting import MarginClusterer
from dmmc.results.folder import Out
from dmmc.time_limit import NO_LIMIT, TimeLimit

Progress = Callable[[dict[str, Any]], Any]


class FitListener:
    """Hears of each phase and each pass of a fit: takes the time, writes the history, tells the user."""

    def __init__(
        self, folder: Out | None, progress: Progress | None, model: MarginClusterer, limit: TimeLimit = NO_LIMIT
    ) -> None:
        self.n_rows = 0
        self._folder = folder
        self._progress = progress
        self._model = model
        self._limit = limit
        self._began = time.perf_counter()
        self._starts: list[tuple[str, float]] = []
        self._last = self._began

    @property
    def timings(self) -> dict[str, float]:
        """Seconds of each phase that has ended, and of all of them."""
        seconds = {name: end - start for (name, start), (_, end) in pairwise(self._starts)}
        return {**seconds, "total": self._starts[-1][1] - self._began}

    def __call__(self, event: dict[str, Any]) -> None:
        """Take note of a phase that begins, or of a line of the history."""
        now = time.perf_counter()
        each, self._last = now - self._last, now
        if "iteration" not in event:
            self._starts.append((event["phase"], now))
        else:
            if self._folder is not None:
                self._folder.log(event)
            left = (self._model.max_passes - event["iteration"]) * each
            if self._limit.left is not None:
                left = min(left, self._limit.left)
            event = {"phase": "search", **event, "rows_per_second": self.n_rows / max(each, 1e-9), "at_most": left}
        if self._progress is not None:
            self._progress(event)
