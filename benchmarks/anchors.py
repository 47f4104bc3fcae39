"""The graph of anchors beside the graph of all rows: accuracy, time, memory; and a thousand clusters.

`method="lsmmc"` throughout, all else by default but `graph` and `n_anchors` = 5,000. Labels are used only to score.

- `mnist`: MNIST-70k, ten clusters, a fit a `random_state` by either graph; their median accuracies, and the seconds of
  both in the same run (each is first run on a small slice: compilation is in no time)
- `others`: `cifar10_cnn` and Fashion-MNIST by anchors, median of the seeds
- `shifts`: MNIST shifted by a pixel in eight directions, 560,000 rows: by either graph in a process of its own,
  accuracy of all rows, seconds, and the peak of the process's resident set
- `many`: 1,000 clusters of 10^6 x 64 float32 drawn about random centres, in a process of its own: seconds, adjusted
  Rand index, and the size of the report
- `bits`: labels and model of a fit by anchors, with one and two threads, one and two workers, resumed after an
  interruption, saved and loaded; 1 is "the same"

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`, with what each part found: `mnist`, `others`, `shifts`, `many`, `bits`. Small runs take the
digits of scikit-learn, and 20,000 x 16 numbers with 150 clusters.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _report import Report, run_child, run_parts
from graph import each, load, scored, timed
from graph import fit as fit_graph
from stops import Interrupt

ROWS: dict[str, Any] = {"method": "lsmmc", "features": "auto", "init": "auto", "graph": "rows"}
ANCHORS: dict[str, Any] = {**ROWS, "graph": "anchors", "n_anchors": 5000}
SMALL_ANCHORS = 200
SHIFTS = [(dx, dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1) if dx or dy]
MANY = (1_000_000, 64, 1000)
SMALL_MANY = (20_000, 16, 150)
SPREAD = 0.35
"""Deviation of rows about their centre, whose columns have deviation 1."""
BITS_ROWS = 20_000
MB, GB = 1e6, 1e9
CHILD_TIMEOUT = 3600


def by_anchors(small: bool) -> dict[str, Any]:
    """Parameters of a fit by anchors."""
    return {**ANCHORS, "n_anchors": SMALL_ANCHORS} if small else ANCHORS


# ---------------------------------------------------------------------------------------------------------- accuracy


def mnist(report: Report, seeds: int) -> None:
    """Ten clusters by either graph."""
    X, y = load("mnist", report.small)
    found, seconds = {}, {}
    for name, params in {"rows": ROWS, "anchors": by_anchors(report.small)}.items():
        fit_graph(X[:2000], 10, 0, **params)
        seconds[name], _ = report.patience.until_quiet(partial(timed, partial(fit_graph, X, 10, 0, **params)))
        found[name] = scored(X, y, 10, seeds if name == "anchors" else 1, **params)
    report.measured["mnist"] = {"seconds": seconds, "fits": found}
    accuracies = [fit["accuracy"] for fit in found["anchors"]]
    told = f"{each(found['anchors'])}; rows {each(found['rows'])}"
    report.add("MNIST by anchors: median accuracy", median(accuracies), told, least=0.955)
    detail = f"{seconds['anchors']:.1f} / {seconds['rows']:.1f} s"
    report.add("MNIST: time, anchors / rows", seconds["anchors"] / seconds["rows"], detail, most=0.6)


def others(report: Report, seeds: int) -> None:
    """Features of a network, and clothes."""
    measured = report.measured["others"] = {}
    for name, least in (("cifar10_cnn", 0.845), ("fashion_mnist", 0.66)):
        X, y = load(name, report.small)
        found = measured[name] = scored(X, y, 10, seeds, **by_anchors(report.small))
        accuracies = [fit["accuracy"] for fit in found]
        report.add(f"{name} by anchors: median accuracy", median(accuracies), each(found), least=least)


# -------------------------------------------------------------------------------------------------- more rows, clusters


def peak() -> int:
    """Bytes of this process at its peak."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def fit_shifts(small: str, graph: str) -> None:
    """In a child: seconds, accuracy and peak of one fit of shifted images."""
    import numpy as np

    import dmmc

    X, y = load("mnist", small == "True")
    side = int(np.sqrt(X.shape[1]))
    images = X.reshape(-1, side, side)
    rows = np.empty((len(SHIFTS) * len(X), X.shape[1]), X.dtype)
    for place, shift in enumerate(SHIFTS):
        rows[place * len(X) : (place + 1) * len(X)] = np.roll(images, shift, axis=(1, 2)).reshape(len(X), -1)
    params = by_anchors(small == "True") if graph == "anchors" else ROWS
    fit_graph(rows[:2000], 10, 0, **params)
    seconds, run = timed(partial(fit_graph, rows, 10, 0, **params))
    accuracy = dmmc.score(run.labels, np.tile(y, len(SHIFTS)))["accuracy"]
    phases = {name: float(value) for name, value in run.info["timings"].items()}
    told = {"seconds": seconds, "accuracy": accuracy, "peak": peak(), "rows": len(rows), "data": rows.nbytes}
    print(json.dumps({**told, "phases": phases}))


