"""A fit of data that are larger than the workers' memory: 6 GB read again in each pass by two workers of 1 GB.

Blobs of bytes (7,653,062 x 784) are written to a zarr store in `--folder`, chunk by chunk (uncompressed, as noise does
not compress), and deleted afterwards unless `--keep`. Two worker processes of one thread, each with a memory limit of
1 GB that its nanny enforces, fit them with k = 2 and few passes, from blocks of at most 16 MB: what there is room for
is kept, the rest is read again in each pass. The peak of each worker is that of its resident set (VmHWM) since it was
started, libraries included. The same fit then runs in the memory of one new process, with threads: the labels must be
equal.

`--small` does the same with 300 MB and workers of 650 MB, of which a process without rows is counted as 420.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`: `bytes`, `rows`, `blocks`, `block_bytes` (the largest), `limit_bytes`, `blocks_read` (in all
passes; every block is read once, so what is more was streamed), `passes_streamed` (how often an average block was read
again), `labels_equal`, `worker_restarts`, `workers` and `in_memory` (each with `seconds`, `search_seconds`, `passes`
and `peak_bytes`: the largest worker's, or the process's). Timings are not pass or fail; other labels, a worker that was
started again or a peak above the limit end the run with an error, after the JSON is written.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from _report import Patience, Report, arguments, destination, headline, run_child

# What a benchmark imports would be in the figures of its children: they import for themselves.

FEATURES = 784
WORKERS = 2
CLUSTERS = 2
ROWS, LIMIT, PASSES = 7_653_062, 1_000_000_000, 8
SMALL_ROWS, SMALL_LIMIT, SMALL_PASSES = 382_653, 650_000_000, 3
CHILD_TIMEOUT = 3600
MB = 1e6


def peak(pid: int | str = "self") -> int:
    """Most bytes that a process has had in memory."""
    (line,) = (line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def on_workers(path: str, limit: int, max_iter: int) -> dict[str, Any]:
    """Fit on workers with a memory limit: as `dmmc.fit` does, with the engine at hand to be asked what it read."""
    import numpy as np
    from _cluster import local_client

    from dmmc import ClusteringWarning, CuttingPlaneMMC
    from dmmc.data.open import open_rows
    from dmmc.engine.connect import connect
    from dmmc.engine.distributed import Distributed

    with local_client(WORKERS, limit) as client, connect(client) as cluster:
        before = client.run(os.getpid)
        began = time.perf_counter()
        rows = open_rows(path, None, None, cluster.compute)
        model = CuttingPlaneMMC(CLUSTERS, max_iter=max_iter, random_state=0)
        with Distributed(rows, cluster) as engine, warnings.catch_warnings():
            warnings.simplefilter("ignore", ClusteringWarning)
            model.fit_on(engine)
            seconds = time.perf_counter() - began
            read = engine.blocks_read
        after = client.run(os.getpid)
        return {
            "labels": model.labels_,
            "blocks": len(rows.bounds) - 1,
            "block_bytes": int(np.diff(rows.bounds).max()) * FEATURES,
            "bytes": rows.nbytes,
            "blocks_read": read,
            "worker_restarts": len(set(before.values()) - set(after.values())),
            "took": {
                "seconds": seconds,
                "search_seconds": model.history_[-1]["seconds"],
                "passes": len(model.history_),
                "peak_bytes": max(peak(pid) for pid in after.values()),
            },
        }


def in_memory(path: str, labels: str, max_iter: str) -> None:
    """In a child: the same fit with all rows in memory."""
    import numpy as np
    from _cluster import fitted

    fit = fitted(path, CLUSTERS, int(max_iter), random_state=0)
    np.save(labels, fit.labels)
    took = {"seconds": fit.total, "search_seconds": fit.search, "passes": fit.passes, "peak_bytes": peak()}
    print(json.dumps(took))


def compare(report: Report, path: Path, scratch: Path, limit: int, max_iter: int) -> None:
    """Both fits and what is said of them."""
    import numpy as np

    found = on_workers(str(path), limit, max_iter)
    labels, workers = found.pop("labels"), found.pop("took")
    alone = run_child("out_of_core", "in_memory", path, scratch / "labels.npy", max_iter, timeout=CHILD_TIMEOUT)
    equal = np.array_equal(labels, np.load(scratch / "labels.npy"))
    report.measured |= found | {
        "rows": len(labels),
        "limit_bytes": limit,
        "passes_streamed": found["blocks_read"] / found["blocks"] - 1,
        "labels_equal": equal,
        "workers": workers,
        "in_memory": alone,
    }
    size, blocks = found["bytes"], found["blocks"]
    data = f"{size / 1e9:.2f} GB"
    print(
        f"{data}, {len(labels):,} rows, {blocks} blocks of at most {found['block_bytes'] / MB:.1f} MB; "
        f"{workers['passes']} passes; labels {'equal' if equal else 'DIFFER'}; "
        f"{found['worker_restarts']} workers were started again"
    )
    report.add(
        f"{data}: peak of a worker / its limit",
        workers["peak_bytes"] / limit,
        f"{workers['peak_bytes'] / MB:.0f} / {limit / MB:.0f} MB",
        most=1.0,
    )
    report.add(f"{data}: largest block / 16 MB", found["block_bytes"] / (16 * MB), most=1.0)
    detail = f"{found['blocks_read']} of {blocks}"
    report.add(f"{data}: blocks read / blocks", found["blocks_read"] / blocks, detail, least=2.0)
    detail = f"{workers['seconds']:.1f} / {alone['seconds']:.1f} s, {alone['peak_bytes'] / MB:.0f} MB"
    report.add(f"{data}: time, {WORKERS} small workers / in memory", workers["seconds"] / alone["seconds"], detail)


def check(measured: dict[str, Any]) -> None:
    """End with an error where the result, not its speed, is wrong."""
    if not measured["labels_equal"]:
        raise SystemExit("the labels are not those of the fit in memory")
    if measured["worker_restarts"] or measured["workers"]["peak_bytes"] > measured["limit_bytes"]:
        raise SystemExit("a worker went beyond its memory limit")


def main() -> None:
    """Write the store, fit it twice, delete it."""
    from _cluster import blobs, write_store

    parser = arguments(__doc__ or "", "out_of_core")
    parser.add_argument("--folder", type=Path, help="where the store goes; default a temporary folder (TMPDIR)")
    parser.add_argument("--keep", action="store_true", help="leave the store there, and use it if it is there")
    options = parser.parse_args()
    small = options.small
    report = Report("out_of_core", small, patience=Patience(0))
    print(headline())
    rows, limit, max_iter = (SMALL_ROWS, SMALL_LIMIT, SMALL_PASSES) if small else (ROWS, LIMIT, PASSES)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        path = (options.folder or Path(scratch)) / f"blobs-{rows}.zarr"
        try:
            if not path.exists():
                began = time.perf_counter()
                write_store(path, rows, blobs(FEATURES, CLUSTERS), compressed=False)
                print(f"written in {time.perf_counter() - began:.0f} s", flush=True)
            compare(report, path, Path(scratch), limit, max_iter)
        finally:
            if not options.keep:
                shutil.rmtree(path, ignore_errors=True)
    report.write(destination(options.json, "out_of_core", small))
    check(report.measured)


if __name__ == "__main__":
    main()
