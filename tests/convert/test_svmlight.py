"""What scikit-learn loads from svmlight files is what stores hold, labels included."""

from __future__ import annotations

import gzip
import os

import anndata
import numpy as np
import pytest
import scipy.sparse as sp
from converted import ZARR_WARNINGS, numbers, quickly, read_line_by_line, through, written
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from dmmc import InputError
from dmmc.convert import convert

pytestmark = ZARR_WARNINGS


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
