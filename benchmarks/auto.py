"""What `dmmc.fit(X, k)` gives with nothing chosen by the user: accuracy, beside k-means and beside its own candidates.

    python benchmarks/auto.py                                 # everything; hours the first time
    python benchmarks/auto.py --only sets --sets tuning       # or generated, held-out, or names between commas
    python benchmarks/auto.py --sets digits --again           # our fits anew: their cells are dropped

No label is used by any fit: labels only score. A cell is one fit (set, recipe, seed); each is kept in a file beside the
JSON (`--cells`) as soon as it is done, and a later run takes it from there; a cell of ours says of which code it is,
and a run says how many are of another. A generated set is drawn anew for each seed. `--method` fits something other
than "auto". Parts (`--only`):

- `sets`: medians over the seeds beside what is wanted. "1 + above k-means" adds the larger of the differences in median
  accuracy and in median NMI, so that .98 is "not below by more than .02 in both"; where columns have mixed units,
  k-means of standardised rows counts too, and the smaller of the two is taken. Regret is the accuracy of the best
  candidate less that of the answer. All candidates of all sets in the file of cells are in a table beside the JSON.
- `structure`: Gaussians that are said to have no structure, and real sets (those of `sets`) that are not
- `pairs`: the 45 pairs of digits of MNIST and of scikit-learn, seed 0, error in percent
- `times`: the whole fit beside a fit of its best candidate alone; `effort="fast"` beside KMeans(n_init=1); digits
- `memory`: the peak of a process that fits MNIST-70k
- `number`: `n_clusters="auto"`; of sets of more than 10,000 rows, so many drawn at random

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`, with what each part found.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any

import data_sets
import numpy as np
from _report import Patience, Report, arguments, destination, headline, run_child, status
from accuracy import Cells, k_means
from accuracy import measure as score_peer
from generated_sets import GAUSSIANS, GENERATED, MIXED_UNITS, generate
from graph import SMALL_PAIRS
from scipy.sparse import issparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.preprocessing import StandardScaler

import dmmc
from dmmc.plain_json import plain

WANTED: dict[str, dict[str, float]] = {
    "mnist": {"least": 0.965},
    "cifar10_cnn": {"least": 0.85},
    "fashion_mnist": {"least": 0.67},
    "usps": {"least": 0.95},
    "digits": {"least": 0.94},
    "coil20": {"least": 0.85},
    "newsgroups:counts": {"least": 0.65},
    "newsgroups": {"least": 0.58},
    "newsgroups_rec:counts": {"least": 0.93},
    "newsgroups_rec": {"least": 0.93},
    "wine": {"least": 0.94},
    "iris": {"least": 0.88},
    "breast_cancer": {"least": 0.90},
    "letter:A-B": {"least": 0.93},
}
"""Of the median accuracy."""
LOWEST = {"mnist": 0.95}
"""Of the lowest accuracy."""
AT_LEAST_K_MEANS = ("satellite",)

TUNING = ("digits", "wine", "iris", "breast_cancer", "letter:A-B", "satellite", "ionosphere")
TUNING += ("newsgroups_rec:counts", "newsgroups_rec", "mnist")
HELD_OUT = ("usps", "coil20", "cora", "webkb:counts", "webkb", "newsgroups:counts", "newsgroups")
HELD_OUT += ("fashion_mnist", "cifar10_cnn")
GROUPS = {"tuning": TUNING, "held-out": HELD_OUT, "generated": tuple(GENERATED)}
"""Rules and constants may be chosen on the first and the last."""

MIXED = ("wine", "breast_cancer", "ionosphere", *MIXED_UNITS)
"""Sets whose columns are of mixed units: k-means on standardised rows counts too."""
AS_GIVEN, STANDARDISED = "k-means", "k-means, standardised"
LARGE = ("mnist", "fashion_mnist", "cifar10_cnn")
"""Sets on which k-means takes minutes: it is fitted with the first seed alone, and not on standardised rows."""
BELOW = 0.02
TIMED = ("mnist", "cifar10_cnn", "newsgroups_rec")
NUMBERED = ("digits", "mnist", "newsgroups_rec", "blobs", "iris", "wine")
"""Sets of which the number of clusters is wanted."""
MOST_ROWS = 10_000
"""Of a set whose number of clusters is looked for."""
GB = 1e9


@dataclass
class Bench:
    """What the parts work with."""

    report: Report
    cells: Cells
    out: Path
    method: str
    names: tuple[str, ...]
    seeds: range
    chosen_by_user: bool
    """Whether the names were given."""

    @property
    def small(self) -> bool:
        return self.report.small


# --------------------------------------------------------------------------------------------------------------- sets


@lru_cache(maxsize=1)
def _load(name: str, seed: int) -> tuple[Any, Any]:
    if name == "blobs":
        return make_blobs(2000, n_features=8, centers=7, center_box=(-6.0, 6.0), random_state=seed)  # type: ignore[no-any-return]
    if name in GENERATED:
        return generate(name, seed)
    base, _, part = name.partition(":")
    if part in ("", "counts"):
        return data_sets.load(name)
    return data_sets.pair(*data_sets.load(base), *part.split("-"))


def load(name: str, seed: int, small: bool) -> tuple[Any, Any]:
    """Rows (or a list of views) and classes of a set; generated ones depend on the seed."""
    X, y = _load(name, seed if name in GENERATED else 0)
    if not small:
        return X, y
    return [view[:400] for view in X] if isinstance(X, list) else X[:400], y[:400]


def count_classes(name: str, small: bool) -> int:
    """The number of true clusters."""
    return GENERATED[name][1] if name in GENERATED else len(np.unique(load(name, 0, small)[1]))


def has_sense(name: str) -> bool:
    """Whether the classes of a set can be found."""
    return name != "no_structure"


# --------------------------------------------------------------------------------------------------------------- fits


def fit(X: Any, k: Any, seed: int, method: str, **params: Any) -> Any:
    """`dmmc.fit` without its notes; `method="auto"` is left to be the default."""
    given = params if method == "auto" else {"method": method, **params}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dmmc.fit(X, k, random_state=seed, **given)


def timed(do: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that it took, and what it gave."""
    began = time.perf_counter()
    result = do()
    return time.perf_counter() - began, result


