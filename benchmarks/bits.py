"""Labels, bit for bit, of every method on digits and of cpmmc on MNIST: recorded by one commit, compared by another.

    python benchmarks/bits.py --write before.json --keep before/   # hashes, models and checkpoints of this commit
    python benchmarks/bits.py --compare before.json --keep before/ # does this commit give, load and resume the same?

Uses public names only, so that it runs with any edition: `PYTHONPATH=OTHER_CLONE python benchmarks/bits.py ...`.
The hashes hold for one set of library versions and one type of CPU.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.datasets import load_digits

import dmmc

METHODS = ("cpmmc", "smmc", "evommc", "fast-evommc", "mmc-sg", "rmmc-sg", "cmmc-sg", "rcmmc-sg")
FEATURES = ("nystroem", "lsa", "smooth", "spectral")


class Stop(Exception):  # noqa: N818
    """Ends a fit from within."""


def make_cases(mnist: Path) -> dict[str, Callable[[], dict[str, Any]]]:
    """What is fitted, by name: arguments of `dmmc.fit`."""
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    pairs = [(i, i + 50, "must" if y[i] == y[i + 50] else "cannot") for i in range(0, 1500, 7)]
    two = np.flatnonzero((y == 3) | (y == 8))
    cases: dict[str, Callable[[], dict[str, Any]]] = {}
    for method in METHODS:
        cases[f"{method}, 3-8"] = lambda method=method: {"source": X[two], "n_clusters": 2, "method": method}
        cases[f"{method}, ten"] = lambda method=method: {"source": X, "n_clusters": 10, "method": method}
    cases["pairwise, two"] = lambda: {"source": X, "n_clusters": 2, "method": "pairwise", "constraints": pairs}
    cases["pairwise, ten"] = lambda: {"source": X, "n_clusters": 10, "method": "pairwise", "constraints": pairs}
    for features in FEATURES:
        cases[f"cpmmc, {features}"] = lambda features=features: {
            "source": X, "n_clusters": 10, "method": "cpmmc", "features": features}  # fmt: skip
    cases["cpmmc, graph start"] = lambda: {
        "source": X, "n_clusters": 10, "method": "cpmmc", "features": "spectral", "init": "graph"}  # fmt: skip
    cases["cpmmc, CSR"] = lambda: {"source": scipy.sparse.csr_array(X), "n_clusters": 10, "method": "cpmmc"}
    cases["cpmmc, random"] = lambda: {"source": X, "n_clusters": 5, "method": "cpmmc", "init": "random"}
    cases["cpmmc, weights"] = lambda: {
        "source": X, "n_clusters": 4, "method": "cpmmc", "sample_weight": 1.0 + y}  # fmt: skip
    cases["mmc-sg from cpmmc"] = lambda: {"source": X, "n_clusters": 2, "method": "mmc-sg", "init": "cpmmc"}
    cases["evommc, published"] = lambda: {
        "source": X[two], "n_clusters": 2, "method": "evommc", "mutation": "paper", "max_iter": 300}  # fmt: skip
    cases["smmc, published"] = lambda: {"source": X, "n_clusters": 4, "method": "smmc", "schedule": "paper"}
    if mnist.exists():
        for k in (2, 10):
            cases[f"cpmmc, MNIST, {k}"] = lambda k=k: {
                "source": np.load(mnist)["X"], "n_clusters": k, "method": "cpmmc"}  # fmt: skip
    return cases


def hash_bits(labels: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(labels, np.int32).tobytes()).hexdigest()[:16]


def stop_after(passes: int) -> Callable[[dict[str, Any]], None]:
    def hear(line: dict[str, Any]) -> None:
        if line["iteration"] == passes:
            raise Stop

    return hear


def write_kept(case: dict[str, Any], run: Any, folder: Path) -> None:
    """The model of a finished run, and the checkpoint of one that was stopped after two passes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run.save(folder / "model")
    with suppress(Stop):
        dmmc.fit(**case, out=folder / "stopped", callbacks=stop_after(2))


def read_kept(case: dict[str, Any], folder: Path) -> dict[str, str]:
    """Labels that the kept model predicts, and those that the kept checkpoint goes on to."""
    found = {"predicted": hash_bits(dmmc.load(folder / "model").predict(case["source"]))}
    with tempfile.TemporaryDirectory() as scratch:
        copy = shutil.copytree(folder / "stopped", Path(scratch) / "out")
        if (copy / "checkpoint").exists():
            found["resumed"] = hash_bits(dmmc.fit(**case, out=copy, resume=True).labels)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, metavar="JSON")
    parser.add_argument("--compare", type=Path, metavar="JSON")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="models and checkpoints: written, or read again")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    data = Path(os.environ.get("DMMC_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
    before = json.loads(options.compare.read_text()) if options.compare else {}
    found, wrong = {}, []
    for name, make in make_cases(data / "mnist.npz").items():
        if options.only not in name:
            continue
        case, folder = make(), options.keep / name.replace(", ", "-").replace(" ", "_") if options.keep else None
        run = dmmc.fit(**case)
        found[name] = {"labels": hash_bits(run.labels), "objective": float(run.model.objective_).hex()}
        if folder is not None and "MNIST" not in name:
            if options.write:
                write_kept(case, run, folder)
            if options.compare:
                same = read_kept(case, folder)
                found[name] |= {what: "same" if bits == found[name]["labels"] else bits for what, bits in same.items()}
        if options.compare:
            same = {what: found[name][what] == bits for what, bits in before[name].items()}
            kept = {what: bits == "same" for what, bits in found[name].items() if what in ("predicted", "resumed")}
            if not all((same | kept).values()):
                wrong.append(name)
            print(f"{name:24s} {same | kept}", flush=True)
        else:
            print(f"{name:24s} {found[name]}", flush=True)
    if options.write:
        options.write.write_text(json.dumps(found, indent=1) + "\n")
    if wrong:
        sys.exit(f"{len(wrong)} of {len(found)} differ: {', '.join(wrong)}")
    print(f"{len(found)} cases" + (", all the same" if options.compare else ""))


if __name__ == "__main__":
    main()
