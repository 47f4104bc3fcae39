"""Stores that lose, damage or change their chunks under the workers, and rows that do not fit into their memory."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fault_work
import numpy as np
import pytest
import zarr
from fault_tools import bits, blobs
from grids import Grid

import dmmc
from dmmc.data.open import open_dataset
from dmmc.data.zarr_rows import open_stored
from dmmc.engine import Local
from dmmc.engine.dask_client import Cluster, Limits
from dmmc.engine.distributed import Distributed
from dmmc.engine.placement import AT_WORK, FULL
from dmmc.errors import InputError
from dmmc.machine import PROCESS

Grids = Callable[..., Grid]

ROWS = 100
"""Of a chunk."""


def store(folder: Path, X: Any, **options: Any) -> Path:
    """Rows with a checksum of each chunk."""
    path = folder / "X.zarr"
    options = {"compressors": zarr.codecs.Crc32cCodec(), "config": {"write_empty_chunks": True}, **options}
    array = zarr.create_array(str(path), shape=X.shape, chunks=(ROWS, X.shape[1]), dtype=X.dtype, **options)
    array[...] = X
    return path


def chunk(path: Path, number: int) -> Path:
    return path / "c" / str(number) / "0"


def streaming(grid: Grid, path: Path) -> Distributed:
    """An engine whose workers read the rows again in each pass."""
    stored = open_stored(path)
    assert stored is not None
    return Distributed(stored, Cluster(grid.client, Limits.from_config()))


def by_threads(X: Any) -> bytes:
    with Local(open_dataset(X)) as engine:
        return np.asarray(engine.run(fault_work.total, None)).tobytes()


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers may keep nothing."""
    monkeypatch.setattr("dmmc.engine.distributed.find_budget", lambda worker, block: 0)


# ------------------------------------------------------------------------------------------------------- damage


def delete(path: Path) -> None:
    path.unlink()


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-200])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[1000] ^= 4
    path.write_bytes(content)


