"""Rows that stay in their store on threads of one process: the same bits as in memory, and what is read again."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import outcomes
import pytest
import zarr
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import dmmc
from dmmc.data import blocks
from dmmc.data.blocks import Block
from dmmc.data.dataset import Stored
from dmmc.data.open import open_rows
from dmmc.engine import Local, Streamed
from dmmc.engine.placement import choose_kept
from dmmc.errors import InputError, OutOfTime
from dmmc.machine import PROCESS
from dmmc.time_limit import TimeLimit

Array = NDArray[Any]

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.errors.ClusteringWarning")
DIGITS = load_digits().data.astype(np.float32)
MEMORY = PROCESS + 350_000
"""Room for the 36 kB that 1,797 rows take and four blocks a thread, and for no more than half of 460 kB."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows: 32 of them."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)


def write_digits(kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.zarr"
    if kind == "csr":
        rows = csr_array(DIGITS)
        group = zarr.create_group(str(path))
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(rows.shape)})
        for name in ("data", "indices", "indptr"):
            part = getattr(rows, name)
            array = group.create_array(name, shape=part.shape, chunks=(5000,), dtype=part.dtype)
            array[...] = part
        return path
    more: dict[str, Any] = {"v2": {"zarr_format": 2}, "v3": {}, "sharded": {"shards": (404, 64)}}[kind]
    config = {"write_empty_chunks": True}
    array = zarr.create_array(str(path), shape=DIGITS.shape, chunks=(101, 32), dtype="f4", config=config, **more)
    array[...] = DIGITS
    return path


def open_stored(path: Path) -> Stored:
    rows = open_rows(path, None, None, None)
    assert isinstance(rows, Stored)
    return rows


def sum_rows(block: Block, scale: float) -> Any:
    rows = block.rows if isinstance(block.rows, np.ndarray) else block.rows.to_scipy().toarray()
    return (rows * np.float32(scale)).sum(axis=0)


def start_of(block: Block, params: None) -> int:
    return block.start


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["v2", "v3", "sharded", "csr"])
def test_a_fit_that_streams_has_the_bits_of_one_in_memory(kind: str, threads: int, tmp_path: Path) -> None:
    path = write_digits(kind, tmp_path)
    engines: list[Any] = []
    with pytest.MonkeyPatch.context() as watch:
        use = Streamed.use
        watch.setattr(Streamed, "use", lambda self, rows: (engines.append(self), use(self, rows))[1])
        small = dmmc.fit(path, 10, method="cpmmc", n_jobs=threads, memory=MEMORY, max_iter=10)
    large = dmmc.fit(path, 10, method="cpmmc", n_jobs=threads, max_iter=10)
    assert engines, "nothing was streamed"
    # some blocks are kept, the others are read in each pass
    assert engines[0].bytes_read > 3 * DIGITS.nbytes
    assert 0 < len(engines[0]._keep) < len(engines[0]._spans)
    assert outcomes.bits(small) == outcomes.bits(large)
    assert (small.confidence == large.confidence).all()


