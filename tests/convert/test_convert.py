"""A conversion leaves a whole store, or nothing; what is in the store."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import anndata
import numpy as np
import pandas as pd
import pytest
import zarr
from converted import ZARR_WARNINGS, leftovers, numbers, written

import dmmc
from dmmc import InputError
from dmmc.convert import convert
from dmmc.data.open import open_dataset

pytestmark = ZARR_WARNINGS


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
    ours = dmmc.fit(tmp_path / "digits.zarr", 2, random_state=0, method="cpmmc").labels
    assert np.array_equal(ours, dmmc.fit(X.astype(np.uint8), 2, random_state=0, method="cpmmc").labels)
