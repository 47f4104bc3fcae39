"""Features and starts from the graph of nearest neighbours: accuracy on real data, time beside KMeans, memory, bits.

`features="spectral", init="graph"` throughout (for text `features="lsa"`, with the graph's own figure beside it), with
all other parameters as they are by default. Labels are used only to score.

- `mnist`: MNIST-70k, ten clusters, a fit a `random_state`; the first one's seconds beside KMeans(10, n_init=10) on
  float32 in the same run (each is first run on a small slice: compilation is in no time)
- `pairs`: the 45 pairs of MNIST digits, `random_state` 0, error in percent
- `others`: `cifar10_cnn` beside the mean accuracy of KMeans(10, n_init=1) over the same seeds; satellite 1-2; digits
- `held_out`: 10,000 rows of MNIST are left out of a fit and predicted; clusters are matched to classes on the fitted
  rows, and that matching scores both
- `bits`: labels and all arrays of the model, with one and two threads, with one and two workers, after an interrupted
  fit was resumed, and after saving and loading; 1 is "the same"
- `memory`: the peak of the resident set of a new process that loads and fits MNIST-70k, over 2.5 GB
- `text`: `newsgroups_rec`, four clusters, mean over the seeds

JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`,
`detail`) and `measured`, with what each part found: `mnist`, `pairs`, `others`, `held_out`, `bits`, `memory`, `text`.
Small runs take the digits of scikit-learn for everything.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import Any, TypeVar

from _report import Report, run_child, run_parts
from stops import Interrupt

Result = TypeVar("Result")

GRAPH: dict[str, Any] = {"features": "spectral", "init": "graph"}
SMALL_PAIRS = [(1, 8), (3, 9), (8, 9)]
SMALL_ROWS = 600
BITS_ROWS = 20_000
GB = 1e9
CHILD_TIMEOUT = 1200


def load(name: str, small: bool) -> tuple[Any, Any]:
    """A data set; some digits of scikit-learn, as bytes, stand for each of them in small runs."""
    import data_sets
    import numpy as np

    X, y = data_sets.load("digits" if small or name == "digits" else name)
    if small:
        X, y = X[:SMALL_ROWS], y[:SMALL_ROWS]
    return (np.ascontiguousarray(X, np.uint8) if small or name == "digits" else X), y


def fit(X: Any, k: int, seed: int, **params: Any) -> Any:
    """`dmmc.fit` with the graph's parameters, or others."""
    import dmmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return dmmc.fit(X, k, random_state=seed, **{**GRAPH, **params})


