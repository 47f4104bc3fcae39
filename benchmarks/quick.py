"""`dmmc.fit` against scikit-learn's KMeans on MNIST, and what a user waits and pays for: start, import, memory.

Ours gets the bytes as they are, KMeans float32 (its conversion is not timed); both use all cores, and each is first run
on a small slice, so compilation is in no fit's time: it is measured by itself, in new processes with an empty and with
a filled cache. For each `random_state` ours and theirs run in turn, `--repeats` times; the ratio is that of the least
times, and the median over the seeds. Labels are used only to score. Memory is the peak of the resident set above that
after import and a small fit of the same kind, and includes the data themselves.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured` (`fits`, `start_seconds`, `import_seconds`, `memory_mb`). Fits during which other programs were
at work are run again (`--patience`); `machine.disturbed` counts those that were kept all the same. Timings are not pass
or fail: the exit code is 0.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from _report import Patience, Report, arguments, destination, headline, run_child, status

# What a benchmark imports would be in the figures of its children: they import for themselves.

Result = TypeVar("Result")

FIT_WANTED = {2: {"most": 0.5, "aim": 0.25}, 10: {"most": 1.0, "aim": 0.5}}
CHILD_TIMEOUT = 600
MB = 1e6


child = partial(run_child, "quick", timeout=CHILD_TIMEOUT)


def load(name: str, small: bool) -> tuple[Any, Any]:
    """Bytes and classes: a data set, or for small runs the digits of scikit-learn."""
    import data_sets
    import numpy as np

    X, y = data_sets.load("digits" if small else name)
    return np.ascontiguousarray(X, np.uint8), y


# -------------------------------------------------------------------------------------------------------------- fits


def fits(report: Report, seeds: int, repeats: int) -> None:
    """Time, accuracy and NMI of both, for two and for ten clusters."""
    import numpy as np
    from sklearn.cluster import KMeans

    import dmmc

    X, y = load("mnist", report.small)
    floats = X.astype(np.float32)
    said: set[str] = set()

    def ours(rows: slice, k: int, seed: int) -> tuple[Any, int]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dmmc.ClusteringWarning)
            run = dmmc.fit(X[rows], k, random_state=seed, method="cpmmc")
        said.update(str(warning.message) for warning in caught)
        return run.labels, len(run.history)

    def theirs(rows: slice, k: int, seed: int) -> tuple[Any, int]:
        model = KMeans(k, n_init=1, random_state=seed).fit(floats[rows])
        return model.labels_, model.n_iter_

    for k in FIT_WANTED:
        ours(slice(3000), k, 0)
        theirs(slice(3000), k, 0)
    for k in FIT_WANTED:
        said.clear()
        found: dict[str, list[dict[str, float]]] = {"dmmc": [], "kmeans": []}
        for seed in range(seeds):
            least = dict.fromkeys(found, math.inf)
            for turn in range(repeats):
                for name, fit in (("dmmc", ours), ("kmeans", theirs)):
                    whole = partial(fit, slice(None), k, seed)
                    seconds, (labels, n_iter) = report.patience.until_quiet(partial(timed, whole))
                    least[name] = min(least[name], seconds)
                    if turn == repeats - 1:
                        found[name].append({"seconds": least[name], "n_iter": n_iter, **dmmc.score(labels, y)})
        report.measured.setdefault("fits", {})[f"k = {k}"] = {**found, "warnings": sorted(said)}
        compare(report, f"{'digits' if report.small else 'MNIST'} {X.shape[0]:,} x {X.shape[1]}", k, **found)
        for sentence in sorted(said):
            print(f"  dmmc warned: {sentence}")


def timed(do: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that it took, and what it gave."""
    began = time.perf_counter()
    result = do()
    return time.perf_counter() - began, result


def compare(report: Report, data: str, k: int, dmmc: list[dict[str, float]], kmeans: list[dict[str, float]]) -> None:
    """Lines about the fits of all seeds: the median ratio of the seconds, the ratios of the mean scores."""

    def mean(rows: list[dict[str, float]], what: str) -> float:
        return sum(row[what] for row in rows) / len(rows)

    seconds = [(a["seconds"], b["seconds"]) for a, b in zip(dmmc, kmeans, strict=True)]
    each = ", ".join(f"{a:.2f} / {b:.2f}" for a, b in seconds)
    report.add(f"{data}, k = {k}: time, dmmc / KMeans", median(a / b for a, b in seconds), f"{each} s", **FIT_WANTED[k])
    for what in ("accuracy", "nmi"):
        a, b = mean(dmmc, what), mean(kmeans, what)
        wanted = {"least": 1.0} if k == 10 else {}  # ten classes in two clusters are no contest
        report.add(f"{data}, k = {k}: {what}, dmmc / KMeans", a / b, f"{a:.4f} / {b:.4f}", **wanted)


# ------------------------------------------------------------------------------------------------ start and import


def starting() -> None:
    """In a child: seconds of a first fit of two and of ten clusters, and of the same again."""
    import dmmc

    X, _ = load("digits", True)
    times = []
    for k in (2, 10, 2, 10):
        began = time.perf_counter()
        dmmc.fit(X, k, method="cpmmc")
        times.append(time.perf_counter() - began)
    print(json.dumps(times))


