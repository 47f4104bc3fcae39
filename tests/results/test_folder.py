"""The output folder: what it holds, who may write it, and that it is whole or not there."""

from __future__ import annotations

import csv
import errno
import fcntl
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import zarr
from forgeries import write_sealed
from stops import Stop, stop_after
from waits import end_of

import dmmc
from dmmc import report
from dmmc.results import array_folder, atomic_files, belonging, contents, folder
from dmmc.results.folder import Out
from dmmc.results.label_arrays import read_labels

pytestmark = pytest.mark.filterwarnings(
    "ignore::dmmc.ClusteringWarning"
)  # tiny random data are no clusters, and the fits say so

QUICK = {"random_state": 0, "max_iter": 20}


@pytest.fixture
def rows() -> Any:
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(30, 4)) + 4 * i for i in range(2)]).astype(np.float32)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------------------- what it holds


def test_an_out_holds_what_is_promised_and_nothing_else(fitted: Path) -> None:
    wanted = ["centres", "history.jsonl", "labels.csv", "labels.zarr", "model", "profile.csv"]
    wanted += ["run.json", "scores.zarr", "summary"]
    assert [name for name in names(fitted) if name != "report.html"] == wanted
    assert (fitted / "report.html").exists() == report.available()
    assert names(fitted.parent) == ["out"]
    assert names(fitted / "model") == ["coef.npy", "intercept.npy", "model.json"]


def test_labels_and_scores_are_checksummed_arrays_of_all_rows(fitted: Path, digits_store: Path) -> None:
    labels = zarr.open(str(fitted / "labels.zarr"), mode="r")
    scores = zarr.open(str(fitted / "scores.zarr"), mode="r")
    assert (labels.dtype, labels.shape) == (np.int32, (1797,))
    assert (scores.dtype, scores.shape) == (np.float64, (1797, 10))
    assert np.array_equal(labels[:], scores[:].argmax(axis=1))
    assert np.array_equal(scores[:], dmmc.load(fitted).decision_function(digits_store))
    chunk = next((fitted / "labels.zarr" / "c").rglob("*"))
    assert any("crc32c" in str(codec).lower() for codec in labels.metadata.codecs), chunk


def test_run_json_says_all_that_made_the_result(fitted: Path, digits_store: Path) -> None:
    run = json.loads((fitted / "run.json").read_text())
    assert set(run) == {
        "method",
        "command",
        "parameters",
        "choices",
        "seed",
        "data",
        "seals",
        "sizes",
        "names",
        "sure",
        "objective",
        "gap",
        "passes",
        "started",
        "versions",
        "warnings",
        "timings",
        "peak_memory_mb",
        "reading",
        "map",
    }
    assert run["command"].startswith(f"dmmc fit --method cpmmc {digits_store} -k 10 -o {fitted} --scores")
    assert set(run["parameters"]) == set(dmmc.CuttingPlaneMMC().get_params())
    assert run["parameters"]["n_clusters"] == 10
    assert run["seed"] == run["parameters"]["random_state"] == 0
    assert run["choices"]["method"] == "cpmmc"
    assert run["choices"]["ended"] == "converged"
    data = run["data"]
    assert (data["name"], data["n_rows"], data["n_features"]) == ("digits.zarr", 1797, 64)
    assert (data["dtype"], data["sparse"]) == ("float32", False)
    assert len(data["fingerprint"]) == 64
    assert run["sizes"] == np.bincount(zarr.open(str(fitted / "labels.zarr"), mode="r")[:]).tolist()
    assert run["sizes"] == sorted(run["sizes"], reverse=True)
    assert run["versions"]["dmmc"] == dmmc.__version__
    assert {"python", "numpy", "scipy", "numba", "zarr", "cpu", "machine"} <= set(run["versions"])
    phases = {"read", "measure", "start", "search", "label"}
    assert set(run["timings"]) == {*phases, "total"}
    assert sum(run["timings"][name] for name in phases) == pytest.approx(run["timings"]["total"], abs=0.05)
    assert 50 < run["peak_memory_mb"] < 4000
    assert run["warnings"] == []


