"""Damage to a store is noticed: by checksums of its chunks, by the seal of stores that dmmc writes, or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from dmmc.convert import convert
from dmmc.data.open import open_dataset
from dmmc.data.readers.store_checks import has_checksums, refuse_odd_files
from dmmc.data.zarr_rows import open_stored
from dmmc.errors import InputError
from dmmc.info import format_info, info

CODECS: list[tuple[dict[str, Any], bool]] = [
    ({"compressors": None}, False),
    ({"compressors": ZstdCodec()}, False),
    ({"compressors": ZstdCodec(checksum=True)}, True),
    ({"compressors": BloscCodec()}, False),
    ({"compressors": GzipCodec()}, True),
    ({"compressors": [BloscCodec(), Crc32cCodec()]}, True),
    ({"compressors": None, "shards": (20, 3)}, False),
    ({"compressors": Crc32cCodec(), "shards": (20, 3)}, True),
    ({"compressors": None, "zarr_format": 2}, False),
    ({"compressors": numcodecs.Blosc(), "zarr_format": 2}, False),
    ({"compressors": numcodecs.Zlib(), "zarr_format": 2}, True),
    ({"compressors": None, "filters": numcodecs.CRC32(), "zarr_format": 2}, True),
]


def write(path: Path, **options: Any) -> Any:
    rows = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    array = zarr.create_array(str(path), shape=rows.shape, chunks=(10, 3), dtype=rows.dtype, **options)
    array[...] = rows
    return array


@pytest.mark.parametrize(("options", "checked"), CODECS)
def test_a_store_says_whether_its_chunks_have_checksums(options: dict[str, Any], checked: bool, tmp_path: Path) -> None:
    array = write(tmp_path / "X.zarr", **options)
    assert has_checksums(array) is checked
    found = info(tmp_path / "X.zarr")
    assert (found["checksums"], found["sealed"]) == (checked, False)
    words = "to chunks is noticed" if checked else "may not be noticed: this store has no checksums"
    assert words in format_info(found)


@pytest.mark.parametrize(("options", "checked"), [(options, checked) for options, checked in CODECS if checked])
def test_every_flipped_bit_of_a_chunk_with_a_checksum_is_noticed(
    options: dict[str, Any], checked: bool, tmp_path: Path
) -> None:
    write(tmp_path / "X.zarr", **options)
    wanted = open_dataset(tmp_path / "X.zarr").blocks[0].rows
    path = next(path for path in sorted((tmp_path / "X.zarr").rglob("*")) if path.name in ("0", "0.0"))
    if path.is_dir():
        path = path / "0"
    data = path.read_bytes()
    for place in range(0, len(data), max(1, len(data) // 40)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        try:
            found = open_dataset(tmp_path / "X.zarr").blocks[0].rows
        except InputError:
            continue
        assert np.array_equal(found, wanted), place  # a header that says nothing of the numbers


@pytest.fixture
def stores(tmp_path: Path) -> dict[str, Path]:
    """Stores that dmmc convert wrote: an array, an AnnData group, CSR rows."""
    rows = np.round(np.random.default_rng(0).standard_normal((60, 3)), 3)
    np.save(tmp_path / "rows.npy", rows.astype(np.float32))
    lines = ["id,a,b,c", *(f"r{i},{','.join(map(str, row))}" for i, row in enumerate(rows))]
    (tmp_path / "named.csv").write_text("\n".join(lines))
    (tmp_path / "sparse.svm").write_text("".join(f"1 1:{row[0]} 3:{row[2]}\n" for row in rows))
    for name in ("rows.npy", "named.csv", "sparse.svm"):
        convert(tmp_path / name, tmp_path / f"{name}.zarr", **({} if name == "sparse.svm" else {"chunk_rows": 20}))
    return {name.partition(".")[0]: tmp_path / f"{name}.zarr" for name in ("rows.npy", "named.csv", "sparse.svm")}


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    said = json.loads(path.read_text())
    change(said)
    path.write_text(json.dumps(said))


def exchange(one: Path, other: Path) -> None:
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "rows fewer": ("rows", lambda store: rewrite(store / "zarr.json", lambda said: said.update(shape=[59, 3]))),
    "another dtype": ("rows", lambda store: rewrite(store / "zarr.json", lambda said: said.update(data_type="int32"))),
    "chunks exchanged": ("rows", lambda store: exchange(store / "c/0/0", store / "c/1/0")),
    "names exchanged": (
        "named",
        lambda store: rewrite(store / "var" / "_index" / "zarr.json", lambda said: said.update(shape=[2])),
    ),
    "no AnnData any more": (
        "named",
        lambda store: rewrite(store / "zarr.json", lambda said: said["attributes"].update({"encoding-type": "x"})),
    ),
    "no attributes any more": (
        "named",
        lambda store: rewrite(store / "zarr.json", lambda said: said.pop("attributes")),
    ),
    "a column more": (
        "sparse",
        lambda store: rewrite(
            store / "X" / "zarr.json" if (store / "X").exists() else store / "zarr.json",
            lambda said: said["attributes"].update(shape=[60, 4]),
        ),
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_store_that_was_changed_after_dmmc_wrote_it_is_refused_however_it_is_read(
    what: str, stores: dict[str, Path]
) -> None:
    name, change = CHANGES[what]
    store = stores[name]
    found = info(store, check=True)
    assert found["checksums"]
    assert found["sealed"]
    assert "is noticed: chunks have checksums, and a seal covers the rest" in format_info(found)
    open_dataset(store)
    change(store)
    for read in (open_dataset, open_stored):
        with pytest.raises(InputError, match="is not what dmmc wrote: its metadata or its chunks were changed"):
            read(store)
    if what != "no attributes any more":
        assert any("is not what dmmc wrote" in problem for problem in info(store, check=True)["problems"])


def test_a_change_that_was_meant_is_read_when_the_seal_is_removed(stores: dict[str, Path]) -> None:
    rewrite(stores["rows"] / "zarr.json", lambda said: said.update(shape=[59, 3]))
    rewrite(stores["rows"] / "zarr.json", lambda said: said["attributes"].pop("dmmc-seal"))
    assert open_dataset(stores["rows"]).n_rows == 59


def test_a_sealed_matrix_can_be_copied_and_named(stores: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(stores["named"] / "X", tmp_path / "alone.zarr")
    assert open_dataset(tmp_path / "alone.zarr").n_rows == 60
    assert open_dataset(stores["named"], "X").n_rows == 60


def test_an_empty_shard_is_a_missing_chunk_and_not_zeros(tmp_path: Path) -> None:
    write(tmp_path / "X.zarr", shards=(20, 3))
    (tmp_path / "X.zarr" / "c" / "1" / "0").write_bytes(b"")
    for read in (open_dataset, open_stored):
        with pytest.raises(InputError, match=r"1 of 3 chunks are missing, c/1/0 \(rows 20 to 39\)"):
            read(tmp_path / "X.zarr")


def test_chunks_longer_than_any_number_of_rows_are_refused_in_a_sentence(tmp_path: Path) -> None:
    write(tmp_path / "X.zarr", compressors=None)
    path = tmp_path / "X.zarr" / "zarr.json"
    metadata = json.loads(path.read_text())
    metadata["chunk_grid"]["configuration"]["chunk_shape"][0] = 10**39
    path.write_text(json.dumps(metadata))
    stored = open_stored(tmp_path / "X.zarr")
    assert stored is not None
    with pytest.raises(InputError, match="a chunk of rows 0 to 59 could not be read"):
        stored.reader.read(*np.array([0, 60]))


@pytest.mark.parametrize("what", ["pipe", "link"])
def test_something_else_than_a_file_in_a_store_is_refused_and_not_waited_for(what: str, tmp_path: Path) -> None:
    write(tmp_path / "X.zarr")
    path = tmp_path / "X.zarr" / "c" / "1" / "0"
    path.unlink()
    os.mkfifo(path) if what == "pipe" else path.symlink_to("/dev/zero")
    with pytest.raises(InputError, match=r"c/1/0 is neither a file nor a folder"):
        open_dataset(tmp_path / "X.zarr")
    os.mkfifo(tmp_path / "pipe.zarr")
    with pytest.raises(InputError, match=r"pipe\.zarr is neither a file nor a folder"):
        open_dataset(tmp_path / "pipe.zarr")


def test_a_store_with_links_to_files_and_folders_is_fine(tmp_path: Path) -> None:
    write(tmp_path / "X.zarr")
    (tmp_path / "X.zarr" / "c").rename(tmp_path / "elsewhere")
    (tmp_path / "X.zarr" / "c").symlink_to(tmp_path / "elsewhere")
    refuse_odd_files(str(tmp_path / "X.zarr"))


def test_a_zip_that_is_no_archive_any_more_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "X.zarr")
    shutil.make_archive(str(tmp_path / "X"), "zip", tmp_path / "X.zarr")
    data = (tmp_path / "X.zip").read_bytes()
    (tmp_path / "X.zip").write_bytes(data[: len(data) // 2] + bytes(200) + data[len(data) // 2 + 200 :])
    with pytest.raises(InputError):
        open_dataset(tmp_path / "X.zip")