def timed(do: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds that it took, and what it gave."""
    began = time.perf_counter()
    result = do()
    return time.perf_counter() - began, result


def scored(X: Any, y: Any, k: int, seeds: int, **params: Any) -> list[dict[str, Any]]:
    """Seconds and scores of a fit a seed."""
    import dmmc

    found = []
    for seed in range(seeds):
        seconds, run = timed(partial(fit, X, k, seed, **params))
        sizes = [int(size) for size in run.info["sizes"]]
        phases = {name: float(value) for name, value in run.info["timings"].items()}
        scores = dmmc.score(run.labels, y)
        found.append({"seed": seed, "seconds": seconds, **scores, "sizes": sizes, "phases": phases})
    return found


def each(found: list[dict[str, Any]], what: str = "accuracy") -> str:
    """A figure of every seed, in a row."""
    return ", ".join(f"{fit[what]:.4f}" for fit in found)


# ------------------------------------------------------------------------------------------------------------- MNIST


def mnist(report: Report, seeds: int) -> None:
    """Ten clusters: accuracy, NMI, and the time beside KMeans."""
    import numpy as np
    from sklearn.cluster import KMeans

    import dmmc

    X, y = load("mnist", report.small)
    floats = X.astype(np.float32)

    def theirs(rows: Any) -> Any:
        return KMeans(10, n_init=10, random_state=0).fit(rows).labels_

    fit(X[:2000], 10, 0)
    theirs(floats[:2000])
    ours_seconds, _ = report.patience.until_quiet(partial(timed, partial(fit, X, 10, 0)))
    their_seconds, labels = report.patience.until_quiet(partial(timed, partial(theirs, floats)))
    found = scored(X, y, 10, seeds)
    peer = {"seconds": their_seconds, **dmmc.score(labels, y)}
    report.measured["mnist"] = {"seconds": ours_seconds, "fits": found, "kmeans": peer}
    name = "digits" if report.small else "MNIST"
    accuracies, nmis = [fit["accuracy"] for fit in found], [fit["nmi"] for fit in found]
    report.add(f"{name}, k = 10: median accuracy", median(accuracies), each(found), least=0.955, aim=0.966)
    report.add(f"{name}, k = 10: lowest accuracy", min(accuracies), f"KMeans {peer['accuracy']:.4f}", least=0.90)
    report.add(f"{name}, k = 10: median NMI", median(nmis), each(found, "nmi"), least=0.90, aim=0.91)
    detail = f"{ours_seconds:.1f} / {their_seconds:.1f} s"
    report.add(f"{name}, k = 10: time, dmmc / KMeans(n_init=10)", ours_seconds / their_seconds, detail, most=3.0)


def pairs(report: Report) -> None:
    """All pairs of digits, two clusters each."""
    import data_sets
    import numpy as np

    import dmmc

    X, y = load("mnist", report.small)
    errors = {}
    for a, b in SMALL_PAIRS if report.small else combinations(range(10), 2):
        rows, classes = data_sets.pair(X, y, a, b)
        run = fit(np.ascontiguousarray(rows), 2, 0)
        errors[f"{a}-{b}"] = 100 * dmmc.score(run.labels, classes)["purity_error"]
    report.measured["pairs"] = errors
    worst = sorted(errors, key=lambda pair: -errors[pair])[:5]
    told = ", ".join(f"{pair} {errors[pair]:.2f}" for pair in worst)
    report.add(f"{len(errors)} pairs of digits: mean error in %", mean(errors.values()), told, most=1.0, aim=0.6)
    report.add(f"{len(errors)} pairs of digits: largest error in %", max(errors.values()), worst[0], most=8.0)


# -------------------------------------------------------------------------------------------------------- other data


def others(report: Report, seeds: int) -> None:
    """Features of a network, a satellite's pixels, small digits."""
    import data_sets
    import numpy as np
    from sklearn.cluster import KMeans

    import dmmc

    X, y = load("cifar10_cnn", report.small)
    found = scored(X, y, 10, seeds)
    floats = X.astype(np.float32)
    peers = [KMeans(10, n_init=1, random_state=seed).fit(floats).labels_ for seed in range(seeds)]
    del floats
    accuracies = [fit["accuracy"] for fit in found]
    plain = mean(dmmc.score(labels, y)["accuracy"] for labels in peers)
    told = f"KMeans {plain:.4f}"
    report.measured["others"] = {"cifar10_cnn": {"fits": found, "kmeans": plain}}
    report.add("cifar10_cnn: median accuracy", median(accuracies), each(found), least=plain + 0.05, aim=0.80)
    report.add("cifar10_cnn: lowest accuracy", min(accuracies), told, least=plain)

    X, y = load("satellite", report.small)
    X, y = data_sets.pair(X, y, *((8, 9) if report.small else (1, 2)))
    found = scored(X, y, 2, seeds)
    report.measured["others"]["satellite"] = found
    error = 100 * mean(fit["purity_error"] for fit in found)
    report.add("satellite 1-2: mean error in %", error, each(found, "purity_error"), most=1.5)

    X, y = load("digits", report.small)
    found = scored(X, y, 10, seeds)
    report.measured["others"]["digits"] = found
    report.add("digits: lowest accuracy", min(fit["accuracy"] for fit in found), each(found), least=0.86, aim=0.90)


def text(report: Report, seeds: int) -> None:
    """Latent semantic axes, and the graph beside them."""
    from scipy import sparse

    X, y = load("newsgroups_rec", report.small)
    X = sparse.csr_matrix(X, dtype="float32") if report.small else X
    k = 10 if report.small else 4
    lsa = scored(X, y, k, seeds, features="lsa", init="k-means")
    graph = scored(X, y, k, seeds)
    report.measured["text"] = {"lsa": lsa, "graph": graph}
    name = "newsgroups_rec"
    report.add(f"{name}: mean accuracy, lsa", mean(f["accuracy"] for f in lsa), each(lsa), least=0.87, aim=0.92)
    report.add(f"{name}: mean accuracy, graph", mean(f["accuracy"] for f in graph), each(graph))


# ---------------------------------------------------------------------------------------------------------- new rows


def matched(labels: Any, y: Any, k: int) -> Any:
    """The class of each cluster: the best one-to-one matching."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    counts = np.zeros((k, k), int)
    np.add.at(counts, (labels, y), 1)
    return linear_sum_assignment(-counts)[1]


def held_out(report: Report, seeds: int) -> None:
    """Rows that the fit has not seen, against those that it has."""
    import numpy as np

    X, y = load("mnist", report.small)
    count = len(X) // 7
    found = []
    for seed in range(seeds):
        chosen = np.random.default_rng(seed).permutation(len(X))
        new, fitted = np.sort(chosen[:count]), np.sort(chosen[count:])
        run = fit(X[fitted], 10, seed)
        classes = matched(run.labels, y[fitted], 10)
        own = float(np.mean(classes[run.labels] == y[fitted]))
        other = float(np.mean(classes[run.model.predict(X[new])] == y[new]))
        found.append({"seed": seed, "rows": count, "fitted": own, "held_out": other})
    report.measured["held_out"] = found
    lost = max(fit["fitted"] - fit["held_out"] for fit in found)
    told = ", ".join(f"{fit['held_out']:.4f} / {fit['fitted']:.4f}" for fit in found)
    report.add(f"{count:,} rows held out: 1 - accuracy lost on them", 1.0 - lost, told, least=0.985)


# -------------------------------------------------------------------------------------------------------------- bits


def bits(report: Report) -> None:
    """The same labels and the same model, however they came about."""
    import numpy as np

    import dmmc

    X, _ = load("mnist", report.small)
    X = np.ascontiguousarray(X[:BITS_ROWS])
    new = X[::7]

    def outcome(model: Any, labels: Any) -> dict[str, bytes]:
        arrays = {name: np.asarray(array).tobytes() for name, array in model.to_arrays()[1].items()}
        return {**arrays, "labels": labels.tobytes(), "scores": model.decision_function(new).tobytes()}

    def of_fit(**params: Any) -> dict[str, bytes]:
        run = fit(X, 10, 0, **params)
        return outcome(run.model, run.labels)

    wanted = of_fit(n_jobs=1)
    same: dict[str, bool] = {"2 threads": of_fit(n_jobs=2) == wanted}
    for workers in (1, 2):
        same[f"{workers} worker(s)"] = of_fit(workers=workers) == wanted
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        try:
            fit(X, 10, 0, out=out, progress=Interrupt("join"))
        except KeyboardInterrupt:
            same["resumed"] = of_fit(out=out, resume=True) == wanted
        again = dmmc.load(out)
        same["saved and loaded"] = outcome(again, again.predict(X)) == wanted
    report.measured["bits"] = {"rows": len(X), "same": same}
    for how, equal in same.items():
        report.add(f"same bits: {how} / 1 thread", float(equal), f"{len(X):,} rows", least=1.0)


# ------------------------------------------------------------------------------------------------------------ memory


def resident(small: str) -> None:
    """In a child: bytes at the peak, of which the data, and rows."""
    import resource

    X, _ = load("mnist", small == "True")
    run = fit(X, 10, 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(json.dumps({"peak": peak, "data": X.nbytes, "rows": len(run.labels)}))


def memory(report: Report) -> None:
    """What a whole process takes at most, imports and data included."""
    found = run_child("graph", "resident", report.small, timeout=CHILD_TIMEOUT)
    report.measured["memory"] = found
    detail = f"{found['peak'] / GB:.2f} GB for {found['rows']:,} rows, data {found['data'] / GB:.3f}"
    report.add("peak of the resident set / 2.5 GB", found["peak"] / (2.5 * GB), detail, most=1.0)


# -------------------------------------------------------------------------------------------------------------- main


def main() -> None:
    """Run everything."""
    parts: dict[str, Callable[[Report, int], None]] = {
        "mnist": mnist,
        "pairs": lambda report, _: pairs(report),
        "others": others,
        "held_out": held_out,
        "bits": lambda report, _: bits(report),
        "memory": lambda report, _: memory(report),
        "text": text,
    }
    run_parts("graph", __doc__ or "", 5, parts)


if __name__ == "__main__":
    main()
