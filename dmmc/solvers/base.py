"""The one driver loop. Stopping, progress and (later) checkpoints live here and nowhere else."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

State = TypeVar("State")
Callback = Callable[[dict[str, Any]], Any]


class Solver(Protocol[State]):
    """What the loop needs to know of a solver."""

    def step(self, state: State) -> State:
        """Go on by one pass over the data."""
        ...

    def done(self, state: State) -> bool:
        """Whether there is nothing left to do."""
        ...

    def report(self, state: State) -> dict[str, Any]:
        """One line of the history: objective, gap, ..."""
        ...


def drive(
    solver: Solver[State],
    state: State,
    *,
    max_iter: int,
    max_seconds: float | None = None,
    callbacks: Sequence[Callback] = (),
) -> tuple[State, list[dict[str, Any]], str]:
    """Step until done, out of iterations or out of time.

    Returns
    -------
    state, history, and why it ended: "done", "max_iter" or "max_seconds"
    """
    history: list[dict[str, Any]] = []
    began = time.perf_counter()
    while not solver.done(state):
        seconds = time.perf_counter() - began
        if len(history) >= max_iter:
            return state, history, "max_iter"
        if max_seconds is not None and history and seconds >= max_seconds:
            return state, history, "max_seconds"
        state = solver.step(state)
        line = {"iteration": len(history) + 1, **solver.report(state), "seconds": time.perf_counter() - began}
        history.append(line)
        for callback in callbacks:
            callback(line)
    return state, history, "done"
