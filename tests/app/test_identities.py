"""Clusters keep their numbers from night to night, and a fit starts from an earlier result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dmmc

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
QUICK: dict[str, Any] = {"method": "cpmmc", "max_iter": 30}
CENTRES = 8.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [2, 2]])


def night(sizes: list[int], first: int = 0, seed: int = 0, ids: bool = True) -> tuple[pd.DataFrame, Any]:
    """Customers of segments of these sizes, and the segment of each; the index goes on from `first`."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    index = [f"c{first + i}" for i in range(len(truth))] if ids else None
    return pd.DataFrame(CENTRES[truth] + rng.normal(size=(len(truth), 2)), columns=["a", "b"], index=index), truth


def owners(labels: Any, truth: Any) -> dict[int, int]:
    """The label that most rows of each segment have."""
    return {int(s): int(np.bincount(labels[truth == s] + 1).argmax() - 1) for s in np.unique(truth)}


@pytest.mark.parametrize("ids", [True, False], ids=["row ids", "centres"])
def test_every_cluster_keeps_its_number_when_rows_are_added(ids: bool, tmp_path: Path) -> None:
    rows, truth = night([900, 800, 700, 600], ids=ids)
    more, more_truth = night([0, 20, 40, 240], first=3000, seed=1, ids=ids)
    monday = dmmc.fit(rows, 4, out=tmp_path / "monday", **QUICK)
    both, of = pd.concat([rows, more], ignore_index=not ids), np.concatenate([truth, more_truth])
    tuesday = dmmc.fit(both, 4, out=tmp_path / "tuesday", match=tmp_path / "monday", random_state=3, **QUICK)
    assert len(both) == 3300
    assert owners(tuesday.labels, of) == owners(monday.labels, truth)
    plain = dmmc.fit(both, 4, random_state=3, **QUICK)
    assert owners(plain.labels, of) != owners(monday.labels, truth)  # the sizes have changed places
    told = json.loads((tmp_path / "tuesday" / "run.json").read_text())
    assert told["matched"] == {
        "by": "row ids" if ids else "centres",
        "kept": [[i, i] for i in range(4)],
        "new": [],
        "gone": [],
    }
    assert any("4 of 4 clusters keep their numbers" in warned for warned in told["warnings"])
    model = dmmc.load(tmp_path / "tuesday")
    assert np.array_equal(model.predict(both), tuesday.labels)
    assert tuesday.info["sizes"] == np.bincount(tuesday.labels).tolist()


@pytest.mark.parametrize("ids", [True, False], ids=["row ids", "centres"])
def test_a_cluster_that_vanished_is_said(ids: bool, tmp_path: Path) -> None:
    rows, truth = night([900, 800, 700, 600], ids=ids)
    monday = dmmc.fit(rows, 4, out=tmp_path / "monday", **QUICK)
    left, of = rows[truth != 2], truth[truth != 2]
    more, _ = night([0, 0, 0, 0, 500], first=3000, seed=1, ids=ids)
    both = pd.concat([left, more], ignore_index=not ids)
    tuesday = dmmc.fit(both, 4, match=tmp_path / "monday", **QUICK)
    gone = owners(monday.labels, truth)[2]
    assert (tuesday.info["matched"]["gone"], tuesday.info["matched"]["new"]) == ([gone], [gone])
    assert any(f"cluster {gone} is gone" in warned for warned in tuesday.info["warnings"])
    kept = {s: label for s, label in owners(monday.labels, truth).items() if s != 2}
    assert owners(tuesday.labels[: len(of)], of) == kept


@pytest.mark.parametrize("more", [{"n_clusters": 2}, {"n_clusters": 3, "method": "mmc-sg"}], ids=["two", "tree"])
def test_models_of_one_hyperplane_and_of_a_tree_are_renumbered(more: dict[str, Any], tmp_path: Path) -> None:
    k = more["n_clusters"]
    rows, _ = night([300, 200, 100][:k])
    options = {"method": "cpmmc", "max_iter": 30, **more}
    first = dmmc.fit(rows, out=tmp_path / "one", **options)
    flipped = np.concatenate([np.repeat(np.arange(len(rows)), 1), np.repeat(np.flatnonzero(first.labels == k - 1), 4)])
    again = dmmc.fit(rows.iloc[flipped], match=tmp_path / "one", **options)
    assert np.mean(again.labels[: len(rows)] == first.labels) > 0.95
    assert np.array_equal(again.model.predict(rows.iloc[flipped]), again.labels)