def start(report: Report) -> None:
    """Compilation: what the first fits of a process take longer than the second ones."""
    with tempfile.TemporaryDirectory() as cache:
        cold = child("starting", NUMBA_CACHE_DIR=cache)
        warm = child("starting", NUMBA_CACHE_DIR=cache)
    seconds = {"compile": sum(cold[:2]) - sum(cold[2:]), "load_compiled": sum(warm[:2]) - sum(warm[2:])}
    report.measured["start_seconds"] = seconds
    once, later = seconds.values()
    report.add("first fits, compiled code loaded / compiled", later / once, f"{later:.2f} / {once:.2f} s")


def importing(report: Report, repeats: int) -> None:
    """`import dmmc` (which imports the rest when it is used) and all that a fit imports, against scikit-learn."""
    code = "import time; began = time.perf_counter(); import {}; print(time.perf_counter() - began)"
    modules = {"dmmc": "dmmc", "dmmc.fit": "dmmc.app.api", "sklearn.cluster": "sklearn.cluster"}
    least = dict.fromkeys(modules, math.inf)
    for _ in range(repeats):
        for name, module in modules.items():
            command = [sys.executable, "-c", code.format(module)]
            printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            least[name] = min(least[name], float(printed))
    report.measured["import_seconds"] = least
    peer = least["sklearn.cluster"]
    for name, wanted in (("dmmc", {"most": 1.3}), ("dmmc.fit", {})):
        detail = f"{1e3 * least[name]:.0f} / {1e3 * peer:.0f} ms"
        report.add(f"import {name} / import sklearn.cluster", least[name] / peer, detail, **wanted)


# ------------------------------------------------------------------------------------------------------------ memory


def resident(kind: str, small_path: str, path: str, n_clusters: str) -> None:
    """In a child: bytes resident after import and a small fit, and at the peak of a fit of what is at `path`."""
    import numpy as np

    import dmmc

    k = int(n_clusters)
    source: Callable[[str], Any] = np.load if kind == "array" else str
    dmmc.fit(source(small_path), k, method="cpmmc")
    baseline = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    run = dmmc.fit(source(path), k, method="cpmmc")
    print(json.dumps({"baseline": baseline, "peak": status("VmHWM"), "rows": len(run.labels)}))


def memory(report: Report) -> None:
    """The peak of fits of an array and of a zarr store against 1.5 times the data and 150 MB."""
    if not Path("/proc/self/clear_refs").exists():
        print("no peak memory: it is read from /proc, which this system does not have")
        return
    import numpy as np
    import zarr

    X, _ = load("cifar10_cnn", report.small)
    name = "digits" if report.small else "cifar10_cnn"
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for size, rows in (("small", X[:1500]), ("all", X)):
            paths["array", size], paths["zarr", size] = f"{folder}/{size}.npy", f"{folder}/{size}.zarr"
            np.save(paths["array", size], rows)
            stored = zarr.create_array(
                paths["zarr", size],
                shape=rows.shape,
                dtype=rows.dtype,
                chunks=(max(1, 2**24 // rows.shape[1]), rows.shape[1]),
            )
            stored[:] = rows
        limit = 1.5 * X.nbytes + 150 * MB
        for kind in ("array", "zarr"):
            for k in (10,) if report.small else FIT_WANTED:
                few, rows = paths[kind, "small"], paths[kind, "all"]
                if not report.small:
                    child("resident", kind, few, few, k)  # compiles, which would leave memory in the baseline
                found = child("resident", kind, few, rows, k)
                assert found["rows"] == len(X)
                above = max(found["peak"] - found["baseline"], os.sysconf("SC_PAGE_SIZE"))
                report.measured.setdefault("memory_mb", {})[f"{kind}, k = {k}"] = {
                    "data": X.nbytes / MB,
                    "baseline": found["baseline"] / MB,
                    "above_baseline": above / MB,
                    "limit": limit / MB,
                }
                detail = f"{above / MB:.0f} MB above {found['baseline'] / MB:.0f}, data {X.nbytes / MB:.0f}"
                report.add(
                    f"{name} from {kind}, k = {k}: peak / (1.5 x data + 150 MB)", above / limit, detail, most=1.0
                )


# -------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Run everything."""
    parser = arguments(__doc__ or "", "quick")
    parser.add_argument("--seeds", type=int, help="random_state 0 to this less one; default 3, small 1")
    parser.add_argument("--repeats", type=int, help="least time of this many fits counts; default 2, small 1")
    parser.add_argument("--only", choices=("fits", "start", "import", "memory"), help="one part alone")
    options = parser.parse_args()
    small = options.small
    report = Report("quick", small, patience=Patience(0 if small else options.patience))
    print(headline())
    parts: dict[str, Callable[[], None]] = {
        "memory": lambda: memory(report),
        "import": lambda: importing(report, 1 if small else 5),
        "start": lambda: start(report),
        "fits": lambda: fits(report, options.seeds or (1 if small else 3), options.repeats or (1 if small else 2)),
    }
    for name, part in parts.items():
        if options.only in (None, name):
            part()
    report.write(destination(options.json, "quick", small))


if __name__ == "__main__":
    main()
