"""A keeper for each candidate of `auto`: they share one checkpoint, and phases that several of them need."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dmmc.solvers.driver import Keeper, Line, SearchKeeper

Phases = dict[tuple[str, str], dict[str, Any]]


@dataclass
class CandidateKeeper:
    """Keeps the search of one candidate as a start, by its name, in the keeper of the whole fit.

    whole : that keeper; None where nothing outlives the process
    name : of the candidate
    fingerprint : of the data, by which the whole fit is known; candidates may transform rows
    phases : what candidates have made, by the fingerprint of their rows and the phase; shared by all of them
    """

    whole: Keeper | None
    name: str
    fingerprint: str
    phases: Phases = field(default_factory=dict)

    def _search(self) -> SearchKeeper | None:
        return None if self.whole is None else self.whole.keep_start(self.name)

    def find_state(
        self, fingerprint: str, types: Sequence[type[Any]], find_misfit: Callable[[Any], str]
    ) -> tuple[Any, list[Line]] | None:
        """State and history of an earlier search of this candidate, if it was the one that was interrupted."""
        search = self._search()
        return None if search is None else search.find_state(self.fingerprint, types, find_misfit)

    def keep(self, state: Any, history: Sequence[Line]) -> None:
        """Take note of a state."""
        search = self._search()
        if search is not None:
            search.keep(state, history)

    def save(self) -> None:
        """Save the last state."""
        if self.whole is not None:
            self.whole.save()

    def remember(
        self, fingerprint: str, phase: str, make: Callable[[], dict[str, Any]], find_misfit: Callable[[Any], str]
    ) -> dict[str, Any]:
        """Arrays of a phase, made by this candidate or by another one of the same rows, in this run or an earlier."""
        key = fingerprint, phase
        if key not in self.phases:
            if self.whole is None:
                self.phases[key] = make()
            else:
                name = f"of_{fingerprint[:8]}_{phase}"
                self.phases[key] = self.whole.remember(self.fingerprint, name, make, find_misfit)
        return self.phases[key]

    def keep_start(self, key: str) -> "CandidateKeeper":
        """Keeps a search that this candidate's own starts from."""
        return CandidateKeeper(self.whole, f"{self.name}: {key}", self.fingerprint, self.phases)
