"""Paper 000, Figures 1 to 4: CCCP steps and time against n and s, and error and time against ε and C."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from dmmc import CuttingPlaneMMC
from paper_tables import figures, named_sets
from paper_tables.study import Cell, Study, Table, score

ROWS = (10_000, 31_623, 100_000, 316_228, 1_000_000)
NONZEROS = (8, 16, 32, 64, 128)
COLUMNS = 1000
WIDTH = 128
"""Columns of dense rows: with few of them, what does not depend on n would count at 10^4."""
TIMES = 2
NAMES = ("digits 3-8", "letter A-B", "satellite 1-2", "ionosphere")


def make_rows(n: int, d: int = WIDTH, seed: int = 0) -> Any:
    """Two Gaussian clusters that overlap a little: the same mixture for each n."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    X = rng.standard_normal((n, d), np.float32)
    X[:, 0] += (4.0 * y - 2.0).astype(np.float32)
    return X


def make_sparse(n: int, s: int, seed: int = 0) -> Any:
    """Rows of s non-zeros among 1,000 columns, half of them likelier in one cluster."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    columns = rng.integers(COLUMNS // 2, size=(n, s)) + (COLUMNS // 2) * (rng.random((n, s)) < 0.4 + 0.2 * y[:, None])
    values = rng.random((n, s), np.float32) + 0.5
    rows = csr_array((values.ravel(), columns.ravel().astype(np.int32), np.arange(0, n * s + 1, s)), shape=(n, COLUMNS))
    rows.sum_duplicates()
    return rows


def search_seconds(X: Any) -> Cell:
    """Seconds of a fit by the processor's clock (the least of two), passes, rounds and planes; one thread."""
    found = []
    for _ in range(TIMES):
        model = CuttingPlaneMMC(random_state=0, n_jobs=1, init="pca")
        began, clock = time.perf_counter(), time.process_time()
        model.fit(X)
        found.append((time.process_time() - clock, time.perf_counter() - began))
    last = model.history_[-1]
    return {
        "seconds": min(one for one, _ in found),
        "wall": min(one for _, one in found),
        "passes": model.n_iter_,
        "rounds": last["round"],
        "planes": last["planes"],
    }


def one_fit(X: Any, y: Any, **params: Any) -> Cell:
    """Error, seconds and passes of one fit."""
    began = time.process_time()
    model = CuttingPlaneMMC(random_state=0, n_jobs=1, **params).fit(X)
    return {"seconds": time.process_time() - began, **score(model.labels_, y), "passes": model.n_iter_}


def figures_1_to_4(study: Study) -> Table:
    """Time and counts against n and s; error and time against ε and C."""
    table = Table("000", "figures", "Figures 1 to 4: scaling, and sensitivity to ε and C", "seconds")
    sizes = (1000, 3162, 10_000) if study.quick else ROWS
    for n in sizes:
        row = table.row(f"n = {n:,}", f"{n:,} × {WIDTH}")
        row["cells"] = count(study.cell(row["name"], "time in n", lambda n=n: search_seconds(make_rows(n))))
    for s in NONZEROS[:3] if study.quick else NONZEROS:
        row = table.row(f"s = {s}", f"{2000 if study.quick else 50_000:,} × {COLUMNS:,}")
        make = partial(make_sparse, 2000 if study.quick else 50_000, s)
        row["cells"] = count(study.cell(row["name"], "time in s", lambda make=make: search_seconds(make())))
    table.columns = list(table.rows[0]["cells"])
    per_pass(table, sizes)
    sweep(study, table)
    return table


def count(cell: Cell) -> dict[str, Cell]:
    """A measurement as cells of its own: seconds, seconds a pass, and counts."""
    commit = {"commit": cell["commit"]}
    return {
        "seconds": {"seconds": cell["seconds"], **commit},
        "seconds a pass": {"seconds": cell["seconds"] / (cell["passes"] + 4)},
        "passes": {"seconds": float(cell["passes"])},
        "rounds of labels": {"seconds": float(cell["rounds"])},
        "planes": {"seconds": float(cell["planes"])},
    }