@pytest.mark.parametrize("budget", [0, 100_000, 10**9])
def test_sums_rows_and_few_rows_are_those_of_the_engine_in_memory(budget: int, tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    some = np.array([1796, 3, 3, 900, 0])
    with Local(rows.load(), 2) as local, Streamed(rows, budget, 2) as streamed:
        for _ in range(2):
            assert (local.run(sum_rows, 1.5) == streamed.run(sum_rows, 1.5)).all()
            assert list(local.rows(start_of, None)) == list(streamed.rows(start_of, None))
            assert (streamed.dataset.take(some) == DIGITS[some]).all()


def test_what_fits_is_read_once_and_the_rest_in_each_pass(tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    with Streamed(rows, rows.nbytes // 2, 2) as engine:
        read = []
        for _ in range(4):
            before = engine.bytes_read
            engine.run(sum_rows, 1.0)
            read.append(engine.bytes_read - before)
        assert read[0] == pytest.approx(rows.nbytes, abs=len(rows.bounds))
        assert rows.nbytes // 2 <= read[1] == read[2] == read[3] < 0.7 * rows.nbytes
        assert engine._cache.nbytes <= rows.nbytes // 2


def test_blocks_that_are_kept_are_spread_over_all_groups() -> None:
    sizes = np.full(64, 10.0)
    groups = [range(i, i + 16) for i in range(0, 64, 16)]
    kept = choose_kept(sizes, groups, 330)
    assert [len(kept & set(group)) for group in groups] == [8, 8, 8, 9]
    assert all(group.start in kept for group in groups)
    assert choose_kept(sizes, groups, 1e9) == frozenset(range(64))
    assert choose_kept(sizes, groups, 0) == frozenset()


def test_a_block_is_read_while_the_one_before_it_is_worked_on(tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    reading, working = threading.Event(), threading.Event()
    reader = rows.reader

    class Slow:
        def read(self, start: int, stop: int) -> Any:
            if start > 0:
                reading.set()
                assert working.wait(30), "nothing was worked on meanwhile"
            return reader.read(start, stop)

    def work(block: Block, params: None) -> int:
        if block.index == 0:
            working.set()
            assert reading.wait(30), "the next block was not asked for meanwhile"
        return 1

    from dataclasses import replace

    slow: Any = Slow()
    with Streamed(replace(rows, reader=slow), 0, 1) as engine:
        assert engine.run(work, None) == len(rows.bounds) - 1


def test_weights_and_labels_come_with_the_blocks(tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    weight, given = np.linspace(0.0, 1.0, 1797), np.arange(1797) % 7

    def columns(block: Block, params: None) -> Any:
        return block.weight, block.given

    with Streamed(rows, 100_000, 2) as engine:
        engine.use(engine.dataset.with_columns(weight, given))
        found = list(engine.rows(columns, None))
        engine.use(engine.dataset.with_columns(given=given[::-1]))
        turned = list(engine.rows(columns, None))
    assert (np.concatenate([w for w, _ in found]) == weight).all()
    assert (np.concatenate([g for _, g in found]) == given).all()
    assert (np.concatenate([g for _, g in turned]) == given[::-1]).all()


def test_engines_over_the_same_store_share_what_may_be_kept(tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    with Streamed(rows, 10**6, 2) as outer:
        outer.run(sum_rows, 1.0)
        kept = outer._cache.nbytes
        assert kept == rows.nbytes
        with outer.over(outer.dataset) as inner:
            assert isinstance(inner, Streamed)
            inner.run(sum_rows, 1.0)
            outer.run(sum_rows, 1.0)
            assert inner._cache.nbytes + outer._cache.nbytes <= 10**6
        outer.run(sum_rows, 1.0)
        assert outer._cache.nbytes == kept


def test_a_chunk_that_goes_missing_in_the_middle_is_the_sentence_of_a_worker(tmp_path: Path) -> None:
    path = write_digits("v3", tmp_path)
    with Streamed(open_stored(path), 0, 2) as engine:
        engine.run(sum_rows, 1.0)
        (path / "c" / "9" / "0").unlink()
        with pytest.raises(InputError, match=r"a chunk of rows .* could not be read, .*c/9/0 is missing.*restore it"):
            engine.run(sum_rows, 1.0)


def test_rows_that_change_during_the_fit_are_noticed(tmp_path: Path) -> None:
    path = write_digits("v3", tmp_path)
    with Streamed(open_stored(path), 0, 2) as engine:
        engine.run(sum_rows, 1.0)
        zarr.open_array(str(path), mode="r+")[500] = 1.0
        with pytest.raises(InputError, match=r"changed during the run: rows .* are not what they were"):
            engine.run(sum_rows, 1.0)


def test_an_error_of_a_pass_comes_as_it_was_raised(tmp_path: Path) -> None:
    def fail(block: Block, params: None) -> int:
        raise OSError("no space left")

    with (
        Streamed(open_stored(write_digits("v3", tmp_path)), 0, 2) as engine,
        pytest.raises(OSError, match=r"^no space left$"),
    ):
        engine.run(fail, None)


def test_time_that_is_up_before_all_rows_are_read_is_an_error_and_later_it_is_not(tmp_path: Path) -> None:
    rows = open_stored(write_digits("v3", tmp_path))
    with Streamed(rows, 0, 2, TimeLimit(0.0)) as engine, pytest.raises(OutOfTime, match="was being read"):
        engine.run(sum_rows, 1.0)
    with Streamed(rows, 0, 2, TimeLimit(1e6)) as engine:
        engine.run(sum_rows, 1.0)
        engine._limit.seconds = 0.0
        engine.run(sum_rows, 1.0)


def test_memory_that_is_too_little_even_for_streaming_is_told_with_what_is_needed(tmp_path: Path) -> None:
    path = write_digits("v3", tmp_path)
    with pytest.raises(InputError, match=r"^memory is '100MB', and a process of dmmc takes 419 MB before"):
        dmmc.fit(path, 10, memory="100MB")
    with pytest.raises(InputError, match=r"needs 42\d MB even where rows are read .*fewer threads \(n_jobs\)\.$"):
        dmmc.fit(path, 10, memory=PROCESS + 1000)
    with pytest.raises(InputError, match="a size such as 500MB"):
        dmmc.fit(path, 10, memory="much")
    with pytest.raises(InputError, match="memory was given with a cluster"):
        dmmc.fit(path, 10, memory="1GB", workers=2)
