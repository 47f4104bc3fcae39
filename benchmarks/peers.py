"""dmmc beside everything a user would pick instead: the same rows, the same cores, each fit in a process of its own.

Sets: MNIST-70k (bytes), cifar10_cnn, newsgroups (CSR) and 1,000,000 x 128 generated float32 rows. dmmc: `auto` fast and
balanced, `cpmmc`, `lsmmc`, with and without a graph, and `cpmmc` on two workers; beside them scikit-learn's KMeans and
MiniBatchKMeans (n_init=1), HDBSCAN and SpectralClustering (up to 20,000 rows), faiss Kmeans, dask-ml and Spark MLlib on
two workers, umap-learn + HDBSCAN, evoc, fast_hdbscan (on 20 components), and LinearSVC, which is told the classes.

A process loads the rows, starts what is to be started and fits a slice (compilation, a JVM, a cluster: `start`); then
the clock runs: `wall`; `cpu`, of all its processes; `peak`, the sum of the most that each of them held, rows included.
What is missing, fails, takes too long or is not feasible is a row that says so. Labels only score. Ratios are medians
over `--seeds` runs of all peers in turn. The picture, accuracy against seconds, is PNG beside the JSON.

JSON: `benchmark`, `small`, `machine`, `lines` and `measured`: `runs` (a list of `set`, `k`, `who`, `seed`, and either
`wall`, `cpu`, `peak_mb`, `start`, `accuracy`, `nmi`, `noise`, or `missing`). The exit code is 0.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import nullcontext
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import data_sets
import numpy as np
from _contenders import CONTENDERS, NotFeasible, linear_svc
from _report import Report, _own_seconds, arguments, destination, headline, run_child

import dmmc

TOLD = "LinearSVC, told the classes"
NAMES = (*CONTENDERS, TOLD)
SETS = ("mnist", "cifar10_cnn", "newsgroups", "generated")
FEW = ("dmmc cpmmc", "dmmc lsmmc, no graph", "KMeans", "faiss Kmeans")
"""Who takes part where k is not the number of classes."""
SLICE = 2000
Run = dict[str, Any]


@cache
def load(name: str) -> tuple[Any, Any]:
    """Rows and classes; "digits" is the set of small runs."""
    if name != "generated":
        return data_sets.load(name)
    rng = np.random.default_rng(0)
    centres, y = rng.normal(size=(20, 128)).astype(np.float32), rng.integers(20, size=1_000_000)
    return centres[y] + 2.5 * rng.standard_normal((len(y), 128), np.float32), y


def cases(small: bool) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Set, number of clusters, and who takes part."""
    if small:
        yield "digits", 10, NAMES
        return
    for name in SETS:
        yield name, len(np.unique(load(name)[1])), NAMES
    yield "mnist", 2, FEW
    for name in ("mnist", "generated"):
        yield name, 100, FEW
        yield name, 1000, FEW


def run_one(name: str, k: str, who: str, seed: str) -> None:
    """What a process does: prints what its fit took, or why there is none."""
    X, y = load(name)
    began = time.perf_counter()
    try:
        context = nullcontext(partial(linear_svc, y)) if who == TOLD else CONTENDERS[who]()
        with context as fit:
            if who != TOLD and X.shape[0] > 2 * max(SLICE, 4 * int(k)):
                fit(X[: max(SLICE, 4 * int(k))], int(k), int(seed))
            started, cpu = time.perf_counter(), _own_seconds()
            labels = np.asarray(fit(X, int(k), int(seed)))
            wall, cpu = time.perf_counter() - started, _own_seconds() - cpu
            peak = peak_of_all()
    except (NotFeasible, ImportError) as reason:
        print(json.dumps({"missing": str(reason)}))
        return
    found = {
        "wall": wall,
        "cpu": cpu,
        "peak_mb": peak / 1e6,
        "start": started - began,
        "noise": float((labels < 0).mean()),
    }
    print(json.dumps({**found, **{what: dmmc.score(labels, y)[what] for what in ("accuracy", "nmi")}}))


def peak_of_all() -> int:
    """The most that this process and its descendants held, each by itself, in bytes."""
    import psutil

    total = 0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        status = Path(f"/proc/{process.pid}/status")
        if status.is_file():
            words = [line.split() for line in status.read_text().splitlines() if line.startswith("VmHWM")]
            total += 1024 * sum(int(word[1]) for word in words)
    return total


def measure(name: str, k: int, who: str, seed: int, timeout: float) -> Run:
    """One fit; whatever goes wrong is told."""
    found: Run
    try:
        found = run_child("peers", "run_one", name, k, who, seed, timeout=timeout)
    except subprocess.TimeoutExpired:
        found = {"missing": f"not done after {timeout:.0f} s"}
    except (RuntimeError, ValueError, IndexError) as error:
        found = {"missing": f"failed: {str(error).strip().splitlines()[-1][:200]}"}
    return {"set": name, "k": k, "who": who, "seed": seed, **found}


def tell(run: Run) -> str:
    """One row of the table."""
    head = f"{run['set']:12s} k = {run['k']:<5d}{run['who']:28s}"
    if "missing" in run:
        return f"{head}{run['missing']}"
    return (
        f"{head}{run['wall']:8.2f} s {run['cpu']:8.2f} s of CPU {run['peak_mb']:7.0f} MB  start {run['start']:5.1f} s  "
        f"accuracy {run['accuracy']:.3f}  NMI {run['nmi']:.3f}"
        + (f"  noise {run['noise']:.2f}" if run["noise"] else "")
    )


