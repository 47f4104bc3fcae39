"""Fixtures of the fault tests: clusters made of real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forks import ForkServer

from dmmc.data import blocks

sys.path.insert(0, str(Path(__file__).resolve().parent))  # fault_tools and fault_work; workers get the same path

from fault_tools import Command
from grids import Grid, family, kill_all


@pytest.fixture
def grids(tmp_path: Path, forks: ForkServer) -> Iterator[Callable[..., Grid]]:
    """``grids(**settings) -> Grid``: a cluster that the test may ruin."""
    made: list[Grid] = []

    def make(workers: int = 0, settings: dict[str, str] | None = None, **options: Any) -> Grid:
        folder = tmp_path / f"grid{len(made)}"
        folder.mkdir()
        made.append(Grid(folder, forks, settings))
        if workers:
            made[-1].add(workers, **options)
        return made[-1]

    yield make
    for grid in made:
        grid.close()


@pytest.fixture
def begin(forks: ForkServer) -> Iterator[Callable[..., Command]]:
    """``begin("fit", ...) -> Command``: a `dmmc` process that the test may kill, and that does not outlive it."""
    begun: list[Command] = []

    def start(*arguments: object, **options: Any) -> Command:
        begun.append(Command(forks, *arguments, **options))
        return begun[-1]

    yield start
    for command in begun:
        if command.process.poll() is None:
            kill_all(family(command.process.pid))


@pytest.fixture(scope="session")
def steady(tmp_path_factory: pytest.TempPathFactory, forks: ForkServer) -> Iterator[Grid]:
    """Three workers that no test may harm."""
    grid = Grid(tmp_path_factory.mktemp("steady"), forks)
    grid.add(3)
    yield grid
    grid.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows: small data have many. They are cut by the driver, which is this process."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)
