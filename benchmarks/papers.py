"""The papers' tables and figures, made again: ours tuned on labels as theirs are, ours without labels, and theirs.

    python benchmarks/papers.py --paper 000                 # all its tables and figures
    python benchmarks/papers.py --paper 002 --table table1
    python benchmarks/papers.py --quick                     # every table on subsets, in minutes
    python benchmarks/papers.py --page                      # benchmarks/RESULTS.md from the JSON that is there

Two protocols stand side by side. "tuned on labels": C, l, sigma, λ (and where a paper did so, the best of ten runs) are
chosen by the true labels, as the papers did. "label-free": our defaults, and `auto`. Numbers marked "in print" are the
papers' own. A cell is kept as soon as it is made (`results/papers/*.cells.jsonl`), so a run that was stopped goes on
where it was; `--fresh` forgets the cells of a paper first. One JSON a table goes to `results/papers/`, with the
command, the commit and the machine.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

from _report import headline
from paper_tables import figures_000, page, tables_000, tables_001, tables_002, tables_003, tables_004
from paper_tables.study import FOLDER, NOT_MADE, Study, Table, lines_of

TABLES: dict[str, dict[str, Callable[[Study], Table]]] = {
    "000": {
        "table5": tables_000.table5,
        "table6": tables_000.table6,
        "figures": figures_000.figures_1_to_4,
    },
    "001": {"tables2-3": tables_001.tables},
    "002": {"table1": tables_002.table1, "table2": tables_002.table2, "figure1": tables_002.figure1},
    "003": {"figure1": tables_003.figure1, "figure2": tables_003.figure2, "figures3-4": tables_003.figures_3_and_4},
    "004": {"table2": tables_004.table2, "table3": tables_004.table3, "table4": tables_004.table4},
}
"""By paper and name."""


def make(study: Study, name: str, command: str) -> None:
    """One table: its cells, its JSON, and what it looks like."""
    began = time.perf_counter()
    paper = study.paper
    try:
        table = TABLES[paper][name](study)
    except KeyError:
        if not study.known:
            raise
        print(f"{paper}, {name}: too few cells are there\n")
        return
    missing = sum(cell.get("failed") == NOT_MADE for row in table.rows for cell in row["cells"].values())
    if missing:
        table.notes.append(f"{missing} cells were not made yet (–): the command above goes on with them.")
    path = study.write(table, command)
    print(f"\n{paper}: {table.title}")
    print("\n".join(lines_of({"unit": table.unit, "columns": table.columns, "rows": table.rows})))
    print("\n".join(map(str, table.lines)))
    print(f"{time.perf_counter() - began:.0f} s; written to {path}\n", flush=True)


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(
        prog="benchmarks/papers.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paper", choices=tuple(TABLES), help="all of them by default")
    parser.add_argument(
        "--table", help="one table of that paper: " + "; ".join(f"{p}: {', '.join(t)}" for p, t in TABLES.items())
    )
    parser.add_argument(
        "--quick", action="store_true", help="subsets and small grids: does it run; no number is for the page"
    )
    parser.add_argument("--out", type=Path, help="where cells and JSON go; default benchmarks/results/papers[/quick]")
    parser.add_argument(
        "--fresh", action="store_true", help="forget the cells of the paper (all of them by default) first"
    )
    parser.add_argument("--known", action="store_true", help="make no new cell: tables of those that are there")
    parser.add_argument("--page", action="store_true", help="write benchmarks/RESULTS.md from the JSON that is there")
    options = parser.parse_args()
    if options.table and (options.paper is None or options.table not in TABLES[options.paper]):
        known = ", ".join(TABLES.get(options.paper, ())) or "nothing without --paper"
        parser.error(f"--table is {options.table!r}; of paper {options.paper} there is {known}.")
    if options.page:
        print(f"written to {page.write(options.out or FOLDER)}")
        return
    print(headline())
    if options.fresh:
        for paper in TABLES:
            if options.paper in (None, paper):
                Study(paper, options.quick, options.out).forget()
    for paper, tables in TABLES.items():
        for name in tables:
            if options.paper in (None, paper) and options.table in (None, name):
                command = f"python benchmarks/papers.py --paper {paper} --table {name}" + " --quick" * options.quick
                make(Study(paper, options.quick, options.out, options.known), name, command)


if __name__ == "__main__":
    sys.exit(main())
