"""What pairs of rows that must or cannot be together are worth, and what 100,000 of them cost.

Pairs are drawn at random with true links (labels are used for that, and to score). Errors are purity errors, means over
draws. `curve` is the error on MNIST 3-5 and 4-9 for 0 to 200 pairs, each point against the one before it; `digits` the
errors of scikit-learn's digits with 100 pairs; `random` the smallest cluster of 20 fits from random starts with 50
pairs; `held_out` the accuracy on rows that were not fitted against that on the fitted ones; `proposed` the error with
pairs that `propose_pairs` asked for, against random ones; `many` a fit of all of MNIST with 100,000 pairs: seconds, and
the peak of the resident set above that after import and a small fit, data included.

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured` (one entry for each of the parts). Timings are not pass or fail: the exit code is 0.
"""

from __future__ import annotations

import json
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

from _report import Patience, Report, arguments, destination, headline, run_child, status

MB = 1e6


def drawn(y: Any, count: int, seed: int) -> Any:
    """Distinct random pairs of rows with true links, as an array of (i, j, 1 or -1)."""
    import numpy as np

    ends = np.sort(np.random.default_rng(seed).integers(len(y), size=(2 * count + 20, 2)), axis=1)
    ends = ends[ends[:, 0] != ends[:, 1]]
    _, first = np.unique(ends, axis=0, return_index=True)
    ends = ends[np.sort(first)[:count]]
    return np.column_stack([ends, np.where(y[ends[:, 0]] == y[ends[:, 1]], 1, -1)])


def fitted(X: Any, k: int, pairs: Any, seed: int, **options: Any) -> Any:
    """A fit without its notes."""
    import dmmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return dmmc.PairwiseMMC(k, random_state=seed, **options).fit(X, constraints=pairs)


def error(X: Any, y: Any, k: int, pairs: Any, seed: int, **options: Any) -> float:
    """Purity error of a fit."""
    import dmmc

    return float(dmmc.score(fitted(X, k, pairs, seed, **options).labels_, y)["purity_error"])


def classes(name: str, chosen: tuple[int, ...]) -> tuple[Any, Any]:
    """Rows of some classes."""
    import data_sets
    import numpy as np

    X, y = data_sets.load(name)
    of = np.isin(y, chosen)
    return X[of], y[of]


def mean(values: list[float]) -> float:
    """Their mean."""
    return sum(values) / len(values)


# -------------------------------------------------------------------------------------------------------------- parts


def curve(report: Report) -> None:
    """Error for 0 to 200 pairs."""
    counts, draws = ((0, 20), 2) if report.small else ((0, 25, 50, 100, 200), 5)
    sets = [("digits", (8, 9))] if report.small else [("mnist", (3, 5)), ("mnist", (4, 9))]
    for name, chosen in sets:
        X, y = classes(name, chosen)
        found = {m: [error(X, y, 2, drawn(y, m, seed), seed) for seed in range(draws)] for m in counts}
        label = f"{name} {'-'.join(map(str, chosen))}"
        report.measured.setdefault("curve", {})[label] = {str(m): each for m, each in found.items()}
        for before, m in pairwise(counts):
            a, b = mean(found[before]), mean(found[m])
            detail = f"{100 * b:.2f} / {100 * a:.2f} %"
            report.add(f"{label}: error, {m} pairs / {before} pairs", b / a, detail, most=1.0)


def digits(report: Report) -> None:
    """Errors with 100 pairs on scikit-learn's digits."""
    draws, count = (2, 30) if report.small else (5, 100)
    sets: list[tuple[tuple[int, ...], float | None]] = [((3, 8), 0.025), ((8, 9), 0.035), ((0, 6, 8, 9), None)]
    for chosen, most in sets:
        X, y = classes("digits", chosen)
        k = len(chosen)
        without = mean([error(X, y, k, None, seed) for seed in range(draws)])
        found = mean([error(X, y, k, drawn(y, count, seed), seed) for seed in range(draws)])
        label = f"digits {'-'.join(map(str, chosen))}"
        report.measured.setdefault("digits", {})[label] = {"with": found, "without": without}
        detail = f"{100 * found:.2f} / {100 * without:.2f} %"
        if most is not None:
            report.add(f"{label}: error with {count} pairs", found, detail, most=most)
        report.add(f"{label}: error, {count} pairs / none", found / without, detail, most=1.0)


def random(report: Report) -> None:
    """The smallest cluster from random starts, in units of n / k."""
    import numpy as np

    X, y = classes("digits", (3, 8))
    runs = 3 if report.small else 20
    shares = []
    for seed in range(runs):
        labels = fitted(X, 2, drawn(y, 50, seed), seed, init="random", n_init=1).labels_
        shares.append(2.0 * float(np.bincount(labels, minlength=2).min()) / len(y))
    report.measured["random"] = shares
    report.add(f"digits 3-8, {runs} random starts: smallest cluster / (n / k)", min(shares), least=0.5)


