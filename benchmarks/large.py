"""Fits of more rows than memory holds: 10,000,000 x 64 from a zarr store, in a process of 1 GB and on workers of 1 GB.

`sheets`: float32 rows (2.5 GB) on 200 curved sheets, four of which always lie one above the other, so that k-means cuts
across them. `shifts`: MNIST eight times, each time shifted by another pixel (560,000 x 784 bytes; needs DMMC_DATA). The
store is written to `--folder`, chunk by chunk, and deleted afterwards unless `--keep`.

Each fit is one of a new process: with threads and `memory="1GB"`, on one worker of one thread and on two, each with a
memory limit of 1 GB that its nanny enforces. Peaks are those of the resident set (VmHWM): absolute, and above what the
process had before the fit, when all is imported and compiled. A row of the driver of a cluster costs what it has above
that, divided by the number of rows. Then the model of the first fit labels all rows into a zarr array, once to compile
and once for the time, beside two threads that do nothing but read the store by chunks.

`--small` is 1,100,000 rows on 8 sheets, and digits for MNIST. JSON: `benchmark`, `small`, `machine`, `lines` and
`measured`: for each set `bytes`, `rows`, `clusters`, `limit_bytes`, `labels_equal` (of all fits), `fits` (by name:
`accuracy`, `nmi`, `seconds`, `phases`, `passes`, `peak_bytes` of the driver, `before_bytes`, `reading` (as in
`run.json`; null on a cluster) and `workers`, the peak of each) and `predict`: `seconds`, `peak_bytes`,
`read_seconds`. Timings and accuracies are not pass or fail; other labels or a peak above the limit end the run with an
error, after the JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _report import Patience, Report, arguments, destination, headline, run_child, status

if TYPE_CHECKING:
    from _cluster import Array, Part

# What a benchmark imports would be in the figures of its children: they import for themselves.

ROWS, FEATURES, CLUSTERS = 10_000_000, 64, 200
SMALL_ROWS, SMALL_CLUSTERS = 1_100_000, 8
STACKED = 4
"""Sheets that lie one above the other."""
LIMIT, SMALL_LIMIT = 1_000_000_000, 680_000_000
SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (1, -1))
SIDE = {784: 28, 64: 8}
CHILD_TIMEOUT = 4 * 3600
MB = 1e6


# -------------------------------------------------------------------------------------------------------------- data


def sheets(n_clusters: int, wanted: str) -> Part:
    """Rows on curved sheets, or which sheet each is on; stacks of `STACKED` sheets have places of their own."""
    import numpy as np

    rng = np.random.default_rng(0)
    n_stacks = -(-n_clusters // STACKED)
    places = 6.0 * rng.standard_normal((n_stacks, FEATURES))
    axes = np.linalg.qr(rng.standard_normal((n_stacks, FEATURES, 3)))[0]

    def part(start: int, stop: int) -> Array:
        rng = np.random.default_rng([1, start])
        of = rng.integers(n_clusters, size=stop - start)
        if wanted == "labels":
            return of[:, None]
        u, v = rng.uniform(-1.0, 1.0, (2, stop - start))
        height = 3.0 * (u**2 + v**2) + 2.5 * (of % STACKED)
        along = np.stack([5.0 * u, 5.0 * v, height], axis=1)
        rows = rng.standard_normal((stop - start, FEATURES), np.float32) * np.float32(0.05)
        for stack in np.unique(of // STACKED):
            here = of // STACKED == stack
            rows[here] += (places[stack] + along[here] @ axes[stack].T).astype(np.float32)
        return rows

    return part


def shifts(small: bool, wanted: str) -> tuple[Part, int]:
    """Images shifted by a pixel, or their classes; and how many there are."""
    import numpy as np
    from _cluster import load_bytes

    _, X, y = load_bytes(small)
    side = SIDE[X.shape[1]]
    images = X.reshape(-1, side, side)

    def part(start: int, stop: int) -> Array:
        number = np.arange(start, stop)
        which, row = number // len(X), number % len(X)
        if wanted == "labels":
            return np.asarray(y, np.int64)[row][:, None]
        found = np.empty((stop - start, X.shape[1]), np.uint8)
        for shift in np.unique(which):
            here = which == shift
            found[here] = np.roll(images[row[here]], SHIFTS[shift], axis=(1, 2)).reshape(-1, X.shape[1])
        return found

    return part, len(SHIFTS) * len(X)


def write_truth(path: Path, n_rows: int, rows: Part, labels: Part) -> None:
    """Labels of the rows as they were written: chunk by chunk."""
    import numpy as np
    from _cluster import count_chunk_rows

    bounds = [*range(0, n_rows, count_chunk_rows(rows)), n_rows]
    np.save(path, np.concatenate([labels(start, stop)[:, 0] for start, stop in pairwise(bounds)]))


# ---------------------------------------------------------------------------------------------------------- children


def fit(path: str, workers: str, limit: str, options: str, out: str) -> None:
    """In a child: a fit in this process with a memory limit (`workers` 0), or on so many workers; a result in `out`."""
    import warnings

    import numpy as np

    import dmmc

    # imports and compilation, as they would be in the peak of the fit
    asked = json.loads(options)
    k = asked.pop("n_clusters")
    count = int(workers)
    warnings.simplefilter("ignore")
    import zarr

    dtype = zarr.open_array(path, mode="r").dtype
    few = np.random.default_rng(0).integers(0, 255, (2000, FEATURES)).astype(dtype)
    with tempfile.TemporaryDirectory() as scratch:
        dmmc.fit(few, 3, out=Path(scratch, "few"), n_jobs=asked.get("n_jobs"), method="cpmmc", max_iter=3)
    if not count:
        asked["memory"] = int(limit)
        _tell(path, k, out, asked, list)
        return
    from _cluster import local_client
    from out_of_core import peak

    with local_client(count, int(limit)) as client:
        asked.pop("n_jobs", None)
        import os

        def peaks() -> list[int]:
            return [peak(pid) for pid in client.run(os.getpid).values()]

        _tell(path, k, out, asked | {"scheduler": client}, peaks)


def _tell(path: str, k: int, out: str, asked: dict[str, Any], peaks: Any) -> None:
    """Fit, and print what it took."""
    import dmmc

    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
    before = status("VmRSS")
    began = time.perf_counter()
    run = dmmc.fit(path, k, out=out, **asked)
    info = run.info
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - began,
                "phases": info["timings"],
                "passes": info["passes"],
                "method": run.choices["method"],
                "peak_bytes": status("VmHWM"),
                "before_bytes": before,
                "reading": info["reading"],
                "workers": peaks(),
            }
        )
    )


def predict(path: str, model: str, limit: str, n_jobs: str, out: str) -> None:
    """In a child: label all rows twice, the second time with everything compiled, and read all of them without dmmc."""
    import zarr

    import dmmc

    fitted = dmmc.load(model).set_params(n_jobs=int(n_jobs))
    seconds = []
    for number in range(2):
        began = time.perf_counter()
        fitted.predict(path, out=Path(out, f"labels{number}.zarr"), memory=int(limit))
        seconds.append(time.perf_counter() - began)
    peak = status("VmHWM")
    array = zarr.open_array(path, mode="r")
    each = array.chunks[0]
    began = time.perf_counter()
    with ThreadPoolExecutor(int(n_jobs)) as pool:
        for _ in pool.map(lambda start: array[start : start + each], range(0, array.shape[0], each)):
            pass
    read = time.perf_counter() - began
    print(json.dumps({"seconds": min(seconds), "peak_bytes": peak, "read_seconds": read}))


# ------------------------------------------------------------------------------------------------------------ report


def compare(
    report: Report, name: str, path: Path, truth: Path, options: dict[str, Any], limit: int, scratch: Path
) -> None:
    """All fits of a store, and the prediction."""
    import numpy as np
    import zarr

    import dmmc

    array, known = zarr.open_array(str(path), mode="r"), np.load(truth)
    size = array.shape[0] * array.shape[1] * array.dtype.itemsize
    fits, labels = {}, {}
    for called, workers in {"1 process": 0, "1 worker": 1, "2 workers": 2}.items():
        out = scratch / f"{name} {called}"
        found = run_child("large", "fit", path, workers, limit, json.dumps(options), out, timeout=CHILD_TIMEOUT)
        labels[called] = zarr.open_array(str(out / "labels.zarr"), mode="r")[:]
        scores = dmmc.score(labels[called], known)
        fits[called] = {"accuracy": scores["accuracy"], "nmi": scores["nmi"], **found}
        peaks = ", ".join(f"{peak / MB:.0f}" for peak in found["workers"])
        read = "" if found["reading"] is None else f", read {found['reading']['bytes_read'] / 1e9:.1f} GB"
        print(
            f"{name}, {called}: accuracy {scores['accuracy']:.3f}, NMI {scores['nmi']:.3f}, {found['seconds']:.0f} s, "
            f"{found['passes']} passes; driver {found['peak_bytes'] / MB:.0f} MB"
            f" ({found['before_bytes'] / MB:.0f} before){f', workers {peaks} MB' if peaks else ''}{read}",
            flush=True,
        )
        for phase, seconds in found["phases"].items():
            print(f"    {phase:30s} {seconds:8.1f} s")
    n_jobs = options.get("n_jobs") or 2
    ahead = run_child(
        "large", "predict", path, scratch / f"{name} 1 process", limit, n_jobs, scratch, timeout=CHILD_TIMEOUT
    )
    equal = all(np.array_equal(labels["1 process"], other) for other in labels.values())
    predicted = zarr.open_array(str(scratch / "labels1.zarr"), mode="r")[:]
    report.measured[name] = {
        "bytes": size,
        "rows": len(known),
        "clusters": options["n_clusters"],
        "limit_bytes": limit,
        "labels_equal": bool(equal and np.array_equal(predicted, labels["1 process"])),
        "fits": fits,
        "predict": ahead,
    }
    for number in range(2):
        shutil.rmtree(scratch / f"labels{number}.zarr")
    alone, one, two = fits.values()
    report.add(f"{name}: peak of one process / its limit", alone["peak_bytes"] / limit, most=1.0)
    report.add(f"{name}: peak of a worker / its limit", max(two["workers"]) / limit, most=1.0)
    each = (two["peak_bytes"] - two["before_bytes"]) / len(known)
    report.add(f"{name}: bytes of a row on the driver of a cluster", each, most=20.0)
    report.add(f"{name}: time, 2 workers / 1 worker", two["seconds"] / one["seconds"], most=0.6)
    report.add(f"{name}: time, 2 workers / 1 process", two["seconds"] / alone["seconds"])
    detail = f"{ahead['seconds']:.1f} / {ahead['read_seconds']:.1f} s"
    report.add(f"{name}: time, predict / reading", ahead["seconds"] / ahead["read_seconds"], detail, most=1.5)


def check(measured: dict[str, Any]) -> None:
    """End with an error where the result, not its speed, is wrong."""
    for name, found in measured.items():
        if not found["labels_equal"]:
            raise SystemExit(f"{name}: the labels of the fits and of the prediction differ")
        peaks = [peak for one in found["fits"].values() for peak in one["workers"]]
        if max(*peaks, found["fits"]["1 process"]["peak_bytes"]) > found["limit_bytes"]:
            raise SystemExit(f"{name}: a process went beyond its memory limit")


def make_store(name: str, folder: Path, small: bool, n_rows: int, k: int) -> tuple[Path, Path]:
    """The store of a set, and the file with the truth; written where they are not there."""
    from _cluster import write_store

    if name == "sheets":
        rows, labels = sheets(k, "rows"), sheets(k, "labels")
    else:
        (rows, n_rows), (labels, _) = shifts(small, "rows"), shifts(small, "labels")
    path, truth = folder / f"{name}-{n_rows}-{k}.zarr", folder / f"{name}-{n_rows}-{k}.npy"
    if not truth.exists():
        began = time.perf_counter()
        write_store(path, n_rows, rows)
        write_truth(truth, n_rows, rows, labels)
        print(f"{name}: written in {time.perf_counter() - began:.0f} s", flush=True)
    return path, truth


def choose_options(options: argparse.Namespace, name: str) -> tuple[int, dict[str, Any]]:
    """How many rows, and what is asked of a fit."""
    small = options.small
    n_rows = options.rows or (SMALL_ROWS if small else ROWS)
    k = 10 if name == "shifts" else options.clusters or (SMALL_CLUSTERS if small else CLUSTERS)
    asked: dict[str, Any] = {"n_clusters": k, "method": "cpmmc" if small else options.method}
    if small or options.max_iter:
        asked["max_iter"] = options.max_iter or 3
    if options.effort:
        asked["effort"] = options.effort
    if small:
        asked["n_jobs"] = 1
    return n_rows, asked


def main() -> None:
    """Write each store, fit it three times, predict, delete it."""
    parser = arguments(__doc__ or "", "large")
    parser.add_argument("--folder", type=Path, help="where stores go; default a temporary folder (TMPDIR)")
    parser.add_argument("--keep", action="store_true", help="leave the stores there, and use them if they are there")
    parser.add_argument("--only", choices=("sheets", "shifts"), help="one set alone")
    parser.add_argument("--rows", type=int, help=f"of sheets; default {ROWS:,}")
    parser.add_argument("--clusters", type=int, help=f"of sheets; default {CLUSTERS}")
    parser.add_argument("--memory", type=int, help=f"bytes that a process may take; default {LIMIT:,}")
    parser.add_argument("--method", default="auto", help="of the fits; default auto")
    parser.add_argument("--effort", help="of auto")
    parser.add_argument("--max-iter", type=int, help="most passes of a search")
    options = parser.parse_args()
    report = Report("large", options.small, patience=Patience(0))
    print(headline())
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    limit = options.memory or (SMALL_LIMIT if options.small else LIMIT)
    for name in ("sheets", "shifts"):
        if options.only not in (None, name):
            continue
        n_rows, asked = choose_options(options, name)
        with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
            folder = options.folder or Path(scratch)
            path, truth = make_store(name, folder, options.small, n_rows, asked["n_clusters"])
            try:
                compare(report, name, path, truth, asked, limit, Path(scratch))
            finally:
                if not options.keep:
                    shutil.rmtree(path, ignore_errors=True)
                    truth.unlink(missing_ok=True)
    report.write(destination(options.json, "large", options.small))
    check(report.measured)


if __name__ == "__main__":
    main()
