"""Files of every kind become stores that hold the same numbers, in little memory, or nothing is left behind."""

from __future__ import annotations

import errno
import gzip
import json
import os
import random
import struct
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import dmmc
from dmmc import InputError
from dmmc.convert import arrays, convert, csv_files, parquet, reading, store, svmlight, text
from dmmc.data.open import open_dataset

pytestmark = pytest.mark.filterwarnings("ignore:Writing zarr v2", "ignore:zarr v3 autosharding", "ignore:Consolidated")

quickly = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def read_line_by_line(patch: pytest.MonkeyPatch) -> None:
    """Have text parsed as it is where a library refuses it."""
    patch.setattr(csv_files, "_parse_with_pyarrow", lambda *_: None)
    patch.setattr(svmlight, "parse_block", svmlight._parse_lines)


@pytest.fixture(params=["by a library", "line by line"])
def parser(request, monkeypatch):
    """Text parsed by pyarrow or scikit-learn, and as it is where these refuse it."""
    if request.param == "line by line":
        read_line_by_line(monkeypatch)


@pytest.fixture
def small(monkeypatch):
    """Blocks, pieces and chunks of a few bytes, to have many of each."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 50)
    monkeypatch.setattr(csv_files, "COLUMN_BYTES", 1)
    monkeypatch.setattr(reading, "PIECE_BYTES", 200)
    monkeypatch.setattr(arrays, "PIECE_BYTES", 200)
    monkeypatch.setattr(store, "CHUNK_BYTES", 300)
    monkeypatch.setattr(store, "STRINGS_A_CHUNK", 4)


def through(path: Path, **options: Any) -> Any:
    """The file as `dmmc.fit` sees it after a conversion."""
    target = path.with_name(path.name + ".zarr")
    done = convert(path, target, overwrite=True, **options)
    dataset = open_dataset(target)
    assert (done["rows"], done["columns"]) == (dataset.n_rows, dataset.n_features)
    assert done["dtype"] == str(dataset.dtype)
    assert done["sparse"] is dataset.is_sparse
    assert done["feature_names"] is (dataset.feature_names is not None)
    assert done["row_ids"] is (dataset.row_ids is not None)
    return dataset


def numbers(dataset: Any) -> np.ndarray:
    """All rows, dense."""
    rows = dataset.take(np.arange(dataset.n_rows))
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def written(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


# --------------------------------------------------------------------------------------------------------- csv


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


# ----------------------------------------------------------------------------------------------------- svmlight


def test_svmlight_is_what_scikit_learn_loads_and_labels_are_kept(tmp_path, parser, small):
    X = sp.random_array((60, 30), density=0.2, rng=np.random.default_rng(1), format="csr")
    y = np.arange(60) % 3 - 1
    for zero_based in (True, False):
        path = tmp_path / f"rows{zero_based}.svm"
        dump_svmlight_file(X, y, str(path), zero_based=zero_based, comment="made by a test")
        wanted, labels = load_svmlight_file(str(path))
        dataset = through(path)
        assert dataset.is_sparse
        assert np.array_equal(numbers(dataset), wanted.toarray())
        assert dataset.row_ids is None, "row numbers that AnnData wants are no ids"
        read = anndata.read_zarr(path.with_name(path.name + ".zarr"))
        assert np.array_equal(read.obs["label"], labels)
        assert np.array_equal(read.X.toarray(), wanted.toarray())


@pytest.mark.parametrize("name", ["rows.txt", "rows.libsvm", "rows.svmlight.gz"])
def test_comments_query_ids_order_and_empty_rows_of_svmlight_are_no_trouble(tmp_path, parser, name):
    text = b"# head\n1 qid:4 3:0.5 1:2 # tail 7:1\n\n-1\n+2.5\t2:1e3  \r\n"
    dataset = through(written(tmp_path, gzip.compress(text) if name.endswith("gz") else text, name))
    assert np.array_equal(numbers(dataset), [[2, 0, 0.5], [0, 0, 0], [0, 1000, 0]])


entries = st.dictionaries(
    st.integers(1, 40), st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.integers(-300, 300)), max_size=6
)


@given(st.lists(st.tuples(st.integers(-3, 3), entries), min_size=1, max_size=15))
@quickly
def test_any_svmlight_comes_back_by_scikit_learn_and_line_by_line(tmp_path, small, rows):
    if not any(row for _, row in rows):
        return
    lines = [" ".join([str(label), *(f"{j}:{x!r}" for j, x in sorted(row.items()))]) for label, row in rows]
    path = written(tmp_path, "\n".join(lines) + "\n", "any.svm")
    wanted, _ = load_svmlight_file(str(path), zero_based=False)
    for slowly in (False, True):
        with pytest.MonkeyPatch.context() as patch:
            if slowly:
                read_line_by_line(patch)
            assert np.array_equal(numbers(through(path)).astype(np.float64), wanted.toarray())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("1 2:3 4", ["line 2", "'4'", "column:value"]),
        ("1 2:3:4 5", ["line 2", "column:value"]),
        ("1 2: 3:4", ["line 2", "'2:'"]),
        ("1 -2:3", ["line 2", "'-2:3'"]),
        ("1 1.5:3", ["line 2"]),
        ("1 2:x", ["line 2", "'2:x'"]),
        ("cat 2:3", ["line 2", "'cat'", "label"]),
        ("1 2:3 2:4", ["line 2", "twice"]),
    ],
)
def test_a_bad_line_of_svmlight_is_named(tmp_path, parser, line, words):
    path = written(tmp_path, f"1 1:1\n{line}\n1 1:2 3:4\n", "rows.svm")
    with pytest.raises(InputError) as caught:
        convert(path, tmp_path / "out.zarr")
    assert [word for word in ["rows.svm", *words] if word not in str(caught.value)] == []
    assert os.listdir(tmp_path) == ["rows.svm"]


def test_svmlight_without_any_column_is_refused(tmp_path):
    with pytest.raises(InputError, match="no columns"):
        convert(written(tmp_path, "1\n2\n", "rows.svm"), tmp_path / "out.zarr")


# ------------------------------------------------------------------------------------------------ Matrix Market


@pytest.mark.parametrize("order", ["by rows", "by columns", "shuffled"])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_a_matrix_market_file_is_what_scipy_reads_in_any_order(tmp_path, small, order, field):
    matrix = sp.random_array((40, 25), density=0.2, rng=np.random.default_rng(2)).tocsr()
    if field != "real":
        matrix.data = np.round(matrix.data * 600 - 300).astype(np.int64)
    matrix = matrix.tocsc().tocoo() if order == "by columns" else matrix.tocoo()
    if order == "shuffled":
        mixed = np.random.default_rng(3).permutation(matrix.nnz)
        matrix = sp.coo_array((matrix.data[mixed], (matrix.row[mixed], matrix.col[mixed])), matrix.shape)
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, matrix, field=field, comment="a comment\nof two lines")
    wanted = scipy.io.mmread(path).toarray()
    dataset = through(path)
    assert dataset.is_sparse
    assert np.array_equal(numbers(dataset), wanted)
    (tmp_path / "m.mtx.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(numbers(through(tmp_path / "m.mtx.gz")), wanted)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_symmetric_matrices_are_filled_up(tmp_path, small, sparse, sign):
    lower = np.tril(np.arange(1.5, 37.5).reshape(6, 6), -1)
    matrix = lower + sign * lower.T + (np.diag(np.arange(6)) if sign == 1 else 0)
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(
        path, sp.coo_array(matrix) if sparse else matrix, symmetry="symmetric" if sign == 1 else "skew-symmetric"
    )
    assert "symmetric" in path.read_text().splitlines()[0]
    dataset = through(path)
    assert dataset.is_sparse is sparse
    assert np.array_equal(numbers(dataset), matrix)


matrices = st.tuples(st.integers(1, 8), st.integers(1, 6)).flatmap(
    lambda shape: st.lists(
        st.tuples(
            st.integers(0, shape[0] - 1),
            st.integers(0, shape[1] - 1),
            st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-6 else 0.0),
        ),
        max_size=30,
    ).map(lambda entries: (shape, entries))
)


@given(matrices, st.booleans())
@quickly
def test_any_matrix_market_file_comes_back(tmp_path, small, given_matrix, dense):
    (n, d), found = given_matrix
    rows, columns, values = (list(part) for part in zip(*found, strict=True)) if found else ([], [], [])
    matrix = sp.coo_array((values, (rows, columns)), shape=(n, d))
    path = tmp_path / "any.mtx"
    path.unlink(missing_ok=True)
    scipy.io.mmwrite(path, matrix.toarray() if dense else matrix, precision=17)
    read = scipy.io.mmread(path)
    wanted = read if dense else read.tocsr().toarray()
    dataset = through(path)
    assert dataset.is_sparse is not dense
    np.testing.assert_allclose(numbers(dataset), wanted, rtol=1e-12, atol=1e-300)


HEAD = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEAD + "3 2 2\n1 1 5\n", ["Truncated", "another 1 line"]),
        (HEAD + "3 2 1\n1 1 5\n2 2 5\n", ["line 4", "too long"]),
        (HEAD + "3 2 1\n4 1 5\n", ["line 3", "Row index out of bounds"]),
        (HEAD + "%c\n3 2 2\n\n1 1 5\n1 0 5\n", ["line 6", "Column index out of bounds"]),
        (HEAD + "3 2 1\n1 1\n", ["line 3", "'1 1'", "3 numbers"]),
        (HEAD + "3 2 1\n1 1 5 6\n", ["line 3", "'1 1 5 6'", "3 numbers"]),
        (HEAD + "3 2 2\n1 1 1.2.3\n1 2\n", ["line 3"]),
        (HEAD + "3 2 1\n1 1 1.2.3\n", ["line 3", "1.2.3"]),
        (HEAD + "3 2 1\n1 1 x\n", ["line 3", "x"]),
        (HEAD + "3 2 1\n1 1 1_0\n", ["line 3", "1_0"]),
        (HEAD + "3 2\n1 1 5\n", ["header", "Invalid integer"]),
        (HEAD + "% only comments\n", ["header", "Line 3", "Premature EOF"]),
        (HEAD.replace("real", "complex") + "1 1 1\n1 1 1 1\n", ["complex", "real"]),
        (HEAD.replace("real", "integer") + "1 1 1\n1 1 1.5\n", ["line 3", "whole"]),
        (HEAD.replace("real", "integer") + f"1 1 1\n1 1 {2**64}\n", ["line 3", "out of range"]),
        (HEAD.replace("general", "symmetric") + "1 2 1\n1 1 1\n", ["symmetric", "2 columns"]),
        (HEAD.replace("matrix", "vector", 1) + "1 1\n1 1\n", ["line 3"]),
        (HEAD + f"3 2 {10**15}\n1 1 5\n", ["MB of memory are needed", "larger machine"]),
        (HEAD + f"{10**15} 2 1\n1 1 5\n", ["MB of memory are needed", "larger machine"]),
        (HEAD + "0 2 0\n", ["no rows"]),
    ],
)
def test_a_bad_matrix_market_file_is_refused(tmp_path, text, words):
    path = written(tmp_path, text, "m.mtx")
    with pytest.raises(InputError) as caught:
        convert(path, tmp_path / "out.zarr")
    assert [word for word in ["m.mtx", *words] if word not in str(caught.value)] == []
    assert os.listdir(tmp_path) == ["m.mtx"]


# -------------------------------------------------------------------------------------------------- npy, npz, idx


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i8", "<f4", ">f8", "f2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_keep_their_numbers_and_their_dtype(tmp_path, small, dtype, order):
    X = np.asarray(np.random.default_rng(4).integers(0, 2, (50, 7)) * 1.5, dtype, order=order)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "one.npz", X)
    np.savez_compressed(tmp_path / "two.npz", a=X, b=np.arange(3))
    held = {"f2": np.float32, "?": np.uint8}.get(dtype, np.dtype(dtype).newbyteorder("="))
    for name, key in (("x.npy", None), ("one.npz", None), ("two.npz", "a")):
        dataset = through(tmp_path / name, key=key)
        assert dataset.dtype == held
        assert np.array_equal(numbers(dataset), X)


@pytest.mark.parametrize("order", ["C", "F"])
def test_images_are_flattened_and_their_shape_is_kept(tmp_path, small, order):
    images = np.asarray(np.random.default_rng(5).integers(0, 256, (40, 4, 3, 2)), np.uint8, order=order)
    np.save(tmp_path / "images.npy", images)
    assert np.array_equal(numbers(through(tmp_path / "images.npy")), images.reshape(40, -1))
    assert zarr.open(tmp_path / "images.npy.zarr", mode="r").attrs["image_shape"] == [4, 3, 2]


def test_a_sparse_npz_is_what_scipy_saved(tmp_path, small):
    matrix = sp.random_array((50, 30), density=0.1, rng=np.random.default_rng(6), format="csr", dtype=np.float32)
    sp.save_npz(tmp_path / "m.npz", matrix)
    dataset = through(tmp_path / "m.npz")
    assert dataset.is_sparse
    assert dataset.dtype == np.float32
    assert np.array_equal(numbers(dataset), matrix.toarray())
    sp.save_npz(tmp_path / "c.npz", matrix.tocsc())
    with pytest.raises(InputError, match=r"csc form.*tocsr"):
        convert(tmp_path / "c.npz", tmp_path / "out.zarr")


def idx(shape: tuple[int, ...], values: bytes, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_images_stay_bytes_and_keep_their_shape(tmp_path, small, zipped):
    images = np.random.default_rng(7).integers(0, 256, (30, 5, 4), dtype=np.uint8)
    data = idx(images.shape, images.tobytes())
    path = written(tmp_path, gzip.compress(data) if zipped else data, "train-images-idx3-ubyte")
    dataset = through(path)
    assert dataset.dtype == np.uint8
    assert np.array_equal(numbers(dataset), images.reshape(30, 20))
    assert zarr.open(str(path) + ".zarr", mode="r").attrs["image_shape"] == [5, 4]


def test_idx_of_other_types_is_read(tmp_path):
    X = np.arange(-3, 3).reshape(3, 2)
    for kind, dtype in ((9, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")):
        dataset = through(written(tmp_path, idx((3, 2), X.astype(dtype).tobytes(), kind), "x.idx"))
        assert np.array_equal(numbers(dataset), X)


def test_pickled_arrays_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "x.npy", np.array([[Trap(), 1]], object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", np.array([[Trap(), 1]], object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(InputError, match="pickled"):
            convert(tmp_path / name, tmp_path / "out.zarr")
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npz"]


# -------------------------------------------------------------------------------------------------- parquet, h5ad


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


@pytest.mark.parametrize("sparse", [True, False])
def test_h5ad_keeps_names_ids_and_numbers(tmp_path, small, sparse):
    pytest.importorskip("h5py")
    X = sp.random_array((40, 12), density=0.3, rng=np.random.default_rng(9), format="csr", dtype=np.float32)
    values = X if sparse else X.toarray()
    cells, genes = [f"cell {i}" for i in range(40)], [f"gene {j}" for j in range(12)]
    adata = anndata.AnnData(values, pd.DataFrame(index=cells), pd.DataFrame(index=genes), layers={"twice": 2 * values})
    adata.write_h5ad(tmp_path / "x.h5ad")
    for key, factor in ((None, 1), ("layers/twice", 2)):
        dataset = through(tmp_path / "x.h5ad", key=key)
        assert dataset.is_sparse is sparse
        assert dataset.dtype == np.float32
        assert dataset.feature_names == tuple(genes)
        assert dataset.row_ids.tolist() == cells
        assert np.array_equal(numbers(dataset), factor * X.toarray())
    with pytest.raises(InputError, match=r"no matrix 'layers/thrice': choose with key= one of 'X', 'layers/twice'"):
        convert(tmp_path / "x.h5ad", tmp_path / "out.zarr", key="layers/thrice")


def test_h5ad_by_columns_is_refused(tmp_path):
    pytest.importorskip("h5py")
    anndata.AnnData(sp.csc_array(np.eye(3))).write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(InputError, match=r"stored by columns.*tocsr"):
        convert(tmp_path / "x.h5ad", tmp_path / "out.zarr")


def test_a_missing_package_is_named_with_how_to_install_it(tmp_path, monkeypatch):
    path = written(tmp_path, b"\x89HDF\r\n\x1a\n" + bytes(100), "x.h5ad")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match=r"h5py, which is not installed: pip install 'dmmc\[convert\]'"):
        convert(path, tmp_path / "out.zarr")


# ------------------------------------------------------------------------------------------------ damaged files


def damaged(folder: Path) -> dict[str, bytes]:
    rng = np.random.default_rng(10)
    X = rng.standard_normal((200, 8))
    np.save(folder / "x.npy", X)
    np.savez_compressed(folder / "x.npz", X=X)
    images = idx((100, 28, 28), rng.integers(0, 256, 78400, dtype=np.uint8).tobytes())
    text = "\n".join(",".join(map(repr, row)) for row in X.tolist()).encode()
    files = {"x.npy": b"", "x.npz": b""}
    files = {name: (folder / name).read_bytes() for name in files}
    files |= {"x.idx": images, "x.idx.gz": gzip.compress(images), "x.csv.gz": gzip.compress(text)}
    return files


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.idx", "x.idx.gz", "x.csv.gz"])
def test_a_truncated_file_is_refused_wherever_it_is_cut(tmp_path, name):
    whole = damaged(tmp_path)[name]
    for path in tmp_path.iterdir():
        path.unlink()
    for length in sorted({3, 20, 90, len(whole) // 2, len(whole) - 1}):
        path = written(tmp_path, whole[:length], name)
        with pytest.raises(InputError) as caught:
            convert(path, tmp_path / "out.zarr")
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
        assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["x.npz", "x.idx.gz", "x.csv.gz", "x.parquet", "x.h5ad"])
def test_a_flipped_byte_is_refused_or_changes_nothing_that_was_there(tmp_path, name):
    if name == "x.parquet":
        pd.DataFrame(np.random.default_rng(0).standard_normal((300, 4)), columns=list("abcd")).to_parquet(
            tmp_path / name
        )
    elif name == "x.h5ad":
        pytest.importorskip("h5py")
        anndata.AnnData(np.random.default_rng(0).standard_normal((50, 4))).write_h5ad(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(damaged(tmp_path)[name])
    whole = (tmp_path / name).read_bytes()
    dice = random.Random(0)
    refused = 0
    for _ in range(40):
        flipped = bytearray(whole)
        flipped[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        (tmp_path / name).write_bytes(flipped)
        try:
            convert(tmp_path / name, tmp_path / "out.zarr", overwrite=True)
        except InputError:
            refused += 1
        assert leftovers(tmp_path) == []
    assert refused > 0


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.npy", None, "1D array"),
        ("x.npz", None, "holds 2 arrays, 'a', 'b': choose one with key="),
        ("x.idx", idx((5,), bytes(5)), "labels perhaps"),
        ("x.idx", idx((5, 2), bytes(11)), "goes on after the 5 rows"),
        ("x.idx", idx((0, 2), b""), "0 sample"),
        ("x.csv", b"", "empty"),
        ("x.npy", b"not an array", "npy header"),
        ("x.unknown", b"what is this", "no known kind: npy"),
        ("x.npy.gz", gzip.compress(b"\x93NUMPY\x01\x00"), "gunzip"),
        ("x.zip", b"PK\x05\x06" + bytes(18), "without npy arrays"),
    ],
)  # fmt: skip
def test_a_file_without_a_matrix_is_refused(tmp_path, name, data, words):
    if data is None:
        np.save(tmp_path / "x.npy", np.arange(5)) if name == "x.npy" else np.savez(tmp_path / "x.npz", a=[[1]], b=[[2]])
    else:
        written(tmp_path, data, name)
    with pytest.raises(InputError, match=words) as caught:
        convert(tmp_path / name, tmp_path / "out.zarr")
    assert "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == [name]


def test_strings_complex_numbers_and_records_are_refused(tmp_path):
    for array in (np.array([["a"]]), np.array([[1j]]), np.zeros((2, 2), [("x", "f4")])):
        np.save(tmp_path / "x.npy", array)
        with pytest.raises(InputError):
            convert(tmp_path / "x.npy", tmp_path / "out.zarr")


def test_a_key_is_checked(tmp_path):
    np.savez(tmp_path / "x.npz", a=[[1]], b=[[2]])
    with pytest.raises(InputError, match="no 'c': choose with key= one of 'a', 'b'"):
        convert(tmp_path / "x.npz", tmp_path / "out.zarr", key="c")
    with pytest.raises(InputError, match="key='c' names an array inside an npz"):
        convert(written(tmp_path, "1,2\n"), tmp_path / "out.zarr", key="c")


# ------------------------------------------------------------------------------------------- what is left on disk


def test_a_missing_file_a_folder_and_a_target_without_a_folder_are_refused(tmp_path):
    for source, target, words in (
        (tmp_path / "none.csv", tmp_path / "out.zarr", "does not exist"),
        (tmp_path, tmp_path / "out.zarr", "is a folder"),
        (written(tmp_path, "1,2\n"), tmp_path / "no" / "out.zarr", "there is no folder"),
    ):
        with pytest.raises(InputError, match=words):
            convert(source, target)
    for chunk_rows, words in ((0, "chunk_rows is 0"), (10**12, "too large")):
        with pytest.raises(InputError, match=words):
            convert(tmp_path / "rows.csv", tmp_path / "out.zarr", chunk_rows=chunk_rows)
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_an_existing_target_is_refused_and_replaced_only_when_the_new_one_is_complete(tmp_path):
    target = tmp_path / "out.zarr"
    convert(written(tmp_path, "1,2\n"), target)
    with pytest.raises(InputError, match="exists"):
        convert(tmp_path / "rows.csv", target)
    with pytest.raises(InputError, match="line 2"):
        convert(written(tmp_path, "3,4\n5\n", "bad.csv"), target, overwrite=True)
    assert np.array_equal(numbers(open_dataset(target)), [[1, 2]])
    convert(written(tmp_path, "3,4\n", "good.csv"), target, overwrite=True)
    assert np.array_equal(numbers(open_dataset(target)), [[3, 4]])
    assert leftovers(tmp_path) == []


def test_overwriting_never_deletes_what_is_not_a_store(tmp_path):
    path = written(tmp_path, "1,2\n")
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "holiday.jpg").write_bytes(b"precious")
    link = tmp_path / "link"
    link.symlink_to(folder)
    for target in (folder, path, link):
        with pytest.raises(InputError, match="is not a zarr store"):
            convert(path, target, overwrite=True)
    assert (folder / "holiday.jpg").read_bytes() == b"precious"
    convert(path, tmp_path / "out.zarr")
    inside = written(tmp_path / "out.zarr", "1,2\n")
    with pytest.raises(InputError, match="is inside"):
        convert(inside, tmp_path / "out.zarr", overwrite=True)
    (tmp_path / "empty").mkdir()
    convert(path, tmp_path / "empty", overwrite=True)
    assert open_dataset(tmp_path / "empty").n_rows == 1


def test_an_interrupt_leaves_nothing_behind(tmp_path):
    def interrupt(event: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(written(tmp_path, "1,2\n"), tmp_path / "out.zarr", progress=interrupt)
    assert os.listdir(tmp_path) == ["rows.csv"]


def test_a_full_disk_is_an_os_error_and_leaves_the_old_store_alone(tmp_path):
    resource = pytest.importorskip("resource")
    target = tmp_path / "out.zarr"
    convert(written(tmp_path, "1,2\n"), target)
    np.save(tmp_path / "big.npy", np.random.default_rng(0).standard_normal((3000, 100)))
    code = f"""
        import resource
        from dmmc.convert import convert
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # files cannot grow beyond, as on a full disk
        try:
            convert({str(tmp_path / "big.npy")!r}, {str(target)!r}, overwrite=True)
        except OSError as error:
            print(error.errno)
    """
    assert resource is not None
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(errno.EFBIG)
    assert np.array_equal(numbers(open_dataset(target)), [[1, 2]])
    assert sorted(os.listdir(tmp_path)) == ["big.npy", "out.zarr", "rows.csv"]


def test_of_two_conversions_to_one_target_the_second_leaves_the_first_alone(tmp_path):
    target = tmp_path / "out.zarr"
    first, second = written(tmp_path, "1,2\n", "first.csv"), written(tmp_path, "3,4\n", "second.csv")

    def meanwhile(event: dict[str, Any]) -> None:
        convert(first, target)

    with pytest.raises(InputError, match="by someone else"):
        convert(second, target, progress=meanwhile)
    assert np.array_equal(numbers(open_dataset(target)), [[1, 2]])
    assert leftovers(tmp_path) == []


def test_progress_tells_rows_and_how_much_of_the_file_was_read(tmp_path, small):
    events: list[dict[str, Any]] = []
    convert(written(tmp_path, "1,2\n" * 100), tmp_path / "out.zarr", progress=events.append)
    assert len(events) > 3
    assert events[-1]["rows"] == 100
    assert events[-1]["fraction"] == 1.0
    assert [event["rows"] for event in events] == sorted(event["rows"] for event in events)
    assert all(event["phase"] == "convert" and 0 <= event["fraction"] <= 1 for event in events)


def test_every_chunk_is_written_and_has_a_checksum(tmp_path, small):
    np.save(tmp_path / "zeros.npy", np.zeros((100, 10)))
    convert(tmp_path / "zeros.npy", tmp_path / "out.zarr")
    array = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert array.metadata.zarr_format == 3
    assert array.nchunks_initialized == array.nchunks > 10
    assert [codec.to_dict()["name"] for codec in array.metadata.codecs][-1] == "crc32c"
    chunk = sorted(path for path in (tmp_path / "out.zarr" / "c").rglob("*") if path.is_file())[3]
    data = bytearray(chunk.read_bytes())
    data[len(data) // 2] ^= 1
    chunk.write_bytes(data)
    with pytest.raises(InputError, match="could not be read"):
        open_dataset(tmp_path / "out.zarr")


def test_chunks_are_of_8_mib_of_whole_rows_or_as_asked(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((50_000, 100)))
    assert convert(tmp_path / "x.npy", tmp_path / "a.zarr")["chunk_rows"] == 2**23 // 800
    assert zarr.open_array(tmp_path / "a.zarr", mode="r").chunks == (2**23 // 800, 100)
    assert convert(tmp_path / "x.npy", tmp_path / "b.zarr", chunk_rows=777)["chunk_rows"] == 777
    assert zarr.open_array(tmp_path / "b.zarr", mode="r").chunks == (777, 100)
    np.save(tmp_path / "x.npy", np.zeros((10, 3)))
    assert convert(tmp_path / "x.npy", tmp_path / "c.zarr")["chunk_rows"] == 10, "no chunk is larger than the data"


def test_the_summary_is_json_and_says_what_was_written(tmp_path):
    done = convert(written(tmp_path, "id,x\na,1\nb,2\n"), tmp_path / "out.zarr")
    json.dumps(done)
    assert {"rows", "columns", "dtype", "sparse", "bytes", "chunk_rows", "seconds"} <= done.keys()
    assert (done["rows"], done["columns"], done["dtype"], done["bytes"]) == (2, 1, "uint8", 2)
    assert done["bytes_on_disk"] == sum(f.stat().st_size for f in (tmp_path / "out.zarr").rglob("*") if f.is_file())


def test_anndata_reads_what_was_written(tmp_path, small):
    text = "cell,gene 1,gene ü\n" + "".join(f"c{i},{i},{2 * i}\n" for i in range(20))
    convert(written(tmp_path, text), tmp_path / "both.zarr")
    read = anndata.read_zarr(tmp_path / "both.zarr")
    assert read.obs_names.tolist() == [f"c{i}" for i in range(20)]
    assert read.var_names.tolist() == ["gene 1", "gene ü"]
    assert np.array_equal(read.X, [[i, 2 * i] for i in range(20)])
    convert(written(tmp_path, "x,y\n1,2\n"), tmp_path / "names.zarr")
    assert anndata.read_zarr(tmp_path / "names.zarr").var_names.tolist() == ["x", "y"]


def test_a_converted_file_is_clustered_as_the_array_it_holds(tmp_path, load):
    X, _ = load("digits")
    pd.DataFrame(X.astype(int)).to_csv(tmp_path / "digits.csv", index=False, header=False)
    done = convert(tmp_path / "digits.csv", tmp_path / "digits.zarr")
    assert done["dtype"] == "uint8"
    ours = dmmc.fit(tmp_path / "digits.zarr", 2, random_state=0).labels
    assert np.array_equal(ours, dmmc.fit(X.astype(np.uint8), 2, random_state=0).labels)


# ----------------------------------------------------------------------------------------------------- memory


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
