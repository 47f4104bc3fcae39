"""The same matrix from anywhere gives the same blocks, and what is no matrix of numbers is refused."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from pathlib import Path

import anndata
import dask
import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sparse
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from dmmc.data import blocks
from dmmc.data.blocks import Block, Csr, block_bounds, csr_bounds
from dmmc.data.open import open_dataset
from dmmc.errors import InputError, InputTypeError
from dmmc.machine import MIB

# what anndata says about its own writing
pytestmark = pytest.mark.filterwarnings(
    "ignore:Writing zarr v2", "ignore:zarr v3 autosharding", "ignore:Consolidated metadata"
)

KEEP_ZEROS = {"write_empty_chunks": True}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks a thousand times smaller, to have many of them without much data."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", blocks.ONE_BLOCK // 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", blocks.FOUR_BLOCKS // 1024)


def dense(n=3000, d=7, dtype=np.float32, seed=0):
    return (np.random.default_rng(seed).random((n, d)) * 100).astype(dtype)


def thin(n=3000, d=40, dtype=np.float64, seed=0):
    matrix = sp.random_array((n, d), density=0.1, rng=np.random.default_rng(seed), format="csr")
    matrix.data = (matrix.data * 100 + 1).astype(dtype)
    return matrix


def write_csr(where, matrix, chunks=500, zarr_format=3):
    group = zarr.open_group(where, mode="w", zarr_format=zarr_format)
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": matrix.shape})
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(matrix, part), chunks=(chunks,), config=KEEP_ZEROS)
    return where


def write_zip(where, matrix):
    with zarr.storage.ZipStore(where, mode="w") as store:
        zarr.create_array(store, data=matrix, chunks=(700, 5), config=KEEP_ZEROS)
    return where


def write_anndata(where, matrix, zarr_format=2):
    with anndata.settings.override(zarr_write_format=zarr_format):
        anndata.AnnData(matrix).write_zarr(where)
    return where


def same_arrays(a, b):
    return a.dtype == b.dtype and np.array_equal(a, b)


def assert_same_blocks(got, wanted):
    assert (got.n_rows, got.n_features, got.dtype) == (wanted.n_rows, wanted.n_features, wanted.dtype)
    assert [(b.index, b.start, b.stop) for b in got.blocks] == [(b.index, b.start, b.stop) for b in wanted.blocks]
    for ours, theirs in zip(got.blocks, wanted.blocks, strict=True):
        if wanted.is_sparse:
            assert ours.rows.n_features == theirs.rows.n_features
            assert all(same_arrays(a, b) for a, b in zip(ours.rows[:3], theirs.rows[:3], strict=True))
        else:
            assert same_arrays(ours.rows, theirs.rows)
            assert ours.rows.flags.c_contiguous
            assert not ours.rows.flags.writeable


# --------------------------------------------------------------------------------------- where blocks are cut


def test_mnist_is_four_blocks():
    assert np.diff(block_bounds(70_000, 784, 1)).tolist() == [17_536, 17_536, 17_536, 17_392]


def test_data_below_14_mib_is_one_block():
    assert block_bounds(14 * 2**17 - 1, 1, 8).tolist() == [0, 14 * 2**17 - 1]
    assert block_bounds(1, 10, 8).tolist() == [0, 1]
    assert csr_bounds(np.arange(1000), 8).tolist() == [0, 999]


def test_a_row_larger_than_a_block_is_a_block():
    assert block_bounds(5, 5 * MIB, 8).tolist() == [0, 1, 2, 3, 4, 5]


@given(st.integers(1, 10**8), st.integers(1, 10**6), st.sampled_from([1, 2, 4, 8]))
@settings(max_examples=300)
def test_dense_blocks_cover_all_rows_in_blocks_of_at_most_16_mb(n, d, itemsize):
    n = min(n, 2**38 // (d * itemsize))
    if n == 0:
        return
    bounds = block_bounds(n, d, itemsize)
    rows = np.diff(bounds)
    assert bounds[0] == 0
    assert bounds[-1] == n
    assert rows.min() > 0
    assert len(set(rows[:-1].tolist())) <= 1, "all but the last have the same rows"
    assert rows[-1] <= rows[0]
    size = rows[0] * d * itemsize
    assert size <= 16e6 or d * itemsize > 2**18, "only long rows make larger blocks"
    if len(rows) > 1:
        assert size >= 7 * MIB
        if d * itemsize <= 8192:
            assert rows[0] % 128 == 0
    if 4 <= len(rows) <= 8 and d * itemsize <= 8192:
        assert len(rows) % 4 == 0


@given(st.integers(1, 50_000), st.integers(0, 400), st.sampled_from([1, 4, 8]), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_csr_blocks_cover_all_rows_in_blocks_of_equal_bytes(n, per_row, itemsize, seed):
    counts = np.random.default_rng(seed).integers(0, per_row + 1, n)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    bounds = csr_bounds(indptr, itemsize)
    assert bounds[0] == 0
    assert bounds[-1] == n
    assert np.all(np.diff(bounds) > 0)
    size = np.diff(indptr[bounds] * (itemsize + 4) + 8 * bounds)
    if len(size) > 1:
        slack = per_row * (itemsize + 4) + 8
        assert size.min() >= 7 * MIB - slack
        assert size.max() <= 14 * MIB + slack
        assert len(size) == 2 or len(size) % 4 == 0


def test_a_sparse_row_of_several_blocks_is_alone_in_its_block():
    counts = np.full(10_000, 300)
    counts[4321] = 10_000_000
    bounds = csr_bounds(np.concatenate([[0], np.cumsum(counts)]), 8)
    assert {4321, 4322} <= set(bounds.tolist())


def test_empty_rows_are_cut_by_what_they_cost():
    assert np.diff(csr_bounds(np.zeros(10_000_001, np.int64), 8)).max() * 8 <= 32 * MIB


def test_real_blocks_are_views_of_the_array_at_the_bounds():
    X = dense(70_000, 784, np.uint8)
    got = open_dataset(X)
    assert len(got.blocks) == 4
    assert [b.start for b in got.blocks] == block_bounds(70_000, 784, 1)[:-1].tolist()
    assert all(np.shares_memory(block.rows, X) for block in got.blocks)
    assert got.nbytes == X.nbytes
    assert got.nnz == X.size


# ----------------------------------------------------------------------- one matrix, many sources: dense ones

DENSE_SOURCES = {
    "C order": lambda X, tmp: X,
    "F order": lambda X, tmp: np.asfortranarray(X),
    "strided": lambda X, tmp: np.repeat(X, 2, axis=0)[::2],
    "read-only": lambda X, tmp: np.frombuffer(X.tobytes(), X.dtype).reshape(X.shape),
    "other byte order": lambda X, tmp: X.astype(X.dtype.newbyteorder()),
    "memmap": lambda X, tmp: np.save(tmp / "x.npy", X) or np.load(tmp / "x.npy", mmap_mode="r"),
    "pandas": lambda X, tmp: pd.DataFrame(X),
    "polars": lambda X, tmp: pl.DataFrame(X),
    "dask by rows": lambda X, tmp: da.from_array(X, chunks=(411, -1)),
    "dask by both": lambda X, tmp: da.from_array(X, chunks=(1000, 3)),
    "dask of unknown chunks": lambda X, tmp: da.from_array(X, chunks=(900, -1))[da.ones(len(X), chunks=900) > 0],
    "dask after a mask": lambda X, tmp: da.concatenate([da.from_array(X[:0], chunks=5), da.from_array(X)]),
    "zarr array v2": lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(300, 4), zarr_format=2),
    "zarr array v3": lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(1111, 7)),
    "zarr shards": lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(100, 2), shards=(400, 4)),
    "zarr in memory": lambda X, tmp: zarr.create_array(zarr.storage.MemoryStore(), data=X, chunks=(50, 50)),
    "zarr F order v2": lambda X, tmp: zarr.create_array(
        tmp / "x.zarr", data=X, chunks=(300, 4), zarr_format=2, order="F"
    ),
    "group of one": lambda X, tmp: (
        zarr.create_array(tmp / "x.zarr", name="deep/X", data=X, chunks=(999, 7)) and zarr.open_group(tmp / "x.zarr")
    ),
    "Path": lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(64, 7)) and tmp / "x.zarr",
    "str": lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(64, 7)) and str(tmp / "x.zarr"),
    "zip": lambda X, tmp: write_zip(tmp / "x.zip", X),
    "AnnData": lambda X, tmp: anndata.AnnData(X),
    "AnnData store v2": lambda X, tmp: write_anndata(tmp / "a.zarr", X, 2),
    "AnnData store v3": lambda X, tmp: write_anndata(tmp / "a.zarr", X, 3),
}


@pytest.mark.parametrize("kind", DENSE_SOURCES)
def test_every_dense_source_gives_the_blocks_of_the_array(kind, tmp_path, small_blocks):
    X = dense() + 1
    wanted = open_dataset(X)
    assert len(wanted.blocks) == 8
    assert np.array_equal(np.vstack([block.rows for block in wanted.blocks]), X)
    assert_same_blocks(open_dataset(DENSE_SOURCES[kind](X, tmp_path), n_jobs=2), wanted)


@given(rows=st.integers(20, 700), columns=st.integers(1, 6), jobs=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_chunks_of_a_source_do_not_show(rows, columns, jobs):
    X = dense(613, 5, np.int16) + 1
    wanted = open_dataset(X)
    assert_same_blocks(open_dataset(da.from_array(X, chunks=(rows, columns)), n_jobs=jobs), wanted)
    stored = zarr.create_array(zarr.storage.MemoryStore(), data=X, chunks=(rows, columns))
    assert_same_blocks(open_dataset(stored, n_jobs=jobs), wanted)


def test_lists_are_matrices_too():
    assert open_dataset([[1, 2.5], [3, 4]]).blocks[0].rows.tolist() == [[1, 2.5], [3, 4]]


KEPT = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
HELD = {kind: kind for kind in KEPT} | {"?": "u1", "f2": "f4", ">f4": "f4", ">i8": "i8", "g": "f8", "O": "f8"}
DTYPE_SOURCES = {
    "array": (lambda X, tmp: X, HELD),
    "dask": (lambda X, tmp: da.from_array(X, chunks=(2, 1)), HELD),
    "zarr": (
        lambda X, tmp: zarr.create_array(tmp / "x.zarr", data=X, chunks=(2, 2), config=KEEP_ZEROS),
        HELD.keys() - {"g", "O"},
    ),
    "csr": (lambda X, tmp: sp.csr_array(X), HELD.keys() - {"f2", ">f4", ">i8", "O"}),
    "COO": (lambda X, tmp: sparse.COO(X), HELD.keys() - {"g", "O"}),
    "dask of COO": (lambda X, tmp: da.from_array(X, chunks=(2, 2)).map_blocks(sparse.COO), KEPT),
    "zarr csr": (lambda X, tmp: write_typed_csr(tmp / "s.zarr", X), HELD.keys() - {"g", "O"}),
}


def write_typed_csr(where, X):
    group = zarr.open_group(write_csr(where, sp.csr_array(X.astype(float))))
    group.create_array("data", data=X[X != 0], overwrite=True)
    return where


@pytest.mark.parametrize(
    ("kind", "given"),
    [(kind, given) for kind, (_, kinds) in DTYPE_SOURCES.items() for given in sorted(kinds)],
)
def test_dtypes_are_kept_where_the_kernels_know_them(kind, given, tmp_path):
    X = np.array([[0, 1], [1, 1], [1, 0]]).astype(given)
    got = open_dataset(DTYPE_SOURCES[kind][0](X, tmp_path))
    assert got.dtype == np.dtype(HELD[given])
    rows = got.blocks[0].rows
    rows = rows.to_scipy().toarray() if isinstance(rows, Csr) else rows
    assert rows.dtype == np.dtype(HELD[given])
    assert rows.dtype.isnative
    assert rows.tolist() == [[0, 1], [1, 1], [1, 0]]


@pytest.mark.parametrize("dtype", [np.float32, np.uint8, bool])
def test_a_contiguous_array_is_not_copied(dtype):
    X = np.ones((10, 3), dtype)
    rows = open_dataset(X).blocks[0].rows
    assert np.shares_memory(rows, X)
    assert not rows.flags.writeable
    assert X.flags.writeable, "the user's own array stays as it was"


def test_a_memmap_is_not_read_into_memory(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((10, 3)))
    X = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert np.shares_memory(open_dataset(X).blocks[0].rows, X)


# ---------------------------------------------------------------------- one matrix, many sources: sparse ones


def in_two(matrix, convert):
    """A dask array of sparse chunks, with two columns of chunks."""
    return da.from_array(matrix.toarray(), chunks=(700, 25)).map_blocks(convert)


SPARSE_SOURCES = {
    "csr_array": lambda S, tmp: S,
    **{f: (lambda S, tmp, f=f: S.asformat(f)) for f in ("csc", "coo", "lil", "dok", "bsr")},
    "csr_matrix": lambda S, tmp: sp.csr_matrix(S),
    "int64 indices": lambda S, tmp: sp.csr_array((S.data, S.indices.astype("i8"), S.indptr.astype("i8")), S.shape),
    "sparse.COO": lambda S, tmp: sparse.COO.from_scipy_sparse(S),
    "sparse.GCXS": lambda S, tmp: sparse.GCXS.from_scipy_sparse(S),
    "pandas": lambda S, tmp: pd.DataFrame.sparse.from_spmatrix(S),
    "dask of csr": lambda S, tmp: in_two(S, sp.csr_matrix),
    "dask of csc": lambda S, tmp: in_two(S, sp.csc_array),
    "dask of COO": lambda S, tmp: in_two(S, sparse.COO),
    "dask of GCXS": lambda S, tmp: in_two(S, sparse.GCXS),
    "dask with a wrong meta": lambda S, tmp: da.from_array(S.toarray(), chunks=(700, -1)).map_blocks(
        sp.csr_array, meta=np.empty((0, 0))
    ),
    "zarr v2": lambda S, tmp: write_csr(tmp / "s.zarr", S, zarr_format=2),
    "zarr v3": lambda S, tmp: write_csr(tmp / "s.zarr", S, chunks=77),
    "zarr group": lambda S, tmp: zarr.open_group(write_csr(tmp / "s.zarr", S)),
    "AnnData": lambda S, tmp: anndata.AnnData(sp.csr_matrix(S)),
    "AnnData store v2": lambda S, tmp: write_anndata(tmp / "a.zarr", sp.csr_matrix(S), 2),
    "AnnData store v3": lambda S, tmp: write_anndata(tmp / "a.zarr", sp.csr_matrix(S), 3),
}


@pytest.mark.parametrize("kind", SPARSE_SOURCES)
def test_every_sparse_source_gives_the_blocks_of_the_csr_array(kind, tmp_path, small_blocks):
    S = thin()
    wanted = open_dataset(S)
    assert len(wanted.blocks) == 12
    assert wanted.nnz == S.nnz
    assert (sp.vstack([block.rows.to_scipy() for block in wanted.blocks]) != S).nnz == 0
    assert_same_blocks(open_dataset(SPARSE_SOURCES[kind](S, tmp_path)), wanted)


def test_csr_blocks_share_the_users_arrays_and_start_at_zero(small_blocks):
    S = thin()
    for block in open_dataset(S).blocks:
        rows = block.rows
        assert np.shares_memory(rows.data, S.data)
        assert np.shares_memory(rows.indices, S.indices)
        assert np.shares_memory(rows.to_scipy().indices, S.indices)
        assert rows.indices.dtype == np.uint32
        assert rows.indptr[0] == 0
        assert rows.n_rows == block.stop - block.start
        assert not any(array.flags.writeable for array in rows[:3])
    assert S.data.flags.writeable


def test_unsorted_and_repeated_columns_are_summed_in_a_copy(small_blocks, tmp_path):
    rng = np.random.default_rng(0)
    indices = rng.integers(0, 20, 9000).astype(np.int32)
    S = sp.csr_array((rng.random(9000), indices, np.arange(0, 9001, 3)), shape=(3000, 20))
    before = [S.data.copy(), S.indices.copy(), S.indptr.copy()]
    flags = dict(vars(S))
    got = open_dataset(S)
    assert all(np.array_equal(a, b) for a, b in zip(before, (S.data, S.indices, S.indptr), strict=True))
    assert vars(S).keys() == flags.keys(), "not even a flag is set on the user's matrix"
    tidy = S.copy()
    tidy.sum_duplicates()
    assert_same_blocks(got, open_dataset(tidy))
    assert_same_blocks(open_dataset(write_csr(tmp_path / "s.zarr", S)), got)


def test_columns_beyond_int32_are_numbered_in_64_bits():
    S = sp.csr_array(([1.0], np.array([2**40]), np.array([0, 1, 1])), shape=(2, 2**41))
    rows = open_dataset(S).blocks[0].rows
    assert rows.indices.dtype == np.uint64
    assert rows.indices.tolist() == [2**40]


def test_a_sparse_matrix_without_values_is_a_matrix():
    got = open_dataset(sp.csr_array((5, 3)))
    assert got.nnz == 0
    assert got.blocks[0].rows.indptr.tolist() == [0] * 6


# -------------------------------------------------------------------------------------- what a dataset can do


@pytest.mark.parametrize("S", [dense(), thin()], ids=["dense", "sparse"])
def test_take_gathers_rows_in_the_order_asked(S, small_blocks):
    rows = np.random.default_rng(1).integers(0, 3000, 50)
    got = open_dataset(S).take(rows)
    assert got.dtype == S.dtype
    if sp.issparse(S):
        assert np.array_equal(got.toarray(), S.toarray()[rows])
    else:
        assert np.array_equal(got, S[rows])
    assert open_dataset(S).take([]).shape == (0, S.shape[1])
    with pytest.raises(IndexError, match="3000 rows"):
        open_dataset(S).take([0, 3000])


def test_columns_are_cut_with_the_rows_and_rows_are_shared(small_blocks):
    base = open_dataset(dense())
    base.blocks[0].cache["norms"] = 1
    weight, labels = np.arange(3000) / 7, np.arange(3000, dtype=np.int32)
    got = base.with_columns(weight=weight).with_columns(given=labels)
    for ours, theirs in zip(got.blocks, base.blocks, strict=True):
        assert np.shares_memory(ours.rows, theirs.rows)
        assert np.array_equal(ours.weight, weight[ours.start : ours.stop])
        assert np.array_equal(ours.given, labels[ours.start : ours.stop])
        assert (ours.weight.dtype, ours.given.dtype) == (np.float64, np.int32)
        assert not ours.weight.flags.writeable
        assert not ours.given.flags.writeable
        assert ours.cache == {}
    assert base.blocks[0].weight is None


def test_columns_of_a_wrong_length_or_kind_are_refused():
    base = open_dataset(dense())
    with pytest.raises(InputError, match=r"weights of shape \(2,\).*3000 rows"):
        base.with_columns(weight=[1, 2])
    with pytest.raises(InputError, match=r"labels of dtype float64.*whole numbers"):
        base.with_columns(given=np.ones(3000))


@pytest.mark.parametrize("S", [dense(), thin()], ids=["dense", "sparse"])
def test_a_pickled_block_stays_read_only_and_leaves_its_cache(S):
    block = open_dataset(S).with_columns(weight=np.ones(3000)).blocks[0]
    block.cache["big"] = 1
    back = pickle.loads(pickle.dumps(block))
    assert isinstance(back, Block)
    assert back.cache == {}
    arrays = [back.weight, *(back.rows[:3] if isinstance(back.rows, Csr) else [back.rows])]
    assert not any(array.flags.writeable for array in arrays)


def test_names_of_rows_and_columns_come_along(tmp_path):
    X = dense(4, 2)
    frame = pd.DataFrame(X, index=list("abcd"), columns=["u", "v"])
    got = open_dataset(frame)
    assert got.feature_names == ("u", "v")
    assert got.row_ids.tolist() == list("abcd")
    assert open_dataset(pd.DataFrame(X)).feature_names is None, "numbers are not names"
    assert open_dataset(pd.DataFrame(X)).row_ids is None
    assert open_dataset(pl.DataFrame(X, schema=["u", "v"])).feature_names == ("u", "v")
    adata = anndata.AnnData(X, obs=pd.DataFrame(index=list("abcd")), var=pd.DataFrame(index=["u", "v"]))
    adata.write_zarr(tmp_path / "a.zarr")
    for source in (adata, tmp_path / "a.zarr"):
        got = open_dataset(source)
        assert got.feature_names == ("u", "v")
        assert got.row_ids.tolist() == list("abcd")


def test_the_name_says_what_was_given(tmp_path):
    X = dense(10, 2) + 1
    zarr.create_array(tmp_path / "features.zarr", data=X)
    zarr.create_array(tmp_path / "group.zarr", name="a/X", data=X)
    assert open_dataset(X).name == "array of shape (10, 2)"
    assert open_dataset(tmp_path / "features.zarr").name == "features.zarr"
    assert open_dataset(tmp_path / "group.zarr").name == "group.zarr/a/X"


def test_sparse_columns_of_pandas_that_leave_out_ones_are_dense():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([1.0, 1.0, 2.0], fill_value=1.0)})
    assert open_dataset(frame).blocks[0].rows.tolist() == [[1], [1], [2]]


def test_nullable_and_mixed_columns_of_pandas_are_numbers():
    frame = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "b": [True, False, True]})
    assert np.array_equal(open_dataset(frame).take([0, 1, 2]), [[1, 1], [np.nan, 0], [3, 1]], equal_nan=True)


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("lazy", [False, True], ids=["array", "dask"])
@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (np.ones(3), r"Expected 2D array, got 1D array instead.*Reshape your data"),
        (np.float64(3), r"Expected 2D array, got scalar array instead"),
        (np.ones((2, 3, 4)), r"Found array with dim 3\. .* expected <= 2"),
        (np.ones((0, 4)), r"0 sample\(s\)"),
        (np.ones((4, 0)), r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required\."),
        (np.ones((2, 2), complex), "Complex data not supported"),
        (np.array([["1", "2"]]), "holds text"),
        (np.array([[b"1", b"2"]]), "holds text"),
        (np.array([["2020-01-01"]], dtype="M8[D]"), "holds dates"),
        (np.array([[1]], dtype="m8[s]"), "holds durations"),
        (np.zeros((2, 2), dtype=[("a", "f4")]), "holds records"),
        (np.array([[1, "many"]], dtype=object), r"'many' at \[0, 1\]"),
    ],
)
def test_what_is_not_a_matrix_of_real_numbers_is_refused(source, sentence, lazy):
    with pytest.raises(InputError, match=sentence):
        open_dataset(da.from_array(np.asarray(source), chunks=-1) if lazy else source)


@pytest.mark.parametrize("thing", [{"foo": "bar"}, [1, 2], 1j, pd.NA])
def test_an_object_that_is_no_number_is_a_type_error(thing):
    X = np.ones((2, 2), dtype=object)
    X[1, 0] = thing
    with pytest.raises(TypeError, match=r"at \[1, 0\].*argument must be .* string.* number") as caught:
        open_dataset(X)
    assert isinstance(caught.value, InputTypeError)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (pd.DataFrame({"a": ["x", "y"]}), "'x'"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01"])}), "holds dates"),
        (pl.DataFrame({"a": ["x", "y"]}), "'x'"),
        (pd.Series([1.0, 2.0]), "got 1D array"),
        (pd.DataFrame({"a": []}), r"0 sample\(s\)"),
        (sp.coo_array(np.ones(3)), "got 1D array"),
        (sp.csr_array((0, 3)), r"0 sample\(s\)"),
        (sp.csr_array((3, 0)), r"0 feature\(s\)"),
        (sp.csr_array(np.ones((2, 2), complex)), "Complex data not supported"),
        (sparse.COO(np.ones((2, 2)), fill_value=1.0), "fill_value"),
        (np.ma.masked_equal([[1, 2]], 2), "masked values"),
        ([[1, 2], [3]], "list cannot be read"),
        (None, "scalar array"),
        (7, "scalar array"),
        ("ftp://host/x.zarr", "a URL of a kind that is not read"),
        (anndata.AnnData(shape=(3, 3)), "no X"),
    ],
)
def test_other_sources_that_are_no_matrix_are_refused(source, sentence):
    with pytest.raises(InputError, match=sentence):
        open_dataset(source)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
def test_np_matrix_is_not_supported():
    with pytest.raises(TypeError, match=r"np\.matrix is not supported"):
        open_dataset(np.matrix([[1, 2]]))


def test_a_component_is_for_stores():
    with pytest.raises(InputError, match="component='X' names a matrix inside a zarr store"):
        open_dataset(np.ones((2, 2)), component="X")


def test_paths_that_are_no_store_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n")
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "z.zip", "w") as file:
        file.writestr("a.txt", "a")
    with pytest.raises(InputError, match=r"nowhere\.zarr' does not exist"):
        open_dataset(tmp_path / "nowhere.zarr")
    for name in ("a.csv", "empty", "z.zip"):
        with pytest.raises(InputError, match=rf"{name}' is not a zarr store"):
            open_dataset(tmp_path / name)


def test_a_component_is_found_or_the_candidates_are_listed(tmp_path):
    X = dense(20, 3) + 1
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("a", data=X)
    group.create_array("deep/b", data=X[:10])
    group.create_array("labels", data=np.ones(20))
    write_csr(tmp_path / "g.zarr" / "c", thin(30, 5))
    for source in (tmp_path / "g.zarr", group):
        with pytest.raises(InputError, match=r"component= one of 'a', 'c', 'deep/b'"):
            open_dataset(source)
        with pytest.raises(InputError, match=r"no 'missing'.*'a', 'c', 'deep/b'"):
            open_dataset(source, component="missing")
        assert open_dataset(source, component="deep/b").n_rows == 10
        assert open_dataset(source, component="deep").n_rows == 10
        assert open_dataset(source, component="c").is_sparse
        with pytest.raises(InputError, match="got 1D array"):
            open_dataset(source, component="labels")
    with pytest.raises(InputError, match="single array"):
        open_dataset(group["a"], component="b")
    with pytest.raises(InputError, match="no 2-D array"):
        open_dataset(zarr.open_group(tmp_path / "nothing.zarr", mode="w"))


def test_a_component_cannot_climb_out_of_the_store(tmp_path):
    zarr.create_array(tmp_path / "secret.zarr", data=dense(5, 2))
    zarr.create_array(tmp_path / "g.zarr", name="a", data=dense(5, 2))
    with pytest.raises(InputError, match="has no"):
        open_dataset(tmp_path / "g.zarr", component="../secret.zarr")


def test_csc_groups_are_to_be_converted(tmp_path):
    anndata.AnnData(sp.csc_matrix(thin(30, 5))).write_zarr(tmp_path / "a.zarr")
    with pytest.raises(InputError, match=r"a\.zarr/X is stored by columns.*tocsr"):
        open_dataset(tmp_path / "a.zarr")


# ----------------------------------------------------------------------------------------- broken sparse rows


@pytest.mark.parametrize(
    ("part", "value", "sentence"),
    [
        ("indptr", [0, 2, 1, 3], "falls at row 1"),
        ("indptr", [1, 1, 2, 3], "begins with 1"),
        ("indptr", [0, 1, 3], r"indptr of shape \(3,\) does not fit 3 rows"),
        ("indptr", [0, 1, 2, 5], "disagree on the number of values: 3, 3, 5"),
        ("indices", [0, 1, 4], "row 2 has column 4, but there are 4 columns"),
        ("indices", [0, -1, 3], "row 1 has column -1"),
        ("indices", [0, 1], "disagree on the number of values: 3, 2, 3"),
        ("indices", [0.0, 1.0, 2.0], "integers are wanted"),
    ],
)
@pytest.mark.parametrize("kind", ["scipy", "zarr"])
def test_inconsistent_sparse_rows_are_refused(part, value, sentence, kind, tmp_path):
    S = sp.csr_array(([1.0, 2, 3], [0, 1, 2], [0, 1, 2, 3]), shape=(3, 4))
    setattr(S, part, np.array(value))
    source = write_csr(tmp_path / "s.zarr", S, chunks=2) if kind == "zarr" else S
    with pytest.raises(InputError, match=sentence):
        open_dataset(source)


@pytest.mark.parametrize("lacking", ["data", "indices", "indptr", "shape"])
def test_a_csr_group_that_lacks_a_part_is_refused(lacking, tmp_path):
    group = zarr.open_group(write_csr(tmp_path / "s.zarr", thin(30, 5)))
    if lacking == "shape":
        del group.attrs["shape"]
    else:
        del group[lacking]
    with pytest.raises(InputError, match=f"lacks .*{lacking}"):
        open_dataset(tmp_path / "s.zarr")


# ---------------------------------------------------------------------------------------------- broken stores


@pytest.mark.parametrize(
    ("options", "key", "rows"),
    [
        ({"zarr_format": 2}, "3.0", "300 to 399"),
        ({"zarr_format": 3}, "c/3/0", "300 to 399"),
        ({"zarr_format": 3, "shards": (200, 6)}, "c/1/0", "200 to 399"),
    ],
    ids=["v2", "v3", "shards"],
)
def test_a_missing_chunk_is_an_error_that_names_it(options, key, rows, tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=dense(950, 6) + 1, chunks=(100, 3), **options)
    open_dataset(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / key).unlink()
    with pytest.raises(InputError, match=rf"x\.zarr: 1 of .*{key} \(rows {rows}\).*write_empty_chunks=True"):
        open_dataset(tmp_path / "x.zarr")


def test_many_missing_chunks_are_counted(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", data=np.zeros((100, 2)), chunks=(10, 2))
    with pytest.raises(InputError, match=r"10 of 10 chunks.*c/0/0.*c/1/0.*c/2/0 \(rows 20 to 29\) and 7 more"):
        open_dataset(tmp_path / "x.zarr")


@pytest.mark.parametrize(("part", "rows"), [("data", "100 to 1[0-9][0-9]"), ("indptr", "500 to 999")])
def test_a_missing_chunk_of_sparse_rows_is_an_error_that_names_the_rows(part, rows, tmp_path):
    S = sp.csr_array((np.ones(5000), np.tile(np.arange(5), 1000), np.arange(0, 5001, 5)), shape=(1000, 5))
    write_csr(tmp_path / "s.zarr", S)
    (tmp_path / "s.zarr" / part / "c" / "1").unlink()
    with pytest.raises(InputError, match=rf"s\.zarr/{part}: 1 of .*c/1 \(rows {rows}\)"):
        open_dataset(tmp_path / "s.zarr")


@pytest.mark.parametrize("compressors", ["auto", None], ids=["compressed", "plain"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_truncated_chunk_is_an_error_that_names_its_rows(compressors, zarr_format, tmp_path):
    path = tmp_path / "x.zarr"
    zarr.create_array(
        path, data=dense(600_000, 4), chunks=(100_000, 4), zarr_format=zarr_format, compressors=compressors
    )
    chunk = path / ("4.0" if zarr_format == 2 else "c/4/0")
    chunk.write_bytes(chunk.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"x\.zarr: a chunk of rows 400000 to 599999 could not be read"):
        open_dataset(path)


def test_a_truncated_chunk_of_sparse_rows_is_an_error(tmp_path):
    write_csr(tmp_path / "s.zarr", thin())
    (tmp_path / "s.zarr" / "indices" / "c" / "2").write_bytes(b"")
    with pytest.raises(InputError, match=r"s\.zarr/indices: a chunk of rows 0 to 2999 could not be read"):
        open_dataset(tmp_path / "s.zarr")


# ------------------------------------------------------------------------------------------------------- dask


def counted(X, chunks):
    """A dask array that counts how often each of its chunks is computed."""
    runs, lock = Counter(), threading.Lock()

    def count(block, block_info=None):
        with lock:
            runs[block_info[0]["chunk-location"]] += 1
        return block

    return da.from_array(X, chunks=chunks).map_blocks(count, dtype=X.dtype, meta=X[:0]), runs


@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_each_dask_chunk_is_computed_once(scheduler, small_blocks):
    X = dense()
    source, runs = counted(X, (400, 4))
    centred = source - source.mean(axis=0)
    with dask.config.set(scheduler=scheduler):
        got = open_dataset(centred)
    assert np.allclose(got.take(np.arange(3000)), X - X.mean(axis=0), atol=1e-3)
    assert len(runs) == 16
    assert set(runs.values()) == {1}


def test_dask_chunks_computed_in_other_processes_arrive():
    from distributed import Client

    X = dense()
    source = da.from_array(X, chunks=(700, 4)) + 1
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None):
        got = open_dataset(source)
        sparse_one = open_dataset(in_two(thin(), sp.csr_array))
    assert np.array_equal(got.take(np.arange(3000)), X + 1)
    assert_same_blocks(sparse_one, open_dataset(thin()))


def test_opening_does_not_change_a_dask_array_of_unknown_chunks():
    source = da.ones((10, 2), chunks=5)
    source = source[source[:, 0] > 0]
    assert open_dataset(source).n_rows == 10
    assert np.isnan(source.shape[0])


def test_a_failing_dask_chunk_is_an_error_that_names_its_rows():
    def fail(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise OSError("the disk is gone")
        return block

    source = da.from_array(dense(), chunks=(500, -1)).map_blocks(fail, dtype="f4", meta=np.empty((0, 0), "f4"))
    with pytest.raises(InputError, match="rows 1500 to 1999 could not be computed: the disk is gone"):
        open_dataset(source)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda block: block[:1], r"rows 0 to 499: a chunk is of shape \(1, 7\), dask promised \(500, 7\)"),
        (lambda block: block.astype("f8"), "a chunk is of dtype float64, dask promised float32"),
        (lambda block: block.astype("U5"), "rows 0 to 499 holds text"),
    ],
)
def test_a_dask_chunk_that_is_not_what_dask_promised_is_refused(change, sentence):
    source = da.from_array(dense(), chunks=(500, -1))
    source = source.map_blocks(change, dtype="f4", meta=np.empty((0, 0), "f4"))
    with pytest.raises(InputError, match=sentence):
        open_dataset(source)


def test_dense_and_sparse_chunks_in_one_dask_array_are_refused():
    X = da.from_array(dense(), chunks=(1500, -1))
    mixed = X.map_blocks(lambda b, block_id=None: sp.csr_array(b) if block_id[0] else b, meta=np.empty((0, 0), "f4"))
    with pytest.raises(InputError, match="dense chunks and sparse chunks"):
        open_dataset(mixed)


# ---------------------------------------------------------------------------------------------- what it costs

PEAK = """
import sys
import dask, dask.array as da, numpy as np, scipy.sparse as sp, zarr
from dmmc.data.open import open_dataset

