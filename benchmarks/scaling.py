"""How the passes and the whole fit scale with the number of workers.

Strong scaling: the same rows for every number of workers; ideally the time falls as 1 / N, slope -1. Weak scaling:
`--rows` for each worker; ideally the time stays, slope 0. Strong scaling has the rows that weak scaling has at the
largest number of workers. Rows are blobs of bytes (784 features), or copies of MNIST with `--data mnist`, in zarr
stores in `--folder` (a temporary one by default). A fit has k = 10, at most `--passes` passes and no bounds on the
sizes of clusters (keeping to them takes extra passes, more or fewer as the rows are). Its time includes reading and the
starting point but not starting workers; that of a pass is the median over the passes of the search, with the rows in
memory. The least of `--repeats` fits counts. A cluster first fits a small store, so that compiled code is loaded.

Without `--scheduler`, a local cluster of N processes of one thread is started for each N of `--workers`. With it, that
cluster is measured as it is: an engine uses all workers there are, so nothing is scaled and `--workers` is not used
(`--folder` must be seen by its workers). Scale the cluster, then run again with `--append`, which keeps the records
that the JSON has; `--rows-strong` then fixes the rows of strong scaling.

Where threads of workers outnumber the cores of their machine they are marked as oversubscribed (* in the table, hollow
in the picture); slopes are fitted, by least squares of the logarithms, to the other points, if there are two.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`: time at the most workers that are not
oversubscribed over time at the fewest, `most` / `least` / `aim`: null, `verdict`, `detail`) and `measured`: `records`
(a list of `kind`: strong or weak, `workers`, `rows`, `bytes`, `seconds` of the fit, `passes`, `seconds_per_pass`,
`oversubscribed`) and `slopes` (kind to `fit` and `pass`, or null). The picture, log-log, is a PNG beside the JSON.
Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _cluster import Fitted, Part, blobs, copies, fitted, load_bytes, local_client, write_store
from _report import Patience, Report, arguments, destination, headline
from distributed import Client

KINDS = ("strong", "weak")
TIMES = {"fit": "seconds", "pass": "seconds_per_pass"}
IDEAL = {"strong": -1, "weak": 0}
CLUSTERS = 10
FEATURES = 784
Record = dict[str, Any]


# ------------------------------------------------------------------------------------------------------- measurement


def oversubscribed(client: Client) -> bool:
    """Whether a machine of the cluster has more threads of workers than cores."""
    cores = client.run(usable_cores)
    workers = client.scheduler_info(n_workers=-1)["workers"]
    threads: Counter[str] = Counter()
    for worker in workers.values():
        threads[worker["host"]] += worker["nthreads"]
    return any(threads[worker["host"]] > cores[address] for address, worker in workers.items() if address in cores)


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(client: Client, options: argparse.Namespace, stores: Stores, patience: Patience) -> Iterator[Record]:
    """Both kinds, on the workers that are there."""
    workers = len(client.scheduler_info(n_workers=-1)["workers"])
    most = workers if options.scheduler else max(options.counts)
    strong = options.rows_strong or most * options.rows
    fitted(stores.of(min(options.rows, 4096)), CLUSTERS, 2, scheduler=client)
    for kind, rows in (("strong", strong), ("weak", workers * options.rows)):
        fit = partial(fitted, stores.of(rows), CLUSTERS, options.passes, scheduler=client, min_size=0.0)
        found: list[Fitted] = [patience.until_quiet(fit) for _ in range(options.repeats)]
        yield {
            "kind": kind,
            "workers": workers,
            "rows": rows,
            "bytes": rows * stores.n_features,
            "seconds": min(one.total for one in found),
            "passes": found[0].passes,
            "seconds_per_pass": min(one.each for one in found),
            "oversubscribed": oversubscribed(client),
        }


class Stores:
    """Stores of rows of one kind, each written once."""

    def __init__(self, folder: Path, part: Part) -> None:
        self.n_features = part(0, 1).shape[1]
        self._folder = folder
        self._part = part

    def of(self, rows: int) -> str:
        """Path of a store of so many rows."""
        path = self._folder / f"{rows}.zarr"
        return str(path if path.exists() else write_store(path, rows, self._part))


def clusters(options: argparse.Namespace) -> Iterator[Client]:
    """The cluster that was named, or local workers, as many as asked for, one cluster after the other."""
    if options.scheduler:
        with Client(options.scheduler, timeout=30) as client:
            yield client
    else:
        for count in options.counts:
            with local_client(count) as client:
                yield client


# ----------------------------------------------------------------------------------------------------------- results


def slope(records: list[Record], time: str) -> float | None:
    """Of the logarithm of the time over that of the number of workers."""
    points = {(record["workers"], record[time]) for record in records if not record["oversubscribed"]}
    if len({workers for workers, _ in points}) < 2:
        return None
    workers, seconds = np.log(np.array(sorted(points), float)).T
    return float(np.polyfit(workers, seconds, 1)[0])


def slopes(records: list[Record]) -> dict[str, dict[str, float | None]]:
    """Of both kinds and both times."""
    return {
        kind: {
            name: slope([record for record in records if record["kind"] == kind], time) for name, time in TIMES.items()
        }
        for kind in KINDS
    }


def table(records: list[Record]) -> Iterator[str]:
    """For people."""
    yield f"{'kind':8s}{'workers':>8s}{'rows':>12s}{'MB':>9s}{'fit s':>9s}{'passes':>8s}{'ms a pass':>11s}"
    for r in records:
        mark = " *" if r["oversubscribed"] else ""
        size, each = r["bytes"] / 1e6, 1e3 * r["seconds_per_pass"]
        yield (
            f"{r['kind']:8s}{r['workers']:8d}{r['rows']:12,d}{size:9.1f}{r['seconds']:9.2f}{r['passes']:8d}{each:11.1f}{mark}"
        )
    if any(record["oversubscribed"] for record in records):
        yield "* more threads of workers than cores"


def add_lines(report: Report, records: list[Record], fitted_slopes: dict[str, dict[str, float | None]]) -> None:
    """A line for each kind and time: the most workers against the fewest."""
    for kind in KINDS:
        usable = [record for record in records if record["kind"] == kind and not record["oversubscribed"]]
        if len({record["workers"] for record in usable}) < 2:
            print(f"{kind} scaling: no slope, as fewer than two numbers of workers are not oversubscribed")
            continue
        few, many = min(usable, key=lambda r: r["workers"]), max(usable, key=lambda r: r["workers"])
        for name, time in TIMES.items():
            detail = f"slope {fitted_slopes[kind][name]:.2f} (ideally {IDEAL[kind]})"
            called = f"{kind} scaling: {name}, {many['workers']} workers / {few['workers']}"
            report.add(called, many[time] / few[time], detail)


def draw(path: Path, records: list[Record], fitted_slopes: dict[str, dict[str, float | None]]) -> None:
    """The log-log picture: two panels, hollow markers where workers are oversubscribed."""
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed (pip install '.[bench]')")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure, panels = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for panel, kind in zip(panels, KINDS, strict=True):
        own = sorted((r for r in records if r["kind"] == kind), key=lambda r: r["workers"])
        for (name, time), colour in zip(TIMES.items(), ("tab:blue", "tab:orange"), strict=True):
            found = fitted_slopes[kind][name]
            label = f"{name}, {'no slope' if found is None else f'slope {found:.2f}'}"
            panel.plot([r["workers"] for r in own], [r[time] for r in own], color=colour, label=label)
            for r in own:
                face = "none" if r["oversubscribed"] else colour
                panel.plot(r["workers"], r[time], "o", color=colour, markerfacecolor=face)
        if any(r["oversubscribed"] for r in own):
            panel.plot([], [], "o", color="grey", markerfacecolor="none", label="more threads than cores")
        panel.set(xscale="log", yscale="log", xlabel="workers", ylabel="seconds")
        panel.set_title(f"{kind} scaling (ideal slope {IDEAL[kind]})")
        panel.set_xticks(sorted({r["workers"] for r in own}))
        panel.xaxis.set_major_formatter(ScalarFormatter())
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.grid(visible=True, which="both", alpha=0.3)
        panel.legend()
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"picture: {path}")


# -------------------------------------------------------------------------------------------------------------- main


def parsed() -> argparse.Namespace:
    """What was asked for; a small run has small defaults."""
    parser = arguments(__doc__ or "", "scaling")
    parser.add_argument("--workers", default="1,2", help="numbers of local workers, with commas; default 1,2")
    parser.add_argument("--scheduler", help="address of a cluster to measure as it is, instead")
    parser.add_argument("--rows", type=int, help="rows for each worker (weak); default 140,000, small 4,000")
    parser.add_argument("--rows-strong", type=int, help="rows in all (strong); default --rows times the most workers")
    parser.add_argument("--data", choices=("blobs", "mnist"), default="blobs", help="what the rows are")
    parser.add_argument("--folder", type=Path, help="where stores are written; default a temporary folder")
    parser.add_argument("--passes", type=int, help="passes at most; default 20, small 3")
    parser.add_argument("--repeats", type=int, help="fits of which the least time counts; default 3, small 1")
    parser.add_argument("--append", action="store_true", help="keep the records that the JSON has")
    options = parser.parse_args()
    small = options.small
    options.rows = options.rows or (4_000 if small else 140_000)
    options.passes = options.passes or (3 if small else 20)
    options.repeats = options.repeats or (1 if small else 3)
    options.counts = sorted({int(count) for count in options.workers.split(",")})
    return options


def earlier(path: Path) -> list[Record]:
    """Records of the JSON that is there."""
    return list(json.loads(path.read_text())["measured"]["records"]) if path.is_file() else []


def rows_of(options: argparse.Namespace) -> Part:
    """What the rows are."""
    if options.data == "blobs":
        return blobs(FEATURES, CLUSTERS)
    _, X, _ = load_bytes(options.small)
    return copies(X)


def main() -> None:
    """Measure each number of workers, then the table, the lines, the picture."""
    options = parsed()
    path = destination(options.json, "scaling", options.small)
    report = Report("scaling", options.small, patience=Patience(0 if options.small else options.patience))
    print(headline())
    records = earlier(path) if options.append else []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        stores = Stores(Path(folder), rows_of(options))
        for client in clusters(options):
            records += measure(client, options, stores, report.patience)
    report.measured |= {"records": records, "slopes": slopes(records)}
    print("\n".join(table(records)))
    add_lines(report, records, report.measured["slopes"])
    report.write(path)
    draw(path.with_suffix(".png"), records, report.measured["slopes"])


if __name__ == "__main__":
    main()