@lru_cache(maxsize=1)
def name_code() -> str:
    """A name of the code of dmmc that runs here."""
    folder = Path(dmmc.__file__).parent
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return total.hexdigest()[:12]


def lacks_structure(run: Any) -> bool:
    """Whether a fit warned that its rows have no structure."""
    return any("structure" in text for text in run.info["warnings"])


def describe(run: Any, seconds: float, y: Any) -> dict[str, Any]:
    """Scores of a fit and of all its candidates, what was chosen, and what was said."""
    labels = getattr(run.model, "candidate_labels_", {})
    candidates = []
    for candidate in run.choices.get("candidates", []):
        found = dict(candidate)
        if candidate["name"] in labels:
            scores = dmmc.score(labels[candidate["name"]], y)
            found |= {"accuracy": scores["accuracy"], "nmi": scores["nmi"]}
        candidates.append(found)
    scores = dmmc.score(run.labels, y)
    written: dict[str, Any] = plain(
        {
            "accuracy": scores["accuracy"],
            "nmi": scores["nmi"],
            "seconds": seconds,
            "sizes": np.bincount(run.labels).tolist(),
            "chosen": next((c["name"] for c in candidates if c["chosen"]), None),
            "candidates": candidates,
            "no_structure": lacks_structure(run),
            "warnings": list(run.info["warnings"]),
            "code": name_code(),
        }
    )
    return written


def fit_cell(name: str, method: str, seed: int, small: bool) -> dict[str, Any]:
    """A fit of ours, or why there is none."""
    X, y = load(name, seed, small)
    try:
        seconds, run = timed(partial(fit, X, count_classes(name, small), seed, method))
    except Exception as error:  # the other sets are worth having
        return {"failed": f"{type(error).__name__}: {error}"[:200], "code": name_code()}
    return describe(run, seconds, y)


def standardised_k_means(X: Any, k: int, seed: int) -> Any:
    """scikit-learn's k-means on rows whose columns have mean 0 and variance 1."""
    return k_means(StandardScaler().fit_transform(np.asarray(X, np.float64)), k, seed)


def peer_cell(name: str, recipe: str, seed: int, small: bool) -> dict[str, Any]:
    """A fit of k-means; views are put side by side."""
    X, y = load(name, seed, small)
    rows = np.hstack(X) if isinstance(X, list) else X
    do = k_means if recipe == AS_GIVEN else standardised_k_means
    return score_peer(do, rows, y, count_classes(name, small), seed)


