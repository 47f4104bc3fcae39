"""Does a process that fits again and again grow? The resident set over 30 fits of the digits, of each kind of fit.

    python benchmarks/memory.py                # 30 fits of each kind in a new process, and 30 on one cluster
    python benchmarks/memory.py --only cluster

Growth is what the resident set gains a fit after the fifth, when all is compiled, loaded and allocated once; 5 MB are
allowed. On a cluster it is that of the driver and that of the workers, which have to forget the rows of each fit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse
from _cluster import local_client
from _report import Report, run_child, run_parts, status
from sklearn.datasets import load_digits

import dmmc

ROWS, FITS, FIRST = 1797, 30, 5
ALLOWED = 5e6
"""Bytes a fit."""
KINDS: dict[str, dict[str, Any]] = {
    "auto": {},
    "cpmmc": {"method": "cpmmc"},
    "cpmmc, csr": {"method": "cpmmc"},
    "spectral": {"features": "spectral"},
    "graph start": {"init": "graph"},
    "nystroem": {"features": "nystroem"},
    "lsa": {"features": "lsa"},
    "smmc": {"method": "smmc"},
    "mmc-sg": {"method": "mmc-sg"},
    "fast-evommc": {"method": "fast-evommc"},
    "pairwise": {"method": "pairwise", "constraints": [(i, i + 1, "cannot") for i in range(0, 60, 2)]},
}


def fit(kind: str, rows: Any, folder: Path, number: int, **options: Any) -> None:
    """One fit, with a folder, a report and labels of the same rows predicted by the model that was written."""
    out = folder / f"{kind} {number}"
    limit = {} if kind == "auto" else {"max_iter": 20}
    dmmc.fit(rows, 10, out=out, random_state=number, **limit, **KINDS[kind], **options)
    dmmc.load(out).predict(rows)


def load(kind: str, n_rows: str) -> Any:
    X = load_digits().data[: int(n_rows)].astype(np.float32)
    return scipy.sparse.csr_array(X) if kind.endswith("csr") else X


def resident() -> int:
    return status("VmRSS")


def fit_again(kind: str, n_rows: str, count: str) -> None:
    """The resident set after each of so many fits, in this process."""
    rows, found = load(kind, n_rows), []
    with TemporaryDirectory() as scratch:
        for number in range(int(count)):
            fit(kind, rows, Path(scratch), number)
            found.append(resident())
    print(json.dumps({"driver": found}))


def fit_on_cluster(kind: str, n_rows: str, count: str) -> None:
    """The same on one cluster of two workers: of the driver, and of the larger worker."""
    rows, found, workers = load(kind, n_rows), [], []
    with TemporaryDirectory() as scratch, local_client(2) as client:
        for number in range(int(count)):
            fit(kind, rows, Path(scratch), number, scheduler=client)
            found.append(resident())
            workers.append(max(client.run(_resident_of_worker).values()))
    print(json.dumps({"driver": found, "workers": workers}))


def _resident_of_worker() -> int:
    """Like `resident`, which workers cannot import."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])


def measure(report: Report, name: str, function: str) -> None:
    """Fits of each kind; one line for each process."""
    n_rows, count = (500, 20) if report.small else (ROWS, FITS)
    kinds = ("spectral",) if report.small else KINDS
    growth = report.measured.setdefault(name, {})
    for kind in kinds:
        found = run_child("memory", function, kind, n_rows, count, timeout=3600)
        for who, sizes in found.items():
            a_fit = (sizes[-1] - sizes[FIRST - 1]) / (len(sizes) - FIRST)
            growth[f"{kind}, {who}"] = {"bytes_a_fit": a_fit, "resident": sizes}
            allowed = sizes[FIRST - 1] + ALLOWED * (len(sizes) - FIRST)
            detail = f"{a_fit / 1e6:+.2f} MB a fit, {sizes[FIRST - 1] / 1e6:.0f} to {sizes[-1] / 1e6:.0f} MB"
            report.add(f"{name}, {kind}, {who}: resident / allowed", sizes[-1] / allowed, detail, most=1.0)


PARTS: dict[str, Callable[[Report, int], None]] = {
    "process": lambda report, _: measure(report, "process", "fit_again"),
    "cluster": lambda report, _: measure(report, "cluster", "fit_on_cluster"),
}


if __name__ == "__main__":
    assert __doc__ is not None
    run_parts("memory", __doc__, 1, PARTS)
