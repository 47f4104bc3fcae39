"""What a fit works with: made once by `fit`, passed down as an argument."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dmmc.array_types import Array
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, warn
from dmmc.estimators import phase_shapes
from dmmc.features.maps import Map
from dmmc.features.transforms import Transform
from dmmc.features.view_map import ByView
from dmmc.model.geometry import Geometry
from dmmc.pairs.io import Links
from dmmc.solvers.driver import Callback, Keeper, drive
from dmmc.time_limit import NO_LIMIT, TimeLimit


@dataclass(frozen=True)
class FitContext:
    """All that a search works with.

    Where the search is in features of the rows, `engine` and `geometry` are those of the features.
    """

    engine: Engine
    """Runs passes over the rows, which have their weights and given labels."""
    geometry: Geometry
    """Centre and scale of these rows."""
    seed: int
    limit: TimeLimit = NO_LIMIT
    """When the search is to end."""
    listener: Callback | None = None
    """Hears when a phase begins, and each line of the history."""
    keeper: Keeper | None = None
    """Saves the search, and what phases before it have made."""
    callbacks: tuple[Callback, ...] = ()
    """Given by the user: hear each line of the history."""
    links: Links | None = None
    """Pairs of rows that must or cannot be together."""
    standardised: bool = False
    """Whether columns of the raw rows were put on one scale."""
    transform: Transform | ByView | None = None
    """What is done to a row before anything else; `engine` runs over transformed rows."""
    row_map: Map | None = None
    """Makes the features of a (transformed) row; None for rows as they are."""
    n_given: int = 0
    """Starts that were made before the search: so many labellings are packed into the given labels."""
    merge_tree: Array | None = None
    """How a graph start merged its groups."""
    anchor_labels: Array | None = None
    """(G, starts): those of the anchors, where starts were made along a graph of anchors."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """What was chosen while features were made, for `choices_`."""
    warned: set[str] = field(default_factory=set)
    """What the user was warned of already; the splits of a tree share it."""

    def warn_once(self, of: str, message: str) -> None:
        """Warn the user, unless a split before this one has warned of the same thing."""
        if of not in self.warned:
            self.warned.add(of)
            warn(message, ClusteringWarning)

    def tell_phase(self, name: str) -> None:
        """Say that a phase begins."""
        if self.listener is not None:
            self.listener({"phase": name})

    def tell_part(self, phase: str, fraction: float) -> None:
        """Say that a phase that has begun is done to this part, 0 to 1."""
        if self.listener is not None:
            self.listener({"phase": phase, "fraction": fraction})

    def remember(
        self, phase: str, make: Callable[[], dict[str, Array]], shapes: str | None = None, **sizes: int
    ) -> dict[str, Array]:
        """Arrays that a phase before the search makes, or has made in an earlier run of the same fit.

        phase : its name
        make : makes them
        shapes : what they are in `phase_shapes.PHASES`, if not by the name of the phase
        sizes : of the sides that are named there, as far as they are known
        """
        self.tell_phase(phase)
        if self.keeper is None:
            return make()
        sizes = {"n": self.engine.dataset.n_rows, "d": self.engine.dataset.n_features, **sizes}
        find_misfit = partial(phase_shapes.find_misfit, shapes or phase, self.geometry, {**sizes})
        return self.keeper.remember(self.geometry.fingerprint, phase, make, find_misfit)

    def drive(self, solver: Any, begin: Callable[[], Any], max_iter: int) -> tuple[Any, list[dict[str, Any]], str]:
        """Drive a solver from where an earlier run of the same fit stopped, or from the state that `begin` makes.

        Returns the last state, the history, and why it ended: "done", "max_iter" or "max_seconds".
        """
        found = None
        if self.keeper is not None:
            found = self.keeper.find_state(self.geometry.fingerprint, solver.types, solver.find_misfit)
        if found is None:
            self.tell_phase("start")
            found = begin(), []
        hurried = self.limit.is_over and not found[1]
        self.tell_phase("search")
        state, history, why = drive(
            solver,
            found[0],
            max_iter=max_iter,
            limit=self.limit,
            callbacks=(*(() if self.listener is None else (self.listener,)), *self.callbacks),
            history=found[1],
            keeper=self.keeper,
        )
        return state, history, "max_seconds" if hurried else why

    def drive_start(self, solver: Any, begin: Callable[[], Any], max_iter: int, key: str) -> Any:
        """Drive a search whose result another one starts from; it shares the time limit and the checkpoint.

        solver, begin, max_iter : as of `drive`
        key : tells this search from others of the same fit
        """
        keeper = None if self.keeper is None else self.keeper.keep_start(key)
        found = (
            None if keeper is None else keeper.find_state(self.geometry.fingerprint, solver.types, solver.find_misfit)
        )
        state, history = (begin(), []) if found is None else found
        return drive(solver, state, max_iter=max_iter, limit=self.limit, history=history, keeper=keeper)[0]
