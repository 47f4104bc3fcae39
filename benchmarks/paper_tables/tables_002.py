"""Paper 002 (EvoMMC, FastEvoMMC): Table 1, errors; Table 2, seconds; Figures 1 (a fitness) and 2 (restarts)."""

from __future__ import annotations

import time
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import eigh
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from dmmc import EvolutionaryMMC
from paper_tables import figures, named_sets, recipes, tables_000
from paper_tables.named_sets import HARD
from paper_tables.printed import ERRORS_002, SECONDS_002
from paper_tables.study import FREE, TUNED, Cell, Fit, Study, Table, expect_best, tune

SINGLE = (*(f"digits {pair}" for pair in HARD), "ionosphere", "letter A-B", "satellite 1-2")
BEST_OF = 10
"""Runs of which the paper takes the best by label."""
FULL = 2000
"""Rows up to which the full kernel's eigenvectors are taken for each run of the grid."""


def find_rank(n: int) -> int:
    """A tenth of the rows, of MNIST a hundredth, as in the paper."""
    return max(2, n // 100 if n > 5000 else n // 10)


def grid(
    X: Any,
    rank: int | None,
    quick: bool,
    balances: tuple[float, ...],
    sigmas: tuple[float, ...] = (1, 3, 5),
    ridges: tuple[float, ...] = (0.5, 0.005, 0.001),
    **others: Any,
) -> dict[str, Fit]:
    """The paper's: sigma 1, 3, 5 s; λn 1/2, 1/200, 1/1000; and l."""
    if quick:
        sigmas, ridges = sigmas[:1], ridges[:2]
    found: dict[str, Fit] = {}
    for sigma, ridge, balance in product(sigmas, ridges, balances):

        def fit(seed: int, sigma: float = sigma, ridge: float = ridge, balance: float = balance) -> Any:
            params = {"sigma": sigma, "regularization": ridge, "balance": balance, "rank": rank, **others}
            return EvolutionaryMMC(n_init=1, random_state=seed, n_jobs=1, **params).fit(X).evolved_labels_

        found[f"sigma={sigma}s, λn={ridge:g}, l={balance}n"] = fit
    return found


def balances_of(name: str) -> tuple[float, ...]:
    """The paper's 0.03, 0.1, 0.3 or 0.4, "depending on the balance ratio of the specific data set"."""
    if name.startswith(("digits", "mnist")):
        return (0.03,)
    return (0.03, 0.1) if name.startswith("letter") else (0.4,) if name.startswith("satellite") else (0.3, 0.4)


def fill(study: Study, row: dict[str, Any], name: str) -> None:
    """The cells of one set."""
    X, _ = named_sets.load(name, study.quick)
    row["size"] = recipes.size(X)
    rows, n, quick = np.asarray(X, float), len(X), study.quick
    _, y = named_sets.load(name, quick)
    several = 3 if quick else 20 if name.startswith("letter") else 10
    wide = balances_of(name)
    columns: dict[str, tuple[dict[str, Fit], int]] = {
        f"FastEvoMMC, {TUNED}": (grid(rows, find_rank(n), quick, wide), several),
    }
    if name in SINGLE:
        limits = wide[:1] if len(wide) <= 2 else wide[-1:]
        settings = grid(rows, find_rank(n), quick, limits, mutation="paper")
        columns[f"FastEvoMMC, published flips, {TUNED}"] = settings, several
    if n <= FULL and name in SINGLE:
        few = several if n < 500 else 6
        limits = wide[:1] if len(wide) <= 2 else wide[-2:]
        full = grid(rows, None, quick, limits, sigmas=(1, 5), ridges=(0.5, 0.001))
        columns[f"EvoMMC, {TUNED}"] = full, few
    for column, (settings, seeds) in columns.items():
        row["cells"][column] = study.cell(name, column, partial(tune, settings, y, seeds, BEST_OF))
    for column, params in {
        f"FastEvoMMC, {FREE}": {"method": "fast-evommc"},
        f"auto, {FREE}": {"method": "auto"},
    }.items():
        if params["method"] == "auto" and name not in SINGLE:
            continue
        row["cells"][column] = study.cell(name, column, partial(tune, recipes.ours(rows, **params), y))


def fill_mnist(study: Study, row: dict[str, Any], name: str) -> None:
    """FastEvoMMC on all rows of a pair: one sigma, as each run takes seconds."""
    X, y = named_sets.load(name, study.quick)
    rank = find_rank(len(y))
    settings = {
        f"sigma=1s, λn={ridge:g}, l=0.1n": lambda seed, ridge=ridge: (
            EvolutionaryMMC(n_init=1, random_state=seed, n_jobs=1, rank=rank, regularization=ridge, balance=0.1)
            .fit(X)
            .evolved_labels_
        )
        for ridge in (0.5, 0.005)
    }
    column = f"FastEvoMMC, {TUNED}"
    row["cells"][column] = study.cell(name, column, partial(tune, settings, y, 3, BEST_OF))


def table1(study: Study) -> Table:
    """Errors."""
    table = Table("002", "table1", "Table 1: clustering errors in percent (EvoMMC and FastEvoMMC)", "error")
    for name in SINGLE:
        row = table.row(name)
        row["print"] = ERRORS_002[name]
        fill(study, row, name)
    for base, what, pairs in (
        ("digits", fill, named_sets.PAIRS),
        ("mnist", fill_mnist, named_sets.HARD),
    ):
        several = HARD if study.quick else pairs
        row = table.row(f"{base}, {len(several)} pairs", f"{len(several)} pairs")
        row["print"] = ERRORS_002[f"{base}, 45 pairs"]
        each: dict[str, list[Cell]] = {}
        for pair in several:
            one: dict[str, Any] = {"cells": {}}
            what(study, one, f"{base} {pair}")
            for column, cell in one["cells"].items():
                each.setdefault(column, []).append(cell)
        row["cells"] = {
            column: tables_000.average(cells) for column, cells in each.items() if len(cells) == len(several)
        }
    table.columns = list(table.rows[0]["cells"])
    tuned = f"FastEvoMMC, {TUNED}"
    for name, most in ((f"digits, {len(several) if study.quick else 45} pairs", 0.72), ("letter A-B", 3.27)):
        table.want(f"002: FastEvoMMC, {name}, error %", table.number(name, tuned), most=most)
    table.want("002: FastEvoMMC, satellite 1-2, error %", table.number("satellite 1-2", tuned), most=1.14)
    table.notes = [
        "Protocol of the paper: the best of 10 runs by true labels (of letter the mean over all ways to draw 10 of "
        "20 runs), and of these the best sigma, λ and l by true labels. Labels are the evolved ones (ŷ).",
        "'published flips' is mutation='paper' (random flips from random labels), else sweeps of exact gains.",
        "The full kernel and the published flips: of the pairs of digits the four hard ones alone.",
        f"Satellite with the full kernel is left out (n > {FULL:,}); MNIST: the four hard pairs with one sigma and "
        "the best of 3 runs, where the paper has all 45 with the best of 10.",
        "Ionosphere: in print the best of 10 runs differs by 6.84 points from one repetition to the next.",
    ]
    restarts(study, table)
    return table


def restarts(study: Study, table: Table) -> None:
    """Figure 2: the lowest error of m runs, from the errors of the runs of the chosen setting."""
    curves = {}
    for row in table.rows[: len(SINGLE)]:
        for column in (f"EvoMMC, {TUNED}", f"FastEvoMMC, {TUNED}"):
            errors = row["cells"].get(column, {}).get("errors")
            if errors:
                curves[f"{column.split(',')[0]}: {row['name']}"] = [
                    expect_best(errors, m) for m in range(1, min(10, len(errors)) + 1)
                ]
    table.data["figure2"] = curves
    lines = {name: (list(range(1, len(curve) + 1)), curve) for name, curve in curves.items()}
    table.figures += figures.draw(
        study.folder / "002-figure2.svg", "Figure 2: restarts against error (%)", lines, "restarts", "best error, %"
    )


def table2(study: Study) -> Table:
    """Seconds of single runs, and steps of the search."""
    table = Table("002", "table2", "Table 2: processor seconds of a single run", "seconds")
    names = (*SINGLE, *(() if study.quick else ("mnist 1-2", "mnist 1-7")))
    for name in names:
        X, y = named_sets.load(name, study.quick)
        row = table.row(name, recipes.size(X))
        row["print"] = SECONDS_002[name]
        ways = {
            "FastEvoMMC, sweeps": {"rank": find_rank(len(y))},
            "FastEvoMMC, published flips": {"rank": find_rank(len(y)), "mutation": "paper"},
        }
        if len(y) <= FULL:
            ways["EvoMMC, sweeps"] = {"rank": None}
            ways["EvoMMC, published flips"] = {"rank": None, "mutation": "paper"}
        for column, params in ways.items():

            def fit(seed: int, params: dict[str, Any] = params, X: Any = X) -> Any:
                balance = 0.4 if len(X) in (351, 2236) else 0.03
                model = EvolutionaryMMC(n_init=1, random_state=seed, n_jobs=1, balance=balance, **params)
                return model.fit(X).evolved_labels_

            made = partial(tune, {"sigma=1s, λn=0.5": fit}, y, 1 if len(y) > 5000 else 3)
            row["cells"][column] = study.cell(name, f"seconds of {column}", made)
    table.columns = list(table.rows[0]["cells"])
    table.notes = [
        "The paper's seconds are of a 3 GHz Core Duo of 2008 and Python 2.5; generations in brackets. Ours are the "
        "median of three runs (one of MNIST), features of the kernel included."
    ]
    return table


def figure1(study: Study) -> Table:
    """Seconds of one evaluation of the fitness: by all of G, by a support vector machine, and by the shortcut."""
    table = Table("002", "figure1", "Figure 1: seconds of one evaluation of the fitness", "seconds")
    sizes = (100, 200, 400) if study.quick else (100, 200, 400, 800, 1600)
    curves: dict[str, tuple[list[int], list[float]]] = {}
    for n in sizes:
        row = table.row(f"n = {n}", f"{n} × 2")
        cell = study.cell(row["name"], "fitness", partial(evaluate, n))
        for column in ("n² products", "SVM", "shortcut"):
            row["cells"][column] = {"seconds": cell[column], "commit": cell["commit"]}
            curves.setdefault(column, ([], []))
            curves[column][0].append(n)
            curves[column][1].append(cell[column])
    table.columns = list(curves)
    table.data["slopes"] = {name: figures.slope(*curve) for name, curve in curves.items()}
    table.notes = [
        "Two Gaussian clusters in the plane, sigma = 1s, λn = 1/1000. Slopes in n: "
        + ", ".join(f"{name} {slope:.2f}" for name, slope in table.data["slopes"].items())
        + ". The shortcut is one flip of p = Φᵀy and |p|², with Φ as wide as the kernel's rank in float64."
    ]
    table.figures += figures.draw(
        study.folder / "002-figure1.svg", "Figure 1: seconds of one fitness", curves, "n", "seconds", logarithmic=True
    )
    return table


def evaluate(n: int) -> Cell:
    """Median seconds of the three ways, on n points of the plane."""
    rng = np.random.default_rng(n)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    X = rng.standard_normal((n, 2)) + 2.0 * y[:, None]
    width = float(np.ptp(X, axis=0) @ np.ptp(X, axis=0))
    K = rbf_kernel(X, gamma=1.0 / width)
    ridge = 1e-3
    G = np.linalg.inv(K + ridge * np.eye(n))
    values, V = eigh(K)
    kept = values > 1e-9 * values[-1]
    Phi = V[:, kept] * np.sqrt(values[kept] / (n * (values[kept] + ridge)))
    p = Phi.T @ y

    def by_products() -> float:
        c = G @ y
        f = K @ c
        return float(((y - f) ** 2).mean() + ridge / n * c @ f)

    def by_machine() -> float:
        machine = SVC(kernel="precomputed", C=1.0 / (2.0 * ridge)).fit(K, y)
        return float(np.abs(machine.dual_coef_).sum())

    def by_shortcut() -> float:
        q = p - 2.0 * y[0] * Phi[0]
        return 1.0 - float(q @ q)

    flipped = np.concatenate([[-y[0]], y[1:]])
    assert (
        abs(
            by_shortcut() - float(((flipped - K @ G @ flipped) ** 2).mean() + ridge / n * flipped @ G @ K @ G @ flipped)
        )
        < 1e-6
    )
    return {
        "n² products": seconds_of(by_products),
        "SVM": seconds_of(by_machine, 3),
        "shortcut": seconds_of(by_shortcut),
    }


def seconds_of(do: Any, times: int = 50) -> float:
    """The least of a few times."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        do()
        found.append(time.perf_counter() - began)
    return min(found)