def lock_out(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [delete, truncate, flip])
def test_a_chunk_damaged_before_the_fit_is_an_error_that_names_its_rows(
    steady: Grid, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = store(tmp_path, blobs())
    damage(chunk(path, 7))
    with pytest.raises(InputError) as error:
        dmmc.fit(path, 3, scheduler=steady.client, method="cpmmc")
    assert "rows 700 to 799" in str(error.value)
    assert "X.zarr" in str(error.value)


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("damage", [delete, truncate, flip, lock_out])
def test_a_chunk_damaged_between_two_passes_is_an_error_that_names_its_rows(
    steady: Grid, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    path = store(tmp_path, blobs())
    with streaming(steady, path) as engine:
        engine.run(fault_work.total, None)
        damage(chunk(path, 7))
        with pytest.raises(InputError, match=r"X\.zarr: a chunk of rows \d+ to \d+ could not be read") as error:
            engine.run(fault_work.total, None)
    first, last = (int(word) for word in str(error.value).split("rows ")[1].split(" could")[0].split(" to "))
    assert first <= 700 <= 799 <= last <= first + 400
    if damage is delete:
        assert "c/7/0 is missing" in str(error.value)


def test_a_chunk_that_goes_away_before_it_is_first_read_is_not_taken_for_zeros(steady: Grid, tmp_path: Path) -> None:
    path = store(tmp_path, blobs())
    with streaming(steady, path) as engine:
        chunk(path, 3).unlink()
        with pytest.raises(InputError, match="c/3/0 is missing"):
            engine.run(fault_work.total, None)


def test_chunks_of_zeros_are_no_missing_chunks(steady: Grid, tmp_path: Path) -> None:
    X = blobs()
    X[200:500] = 0.0
    with streaming(steady, store(tmp_path, X)) as engine:
        assert engine.run(fault_work.total, None).tobytes() == by_threads(X)


@pytest.mark.usefixtures("no_room")
def test_rows_that_change_during_the_run_are_an_error_that_says_so(steady: Grid, tmp_path: Path) -> None:
    path = store(tmp_path, blobs())

    def change(event: dict[str, Any]) -> None:
        if event.get("iteration") == 2:
            zarr.open_array(str(path), mode="r+")[750] = 1.0

    with pytest.raises(InputError) as error:
        dmmc.fit(path, 3, scheduler=steady.client, progress=change, method="cpmmc")
    assert "X.zarr changed during the run: rows " in str(error.value)
    first, last = (int(word) for word in str(error.value).split("rows ")[1].split(" are")[0].split(" to "))
    assert first <= 750 <= last


@pytest.mark.usefixtures("no_room")
@pytest.mark.parametrize("how", ["away", "broken"])
def test_a_store_that_fails_for_a_moment_is_read_again(steady: Grid, tmp_path: Path, how: str) -> None:
    X = blobs()
    path = store(tmp_path, X)
    with streaming(steady, path) as engine:
        engine.run(fault_work.total, None)
        place = chunk(path, 7)
        os.rename(place, tmp_path / "elsewhere")
        if how == "broken":
            place.write_bytes(b"503 Slow Down")
        back = threading.Timer(0.5, os.replace, (tmp_path / "elsewhere", place))
        back.start()
        got = engine.run(fault_work.total, None)
        assert place.exists(), "it was away when the pass began"
        assert got.tobytes() == by_threads(X)
        back.join()


# ------------------------------------------------------------------------------------------------------- memory


def limit(X: Any, rows_kept: float, threads: int = 1) -> int:
    """A memory limit with which a worker can keep so much of the rows."""
    dataset = open_dataset(X)
    block = max(part.rows.nbytes for part in dataset.blocks)
    return int((PROCESS + AT_WORK * threads * block + rows_kept * X.nbytes) / FULL) + 1


def test_a_worker_with_too_little_memory_is_refused_before_the_run_with_the_numbers(
    grids: Grids, tmp_path: Path
) -> None:
    grid = grids(1, memory="300MB")
    with pytest.raises(InputError) as error:
        dmmc.fit(store(tmp_path, blobs()), 3, scheduler=grid.client, method="cpmmc")
    assert f"worker {grid.names()['w1']} has a memory limit of 300 MB" in str(error.value)
    assert "a fit of X.zarr needs 559 MB on a worker of 1 thread(s) with blocks of 0.0 MB" in str(error.value)


def test_rows_that_workers_cannot_keep_are_streamed_with_the_same_bits(grids: Grids, tmp_path: Path) -> None:
    X = blobs()
    path = store(tmp_path, X)
    grid = grids(2, memory=str(limit(X, 0.2)))
    with streaming(grid, path) as engine:
        n_blocks = len(engine.dataset.bounds) - 1
        passes = [engine.run(fault_work.total, None).tobytes() for _ in range(3)]
    assert set(passes) == {by_threads(X)}
    assert n_blocks < engine.blocks_read < 3 * n_blocks, "some are kept, others read in each pass"
    assert bits(dmmc.fit(path, 3, scheduler=grid.client, method="cpmmc")) == bits(dmmc.fit(X, 3, method="cpmmc"))


def test_an_array_that_workers_cannot_keep_is_refused_with_advice(grids: Grids) -> None:
    X = blobs()
    grid = grids(2, memory=str(limit(X, 0.3)))
    with pytest.raises(InputError) as error:
        dmmc.fit(X, 3, scheduler=grid.client, method="cpmmc")
    assert "takes 0 MB, but the 2 worker(s) can keep 0 MB of rows: write it to a zarr store" in str(error.value)
    grid.add(2, memory=str(limit(X, 0.3)))
    assert bits(dmmc.fit(X, 3, scheduler=grid.client, method="cpmmc")) == bits(dmmc.fit(X, 3, method="cpmmc"))
