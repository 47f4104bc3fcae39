"""A fit whose rows stay in their store: killed, resumed, and its store damaged on the way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_tools import Command, bits, blobs, written

import dmmc
from dmmc.machine import PROCESS

pytestmark = pytest.mark.slow
Store = Callable[..., Path]
Begin = Callable[..., Command]
MEMORY = PROCESS + 260_000
"""Less than the 288 kB of the rows, and what a fit needs besides."""


@pytest.fixture
def source(tmp_path: Path, store_of: Store) -> Path:
    return store_of(tmp_path / "X.zarr", blobs(), 100)


@pytest.fixture
def wanted(source: Path) -> dict[str, Any]:
    """What a fit in memory gives."""
    return bits(dmmc.fit(source, 3, method="cpmmc"))


@pytest.mark.parametrize("again", [("--memory", MEMORY, "--n-jobs", 2), ()], ids=["streamed", "in memory"])
def test_a_fit_that_streams_is_killed_and_resumed_to_the_bits_of_one_in_memory(
    begin: Begin, source: Path, wanted: dict[str, Any], tmp_path: Path, again: tuple[object, ...]
) -> None:
    out = tmp_path / "out"
    asked = ("fit", source, "-k", 3, "-o", out, "--quiet")
    command = begin(*asked, "--memory", MEMORY, "--n-jobs", 1, pause=0.3)
    command.await_passes(3)
    command.process.kill()
    command.process.wait(10)
    code, said = begin(*asked, "--resume", *again).ended()
    assert code == 0, said
    assert written(out) == wanted


def test_a_chunk_that_goes_missing_in_the_middle_is_named_and_the_checkpoint_stays(
    begin: Begin, source: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = begin("fit", source, "-k", 3, "-o", out, "--memory", MEMORY, "--n-jobs", 1, "--quiet", pause=0.5)
    command.await_passes(2)
    chunk = sorted(source.glob("c/*/0"), key=lambda path: int(path.parent.name))[-1]
    chunk.unlink()
    code, said = command.ended()
    assert code == 2
    assert re.search(r"X\.zarr: a chunk of rows 1\d00 to 1499 could not be read", said)
    assert "is missing" in said
    assert (out / "checkpoint").exists()
