"""Clusters beside a truth: rows are the same by their ids, whatever their order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dmmc
from dmmc.app.truth import score_files
from dmmc.results.label_arrays import read_labels

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
CLASSES = np.repeat(["x", "y", "z"], 20)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result whose rows have ids, beside the truth in another order."""
    folder = tmp_path_factory.mktemp("truth")
    rng = np.random.default_rng(0)
    rows = 9.0 * np.repeat(np.eye(3), 20, axis=0) + rng.normal(size=(60, 3))
    frame = pd.DataFrame(rows, columns=["a", "b", "c"], index=[f"r{i}" for i in range(60)])
    dmmc.fit(frame, 3, out=folder / "out", method="cpmmc", max_iter=20)
    write_truth(folder / "truth.csv", [(f"r{i}", CLASSES[i]) for i in rng.permutation(60)])
    return folder


def write_truth(path: Path, rows: list[tuple[str, str]]) -> None:
    """A csv of ids and classes."""
    path.write_text("id,class\n" + "".join(f"{name},{of}\n" for name, of in rows))


@pytest.mark.parametrize("name", ["out", "out/labels.csv", "out/labels.zarr"])
def test_a_truth_in_another_order_is_compared_by_ids(cli: Any, name: str, result: Path) -> None:
    labels = read_labels(str(result / "out"))
    wanted = dmmc.score(labels, CLASSES)
    assert wanted["accuracy"] > 0.9
    assert score_files(str(result / name), str(result / "truth.csv")) == wanted
    assert score_files(str(result / "truth.csv"), str(result / name))["accuracy"] == wanted["accuracy"]
    done = cli("score", result / name, result / "truth.csv", "--json")
    assert json.loads(done.stdout) == pytest.approx(wanted)


def test_labels_of_other_rows_are_refused(result: Path, tmp_path: Path) -> None:
    known = [(f"r{i}", str(CLASSES[i])) for i in range(60)]
    for rows, words in (
        (known[1:], "the truth has no class of row 'r0'"),
        ([*known, ("r60", "x")], "out has no label of row 'r60', which .*truth.csv has"),
        ([*known[::-1], ("r7", "x")], "the truth has more than one class of row 'r7'"),
    ):
        write_truth(tmp_path / "truth.csv", rows)
        with pytest.raises(dmmc.InputError, match=words):
            score_files(str(result / "out"), str(tmp_path / "truth.csv"))


def test_labels_without_ids_are_compared_in_their_order(result: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "truth.npy", CLASSES)
    labels = read_labels(str(result / "out"))
    np.save(tmp_path / "labels.npy", labels)
    wanted = dmmc.score(labels, CLASSES)
    assert score_files(str(result / "out"), str(tmp_path / "truth.npy")) == wanted
    write_truth(tmp_path / "truth.csv", [(f"s{i}", str(CLASSES[i])) for i in range(60)])
    assert score_files(str(tmp_path / "labels.npy"), str(tmp_path / "truth.csv")) == wanted
