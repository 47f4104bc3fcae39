"""What predict writes to an object store: the same as on disk, by threads and by workers, and nothing else is left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from object_server import BUCKET, Faults, FaultyProxy, ObjectServer

import dmmc
from dmmc.data import blocks
from dmmc.engine import Streamed
from dmmc.errors import InputError, StoreFailed
from dmmc.machine import PROCESS
from dmmc.stores.urls import find_place, find_remote

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.errors.ClusteringWarning")
MEMORY = PROCESS + 150_000
"""So little that 600 digits are read block by block, on one thread."""
ARRAYS = ("labels", "confidence", "runner_up", "scores")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)
    monkeypatch.setattr("dmmc.estimators.predict_write.ONE_BLOCK", 16 * 1024)
    for module in ("dmmc.results.label_arrays", "dmmc.estimators.predict_write"):
        monkeypatch.setattr(f"{module}.CHUNK_ROWS", 128)


@pytest.fixture
def model(load_digits: Any) -> Any:
    return dmmc.fit(load_digits, 3, method="cpmmc", max_iter=3).model


def test_rows_that_do_not_fit_into_memory_are_read_from_the_store_in_each_pass(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy
) -> None:
    url, path = put_digits("streamed.zarr")
    proxy.faults = Faults(busy=0.05, reset=0.02)
    asked: dict[str, Any] = {"method": "cpmmc", "max_iter": 3, "n_jobs": 1}
    there = dmmc.fit(url, 3, **asked, memory=MEMORY, storage_options=options)
    here = dmmc.fit(path, 3, **asked)
    assert there.model.coef_.tobytes() == here.model.coef_.tobytes()
    assert np.array_equal(there.labels, here.labels)
    assert proxy.asked > 20, "six chunks were read again and again"


@pytest.mark.parametrize("workers", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_all_that_predict_writes_may_go_there_and_is_what_goes_to_disk(
    workers: bool,
    model: Any,
    put_digits: Any,
    options: dict[str, Any],
    server: ObjectServer,
    tmp_path: Path,
    clients: Any,
) -> None:
    url, path = put_digits(f"rows{workers}.zarr")
    how: dict[str, Any] = {"scheduler": clients(2)} if workers else {"memory": MEMORY}
    model.set_params(n_jobs=1)
    root = f"s3://{BUCKET}/written{workers}"
    places = {name: find_place(f"{root}/{name}.zarr", options) for name in ARRAYS}
    source = find_remote(url, options)
    engines: list[Any] = []
    with pytest.MonkeyPatch.context() as watch:
        write = Streamed.write
        watch.setattr(Streamed, "write", lambda self, *rest: (engines.append(self), write(self, *rest))[1])
        assert model.predict_to(source, places, **how) == 600
        table = find_place(f"{root}/labels.csv", options)
        others = {name: find_place(f"{root}/more/{name}.zarr", options) for name in ARRAYS[1:]}
        assert model.predict_to(source, {"labels": table, **others}, **how) == 600
    assert len(engines) == (0 if workers else 2)
    model.predict_to(path, {name: tmp_path / f"{name}.zarr" for name in ARRAYS})
    model.predict_to(path, {"labels": tmp_path / "labels.csv"})
    for name in ARRAYS:
        wanted = zarr.open_array(str(tmp_path / f"{name}.zarr"))[:]
        for place in (places[name], others.get(name, places[name])):
            assert np.array_equal(zarr.open_array(str(place), mode="r", storage_options=server.options())[:], wanted), (
                place
            )
    assert server.get(f"written{workers}/labels.csv") == (tmp_path / "labels.csv").read_bytes()
    names = {key.split("/")[1] for key in server.list(f"written{workers}")}
    assert names == {"labels.csv", "more", *(f"{name}.zarr" for name in ARRAYS)}, "nothing else is left"


def test_a_table_in_the_memory_of_this_process_is_the_same(model: Any, load_digits: Any, tmp_path: Path) -> None:
    import fsspec

    model.predict(load_digits, out=tmp_path / "labels.csv")
    assert model.predict(load_digits, out="memory://made/labels.csv") == "memory://made/labels.csv"
    found = fsspec.filesystem("memory")
    assert found.cat("/made/labels.csv") == (tmp_path / "labels.csv").read_bytes()
    assert found.ls("/made", detail=False) == ["/made/labels.csv"]


def test_a_table_that_cannot_be_made_is_not_there_and_leaves_nothing(
    model: Any, put_digits: Any, options: dict[str, Any], server: ObjectServer
) -> None:
    url, _ = put_digits("lost.zarr")
    server.delete("lost.zarr/c/5/0")
    for name in ("lost/labels.csv", "lost/labels.zarr"):
        with pytest.raises(StoreFailed, match="c/5/0"):
            model.predict(url, out=f"s3://{BUCKET}/{name}", memory=MEMORY, storage_options=options)
    assert server.list("lost/") == []


@pytest.mark.slow
def test_workers_are_not_asked_to_write_into_the_memory_of_this_process(
    model: Any, put_digits: Any, options: dict[str, Any], clients: Any
) -> None:
    url, _ = put_digits("shared.zarr")
    for name in ("labels.csv", "labels.zarr"):
        with pytest.raises(InputError, match="which workers do not see"):
            model.predict(url, out=f"memory://{name}", storage_options=options, scheduler=clients(2))
