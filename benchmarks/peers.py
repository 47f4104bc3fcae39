"""`dmmc.fit` against dask-ml's KMeans, on the same two workers.

Both get MNIST (70,000 x 784 bytes) from the same zarr store on the same cluster of two worker processes of one thread
each, for k = 2 and 10. Reading is in the time of both. Ours is `dmmc.fit(path, k, method="cpmmc", scheduler=client)`;
dask-ml gets a float32 array in `--chunks` chunks (two a worker by default) that is persisted on the workers before
`KMeans(n_clusters=k)` starts; its seconds without reading are in the JSON too. Each first fits a small slice, so
compilation is in nobody's time. For each `random_state` they run in turn; the ratio is the median over the seeds.
Labels are used only to score. Without dask-ml (`pip install '.[bench]'`) a sentence says so and ours is measured
alone.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`: `dask_ml` (its version, or null) and `fits` (a list of `who`, `k`, `seed`, `seconds`,
`fit_seconds` without reading or null, `n_iter`, `accuracy`, `nmi`, `ari`, `purity_error`). What other programs
disturbed is done again (`--patience`). Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from typing import Any

import dask.array
import numpy as np
from _cluster import copies, load_bytes, local_client, write_store
from _report import Patience, Report, arguments, destination, headline
from distributed import Client, wait

import dmmc

WANTED = {"most": 0.5, "aim": 0.2}
CLUSTERS = (2, 10)
WORKERS = 2
Fit = Callable[[Path, int, int], tuple[Any, dict[str, Any]]]


def ours(client: Client, path: Path, k: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Labels, and what it took."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        run = dmmc.fit(str(path), k, method="cpmmc", scheduler=client, random_state=seed)
    seconds = time.perf_counter() - began
    return run.labels, {"seconds": seconds, "fit_seconds": None, "n_iter": len(run.history)}


def theirs(chunks: int, path: Path, k: int, seed: int) -> tuple[Any, dict[str, Any]]:
    """Labels, and what it took."""
    from dask_ml.cluster import KMeans

    began = time.perf_counter()
    rows = dask.array.from_zarr(str(path))
    rows = rows.rechunk((-(-len(rows) // chunks), -1)).astype(np.float32).persist()
    wait(rows)
    read = time.perf_counter()
    model = KMeans(n_clusters=k, random_state=seed).fit(rows)
    labels = model.labels_.compute()
    ended = time.perf_counter()
    return labels, {"seconds": ended - began, "fit_seconds": ended - read, "n_iter": int(model.n_iter_)}


def compile_first(fits: dict[str, Fit], path: Path) -> None:
    """Fit a few rows, untimed."""
    for k in CLUSTERS:
        for fit in fits.values():
            fit(path, k, 0)


def measure(report: Report, fits: dict[str, Fit], path: Path, y: Any, seeds: int) -> list[dict[str, Any]]:
    """All fits, in turn."""
    found = []
    for k in CLUSTERS:
        for seed in range(seeds):
            for who, fit in fits.items():
                labels, took = report.patience.until_quiet(partial(fit, path, k, seed))
                found.append({"who": who, "k": k, "seed": seed, **took, **dmmc.score(labels, y)})
    return found


def compare(report: Report, data: str, k: int, found: list[dict[str, Any]]) -> None:
    """Lines about one number of clusters."""
    mine, peer = ([row for row in found if row["k"] == k and row["who"] == who] for who in ("dmmc", "dask-ml"))
    if not peer:
        alone = ", ".join(f"{row['seconds']:.2f}" for row in mine)
        print(f"{data}, k = {k}: dmmc alone {alone} s")
        return
    pairs = [(a["seconds"], b["seconds"]) for a, b in zip(mine, peer, strict=True)]
    each = ", ".join(f"{a:.2f} / {b:.2f}" for a, b in pairs)
    report.add(f"{data}, k = {k}: time, dmmc / dask-ml", median(a / b for a, b in pairs), f"{each} s", **WANTED)
    for what in ("accuracy", "nmi"):
        a, b = (fmean(row[what] for row in rows) for rows in (mine, peer))
        report.add(f"{data}, k = {k}: {what}, dmmc / dask-ml", a / b, f"{a:.4f} / {b:.4f}")


def main() -> None:
    """Run everything."""
    parser = arguments(__doc__ or "", "peers")
    parser.add_argument("--seeds", type=int, help="random_state 0 to this less one; default 3, small 1")
    parser.add_argument("--chunks", type=int, default=2 * WORKERS, help="of dask-ml's array; default 4")
    options = parser.parse_args()
    small = options.small
    report = Report("peers", small, patience=Patience(0 if small else options.patience))
    print(headline())
    there = find_spec("dask_ml") is not None
    report.measured["dask_ml"] = version("dask-ml") if there else None
    print(f"dask-ml {version('dask-ml')}" if there else "dask-ml is not installed: pip install '.[bench]'")
    name, X, y = load_bytes(small)
    with tempfile.TemporaryDirectory() as folder, local_client(WORKERS) as client:
        fits: dict[str, Fit] = {"dmmc": partial(ours, client)}
        if there:
            fits["dask-ml"] = partial(theirs, options.chunks)
        if not small:
            compile_first(fits, write_store(Path(folder) / "slice.zarr", 3000, copies(X)))
        path = write_store(Path(folder) / "all.zarr", len(X), copies(X))
        found = measure(report, fits, path, y, options.seeds or (1 if small else 3))
    report.measured["fits"] = found
    for k in CLUSTERS:
        compare(report, f"{name} {X.shape[0]:,} x {X.shape[1]}", k, found)
    report.write(destination(options.json, "peers", small))


if __name__ == "__main__":
    main()
