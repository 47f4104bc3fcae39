"""What scipy reads from Matrix Market files is what stores hold; what scipy would pass over is refused."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from converted import ZARR_WARNINGS, numbers, quickly, through, written
from hypothesis import given
from hypothesis import strategies as st

from dmmc import InputError
from dmmc.convert import convert

pytestmark = ZARR_WARNINGS


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
        (HEAD.replace("coordinate", "array") + "2 2\n1\n2\n3\n", ["Truncated"]),
        ("%%MatrixMarket matrix array real skew-symmetric\n2 2\n1\n2\n", ["more numbers"]),
        (HEAD + "0 2 0\n", ["no rows"]),
    ],
)
def test_a_bad_matrix_market_file_is_refused(tmp_path, text, words):
    path = written(tmp_path, text, "m.mtx")
    with pytest.raises(InputError) as caught:
        convert(path, tmp_path / "out.zarr")
    assert [word for word in ["m.mtx", *words] if word not in str(caught.value)] == []
    assert os.listdir(tmp_path) == ["m.mtx"]
