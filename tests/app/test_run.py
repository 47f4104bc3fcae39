"""What a run and a loaded model offer: tables, pictures, labels, centres, scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dmmc

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
QUICK: dict[str, Any] = {"method": "cpmmc", "max_iter": 20}


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = np.vstack([rng.normal(size=(40, 3)) + 4 * np.eye(3)[i] for i in range(3)])
    return pd.DataFrame(rows, columns=["<b>a</b>", "b", "c"], index=[f"r{i}" for i in range(120)])


def test_a_loaded_model_has_labels_and_centres(tmp_path: Path) -> None:
    run = dmmc.fit(table(), 3, out=tmp_path / "out", **QUICK)
    model = dmmc.load(tmp_path / "out")
    assert np.array_equal(model.labels_, run.labels)
    assert np.allclose(model.cluster_centers_, table().groupby(run.labels).mean(), atol=1e-5)
    assert not hasattr(dmmc.load(tmp_path / "out" / "model"), "labels_")


def test_a_run_knows_which_rows_have_its_labels(tmp_path: Path) -> None:
    named, numbered = table(), table().reset_index(drop=True)
    assert np.array_equal(dmmc.fit(named, 3, **QUICK).ids, named.index)
    assert dmmc.fit(numbered, 3, **QUICK).ids is None
    numbered.iloc[[4, 70], 1] = np.nan
    kept = numbered.dropna()
    numbered.to_csv(tmp_path / "rows.csv", index=False)
    sources: list[Any] = [numbered, tmp_path / "rows.csv"]
    for source in sources:
        run = dmmc.fit(source, 3, missing="drop", **QUICK)
        assert run.ids is not None
        assert run.ids.dtype == np.int64
        assert np.array_equal(run.ids, kept.index)
        assert len(run.labels) == 118
    assert dmmc.fit(numbered, 3, **QUICK).ids is None  # filled, so that all rows have labels
    named.iloc[4, 1] = np.nan
    assert np.array_equal(dmmc.fit(named, 3, missing="drop", **QUICK).ids, named.dropna().index)


def test_new_rows_get_the_table_that_the_fitted_ones_have(tmp_path: Path) -> None:
    run = dmmc.fit(table(), 3, out=tmp_path / "out", unassigned=0.8, **QUICK)
    wanted = (tmp_path / "out" / "labels.csv").read_text()
    for place, model in enumerate((dmmc.load(tmp_path / "out"), run.model)):
        assert model.cluster_names_.tolist() == run.names
        model.predict(table(), out=tmp_path / f"{place}.csv", unassigned=0.8)
        lines = (tmp_path / f"{place}.csv").read_text().splitlines()
        assert [line.split(",")[:3] for line in lines] == [line.split(",")[:3] for line in wanted.splitlines()]
        assert lines[0] == "id,label,name,confidence,runner_up"
    model = dmmc.load(tmp_path / "out").fit(table())
    model.predict(table(), out=tmp_path / "others.csv")  # clusters of another fit have other names, or none
    assert (tmp_path / "others.csv").read_text().startswith("id,label,confidence,runner_up\n")


def test_transform_gives_scores_and_the_parameter_of_that_name_stays() -> None:
    X = table().to_numpy()
    model = dmmc.CuttingPlaneMMC(n_clusters=3, transform="unit", random_state=0, max_iter=20).fit(X)
    assert np.array_equal(model.transform(X), model.decision_function(X))
    assert model.get_params()["transform"] == "unit"
    found = model.set_output(transform="pandas").transform(X)
    assert list(found) == ["cuttingplanemmc0", "cuttingplanemmc1", "cuttingplanemmc2"]
    assert dmmc.CuttingPlaneMMC(random_state=0, max_iter=20).fit(X).transform(X).shape == (120, 1)


def test_predict_leaves_unsure_rows_without_a_label() -> None:
    X = table()
    run = dmmc.fit(X, 3, **QUICK)
    found = run.model.predict(X, unassigned=0.9)
    assert np.array_equal(found, np.where(run.confidence < 0.9, -1, run.labels))
    assert (found == -1).any()
    with pytest.raises(dmmc.InputError, match="unassigned was given with a cluster"):
        run.model.predict(X, unassigned=0.9, workers=2)


def test_a_notebook_shows_names_that_are_escaped() -> None:
    run = dmmc.fit(table(), 3, **QUICK)
    told = run._repr_html_()
    assert told.count("<tr>") == 4
    assert "<b>" not in told
    assert "&lt;b&gt;a&lt;/b&gt;" in told


def test_a_plot_has_every_sampled_row() -> None:
    pytest.importorskip("plotly")
    figure = dmmc.fit(table(), 3, **QUICK).plot()
    assert sum(len(trace.x) for trace in figure.data) == 120
    told = sorted(text.split("<br>")[0] for trace in figure.data for text in trace.text)
    assert told == sorted(f", r{i}" for i in range(120))


def test_a_truth_is_scored_and_matched_by_ids(tmp_path: Path) -> None:
    frame = table()
    classes = np.repeat(["x", "y", "z"], 40)
    (tmp_path / "truth.csv").write_text("id,class\n" + "".join(f"r{i},{classes[i]}\n" for i in reversed(range(120))))
    run = dmmc.fit(frame, 3, truth=tmp_path / "truth.csv", **QUICK)
    assert run.info["scores"] == dmmc.score(run.labels, classes)
    (tmp_path / "few.csv").write_text("id,class\nr1,x\nr2,y\n")
    with pytest.raises(dmmc.InputError, match="no class of row 'r0'"):
        dmmc.fit(frame, 3, truth=tmp_path / "few.csv", **QUICK)


def test_a_report_is_written_again_with_a_truth(cli: Any, tmp_path: Path) -> None:
    dmmc.fit(table(), 3, out=tmp_path / "out", **QUICK)
    assert "Beside the truth" not in (tmp_path / "out" / "report.html").read_text()
    np.save(tmp_path / "truth.npy", np.repeat([0, 1, 2], 40))
    done = cli("report", "out", "--truth", "truth.npy", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "Beside the truth" in (tmp_path / "out" / "report.html").read_text()
