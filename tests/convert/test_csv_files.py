"""A csv becomes a store of the same numbers, in little memory, or is refused with the place named."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from converted import ZARR_WARNINGS, numbers, quickly, read_line_by_line, through, written
from hypothesis import given
from hypothesis import strategies as st

from dmmc import InputError
from dmmc.convert import convert, csv_files, svmlight, text

pytestmark = ZARR_WARNINGS


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_with_names_and_ids_keeps_both(tmp_path, parser, small, separator):
    rows = [[f"row {i}", str(i), f"{i / 7}"] for i in range(30)]
    text = "\n".join(separator.join(row) for row in [["id", "whole", "fraction"], *rows]) + "\n"
    dataset = through(written(tmp_path, text))
    assert dataset.feature_names == ("whole", "fraction")
    assert dataset.row_ids.tolist() == [row[0] for row in rows]
    assert np.array_equal(numbers(dataset), [[i, i / 7] for i in range(30)])


def test_a_plain_csv_is_a_single_array(tmp_path, parser):
    X = np.random.default_rng(0).standard_normal((20, 3))
    np.savetxt(tmp_path / "plain.csv", X, delimiter=",", fmt="%.17g")
    dataset = through(tmp_path / "plain.csv")
    assert np.array_equal(numbers(dataset), X)
    assert dataset.feature_names is None
    assert isinstance(zarr.open(tmp_path / "plain.csv.zarr", mode="r"), zarr.Array)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("names", [["a", "b"], None])
@pytest.mark.parametrize("ids", [["x", "y", "z"], None])
def test_what_pandas_writes_comes_back(tmp_path, parser, index, names, ids):
    frame = pd.DataFrame([[1.5, 2], [3, np.nan], [5, 6]], columns=names, index=ids)
    frame.to_csv(tmp_path / "frame.csv", index=index, header=index or names is not None)
    dataset = through(tmp_path / "frame.csv")
    assert np.array_equal(numbers(dataset), frame.to_numpy(), equal_nan=True)
    if names:
        assert dataset.feature_names == ("a", "b")
    if index:
        assert dataset.row_ids.tolist() == [str(x) for x in frame.index]
    else:
        assert dataset.row_ids is None


def test_what_r_writes_comes_back(tmp_path, parser):
    table = '"a" "b"\n'.replace(" ", "\t") + '"r1"\t1\t2\n"r2"\tNA\t4\n'
    dataset = through(written(tmp_path, table, "r.tsv"))
    assert dataset.feature_names == ("a", "b")
    assert dataset.row_ids.tolist() == ["r1", "r2"]
    assert np.array_equal(numbers(dataset), [[1, 2], [np.nan, 4]], equal_nan=True)
    comma = through(written(tmp_path, '"","a,1","b"\n"x, y",1,2\n"""q""",3,4\n', "r.csv"))
    assert comma.feature_names == ("a,1", "b")
    assert comma.row_ids.tolist() == ["x, y", '"q"']


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("", np.nan), ("NA", np.nan), ("NaN", np.nan), ("nan", np.nan), ("null", np.nan), (" ", np.nan),
        ("inf", np.inf), ("-Infinity", -np.inf), ("+3", 3), (" 4.5 ", 4.5), ("1e-300", 1e-300), ("-0.1", -0.1),
        ('"7"', 7), ('""', np.nan), ("0.1000000000000000055511151231257827", 0.1),
        ("123456789012345678901", 123456789012345678901.0),
    ],
)  # fmt: skip
def test_a_cell_is_read_as_python_reads_it_and_a_missing_one_is_nan(tmp_path, parser, cell, value):
    dataset = through(written(tmp_path, f"a,b\n0.5,{cell}\n{cell},2.5\n"))
    assert np.array_equal(numbers(dataset), [[0.5, value], [value, 2.5]], equal_nan=True)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\r\n1,2\r\n3,4\r\n",
        "\ufeffa,b\n1,2\n3,4",
        "\n\na,b\n\n1,2\n\n\n3,4\n\n",
        '"a","b"\n"1","2"\n"3","4"\n',
        "a,b\n1, 2\n3, 4\n",
    ],
    ids=["crlf", "byte order mark and no last newline", "empty lines", "quotes everywhere", "spaces"],
)
def test_how_lines_end_and_cells_are_quoted_does_not_matter(tmp_path, parser, small, text):
    dataset = through(written(tmp_path, text))
    assert dataset.feature_names == ("a", "b")
    assert np.array_equal(numbers(dataset), [[1, 2], [3, 4]])


def test_a_csv_of_one_column_skips_empty_lines(tmp_path, parser):
    assert np.array_equal(numbers(through(written(tmp_path, "x\n1\n\n2\n\n"))), [[1], [2]])
    assert np.array_equal(numbers(through(written(tmp_path, "5\n6\n"))), [[5], [6]])


def test_a_gzipped_csv_is_read_whatever_its_name(tmp_path, parser):
    for name in ("rows.csv.gz", "rows.csv"):
        path = written(tmp_path, gzip.compress(b"a,b\n1,2\n"), name)
        assert np.array_equal(numbers(through(path)), [[1, 2]])


@pytest.mark.parametrize(
    ("first", "later", "dtype"),
    [
        ("255", "0", np.uint8),
        ("1.0", "2e2", np.uint8),
        ("255", "256", np.uint16),
        ("0", "65536", np.int32),
        ("0", "-1", np.int32),
        ("0", "-2147483649", np.int64),
        ("9007199254740993", "1", np.int64),
        ("-9223372036854775808", "9223372036854775807", np.int64),
        ("0", "0.5", np.float64),
        ("0", "", np.float64),
        ("7", "9223372036854775808", np.float64),
    ],
)
def test_text_numbers_are_kept_exactly_in_the_smallest_type_even_if_the_largest_comes_late(
    tmp_path, parser, small, first, later, dtype
):
    cells = [first] + ["1"] * 300 + [later] + ["2"] * 50
    dataset = through(written(tmp_path, "".join(f"{cell},3\n" for cell in cells)))
    assert dataset.dtype == dtype

    def exact(cell: str) -> float | int:
        return int(cell) if cell.lstrip("-").isdecimal() and dtype is not np.float64 else float(cell or "nan")

    got = numbers(dataset).tolist()
    np.testing.assert_equal(got, [[exact(cell), 3] for cell in cells])


cells = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 255),
    st.just(None),
)


@given(
    st.integers(1, 5).flatmap(lambda d: st.lists(st.lists(cells, min_size=d, max_size=d), min_size=1, max_size=12)),
    st.sampled_from(",;\t"),
    st.booleans(),
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1), min_size=12, max_size=12
    ),
)
@quickly
def test_any_csv_comes_back_by_pyarrow_and_line_by_line(tmp_path, small, rows, separator, with_ids, ids):
    import csv

    ids = [f"#{name}" for name in ids]
    path = tmp_path / "any.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, delimiter=separator)
        out.writerow(["id"] * with_ids + [f"f{j}" for j in range(len(rows[0]))])
        for name, row in zip(ids, rows, strict=False):
            out.writerow(
                [name] * with_ids + ["" if x is None and len(row) > 1 else "nan" if x is None else x for x in row]
            )
    wanted = np.array([[np.nan if x is None else float(x) for x in row] for row in rows])
    whole = all(isinstance(x, int) for row in rows for x in row)
    for slowly in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if slowly:
                read_line_by_line(patch)
            dataset = through(path)
        got = numbers(dataset)
        if whole:
            assert got.astype(object).tolist() == rows
        else:
            assert np.array_equal(got.astype(np.float64), wanted, equal_nan=True)
        assert dataset.feature_names == tuple(f"f{j}" for j in range(len(rows[0])))
        assert (dataset.row_ids is not None) is with_ids
        if with_ids:
            assert dataset.row_ids.tolist() == ids[: len(rows)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n3\n5,6\n", ["line 3", "1 cell", "2 are wanted"]),
        ("a,b\n1,2\n3,4,5\n", ["line 3", "3 cells", "2 are wanted"]),
        ("1,2\n3,4\n5,6,7", ["line 3", "3 cells"]),
        ("a,b\n1,2\n3,four\n", ["line 3", "column 2", "'b'", "'four'", "number"]),
        ("a,b\n1,2\nx,4\n", ["line 3", "column 1", "'a'", "'x'"]),
        ("id,a,b\nr,1,2\ns,3,1_000\n", ["line 3", "column 3", "'b'", "1_000"]),
        ("a;b\n1,5;2,5\n", ["line 2", "column 2", "2,5"]),
        ("1,2\n\n3,4\n5,oops\n", ["line 4", "column 2", "oops"]),
        ("x,7\n3,4\n", ["line 1", "column 1", "'x'"]),
        ("a,b\n", ["header", "no rows"]),
        ("\n \n", ["empty"]),
        ("one\ntwo\n", ["line 2", "column 1", "'two'"]),
        ('a,b\n"1,2\n', ["line 2"]),
        (b"a,b\nr\xff,1\n", ["line 2", "UTF-8"]),
        (b"a,b\n1,\x002\n", ["not text"]),
        ("a,b\n1,2\n".encode("utf-16"), ["UTF-16"]),
    ],
)  # fmt: skip
def test_a_bad_csv_is_refused_in_a_sentence_that_names_the_place(tmp_path, parser, text, words):
    path = written(tmp_path, text)
    with pytest.raises(InputError) as caught:
        convert(path, tmp_path / "out.zarr")
    sentence = str(caught.value)
    assert "rows.csv" in sentence
    assert "\n" not in sentence
    assert [word for word in words if word not in sentence] == []
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_a_line_number_counts_all_lines_of_all_blocks(tmp_path, parser, small):
    lines = ["a,b", *["1,2", ""] * 200, "3,x", "4,5"]
    with pytest.raises(InputError, match=r"line 402, column 2 \('b'\) holds 'x'"):
        convert(written(tmp_path, "\r\n".join(lines)), tmp_path / "out.zarr")


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "LONGEST_LINE", 2**20)
    path = written(tmp_path, b"1," * 2**22)
    with pytest.raises(InputError, match="line of more than 1 MiB"):
        convert(path, tmp_path / "out.zarr")


def test_three_times_the_csv_takes_the_same_memory(tmp_path):
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc, which this system does not have")
    line = ",".join(f"{x:.5f}" for x in np.random.default_rng(0).standard_normal(50))
    peaks = []
    for megabytes in (20, 60):
        path = tmp_path / f"{megabytes}.csv"
        with path.open("w") as file:
            for _ in range(megabytes):
                file.write((line + "\n") * (10**6 // (len(line) + 1)))
        code = f"""
            from dmmc.convert import convert
            convert({str(path)!r}, {str(path.with_suffix(".zarr"))!r})
            print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
        """
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] - peaks[0] < 50
    assert peaks[1] < 400


def test_the_quick_way_is_the_one_taken(tmp_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise AssertionError("simple lines were read one by one")

    monkeypatch.setattr(csv_files, "_parse_lines", refuse)
    monkeypatch.setattr(svmlight, "_parse_lines", refuse)
    text = "id,a,b\n" + "".join(f'"row {i}",{i / 8},-{i}e-3\n' for i in range(100))
    assert through(written(tmp_path, text)).n_rows == 100
    assert through(written(tmp_path, text.replace("0.5,", ","))).n_rows == 100
    assert through(written(tmp_path, "1 qid:3 2:0.5 # a comment\n\n-1 1:2 3:4\n", "rows.svm")).n_rows == 2
