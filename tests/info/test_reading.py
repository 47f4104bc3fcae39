"""What `info` says a fit in one process will do with a store: as the fit then does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from dmmc.data.memory_plan import ROW, Size, find_room, plan_memory
from dmmc.errors import InputError
from dmmc.info import format_info, info
from dmmc.machine import PROCESS


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A hundred million numbers, of which none is stored: nothing is read of them."""
    path = tmp_path / "huge.zarr"
    zarr.create_array(str(path), shape=(10_000_000, 64), chunks=(10_000_000, 64), dtype="f4")
    chunk = path / "c" / "0" / "0"
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"")
    return path


def test_a_store_that_does_not_fit_is_told_to_be_read_again_in_each_pass(store: Path) -> None:
    found = info(store, memory="1GB")
    reading = found["reading"]
    assert reading["in_memory"] is False
    assert reading["room_bytes"] == 10**9 - PROCESS
    assert reading["kept_bytes"] + reading["pass_bytes"] == found["memory_bytes"] == 2_560_000_000
    assert reading["kept_bytes"] < 10**9 - PROCESS - ROW * 10**7
    assert found["driver_bytes"] == ROW * 10**7
    lines = format_info(found)
    assert "again in each pass" in lines
    assert "at most 200 MB for all rows (20 bytes each)" in lines


def test_a_store_that_fits_is_told_to_be_held_in_memory(store: Path) -> None:
    found = info(store, memory="8GB")
    assert found["reading"]["in_memory"] is True
    assert found["reading"]["pass_bytes"] == 0
    assert "holds all rows in memory" in format_info(found)


def test_memory_that_is_too_little_is_told_as_a_fit_would_tell_it(store: Path) -> None:
    found = info(store, memory="450MB")
    assert "needs" in found["reading"]["refused"]
    assert found["reading"]["refused"] in format_info(found)


def test_rows_in_memory_already_are_not_read_from_anywhere() -> None:
    assert info(np.eye(3))["reading"] is None


def test_half_of_what_is_free_is_the_room_if_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmmc.data.memory_plan.free_memory", lambda: 10**9)
    assert find_room(None) == 5 * 10**8
    size: dict[str, Any] = {"name": "x", "n_rows": 10**6, "block": 10**7}
    assert plan_memory(Size(n_bytes=4 * 10**8, **size), 2, None).in_memory
    plan = plan_memory(Size(n_bytes=6 * 10**8, **size), 2, None)
    assert not plan.in_memory
    assert plan.kept == 5 * 10**8 - ROW * 10**6 - 2 * 4 * 10**7
    monkeypatch.setattr("dmmc.data.memory_plan.free_memory", lambda: None)
    assert plan_memory(Size(n_bytes=10**15, **size), 2, None).in_memory


def test_little_free_memory_streams_but_is_no_error_unless_it_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmmc.data.memory_plan.free_memory", lambda: 10**6)
    size = Size("x", 10**6, 10**9, 10**7)
    assert plan_memory(size, 2, None).kept == 0
    with pytest.raises(InputError, match=r"needs 519 MB even where rows are read in each pass"):
        plan_memory(size, 2, PROCESS + 10**6)
