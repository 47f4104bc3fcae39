"""benchmarks/RESULTS.md, made of the JSON of the tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from _report import Line

from paper_tables.study import lines_of

PAGE = Path(__file__).resolve().parents[1] / "RESULTS.md"
HEAD = """# The papers' tables, made again

Made by `python benchmarks/papers.py --page` from the JSON in `benchmarks/results/papers/`; do not edit. Each number of
ours was printed by the command above its table. Two protocols stand side by side:

- **tuned on labels**: C, l, sigma, λ, the start (and where a paper did so, the best of ten runs) are chosen by the true
  labels, as the papers chose them. Such a number says what a method could do, not what a user gets
- **label-free**: our defaults, and `auto`; labels only score

*In italics, "in print"*: the papers' own numbers, on their machines and their copies of the data.
"""


def describe(table: dict[str, Any]) -> list[str]:
    """The section of one table."""
    out = [f"### {table['title']}", "", f"`{table['command']}`", "", *lines_of(table), ""]
    out += [f"![{table['title']}](results/papers/{name})" for name in table["figures"]]
    out += [""] * bool(table["figures"]) + [f"- {note}" for note in table["notes"]]
    machine = table["machine"]
    cells = ", ".join(table["commits_of_cells"]) or table["commit"]
    out += ["", f"Commit {table['commit']} (cells of {cells}); {machine['cpu']}, {machine['cores']} cores.", ""]
    return out


def read_line(line: dict[str, Any]) -> Line:
    """A line of the JSON."""
    return Line(**{name: value for name, value in line.items() if name != "verdict"})


def compose(tables: list[dict[str, Any]]) -> str:
    """The whole page."""
    wanted = [read_line(line) for table in tables for line in table["lines"]]
    out = [HEAD, "## What was asked for", "", "| line | value | wanted | |", "|---|---|---|---|"]
    for line in wanted:
        limit = "" if line.most is None else f"≤ {line.most:g}"
        limit = limit if line.least is None else f"≥ {line.least:g}"
        out.append(f"| {line.name} | {line.ratio:.3f} | {limit} | {line.verdict} {line.detail} |".replace("  ", " "))
    out.append("")
    for paper in sorted({table["paper"] for table in tables}):
        out += [f"## Paper {paper}", ""]
        for table in tables:
            if table["paper"] == paper:
                out += describe(table)
    return "\n".join(out).rstrip() + "\n"


def write(folder: Path, page: Path = PAGE) -> Path:
    """Write the page from all JSON of a folder."""
    tables = [json.loads(path.read_text()) for path in sorted(folder.glob("0*.json"))]
    page.write_text(compose(tables))
    return page
