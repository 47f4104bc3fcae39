"""Accuracy and NMI of every method and feature kind that makes sense, on every data set, beside peers.

    python benchmarks/accuracy.py                      # all sets, random_state 0 to 4; hours the first time
    python benchmarks/accuracy.py --sets digits,usps --recipes lsmmc,k-means

No label is used by any fit: labels only score. A cell is one fit (set, recipe, seed); each is kept in a file beside
the JSON (`--cells`) as soon as it is done, and a later run takes it from there. Peers are scikit-learn's
`KMeans(n_init=10)`, and `umap-learn` + KMeans, `evoc` and `fast_hdbscan` (extra `bench`) where they are installed; a
peer that is missing or fails is a row that says so. Rows that `evoc` and `fast_hdbscan` leave out count as a cluster of
their own. `held out` fits all rows but 10,000 and predicts those.

Lines are medians over the seeds; what is wanted of `lsmmc` by default is said with them. JSON: `benchmark`, `small`,
`machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`, `detail`) and `measured`,
with `cells`, one object a cell, and `missing`, peers that are not installed.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import data_sets
import numpy as np
from _report import Report, arguments, destination, headline
from scipy.sparse import issparse
from sklearn.cluster import KMeans

import dmmc

TEXTS = ("newsgroups_rec:counts", "newsgroups_rec", "newsgroups:counts", "newsgroups", "webkb:counts", "webkb")
IMAGES = ("digits", "usps", "coil20", "mnist", "fashion_mnist", "cifar10_cnn")
TABLES = ("iris", "wine", "breast_cancer", "ionosphere", "satellite", "letter", "cora")
HELD_OUT = ("mnist", "cifar10_cnn")
AWAY = 10_000
"""Rows that `held out` leaves to predict."""

Recipe = Callable[[Any, int, int], Any]
"""Rows, clusters and seed to labels."""


def fit(**params: Any) -> Recipe:
    """Labels by `dmmc.fit` with these parameters."""
    return lambda X, k, seed: dmmc.fit(X, k, random_state=seed, **params).labels


def k_means(X: Any, k: int, seed: int) -> Any:
    """scikit-learn's k-means on the rows as they are."""
    rows = X if issparse(X) else np.asarray(X, np.float32)
    return KMeans(k, n_init=10, random_state=seed).fit_predict(rows)


def umap_k_means(X: Any, k: int, seed: int) -> Any:
    """k-means in a UMAP embedding of 10 dimensions."""
    import umap

    Z = umap.UMAP(n_components=10, min_dist=0.0, random_state=seed, metric="cosine" if issparse(X) else "euclidean")
    return KMeans(k, n_init=10, random_state=seed).fit_predict(Z.fit_transform(X))


def evoc(X: Any, k: int, seed: int) -> Any:
    """EVoC, which finds the number of clusters by itself."""
    import evoc

    rows = X.toarray() if issparse(X) else X
    return 1 + evoc.EVoC(random_state=seed).fit_predict(np.asarray(rows, np.float32))


