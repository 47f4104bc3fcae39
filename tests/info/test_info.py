"""`dmmc info` says what a store is without reading it, what a fit needs, and what is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import zarr

from dmmc import InputError
from dmmc.app import api
from dmmc.convert import convert
from dmmc.info import format_info, info
from dmmc.info.memory import FORMULAS, Size
from dmmc.methods import METHODS

KEEP_ZEROS = {"write_empty_chunks": True}


@pytest.fixture
def dense(tmp_path):
    """A dense store of ten chunks."""
    X = np.random.default_rng(0).standard_normal((100, 4))
    path = tmp_path / "dense.zarr"
    zarr.create_array(path, data=X, chunks=(10, 4), config=KEEP_ZEROS)
    return path


@pytest.fixture
def sparse(tmp_path):
    """A CSR store of some chunks."""
    X = sp.random_array((100, 30), density=0.2, rng=np.random.default_rng(1), format="csr", dtype=np.float32)
    group = zarr.open_group(tmp_path / "sparse.zarr", mode="w")
    group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": X.shape})
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(X, part), chunks=(50,), config=KEEP_ZEROS)
    return tmp_path / "sparse.zarr"


def chunk_files(path: Path) -> list[Path]:
    return sorted(file for file in (path / "c").rglob("*") if file.is_file())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# ------------------------------------------------------------------------------------------------ what it is


def test_a_dense_store_is_described(dense):
    found = info(dense)
    assert (found["name"], found["kind"], found["zarr_format"]) == ("dense.zarr", "zarr array", 3)
    assert (found["shape"], found["dtype"]) == ([100, 4], "float64")
    assert (found["chunks"], found["shards"], found["n_chunks"]) == ([10, 4], None, 10)
    assert (found["sparse"], found["nnz"], found["density"]) == (False, None, None)
    assert found["memory_bytes"] == 3200
    assert found["disk_bytes"] == sum(file.stat().st_size for file in dense.rglob("*") if file.is_file())
    assert (found["feature_names"], found["row_ids"], found["image_shape"]) == (False, False, None)
    assert found["problems"] == []


def test_a_sparse_store_is_described(sparse):
    found = info(sparse)
    assert found["kind"] == "zarr CSR group"
    assert (found["shape"], found["dtype"], found["sparse"]) == ([100, 30], "float32", True)
    assert found["nnz"] == 600
    assert found["density"] == 0.2
    assert found["memory_bytes"] == 600 * (4 + 4) + 101 * 8
    assert found["problems"] == []


def test_names_ids_and_images_of_converted_files_are_seen(tmp_path):
    (tmp_path / "x.csv").write_text("id,a,b\nr,1,2\ns,3,4\n")
    convert(tmp_path / "x.csv", tmp_path / "x.zarr")
    found = info(tmp_path / "x.zarr", check=True)
    assert found["kind"] == "AnnData store, X dense"
    assert (found["feature_names"], found["row_ids"], found["problems"]) == (True, True, [])
    (tmp_path / "y.svm").write_text("1 1:1\n2 1:2 2:1\n")
    convert(tmp_path / "y.svm", tmp_path / "y.zarr")
    found = info(tmp_path / "y.zarr", check=True)
    assert found["kind"] == "AnnData store, X CSR"
    assert (found["feature_names"], found["row_ids"], found["problems"]) == (False, False, [])
    np.save(tmp_path / "z.npy", np.arange(24, dtype=np.uint8).reshape(2, 4, 3))
    convert(tmp_path / "z.npy", tmp_path / "z.zarr")
    assert info(tmp_path / "z.zarr")["image_shape"] == [4, 3]


def test_looking_reads_no_chunk_unless_asked_to_check(dense, sparse, monkeypatch):
    def read(*_: object) -> None:
        raise AssertionError("numbers were read")

    monkeypatch.setattr(zarr.Array, "__getitem__", read)
    assert info(dense)["problems"] == []
    assert info(sparse)["problems"] == []
    assert any("numbers were read" in sentence for sentence in info(dense, check=True)["problems"])


def test_a_sharded_store_and_a_zip_and_an_open_array_are_described(tmp_path):
    X = np.ones((64, 3))
    zarr.create_array(tmp_path / "s.zarr", data=X, chunks=(8, 3), shards=(32, 3), config=KEEP_ZEROS)
    found = info(tmp_path / "s.zarr")
    assert (found["chunks"], found["shards"], found["n_chunks"]) == ([8, 3], [32, 3], 2)
    with zarr.storage.ZipStore(tmp_path / "x.zip", mode="w") as store:
        zarr.create_array(store, data=X, chunks=(8, 3), config=KEEP_ZEROS)
    assert info(str(tmp_path / "x.zip"))["shape"] == [64, 3]
    assert info(zarr.open_array(tmp_path / "s.zarr", mode="r"))["shape"] == [64, 3]


def test_arrays_in_memory_are_described_too():
    found = info(np.zeros((5, 3), np.float32))
    assert (found["kind"], found["shape"], found["memory_bytes"]) == ("ndarray of numpy", [5, 3], 60)
    found = info(sp.eye_array(4, format="csr"))
    assert (found["sparse"], found["nnz"], found["density"]) == (True, 4, 0.25)
    assert "Expected 2D" in info(np.zeros(4))["problems"][0]


@pytest.mark.parametrize("check", [True, False])
def test_what_is_found_is_json_and_reads_well(dense, sparse, check):
    for path in (dense, sparse):
        found = info(path, check=check)
        assert json.loads(json.dumps(found)) == found
        text = format_info(found)
        assert text.splitlines()[0] == found["name"]
        for words in (f"100 x {found['shape'][1]}", found["dtype"], "none found", "into 10 clusters"):
            assert words in text
        assert ("all numbers were read" in text) is check


def test_notes_come_before_memory_and_methods_that_need_the_same_share_a_line():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[:, 1] = 4.0
    lines = format_info(info(X, check=True)).splitlines()
    notes, memory = lines.index("  notes"), lines.index("  memory that a fit into 10 clusters takes, all included")
    assert notes < memory
    assert "1 of 3 features are the same in all rows" in lines[notes + 1]
    told = [re.fullmatch(r"    - about (.*?): (.*)", line) for line in lines[memory + 1 :]]
    assert len({line[1] for line in told}) == len(told) < len(METHODS)
    assert sorted(method for line in told for method in line[2].split(", ")) == sorted(METHODS)


# -------------------------------------------------------------------------------------------- what is wrong with it


def test_a_path_without_anything_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        info(tmp_path / "none.zarr")


def test_a_missing_chunk_is_named_with_its_rows(dense, sparse):
    chunk_files(dense)[3].unlink()
    found = info(dense)
    (sentence,) = found["problems"]
    assert "1 of 10 chunks are missing, c/3/0 (rows 30 to 39)" in sentence
    assert found["shape"] == [100, 4]
    assert f"- {sentence}" in format_info(found)
    chunk_files(sparse / "data")[1].unlink()
    (sentence,) = info(sparse)["problems"]
    indptr = zarr.open_group(sparse, mode="r")["indptr"][:]
    first, last = np.searchsorted(indptr, 50, side="right") - 1, np.searchsorted(indptr, 100)
    assert f"sparse.zarr/data: 1 of 12 chunks are missing, c/1 (rows {first} to {last - 1})" in sentence


def test_a_chunk_that_cannot_be_read_is_named_when_checked_and_the_others_are_looked_at(tmp_path, monkeypatch):
    X = np.random.default_rng(2).standard_normal((3000, 5))
    X[2500, 2] = np.nan
    np.save(tmp_path / "x.npy", X)
    convert(tmp_path / "x.npy", tmp_path / "x.zarr", chunk_rows=1000)
    flip(chunk_files(tmp_path / "x.zarr")[1])
    monkeypatch.setattr("dmmc.info.check_numbers.READ_BYTES", 1)
    assert info(tmp_path / "x.zarr")["problems"] == []
    unreadable, nan = info(tmp_path / "x.zarr", check=True)["problems"]
    assert "x.zarr: a chunk of rows 1000 to 1999 could not be read" in unreadable
    assert "NaN at row 2500, column 2" in nan


def test_nan_infinity_and_constant_features_are_found_when_checked(tmp_path):
    lines = ["a,b,c", "1,5,0.5", ",5,1", "inf,5,2", "nan,5,-inf"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    convert(tmp_path / "x.csv", tmp_path / "x.zarr")
    nan, infinity, constant = info(tmp_path / "x.zarr", check=True)["problems"]
    assert "contains NaN at row 1, column 0 ('a') and 1 more" in nan
    assert "contains infinity at row 2, column 0 ('a') and 1 more" in infinity
    assert "1 of 3 features are the same in all rows and say nothing: column 1 ('b')." in constant


@pytest.mark.parametrize("stored", [True, False])
def test_sparse_numbers_are_checked_with_the_zeros_that_are_not_stored(tmp_path, stored):
    X = sp.csr_array(np.array([[1, 0, 2, 7.0], [1, 0, 0, np.nan], [1, 0, 2, 8]]))
    if stored:
        np.savez(tmp_path / "x.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape)
        convert(tmp_path / "x.npz", tmp_path / "x.zarr")
    nan, constant = info(tmp_path / "x.zarr" if stored else X, check=True)["problems"]
    assert "NaN at row 1, column 3" in nan
    assert "2 of 4 features are the same in all rows and say nothing: column 0, column 1." in constant


def test_stores_that_cannot_be_clustered_say_why(tmp_path, dense):
    (tmp_path / "x.csv").write_text("1,2\n")
    (tmp_path / "empty").mkdir()
    zarr.create_array(tmp_path / "line.zarr", data=np.arange(5))
    zarr.create_array(tmp_path / "text.zarr", data=np.array([["a", "b"]], np.dtypes.StringDType()))
    zarr.create_array(tmp_path / "complex.zarr", data=np.array([[1j, 2]]), config=KEEP_ZEROS)
    group = zarr.open_group(tmp_path / "two.zarr", mode="w")
    for name in ("first", "second"):
        group.create_array(name, data=np.eye(3), config=KEEP_ZEROS)
    columns = zarr.open_group(tmp_path / "csc.zarr", mode="w")
    columns.attrs.update({"encoding-type": "csc_matrix", "shape": [3, 3]})
    for name, words in {
        "x.csv": "dmmc convert",
        "empty": "not a zarr store",
        "line.zarr": "Expected 2D array",
        "text.zarr": "holds text",
        "complex.zarr": "Complex data",
        "two.zarr": "one of 'first', 'second'",
        "csc.zarr": "stored by columns",
    }.items():
        found = info(tmp_path / name, check=True)
        assert any(words in sentence for sentence in found["problems"]), (name, found["problems"])
        assert words in format_info(found)
    assert info(tmp_path / "line.zarr")["shape"] == [5], "what is known is told"
    assert info(tmp_path / "two.zarr", "second")["shape"] == [3, 3]
    assert "no 'third'" in info(tmp_path / "two.zarr", component="third")["problems"][0]


def test_parts_of_a_csr_group_that_do_not_fit_are_told(sparse):
    group = zarr.open_group(sparse, mode="r+")
    group["indptr"].resize((90,))
    assert "indptr of shape (90,) does not fit 100 rows" in " ".join(info(sparse)["problems"])
    assert info(sparse, check=True)["problems"]
    del group["indices"]
    assert "lacks indices" in " ".join(info(sparse)["problems"])


def test_a_column_that_does_not_exist_is_found_when_checked(sparse):
    group = zarr.open_group(sparse, mode="r+")
    group["indices"][7] = 30
    row = int(np.searchsorted(group["indptr"][:], 7, side="right")) - 1
    assert f"row {row} has column 30, but there are 30 columns" in " ".join(info(sparse, check=True)["problems"])


def test_many_tiny_chunks_are_a_problem(tmp_path):
    zarr.create_array(tmp_path / "x.zarr", shape=(3000, 2), chunks=(2, 2), dtype="f8")
    assert any("1500 chunks of 32 bytes are slow" in sentence for sentence in info(tmp_path / "x.zarr")["problems"])


def test_an_image_shape_that_does_not_fit_is_told_and_hostile_attributes_are_only_shown(dense):
    for hostile in ([28, 28], "<script>", {"a": 1}, [True, "x"], -4):
        zarr.open_array(dense, mode="r+").attrs["image_shape"] = hostile
        found = info(dense)
        assert found["image_shape"] is None
        assert "image_shape" in found["problems"][0]


# ----------------------------------------------------------------------------------------------------------- memory


def test_every_method_has_a_formula():
    assert {method.memory for method in api.METHODS.values()} == FORMULAS.keys()


def test_more_rows_features_and_clusters_need_more_memory():
    for needed in FORMULAS.values():
        base = needed(Size(10_000, 100, None, 10_000 * 400), 10)
        assert needed(Size(1_000_000, 100, None, 1_000_000 * 400), 10) > base + 396_000_000 * 0.9
        assert needed(Size(10_000, 1000, None, 10_000 * 400), 10) > base
        assert needed(Size(10_000, 100, None, 10_000 * 400), 50) > base


@pytest.mark.parametrize(("shape", "k"), [((300_000, 120), 2), ((1500, 12_000), 10)])
@pytest.mark.slow
def test_a_fit_needs_what_was_said_within_a_factor_of_two(tmp_path, shape, k):
    if not Path("/proc/self/status").exists():
        pytest.skip("peak memory is read from /proc, which this system does not have")
    rng = np.random.default_rng(3)
    X = rng.standard_normal(shape, dtype=np.float32)
    X += rng.standard_normal((k, shape[1]), dtype=np.float32)[rng.integers(k, size=shape[0])]
    np.save(tmp_path / "x.npy", X)
    convert(tmp_path / "x.npy", tmp_path / "x.zarr")
    code = f"""
        import dmmc
        dmmc.fit({str(tmp_path / "x.zarr")!r}, {k}, method="cpmmc")
        print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    measured = 1024 * int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    said = info(tmp_path / "x.zarr", n_clusters=k)["fit_bytes"]["cpmmc"]
    assert measured / 2 < said < measured * 2