class Table:
    """All runs, for ratios in turn."""

    def __init__(self, runs: list[Run]) -> None:
        self.runs = runs

    def of(self, name: str, k: int, who: str, what: str) -> list[float]:
        """Of each seed in which there was a result."""
        return [r[what] for r in self.runs if (r["set"], r["k"], r["who"]) == (name, k, who) and what in r]

    def compare(
        self, report: Report, case: tuple[str, int], ours: str, theirs: str, what: str = "wall", **wanted: float
    ) -> None:
        """A line: median of the ratios of runs that were made one after the other."""
        mine, peer = self.of(*case, ours, what), self.of(*case, theirs, what)
        if not mine or not peer:
            print(f"{case[0]}, k = {case[1]}: {what}, {ours} / {theirs}: no ratio, one of them has no result")
            return
        each = ", ".join(f"{a:.3g} / {b:.3g}" for a, b in zip(mine, peer, strict=False))
        ratio = median(a / max(b, 1e-12) for a, b in zip(mine, peer, strict=False))
        report.add(f"{case[0]}, k = {case[1]}: {what}, {ours} / {theirs}", ratio, each, **wanted)


def add_lines(report: Report, table: Table) -> None:
    """What is wanted of the ratios."""
    first = ("digits", 10) if report.small else ("mnist", 10)
    add = partial(table.compare, report)
    if not report.small:
        add(("mnist", 2), "dmmc cpmmc", "KMeans", most=0.25)
        add(("cifar10_cnn", 10), "dmmc cpmmc", "KMeans", most=0.5)
        add(("newsgroups", 20), "dmmc cpmmc", "KMeans", most=1.0)
    add(first, "dmmc cpmmc", "KMeans", most=0.3)
    add(first, "dmmc lsmmc, no graph", "KMeans", most=0.5)
    for peer in ("dask-ml KMeans, 2 workers", "Spark KMeans, local[2]"):
        add(first, "dmmc cpmmc, 2 workers", peer, most=0.1)
    for peer in ("umap + HDBSCAN", "evoc"):
        add(first, "dmmc auto, balanced", peer, most=1.0)
        add(first, "dmmc auto, balanced", peer, what="accuracy", least=1.0)
    if seconds := table.of(*first, "dmmc auto, balanced", "wall"):
        report.add(f"{first[0]}: seconds of auto, balanced", median(seconds), most=25.0)
    for name, k, most in (("mnist", 100, 1.0), ("mnist", 1000, 1.5), ("generated", 100, 1.0), ("generated", 1000, 1.5)):
        if not report.small:
            add((name, k), "dmmc lsmmc, no graph", "faiss Kmeans", most=most)


def draw(path: Path, runs: list[Run]) -> None:
    """Accuracy against seconds, a panel a set; ours are filled."""
    if find_spec("matplotlib") is None:
        print("no picture: matplotlib is not installed (pip install '.[bench]')")
        return
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(run["set"] for run in runs))
    figure, panels = plt.subplots(1, len(names), figsize=(6 * len(names), 5), layout="constrained", squeeze=False)
    for panel, name in zip(panels[0], names, strict=True):
        own = [run for run in runs if run["set"] == name and "wall" in run and run["k"] not in (2, 100, 1000)]
        for who in dict.fromkeys(run["who"] for run in own):
            points = [(run["wall"], run["accuracy"]) for run in own if run["who"] == who]
            at = tuple(np.median(points, axis=0))
            panel.plot(*at, "o", color="tab:red" if who.startswith("dmmc") else "tab:grey")
            panel.annotate(who, at, fontsize=7, xytext=(4, 3), textcoords="offset points")
        panel.set(xscale="log", xlabel="seconds", ylabel="accuracy", title=name, ylim=(0, 1.02))
        panel.grid(visible=True, which="both", alpha=0.3)
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"picture: {path}")


def main() -> None:
    """All sets and peers, seed by seed."""
    parser = arguments(__doc__ or "", "peers")
    parser.add_argument("--seeds", type=int, help="random_state 0 to this less one; default 3, small 1")
    parser.add_argument("--timeout", type=float, default=1200.0, help="seconds of one fit at most; default 1,200")
    parser.add_argument("--sets", default="", help="some of the sets, with commas")
    parser.add_argument("--who", default="", help="peers whose name contains one of these words, with commas")
    options = parser.parse_args()
    small = options.small
    report, runs = Report("peers", small), []
    print(headline())
    words, sets = options.who.split(","), options.sets.split(",")
    for seed in range(options.seeds or (1 if small else 3)):
        for name, k, names in cases(small):
            for who in names:
                if any(word in who for word in words) and (not options.sets or name in sets):
                    runs.append(measure(name, k, who, seed, options.timeout))
                    print(tell(runs[-1]), flush=True)
    report.measured["runs"] = runs
    add_lines(report, Table(runs))
    path = destination(options.json, "peers", small)
    report.write(path)
    draw(path.with_suffix(".png"), runs)


if __name__ == "__main__":
    main()
