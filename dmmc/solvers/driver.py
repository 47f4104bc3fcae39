"""The one driver loop. Stopping, progress and checkpoints live here and nowhere else."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from dmmc.time_limit import NO_LIMIT, TimeLimit

State = TypeVar("State")
Line = dict[str, Any]
Callback = Callable[[Line], Any]


class Solver(Protocol[State]):
    """What the loop needs to know of a solver."""

    def step(self, state: State) -> State:
        """Go on by one pass over the data."""
        ...

    def done(self, state: State) -> bool:
        """Whether there is nothing left to do."""
        ...

    def report(self, state: State) -> Line:
        """One line of the history: `objective` at this step's point, `best` so far, and what else there is to say."""
        ...


class Restarts:
    """A solver whose state holds `runs` side by side, each with a reason why it `ended`, or ""."""

    def done(self, state: Any) -> bool:
        """All runs have ended."""
        return all(run.ended for run in state.runs)

    def count_active(self, state: Any) -> int:
        """How many have not."""
        return sum(not run.ended for run in state.runs)


class SearchKeeper(Protocol):
    """Keeps one search where it outlives the process. A state is a named tuple of arrays, numbers, text and tuples."""

    def find_state(
        self, fingerprint: str, types: Sequence[type[Any]], find_misfit: Callable[[Any], str]
    ) -> tuple[Any, list[Line]] | None:
        """State and history of an earlier search, if there is one to go on with.

        fingerprint : of the data; another one than the earlier search had is refused
        types : the named tuples that a state is made of, its own first
        find_misfit : says where a state does not fit the problem; "" where it does
        """
        ...

    def keep(self, state: Any, history: Sequence[Line]) -> None:
        """Take note of a state; save it, unless one was saved a moment ago."""
        ...

    def save(self) -> None:
        """Save the last state that was seen, now."""
        ...


class Keeper(SearchKeeper, Protocol):
    """Keeps the search of a fit, and what comes before it."""

    def remember(
        self, fingerprint: str, phase: str, make: Callable[[], dict[str, Any]], find_misfit: Callable[[Any], str]
    ) -> dict[str, Any]:
        """Arrays that a phase before the search makes, or has made in an earlier run.

        fingerprint : of the data; another one than the earlier run had is refused
        phase : its name
        make : makes them
        find_misfit : says where those of an earlier run are not what the phase makes; "" where they are
        """
        ...

    def keep_start(self, key: str) -> SearchKeeper:
        """Keeps a search whose result the search of the fit, or its next step, starts from.

        key : tells it from others of the same fit
        """
        ...


def drive(
    solver: Solver[State],
    state: State,
    *,
    max_iter: int,
    limit: TimeLimit = NO_LIMIT,
    callbacks: Sequence[Callback] = (),
    history: Sequence[Line] = (),
    keeper: SearchKeeper | None = None,
) -> tuple[State, list[Line], str]:
    """Step until done, out of iterations or out of time.

    solver, state : who steps, and from where
    max_iter : most iterations, those of the history included
    limit : ends it, after one iteration at least
    callbacks : hear each new line of the history
    history : how the state came about, where the search goes on
    keeper : sees the first state and that of each iteration. Whatever ends the search, the last one is saved. What was
        made in a hurry, when the time was up, is not: a fit that is resumed makes it again, with more time
    Returns state, history, and why it ended: "done", "max_iter" or "max_seconds"
    """
    lines = list(history)
    before = lines[-1]["seconds"] if lines else 0.0
    began = time.perf_counter()
    try:
        if keeper is not None and not limit.is_over:
            keeper.keep(state, lines)
        while not solver.done(state):
            if len(lines) >= max_iter:
                return state, lines, "max_iter"
            if lines and limit.is_over:
                return state, lines, "max_seconds"
            state = solver.step(state)
            seconds = before + time.perf_counter() - began
            lines.append({"iteration": len(lines) + 1, **solver.report(state), "seconds": seconds})
            if keeper is not None and not limit.is_over:
                keeper.keep(state, lines)
            for callback in callbacks:
                callback(lines[-1])
    except BaseException:
        if keeper is not None:
            with suppress(OSError):  # what ended the search says more; the checkpoint before this one stands
                keeper.save()
        raise
    return state, lines, "done"
