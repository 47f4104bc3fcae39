"""Subspace MMC: its convex problem beside a generic solver, a planted subspace, and text.

- `convex`: labels fixed, ten random small sets for each of 2, 3 and 5 clusters: the largest relative difference between
  the objective reached and that of cvxpy (`--small`: two sets)
- `planted`: four centres drawn at random in 3 dimensions of 200 (standard deviation 2), noise of standard deviation 1
  in all of them, rotated at random; ten seeds. Largest principal angle between the subspace found and the true one, in
  degrees (90 if a dimension is missing), beside that of three principal components, and accuracy beside `cpmmc`, with
  its own C and with three times as much
- `text`: `newsgroups_rec`, four clusters, five seeds: accuracy and NMI beside KMeans, `cpmmc` and KMeans on 100 latent
  semantic axes with rows of norm 1; the time of a fit beside that of `cpmmc`; and the peak of the resident set of a new
  process above that of its imports, which may be 200 MB more than the data (small runs: digits)
- `bits`: labels, hyperplanes and components with one and two threads, one and two workers, and after an interrupted fit
  was resumed; 1 is "the same"

All parameters are as they are by default, and labels only score. JSON: `benchmark`, `small`, `machine`, `lines` (a list
of `name`, `ratio`, `most` / `least` / `aim` or null, `verdict`, `detail`) and `measured`, with what each part found.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from _report import Patience, Report, arguments, destination, headline, side_by_side
from stops import Stop, stop_after

PAPER = "paper 001, tuned on labels: .958 / .845"
MB = 1e6


def fit(X: Any, k: int, seed: int, method: str = "smmc", **params: Any) -> Any:
    """`dmmc.fit` without its notes."""
    import dmmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return dmmc.fit(X, k, method=method, random_state=seed, **params)


# ------------------------------------------------------------------------------------------------ the convex problem


def convex(report: Report, sets: int) -> None:
    """The objective with labels fixed, beside a generic convex solver."""
    from importlib.util import find_spec

    if find_spec("cvxpy") is None:
        print("cvxpy is not installed (extra test): nothing to compare with")
        report.measured["convex"] = None
        return
    found = {}
    for k in (2, 3, 5):
        off = []
        for seed in range(sets):
            X, y = small_set(seed, k)
            wanted = generic(X, y, k)
            off.append(abs(fixed_labels(X, y, k) / wanted - 1.0))
        found[str(k)] = off
        report.add(
            f"labels fixed, k = {k}: largest difference from cvxpy, of 1e-4", max(off) / 1e-4, f"{sets} sets", most=1.0
        )
    report.measured["convex"] = found


def small_set(seed: int, k: int) -> tuple[Any, Any]:
    """Forty rows of six features, with labels that mean something."""
    import numpy as np

    rng = np.random.default_rng([seed, k])
    y = np.concatenate([np.arange(k), rng.integers(k, size=40 - k)])
    return rng.standard_normal((40, 6)) + 1.5 * rng.standard_normal((k, 6))[y], y


def fixed_labels(X: Any, y: Any, k: int) -> float:
    """Our solver up to where labels would be taken again."""
    from given_labels import search

    from dmmc.master.norms import TRACE_NORM

    state = next(state for state in search(X, y, k, TRACE_NORM) if state.runs[0].relabel)
    return float(state.runs[0].leader.value)


def generic(X: Any, y: Any, k: int, C: float = 20.0, beta: float = 0.03) -> float:
    """The same by cvxpy."""
    import cvxpy as cp
    import numpy as np

    Z = X - X.mean(axis=0)
    Z /= np.sqrt((Z**2).sum(axis=1).mean())
    n, d = Z.shape
    K = 1 if k == 2 else k
    W, b = cp.Variable((K, d)), cp.Variable(K)
    f = Z @ W.T + np.ones((n, 1)) @ cp.reshape(b, (1, K), order="C")
    if K == 1:
        lead = cp.multiply(2.0 * y - 1.0, f[:, 0])
        limits = [cp.abs(b) <= beta]
    else:
        own = np.eye(k)[y]
        lead = cp.sum(cp.multiply(own, f), axis=1) - cp.max(f - 1e4 * own, axis=1)
        limits = [b[p] - b[q] <= beta for p in range(k) for q in range(k) if p != q]
    cost = 0.5 * cp.square(cp.normNuc(W)) + C * cp.sum(cp.pos(1 - lead)) / n
    return float(cp.Problem(cp.Minimize(cost), limits).solve(solver="CLARABEL"))


# --------------------------------------------------------------------------------------------------------- planted


def planted(seed: int, n: int, d: int = 200, k: int = 4, dimensions: int = 3) -> tuple[Any, Any, Any]:
    """Rows, their clusters, and an orthonormal basis of the subspace that holds the centres."""
    import numpy as np

    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    centres = 2.0 * rng.standard_normal((k, dimensions))
    y = rng.integers(k, size=n)
    Z = rng.standard_normal((n, d))
    Z[:, :dimensions] += centres[y]
    return Z @ rotation.T, y, rotation[:, :dimensions]


def angle(directions: Any, truth: Any) -> float:
    """Largest principal angle between two subspaces, in degrees: 90 where one has fewer dimensions."""
    import numpy as np
    from scipy.linalg import subspace_angles

    if len(directions) < truth.shape[1]:
        return 90.0
    return float(np.degrees(subspace_angles(directions.T, truth).max()))


def subspace(report: Report, seeds: int) -> None:
    """Angles and accuracies on planted subspaces."""
    from sklearn.decomposition import PCA

    import dmmc

    found = []
    for seed in range(seeds):
        X, y, truth = planted(seed, 200 if report.small else 1000)
        ours = fit(X, 4, seed)
        C = {"plain": fit(X, 4, seed, "cpmmc"), "plain, 3 C": fit(X, 4, seed, "cpmmc", C=300.0)}
        found.append(
            {
                "seed": seed,
                "angle": angle(ours.model.components_, truth),
                "pca_angle": angle(PCA(3, svd_solver="full").fit(X).components_, truth),
                "accuracy": dmmc.score(ours.labels, y)["accuracy"],
                **{name: dmmc.score(run.labels, y)["accuracy"] for name, run in C.items()},
            }
        )
    report.measured["planted"] = found
    ours_angle, theirs = (mean(one[name] for one in found) for name in ("angle", "pca_angle"))
    accuracy, plain, more = (mean(one[name] for one in found) for name in ("accuracy", "plain", "plain, 3 C"))
    each = ", ".join(f"{one['angle']:.0f}/{one['pca_angle']:.0f}" for one in found)
    report.add("planted: principal angle, smmc / PCA", ours_angle / theirs, f"degrees {each}", most=1.0)
    each = ", ".join(f"{one['accuracy']:.3f}/{one['plain']:.3f}" for one in found)
    detail = f"{accuracy:.4f} / {plain:.4f}; {each}"
    report.add("planted: mean accuracy, smmc / cpmmc", accuracy / plain, detail, least=1.0)
    report.add("planted: mean accuracy, smmc / cpmmc with C = 300", accuracy / more, f"{accuracy:.4f} / {more:.4f}")


# ------------------------------------------------------------------------------------------------------------ text


def load(small: bool) -> tuple[Any, Any]:
    """The newsgroups; the digits of scikit-learn, as bytes, in small runs."""
    import data_sets
    import numpy as np

    X, y = data_sets.load("digits" if small else "newsgroups_rec")
    return (X[:600].astype(np.uint8), y[:600]) if small else (X, y)


def text(report: Report, seeds: int) -> None:
    """Accuracy, NMI, time and memory on text."""
    from sklearn.cluster import KMeans

    import dmmc

    X, y = load(report.small)

    def km(rows: Any, seed: int) -> Any:
        return KMeans(4, n_init=10, random_state=seed).fit(rows).labels_

    axes = latent(X)
    methods = {
        "smmc": lambda seed: fit(X, 4, seed).labels,
        "cpmmc": lambda seed: fit(X, 4, seed, "cpmmc").labels,
        "KMeans": lambda seed: km(X, seed),
        "LSA + KMeans": lambda seed: km(axes, seed),
    }
    found = {name: [dmmc.score(do(seed), y) for seed in range(seeds)] for name, do in methods.items()}
    for name, scores in found.items():
        each = ", ".join(f"{one['accuracy']:.3f}" for one in scores)
        nmi = mean(one["nmi"] for one in scores)
        detail = f"NMI {nmi:.3f}; {each}" + (f" ({PAPER})" if name == "smmc" else "")
        report.add(f"text: mean accuracy, {name}", mean(one["accuracy"] for one in scores), detail)
    work = {name: partial(fit, X, 4, 0, name) for name in ("smmc", "cpmmc")}
    seconds = side_by_side(work, 1 if report.small else 3, report.patience)
    detail = f"{seconds['smmc']:.2f} s / {seconds['cpmmc']:.2f} s"
    report.add("text: time, smmc / cpmmc", seconds["smmc"] / seconds["cpmmc"], detail, most=3.0)
    peaks = {name: child(name, report.small) for name in ("smmc", "cpmmc")}
    data = peaks["smmc"]["data"]
    for name, peak in peaks.items():
        above = peak["peak"] - peak["baseline"]
        detail = f"{above / MB:.0f} MB above the imports, data {data / MB:.1f} MB"
        limit: dict[str, float] = {"most": 1.0} if name == "smmc" else {}
        report.add(f"text: peak above imports / (data + 200 MB), {name}", above / (data + 200 * MB), detail, **limit)
    report.measured["text"] = {"scores": found, "seconds": seconds, "memory": peaks}


def latent(X: Any) -> Any:
    """A hundred latent semantic axes, rows of norm 1."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    return normalize(TruncatedSVD(min(100, X.shape[1] - 1), random_state=0).fit_transform(X))


