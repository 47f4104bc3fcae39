"""`benchmarks/papers.py`: what is tuned and how, cells that are kept, and the page."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import papers
import pytest
from paper_tables import figures, figures_000, named_sets, page, printed, study, tables_000, tables_002
from paper_tables.study import Study, Table, expect_best, tune


def test_the_best_of_some_runs_is_the_mean_over_all_ways_to_draw_them() -> None:
    values = [3.0, 1.0, 4.0, 1.5, 9.0, 2.0]
    for draws in (1, 2, 5, 6):
        assert expect_best(values, draws) == pytest.approx(mean(min(some) for some in combinations(values, draws)))
    assert expect_best([2.0, 1.0], 10) == 1.0


def test_labels_choose_the_setting_with_the_lowest_mean_error() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    settings = {
        "bad": lambda seed: np.array([0, 1] * 4),
        "fails": lambda seed: 1 / 0,
        "good": lambda seed: y if seed else np.array([0, 0, 0, 1, 1, 1, 1, 1]),
    }
    found = tune(settings, y, 2)
    assert found["setting"] == "good"
    assert found["error"] == pytest.approx(100 / 16)
    assert found["grid"] == {"bad": 50.0, "good": 6.25}
    assert tune(settings, y, 2, best_of=2)["error"] == 0.0
    assert "division by zero" in tune({"fails": settings["fails"]}, y)["failed"]


def test_a_run_that_was_killed_goes_on_with_the_cells_it_has(tmp_path: Path) -> None:
    made: list[str] = []

    def make(name: str) -> dict[str, Any]:
        if name == "third" and len(made) < 3:
            raise KeyboardInterrupt
        made.append(name)
        return {"error": float(len(made))}

    def run() -> list[float]:
        one = Study("000", True, tmp_path)
        return [one.cell("set", name, lambda name=name: make(name))["error"] for name in ("first", "second", "third")]

    with pytest.raises(KeyboardInterrupt):
        run()
    made.append("a new process")
    assert run() == [1.0, 2.0, 4.0]
    assert run() == [1.0, 2.0, 4.0]
    assert made == ["first", "second", "a new process", "third"]
    cells = [json.loads(line) for line in (tmp_path / "000.cells.jsonl").read_text().splitlines()]
    assert [cell["recipe"] for cell in cells] == ["first", "second", "third"]
    assert all(cell["commit"] for cell in cells)


def test_tables_of_the_cells_that_are_there_have_gaps(tmp_path: Path, monkeypatch: Any, capsys: Any, load: Any) -> None:
    load("letter")
    Study("000", False, tmp_path).cell("letter A-B", "CPMMC, tuned on labels", lambda: {"error": 5.53})
    asked = ["papers.py", "--paper", "000", "--table", "table5", "--known", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", asked)
    papers.main()
    table = json.loads((tmp_path / "000-table5.json").read_text())
    assert any("cells were not made yet" in note for note in table["notes"])
    assert [line["name"] for line in table["lines"]] == ["000: letter A-B, error %"]
    assert "| letter A-B | 1,555 × 16 | – |" in capsys.readouterr().out
    assert len((tmp_path / "000.cells.jsonl").read_text().splitlines()) == 1


def test_the_json_and_the_page_say_where_numbers_are_from(tmp_path: Path) -> None:
    table = Table("000", "table5", "Errors", "error", ["CPMMC, tuned on labels"])
    row = table.row("letter A-B", "1,555 × 16")
    row["cells"]["CPMMC, tuned on labels"] = {"error": 5.53, "commit": "abc"}
    row["print"] = {"CPMMC": "5.53"}
    table.want("000: letter A-B, error %", 5.53, most=5.535)
    table.want("missed", 2.0, "why", most=1.0)
    Study("000", False, tmp_path).write(table, "python benchmarks/papers.py --paper 000 --table table5")
    written = json.loads((tmp_path / "000-table5.json").read_text())
    assert written["commits_of_cells"] == ["abc"]
    assert written["machine"]["cores"] >= 1
    assert [line["verdict"] for line in written["lines"]] == ["ok", "MISSED"]
    text = page.write(tmp_path, tmp_path / "RESULTS.md").read_text()
    assert "| data | n × d | CPMMC, tuned on labels | *CPMMC (in print)* |" in text
    assert "| letter A-B | 1,555 × 16 | 5.53 | *5.53* |" in text
    assert "`python benchmarks/papers.py --paper 000 --table table5`" in text
    assert "| missed | 2.000 | ≤ 1 | MISSED why |" in text


def test_the_page_that_is_committed_is_made_of_the_json_that_is_committed(repo: Path) -> None:
    if not (repo / "benchmarks" / "RESULTS.md").is_file():
        pytest.skip("benchmarks: these tests need the checkout")
    tables = [json.loads(path.read_text()) for path in sorted(study.FOLDER.glob("0*.json"))]
    assert (repo / "benchmarks" / "RESULTS.md").read_text() == page.compose(tables)
    assert not any(table["quick"] for table in tables)
    for table in tables:
        assert table["commit"]
        assert all((study.FOLDER / name).is_file() for name in table["figures"])


def test_sets_have_the_sizes_of_the_papers(load: Any) -> None:
    load("letter")
    sizes = {"digits 3-8": 357, "digits 1-7": 361, "letter A-B": 1555, "satellite 1-2": 2236, "wine 0-1": 130}
    assert {name: len(named_sets.load(name)[1]) for name in sizes} == sizes
    assert len(named_sets.load("letter A-B", quick=True)[1]) == named_sets.FEW
    assert named_sets.load("satellite train 1-2")[0].shape == (1551, 36)


def test_all_numbers_in_print_have_a_place() -> None:
    assert set(tables_000.SINGLE) <= printed.ERRORS_000.keys()
    assert set(tables_002.SINGLE) <= printed.ERRORS_002.keys()
    assert all(len(numbers.split()) == len(printed.SETS_004) for numbers in printed.LOW_004.values())
    for table in (printed.ACCURACY_001, printed.NMI_001):
        assert all(len(numbers.split()) == len(printed.METHODS_001) for numbers in table.values())


def test_a_slope_is_that_of_logarithms() -> None:
    assert figures.slope([10, 100, 1000], [2.0, 20.0, 200.0]) == pytest.approx(1.0)


def test_sparse_rows_of_the_scaling_have_the_non_zeros_asked_for() -> None:
    rows = figures_000.make_sparse(200, 8)
    assert rows.shape == (200, figures_000.COLUMNS)
    assert 7.5 < rows.nnz / 200 <= 8


def test_the_three_ways_to_a_fitness_agree_before_they_are_timed() -> None:
    assert tables_002.evaluate(60).keys() == {"n² products", "SVM", "shortcut"}  # asserts it itself


def test_a_table_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(sys, "argv", ["papers.py", "--paper", "002", "--table", "table9"])
    with pytest.raises(SystemExit):
        papers.main()
    assert "--table is 'table9'; of paper 002 there is table1, table2, figure1." in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("paper", "name"), [("003", "figure2"), ("002", "table2")])
def test_a_quick_table_is_printed(
    paper: str, name: str, tmp_path: Path, monkeypatch: Any, capsys: Any, load: Any
) -> None:
    load("letter")
    load("satellite")
    asked = ["papers.py", "--paper", paper, "--table", name, "--quick", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", asked)
    papers.main()
    table = json.loads((tmp_path / f"{paper}-{name}.json").read_text())
    assert table["quick"] is True
    assert all(row["cells"].keys() >= set(table["columns"][:2]) for row in table["rows"])
    assert "| digits 3-8 | 240 × 64 |" in capsys.readouterr().out