def peak():  # not ru_maxrss, which a new process inherits from the one that started it
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if "VmHWM" in line)

def part():
    indices = np.tile(np.arange(0, 1000, 20, dtype="i4"), 8000)
    return sp.csr_array((np.ones(400_000), indices, np.arange(0, 400_001, 50)), shape=(8000, 1000))

path, kind = sys.argv[1:]
if kind == "dask of csr":
    source = da.concatenate([da.from_delayed(dask.delayed(part)(), (8000, 1000), float) for _ in range(25)])
else:
    zarr.open(path, mode="r")["X"][:1]  # what zarr itself needs is not counted
    source = da.from_zarr(path, component="X") if kind == "dask" else path
before = peak()
size = open_dataset(source, component="X" if kind == "zarr" else None, n_jobs=2).nbytes
print((peak() - before) / size)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the peak")
@pytest.mark.parametrize("kind", ["zarr", "dask", "dask of csr"])
def test_reading_holds_no_second_copy(kind, tmp_path):
    X = np.ones((80_000, 200))
    zarr.create_array(tmp_path / "x.zarr", name="X", data=X, chunks=(3000, 200), compressors=None)
    command = [sys.executable, "-c", PEAK, tmp_path / "x.zarr", kind]
    root = Path(blocks.__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    assert 0.9 < float(done.stdout) < 1.5


def test_importing_and_reading_an_array_needs_numpy_alone():
    code = (
        "import sys, numpy; from dmmc.data.open import open_dataset; open_dataset(numpy.ones((3, 2))); "
        "print({m.split('.')[0] for m in sys.modules} & {'scipy', 'dask', 'zarr', 'pandas', 'polars'})"
    )
    root = Path(blocks.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
