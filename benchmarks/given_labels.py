"""The cutting-plane search from given labels, step by step: what tests and benchmarks compare with a generic solver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.master.norms import Norm
from dmmc.model.geometry import measure
from dmmc.model.losses import LOSSES
from dmmc.model.passes import Given
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem, State


def search(X: Any, y: Any, k: int, norm: Norm, **options: Any) -> Iterator[State]:
    """The states of the search after each step; options are those of `Problem`."""
    with Local(open_dataset(X).with_columns(given=y), 1) as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        settings: dict[str, Any] = {"C": 20.0, "balance": 0.03, "epsilon": 1e-6, "inside": False, **options}
        problem = Problem(
            n_clusters=k,
            lowest=0.0,
            highest=1.0,
            geometry=geometry,
            sample=lambda: geometry.apply(X),
            loss=LOSSES["hinge"],
            wide=k > 2,
            norm=norm,
            **settings,
        )
        solver = CuttingPlane(problem, engine.run)
        state = solver.init([Given()], X.shape[1])
        while not solver.done(state):
            state = solver.step(state)
            yield state
