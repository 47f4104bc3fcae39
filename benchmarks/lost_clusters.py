"""Whether stochastic gradient and evolution lose clusters that their starts have: many columns, clusters of 2 : 1.

- `wide`: accuracy of `rmmc-sg` (also by CCCP, and from cutting planes) and `rcmmc-sg` (also with tau = .5) beside
  `mmc-sg` on 600 x 2,000 Gaussian rows whose first column is the cluster (where w = 0 costs less than any hyperplane at
  C = 30), and on the six pairs of newsgroups_rec. Lines are the mean over seeds, and wanted is no more than a point
  below `mmc-sg`
- `uneven`: purity error of `evommc`, `fast-evommc` and `rcmmc-sg` on satellite 1-2, by default and with balance .03,
  which was the default of all three; wanted is an error of at most 4 % in the worst seed

Labels only score. `PYTHONPATH=OTHER_CHECKOUT python benchmarks/lost_clusters.py` measures the dmmc of another checkout.
JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`, with what each part found. Small runs take 200 x 600 rows, and two classes of the digits.
"""

from __future__ import annotations

from itertools import combinations
from statistics import mean
from typing import Any

import data_sets
from _report import Report, run_parts
from stochastic import error, fit

WIDE: dict[str, dict[str, Any]] = {
    "mmc-sg": {"method": "mmc-sg"},
    "rmmc-sg": {"method": "rmmc-sg"},
    "rmmc-sg, ramp=cccp": {"method": "rmmc-sg", "ramp": "cccp"},
    "rmmc-sg, init=cpmmc": {"method": "rmmc-sg", "init": "cpmmc"},
    "rcmmc-sg": {"method": "rcmmc-sg"},
    "rcmmc-sg, tau=.5": {"method": "rcmmc-sg", "tau": 0.5},
}
UNEVEN = ("evommc", "fast-evommc", "rcmmc-sg")
USUAL = 0.03


def far_apart(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Gaussian rows, but for the first column: -5 in one cluster, 5 in the other."""
    import numpy as np

    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d))
    X[:, 0] = 10.0 * y - 5.0
    return X, y


def wide(report: Report, seeds: int) -> None:
    """Rows of many columns."""
    import dmmc

    size = (200, 600) if report.small else (600, 2000)
    sets = {f"{size[0]} x {size[1]}": [far_apart(*size, seed) for seed in range(seeds)]}
    if not report.small:
        X, y = data_sets.load("newsgroups_rec")
        pairs = {f"newsgroups {a}-{b}": data_sets.pair(X, y, a, b) for a, b in combinations(range(4), 2)}
        sets.update({name: [rows] * seeds for name, rows in pairs.items()})
    found: dict[str, dict[str, list[float]]] = {name: {} for name in sets}
    for name, rows in sets.items():
        for way, params in WIDE.items():
            found[name][way] = [
                float(dmmc.score(fit(X, 2, seed, **params).labels, y)["accuracy"]) for seed, (X, y) in enumerate(rows)
            ]
            detail = ", ".join(f"{one:.3f}" for one in found[name][way])
            least = {} if way == "mmc-sg" else {"least": mean(found[name]["mmc-sg"]) - 0.01}
            report.add(f"{name}: mean accuracy, {way}", mean(found[name][way]), detail, **least)
    report.measured["wide"] = found


def uneven(report: Report, seeds: int) -> None:
    """Two classes of 2 : 1."""
    X, y = data_sets.load("digits" if report.small else "satellite")
    X, y = data_sets.pair(X, y, 1, 2)
    found: dict[str, list[float]] = {}
    for method in UNEVEN:
        for balance in (None, USUAL):
            asked = {} if balance is None else {"balance": balance}
            way = method if balance is None else f"{method}, balance={balance}"
            found[way] = [error(fit(X, 2, seed, method=method, **asked).labels, y) for seed in range(seeds)]
            detail = "error " + ", ".join(f"{one:.1f}" for one in found[way])
            limits = {"least": 96.0} if balance is None else {}
            report.add(f"classes 1-2: 100 - largest error, {way}", 100 - max(found[way]), detail, **limits)
    report.measured["uneven"] = found


if __name__ == "__main__":
    run_parts("lost_clusters", __doc__ or "", 5, {"wide": wide, "uneven": uneven})