def test_the_fingerprint_is_that_of_the_numbers(rows: Any, tmp_path: Path, store_of: Callable[..., Path]) -> None:
    first = dmmc.fit(rows, 2, **QUICK).info["data"]["fingerprint"]
    assert dmmc.fit(store_of(tmp_path / "x.zarr", rows, 7), 2, **QUICK).info["data"]["fingerprint"] == first
    rows[3, 2] += 1e-3
    assert dmmc.fit(rows, 2, **QUICK).info["data"]["fingerprint"] != first


def test_the_history_has_a_line_for_each_pass(fitted: Path) -> None:
    lines = [json.loads(line) for line in (fitted / "history.jsonl").read_text().splitlines()]
    run = json.loads((fitted / "run.json").read_text())
    assert [line["iteration"] for line in lines] == list(range(1, run["passes"] + 1))
    assert {"objective", "best", "round", "gap", "planes", "flips", "seconds"} <= set(lines[0])
    assert lines[-1]["best"] == run["objective"]


def test_the_history_can_be_followed_while_it_is_written(
    start: Callable[..., Any], tmp_path: Path, store_of: Callable[..., Path]
) -> None:
    rows = np.random.default_rng(0).normal(size=(40_000, 40)).astype(np.float32)
    store = store_of(tmp_path / "x.zarr", rows)
    endless = ("--set", "epsilon=1e-9", "--set", "init=random", "--set", "n_init=4", "--max-seconds", 60)
    process = start("fit", "--method", "cpmmc", store, "-k", 10, "-o", tmp_path / "out", *endless, "--quiet")
    history = tmp_path / "out" / "history.jsonl"
    seen: list[int] = []
    end = time.monotonic() + 60
    while len(set(seen)) < 5:
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        text = history.read_text() if history.exists() else ""
        lines = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
        assert text == "" or text.endswith("\n")
        assert [line["iteration"] for line in lines] == list(range(1, len(lines) + 1))
        seen.append(len(lines))
        time.sleep(0.02)
    assert seen == sorted(seen)
    process.send_signal(signal.SIGINT)
    end_of(process, 20)


def test_row_ids_of_a_frame_are_in_labels_csv(rows: Any, tmp_path: Path) -> None:
    ids = [f'row {i}, "quoted"\n=1+1 ü\ud800' for i in range(len(rows))]
    run = dmmc.fit(pd.DataFrame(rows, columns=list("abcd"), index=ids), 2, out=tmp_path / "out", **QUICK)
    with open(tmp_path / "out" / "labels.csv", newline="", encoding="utf-8") as file:
        header, *lines = csv.reader(file)
    assert header == ["id", "label", "name", "confidence", "runner_up"]
    assert [line[0].replace("\\ud800", "\ud800") for line in lines] == ids
    assert [int(line[1]) for line in lines] == run.labels.tolist()
    assert [line[2] for line in lines] == [run.names[label] for label in run.labels]
    assert np.allclose([float(line[3]) for line in lines], run.confidence, atol=1e-6)
    assert [int(line[4]) for line in lines] == (1 - run.labels).tolist()
    assert dmmc.load(tmp_path / "out").feature_names_in_.tolist() == list("abcd")


def test_row_ids_of_an_anndata_store_are_in_labels_csv(rows: Any, tmp_path: Path) -> None:
    anndata = pytest.importorskip("anndata")
    frames = {
        "obs": pd.DataFrame(index=[f"cell{i}" for i in range(len(rows))]),
        "var": pd.DataFrame(index=["g1", "g2", "g3", "g4"]),
    }
    anndata.AnnData(rows, **frames).write_zarr(tmp_path / "cells.zarr")
    run = dmmc.fit(tmp_path / "cells.zarr", 2, out=tmp_path / "out", **QUICK)
    table = pd.read_csv(tmp_path / "out" / "labels.csv")
    assert table["id"].tolist() == list(frames["obs"].index)
    assert table["label"].tolist() == run.labels.tolist()