# ---------------------------------------------------------------------------------------------------- part: the sets


def compare(name: str, ours: list[dict[str, Any]], peers: dict[str, list[dict[str, Any]]]) -> float:
    """The larger of the differences from k-means in median accuracy and NMI; where two k-means count, the smaller."""
    counted = [AS_GIVEN, STANDARDISED] if name in MIXED else [AS_GIVEN]

    def above(theirs: list[dict[str, Any]]) -> float:
        return max(median(c[what] for c in ours) - median(c[what] for c in theirs) for what in ("accuracy", "nmi"))

    return min(above(peers[recipe]) for recipe in counted)


def regret(cell: dict[str, Any]) -> float | None:
    """The accuracy of the best candidate less that of the answer; None where there are no candidates."""
    scored = [c["accuracy"] for c in cell.get("candidates", []) if "accuracy" in c]
    return max(scored) - cell["accuracy"] if scored else None


def fit_set(bench: Bench, name: str) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Cells of a set: ours, and of k-means as given and (dense sets, unless they are large) standardised."""
    get, small = bench.cells.get, bench.small
    ours = [get(name, bench.method, s, partial(fit_cell, name, bench.method, s, small)) for s in bench.seeds]
    recipes = [AS_GIVEN]
    if name not in LARGE and not issparse(load(name, 0, small)[0]):
        recipes.append(STANDARDISED)
    seeds = bench.seeds[:1] if name in LARGE else bench.seeds
    peers = {r: [get(name, r, s, partial(peer_cell, name, r, s, small)) for s in seeds] for r in recipes}
    return ours, peers


def sets(bench: Bench) -> None:
    """Scores of all sets."""
    report, add = bench.report, bench.report.add
    found: list[dict[str, Any]] = []
    margins, regrets, alarms = {}, {}, {}
    for name in bench.names:
        ours, peers = fit_set(bench, name)
        found += [*ours, *(cell for cells in peers.values() for cell in cells)]
        failed = [cell["failed"] for cell in ours if "failed" in cell]
        if failed:
            add(f"{name}: accuracy", 0.0, f"{len(failed)} of {len(ours)} failed: {failed[0]}", least=1.0)
            margins[name] = -1.0
            continue
        accuracies, seconds = [c["accuracy"] for c in ours], median(c["seconds"] for c in ours)
        tally = Counter(c["chosen"] for c in ours if c["chosen"]).most_common()
        chosen = "".join(f"; {what} ({times})" for what, times in tally)
        each = " ".join(f"{a:.3f}" for a in accuracies)
        detail = f"nmi {median(c['nmi'] for c in ours):.3f}, {seconds:.1f} s: {each}{chosen}"
        theirs = {recipe: median(c["accuracy"] for c in cells) for recipe, cells in peers.items()}
        wanted = {"least": theirs[AS_GIVEN]} if name in AT_LEAST_K_MEANS else WANTED.get(name, {})
        add(f"{name}: accuracy", median(accuracies), detail, **wanted)
        if name in LOWEST:
            add(f"{name}: lowest accuracy", min(accuracies), least=LOWEST[name])
        if not has_sense(name):
            continue
        alarms[name] = mean(c["no_structure"] for c in ours) > 0.5
        margins[name] = compare(name, ours, peers)
        seedwise = [compare(name, [c], {r: [cs[i % len(cs)]] for r, cs in peers.items()}) for i, c in enumerate(ours)]
        below = sum(margin < -BELOW for margin in seedwise)
        told = ", ".join(
            f"{r} {median(c['accuracy'] for c in cs):.3f} (nmi {median(c['nmi'] for c in cs):.3f})"
            for r, cs in peers.items()
        )
        add(f"{name}: 1 + above k-means", 1 + margins[name], f"{told}; below in {below}/{len(ours)}", least=1 - BELOW)
        gaps = [gap for gap in map(regret, ours) if gap is not None]
        if gaps:
            regrets[name] = mean(gaps)
    low = [name for name, margin in margins.items() if margin < -BELOW]
    add("sets that are not below k-means / sets", 1 - len(low) / max(1, len(margins)), ", ".join(low), least=1.0)
    if regrets:
        worst = sorted(regrets, key=lambda name: -regrets[name])[:4]
        told = ", ".join(f"{name} {regrets[name]:.3f}" for name in worst)
        add(f"1 - mean regret, {len(regrets)} sets", 1 - mean(regrets.values()), told, least=1 - BELOW)
    if alarms:
        wrong = [name for name, alarm in alarms.items() if alarm]
        kept = 1 - len(wrong) / len(alarms)
        add("sets not said to have no structure / sets", kept, ", ".join(wrong), least=1 - 1 / len(alarms))
    other = sum(cell.get("code", name_code()) != name_code() for cell in found)
    if other:
        print(f"{other} of these cells were fitted by another version of the code: see --again")
    report.measured["sets"] = {"cells": found, "other_code": other}
    write_table(bench)


def write_table(bench: Bench) -> None:
    """Candidates x sets, of all cells in the file, beside the JSON; median accuracy over the seeds."""
    by_set: dict[str, list[dict[str, Any]]] = {}
    for cell in bench.cells.of(bench.method):
        if cell.get("candidates"):
            by_set.setdefault(cell["set"], []).append(cell)
    if not by_set:
        return
    names = list(dict.fromkeys(c["name"] for cells in by_set.values() for cell in cells for c in cell["candidates"]))
    head = ["set", "answer", "best", "regret", *names]
    lines = [
        "# Candidates of `auto` on each set",
        "",
        "Median accuracy over the seeds, (how often it was the answer); `-`: not a candidate there. Labels only score.",
        "`best` and `regret` are means over the seeds: the best candidate's accuracy, and what the answer lacks of it.",
        "",
        f"| {' | '.join(head)} |",
        f"|{'---|' * len(head)}",
    ]
    for name in [n for group in GROUPS.values() for n in group if n in by_set]:
        cells, row = by_set[name], []
        for candidate in names:
            some = [c for cell in cells for c in cell["candidates"] if c["name"] == candidate and "accuracy" in c]
            won = sum(cell["chosen"] == candidate for cell in cells)
            row.append(f"{median(c['accuracy'] for c in some):.3f}{f' ({won})' * (won > 0)}" if some else "-")
        gaps = [gap for gap in map(regret, cells) if gap is not None]
        lack = mean(gaps) if gaps else 0.0
        answer = mean(cell["accuracy"] for cell in cells)
        first = [name, f"{median(cell['accuracy'] for cell in cells):.3f}", f"{answer + lack:.3f}", f"{lack:.3f}"]
        lines.append(f"| {' | '.join([*first, *row])} |")
    path = bench.out.with_name(f"{bench.out.stem}_candidates.md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    print(f"candidates x sets: {path}")


# -------------------------------------------------------------------------------------------------------- other parts


def structure(bench: Bench) -> None:
    """Gaussians: are they said to have no structure?"""
    found = {}
    for name, draw in GAUSSIANS.items():
        rows = [draw(np.random.default_rng(seed)) for seed in bench.seeds]
        rows = [X[:400] for X in rows] if bench.small else rows
        found[name] = [
            lacks_structure(fit(X, 5, seed, bench.method)) for seed, X in zip(bench.seeds, rows, strict=True)
        ]
    said = [name for name, warned in found.items() if mean(warned) > 0.5]
    told = ", ".join(f"{name} {sum(warned)}/{len(warned)}" for name, warned in found.items())
    if bench.method == "auto":  # other methods do not look
        bench.report.add("Gaussians said to have no structure / Gaussians", len(said) / len(found), told, least=0.8)
    bench.report.measured["structure"] = found


def pair_cell(name: str, a: int, b: int, method: str) -> dict[str, Any]:
    """The error of a pair of digits, in percent."""
    X, y = data_sets.pair(*_load(name, 0), a, b)
    run = fit(np.ascontiguousarray(X), 2, 0, method)
    chosen = next((c["name"] for c in run.choices.get("candidates", []) if c["chosen"]), None)
    return {"error": 100 * dmmc.score(run.labels, y)["purity_error"], "chosen": chosen, "code": name_code()}


def pairs(bench: Bench) -> None:
    """All pairs of digits."""
    wanted: dict[str, dict[str, float]] = {"digits": {"most": 1.8, "aim": 1.2}, "mnist": {"most": 0.8}}
    for name in ("digits",) if bench.small else wanted:
        some = SMALL_PAIRS if bench.small else list(combinations(range(10), 2))
        cells = {
            f"{a}-{b}": bench.cells.get(
                f"{name}:{a}-{b}", bench.method, 0, partial(pair_cell, name, a, b, bench.method)
            )
            for a, b in some
        }
        errors = {pair: cell["error"] for pair, cell in cells.items()}
        worst = sorted(errors, key=lambda pair: -errors[pair])[:5]
        told = ", ".join(f"{pair} {errors[pair]:.2f} {cells[pair]['chosen'] or ''}".rstrip() for pair in worst)
        bench.report.add(f"{name}, {len(errors)} pairs: mean error in %", mean(errors.values()), told, **wanted[name])
        bench.report.measured.setdefault("pairs", {})[name] = errors


def times(bench: Bench) -> None:
    """The whole against its best candidate alone, the fast one against one k-means, and the digits."""
    report, quiet, method = bench.report, bench.report.patience.until_quiet, bench.method
    fast = {"effort": "fast"} if method == "auto" else {}
    measured: dict[str, Any] = {}
    for name in ("digits",) if bench.small else TIMED:
        X, y = load(name, 0, bench.small)
        k = count_classes(name, bench.small)
        rows = X if issparse(X) else X.astype(np.float32)
        fit(X[:1500], k, 0, method), fit(X[:1500], k, 0, method, **fast)  # compile
        whole, run = quiet(partial(timed, partial(fit, X, k, 0, method)))
        cell = describe(run, whole, y)
        scored = [c for c in cell["candidates"] if "accuracy" in c and c["parameters"]]
        best = max(scored, key=lambda c: c["accuracy"], default={"name": method, "parameters": {"method": method}})
        alone, _ = quiet(partial(timed, partial(fit, X, k, 0, **best["parameters"])))
        detail = f"{whole:.1f} / {alone:.1f} s; best: {best['name']}; chosen: {cell['chosen']}"
        report.add(f"{name}: time, whole / best candidate alone", whole / alone, detail, most=2.0)
        ours, run = quiet(partial(timed, partial(fit, X, k, 0, method, **fast)))
        theirs, _ = quiet(partial(timed, partial(KMeans(k, n_init=1, random_state=0).fit, rows)))
        detail = f"{ours:.2f} / {theirs:.2f} s; accuracy {dmmc.score(run.labels, y)['accuracy']:.3f}"
        report.add(f"{name}: time, fast / KMeans(n_init=1)", ours / theirs, detail, most=2.0)
        measured[name] = {"whole": whole, "alone": alone, "best": best["name"], "fast": ours, "k_means": theirs}
    X, _ = load("digits", 0, bench.small)
    fit(X, 10, 0, method)
    measured["warm"] = min(quiet(partial(timed, partial(fit, X, 10, seed, method)))[0] for seed in range(3))
    report.add(f"{len(X)} digits: seconds, warm", measured["warm"], most=3.0)
    report.measured["times"] = measured


def print_peak(method: str, size: str) -> None:
    """Fit, and print the peak of the resident set; for a process of its own."""
    X, y = load("digits" if size == "small" else "mnist", 0, small=False)
    began = time.perf_counter()
    run = fit(X, 10, 0, method)
    seconds = time.perf_counter() - began
    accuracy = dmmc.score(run.labels, y)["accuracy"]
    print(json.dumps({"peak": status("VmHWM"), "rows": X.nbytes, "seconds": seconds, "accuracy": accuracy}))


def memory(bench: Bench) -> None:
    """The peak of a new process."""
    found = run_child("auto", "print_peak", bench.method, "small" if bench.small else "full", timeout=3600.0)
    detail = f"{found['peak'] / GB:.2f} GB, of which rows {found['rows'] / GB:.2f}; {found['seconds']:.1f} s"
    name = "digits" if bench.small else "MNIST-70k"
    bench.report.add(f"{name}: peak of the resident set / 2 GB", found["peak"] / (2 * GB), detail, most=1.0)
    bench.report.measured["memory"] = found


def number_cell(name: str, small: bool) -> dict[str, Any]:
    """The numbers of clusters that are proposed for a set."""
    X, y = load(name, 0, small)
    if len(y) > MOST_ROWS:
        drawn = np.sort(np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False))
        X, y = X[drawn], y[drawn]
    try:
        seconds, run = timed(partial(fit, X, "auto", 0, "auto"))
    except Exception as error:  # the other sets are worth having
        return {"failed": f"{type(error).__name__}: {error}"[:200], "code": name_code()}
    found = run.choices["n_clusters"]
    true = len(np.unique(y)) if has_sense(name) else 1
    said: dict[str, Any] = plain({what: found[what] for what in ("suggestion", "runner_up")})
    accuracy = dmmc.score(run.labels, y)["accuracy"]
    return {"true": true, **said, "seconds": seconds, "accuracy": accuracy, "code": name_code()}


def number(bench: Bench) -> None:
    """How many clusters?"""
    if bench.method != "auto":
        print("number: only auto finds the number of clusters")
        return
    names = bench.names if bench.chosen_by_user or bench.small else tuple(dict.fromkeys((*NUMBERED, *bench.names)))
    found = {n: bench.cells.get(n, "number of clusters", 0, partial(number_cell, n, bench.small)) for n in names}
    right = {n: "failed" not in c and c["true"] in (c["suggestion"], c["runner_up"]) for n, c in found.items()}
    for name, cell in found.items():
        if "failed" in cell:
            print(f"{name}: number of clusters: failed: {cell['failed']}")
        else:
            print(
                f"{name}: {cell['true']} clusters; suggested {cell['suggestion']}, then {cell['runner_up']}; "
                f"{'right' if right[name] else 'wrong'}; {cell['seconds']:.1f} s"
            )
    wanted = [name for name in names if name in NUMBERED]
    for label, some, least in (("the six sets", wanted, {"least": 4 / 6}), ("all sets", list(names), {})):
        share = mean(right[name] for name in some) if some else 0.0
        told = "wrong: " + ", ".join(name for name in some if not right[name])
        bench.report.add(f"number of clusters, {label}: right / sets", share, told, **least)
    bench.report.measured["number"] = found


# --------------------------------------------------------------------------------------------------------------- main

PARTS: dict[str, Callable[[Bench], None]] = {
    "sets": sets,
    "structure": structure,
    "pairs": pairs,
    "times": times,
    "memory": memory,
    "number": number,
}


def choose_names(given: str | None, small: bool) -> tuple[str, ...]:
    """Names of sets: those between commas, of which one may be a group; all without."""
    if given is None:
        return ("digits", "iris", "two_views") if small else tuple(name for group in GROUPS.values() for name in group)
    return tuple(dict.fromkeys(name for word in given.split(",") for name in GROUPS.get(word, (word,))))


def main() -> None:
    parser = arguments(__doc__ or "", "auto")
    parser.add_argument("--seeds", type=int, help="random_state 0 to this less one; default 5, small 1")
    parser.add_argument("--sets", help=f"names between commas, or {', '.join(GROUPS)}; default all")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part alone")
    parser.add_argument("--method", default="auto", help="what to fit; default auto")
    parser.add_argument("--cells", type=Path, help="file of cells; default beside the JSON")
    parser.add_argument(
        "--again", action="store_true", help="drop our cells of these sets (k-means is kept) and fit anew"
    )
    options = parser.parse_args()
    out = destination(options.json, "auto", options.small)
    cells = Cells(options.cells or out.with_suffix(".cells.jsonl"))
    names = choose_names(options.sets, options.small)
    ours = (options.method, "number of clusters")
    cells.forget(
        lambda c: c["recipe"] in ours and ("failed" in c or (options.again and is_of(c["set"], names, options.only)))
    )
    report = Report("auto", options.small, patience=Patience(0 if options.small else options.patience))
    seeds = range(options.seeds or (1 if options.small else 5))
    print(headline())
    bench = Bench(report, cells, out, options.method, names, seeds, options.sets is not None)
    for name, part in PARTS.items():
        if options.only in (None, name):
            part(bench)
    report.write(out)


def is_of(name: str, names: tuple[str, ...], only: str | None) -> bool:
    """Whether a cell of a set, or of a pair of digits, is of these sets and this part."""
    is_pair = name.partition(":")[2][:1].isdigit()
    return only in (None, "pairs") if is_pair else name in (*names, "blobs") and only != "pairs"


if __name__ == "__main__":
    main()
