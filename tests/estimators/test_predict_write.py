"""Predictions that go to files block by block: the same numbers as in memory, whatever the kind of file."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest
import zarr
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import dmmc
from dmmc.data import blocks
from dmmc.engine import Streamed
from dmmc.machine import PROCESS

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.errors.ClusteringWarning")
DIGITS = load_digits().data.astype(np.float32)
MEMORY = PROCESS + 350_000
"""So little that the rows of `store` are read block by block."""


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)
    monkeypatch.setattr("dmmc.estimators.predict_write.ONE_BLOCK", 16 * 1024)
    for module in ("dmmc.results.label_arrays", "dmmc.estimators.predict_write"):
        monkeypatch.setattr(f"{module}.CHUNK_ROWS", 256)


@pytest.fixture(scope="module")
def model() -> Any:
    return dmmc.fit(DIGITS, 10, method="cpmmc", max_iter=5).model


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "digits.zarr"
    config: Any = {"write_empty_chunks": True}
    array = zarr.create_array(str(path), shape=DIGITS.shape, chunks=(101, 32), dtype="f4", config=config)
    array[...] = DIGITS
    return path


def read(path: Path) -> NDArray[Any]:
    return np.asarray(zarr.open_array(str(path))[:])


def test_arrays_hold_labels_confidence_runner_up_and_scores(model: Any, store: Path, tmp_path: Path) -> None:
    names = ("labels", "confidence", "runner_up", "scores")
    paths = {name: tmp_path / f"{name}.zarr" for name in names}
    with pytest.MonkeyPatch.context() as watch:
        engines, write = [], Streamed.write
        watch.setattr(Streamed, "write", lambda self, *rest: (engines.append(self), write(self, *rest))[1])
        assert model.predict_to(store, paths, memory=MEMORY) == 1797
    assert engines, "nothing was streamed"
    labels, confidence, runner_up, scores = (read(paths[name]) for name in names)
    f = model.decision_function(DIGITS)
    order, rows = np.argsort(-f, axis=1, kind="stable"), np.arange(len(f))
    assert (scores == f).all()
    assert (labels == order[:, 0]).all()
    assert (runner_up == order[:, 1]).all()
    lead = f[rows, order[:, 0]] - f[rows, order[:, 1]]
    np.testing.assert_allclose(confidence, 1 / (1 + np.exp(-3.0 * lead / model.margin_scale_)), rtol=1e-5)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("streams", [True, False])
def test_a_table_has_ids_labels_confidence_and_runner_up_and_nothing_else_is_left(
    model: Any, store: Path, tmp_path: Path, ending: str, streams: bool
) -> None:
    out = tmp_path / f"labels.{ending}"
    assert model.predict(store if streams else DIGITS, out=out, memory=MEMORY if streams else None) == out
    if ending == "csv":
        with open(out, newline="") as file:
            lines = list(csv.DictReader(file))
        columns = {name: [line[name] for line in lines] for name in lines[0]}
    else:
        columns = pyarrow.parquet.read_table(out).to_pydict()
    assert list(columns) == ["id", "label", "confidence", "runner_up"]
    assert [int(row) for row in columns["id"]] == list(range(1797))
    assert [int(label) for label in columns["label"]] == model.labels_.tolist()
    assert all(0.5 <= float(sure) <= 1.0 for sure in columns["confidence"])
    assert sorted(os.listdir(tmp_path)) == sorted(["digits.zarr", out.name])


def test_what_a_table_has_is_written_as_an_array_too_where_it_is_asked_for(
    model: Any, store: Path, tmp_path: Path
) -> None:
    names = ("confidence", "runner_up")
    for ending in ("zarr", "csv"):
        others = {name: tmp_path / ending / f"{name}.zarr" for name in names}
        model.predict_to(store, {"labels": tmp_path / f"labels.{ending}", **others}, memory=MEMORY)
    for name in names:
        assert (read(tmp_path / "zarr" / f"{name}.zarr") == read(tmp_path / "csv" / f"{name}.zarr")).all()


def test_rows_that_are_not_sure_get_no_label_in_files_either(model: Any, store: Path, tmp_path: Path) -> None:
    out = model.predict(store, out=tmp_path / "labels.zarr", unassigned=0.9, memory=MEMORY)
    expected = model.predict(DIGITS, unassigned=0.9)
    assert (expected == -1).any()
    assert (read(out) == expected).all()


def test_a_number_that_is_not_finite_is_named_and_nothing_is_written(model: Any, store: Path, tmp_path: Path) -> None:
    zarr.open_array(str(store), mode="r+")[1500, 7] = np.nan
    for name in ("labels.zarr", "labels.csv"):
        with pytest.raises(dmmc.InputError, match=r"digits\.zarr contains NaN at row 1500, column 7"):
            model.predict(store, out=tmp_path / name, memory=MEMORY)
    assert os.listdir(tmp_path) == ["digits.zarr"]


def test_a_lazy_array_is_labelled_chunk_by_chunk(model: Any, tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    out = model.predict(da.from_array(DIGITS, chunks=(300, 64)), out=tmp_path / "labels.zarr")
    assert (read(out) == model.labels_).all()
