"""How long a fit may take: one clock, from the call to the last pass of its search."""

import time
from collections.abc import Callable
from typing import Any

from dmmc.errors import OutOfTime


class TimeLimit:
    """Seconds that a fit may take, counted from here on.

    seconds : None for no limit
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._began = time.perf_counter()

    @property
    def left(self) -> float | None:
        """Seconds until it ends, 0 after that; None where there is no limit."""
        return None if self.seconds is None else max(0.0, self.seconds - (time.perf_counter() - self._began))

    @property
    def is_over(self) -> bool:
        """Whether the time is up: who has something to show ends with that."""
        return self.left == 0.0

    def check(self, doing: str) -> None:
        """End a fit that has nothing to show when the time is up; `doing` says what it was about."""
        if self.is_over:
            raise OutOfTime(
                f"max_seconds={self.seconds:g} ended while {doing}, and nothing was found yet; allow it more time."
            )

    def guard(self, run: Callable[..., Any], doing: str) -> Callable[..., Any]:
        """An oracle that checks the time before each of its passes."""

        def run_in_time(work: Callable[..., Any], params: Any) -> Any:
            self.check(doing)
            return run(work, params)

        return run_in_time


NO_LIMIT = TimeLimit()
