"""parquet files keep names, ids and numbers."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from converted import ZARR_WARNINGS, numbers, through

from dmmc import InputError
from dmmc.convert import convert, parquet

pytestmark = ZARR_WARNINGS


def test_parquet_keeps_names_ids_and_numbers(tmp_path, small):
    frame = pd.DataFrame(
        {
            "a": np.arange(40, dtype=np.int16),
            "name": [f"r{i}" for i in range(40)],
            "b": np.arange(40) / 3,
            "c": [True] * 40,
        }
    )
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=15)
    dataset = through(tmp_path / "x.parquet")
    assert dataset.feature_names == ("a", "b", "c")
    assert dataset.row_ids.tolist() == frame["name"].tolist()
    assert np.array_equal(numbers(dataset), frame[["a", "b", "c"]].to_numpy(float))


@pytest.mark.parametrize("wide", [True, False])
def test_wide_row_groups_of_parquet_give_the_same_by_way_of_a_scratch_file(tmp_path, small, monkeypatch, wide):
    X = np.random.default_rng(8).integers(0, 2**62, (100, 9))
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(9)], index=[f"r{i}" for i in range(100)])
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=60)
    if wide:
        monkeypatch.setattr(parquet, "COLUMNS_AT_ONCE", 4)
        monkeypatch.setattr(parquet, "ROW_GROUP_BYTES", 100)
        monkeypatch.setattr(parquet, "PIECE_BYTES", 300)
    dataset = through(tmp_path / "x.parquet")
    assert dataset.dtype == np.int64
    assert np.array_equal(numbers(dataset), X)
    assert dataset.row_ids.tolist() == frame.index.tolist()


def test_missing_numbers_of_parquet_are_nan_and_an_index_is_no_feature(tmp_path, small):
    frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [0.5, 1.5, 2.5]}, index=[10, 20, 30])
    frame.to_parquet(tmp_path / "x.parquet")
    dataset = through(tmp_path / "x.parquet")
    assert dataset.feature_names == ("a", "b")
    assert dataset.row_ids.tolist() == ["10", "20", "30"]
    assert np.array_equal(numbers(dataset), [[1, 0.5], [np.nan, 1.5], [3, 2.5]], equal_nan=True)


def test_parquet_with_other_columns_is_refused_by_name(tmp_path):
    for frame, words in (
        (pd.DataFrame({"x": [1], "when": pd.to_datetime(["2020-01-01"])}), "'when'.*timestamp"),
        (pd.DataFrame({"x": [1], "p": ["a"], "q": ["b"]}), "2 columns of text, 'p', 'q'"),
        (pd.DataFrame({"p": ["a"]}), "no column of numbers"),
    ):
        frame.to_parquet(tmp_path / "x.parquet")
        with pytest.raises(InputError, match=words):
            convert(tmp_path / "x.parquet", tmp_path / "out.zarr")
    assert os.listdir(tmp_path) == ["x.parquet"]
