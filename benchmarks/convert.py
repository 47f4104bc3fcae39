"""`dmmc convert` of csv files of 200 MB and of 2 GB: does memory stay the same, and how fast is it.

The files have 64 columns of numbers with six digits, a header and row ids, and are written to a temporary folder
(TMPDIR chooses where: some 4.5 GB are needed). Each is converted in a new process. Memory is the peak of the whole
process, imports included. `--small` takes 2 and 20 MB.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured` (`files`: for each conversion `csv_mb`, `rows`, `seconds`, `cpu_seconds` of all its threads,
`mb_per_second`, `peak_mb`). Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from _report import Patience, Report, arguments, destination, headline, run_child, status

# What a benchmark imports would be in the figures of its children: they import for themselves.

MB = 1e6
COLUMNS = 64
MOST_MB = 400
APART_MB = 50
CHILD_TIMEOUT = 1800


def write_csv(path: Path, megabytes: int) -> None:
    """A csv file of about this size; a block of rows comes again and again under other ids."""
    import numpy as np

    values = np.random.default_rng(0).standard_normal((1000, COLUMNS))
    lines = [",".join(f"{value:.6g}" for value in row) for row in values.tolist()]
    row = 0
    with path.open("w") as file:
        file.write("id," + ",".join(f"feature {i}" for i in range(COLUMNS)) + "\n")
        while file.tell() < megabytes * MB:
            file.write("".join(f"r{row + i},{line}\n" for i, line in enumerate(lines)))
            row += len(lines)


def convert_and_print(source: str, target: str) -> None:
    """In a child: convert a file and print what it took."""
    from dmmc.convert import convert as write

    done = write(source, target)
    print(json.dumps({**done, "peak": status("VmHWM"), "cpu_seconds": time.process_time()}))


def convert_in_child(source: Path, target: Path) -> dict[str, Any]:
    """Convert in a new process that can import this file."""
    shutil.rmtree(target, ignore_errors=True)
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    found = run_child("convert", "convert_and_print", source, target, timeout=CHILD_TIMEOUT, PYTHONPATH=path)
    size = source.stat().st_size / MB
    return {
        "csv_mb": round(size, 1),
        "rows": found["rows"],
        "seconds": found["seconds"],
        "cpu_seconds": round(found["cpu_seconds"], 2),
        "mb_per_second": round(size / found["seconds"], 1),
        "peak_mb": round(found["peak"] / MB, 1),
    }


def main() -> None:
    """Convert both files."""
    options = arguments(__doc__ or "", "convert").parse_args()
    small = options.small
    report = Report("convert", small, patience=Patience(0 if small else options.patience))
    print(headline())
    files: dict[str, dict[str, Any]] = {}
    short, long = (2, 20) if small else (200, 2000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for megabytes in (short, long):
            source, target = folder / f"{megabytes}.csv", folder / "out.zarr"
            write_csv(source, megabytes)
            called = f"{megabytes} MB"
            files[called] = report.patience.until_quiet(partial(convert_in_child, source, target))
            print(called, files[called], flush=True)
    report.measured["files"] = files
    first, last = files.values()
    page = os.sysconf("SC_PAGE_SIZE") / MB
    report.add(
        f"{long} MB of csv: peak / {MOST_MB} MB", last["peak_mb"] / MOST_MB, f"{last['peak_mb']:.0f} MB", most=1.0
    )
    report.add(
        f"peaks of {short} and {long} MB of csv: apart / {APART_MB} MB",
        max(page, abs(last["peak_mb"] - first["peak_mb"])) / APART_MB,
        f"{first['peak_mb']:.0f} and {last['peak_mb']:.0f} MB",
        most=1.0,
    )
    report.write(destination(options.json, "convert", small))


if __name__ == "__main__":
    main()