def per_pass(table: Table, sizes: tuple[int, ...]) -> None:
    """Slopes in n and in s."""
    seconds = [table.number(f"n = {n:,}", "seconds", "seconds") or 0.0 for n in sizes]
    slope = figures.slope(sizes, seconds)
    table.want("000: slope of log time in log n, 10^4 to 10^6", slope, f"of {len(sizes)} sizes", least=0.95, most=1.05)
    given = [int(row["name"].split("=")[1]) for row in table.rows if row["name"].startswith("s")]
    spent = [table.number(f"s = {s}", "seconds", "seconds") or 0.0 for s in given]
    table.want("000: slope of log time in log s", figures.slope(given, spent), "non-zeros a row, 8 to 128")
    linear = np.polyfit(given, spent, 1)
    a_pass = [table.number(f"s = {s}", "seconds a pass", "seconds") or 0.0 for s in given]
    table.data["slopes"] = {"n": slope, "s": figures.slope(given, spent), "seconds = a + b s": linear.tolist()[::-1]}
    for what in ("planes", "rounds of labels"):
        counts = [table.number(f"n = {n:,}", what, "seconds") or 0.0 for n in sizes]
        table.want(
            f"000: {what}, largest over smallest n", counts[-1] / max(counts[0], 1.0), " ".join(map(str, counts))
        )
    table.notes.append(
        f"Slope in n {slope:.3f}. In s: time = {linear[1]:.3f} + {linear[0]:.5f} s seconds, exponent "
        f"{figures.slope(given, spent):.2f}, of a pass "
        f"{figures.slope(given, a_pass):.2f} (below 1 as long as what does not depend on s counts). Mixtures are the "
        "same for each n; one thread; seconds of the processor, the least of two."
    )


def sweep(study: Study, table: Table) -> None:
    """Figures 3 and 4: error and seconds against ε and C; Figures 1 and 2 are drawn from the rows."""
    errors: dict[str, Any] = {}
    seconds: dict[str, Any] = {}
    grids = {"epsilon": (0.3, 0.1, 0.03, 0.01, 0.003, 0.001), "C": (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)}
    for what, values in grids.items():
        for name in NAMES[:1] if study.quick else NAMES:
            X, y = named_sets.load(name, study.quick)
            cells = [study.cell(name, f"{what}={value:g}", partial(one_fit, X, y, **{what: value})) for value in values]
            errors[f"{name}, {what}"] = values, [cell["error"] for cell in cells]
            seconds[f"{name}, {what}"] = values, [max(cell["seconds"], 1e-4) for cell in cells]
    table.data["errors"], table.data["seconds"] = errors, seconds
    n_rows = [row for row in table.rows if row["name"].startswith("n")]
    sizes = [int(row["name"].split("=")[1].replace(",", "")) for row in n_rows]
    counts = {
        what: (sizes, [row["cells"][what]["seconds"] for row in n_rows]) for what in ("planes", "rounds of labels")
    }
    spent = {"seconds": (sizes, [row["cells"]["seconds"]["seconds"] for row in n_rows])}
    folder = study.folder
    table.figures += figures.draw(
        folder / "000-figure1.svg", "Figure 1: planes and rounds against n", counts, "n", "", True
    )
    table.figures += figures.draw(
        folder / "000-figure2.svg", "Figure 2: seconds against n", spent, "n", "seconds", True
    )
    for number, what in ((3, "epsilon"), (4, "C")):
        for kind, curves in (("error, %", errors), ("seconds", seconds)):
            chosen = {name.split(",")[0]: (list(x), y) for name, (x, y) in curves.items() if name.endswith(what)}
            path = folder / f"000-figure{number}{'a' if kind != 'seconds' else 'b'}.svg"
            title = f"Figure {number}: {kind} against {what}"
            table.figures += figures.draw(path, title, chosen, what, kind, kind == "seconds")
    rates = [figures.slope(x, y) for name, (x, y) in seconds.items() if name.endswith("epsilon")]
    table.notes.append(
        "Figure 3: time falls as ε to the power "
        + ", ".join(f"{-rate:.2f}" for rate in rates)
        + " (in print: 0.5). Figure 4: C is on centred rows of mean squared norm 1."
    )
