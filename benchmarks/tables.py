"""Tables of 2 GB straight into a fit: memory of learning and applying the preparation, and the second run.

A csv of customers (id, six numbers, two categories, a truth value, a date, 3 % missing) and a folder of 50 parquet
files of the same rows are written to a temporary folder (TMPDIR chooses where: some 10 GB are needed). Each is opened
in a new process as `dmmc fit` opens it, with a cache beside OUT, and then again in another one. Memory is the peak of
the process above what it held after its imports; the rows that a fit of one process then loads are no part of it.
`--small` takes 10 MB.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured` (`runs`: for each opening `mb`, `rows`, `seconds`, `above_mb`). The exit code is 0.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _report import Patience, Report, arguments, destination, headline, run_child, status

# What a benchmark imports would be in the figures of its children: they import for themselves.

MB = 1e6
MOST_MB = 400
FILES = 50
CHILD_TIMEOUT = 3600
EXAMPLE = Path(__file__).parents[1] / "examples" / "customers.py"


def write_tables(csv: Path, folder: Path, megabytes: int) -> None:
    """A csv of about this size, and its rows in parquet files; blocks of rows come again under other ids."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    table, _ = runpy.run_path(str(EXAMPLE))["make_customers"](20_000)
    folder.mkdir()
    written, row, parts = 0, 0, []
    with csv.open("wb") as file:
        while written < megabytes * MB:
            ids = pyarrow.array([f"C{row + i:09d}" for i in range(len(table))])
            part = table.set_column(0, "customer_id", ids)
            options = pyarrow.csv.WriteOptions(include_header=row == 0)
            pyarrow.csv.write_csv(part, file, options)
            parts.append(part)
            row, written = row + len(table), file.tell()
            if written * FILES >= megabytes * MB * (1 + len(list(folder.iterdir()))):
                name = folder / f"{len(list(folder.iterdir())):03d}.parquet"
                pyarrow.parquet.write_table(pyarrow.concat_tables(parts), name)
                parts = []
    if parts:
        pyarrow.parquet.write_table(pyarrow.concat_tables(parts), folder / "last.parquet")


def open_and_print(source: str, out: str) -> None:
    """In a child: open a table as a fit does, up to its store, and print what it took."""
    import warnings

    import zarr

    from dmmc.sources import open as sources

    warnings.simplefilter("ignore")
    sources.SMALL = 0
    before, begun = status("VmRSS"), time.perf_counter()
    with sources.open_source(source, beside=Path(out)) as opened:
        rows = zarr.open(opened.source, mode="r")["X"].shape[0]
    seconds = time.perf_counter() - begun
    print(json.dumps({"rows": rows, "seconds": round(seconds, 2), "above": status("VmHWM") - before}))


def open_in_child(source: Path, out: Path) -> dict[str, Any]:
    """Open in a new process that can import this file."""
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    found = run_child("tables", "open_and_print", source, out, timeout=CHILD_TIMEOUT, PYTHONPATH=path)
    files = [source] if source.is_file() else list(source.iterdir())
    size = sum(file.stat().st_size for file in files)
    return {
        "mb": round(size / MB, 1),
        "rows": found["rows"],
        "seconds": found["seconds"],
        "above_mb": round(found["above"] / MB, 1),
    }


def main() -> None:
    """Open both tables, twice."""
    options = arguments(__doc__ or "", "tables").parse_args()
    small = options.small
    report = Report("tables", small, patience=Patience(0))
    print(headline())
    runs: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        csv, parquet = folder / "customers.csv", folder / "customers"
        write_tables(csv, parquet, 10 if small else 2000)
        for called, source in (("csv", csv), ("parquet files", parquet)):
            for time_ in ("first", "second"):
                runs[f"{called}, {time_}"] = open_in_child(source, folder / "out")
                print(called, time_, runs[f"{called}, {time_}"], flush=True)
    report.measured["runs"] = runs
    for called in ("csv", "parquet files"):
        first, second = runs[f"{called}, first"], runs[f"{called}, second"]
        above = f"{first['above_mb']:.0f} MB above the imports"
        report.add(
            f"{first['mb']:.0f} MB of {called}: memory / {MOST_MB} MB", first["above_mb"] / MOST_MB, above, most=1.0
        )
        again = f"{first['seconds']:.1f} and {second['seconds']:.1f} s"
        report.add(f"{called}: second run / first", second["seconds"] / first["seconds"], again, most=0.5)
    report.write(destination(options.json, "tables", small))


if __name__ == "__main__":
    sys.exit(main())