def held_out(report: Report) -> None:
    """Accuracy on new rows against that on the fitted ones."""
    import numpy as np

    import dmmc

    sets = [("digits", (8, 9))] if report.small else [("mnist", (3, 5)), ("mnist", (4, 9)), ("digits", (3, 8))]
    for name, chosen in sets:
        X, y = classes(name, chosen)
        here_all, new_all = [], []
        for seed in range(2 if report.small else 5):
            here, new = np.array_split(np.random.default_rng(seed).permutation(len(X)), 2)
            model = fitted(X[here], 2, drawn(y[here], 50 if report.small else 100, seed), seed)
            here_all.append(dmmc.score(model.labels_, y[here])["accuracy"])
            new_all.append(dmmc.score(model.predict(X[new]), y[new])["accuracy"])
        a, b = mean(new_all), mean(here_all)
        label = f"{name} {'-'.join(map(str, chosen))}"
        report.measured.setdefault("held_out", {})[label] = {"new": a, "fitted": b}
        wanted = {"least": 1.0 - 0.01 / b} if name == "mnist" else {}  # half of the fitted digits are linked rows
        report.add(f"{label}: accuracy, new rows / fitted rows", a / b, f"{a:.4f} / {b:.4f}", **wanted)


def proposed(report: Report) -> None:
    """Pairs that were asked for against random ones."""
    import numpy as np

    import dmmc

    count = 10 if report.small else 25
    for chosen in ((8, 9),) if report.small else ((3, 8), (8, 9), (0, 6, 8, 9)):
        X, y = classes("digits", chosen)
        asked, at_random = [], []
        for seed in range(2 if report.small else 5):
            first = fitted(X, len(chosen), None, seed)
            ends = dmmc.propose_pairs(X, first, count, random_state=seed, n_restarts=1 if report.small else 4)
            pairs = np.column_stack([ends, np.where(y[ends[:, 0]] == y[ends[:, 1]], 1, -1)])
            asked.append(error(X, y, len(chosen), pairs, seed))
            at_random.append(error(X, y, len(chosen), drawn(y, count, seed), seed))
        label = f"digits {'-'.join(map(str, chosen))}"
        a, b = mean(asked), mean(at_random)
        report.measured.setdefault("proposed", {})[label] = {"proposed": a, "random": b}
        detail = f"{100 * a:.2f} / {100 * b:.2f} %"
        report.add(f"{label}, {count} pairs: error, proposed / random", a / b, detail, most=1.0)


def fit_many(name: str, count: str) -> None:
    """In a child: seconds, bytes and accuracy of fits of ten clusters without and with many pairs."""
    import data_sets

    import dmmc

    X, y = data_sets.load(name)
    pairs = drawn(y, int(count), 0)
    few = pairs[(pairs[:, :2] < 1500).all(axis=1)]
    fitted(X[:1500], 10, few, 0)
    fitted(X[:1500], 10, None, 0)
    baseline, found = status("VmRSS"), {}
    for label, given in (("none", None), ("many", pairs)):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        began = time.perf_counter()
        model = fitted(X, 10, given, 0)
        found[label] = {
            "seconds": time.perf_counter() - began,
            "above_baseline_mb": (status("VmHWM") - baseline) / MB,
            "accuracy": dmmc.score(model.labels_, y)["accuracy"],
            "passes": model.n_iter_,
            "must_links": model.choices_["must_links"],
            "cannot_links": model.choices_["cannot_links"],
        }
    print(json.dumps({"data_mb": X.nbytes / MB, **found}))


def many(report: Report) -> None:
    """A fit with very many pairs."""
    name, count = ("digits", 2000) if report.small else ("mnist", 100_000)
    if not Path("/proc/self/clear_refs").exists():
        print("no peak memory: it is read from /proc, which this system does not have")
        return
    found = run_child("pairs", "fit_many", name, count, timeout=900)
    report.measured["many"] = found
    a, b = found["many"], found["none"]
    label = f"{name}, k = 10, {count:,} pairs"
    detail = f"{a['seconds']:.1f} / {b['seconds']:.1f} s, {a['passes']} / {b['passes']} passes"
    report.add(f"{label}: time, with / without", a["seconds"] / b["seconds"], detail)
    peak = max(a["above_baseline_mb"], 0.004)
    detail = (
        f"{peak:.0f} MB above the baseline, {b['above_baseline_mb']:.0f} without pairs, data {found['data_mb']:.0f}"
    )
    report.add(f"{label}: peak / data", peak / found["data_mb"], detail)
    detail = f"{a['accuracy']:.4f} / {b['accuracy']:.4f}"
    report.add(f"{label}: accuracy, with / without", a["accuracy"] / b["accuracy"], detail, least=1.0)


# --------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Run everything."""
    parts = {
        "digits": digits,
        "random": random,
        "proposed": proposed,
        "curve": curve,
        "held_out": held_out,
        "many": many,
    }
    parser = arguments(__doc__ or "", "pairs")
    parser.add_argument("--only", choices=tuple(parts), help="one part alone")
    options = parser.parse_args()
    report = Report("pairs", options.small, patience=Patience(0 if options.small else options.patience))
    print(headline())
    for name, part in parts.items():
        if options.only in (None, name):
            part(report)
    report.write(destination(options.json, "pairs", options.small))


if __name__ == "__main__":
    main()