def test_rows_without_ids_are_numbered_in_labels_csv(rows: Any, tmp_path: Path) -> None:
    dmmc.fit(pd.DataFrame(rows), 2, out=tmp_path / "out", **QUICK)
    assert pd.read_csv(tmp_path / "out" / "labels.csv")["id"].tolist() == list(range(len(rows)))
    assert json.loads((tmp_path / "out" / "run.json").read_text())["data"]["ids"] is False


def test_ids_that_do_not_fit_the_rows_are_refused_before_the_fit(rows: Any, tmp_path: Path) -> None:
    group = zarr.create_group(str(tmp_path / "x.zarr"), attributes={"encoding-type": "anndata"})
    group.create_array("X", data=rows)
    obs = group.create_group("obs", attributes={"_index": "_index"})
    obs.create_array("_index", data=np.array(["one", "two"], dtype="U3"))
    with pytest.raises(dmmc.InputError, match="2 row ids, but 60 are wanted"):
        dmmc.fit(tmp_path / "x.zarr", 2, out=tmp_path / "out", **QUICK)
    assert names(tmp_path) == ["x.zarr"]


def test_a_saved_run_is_what_out_writes(rows: Any, tmp_path: Path) -> None:
    run = dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    assert run.save(tmp_path / "saved", scores=True) == tmp_path / "saved"
    assert names(tmp_path / "saved") == sorted([*names(tmp_path / "out"), "scores.zarr"])
    for name in ("run.json", "history.jsonl", "model/model.json", "model/coef.npy", "report.html"):
        one, other = ((tmp_path / folder / name).read_bytes() for folder in ("out", "saved"))
        assert one == other, name
    with pytest.raises(dmmc.InputError, match="exists"):
        run.save(tmp_path / "saved")
    with pytest.raises(dmmc.InputError, match="6 numbers, but a row has 4"):
        run.save(tmp_path / "other", image_shape=(2, 3))
    assert names(tmp_path) == ["out", "saved"]