CHILD = """
import sys, warnings
import dmmc, numpy, scipy.sparse, sklearn.cluster
warnings.simplefilter("ignore")
sys.path.insert(0, sys.argv[1])
from _report import status
from subspace import load
rng = numpy.random.default_rng(0)
tiny = rng.standard_normal((200, 8)) + 4 * rng.standard_normal((4, 8))[numpy.arange(200) % 4]
sparse = sys.argv[3] != "small"
# compiled code is no data
dmmc.fit(scipy.sparse.csr_array(tiny) if sparse else tiny.astype("u1"), 4, method=sys.argv[2])
baseline = status("VmRSS")
X, _ = load(not sparse)
data = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sparse else X.nbytes
dmmc.fit(X, 4, method=sys.argv[2])
print(baseline, status("VmHWM"), data)
"""


def child(method: str, small: bool) -> dict[str, int]:
    """Memory of a new process: after a tiny fit, and at most, after a fit of the text."""
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", CHILD, here, method, "small" if small else "full"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    baseline, peak, data = (int(word) for word in done.stdout.split())
    return {"baseline": baseline, "peak": peak, "data": data}


# ------------------------------------------------------------------------------------------------------------ bits


def bits(report: Report) -> None:
    """The same bits, however a fit is run."""
    X, _ = load(report.small)

    def parts(run: Any) -> tuple[bytes, ...]:
        model = run.model
        return tuple(part.tobytes() for part in (run.labels, model.coef_, model.intercept_, model.components_))

    wanted = parts(fit(X, 4, 0, n_jobs=1))
    same = {"2 threads": parts(fit(X, 4, 0, n_jobs=2)) == wanted}
    for workers in (1, 2):
        same[f"{workers} worker(s)"] = parts(fit(X, 4, 0, workers=workers)) == wanted
    with tempfile.TemporaryDirectory() as folder:
        try:
            fit(X, 4, 0, out=Path(folder) / "out", callbacks=stop_after(5))
        except Stop:
            same["resumed"] = parts(fit(X, 4, 0, out=Path(folder) / "out", resume=True)) == wanted
    report.measured["bits"] = same
    for name, equal in same.items():
        report.add(f"same bits: {name}", float(equal), least=1.0)


def main() -> None:
    options = arguments(str(__doc__), "subspace").parse_args()
    print(headline())
    report = Report("subspace", options.small, patience=Patience(0.0 if options.small else options.patience))
    convex(report, 2 if options.small else 10)
    subspace(report, 2 if options.small else 10)
    text(report, 1 if options.small else 5)
    bits(report)
    report.write(destination(options.json, "subspace", options.small))


if __name__ == "__main__":
    main()
