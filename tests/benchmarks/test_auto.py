"""What `benchmarks/auto.py` makes of fits that are done: medians, k-means beside them, regret, the table."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import auto
import numpy as np
import pytest
from accuracy import Cells

FITS = {"k-means labels": (0.80, 0.70), "spectral": (0.95, 0.90)}


def cells(name: str, chosen: str, peers: dict[str, tuple[float, float]], seeds: int = 3) -> list[dict[str, Any]]:
    """Cells of a set in which `auto` had two candidates and took one of them."""
    tried = [{"name": n, "accuracy": a, "nmi": m, "chosen": n == chosen} for n, (a, m) in FITS.items()]
    answer = {"accuracy": FITS[chosen][0], "nmi": FITS[chosen][1], "seconds": 1.0, "chosen": chosen}
    answer |= {"candidates": tried, "no_structure": name == "wine", "warnings": [], "sizes": [1], "code": "old"}
    found: list[dict[str, Any]] = []
    for seed in range(seeds):
        found.append({"set": name, "recipe": "auto", "seed": seed, **answer})
        for recipe, (accuracy, nmi) in peers.items():
            found.append(
                {"set": name, "recipe": recipe, "seed": seed, "accuracy": accuracy, "nmi": nmi, "seconds": 1.0}
            )
    return found


def run(folder: Path, known: list[dict[str, Any]], *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Lines by name, and the whole JSON, of a run whose fits are known."""
    file, out = folder / "cells.jsonl", folder / "auto.json"
    file.write_text("".join(json.dumps(cell) + "\n" for cell in known))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["auto.py", "--json", str(out), "--cells", str(file), "--seeds", "3", *options])
        auto.main()
    written = json.loads(out.read_text())
    return {line["name"]: line for line in written["lines"]}, written


def test_a_set_is_below_k_means_where_both_figures_are_and_units_decide_which_k_means_counts(tmp_path: Path) -> None:
    standardised = {"k-means": (0.5, 0.4), "k-means, standardised": (0.9, 0.8)}
    known = [*cells("wine", "k-means labels", standardised), *cells("iris", "k-means labels", standardised)]
    known += cells("digits", "k-means labels", {"k-means": (0.9, 0.71), "k-means, standardised": (0.9, 0.9)})
    lines, _ = run(tmp_path, known, "--only", "sets", "--sets", "wine,iris,digits")
    assert lines["wine: 1 + above k-means"]["ratio"] == pytest.approx(0.9)
    assert lines["wine: 1 + above k-means"]["verdict"] == "MISSED"
    assert lines["iris: 1 + above k-means"]["ratio"] == pytest.approx(1.3)
    assert lines["digits: 1 + above k-means"]["verdict"] == "ok"
    assert lines["sets that are not below k-means / sets"]["detail"] == "wine"
    assert lines["sets not said to have no structure / sets"]["detail"] == "wine"


def test_regret_is_what_the_answer_lacks_of_the_best_candidate(tmp_path: Path) -> None:
    peers = {"k-means": (0.8, 0.7), "k-means, standardised": (0.8, 0.7)}
    known = [*cells("iris", "spectral", peers), *cells("digits", "k-means labels", peers)]
    lines, written = run(tmp_path, known, "--only", "sets", "--sets", "iris,digits")
    assert lines["1 - mean regret, 2 sets"]["ratio"] == pytest.approx(1 - 0.15 / 2)
    assert lines["1 - mean regret, 2 sets"]["verdict"] == "MISSED"
    assert written["measured"]["sets"]["other_code"] == 6
    table = (tmp_path / "auto_candidates.md").read_text().splitlines()
    assert "| digits | 0.800 | 0.950 | 0.150 | 0.800 (3) | 0.950 |" in table
    assert "| iris | 0.950 | 0.950 | 0.000 | 0.800 | 0.950 (3) |" in table


def test_a_fit_is_described_with_the_scores_of_its_candidates() -> None:
    y = np.array([0, 0, 1, 1])
    model = SimpleNamespace(candidate_labels_={"a": y, "b": np.array([0, 1, 0, 1])})
    choices = {"candidates": [{"name": "a", "chosen": False, "score": np.inf}, {"name": "b", "chosen": True}]}
    info = {"warnings": ["There is no structure here."]}
    found = auto.describe(SimpleNamespace(model=model, choices=choices, info=info, labels=y[::-1]), 1.5, y)
    assert [c["accuracy"] for c in found["candidates"]] == [1.0, 0.5]
    assert found["accuracy"] == 1.0
    assert found["chosen"] == "b"
    assert found["no_structure"] is True
    json.dumps(found, allow_nan=False)


def test_again_drops_our_cells_of_the_named_sets_and_no_others(tmp_path: Path) -> None:
    known = [*cells("iris", "spectral", {"k-means": (0.8, 0.7)}), *cells("wine", "spectral", {})]
    file = tmp_path / "cells.jsonl"
    file.write_text("".join(json.dumps(cell) + "\n" for cell in known))
    kept = Cells(file)
    kept.forget(lambda c: c["recipe"] == "auto" and auto.is_of(c["set"], ("iris",), "sets"))
    assert {cell["set"] for cell in Cells(file).of("auto")} == {"wine"}
    assert len(Cells(file).of("k-means")) == 3
    assert auto.is_of("mnist:0-1", ("iris",), "pairs")
    assert not auto.is_of("letter:A-B", ("iris",), None)


def test_names_may_be_those_of_a_group() -> None:
    assert auto.choose_names("iris,generated", small=False)[:2] == ("iris", "unequal_sizes")
    assert len(auto.choose_names(None, small=False)) == 19 + 13