def test_a_store_of_images_is_shown_as_images(rows: Any, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    for name, shape, images in (("good", [2, 2], True), ("other", [2, 3], False), ("odd", "2x2", False)):
        zarr.create_array(str(tmp_path / f"{name}.zarr"), data=rows, attributes={"image_shape": shape})
        run = dmmc.fit(tmp_path / f"{name}.zarr", 2, out=tmp_path / name, **QUICK)
        run.save(tmp_path / f"{name} again")
        for written in (name, f"{name} again"):
            assert ("<img src=" in (tmp_path / written / "report.html").read_text()) == images, written


def test_numbers_of_numpy_as_parameters_do_not_cost_the_result(rows: Any, tmp_path: Path) -> None:
    params: dict[str, Any] = {"C": np.float32(10), "max_iter": np.int64(9), "n_init": np.int8(1)}
    dmmc.fit(rows, np.int64(2), out=tmp_path / "out", **params)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["parameters"]["C"] == 10
    assert dmmc.load(tmp_path / "out").get_params()["max_iter"] == 9


def test_a_page_that_cannot_be_made_does_not_cost_the_result(
    rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "available", lambda: True)
    monkeypatch.setattr(report, "render", lambda page: 1 / 0)
    with pytest.warns(dmmc.ClusteringWarning, match="the report could not be made .ZeroDivisionError"):
        dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out" / "report.html").exists()
    assert len(dmmc.load(tmp_path / "out").predict(rows)) == 60


def test_without_plotly_everything_else_is_written(rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "available", lambda: False)
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    assert names(tmp_path / "out") == [
        *("centres", "history.jsonl", "labels.csv", "labels.zarr", "model", "profile.csv", "run.json", "summary")
    ]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("run.json", "[]"),
        ("run.json", "{"),
        ("run.json", "[" * 100_000),
        ("history.jsonl", "1\n"),
        ("history.jsonl", "{"),
        ("summary/summary.json", "{}"),
        ("summary/map_xy.npy", ""),
    ],
)
def test_a_report_of_a_damaged_result_is_refused(name: str, change: str, rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    (tmp_path / "out" / name).write_text(change)
    with pytest.raises(dmmc.InputError):
        contents.write_report(tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [
        {"names": ["a"]},
        {"names": 3},
        {"ids": [1] * 24},
        {"n_features": "many"},
        {"image_shape": [2, -2]},
        {"image_shape": "2x2"},
        {"image_shape": 3},
    ],
)
def test_a_report_of_a_made_up_summary_is_refused(change: dict[str, Any], rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    folder = tmp_path / "out" / "summary"
    content, arrays = array_folder.read(folder, "summary")
    write_sealed(folder, "summary", {**content, **change}, arrays)
    with pytest.raises(dmmc.InputError):
        contents.write_report(tmp_path / "out")


# ------------------------------------------------------------------------------------------------ who may write it


def test_two_runs_cannot_write_one_out(tmp_path: Path) -> None:
    with Out(tmp_path / "out"), pytest.raises(dmmc.InputError, match="another run is writing"), Out(tmp_path / "out"):
        pytest.fail("both were let in")
    assert names(tmp_path) == []


def test_a_lock_removed_by_its_last_holder_is_not_mistaken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, calls = tmp_path / ".out.lock", []
    real = fcntl.flock

    def flock(file: Any, how: int) -> None:
        calls.append(how)
        if len(calls) == 1:  # the other run ends between our opening of the file and our locking it
            lock.unlink()
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with Out(tmp_path / "out"):
        assert len(calls) == 2
        with pytest.raises(dmmc.InputError, match="another run is writing"), Out(tmp_path / "out"):
            pytest.fail("both were let in")
    assert names(tmp_path) == []


def test_a_lock_file_that_nobody_holds_blocks_nobody(tmp_path: Path) -> None:
    (tmp_path / ".out.lock").write_text("")
    with Out(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()
    assert names(tmp_path) == []


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("keep")
    (tmp_path / ".out.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic links"), Out(tmp_path / "out"):
        pass
    assert (tmp_path / "precious").read_text() == "keep"


@pytest.mark.parametrize("what", ["pipe", "folder"])
def test_a_lock_that_is_no_file_is_refused_and_not_waited_for(what: str, tmp_path: Path) -> None:
    lock = tmp_path / ".out.lock"
    os.mkfifo(lock) if what == "pipe" else lock.mkdir()
    with pytest.raises(dmmc.InputError, match=r"\.out\.lock is no plain file"), Out(tmp_path / "out"):
        pass


@pytest.mark.parametrize("name", [".out.old", ".out.partial", ".out.partial.new"])
def test_a_pipe_in_the_place_of_a_folder_that_is_put_aside_is_not_waited_for(
    name: str, rows: Any, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / name)
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    assert belonging.read_run(tmp_path / "out")["data"]["n_rows"] == 60


def test_a_history_that_is_a_pipe_is_refused_and_not_waited_for(rows: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stop):
        dmmc.fit(rows, 2, out=out, callbacks=stop_after(1), method="cpmmc")
    (out / "history.jsonl").unlink()
    os.mkfifo(out / "history.jsonl")
    with pytest.raises(dmmc.InputError, match=r"history\.jsonl is no plain file"):
        dmmc.fit(rows, 2, out=out, resume=True, method="cpmmc")
    assert (out / "checkpoint").is_dir()


@pytest.mark.parametrize("name", ["run.json", "history.jsonl", "summary/summary.json"])
def test_a_report_does_not_wait_for_a_pipe(name: str, rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    (tmp_path / "out" / name).unlink()
    os.mkfifo(tmp_path / "out" / name)
    with pytest.raises(dmmc.InputError):
        contents.write_report(tmp_path / "out")


def test_labels_whose_description_was_changed_are_not_scored(rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    path = tmp_path / "out" / "labels.zarr" / "zarr.json"
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "data_type": "uint32"}))
    with pytest.raises(dmmc.InputError, match="is not what dmmc wrote"):
        read_labels(str(tmp_path / "out"))


def test_a_file_system_without_locks_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Out(tmp_path / "out"):
        assert (tmp_path / "out").is_dir()


def test_folders_made_for_an_out_go_with_it_when_the_run_fails(rows: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyError), Out(tmp_path / "a" / "b" / "out"):
        raise KeyError
    assert names(tmp_path) == []
    dmmc.fit(rows, 2, out=tmp_path / "a" / "b" / "out", **QUICK)
    assert names(tmp_path / "a" / "b") == ["out"]


def test_an_out_behind_a_link_is_replaced_where_it_is(rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "far" / "out", **QUICK)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "out")
    with pytest.raises(dmmc.InputError, match="link exists"):
        dmmc.fit(rows, 3, out=tmp_path / "link", **QUICK)
    dmmc.fit(rows, 3, out=tmp_path / "link", overwrite=True, **QUICK)
    assert (tmp_path / "link").is_symlink()
    assert dmmc.load(tmp_path / "far" / "out").n_clusters == 3
    assert names(tmp_path / "far") == ["out"]


def test_a_dangling_link_is_an_out_to_be_made_at_its_end(rows: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "far")
    dmmc.fit(rows, 2, out=tmp_path / "link", **QUICK)
    assert dmmc.load(tmp_path / "far").n_clusters == 2


# --------------------------------------------------------------------------------------------------- old or new


@pytest.mark.parametrize("exchange", [True, False])
def test_overwriting_replaces_everything(exchange: bool, rows: Any, tmp_path: Path, monkeypatch: Any) -> None:
    if not exchange:
        monkeypatch.setattr(atomic_files, "_exchange", lambda one, other: False)
    frame = pd.DataFrame(rows, index=[f"r{i}" for i in range(60)])
    dmmc.fit(frame, 2, out=tmp_path / "out", scores=True, **QUICK)
    dmmc.fit(rows, 3, out=tmp_path / "out", overwrite=True, **QUICK)
    assert dmmc.load(tmp_path / "out").n_clusters == 3
    assert "scores.zarr" not in names(tmp_path / "out")
    assert pd.read_csv(tmp_path / "out" / "labels.csv")["id"].tolist() == list(range(60))
    assert names(tmp_path) == ["out"]


def test_a_new_result_takes_the_place_of_the_old_one_in_one_step(
    rows: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    if not atomic_files._exchange(tmp_path / "one", tmp_path / "other"):
        pytest.skip("disk: this file system cannot exchange two folders")
    out = tmp_path / "out"
    run = dmmc.fit(rows, 2, out=out, **QUICK)
    renamed: list[Path] = []
    real = os.rename
    monkeypatch.setattr(os, "rename", lambda old, new: (renamed.append(Path(old)), real(old, new)))
    run.save(out, overwrite=True)
    assert renamed
    assert out not in renamed


def test_a_run_that_fails_leaves_the_earlier_result(rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    rows[7, 1] = np.nan
    with pytest.raises(dmmc.InputError, match="row 7"):
        dmmc.fit(rows, 2, out=tmp_path / "out", overwrite=True, **QUICK)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_result_left_aside_by_a_kill_between_two_renames_is_put_back(rows: Any, tmp_path: Path) -> None:
    dmmc.fit(rows, 2, out=tmp_path / "out", **QUICK)
    os.rename(tmp_path / "out", tmp_path / ".out.old")
    with pytest.raises(dmmc.InputError, match="exists"):
        dmmc.fit(rows, 3, out=tmp_path / "out", **QUICK)
    assert dmmc.load(tmp_path / "out").n_clusters == 2
    assert names(tmp_path) == ["out"]


def test_what_a_killed_run_left_beside_is_cleared_away(rows: Any, tmp_path: Path) -> None:
    for name in (".out.partial", ".out.old"):
        (tmp_path / name / "model").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / folder.MARK).write_text("")
    dmmc.fit(rows, 2, out=tmp_path / "out", overwrite=True, **QUICK)
    assert names(tmp_path) == ["out"]
