"""The first fit after an installation: a fresh process with an empty cache of numba, beside one that finds it filled.

Digits (1,797 x 64 float64), dense and CSR, by `auto`, `lsmmc` and `cpmmc`, k = 10. Each fit is in a process of its own,
from its first line to its end, imports and loading of the data included; the second run of a pair uses the cache that
the first has filled. What counts is how many seconds the first takes more: at most 5 are wanted, of the median over
`--rounds`. `numba` is the seconds of the first that its own process spent compiling; what a second process compiled
meanwhile is not in it.

JSON: `benchmark`, `small`, `machine`, `lines` and `measured`: `runs` (a list of `rows`, `method`, `first`, `later`,
`numba`). Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from statistics import median
from typing import Any

from _report import Patience, Report, arguments, destination, headline, run_child

MOST = 5.0
ROWS = ("dense", "csr")
METHODS = ("auto", "lsmmc", "cpmmc")
TIMEOUT = 1200.0


class CompileTime:
    """Seconds that numba has compiled in this process."""

    def __init__(self) -> None:
        from numba.core import event

        self._recorder = event.RecordingListener()
        event.register("numba:compile", self._recorder)

    def total(self) -> float:
        """Of the outermost kernels; what they compile on the way is part of them."""
        depth, began, total = 0, 0.0, 0.0
        for at, event in self._recorder.buffer:
            if event.is_start:
                began = at if depth == 0 else began
                depth += 1
            else:
                depth -= 1
                total += at - began if depth == 0 else 0.0
        return total


def fit_digits(rows: str, method: str) -> None:
    """What a process does; prints the seconds since it began, imports included."""
    began = time.perf_counter()
    from scipy.sparse import csr_array
    from sklearn.datasets import load_digits

    import dmmc

    compiling = CompileTime()
    X = load_digits().data
    dmmc.fit(csr_array(X) if rows == "csr" else X, 10, method=method, random_state=0)
    print(json.dumps({"seconds": time.perf_counter() - began, "numba": compiling.total()}))


def measure_pair(rows: str, method: str) -> dict[str, Any]:
    """A first fit, and a later one."""
    with tempfile.TemporaryDirectory() as cache:
        run = partial(run_child, "first_minute", "fit_digits", rows, method, timeout=TIMEOUT, NUMBA_CACHE_DIR=cache)
        first, later = run(), run()
    if later["numba"] > 0:
        raise RuntimeError(f"{rows}, {method}: the second process compiled for {later['numba']:.1f} s too")
    return {
        "rows": rows,
        "method": method,
        "first": first["seconds"],
        "later": later["seconds"],
        "numba": first["numba"],
    }


def main() -> None:
    """All rows and methods; a small run has one of each."""
    parser = arguments(__doc__ or "", "first_minute")
    parser.add_argument("--rounds", type=int, help="pairs of which the median counts; default 3, small 1")
    options = parser.parse_args()
    small = options.small
    report = Report("first_minute", small, patience=Patience(0 if small else options.patience))
    print(headline())
    runs: list[dict[str, Any]] = []
    for rows in ROWS[:1] if small else ROWS:
        for method in METHODS[1:2] if small else METHODS:
            found = [
                report.patience.until_quiet(partial(measure_pair, rows, method))
                for _ in range(options.rounds or (1 if small else 3))
            ]
            runs += found
            more = median(one["first"] - one["later"] for one in found)
            each = ", ".join(f"{one['first']:.1f} / {one['later']:.1f} s (numba {one['numba']:.1f})" for one in found)
            report.add(f"digits, {rows}, {method}: seconds, first - later", more, each, most=MOST)
    report.measured["runs"] = runs
    report.write(destination(options.json, "first_minute", small))


if __name__ == "__main__":
    main()