def shifts(report: Report) -> None:
    """Eight times as many images, by either graph."""
    found = {
        graph: run_child("anchors", "fit_shifts", report.small, graph, timeout=CHILD_TIMEOUT)
        for graph in ("anchors", "rows")
    }
    report.measured["shifts"] = found
    mine, theirs = found["anchors"], found["rows"]
    name = f"{mine['rows']:,} shifted images"
    report.add(f"{name}: accuracy, anchors", mine["accuracy"], f"rows {theirs['accuracy']:.4f}", least=0.955)
    detail = f"{mine['seconds']:.0f} / {theirs['seconds']:.0f} s"
    report.add(f"{name}: time, anchors / rows", mine["seconds"] / theirs["seconds"], detail, most=0.35)
    detail = f"{mine['peak'] / GB:.2f} / {theirs['peak'] / GB:.2f} GB, data {mine['data'] / GB:.2f}"
    report.add(f"{name}: peak, anchors / rows", mine["peak"] / theirs["peak"], detail, most=0.5)


def fit_many(small: str, folder: str) -> None:
    """In a child: seconds, agreement, peak and size of the report of a fit with many clusters."""
    import numpy as np
    from sklearn.metrics import adjusted_rand_score

    n, d, k = SMALL_MANY if small == "True" else MANY
    rng = np.random.default_rng(0)
    y = rng.integers(k, size=n)
    X = rng.standard_normal((k, d), np.float32)[y] + np.float32(SPREAD) * rng.standard_normal((n, d), np.float32)
    out = Path(folder) / "out"
    began = time.perf_counter()
    run = fit_graph(X, k, 0, method="lsmmc", features="auto", init="auto", out=out)
    seconds = time.perf_counter() - began
    agrees = float(adjusted_rand_score(y, run.labels))
    size = (out / "report.html").stat().st_size
    print(json.dumps({"seconds": seconds, "agrees": agrees, "peak": peak(), "report": size, "clusters": k, "rows": n}))


def many(report: Report) -> None:
    """A thousand clusters."""
    with tempfile.TemporaryDirectory() as folder:
        found = run_child("anchors", "fit_many", report.small, folder, timeout=CHILD_TIMEOUT)
    report.measured["many"] = found
    name = f"{found['clusters']:,} clusters of {found['rows']:,} rows"
    told = f"{found['seconds']:.0f} s, peak {found['peak'] / GB:.2f} GB"
    report.add(f"{name}: adjusted Rand index", found["agrees"], told)
    report.add(f"{name}: report / 5 MB", found["report"] / (5 * MB), f"{found['report'] / MB:.2f} MB", most=1.0)


# -------------------------------------------------------------------------------------------------------------- bits


def bits(report: Report) -> None:
    """The same labels and the same model, however they came about."""
    import numpy as np

    import dmmc

    X, _ = load("mnist", report.small)
    X = np.ascontiguousarray(X[:BITS_ROWS])
    params = by_anchors(report.small)

    def outcome(model: Any, labels: Any) -> dict[str, bytes]:
        arrays = {name: np.asarray(array).tobytes() for name, array in model.to_arrays()[1].items()}
        return {**arrays, "labels": labels.tobytes()}

    def of_fit(**more: Any) -> dict[str, bytes]:
        run = fit_graph(X, 10, 0, **params, **more)
        return outcome(run.model, run.labels)

    wanted = of_fit(n_jobs=1)
    same = {"2 threads": of_fit(n_jobs=2) == wanted}
    for workers in (1, 2):
        same[f"{workers} worker(s)"] = of_fit(workers=workers) == wanted
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        try:
            fit_graph(X, 10, 0, **params, out=out, progress=Interrupt("join"))
        except KeyboardInterrupt:
            same["resumed"] = of_fit(out=out, resume=True) == wanted
        again = dmmc.load(out)
        same["saved and loaded"] = outcome(again, again.predict(X)) == wanted
    report.measured["bits"] = {"rows": len(X), "same": same}
    for how, equal in same.items():
        report.add(f"same bits: {how} / 1 thread", float(equal), f"{len(X):,} rows", least=1.0)


def main() -> None:
    """Run everything."""
    parts: dict[str, Callable[[Report, int], None]] = {
        "mnist": mnist,
        "others": others,
        "shifts": lambda report, _: shifts(report),
        "many": lambda report, _: many(report),
        "bits": lambda report, _: bits(report),
    }
    run_parts("anchors", __doc__ or "", 5, parts)


if __name__ == "__main__":
    main()
