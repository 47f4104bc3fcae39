"""Any order of steps, checkpoints, crashes, lost workers, resumes and other sizes of the cluster: one answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fault_tools import bits, blobs
from grids import Grid
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from waits import until

import dmmc
from dmmc.results import checkpoints

Grids = Callable[..., Grid]

MOST = 3
"""Workers at a time."""


class Stop(BaseException):
    """Ends a fit from within."""


@pytest.mark.slow
def test_any_history_of_a_fit_ends_with_the_bits_of_an_undisturbed_one(
    grids: Grids, tmp_path: Path, store_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    X = blobs()
    source = store_of(tmp_path / "X.zarr", X, 100)
    wanted = bits(dmmc.fit(X, 3, method="cpmmc"))
    n_passes = len(wanted["history"])
    grid = grids(1)
    save = checkpoints.Checkpoints.save
    seen: list[str] = []

    class Fit(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.out = Path(tempfile.mkdtemp(dir=tmp_path)) / "out"
            self.run: Any = None

        def fit(self, event: Callable[[int], None], on_cluster: bool) -> None:
            """Go on with the fit, until it ends or the event stops it."""
            before = self.passes()

            def hear(line: dict[str, Any]) -> None:
                if "iteration" in line:
                    event(line["iteration"] - before)

            where = {"scheduler": grid.client} if on_cluster else {}
            with suppress(Stop):
                self.run = dmmc.fit(source, 3, out=self.out, resume=True, progress=hear, method="cpmmc", **where)

        def passes(self) -> int:
            history = self.out / "history.jsonl"
            return len(history.read_text().splitlines()) if history.exists() else 0

        @rule(number=st.integers(1, 5), crash=st.booleans(), often=st.booleans(), on_cluster=st.booleans())
        def step(self, number: int, crash: bool, often: bool, on_cluster: bool) -> None:
            """Some passes, with checkpoints or without; then an interrupt, or a crash that writes nothing more."""
            if self.run is not None:
                return

            def stop(passes: int) -> None:
                if passes >= number:
                    if crash:
                        monkeypatch.setattr(checkpoints.Checkpoints, "save", lambda self: None)
                    raise Stop

            monkeypatch.setattr(checkpoints, "EVERY", 0.0 if often else 1000.0)
            monkeypatch.setattr(checkpoints, "SHARE", np.inf)
            try:
                self.fit(stop, on_cluster)
            finally:
                monkeypatch.setattr(checkpoints.Checkpoints, "save", save)
            seen.append("crash" if crash else "interrupt")

        @rule(at=st.integers(1, 4))
        def lose_a_worker(self, at: int) -> None:
            """A worker is killed at some pass; the fit stops a little later."""
            if self.run is not None:
                return
            if len(grid.workers) < 2:
                grid.add(1)

            def kill(passes: int) -> None:
                if passes == at:
                    grid.kill(next(iter(grid.workers)))
                    seen.append("kill")
                if passes == at + 2:
                    raise Stop

            self.fit(kill, True)

        @rule(size=st.integers(1, MOST))
        def rescale(self, size: int) -> None:
            """The cluster gets another size between two runs."""
            while len(grid.workers) > size:
                grid.kill(next(iter(grid.workers)))
            if len(grid.workers) < size:
                grid.add(size - len(grid.workers))
            until(lambda: len(grid.names()) == size, f"{size} workers")
            seen.append("rescale")

        def teardown(self) -> None:
            if self.run is None:
                self.fit(lambda passes: None, True)
            assert bits(self.run) == wanted
            assert self.passes() == n_passes

    run_state_machine_as_test(
        Fit,
        settings=settings(
            max_examples=6,
            stateful_step_count=6,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert set(seen) == {"crash", "interrupt", "kill", "rescale"}, "each of them happened"
