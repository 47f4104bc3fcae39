"""Reading from a real S3 server, by a proxy that answers badly: the same bits, or a sentence that names a chunk."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from object_server import BUCKET, KEY, SECRET, Faults, FaultyProxy, ObjectServer

import dmmc
from dmmc.convert import convert
from dmmc.data.open import open_dataset
from dmmc.data.zarr_rows import open_stored
from dmmc.errors import InputError, StoreFailed
from dmmc.info import format_info, info
from dmmc.stores.urls import find_remote

SMALL = {"chunks": (4, 64)}
FAULTS = Faults(busy=0.05, reset=0.02)


def rows_of(source: Any) -> Any:
    (block,) = open_dataset(source).blocks
    return block.rows


def bits(run: Any) -> tuple[bytes, ...]:
    return run.labels.tobytes(), run.model.coef_.tobytes(), run.model.intercept_.tobytes()


# --------------------------------------------------------------------------------------------- what can be read


@pytest.mark.parametrize(
    "how",
    [
        {"zarr_format": 2},
        {"compressors": [zarr.codecs.ZstdCodec(level=3), zarr.codecs.Crc32cCodec()]},
        {"compressors": zarr.codecs.BloscCodec(cname="zstd"), "chunks": (50, 32)},
        {"chunks": (20, 64), "shards": (200, 64)},
    ],
    ids=["version 2", "zstd", "blosc", "shards"],
)
def test_stores_of_all_kinds_are_read_as_from_disk(
    how: Any, put_digits: Any, options: dict[str, Any], server: ObjectServer
) -> None:
    url, path = put_digits(f"kinds{abs(hash(str(how)))}.zarr", **how)
    wanted = rows_of(path)
    assert np.array_equal(rows_of(find_remote(url, options)), wanted)
    stored = open_stored(find_remote(url, options))
    assert stored is not None
    assert np.array_equal(np.concatenate([stored.reader.read(0, 277), stored.reader.read(277, 600)]), wanted)
    web = f"{server.address}/{BUCKET}/{url.rpartition('/')[2]}?X-Signature=abcdefgh"
    assert np.array_equal(rows_of(web), wanted)


def test_sparse_rows_and_names_are_read_as_from_disk(
    options: dict[str, Any], server: ObjectServer, tmp_path: Path
) -> None:
    (tmp_path / "s.svm").write_text("".join(f"1 {i % 7 + 1}:{i} 9:0.5\n" for i in range(200)))
    convert(tmp_path / "s.svm", tmp_path / "s.zarr")
    url = server.put_folder(tmp_path / "s.zarr", "s.zarr")
    wanted, found = rows_of(tmp_path / "s.zarr"), rows_of(find_remote(url, options))
    for one, other in zip(wanted[:3], found[:3], strict=True):
        assert np.array_equal(one, other)


def test_memory_is_a_store_of_this_process(load_digits: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", load_digits)
    done = convert(tmp_path / "x.npy", "memory://digits.zarr", chunk_rows=100)
    assert done["target"] == "memory://digits.zarr"
    assert np.array_equal(rows_of("memory://digits.zarr"), load_digits)
    assert open_stored("memory://digits.zarr") is None, "workers do not see it"


def test_thousands_of_small_chunks_are_asked_for_many_at_a_time(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy, load_digits: Any
) -> None:
    url, _ = put_digits("small.zarr", **SMALL)
    n_chunks = 150
    assert np.array_equal(rows_of(find_remote(url, options)), load_digits)
    assert n_chunks < proxy.asked < n_chunks + 10, "one request a chunk"
    assert proxy.most_at_once > 16
    assert zarr.config.get("async.concurrency") == 10, "other reads of this process are as before"


# ----------------------------------------------------------------------------------------------- what passes


def test_a_fit_and_a_prediction_from_s3_equal_those_from_disk_whatever_answers_are_spoilt(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy
) -> None:
    url, path = put_digits("spoilt.zarr", **SMALL)
    here = dmmc.fit(path, 3, method="cpmmc")
    proxy.faults = FAULTS._replace(cut=0.02, short=0.02)
    there = dmmc.fit(url, 3, method="cpmmc", storage_options=options)
    assert bits(there) == bits(here)
    labels = here.model.predict(url, storage_options=options)
    assert np.array_equal(labels, here.labels)
    assert {"busy", "reset", "cut", "short"} <= set(proxy.spoilt), "all kinds of faults came"
    scores = here.model.decision_function(url, storage_options=options)
    assert np.array_equal(scores, here.model.decision_function(path))


@pytest.mark.slow
def test_workers_read_and_write_by_themselves_with_the_same_bits(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy, clients: Any, server: ObjectServer
) -> None:
    url, path = put_digits("workers.zarr", **SMALL)
    here = dmmc.fit(path, 3, method="cpmmc")
    proxy.faults = FAULTS
    there = dmmc.fit(url, 3, method="cpmmc", storage_options=options, scheduler=clients(2))
    assert bits(there) == bits(here)
    model, to = here.model, f"s3://{BUCKET}/by-workers.zarr"
    assert np.array_equal(model.predict(url, storage_options=options, scheduler=clients(2)), here.labels)
    assert model.predict(url, out=to, storage_options=options, scheduler=clients(2)) == to
    proxy.faults = Faults()
    assert np.array_equal(zarr.open(f"{to}", storage_options=server.options())[:], here.labels)
    with pytest.raises(InputError, match=f"{to} exists"):
        model.predict(url, out=to, storage_options=options)
    with pytest.raises(InputError, match="is in the memory of this process, which workers do not see"):
        model.predict(url, out="memory://labels.zarr", storage_options=options, scheduler=clients(2))


# ------------------------------------------------------------------------------------------- what does not pass


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", ["busy", "reset", "cut", "short", "slow", "denied"])
def test_a_chunk_that_never_comes_is_named_and_nothing_hangs(
    fault: str, put_digits: Any, options: dict[str, Any], proxy: FaultyProxy
) -> None:
    url, _ = put_digits("never.zarr")
    proxy.faults = Faults(**{fault: 1.0}, only="c/3/0")
    began = time.monotonic()
    with pytest.raises(StoreFailed, match=rf"^never\.zarr: rows \d+ to \d+ could not be read: {url}/c/3/0 ") as error:
        open_dataset(find_remote(url, options))
    assert time.monotonic() - began < 60, "many times the limit, as machines may be busy"
    assert SECRET not in str(error.value)


@pytest.mark.usefixtures("impatient")
def test_data_that_cannot_be_decoded_are_named_after_several_tries(
    put_digits: Any, options: dict[str, Any], server: ObjectServer, proxy: FaultyProxy
) -> None:
    url, _ = put_digits("damaged.zarr", compressors=zarr.codecs.Crc32cCodec())
    data = server.get("damaged.zarr/c/3/0")
    server.put("damaged.zarr/c/3/0", data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    with pytest.raises(StoreFailed, match=rf"could not be read: {url}/c/3/0 came damaged each time") as error:
        open_dataset(find_remote(url, options))
    assert "checksum" in str(error.value)


@pytest.mark.parametrize("way", ["s3", "http"])
def test_a_missing_chunk_is_an_error_that_names_it_and_not_zeros(
    way: str, put_digits: Any, options: dict[str, Any], server: ObjectServer, load_digits: Any
) -> None:
    url, _ = put_digits(f"lost-{way}.zarr")
    source = find_remote(url, options) if way == "s3" else f"{server.address}/{BUCKET}/lost-http.zarr"
    stored = open_stored(source)
    assert stored is not None
    server.delete(f"lost-{way}.zarr/c/3/0")
    with pytest.raises(StoreFailed, match=r"rows 0 to 599 could not be read: .*/c/3/0 is missing"):
        stored.reader.read(0, 600)
    sentence = r"c/3/0 \(rows 300 to 399\), and zarr would" if way == "s3" else "c/3/0 is missing"
    with pytest.raises(StoreFailed, match=sentence):
        open_dataset(source)
    told = info(source, check=True)
    assert told["refused"]
    assert any("c/3/0" in problem for problem in told["problems"])


def test_a_missing_chunk_ends_a_fit_on_workers_too(
    put_digits: Any, options: dict[str, Any], server: ObjectServer, clients: Any
) -> None:
    put_digits("gone.zarr")
    server.delete("gone.zarr/c/3/0")
    web = f"{server.address}/{BUCKET}/gone.zarr"  # only workers notice, as it cannot be listed
    with pytest.raises(StoreFailed, match=rf"{web}/c/3/0 is missing"):
        dmmc.fit(web, 3, method="cpmmc", scheduler=clients(2))


def test_an_empty_shard_is_an_error_and_not_zeros(
    put_digits: Any, options: dict[str, Any], server: ObjectServer
) -> None:
    url, _ = put_digits("shards.zarr", chunks=(20, 64), shards=(200, 64))
    server.put("shards.zarr/c/1/0", b"")
    with pytest.raises(StoreFailed, match=r"1 of 3 chunks are missing, c/1/0 \(rows 200 to 399\)"):
        open_dataset(find_remote(url, options))
    with pytest.raises(StoreFailed, match=r"c/1/0 is empty"):
        open_dataset(f"{server.address}/{BUCKET}/shards.zarr")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (f"s3://{BUCKET}/nowhere.zarr", "there is no zarr store at s3://bucket/nowhere.zarr"),
        ("s3://other-bucket/x.zarr", "there is no zarr store at s3://other-bucket/x.zarr"),
        (f"s3://{BUCKET}/nowhere.csv", "s3://bucket/nowhere.csv does not exist"),
    ],
)
def test_a_store_that_is_not_there_is_said_at_once(url: str, sentence: str, options: dict[str, Any]) -> None:
    began = time.monotonic()
    with pytest.raises(InputError, match=sentence):
        dmmc.fit(url, 2, method="cpmmc", storage_options=options)
    assert time.monotonic() - began < 60, "and not after dmmc.store.total"


def test_a_store_that_lets_nobody_in_is_said_at_once_with_the_names_of_options_alone(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy
) -> None:
    url, _ = put_digits("closed.zarr")
    proxy.faults = Faults(denied=1.0)
    began = time.monotonic()
    with pytest.raises(InputError, match=f"{url} cannot be read, as access was refused") as error:
        open_dataset(find_remote(url, options))
    assert time.monotonic() - began < 60, "and not after dmmc.store.total"
    assert "storage options given: key, secret, endpoint_url" in str(error.value)
    assert KEY not in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_is_not_there_or_says_nothing_is_waited_for_within_limits(
    put_digits: Any, options: dict[str, Any], proxy: FaultyProxy
) -> None:
    url, _ = put_digits("silent.zarr")
    proxy.faults = Faults(slow=1.0, seconds=30)
    for given in (options, {**options, "endpoint_url": "http://127.0.0.1:9"}):
        began = time.monotonic()
        with pytest.raises(StoreFailed, match=r"silent\.zarr/\S+ had no good answer in 6 s \(dmmc\.store\.total"):
            open_dataset(find_remote(url, given))
        assert time.monotonic() - began < 60


# ------------------------------------------------------------------------------------------------ what is said


def test_info_says_whether_missing_chunks_are_noticed(
    put_digits: Any, options: dict[str, Any], server: ObjectServer
) -> None:
    url, path = put_digits("told.zarr")
    listed, unlisted = info(find_remote(url, options)), info(f"{server.address}/{BUCKET}/told.zarr")
    here = info(path)
    same = [name for name in here if name not in ("listed", "reading")]
    assert {name: listed[name] for name in same} == {name: here[name] for name in same}
    assert (here["listed"], listed["listed"], unlisted["listed"]) == (None, True, False)
    assert "missing chunks  are noticed: their names were listed" in format_info(listed)
    assert "missing chunks  show only when they are read" in format_info(unlisted)
    assert "missing chunks" not in format_info(here)


def test_a_group_that_cannot_be_listed_asks_which_matrix_is_meant(
    server: ObjectServer, tmp_path: Path, load_digits: Any
) -> None:
    zarr.create_group(str(tmp_path / "g.zarr")).create_array("rows", data=load_digits)
    server.put_folder(tmp_path / "g.zarr", "g.zarr")
    web = f"{server.address}/{BUCKET}/g.zarr"
    with pytest.raises(InputError, match="say which matrix is meant with component="):
        open_dataset(web)
    assert open_dataset(web, "rows").n_rows == 600
    zarr.consolidate_metadata(str(tmp_path / "g.zarr"))
    server.put_folder(tmp_path / "g.zarr", "g.zarr")
    assert open_dataset(web).n_rows == 600


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    def fail(*_: object, **__: object) -> None:
        raise ImportError("no gcsfs")

    monkeypatch.setattr(fsspec, "url_to_fs", fail)
    with pytest.raises(InputError, match=r"gs://b/x\.zarr needs gcsfs; install with: pip install gcsfs"):
        open_dataset("gs://b/x.zarr")
