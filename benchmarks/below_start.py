"""Whether `cpmmc` with more than two clusters ends below the k-means labels that it starts from, and why.

- `sets`: iris, wine, digits, blobs of 80/10/10 and 80/5/5/5/5 % of the rows, a table of customers; from files (not
  small) newsgroups_rec, satellite and cifar10_cnn (two seeds). Accuracy of the start and of the end, and the objective
  of the start's labels (best hyperplanes for them) and at the end: with biases bounded around 0 (`balance=0.03`),
  and by default. Lines are accuracy at the end / at the start by default, wanted to be .98 at least
- `variants`: the same for iris, customers, blobs in 10 dimensions and digits, by default but for one parameter: C,
  balance, min_size; and from the true labels

Labels only score. JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim`
or null, `verdict`, `detail`) and `measured`, with what each part found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any

import data_sets
from _report import Report, run_parts

Rows = tuple[Any, Any]
AROUND_0 = 0.03


def blobs(shares: tuple[int, ...], dimensions: int, half_side: float, deviation: float, seed: int) -> Rows:
    """1000 rows in round blobs, their centres drawn from a cube."""
    from sklearn.datasets import make_blobs

    sizes = [10 * share for share in shares]
    X, y = make_blobs(sizes, dimensions, center_box=(-half_side, half_side), cluster_std=deviation, random_state=seed)
    return X, y


UNEVEN = (80, 10, 10)
SETS: dict[str, Callable[[], Rows]] = {
    "iris": partial(data_sets.load, "iris"),
    "wine": partial(data_sets.load, "wine"),
    "blobs 80/10/10, d = 2": partial(blobs, UNEVEN, 2, 10, 1, 2),
    "blobs 80/10/10, d = 5": partial(blobs, UNEVEN, 5, 5, 1, 0),
    "blobs 80/10/10, d = 5, wider": partial(blobs, UNEVEN, 5, 10, 2, 1),
    "blobs 80/10/10, d = 10": partial(blobs, UNEVEN, 10, 3, 1, 3),
    "blobs 80/10/10, d = 20": partial(blobs, UNEVEN, 20, 5, 2, 1),
    "blobs 80/5/5/5/5, d = 20": partial(blobs, (80, 5, 5, 5, 5), 20, 5, 1, 0),
    "customers": partial(data_sets.customers, 0),
    "digits": partial(data_sets.load, "digits"),
}
FILES = ("newsgroups_rec", "satellite", "cifar10_cnn")
VARIED = ("iris", "customers", "blobs 80/10/10, d = 10", "digits")
VARIANTS: dict[str, dict[str, Any]] = {
    "as it is": {},
    **{f"C = {C}": {"C": float(C)} for C in (10, 30, 300, 1000)},
    **{f"balance = {balance}": {"balance": balance} for balance in (AROUND_0, 0.3, 0.9)},
    "min_size = 0": {"min_size": 0.0},
}


def label_start(X: Any, k: int, seed: int) -> Any:
    """The k-means labels that a fit with this seed starts from."""
    import numpy as np

    from dmmc.data.open import open_dataset
    from dmmc.engine import Local
    from dmmc.model.geometry import measure
    from dmmc.solvers.starts import k_means

    dataset = open_dataset(X)
    with Local(dataset, None) as engine:
        geometry, dataset = measure(dataset, engine.rows, "auto")
    with Local(dataset, None) as engine:
        (labelling,), _ = k_means(dataset, engine.run, geometry, k, 1, seed)
    return np.concatenate([labelling.of(block) for block in dataset.blocks])


def compare(rows: Rows, seeds: range, **params: Any) -> dict[str, Any]:
    """Accuracy and objective at the start and at the end, one of each a seed."""
    import numpy as np

    import dmmc

    X, y = rows
    k = len(np.unique(y))
    found: dict[str, Any] = {name: [] for name in ("start", "end", "objective_start", "objective_end", "ended")}
    for seed in seeds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dmmc.ClusteringWarning)
            model = dmmc.CuttingPlaneMMC(k, random_state=seed, **params).fit(X)
        labels = params["init"] if "init" in params else label_start(X, k, seed)
        found["start"].append(dmmc.score(labels, y)["accuracy"])
        found["end"].append(dmmc.score(model.labels_, y)["accuracy"])
        # until labels are first taken again, `best` is the objective of the start's
        found["objective_start"].append([line["best"] for line in model.history_ if line["round"] == 0][-1])
        found["objective_end"].append(model.objective_)
        found["ended"].append(model.choices_["ended"])
    return found


def describe(found: dict[str, Any]) -> str:
    """A line of means."""
    start, end, before, after = (mean(found[key]) for key in ("start", "end", "objective_start", "objective_end"))
    ended = ", ".join(sorted(set(found["ended"])))
    return f"accuracy {start:.3f} -> {end:.3f}, J {before:.1f} -> {after:.1f}, {ended}"


def sets(report: Report, seeds: int) -> None:
    """Every set, with biases bounded around 0 and by default."""
    names = [name for name in SETS if not report.small or name in VARIED]
    files = [name for name in FILES if not report.small and _is_there(name)]
    measured = report.measured["sets"] = {}
    for name in (*names, *files):
        rows = SETS[name]() if name in SETS else data_sets.load(name)
        chosen = range(min(seeds, 2) if name == "cifar10_cnn" else seeds)
        around_0, default = compare(rows, chosen, balance=AROUND_0), compare(rows, chosen)
        measured[name] = {"around 0": around_0, "default": default}
        ratio = mean(default["end"]) / mean(default["start"])
        detail = f"{describe(default)}; around 0: {describe(around_0)}"
        report.add(f"{name}: accuracy, end / start", ratio, detail, least=0.98)


def variants(report: Report, seeds: int) -> None:
    """Some sets, with one parameter changed, and from the true labels."""
    import numpy as np

    measured = report.measured["variants"] = {}
    for name in VARIED[:1] if report.small else VARIED:
        rows = SETS[name]()
        truth = np.unique(rows[1], return_inverse=True)[1]
        for what, params in {**VARIANTS, "from the true labels": {"init": truth}}.items():
            found = measured[f"{name}, {what}"] = compare(rows, range(seeds), **params)
            report.add(
                f"{name}, {what}: accuracy, end / start", mean(found["end"]) / mean(found["start"]), describe(found)
            )


def _is_there(name: str) -> bool:
    folder = data_sets.folder()
    if folder is not None and (folder / f"{name}.npz").is_file():
        return True
    print(f"{name} is not there: see DMMC_DATA")
    return False


if __name__ == "__main__":
    run_parts("below_start", __doc__ or "", 5, {"sets": sets, "variants": variants})
