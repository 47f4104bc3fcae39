"""Kernels by Nyström on curved clusters: errors of rings and moons with defaults, and memory at the peak.

Rings and moons are scikit-learn's (`make_circles` with factor 0.5 and `make_moons`, noise 0.05 and 0.1), 100,000 points
(`--small`: 1,500), `features="nystroem"` with all defaults (200 components), `random_state` 0 to `--seeds` - 1. Labels
only score. Beside each stands the width of the median heuristic, `gamma = 1 / median distance²`.

Memory: the peak of the resident set of a fit of moons in a new process, above that after import and a small fit of the
same kind, over what is promised: data, a mapped block a thread, 8 r² bytes and 100 MB.

JSON: `benchmark`, `small`, `machine`, `lines` and `measured` (`errors`: a list of `data`, `seed`, `gamma`, `error`,
`median_heuristic`, `seconds`; `memory`: `baseline`, `peak`, `limit` in bytes). Timings are not pass or fail.
"""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _report import Report, arguments, destination, headline, run_child, status
from sklearn.datasets import make_circles, make_moons

import dmmc
from dmmc.data.blocks import ONE_BLOCK

COMPONENTS = 200
MB = 1e6


def rings(n: int, noise: float, seed: int) -> tuple[Any, Any]:
    """A ring in a ring."""
    return make_circles(n, noise=noise, factor=0.5, random_state=seed)


def moons(n: int, noise: float, seed: int) -> tuple[Any, Any]:
    """Two moons."""
    return make_moons(n, noise=noise, random_state=seed)


KINDS: dict[str, Callable[..., tuple[Any, Any]]] = {"rings": rings, "moons": moons}


def fitted(X: Any, **params: Any) -> Any:
    """Two clusters by a kernel; what it has to say of them is of no interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return dmmc.fit(X, 2, method="cpmmc", features="nystroem", **params)


def errors(report: Report, n: int, seeds: int) -> None:
    """The error of each kind and noise, mean over the seeds."""
    records = report.measured.setdefault("errors", [])
    for kind, make in KINDS.items():
        for noise in (0.05, 0.1):
            found = []
            for seed in range(seeds):
                X, y = make(n, noise, seed)
                few = X[:2000]
                middle = float(np.median(((few[:, None] - few) ** 2).sum(axis=2)))
                began = time.perf_counter()
                run = fitted(X, random_state=seed)
                seconds = time.perf_counter() - began
                error = dmmc.score(run.labels, y)["purity_error"]
                wide = None
                if seed == 0:
                    wide = dmmc.score(fitted(X, random_state=0, gamma=1.0 / middle).labels, y)["purity_error"]
                record = {"data": f"{kind}, noise {noise}", "seed": seed, "gamma": run.choices["gamma"]}
                found.append({**record, "error": error, "median_heuristic": wide, "seconds": seconds})
            records += found
            mean = float(np.mean([one["error"] for one in found]))
            each = ", ".join(f"{100 * one['error']:.2f}" for one in found)
            beside = f"errors {each} %; median heuristic {100 * found[0]['median_heuristic']:.1f} %"
            report.add(f"{kind} of {n:,} points, noise {noise}: 1 - mean error", 1.0 - mean, beside, least=0.99)


def resident(n: str) -> None:
    """In a child: bytes resident after import and a small fit, and at the peak of a fit of so many moons."""
    fitted(moons(20_000, 0.05, 1)[0], max_iter=3)
    X = moons(int(n), 0.05, 0)[0].copy()
    baseline = status("VmRSS") - X.nbytes
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    fitted(X)
    print(json.dumps({"baseline": baseline, "peak": status("VmHWM"), "data": X.nbytes}))


def memory(report: Report, n: int) -> None:
    """The peak of a fit against what is promised."""
    if not Path("/proc/self/clear_refs").exists():
        print("no peak memory: it is read from /proc, which this system does not have")
        return
    found = run_child("nystroem", "resident", n, timeout=1200)
    block = min(4 * COMPONENTS * n, ONE_BLOCK + 4 * COMPONENTS * 128)
    limit = found["data"] + len(os.sched_getaffinity(0)) * block + 8 * COMPONENTS**2 + 100 * MB
    grown = found["peak"] - found["baseline"]
    report.measured["memory"] = {**found, "limit": limit}
    detail = f"{grown / MB:.0f} / {limit / MB:.0f} MB; all features would take {4 * COMPONENTS * n / MB:.0f} MB"
    report.add(f"{n:,} moons: peak / what is promised", grown / limit, detail, most=1.0)


def main() -> None:
    """Run both parts."""
    parser = arguments(__doc__ or "", "nystroem")
    parser.add_argument("--seeds", type=int, help="default 3, small 1")
    parser.add_argument("--only", choices=("errors", "memory"), help="one part alone")
    options = parser.parse_args()
    report = Report("nystroem", options.small)
    print(headline())
    n = 1_500 if options.small else 100_000
    if options.only in (None, "errors"):
        errors(report, n, options.seeds or (1 if options.small else 3))
    if options.only in (None, "memory"):
        memory(report, n)
    report.write(destination(options.json, "nystroem", options.small))


if __name__ == "__main__":
    main()