def test_a_fit_starts_from_an_earlier_result(tmp_path: Path) -> None:
    rows, _ = night([300, 200, 100])
    first = dmmc.fit(rows, 3, out=tmp_path / "one", **QUICK)
    again = dmmc.fit(rows, init=tmp_path / "one", out=tmp_path / "two", **QUICK)
    told = dmmc.fit(rows, 3, init=dmmc.load(tmp_path / "one").predict(rows), **QUICK)
    assert again.model.n_clusters == 3
    assert np.array_equal(again.labels, told.labels)
    assert again.history[-1]["objective"] == told.history[-1]["objective"]
    assert json.loads((tmp_path / "two" / "run.json").read_text())["choices"]["init"] == str(tmp_path / "one")
    assert np.array_equal(dmmc.load(tmp_path / "two").predict(rows), again.labels)
    assert np.array_equal(first.labels, again.labels)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"match": "nowhere"}, "nowhere is not a folder that dmmc wrote"),
        ({"init": "./nowhere"}, "nowhere is not a folder that dmmc wrote"),
        ({"init": "nowhere"}, "init is 'nowhere'; choose one of .* or the folder of an earlier result"),
    ],
)
def test_an_earlier_result_that_is_none_is_refused(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(dmmc.InputError, match=words):
        dmmc.fit(night([30, 20])[0], 2, out=tmp_path / "out", **options, **QUICK)
    assert not (tmp_path / "out").exists()


def test_an_earlier_result_of_other_columns_or_more_clusters_is_refused(tmp_path: Path) -> None:
    rows, _ = night([60, 50, 40], ids=False)
    dmmc.fit(rows, 3, out=tmp_path / "one", **QUICK)
    wider, out = rows.to_numpy()[:, [0, 1, 1]], tmp_path / "out"
    phases: list[dict[str, Any]] = []
    with pytest.raises(dmmc.InputError, match="is of rows with 2 columns"):
        dmmc.fit(wider, 3, match=tmp_path / "one", out=out, progress=phases.append, **QUICK)
    assert {event["phase"] for event in phases} == {"read"}  # before the search, not after
    assert not out.exists()
    with pytest.raises(dmmc.InputError, match="has 3 clusters, and 2 are asked for"):
        dmmc.fit(rows, 2, init=tmp_path / "one", out=out, **QUICK)
    assert not out.exists()
    with pytest.raises(dmmc.InputError, match="expecting 2 features"):
        dmmc.fit(wider, 3, init=tmp_path / "one", out=out, **QUICK)
    assert not out.exists()


def test_match_and_start_and_unassigned_work_at_the_terminal(cli: Any, tmp_path: Path) -> None:
    import zarr

    rows, _ = night([60, 50], ids=False)
    zarr.save_array(str(tmp_path / "rows.zarr"), rows.to_numpy())
    one = cli("fit", "rows.zarr", "-k", 2, "-o", "one", "--method", "cpmmc", cwd=tmp_path)
    assert one.code == 0, one.stderr
    more = ("--match", "one", "--set", "init=one", "--unassigned", ".8", "--method", "cpmmc")
    two = cli("fit", "rows.zarr", "-o", "two", *more, cwd=tmp_path)  # as many clusters as it starts from
    assert two.code == 0, two.stderr
    assert "2 of 2 clusters keep their numbers" in two.stderr
    assert "rows are not sure enough for a label" in two.stdout
    table = pd.read_csv(tmp_path / "two" / "labels.csv")
    assert (table["label"] == -1).sum() == (table["confidence"] < 0.8).sum() > 0
    assert table["name"][table["label"] == -1].isna().all()
    assert "high" in one.stdout


def test_a_truth_of_other_rows_is_refused_before_the_fit(tmp_path: Path) -> None:
    rows, truth = night([90, 80, 70, 60])
    for wrong, words in (
        (truth[:-1], "has 299 classes, and there are 300 rows"),
        (tmp_path / "t.csv", "no class of row"),
    ):
        if isinstance(wrong, Path):
            wrong.write_text("id,label\n" + "".join(f"x{i},{label}\n" for i, label in enumerate(truth)))
        with pytest.raises(dmmc.InputError, match=words):
            dmmc.fit(rows, 4, truth=wrong, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()
