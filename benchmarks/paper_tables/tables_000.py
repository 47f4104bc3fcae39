"""Paper 000 (CPMMC): Table 5, errors; Table 6, seconds and CCCP steps; Figures 1 to 4."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from statistics import mean
from typing import Any

import numpy as np
from sklearn.cluster import KMeans

from dmmc import CuttingPlaneMMC
from paper_tables import named_sets, recipes
from paper_tables.named_sets import HARD, PAIRS
from paper_tables.printed import ERRORS_000, SECONDS_000
from paper_tables.study import FREE, TUNED, Cell, Study, Table, tune

SINGLE = (*(f"digits {pair}" for pair in HARD), "ionosphere", "letter A-B", "satellite 1-2", "text 1", "text 2")
MNIST_ROWS = 2000
"""Of a pair of MNIST digits: all 45 pairs of all rows are hours of one core for the whole grid."""
FEW_MNIST = 500
"""The same for methods that make a graph of all rows."""


def methods(X: Any, quick: bool) -> dict[str, dict[str, Any]]:
    """The columns of Table 5."""
    planes = recipes.cutting_planes(X, quick)
    return {
        "k-means": recipes.k_means(X),
        f"NC, {TUNED}": recipes.normalised_cut(X),
        f"IterSVR, {TUNED}": recipes.iter_svr(X),
        f"CPMMC, {TUNED}": planes,
        f"CPMMC, {FREE}": recipes.ours(X, method="cpmmc"),
        f"auto, {FREE}": recipes.ours(X, method="auto"),
    }


def pair_methods(X: Any, quick: bool) -> dict[str, dict[str, Any]]:
    """The same without `auto`, which tries many fits for each of 45 pairs."""
    return {column: settings for column, settings in methods(X, quick).items() if not column.startswith("auto")}


def mnist_methods(X: Any, quick: bool) -> dict[str, dict[str, Any]]:
    """Of the 45 pairs of MNIST, on 64 principal axes."""
    grid = recipes.cutting_planes(X, True, features="axes")
    return {
        "k-means": recipes.k_means(X),
        f"CPMMC, {TUNED}": {name: fit for name, fit in grid.items() if "k-means" in name},
        f"CPMMC, {FREE}": recipes.ours(X, method="cpmmc"),
    }


def mnist_few(X: Any, quick: bool) -> dict[str, dict[str, Any]]:
    """Those that need a graph of all rows."""
    return {
        f"NC, {TUNED}": recipes.normalised_cut(X),
        f"IterSVR, {TUNED}": dict(list(recipes.iter_svr(recipes.dense(X)).items())[:2]),
    }


def average(cells: list[Cell]) -> Cell:
    """The mean over pairs; the best single setting for all of them beside the best of each."""
    failed = [cell for cell in cells if "failed" in cell]
    if failed:
        return failed[0]
    found: Cell = {what: mean(cell[what] for cell in cells) for what in ("error", "accuracy", "nmi", "seconds")}
    found["commit"] = cells[0]["commit"]
    shared = [name for name in cells[0].get("grid", {}) if all(name in cell["grid"] for cell in cells)]
    if len(shared) > 1:
        means = {name: mean(cell["grid"][name] for cell in cells) for name in shared}
        best = min(means, key=lambda name: means[name])
        found["one_setting"], found["error_of_one_setting"] = best, means[best]
    return found


def fill(
    study: Study, row: dict[str, Any], name: str, of: Callable[[Any, bool], dict[str, Any]], most: int | None = None
) -> None:
    """The cells of one set, best of its settings each."""
    X, y = named_sets.load(name, study.quick, most)
    row["size"] = recipes.size(X)
    for column, settings in of(X, study.quick).items():
        row["cells"][column] = study.cell(name, column, partial(tune, settings, y))


def fill_pairs(
    study: Study,
    row: dict[str, Any],
    base: str,
    of: Callable[[Any, bool], dict[str, Any]],
    most: int | None = None,
    pairs: tuple[str, ...] = PAIRS,
) -> None:
    """The cells of a row that is the mean over pairs of digits."""
    pairs = HARD if study.quick else pairs
    each: dict[str, list[Cell]] = {}
    for pair in pairs:
        one: dict[str, Any] = {"cells": {}}
        fill(study, one, f"{base} {pair}", of, most)
        for column, cell in one["cells"].items():
            each.setdefault(column, []).append(cell)
    row["cells"].update({column: average(cells) for column, cells in each.items()})
    row["size"] = f"{len(pairs)} pairs"


def table5(study: Study) -> Table:
    """Errors."""
    table = Table("000", "table5", "Table 5: clustering errors in percent (CPMMC and its rivals)", "error")
    for name in SINGLE:
        row = table.row(name)
        row["print"] = ERRORS_000[name]
        fill(study, row, name, methods)
    row = table.row("digits, 45 pairs")
    row["print"] = ERRORS_000["digits, 45 pairs"]
    fill_pairs(study, row, "digits", pair_methods)
    row = table.row("mnist, 45 pairs")
    row["print"] = ERRORS_000["mnist, 45 pairs"]
    fill_pairs(study, row, "mnist", mnist_few, FEW_MNIST)
    fill_pairs(study, row, "mnist", mnist_methods, MNIST_ROWS)
    table.columns = list(table.rows[0]["cells"])
    tuned = f"CPMMC, {TUNED}"
    table.want("000: digits, 45 pairs, error %", table.number("digits, 45 pairs", tuned), most=0.62)
    table.want("000: letter A-B, error %", table.number("letter A-B", tuned), most=5.535)
    for pair in ("1-7", "2-7"):
        table.want(f"000: digits {pair}, error %", table.number(f"digits {pair}", tuned), most=0.0)
    one = table.rows[-2]["cells"].get(tuned, {})
    if "one_setting" in one:
        table.notes.append(
            f"The 45 pairs of digits: a setting for each pair, as for each set in the table. One setting for all of "
            f"them ({one['one_setting']}) gives {one['error_of_one_setting']:.2f} %."
        )
    table.notes += [
        "Grid of CPMMC: start k-means or pca; C (on centred rows of mean squared norm 1) 3 to 1000; l 0.03n, 0.1n, "
        "0.3n. NC: four widths of the Gaussian. IterSVR: three balances, two C, and for up to 600 rows two Gaussian "
        "kernels. k-means: best of 10 by its own objective.",
        f"MNIST: {MNIST_ROWS:,} rows of each pair, drawn at random ({FEW_MNIST} for NC and IterSVR; the paper has some "
        "14,000); CPMMC tuned on 64 principal axes, two values of C. `auto` is left out of the rows of 45 pairs.",
        "Worse than print: MNIST (fewer rows; and of all rows the paper's 4.29 was not reached by any linear setting "
        "tried, MATH.md section 8: 4.77) and satellite, where the authors' own code, C, l and w0 'need to be fine "
        "tuned'; text, whose words are not the paper's (8,012 terms against 8,014, another tf-idf).",
    ]
    return table


def count_steps(history: list[dict[str, Any]]) -> float:
    """Mean CCCP steps a round: passes with new labels for each plane that joined."""
    rounds = [line["round"] for line in history]
    planes = 1 + sum(b["planes"] > a["planes"] for a, b in pairwise(history))
    return (rounds[-1] if rounds else 0) / max(1, planes)


def table6(study: Study) -> Table:
    """Seconds of a single run, by the processor's clock."""
    table = Table("000", "table6", "Table 6: processor seconds of one run, and CCCP steps a round (r)", "seconds")
    for name in SINGLE:
        X, y = named_sets.load(name, study.quick)
        row = table.row(name, recipes.size(X))
        row["print"] = SECONDS_000[name]

        def planes(X: Any = X) -> Cell:
            model = CuttingPlaneMMC(random_state=0, n_jobs=1)
            model.fit(X)
            found = tune({"defaults": lambda seed: model.fit(X).labels_}, np.zeros(X.shape[0]), 3)
            return {**found, "r": count_steps(model.history_), "passes": model.n_iter_}

        def other(settings: dict[str, Any], y: Any = y) -> Cell:
            name = next(iter(settings))
            return tune({name: settings[name]}, y, 1)

        plain = {"n_init=1": lambda seed, X=X: KMeans(2, n_init=1, random_state=seed).fit_predict(X)}
        row["cells"]["k-means"] = study.cell(name, "seconds of k-means", partial(other, plain))
        row["cells"]["NC"] = study.cell(name, "seconds of NC", partial(other, recipes.normalised_cut(X)))
        row["cells"]["IterSVR"] = study.cell(name, "seconds of IterSVR", partial(other, recipes.iter_svr(X)))
        row["cells"]["CPMMC"] = study.cell(name, "seconds of CPMMC", planes)
        row["cells"]["r of CPMMC"] = {"seconds": row["cells"]["CPMMC"].get("r")}
    table.columns = ["k-means", "NC", "IterSVR", "CPMMC", "r of CPMMC"]
    table.notes = [
        "One setting of each method; ours is the median of three fits, compiled. The paper's machine is of 2008 "
        "(1.66 GHz, MATLAB), its seconds are no measure of ours. r: labels taken anew, for each plane that joins."
    ]
    return table
