"""The table of labels: csv and parquet hold the same, and a table can be read as labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dmmc
from dmmc.results import label_table
from dmmc.results.label_arrays import read_ids, read_labels


@pytest.mark.parametrize("ids", [None, np.array(['a,"b"', "c\nd", "é", "4"])], ids=["numbers", "ids"])
def test_csv_and_parquet_hold_the_same(ids: np.ndarray | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(label_table, "ROWS_AT_ONCE", 3)
    labels, names = np.array([1, 0, -1, 1], np.int32), ["high a, low b", "bike ride"]
    more = {"confidence": np.array([0.9, 0.8, 0.5, 1.0]), "runner_up": np.array([0, 1, 0, 0])}
    for name in ("labels.csv", "labels.parquet"):
        label_table.write_table(tmp_path / name, ids, labels, names, more)
    found = pd.read_csv(tmp_path / "labels.csv", keep_default_na=False, dtype={"id": str})
    assert found["id"].tolist() == (["0", "1", "2", "3"] if ids is None else ids.tolist())
    assert found["name"].tolist() == ["bike ride", "high a, low b", "", "bike ride"]
    assert found["confidence"].tolist() == more["confidence"].tolist()
    other = pd.read_parquet(tmp_path / "labels.parquet")
    assert list(other) == list(found) == list(label_table.COLUMNS)
    for column in ("label", "name", "confidence", "runner_up"):
        assert other[column].tolist() == found[column].tolist()
    assert read_labels(str(tmp_path / "labels.csv")).tolist() == ["1", "0", "-1", "1"]
    assert read_ids(str(tmp_path / "labels.csv")) == found["id"].tolist()


@pytest.mark.parametrize("end", ["csv", "parquet"])
def test_ids_that_cannot_be_encoded_are_written_out_in_predicted_labels(end: str, tmp_path: Path) -> None:
    rows = np.arange(40.0)[:, None] + 100.0 * (np.arange(40) % 2)[:, None]
    frame = pd.DataFrame(rows, index=[f"row {i}\udc80" for i in range(40)], columns=["x"])
    model = dmmc.fit(frame, 2, method="cpmmc").model
    assert model.predict_to(frame, {"labels": tmp_path / f"labels.{end}"}) == 40
    read = pd.read_csv if end == "csv" else pd.read_parquet
    assert read(tmp_path / f"labels.{end}")["id"][0] == "row 0\\udc80"


def test_a_table_of_many_rows_is_a_parquet_file() -> None:
    assert label_table.choose_name(label_table.CSV_ROWS) == "labels.csv"
    assert label_table.choose_name(label_table.CSV_ROWS + 1) == "labels.parquet"
