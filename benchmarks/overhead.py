"""What a pass on a cluster costs beside its work, and two workers against one.

Overhead: 10, 100 and 1000 blocks of one byte each, whose pass gives 784 zeros; parameters of 784 floats travel with it.
Two worker processes of one thread, `Distributed` against `Local` in this process (all cores); the least time of
`--rounds` passes counts. Here a ratio is milliseconds over the milliseconds wanted.

Two workers against one: fits with k = 10 of MNIST and of eight copies of it (560,000 x 784 bytes), from a zarr store in
a temporary folder, with equally many passes. The time is that of the search: the rows are in the workers' memory, the
starting point is found, the compiled code is loaded. The ratio is that of the least times of `--repeats` fits in turn;
labels must be equal, or the run ends with an error.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`: `overhead` (a list of `blocks`, `engine`, `least_ms`, `median_ms`) and `two_workers` (a list
of `data`, `rows`, `bytes`, `workers`, `passes`, `search_seconds`, `seconds_per_pass`: the mean). What other programs
disturbed is done again (`--patience`). Timings are not pass or fail.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _cluster import Fitted, copies, fitted, load_bytes, local_client, write_store
from _report import Patience, Report, arguments, destination, headline

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset
from dmmc.engine import Engine, Local
from dmmc.engine.connect import connect
from dmmc.engine.distributed import Distributed

WANTED_MS = {10: 30.0, 100: 30.0, 1000: 50.0}
FLOATS = 784
WORKERS = 2


# ---------------------------------------------------------------------------------------------------------- overhead


def no_work(block: Block, params: Any) -> Any:
    """What a pass costs when it does nothing."""
    return np.zeros(FLOATS)


def tiny_blocks(count: int) -> Dataset:
    """A matrix of one column and a row a block."""
    rows = np.zeros((count, 1), np.uint8)
    blocks = tuple(Block(i, i, i + 1, rows[i : i + 1]) for i in range(count))
    return Dataset(f"{count} blocks", count, 1, rows.dtype, False, blocks)


def passes(engine: Engine, rounds: int) -> list[float]:
    """Milliseconds of each pass."""
    params = np.zeros(FLOATS)
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        engine.run(no_work, params)
        times.append(1e3 * (time.perf_counter() - began))
    return times


def overhead(report: Report, rounds: int) -> None:
    """Milliseconds of passes without work."""
    measured = report.measured.setdefault("overhead", [])
    with local_client(WORKERS) as client, connect(client) as cluster:
        for count, wanted in WANTED_MS.items():
            dataset = tiny_blocks(count)
            least = {}
            with Distributed(dataset, cluster) as distributed, Local(dataset) as local:
                for name, engine in (("distributed", distributed), ("local", local)):
                    passes(engine, 2)  # sends the blocks, starts the threads
                    times = report.patience.until_quiet(partial(passes, engine, rounds))
                    least[name] = min(times)
                    figures = {"least_ms": least[name], "median_ms": statistics.median(times)}
                    measured.append({"blocks": count, "engine": name, **figures})
            report.add(
                f"{count} blocks, {WORKERS} workers: ms a pass / {wanted:.0f} ms",
                least["distributed"] / wanted,
                f"{least['distributed']:.1f} ms; threads of this process {least['local']:.1f} ms",
                most=1.0,
            )


# ------------------------------------------------------------------------------------------------------- two workers


def two_workers(report: Report, folder: Path, repeats: int, max_iter: int) -> None:
    """Search passes of one and of two workers, on the data and on copies of them."""
    name, X, _ = load_bytes(report.small)
    with local_client(1) as one, local_client(WORKERS) as two:
        for count, wanted in ((1, {}), (8, {"most": 0.6})):
            path = write_store(folder / f"{count}.zarr", count * len(X), copies(X))
            least: dict[int, Fitted] = {}
            for turn in range(repeats + 1):
                for workers, client in ((1, one), (WORKERS, two)):
                    fit = partial(fitted, str(path), 10, max_iter, scheduler=client)
                    if turn == 0:
                        fit()  # loads the compiled code
                        continue
                    found = report.patience.until_quiet(fit)
                    least[workers] = min(least.get(workers, found), found, key=lambda fit: fit.search)
            called = f"{count} x {name}, {count * len(X):,} x {X.shape[1]}"
            compare(report, called, count * X.nbytes, least, wanted)


def compare(report: Report, called: str, size: int, found: dict[int, Fitted], wanted: dict[str, float]) -> None:
    """One line, after a look at the labels."""
    one, two = found.values()
    if one.passes != two.passes or not np.array_equal(one.labels, two.labels):
        raise SystemExit(f"{called}: {WORKERS} workers do not give the labels of one")
    for workers, fit in found.items():
        report.measured.setdefault("two_workers", []).append(
            {
                "data": called,
                "rows": len(fit.labels),
                "bytes": size,
                "workers": workers,
                "passes": fit.passes,
                "search_seconds": fit.search,
                "seconds_per_pass": fit.search / fit.passes,
            }
        )
    each = " / ".join(f"{1e3 * fit.search / fit.passes:.0f}" for fit in (two, one))
    detail = f"{each} ms a pass, {two.passes} passes, equal labels"
    report.add(f"{called}: search, two workers / one", two.search / one.search, detail, **wanted)


# -------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Run both parts."""
    parser = arguments(__doc__ or "", "overhead")
    parser.add_argument("--rounds", type=int, help="passes of which the least time counts; default 50, small 3")
    parser.add_argument("--repeats", type=int, help="fits of which the least time counts; default 3, small 1")
    parser.add_argument("--only", choices=("overhead", "workers"), help="one part alone")
    options = parser.parse_args()
    small = options.small
    report = Report("overhead", small, patience=Patience(0 if small else options.patience))
    print(headline())
    if options.only in (None, "overhead"):
        overhead(report, options.rounds or (3 if small else 50))
    if options.only in (None, "workers"):
        with tempfile.TemporaryDirectory() as folder:
            two_workers(report, Path(folder), options.repeats or (1 if small else 3), 3 if small else 20)
    report.write(destination(options.json, "overhead", small))


if __name__ == "__main__":
    main()
