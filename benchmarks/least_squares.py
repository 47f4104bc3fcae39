"""Least-squares MMC: what it costs beside k-means and beside `cpmmc`.

- `mnist`: a whole fit of MNIST-70k by `lsmmc` with its defaults, graph included, beside `KMeans(10, n_init=10)`
- `after_graph`: cifar10_cnn (34,000 x 2,560 bytes): the phases of a fit after the graph (starts, searches, labels)
  beside `KMeans(10, n_init=1)`
- `round`: one round of least squares over the same rows (labels by the largest score, and their sums) beside one
  k-means pass of ours, ten clusters
- `memory`: the peak of the resident set of a new process that fits cifar10_cnn by `lsmmc`, beside one that does by
  `cpmmc` with the same graph

Small runs are of some digits. JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` /
`least` / `aim` or null, `verdict`, `detail`) and `measured`, with what each part found.
"""

from __future__ import annotations

import json
import time
from typing import Any

import _checkout  # noqa: F401
import data_sets
import numpy as np
from _report import Report, run_child, run_parts, side_by_side, status
from sklearn.cluster import KMeans

import dmmc
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model import passes
from dmmc.model.geometry import measure
from dmmc.solvers import label_sums
from dmmc.solvers.label_sums import Request, Requests

GRAPH = ("read", "measure", "axes", "neighbours", "spectral")
"""Phases up to the graph."""
K = 10


def load(name: str, small: bool) -> Any:
    """Rows of a set; some digits for a small run."""
    return data_sets.load("digits")[0][:600] if small else data_sets.load(name)[0]


def time_k_means(X: Any, n_init: int) -> float:
    """Seconds of scikit-learn's k-means on float32 rows."""
    rows = X.astype(np.float32)
    began = time.perf_counter()
    KMeans(K, n_init=n_init, random_state=0).fit(rows)
    return time.perf_counter() - began


def mnist(report: Report, rounds: int) -> None:
    """A whole fit."""
    X = load("mnist", report.small)
    dmmc.fit(X[:1500], K, method="lsmmc")  # compiles

    def once() -> tuple[float, float, dict[str, float]]:
        run = dmmc.fit(X, K, method="lsmmc", random_state=0)
        return run.info["timings"]["total"], time_k_means(X, 10), run.info["timings"]

    found = [report.patience.until_quiet(once) for _ in range(rounds)]
    ours, theirs, phases = min(found)
    detail = f"{ours:.1f} s / {theirs:.1f} s; " + ", ".join(f"{name} {s:.1f}" for name, s in phases.items() if s > 0.05)
    report.add("MNIST-70k: time, lsmmc / KMeans(n_init=10)", ours / theirs, detail, most=0.5)
    report.measured["mnist"] = found


def after_graph(report: Report, rounds: int) -> None:
    """Starts, searches and labels."""
    X = load("cifar10_cnn", report.small)
    dmmc.fit(X[:1500], K, method="lsmmc")

    def once() -> tuple[float, float, dict[str, float]]:
        phases = dmmc.fit(X, K, method="lsmmc", random_state=0).info["timings"]
        return sum(s for name, s in phases.items() if name not in (*GRAPH, "total")), time_k_means(X, 1), phases

    found = [report.patience.until_quiet(once) for _ in range(rounds)]
    ours, theirs, phases = min(found)
    detail = f"{ours:.2f} s / {theirs:.2f} s; whole fit {phases['total']:.1f} s"
    report.add("cifar10_cnn: time, lsmmc after the graph / KMeans(n_init=1)", ours / theirs, detail, most=1.0)
    report.measured["after_graph"] = found


def one_round(report: Report, rounds: int) -> None:
    """A pass of each kind over the same rows."""
    dataset = open_dataset(load("cifar10_cnn", report.small))
    with Local(dataset) as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        W = np.random.default_rng(0).standard_normal((K, dataset.n_features))
        planes = geometry.raw(W, np.zeros(K))
        centres = geometry.raw(2.0 * W, -(W**2).sum(axis=1))
        asked = Requests((Request(0, passes.ByScores(planes, wide=True), planes),), K)
        work = {
            "round": lambda: engine.run(label_sums.sum_by_label, asked),
            "k-means": lambda: engine.run(passes.nearest, (centres.W[None], centres.b[None])),
        }
        seconds = side_by_side(work, 2 if report.small else 10, report.patience)
    detail = f"{1e3 * seconds['round']:.1f} ms / {1e3 * seconds['k-means']:.1f} ms"
    report.add("a round of lsmmc / a k-means pass of ours", seconds["round"] / seconds["k-means"], detail, most=1.3)
    report.measured["round"] = seconds


def memory(report: Report, rounds: int) -> None:
    """Peaks of new processes."""
    size = "small" if report.small else "full"
    peaks = {
        name: run_child("least_squares", "print_peak", name, size, timeout=900.0)["peak"] for name in ("lsmmc", "cpmmc")
    }
    detail = f"{peaks['lsmmc'] / 1e6:.0f} MB / {peaks['cpmmc'] / 1e6:.0f} MB"
    report.add(
        "cifar10_cnn: peak of the resident set, lsmmc / cpmmc", peaks["lsmmc"] / peaks["cpmmc"], detail, most=1.1
    )
    report.measured["memory"] = peaks


def print_peak(method: str, size: str) -> None:
    """Fit, and print the peak of the resident set; for a process of its own."""
    X = load("cifar10_cnn", size == "small")
    more = {} if method == "lsmmc" else {"features": "spectral", "init": "graph", "transform": "sqrt-unit"}
    dmmc.fit(X, K, method=method, random_state=0, **more)
    print(json.dumps({"peak": status("VmHWM")}))


if __name__ == "__main__":
    parts = {"mnist": mnist, "after_graph": after_graph, "round": one_round, "memory": memory}
    run_parts("least_squares", __doc__ or "", 1, parts)
