"""Stores and files written to an object store and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from object_server import BUCKET, Faults, FaultyProxy, ObjectServer

import dmmc
from dmmc.convert import convert
from dmmc.data.open import open_dataset
from dmmc.errors import InputError, StoreFailed
from dmmc.info import info
from dmmc.results.label_arrays import create_arrays, open_to_write, read_labels, write_arrays
from dmmc.sources.describe import describe
from dmmc.stores import transfer
from dmmc.stores.urls import find_remote


@pytest.fixture
def files(tmp_path: Path, load_digits: Any) -> dict[str, Path]:
    """The same numbers as npy and as csv with names."""
    np.save(tmp_path / "x.npy", load_digits)
    names = ",".join(f"pixel {i}" for i in range(64))
    np.savetxt(tmp_path / "x.csv", load_digits, "%g", delimiter=",", header=names, comments="")
    return {kind: tmp_path / f"x.{kind}" for kind in ("npy", "csv")}


@pytest.mark.parametrize("kind", ["npy", "csv"])
def test_a_file_is_converted_to_s3_and_read_back_though_answers_are_spoilt(
    kind: str, files: Any, options: dict[str, Any], proxy: FaultyProxy, server: ObjectServer, tmp_path: Path
) -> None:
    url = f"s3://{BUCKET}/converted-{kind}.zarr"
    proxy.faults = Faults(busy=0.05, reset=0.03)
    done = convert(files[kind], url, chunk_rows=20, storage_options=options)
    here = convert(files[kind], tmp_path / "here.zarr", chunk_rows=20)
    same = [name for name in here if name not in ("target", "seconds")]
    assert {name: done[name] for name in same} == {name: here[name] for name in same}
    assert done["target"] == url
    found, wanted = open_dataset(find_remote(url, options)), open_dataset(tmp_path / "here.zarr")
    assert np.array_equal(found.blocks[0].rows, wanted.blocks[0].rows)
    assert found.feature_names == wanted.feature_names
    told = info(find_remote(url, options), check=True)
    assert told["sealed"]
    assert told["disk_bytes"] == here["bytes_on_disk"]
    sent = {key.removeprefix(f"converted-{kind}.zarr/") for key in server.list(f"converted-{kind}.zarr/")}
    kept = [path for path in (tmp_path / "here.zarr").rglob("*") if path.is_file()]
    assert sent == {path.relative_to(tmp_path / "here.zarr").as_posix() for path in kept}, "and no mark"


def test_a_store_on_s3_is_replaced_only_when_that_is_asked_for(files: Any, options: dict[str, Any]) -> None:
    url = f"s3://{BUCKET}/twice.zarr"
    convert(files["csv"], url, storage_options=options)
    with pytest.raises(InputError, match=f"{url} exists"):
        convert(files["npy"], url, storage_options=options)
    convert(files["npy"], url, storage_options=options, overwrite=True)
    assert open_dataset(find_remote(url, options)).feature_names is None


def test_what_is_no_store_is_not_replaced(files: Any, options: dict[str, Any], server: ObjectServer) -> None:
    server.put("diary/1999.txt", b"dear")
    with pytest.raises(InputError, match="s3://bucket/diary is not a zarr store: only such a one is overwritten"):
        convert(files["npy"], f"s3://{BUCKET}/diary", storage_options=options, overwrite=True)
    assert server.list("diary") == ["diary/1999.txt"]


@pytest.mark.usefixtures("impatient")
def test_a_store_that_could_not_be_written_leaves_nothing_behind(
    files: Any, options: dict[str, Any], proxy: FaultyProxy, server: ObjectServer
) -> None:
    url = f"s3://{BUCKET}/half.zarr"
    proxy.faults = Faults(busy=1.0, only="c/3/0")
    with pytest.raises(StoreFailed, match=f"{url}/c/3/0 had no good answer"):
        convert(files["npy"], url, chunk_rows=20, storage_options=options)
    assert server.list("half.zarr") == []


def test_what_a_killed_process_left_is_no_store_and_is_replaced(
    files: Any, options: dict[str, Any], server: ObjectServer
) -> None:
    url = f"s3://{BUCKET}/killed.zarr"
    place = find_remote(url, options)
    transfer.begin(place)
    server.put("killed.zarr/c/0/0", b"half")
    server.put("killed.zarr/c/9/9", b"of an other shape")
    with pytest.raises(InputError, match=f"there is no zarr store at {url}"):
        open_dataset(place)
    convert(files["npy"], url, storage_options=options)
    assert server.list("killed.zarr") == ["killed.zarr/c/0/0", "killed.zarr/zarr.json"]


@pytest.mark.parametrize("way", ["s3", "http"])
def test_a_file_at_a_url_is_a_source(
    way: str, files: Any, options: dict[str, Any], proxy: FaultyProxy, server: ObjectServer, monkeypatch: Any
) -> None:
    monkeypatch.setattr(transfer, "PART", 10_000)
    server.put("files/x.csv", files["csv"].read_bytes())
    url = f"s3://{BUCKET}/files/x.csv" if way == "s3" else f"{proxy.address}/{BUCKET}/files/x.csv?sig=abcdef"
    given = options if way == "s3" else None
    proxy.faults = Faults(busy=0.05, reset=0.03, cut=0.05)
    run = dmmc.fit(url, 3, method="cpmmc", storage_options=given)
    assert np.array_equal(run.labels, dmmc.fit(files["csv"], 3, method="cpmmc").labels)
    assert run.info["data"]["name"] == "x.csv"
    assert describe(url, storage_options=given)["shape"] == [600, 64]


def test_labels_and_scores_appear_together_or_not_at_all(options: dict[str, Any], server: ObjectServer) -> None:
    labels, scores = (find_remote(f"s3://{BUCKET}/{name}.zarr", options) for name in ("labels", "scores"))
    values = np.arange(70_000, dtype=np.int32) % 3

    def fail(made: Any) -> None:
        open_to_write(made[labels])[:] = values
        assert server.list("labels.zarr/c") == ["labels.zarr/c/0", "labels.zarr/c/1"]
        raise KeyError

    wanted = {labels: (values.shape, np.int32), scores: ((3,), float)}
    with pytest.raises(KeyError), create_arrays(wanted) as made:
        fail(made)
    assert server.list("labels.zarr") == server.list("scores.zarr") == []
    write_arrays({labels: values, scores: np.zeros(3)})
    assert np.array_equal(read_labels(labels), values)
    assert np.array_equal(zarr.open(str(scores), storage_options=server.options())[:], np.zeros(3))
    server.put("labels.zarr/c/1", server.get("labels.zarr/c/0"))
    with pytest.raises(InputError):
        read_labels(labels)
    server.delete("labels.zarr/c/1")
    with pytest.raises(StoreFailed, match=r"1 of 2 chunks are missing, c/1"):
        read_labels(labels)
