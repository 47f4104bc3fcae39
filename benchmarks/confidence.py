"""What confidence and names of clusters are worth.

- `halves`: rows in the top half of confidence against those in the bottom half: error of the one over error of the
  other (by the one-to-one matching of clusters and classes), wanted to be .2 at most. MNIST (70,000 rows, method
  `auto`, and `lsmmc` alone), newsgroups_rec (counts) and digits; small: digits by `cpmmc`
- `agreement`: without labels, how often fits of random halves of the rows (as many as --seeds) put a row into the same
  cluster, by tenths of confidence, and the slope of (E40) that would fit this set best
- `names`: newsgroups_rec (counts, with its vocabulary): the name of each cluster, and whether it has a word that names
  the group (the ratio is the part that has one)

Labels only score. JSON: `benchmark`, `small`, `machine`, `lines` (a list of `name`, `ratio`, `most` / `least` / `aim`
or null, `verdict`, `detail`) and `measured`, with what each part found.
"""

from __future__ import annotations

import warnings
from typing import Any

import data_sets
import numpy as np
from _report import Report, run_parts
from scipy.optimize import linear_sum_assignment, minimize_scalar
from scipy.special import expit

Case = tuple[str, int, dict[str, Any]]
"""Name of a set, number of clusters, parameters of `dmmc.fit`."""
SMALL: list[Case] = [("digits", 10, {"method": "cpmmc"})]
CASES: list[Case] = [
    ("digits", 10, {}),
    ("newsgroups_rec:counts", 4, {}),
    ("mnist", 10, {}),
    ("mnist", 10, {"method": "lsmmc"}),
]
WORDS = {
    "rec.autos": ("car", "auto"),
    "rec.motorcycles": ("bike", "motorcycle", "dod"),
    "rec.sport.baseball": ("baseball", "pitch", "inning", "hitter"),
    "rec.sport.hockey": ("hockey", "nhl"),
}
"""What names a group: the beginning of a word."""


def fit(X: Any, k: int, **params: Any) -> Any:
    """A fit without its warnings."""
    import dmmc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dmmc.fit(X, k, **params)


def match(labels: Any, classes: Any) -> Any:
    """Labels as numbers of classes, by the matching that agrees most."""
    counts = np.zeros((labels.max() + 1, classes.max() + 1))
    np.add.at(counts, (labels, classes), 1)
    number = np.full(len(counts), -1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    number[rows] = columns
    return number[labels]


def compare_halves(confidence: Any, wrong: Any) -> tuple[float, float]:
    """Part of the rows that is wrong in the top half of confidence, and in the bottom half."""
    order = np.argsort(-confidence, kind="stable")
    half = len(order) // 2
    return float(wrong[order[:half]].mean()), float(wrong[order[half:]].mean())


def describe_case(name: str, params: dict[str, Any]) -> str:
    """A set and how it was fitted."""
    return f"{name}, {params.get('method', 'auto')}"


def halves(report: Report, seeds: int) -> None:
    """Error of the top half over that of the bottom half."""
    measured = report.measured["halves"] = {}
    for name, k, params in SMALL if report.small else CASES:
        X, truth = data_sets.load(name)
        run, classes = fit(X, k, **params), np.unique(truth, return_inverse=True)[1]
        wrong = match(run.labels, classes) != classes
        top, bottom = compare_halves(run.confidence, wrong)
        called = describe_case(name, params)
        measured[called] = {"top": top, "bottom": bottom, "chosen": run.choices.get("chosen")}
        chosen = f" ({run.choices['chosen']} was chosen)" if "chosen" in run.choices else ""
        detail = f"errors {100 * top:.2f} and {100 * bottom:.2f} %{chosen}"
        report.add(f"{called}: error of the surer half / of the other", top / max(bottom, 1e-12), detail, most=0.2)


def agreement(report: Report, seeds: int) -> None:
    """Confidence against how often fits of halves of the rows agree."""
    measured = report.measured["agreement"] = {}
    for name, k, params in SMALL if report.small else CASES[:2]:
        X, _ = data_sets.load(name)
        run = fit(X, k, **params)
        agree = np.zeros(len(run.labels))
        for seed in range(1, seeds + 1):
            some = np.random.default_rng(seed).permutation(len(agree))[: len(agree) // 2]
            again = fit(X[some], k, random_state=seed, **params).model.predict(X)
            agree += (match(again, run.labels) == run.labels) / seeds
        parts = np.array_split(np.argsort(run.confidence, kind="stable"), 10)
        table = [(float(run.confidence[part].mean()), float(agree[part].mean())) for part in parts]
        measured[describe_case(name, params)] = {"tenths": table, "slope": find_slope(run.confidence, agree)}
        away = float(np.mean([abs(said - found) for said, found in table]))
        detail = f"best slope {find_slope(run.confidence, agree):.1f}; said/found by tenths: "
        detail += " ".join(f"{said:.2f}/{found:.2f}" for said, found in table)
        report.add(f"{describe_case(name, params)}: confidence less agreement, mean of tenths", away, detail)


def find_slope(confidence: Any, agree: Any) -> float:
    """The slope of (E40) with which confidence would explain the agreement best (maximum likelihood)."""
    from dmmc.profile.confidence import SLOPE

    margin = np.log(confidence / np.maximum(1 - confidence, 1e-12)) / SLOPE  # in medians

    def lose(slope: float) -> float:
        said = np.clip(expit(slope * margin), 1e-9, 1 - 1e-9)
        return -float(np.mean(agree * np.log(said) + (1 - agree) * np.log(1 - said)))

    return float(minimize_scalar(lose, bounds=(0.1, 30), method="bounded").x)


def names(report: Report, seeds: int) -> None:
    """Names of the clusters of newsgroups_rec."""
    if report.small:
        return
    X, truth = data_sets.load("newsgroups_rec:counts")
    groups, words = data_sets.read_words("newsgroups_rec")
    import pandas

    frame = pandas.DataFrame.sparse.from_spmatrix(X, columns=words)
    run = fit(frame, 4)
    named = 0
    for cluster, name in enumerate(run.names):
        group = groups[np.bincount(truth[run.labels == cluster]).argmax()]
        good = any(word.startswith(WORDS[group]) for word in name.split())
        named += good
        print(f"cluster {cluster}, mostly {group}: {name!r}{'' if good else ' does not name it'}")
    report.measured["names"] = run.names
    report.add("newsgroups_rec: clusters whose name has a word of the group", named / 4, least=1.0)


if __name__ == "__main__":
    run_parts("confidence", __doc__ or "", 6, {"names": names, "halves": halves, "agreement": agreement})
