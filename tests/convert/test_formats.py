"""Damaged files, and files without a matrix, are refused in a sentence."""

from __future__ import annotations

import gzip
import os
import random
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
from converted import ZARR_WARNINGS, idx, leftovers, written
from scipy import sparse

import dmmc
from dmmc import InputError
from dmmc.convert import convert

pytestmark = ZARR_WARNINGS


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
        ("x.npz", None, "holds 2 arrays, 'a', 'b': choose one with component="),
        ("x.idx", idx((5,), bytes(5)), "labels perhaps"),
        ("x.idx", idx((5, 2), bytes(11)), "goes on after the 5 rows"),
        ("x.idx", idx((0, 2), b""), "0 sample"),
        ("x.csv", b"", "empty"),
        ("x.npy", b"not an array", "npy header"),
        ("x.unknown", b"what is this", "no known kind: npy"),
        ("x.npy.gz", gzip.compress(b"\x93NUMPY\x01\x00", mtime=0), "gunzip"),
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
    with pytest.raises(InputError, match=r"no 'c': choose with component= .* one of 'a', 'b'"):
        convert(tmp_path / "x.npz", tmp_path / "out.zarr", key="c")
    with pytest.raises(InputError, match="key='c' names an array inside an npz"):
        convert(written(tmp_path, "1,2\n"), tmp_path / "out.zarr", key="c")


def test_other_values_of_a_pattern_and_the_names_of_its_columns_are_read(tmp_path):
    rows = sparse.random_array((30, 7), density=0.3, rng=np.random.default_rng(0), format="csr")
    parts = {"indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape, "y": np.arange(30)}
    counts, words = np.arange(1, rows.nnz + 1, dtype=np.uint16), np.array([f"word{i}".encode() for i in range(7)])
    np.savez(tmp_path / "x.npz", data=rows.data, counts=counts, vocab=words, **parts)
    for key, values in ((None, rows.data), ("counts", counts)):
        run = dmmc.fit(tmp_path / "x.npz", 2, component=key, method="cpmmc", max_iter=2)
        wanted = dmmc.fit(
            sparse.csr_array((values, rows.indices, rows.indptr), rows.shape), 2, method="cpmmc", max_iter=2
        )
        np.testing.assert_array_equal(run.model.coef_, wanted.model.coef_)
        assert run.model.feature_names_in_.tolist() == [f"word{i}" for i in range(7)]
    with pytest.raises(InputError, match="'y'"):
        dmmc.fit(tmp_path / "x.npz", 2, component="y")