def fast_hdbscan(X: Any, k: int, seed: int) -> Any:
    """HDBSCAN on 20 principal axes, which finds the number of clusters by itself."""
    import fast_hdbscan
    from sklearn.decomposition import TruncatedSVD

    axes = TruncatedSVD(min(20, X.shape[1] - 1), random_state=seed).fit_transform(X if issparse(X) else X.astype(float))
    return 1 + fast_hdbscan.HDBSCAN(min_cluster_size=max(5, len(axes) // (20 * k))).fit_predict(axes)


OURS: dict[str, Recipe] = {
    "lsmmc": fit(method="lsmmc"),
    "lsmmc, raw, k-means start": fit(method="lsmmc", features="raw", init="k-means", transform="none"),
    "lsmmc, nystroem": fit(method="lsmmc", features="nystroem", n_components=500),
    "cpmmc": fit(method="cpmmc"),
    "cpmmc, spectral, graph start": fit(method="cpmmc", features="spectral", init="graph"),
    "cpmmc, smooth": fit(method="cpmmc", features="smooth"),
}
WORDS: dict[str, Recipe] = {
    "lsmmc": fit(method="lsmmc"),
    "cpmmc": fit(method="cpmmc"),
    "cpmmc, lsa": fit(method="cpmmc", features="lsa", transform="auto"),
    "smmc": fit(method="smmc"),
}
PEERS: dict[str, tuple[Recipe, str]] = {
    "k-means": (k_means, "sklearn"),
    "umap + k-means": (umap_k_means, "umap"),
    "evoc": (evoc, "evoc"),
    "fast_hdbscan": (fast_hdbscan, "fast_hdbscan"),
}
WANTED: dict[str, dict[str, float]] = {
    "cifar10_cnn": {"least": 0.855},
    "fashion_mnist": {"least": 0.68},
    "mnist": {"least": 0.966, "aim": 0.972},
    "usps": {"least": 0.955},
    "digits": {"least": 0.945},
    "coil20": {"least": 0.85, "aim": 0.90},
    "newsgroups:counts": {"least": 0.67, "aim": 0.70},
    "newsgroups_rec:counts": {"least": 0.945},
}
"""Of the median accuracy of `lsmmc`."""


def imbalance(y: Any) -> Any:
    """Rows of a set of which class c of k keeps from all (c = 0) to a tenth of its rows."""
    rng, kept = np.random.default_rng(0), []
    classes = np.unique(y)
    for number, share in zip(classes, np.geomspace(1.0, 0.1, len(classes)), strict=True):
        rows = rng.permutation(np.flatnonzero(y == number))
        kept.append(rows[: int(share * len(rows))])
    return np.sort(np.concatenate(kept))


def load(name: str, small: bool) -> tuple[Any, Any]:
    """Rows and classes of a set; "NAME:imbalanced" has classes from 1 to .1 of their size."""
    base, _, kind = name.partition(":imb")
    X, y = data_sets.load(base)
    chosen = imbalance(y) if kind else np.arange(len(y))
    return (X[chosen[:400]], y[chosen[:400]]) if small else (X[chosen], y[chosen])


class Cells:
    """Fits that were made, by set, recipe and seed, in a file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.is_file() else []
        self._known = {(c["set"], c["recipe"], c["seed"]): c for c in map(json.loads, lines)}

    def get(self, name: str, recipe: str, seed: int, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """A cell: known, or made now and written down."""
        key = (name, recipe, seed)
        if key not in self._known:
            self._known[key] = {"set": name, "recipe": recipe, "seed": seed, **make()}
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a") as file:
                file.write(json.dumps(self._known[key]) + "\n")
        return self._known[key]

    def has(self, name: str, recipe: str, seed: int) -> bool:
        """Whether a cell is known."""
        return (name, recipe, seed) in self._known

    def of(self, recipe: str) -> list[dict[str, Any]]:
        """All known cells of a recipe."""
        return [cell for cell in self._known.values() if cell["recipe"] == recipe]

    def forget(self, unwanted: Callable[[dict[str, Any]], bool]) -> None:
        """Drop cells, from the file too."""
        kept = {key: cell for key, cell in self._known.items() if not unwanted(cell)}
        if len(kept) < len(self._known):
            self._known = kept
            self._path.write_text("".join(json.dumps(cell) + "\n" for cell in kept.values()))


def measure(do: Recipe, X: Any, y: Any, k: int, seed: int) -> dict[str, Any]:
    """Scores and seconds of one fit, or why there is none."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            labels = do(X, k, seed)
        except Exception as error:  # a peer that fails is a row that says so
            return {"failed": f"{type(error).__name__}: {error}"[:200]}
    scores = dmmc.score(labels, y)
    seconds = time.perf_counter() - began
    return {"accuracy": scores["accuracy"], "nmi": scores["nmi"], "seconds": seconds}


def predict_rest(X: Any, y: Any, k: int, seed: int) -> dict[str, Any]:
    """Accuracy of `lsmmc` on the rows that it was fitted with, and on those that were held out."""
    order = np.random.default_rng(seed).permutation(len(y))
    away = order[: min(AWAY, len(y) // 4)]
    kept = np.setdiff1d(np.arange(len(y)), away)
    run = dmmc.fit(X[kept], k, method="lsmmc", random_state=seed)
    fitted, held_out = dmmc.score(run.labels, y[kept]), dmmc.score(run.model.predict(X[away]), y[away])
    return {"fitted": fitted["accuracy"], "held_out": held_out["accuracy"]}


def recipes_for(name: str) -> dict[str, Recipe]:
    """Recipes that make sense for a set."""
    ours = WORDS if name in TEXTS else OURS
    return {**ours, **{peer: do for peer, (do, module) in PEERS.items() if find_spec(module) is not None}}


def main() -> None:
    parser = arguments(__doc__ or "", "accuracy")
    parser.add_argument("--seeds", type=int, help="random_state 0 to this less one; default 5, small 1")
    parser.add_argument("--sets", help="names between commas; default all")
    parser.add_argument("--recipes", help="names between semicolons; default all that make sense")
    parser.add_argument("--cells", type=Path, help="file of cells; default beside the JSON")
    options = parser.parse_args()
    report = Report("accuracy", options.small)
    out = destination(options.json, "accuracy", options.small)
    cells = Cells(options.cells or out.with_suffix(".cells.jsonl"))
    print(headline())
    names = (*IMAGES, *TEXTS, *TABLES, "cifar10_cnn:imbalanced")
    if options.small:
        names = ("digits", "iris")
    if options.sets:
        names = tuple(options.sets.split(","))
    seeds = range(options.seeds or (1 if options.small else 5))
    missing = [peer for peer, (_, module) in PEERS.items() if find_spec(module) is None]
    for peer in missing:
        print(f"{peer}: not installed")
    found: list[dict[str, Any]] = []
    for name in names:
        X, y = load(name, options.small)
        k = len(np.unique(y))
        for recipe, do in recipes_for(name).items():
            if options.recipes and recipe not in options.recipes.split(";"):
                continue
            some = [cells.get(name, recipe, seed, partial(measure, do, X, y, k, seed)) for seed in seeds]
            found += some
            done = [cell for cell in some if "accuracy" in cell]
            if not done:
                print(f"{name}: {recipe}: failed: {some[0]['failed']}")
                continue
            each = " ".join(f"{cell['accuracy']:.3f}" for cell in done)
            nmi, seconds = (median(cell[what] for cell in done) for what in ("nmi", "seconds"))
            wanted = WANTED.get(name, {}) if recipe == "lsmmc" else {}
            detail = f"nmi {nmi:.3f}, {seconds:.1f} s: {each}"
            report.add(f"{name}: {recipe}", median(cell["accuracy"] for cell in done), detail, **wanted)
        if name in HELD_OUT or options.small:
            rest = [cells.get(name, "held out", seed, partial(predict_rest, X, y, k, seed)) for seed in seeds[:2]]
            found += rest
            worst = max(abs(cell["fitted"] - cell["held_out"]) for cell in rest)
            report.add(f"{name}: held out, points from fitted rows", 100 * worst, most=1.5)
    report.measured["cells"] = found
    report.measured["missing"] = missing
    report.write(out)


if __name__ == "__main__":
    main()
