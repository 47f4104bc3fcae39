"""Whether `cpmmc` ends below the k-means labels that it starts from, and why.

- `sets`: iris, wine, digits, blobs of 90/10, 80/20, 80/10/10 and 80/5/5/5/5 % of the rows, a table of customers; from
  files (not small) newsgroups_rec, satellite and cifar10_cnn (two seeds). Accuracy of the start and of the end, and the
  objective of the start's labels (best hyperplanes for them) and at the end: with biases bounded around 0
  (`balance=0.03`), and by default. Lines are accuracy at the end / at the start by default, wanted to be .98 at least
- `variants`: the same for iris, customers, blobs in 10 dimensions and digits, by default but for one parameter: C,
  balance, min_size; and from the true labels
- `two`: two clusters, errors in %: blobs at a distance of six deviations, pairs of digits as they are and with
  one class thinned out, even blobs with rows far out; from files (not small) letter A-B, satellite 1-2, newsgroups_rec

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
    "blobs 90/10, d = 3": partial(blobs, (90, 10), 3, 5, 1, 0),
    "blobs 90/10, d = 15": partial(blobs, (90, 10), 15, 2, 1, 1),
    "blobs 80/20, d = 3": partial(blobs, (80, 20), 3, 5, 1, 2),
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
        # until labels are first taken again, objectives are those of the start's (two clusters around 0: of w = 0)
        found["objective_start"].append(min(line["objective"] for line in model.history_ if line["round"] == 0))
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


def at_distance_6(share: float, dimensions: int, seed: int) -> Rows:
    """1000 rows in two round blobs of deviation 1, the first with this share of them."""
    import numpy as np

    rng = np.random.default_rng(seed)
    y = (np.arange(1000) >= round(1000 * share)).astype(int)
    direction = rng.standard_normal(dimensions)
    direction /= np.linalg.norm(direction)
    return rng.standard_normal((1000, dimensions)) + 6.0 * y[:, None] * direction, y


def with_rows_far_out(seed: int) -> Rows:
    """1000 rows in two even blobs, 4 % of them far out to one side."""
    import numpy as np

    rng = np.random.default_rng(seed)
    y = np.arange(1000) % 2
    X = rng.standard_normal((1000, 3))
    X[:, 0] += 5 * y
    X[rng.choice(1000, 40), 1] += 25
    return X, y


def thin_out(rows: Rows, share: float) -> Rows:
    """Rows of the second class are drawn until they are this share of all."""
    import numpy as np

    X, y = rows
    classes = np.unique(y)
    first, second = (np.flatnonzero(y == one) for one in classes)
    drawn = np.random.default_rng(0).choice(second, int(len(first) * share / (1 - share)), replace=False)
    kept = np.sort(np.concatenate([first, drawn]))
    return X[kept], y[kept]


THINNED = ((0, 1), (2, 7), (3, 8), (4, 9), (5, 6), (1, 7), (8, 9), (0, 6))


def list_two(small: bool) -> dict[str, list[tuple[Rows, int]]]:
    """Sets of two clusters by name; of each the rows and the seed of the fit."""
    from itertools import combinations

    seeds = range(1 if small else 3)
    found: dict[str, list[tuple[Rows, int]]] = {}
    for share in (0.9,) if small else (0.95, 0.9, 0.8, 0.75, 0.65, 0.5):
        for d in (3, 15):
            found[f"blobs {share}, d = {d}"] = [(at_distance_6(share, d, seed), 0) for seed in seeds]
    found["rows far out"] = [(with_rows_far_out(seed), 0) for seed in seeds]
    if small:
        return found
    digits = data_sets.load("digits")
    for share in (0.1, 0.2, 0.3):
        thinned = [thin_out(data_sets.pair(*digits, *both), share) for both in THINNED]
        found[f"pairs of digits, one thinned to {share}"] = [(rows, seed) for rows in thinned for seed in range(2)]
    pairs: dict[str, tuple[str, list[Any]]] = {"pairs of digits": ("digits", list(combinations(range(10), 2)))}
    pairs |= {"letter A-B": ("letter", [("A", "B")]), "satellite 1-2": ("satellite", [(1, 2)])}
    pairs |= {"newsgroups_rec": ("newsgroups_rec", list(combinations(range(4), 2)))}
    for name, (source, both) in pairs.items():
        if source == "digits" or _is_there(source):
            X, y = data_sets.load(source)
            found[name] = [(data_sets.pair(X, y, *one), seed) for one in both for seed in seeds]
    whole = [name for name in ("breast_cancer", "ionosphere") if name in data_sets.BUNDLED or _is_there(name)]
    return found | {name: [(data_sets.load(name), seed) for seed in seeds] for name in whole}


def two(report: Report, seeds: int) -> None:
    """Errors of two clusters, with the bias bounded around 0 and by default."""
    measured = report.measured["two"] = {}
    for name, fits in list_two(report.small).items():
        errors: dict[str, list[float]] = {"start": [], "around 0": [], "default": []}
        for rows, seed in fits:
            around_0, default = (compare(rows, range(seed, seed + 1), **one) for one in ({"balance": AROUND_0}, {}))
            errors["start"].append(100 * (1 - default["start"][0]))
            errors["around 0"].append(100 * (1 - around_0["end"][0]))
            errors["default"].append(100 * (1 - default["end"][0]))
        measured[name] = errors
        start, around, end = (mean(errors[key]) for key in ("start", "around 0", "default"))
        report.add(
            f"two, {name}: accuracy, end / start",
            (100 - end) / (100 - start),
            f"errors in %: start {start:.2f}, around 0 {around:.2f}, default {end:.2f}",
        )


def _is_there(name: str) -> bool:
    folder = data_sets.folder()
    if folder is not None and (folder / f"{name}.npz").is_file():
        return True
    print(f"{name} is not there: see DMMC_DATA")
    return False


if __name__ == "__main__":
    run_parts("below_start", __doc__ or "", 5, {"sets": sets, "variants": variants, "two": two})
