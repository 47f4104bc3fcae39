"""A table while it is made: cells that are kept, what is tuned on labels and what is not, and the JSON of it all."""

from __future__ import annotations

import json
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from math import comb
from pathlib import Path
from statistics import mean, median, pstdev
from typing import Any

import numpy as np
from _report import Line, machine
from accuracy import Cells

import dmmc

FOLDER = Path(__file__).resolve().parents[1] / "results" / "papers"
TUNED, FREE, PRINT = "tuned on labels", "label-free", "in print"
NOT_MADE = "not made yet"
Fit = Callable[[int], Any]
"""Labels by a seed."""
Cell = dict[str, Any]


def find_commit() -> str:
    """The commit of this checkout, with a plus where files differ from it."""

    def ask(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=Path(__file__).parent, capture_output=True, text=True)
        return done.stdout.strip()

    changed = ask("status", "--porcelain", "--untracked-files=no", "--", "../../dmmc", "..", ":!../results")
    return (ask("rev-parse", "--short=10", "HEAD") or "unknown") + "+" * bool(changed)


def expect_best(values: list[float], draws: int) -> float:
    """The mean lowest of `draws` of the values, over all ways to draw them."""
    ordered, n = sorted(values), len(values)
    draws = min(draws, n)
    return sum(v * comb(n - 1 - i, draws - 1) for i, v in enumerate(ordered)) / comb(n, draws)


def score(labels: Any, y: Any) -> dict[str, float]:
    """Error and accuracy in percent, as the papers count them, and NMI."""
    found = dmmc.score(np.asarray(labels), y)
    return {"error": 100.0 * found["purity_error"], "accuracy": 100.0 * found["accuracy"], "nmi": found["nmi"]}


def try_setting(fit: Fit, y: Any, seeds: int) -> Cell:
    """One setting: scores and seconds of a fit a seed; or why there are none."""
    runs = []
    for seed in range(seeds):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                labels = fit(seed)
            except Exception as error:  # a setting that fails is a line that says so
                return {"failed": f"{type(error).__name__}: {error}"[:160]}
        seconds = time.process_time() - began
        runs.append({**score(labels, y), "seconds": seconds})
    return {
        **{what: mean(run[what] for run in runs) for what in ("error", "accuracy", "nmi")},
        "spread": pstdev(run["error"] for run in runs),
        "seconds": median(run["seconds"] for run in runs),
        "errors": [round(run["error"], 4) for run in runs],
    }


def tune(settings: Mapping[str, Fit], y: Any, seeds: int = 1, best_of: int = 1, by: str = "error") -> Cell:
    """The best of all settings by the true labels, and the mean score of each; the protocol of the papers.

    With `best_of` a setting counts as the best of so many of its runs, which labels choose too.
    """
    tried = {name: try_setting(fit, y, seeds) for name, fit in settings.items()}
    done = {name: one for name, one in tried.items() if "failed" not in one}
    if not done:
        return {"failed": next(iter(tried.values()))["failed"]}
    if best_of > 1:
        for one in done.values():
            one["mean_of_all"], one["error"] = one["error"], expect_best(one["errors"], best_of)
            one["accuracy"] = 100.0 - one["error"]
    sign = 1 if by == "error" else -1
    chosen = min(done, key=lambda name: (sign * done[name][by], list(done).index(name)))
    grid = {name: round(one[by], 4) for name, one in done.items()}
    return {**done[chosen], "setting": chosen, "fits": seeds * len(tried), "grid": grid}


@dataclass
class Table:
    """Rows (data sets) and columns (methods) of numbers, ours and those in print, with what is wanted of them."""

    paper: str
    name: str
    title: str
    unit: str
    """What a number is: "error", "accuracy", "nmi" or "seconds"; a key of the cells."""
    columns: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)

    def row(self, name: str, size: str = "") -> dict[str, Any]:
        """A new row."""
        self.rows.append({"name": name, "size": size, "cells": {}, "print": {}})
        return self.rows[-1]

    def number(self, row: str, column: str, what: str | None = None) -> float | None:
        """A number of ours; None where there is none."""
        cell = next((each["cells"].get(column, {}) for each in self.rows if each["name"] == row), {})
        return cell.get(what or self.unit)

    def want(self, name: str, value: float | None, detail: str = "", **limits: float) -> None:
        """A line that the issue asks for."""
        if value is not None:
            self.lines.append(Line(name, float(value), detail=detail, **limits))


class Study:
    """Where the cells of a run come from, and where its tables go."""

    def __init__(self, paper: str, quick: bool, out: Path | None = None, known: bool = False) -> None:
        self.paper, self.quick, self.known = paper, quick, known
        self.folder = out or (FOLDER / "quick" if quick else FOLDER)
        self._cells = Cells(self.folder / f"{paper}.cells.jsonl")
        self.commit = find_commit()

    def cell(self, row: str, column: str, make: Callable[[], Cell]) -> Cell:
        """What is known of it, or what is made now and kept; with `known` nothing is made."""
        if self.known and not self._cells.has(row, column, 0):
            return {"failed": NOT_MADE}
        began = time.perf_counter()
        found = self._cells.get(row, column, 0, lambda: {**make(), "commit": self.commit})
        if time.perf_counter() - began > 1.0:
            told = found.get("failed") or ", ".join(
                f"{what} {found[what]:.4g}" for what in ("error", "nmi", "seconds") if what in found
            )
            print(f"  {row}: {column}: {told}", flush=True)
        return found

    def forget(self) -> None:
        """Drop all cells of the paper."""
        self._cells.forget(lambda cell: True)

    def write(self, table: Table, command: str) -> Path:
        """The JSON of a table."""
        commits = sorted({cell["commit"] for row in table.rows for cell in row["cells"].values() if "commit" in cell})
        everything = {
            **{what: getattr(table, what) for what in ("paper", "name", "title", "unit", "columns", "rows", "notes")},
            "lines": [{**asdict(line), "verdict": line.verdict} for line in table.lines],
            "figures": table.figures,
            "data": table.data,
            "quick": self.quick,
            "command": command,
            "commit": self.commit,
            "commits_of_cells": commits,
            "machine": machine(),
        }
        path = self.folder / f"{table.paper}-{table.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1) + "\n")
        return path


def tell(value: float | None, unit: str) -> str:
    """A number for a table."""
    if value is None:
        return "–"
    return f"{value:.3f}" if unit in ("nmi", "seconds") else f"{value:.2f}"


def lines_of(table: dict[str, Any]) -> list[str]:
    """A table (as its JSON has it) in Markdown: our columns, then those in print."""
    unit = table["unit"]
    printed = list(dict.fromkeys(name for row in table["rows"] for name in row["print"]))
    heads = ["data", "n × d", *table["columns"], *(f"*{name} ({PRINT})*" for name in printed)]
    out = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in table["rows"]:
        ours = []
        for column in table["columns"]:
            cell = row["cells"].get(column, {})
            if "failed" in cell:
                ours.append("–" if cell["failed"] == NOT_MADE else "failed")
                continue
            spread = f" ± {cell['spread']:.2f}" if unit in ("error", "accuracy") and cell.get("spread") else ""
            ours.append(tell(cell.get(unit), unit) + spread)
        theirs = [f"*{row['print'][name]}*" if name in row["print"] else "–" for name in printed]
        out.append("| " + " | ".join([row["name"], row["size"], *ours, *theirs]) + " |")
    return out
