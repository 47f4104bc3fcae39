"""What lies in a result folder is of one fit: files of another one are refused, and so is what has lost its seal."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forgeries import downgrade, permute
from stops import Stop, stop_after

import dmmc
from dmmc.results import array_folder, belonging, contents
from dmmc.results.earlier import read_earlier
from dmmc.results.label_arrays import read_labels

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

USES: dict[str, Callable[[Path], Any]] = {
    "load": dmmc.load,
    "load the model": lambda out: dmmc.load(out / "model"),
    "report": contents.write_report,
    "match": read_earlier,
    "score": lambda out: read_labels(str(out)),
}
NO_SEAL = r"is damaged: it has no seal, but was written by a version of dmmc that seals"


def make_rows(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(90, 4)) + 6.0 * rng.permutation(np.arange(90) % 3)[:, None]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two whole results of different rows; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("results")
    for name, seed in (("out", 0), ("other", 1)):
        dmmc.fit(make_rows(seed), 3, method="cpmmc", out=folder / name)
    return folder


@pytest.fixture
def out(results: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(results / "out", tmp_path / "out"))


def put_in(source: Path, out: Path, part: str) -> None:
    target = out / part
    shutil.rmtree(target) if target.is_dir() else target.unlink()
    (shutil.copytree if (source / part).is_dir() else shutil.copy)(source / part, target)


def change_run(out: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    run = json.loads((out / "run.json").read_text())
    change(run)
    (out / "run.json").write_text(json.dumps(run))


def make_old(out: Path) -> None:
    """Let a result look as one from before seals."""
    shutil.rmtree(out / "centres")
    run = json.loads((out / "run.json").read_text())
    run.pop("seals")
    run["parameters"] = {name: value for name, value in run["parameters"].items() if name not in belonging.LATER}
    (out / "run.json").write_text(json.dumps(run))
    labels = json.loads((out / "labels.zarr" / "zarr.json").read_text())
    labels["attributes"] = {}
    (out / "labels.zarr" / "zarr.json").write_text(json.dumps(labels))
    description = json.loads((out / "model" / "model.json").read_text())
    content = description["content"]
    content.pop("margin_scale")
    content["params"] = {name: value for name, value in content["params"].items() if name not in belonging.LATER}
    (out / "model" / "model.json").write_text(json.dumps(description))
    for part in ("model", "summary"):
        downgrade(out / part, part)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("part", ["model", "summary", "centres", "labels.zarr", "run.json"])
def test_a_part_of_another_fit_is_refused(part: str, use: str, out: Path, results: Path) -> None:
    USES[use](out)
    put_in(results / "other", out, part)
    with pytest.raises(dmmc.InputError, match=r"out/[a-z.]+ is not of the fit that .*out/run\.json tells of"):
        USES[use](out)


@pytest.mark.parametrize("command", ["predict", "pairs", "report", "score", "fit --match", "fit --set init"])
def test_every_command_refuses_a_model_of_another_fit(
    command: str, out: Path, results: Path, cli: Any, tmp_path: Path
) -> None:
    put_in(results / "other", out, "model")
    np.save(tmp_path / "rows.npy", make_rows(0))
    (tmp_path / "truth.csv").write_text("".join(f"{i % 3}\n" for i in range(90)))
    words = {
        "predict": ("predict", out, "rows.npy", "-o", "labels.csv"),
        "pairs": ("pairs", out, "rows.npy", "-o", "pairs.csv"),
        "report": ("report", out),
        "score": ("score", out, "truth.csv"),
        "fit --match": ("fit", "rows.npy", "-k", "3", "-o", "new", "--match", out),
        "fit --set init": ("fit", "rows.npy", "-k", "3", "-o", "new", "--method", "cpmmc", "--set", f"init={out}"),
    }[command]
    done = cli(*words, cwd=tmp_path)
    assert done.code == 2
    assert "out/model is not of the fit that" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("use", USES)
def test_without_listed_seals_the_fingerprint_tells(use: str, out: Path, results: Path) -> None:
    change_run(out, lambda run: run.pop("seals"))
    USES[use](out)
    put_in(results / "other", out, "model")
    with pytest.raises(dmmc.InputError, match=r"out/model is not of the fit"):
        USES[use](out)


def test_a_model_of_the_same_rows_but_of_another_fit_is_refused(out: Path, tmp_path: Path) -> None:
    dmmc.fit(make_rows(0), 3, method="cpmmc", C=1.0, out=tmp_path / "again")
    put_in(tmp_path / "again", out, "model")
    with pytest.raises(dmmc.InputError, match=r"out/model is not of the fit"):
        dmmc.load(out)


@pytest.mark.parametrize("part", ["model", "summary", "centres"])
@pytest.mark.parametrize("traces", ["all", "no listed seals"])
def test_what_was_downgraded_is_refused(part: str, traces: str, out: Path) -> None:
    if traces != "all":
        change_run(out, lambda run: run.pop("seals"))
    downgrade(out / part, part, permute(out / part, {"model": "coef", "summary": "sizes"}.get(part, part)))
    for use in USES.values():
        with pytest.raises(dmmc.InputError, match=f"out/{part} {NO_SEAL}"):
            use(out)


def test_a_downgraded_model_is_refused_wherever_it_was_put(out: Path, tmp_path: Path) -> None:
    downgrade(out / "model", "model")
    shutil.copytree(out / "model", tmp_path / "alone")
    with pytest.raises(dmmc.InputError, match=rf"alone/model\.json {NO_SEAL}"):
        dmmc.load(tmp_path / "alone")


def test_a_result_from_before_seals_is_read_and_a_note_says_so(out: Path, cli: Any, tmp_path: Path) -> None:
    wanted = dmmc.load(out).predict(make_rows(0))
    make_old(out)
    with pytest.warns(dmmc.ClusteringWarning, match=r"model\.json was written by an earlier version and has no seal"):
        assert np.array_equal(dmmc.load(out).predict(make_rows(0)), wanted)
    read_earlier(out)
    contents.write_report(out)
    np.save(tmp_path / "rows.npy", make_rows(0))
    done = cli("predict", out, "rows.npy", "-o", "labels.csv", cwd=tmp_path)
    assert (done.code, "dmmc: note: " in done.stderr, done.stderr.count("\n")) == (0, True, 1)
    change_run(out, lambda run: run["versions"].update(dmmc="0.1.0"))
    with pytest.raises(dmmc.InputError, match=NO_SEAL):
        dmmc.load(out)


def test_a_downgraded_checkpoint_is_refused(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"source": make_rows(0), "n_clusters": 3, "method": "cpmmc", "out": tmp_path / "out"}
    with pytest.raises(Stop):
        dmmc.fit(**asked, callbacks=stop_after(2))
    downgrade(tmp_path / "out" / "checkpoint", "checkpoint")
    with pytest.raises(dmmc.InputError, match=rf"checkpoint\.json {NO_SEAL}"):
        dmmc.fit(**asked, resume=True)


def test_a_copy_of_a_model_is_loaded_whatever_lies_beside_it(out: Path, tmp_path: Path) -> None:
    shutil.copytree(out / "model", tmp_path / "served" / "model")
    (tmp_path / "served" / "run.json").write_text('{"data": {}, "seals": {"model": "x"}}')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dmmc.load(tmp_path / "served")
        dmmc.load(out / "model")


def test_labels_that_were_changed_on_purpose_are_read(out: Path) -> None:
    """The sentence about a broken seal says how: without the attribute, nothing is compared."""
    metadata = json.loads((out / "labels.zarr" / "zarr.json").read_text())
    metadata["attributes"] = {}
    (out / "labels.zarr" / "zarr.json").write_text(json.dumps(metadata))
    assert len(read_labels(str(out))) == 90


def test_a_missing_part_is_left_to_whoever_reads_it(out: Path) -> None:
    shutil.rmtree(out / "summary")
    (out / "centres" / "centres.json").write_text("{")
    dmmc.load(out).predict(make_rows(0))
    assert set(belonging.list_seals(out)) == {"model", "labels.zarr"}
    assert array_folder.SEAL in array_folder.read(out / "model", "model")[0]


def test_a_table_of_labels_that_was_sorted_is_not_matched_with(tmp_path: Path) -> None:
    names = [f"r{i}" for i in range(90)]
    table = {"name": names, **{str(i): values for i, values in enumerate(make_rows(0).T)}}
    dmmc.fit(pd.DataFrame(table), 3, method="cpmmc", out=tmp_path / "out")
    assert read_earlier(tmp_path / "out").ids is not None
    path = tmp_path / "out" / "labels.csv"
    head, *lines = path.read_text().splitlines()
    path.write_text("\n".join([head, *sorted(lines, key=lambda line: line.split(",")[1])]) + "\n")
    with pytest.raises(dmmc.InputError, match=r"labels\.csv has other labels than labels\.zarr, or its rows are in"):
        read_earlier(tmp_path / "out")
