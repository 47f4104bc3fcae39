"""`auto`: candidates on one read, judged without labels; the same bits everywhere; k suggested; no structure said."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs, make_moons

import dmmc
from dmmc import AutoMMC, ClusteringWarning, InputError
from dmmc.choose.tell import LATE, tell_choice
from dmmc.errors import ConvergenceWarning
from dmmc.estimators.nearest_centres import NearestCentres

NAMES = ["k-means", "cpmmc", "cpmmc, smooth", "lsmmc"]


def blobs(n: int = 300, k: int = 3, seed: int = 0) -> tuple[Any, Any]:
    return make_blobs(n, n_features=5, centers=k, cluster_std=1.0, center_box=(-12, 12), random_state=seed)  # type: ignore[no-any-return]


def fit(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        return dmmc.fit(*args, **options)


def test_the_default_is_auto_and_says_what_it_tried() -> None:
    X, y = blobs()
    run = dmmc.fit(X, 3)
    assert isinstance(run.model, AutoMMC)
    assert dmmc.score(run.labels, y)["accuracy"] == 1.0
    candidates = run.choices["candidates"]
    assert [c["name"] for c in candidates] == NAMES
    assert sum(c["chosen"] for c in candidates) == 1
    chosen = next(c for c in candidates if c["chosen"])
    assert chosen["name"] == run.choices["chosen"]
    assert chosen["sizes"] == np.bincount(run.labels).tolist()
    assert all(c["why_not"] for c in candidates if c is not chosen)
    assert set(run.model.candidate_labels_) == set(NAMES)
    np.testing.assert_array_equal(run.model.candidate_labels_[chosen["name"]], run.labels)


@pytest.mark.parametrize(("load", "k", "least"), [(load_digits, 10, 0.94), (load_iris, 3, 0.88), (load_wine, 3, 0.94)])
def test_it_is_as_good_as_its_best_candidates_on_real_sets(load: Any, k: int, least: float) -> None:
    X, y = load(return_X_y=True)
    run = fit(X, k)
    assert dmmc.score(run.labels, y)["accuracy"] >= least
    np.testing.assert_array_equal(run.model.predict(X), run.labels)


def test_moons_are_not_cut_in_halves() -> None:
    X, y = make_moons(800, noise=0.06, random_state=0)
    run = fit(X, 2)
    assert dmmc.score(run.labels, y)["accuracy"] >= 0.99
    assert run.choices["chosen"] == "lsmmc"


def test_a_k_means_candidate_has_the_inertia_of_scikit_learns() -> None:
    X, _ = load_digits(return_X_y=True)
    model = NearestCentres(10, random_state=0, scale="none").fit(X)
    centres = np.stack([X[model.labels_ == p].mean(axis=0) for p in range(10)])
    inertia = ((X[:, None] - centres) ** 2).sum(axis=2).min(axis=1).sum()
    assert inertia <= 1.005 * KMeans(10, n_init=10, random_state=0).fit(X).inertia_
    nearest = ((X[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert np.mean(nearest == model.predict(X)) >= 0.99


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_workers_and_files_give_the_same_bits(
    sparse: bool, clients: Callable[[int], Any], tmp_path: Path
) -> None:
    X = load_digits().data[:500]
    X = csr_array(X) if sparse else X
    one = fit(X, 5, n_jobs=1, out=tmp_path / "one")
    two = fit(X, 5, scheduler=clients(2), out=tmp_path / "two")
    np.testing.assert_array_equal(one.labels, two.labels)
    for name in ("coef.npy", "intercept.npy"):
        assert (tmp_path / "one" / "model" / name).read_bytes() == (tmp_path / "two" / "model" / name).read_bytes()
    loaded = dmmc.load(tmp_path / "two")
    assert isinstance(loaded, AutoMMC)
    np.testing.assert_array_equal(loaded.predict(X), one.labels)
    np.testing.assert_array_equal(loaded.decision_function(X), one.model.decision_function(X))


def test_a_fit_that_is_stopped_in_any_candidate_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    X = load_digits().data[:400]
    whole = fit(X, 4, out=tmp_path / "whole")

    def stop_at(candidate: str, phase: str, iteration: int | None) -> Callable[[dict[str, Any]], None]:
        def hear(event: dict[str, Any]) -> None:
            if (event.get("candidate"), event["phase"], event.get("iteration")) == (candidate, phase, iteration):
                raise KeyboardInterrupt

        return hear

    places = [("k-means", "label", None), ("cpmmc", "search", 9), ("lsmmc", "spectral", None), ("lsmmc", "search", 1)]
    for place in places:
        with pytest.raises(KeyboardInterrupt):
            fit(X, 4, out=tmp_path / "stopped", resume=True, progress=stop_at(*place))
    run = fit(X, 4, out=tmp_path / "stopped", resume=True)
    np.testing.assert_array_equal(run.labels, whole.labels)
    for name in ("coef.npy", "intercept.npy", "model.json"):
        here, there = (tmp_path / which / "model" / name for which in ("stopped", "whole"))
        assert here.read_bytes() == there.read_bytes()


def test_best_tries_more_and_fast_makes_no_graph() -> None:
    X = load_digits().data[:600]
    phases: list[str] = []
    run = fit(X, 5, effort="best", progress=lambda event: phases.append(f"{event.get('candidate')} {event['phase']}"))
    names = [c["name"] for c in run.choices["candidates"]]
    assert names == [*NAMES, "cpmmc, spectral", "lsmmc, kernel"]
    assert all(c["score"] is not None for c in run.choices["candidates"])
    fast = fit(X, 5, effort="fast", progress=lambda event: phases.append(event["phase"]))
    assert [c["name"] for c in fast.choices["candidates"]] == NAMES[:2]
    assert "neighbours" not in phases


def test_a_number_of_clusters_is_suggested_where_none_is_given() -> None:
    X, y = blobs(400, 5, seed=3)
    for asked in ("auto", "3..8"):
        run = fit(X, asked)
        assert run.choices["n_clusters"]["suggestion"] == 5
        assert len(np.unique(run.labels)) == run.model.n_clusters_ == 5
        assert dmmc.score(run.labels, y)["accuracy"] == 1.0
    assert fit(X, "3..8").choices["n_clusters"]["compared"] == [3, 4, 5, 6, 7, 8]
    assert fit(X).choices["n_clusters"]["suggestion"] == 5


@pytest.mark.parametrize("asked", ["many", "5..3", "1..4", "2..10001", "3..", 0, 10_001, 2.5])
def test_a_number_of_clusters_that_is_none_is_refused(asked: Any) -> None:
    with pytest.raises(InputError, match=r"n_clusters is .*whole number of clusters, 2 to 10,000"):
        dmmc.fit(blobs()[0], asked)


def test_rows_without_structure_are_a_warning_and_are_clustered() -> None:
    X = np.random.default_rng(0).standard_normal((1500, 12))
    with pytest.warns(ClusteringWarning, match="no structure was found"):
        run = dmmc.fit(X, 4)
    assert len(np.unique(run.labels)) == 4
    assert run.choices["structure_ratio"] > 0.8
    assert not [text for text in dmmc.fit(blobs()[0], 3).info["warnings"] if "structure" in text]


def test_a_parameter_of_a_method_means_cpmmc() -> None:
    X, _ = blobs()
    assert isinstance(fit(X, 3, C=50.0).model, dmmc.CuttingPlaneMMC)
    assert isinstance(fit(X, 3, effort="fast").model, AutoMMC)
    with pytest.raises(InputError, match="does not look for the number of clusters"):
        dmmc.fit(X, "auto", method="lsmmc")
    assert fit(X, method="lsmmc").model.n_clusters == 2


def test_when_the_time_is_up_the_best_so_far_is_returned_and_that_is_said() -> None:
    X = np.random.default_rng(0).standard_normal((20_000, 30))
    with pytest.warns(
        ConvergenceWarning, match=r"max_seconds=0.5 ended before .*lsmmc could be tried; the best so far"
    ):
        run = dmmc.fit(X, 20, max_seconds=0.5)
    late = [c["name"] for c in run.choices["candidates"] if c["why_not"] == LATE]
    assert late
    assert len(run.labels) == 20_000
    assert np.isfinite(run.info["objective"])
    told = tell_choice(run.choices)[-1]
    assert told.startswith(f"try: a longer --max-seconds: the time was up before {' and '.join(late)}")
    assert "--effort" not in told


def test_a_k_means_that_has_no_time_says_so() -> None:
    X = np.random.default_rng(0).standard_normal((2000, 10))
    with pytest.warns(ConvergenceWarning, match="stopped by max_seconds=1e-09"):
        model = NearestCentres(5, random_state=0, max_seconds=1e-9).fit(X)
    assert model.choices_["ended"] == "max_seconds"
    assert 0 < model.objective_ < 1


@pytest.mark.parametrize("rows", [[[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 3.0], [9.0, 9.0]]])
def test_two_or_three_rows_are_two_clusters(rows: Any) -> None:
    assert len(np.unique(fit(np.array(rows)).labels)) == 2
    assert len(np.unique(fit(np.arange(8.0).reshape(4, 2), sample_weight=[1, 1, 0, 0]).labels[:2])) == 2


CENTRED_WINE = load_wine().data - load_wine().data.mean(axis=0)
THREE, OF_THREE = make_blobs(900, centers=[[0, 0], [3, 0], [1.5, 3]], cluster_std=0.6, random_state=0)


@pytest.mark.parametrize(
    ("X", "y", "least"),
    [
        (CENTRED_WINE, load_wine().target, 0.94),
        (THREE * [14.0, 1.5] + [1400.0, 150.0], OF_THREE, 0.98),
        ((THREE - THREE.mean(axis=0)) * [14.0, 0.57], OF_THREE, 0.98),
        ((THREE - THREE.mean(axis=0)) * [2.5, 14.0], OF_THREE, 0.98),
    ],
    ids=["wine, centred", "units somewhat apart", "around 0", "around 0, somewhat apart"],
)
def test_where_the_scale_is_unclear_the_clearer_clusters_decide(X: Any, y: Any, least: float) -> None:
    run = fit(X, len(np.unique(y)))
    assert dmmc.score(run.labels, y)["accuracy"] >= least
    assert run.choices["standardised"]


def test_where_columns_as_they_are_are_clearer_they_stay_so() -> None:
    X = load_iris().data
    run = fit(X, 3)
    ratios = run.choices["structure_ratios"]
    assert run.choices["scale"] == "none"
    assert ratios["none"] < ratios["standard"]
    assert not run.choices["standardised"]
    assert "scale" not in fit(X, 3, scale="standard").choices


def test_a_candidate_alone_gives_the_labels_that_it_had_among_the_others() -> None:
    X = THREE * [14.0, 1.5] + [1400.0, 150.0]
    run = fit(X, 3)
    for candidate in run.choices["candidates"]:
        if candidate["parameters"] and candidate["name"] != "cpmmc":  # which starts from the labels of k-means
            alone = fit(X, 3, **candidate["parameters"])
            np.testing.assert_array_equal(alone.labels, run.model.candidate_labels_[candidate["name"]])


def test_a_dense_view_and_words_are_clustered_by_default() -> None:
    rng, y = np.random.default_rng(0), np.arange(300) % 4
    places = rng.standard_normal((300, 5)) + 6.0 * np.eye(4, 5)[y]
    topics = rng.dirichlet(np.full(300, 0.05), 4)
    counts = csr_array(np.stack([rng.multinomial(40, topics[c]) for c in y]).astype(np.float32))
    run = fit([places, counts], 4)
    assert isinstance(run.model, AutoMMC)
    assert dmmc.score(run.labels, y)["accuracy"] >= 0.99
    np.testing.assert_array_equal(run.model.predict([places, counts]), run.labels)


def test_links_and_what_was_tried_are_in_one_report(tmp_path: Path) -> None:
    X, y = blobs()
    pairs = [(0, int(np.flatnonzero(y == y[0])[1]), "must"), (0, int(np.flatnonzero(y != y[0])[0]), "cannot")]
    run = fit(X, 3, constraints=pairs, out=tmp_path / "out")
    assert "What was tried" in (tmp_path / "out" / "report.html").read_text()
    assert all(
        c["seconds"] is not None
        for c in json.loads((tmp_path / "out" / "run.json").read_text())["choices"]["candidates"]
    )
    again = fit(X, 3, constraints=pairs, out=tmp_path / "again")
    first, second = ((tmp_path / name / "model" / "model.json").read_bytes() for name in ("out", "again"))
    assert first == second
    np.testing.assert_array_equal(run.labels, again.labels)
    with pytest.raises(InputError, match="effort was given with constraints"):
        dmmc.fit(X, 3, constraints=pairs, effort="fast")


def test_what_to_try_names_the_number_of_clusters_where_it_was_looked_for() -> None:
    X, _ = blobs()
    assert "-k 3" in tell_choice(fit(X, "3..3").choices)[-1]
    assert "next best guess" not in tell_choice(fit(X, "3..3").choices)[-1]
    assert "-k" not in tell_choice(fit(X, 3).choices)[-1]


def test_weights_count_and_rows_of_weight_0_do_not() -> None:
    X, y = blobs(200, 2)
    far = np.vstack([X, np.full((20, 5), 500.0)])
    weight = np.r_[np.ones(200), np.zeros(20)]
    run = fit(far, 2, sample_weight=weight)
    assert dmmc.score(run.labels[:200], y)["accuracy"] == 1.0


def test_views_and_constraints_are_taken() -> None:
    X, y = blobs()
    assert dmmc.score(fit([X[:, :2], X[:, 2:]], 3).labels, y)["accuracy"] == 1.0
    pairs = [(0, int(np.flatnonzero(y == y[0])[1]), "must"), (0, int(np.flatnonzero(y != y[0])[0]), "cannot")]
    assert isinstance(fit(X, 3, constraints=pairs).model, dmmc.PairwiseMMC)


def test_counts_of_words_are_clustered_by_their_recipe() -> None:
    rng = np.random.default_rng(0)
    topics, y = rng.dirichlet(np.full(600, 0.05), 4), np.arange(400) % 4
    counts = csr_array(np.stack([rng.multinomial(30, topics[c]) for c in y]).astype(np.float32))
    run = fit(counts, 4)
    assert run.choices["transform"] == "bm25"
    np.testing.assert_array_equal(run.model.candidate_labels_["lsmmc"], run.labels)
    assert dmmc.score(run.labels, y)["accuracy"] >= 0.95


def test_the_terminal_and_the_report_say_what_was_tried(cli: Any, digits_store: Path, tmp_path: Path) -> None:
    done = cli("fit", digits_store, "-k", "8..12", "-o", "out", cwd=tmp_path)
    assert done.code == 0, done.stderr
    lines = done.stdout.splitlines()
    words = [line.partition(":")[0] for line in lines]
    first = words.index("chosen")  # after the names of the clusters
    assert words[first : first + 3] == ["chosen", "came close", "try"]
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["choices"]["chosen"] in lines[first]
    assert 8 <= run["choices"]["n_clusters"]["suggestion"] <= 12
    page = (tmp_path / "out" / "report.html").read_text()
    assert "What was tried" in page
    assert "plot-number" in page
    history = [json.loads(line) for line in (tmp_path / "out" / "history.jsonl").read_text().splitlines()]
    assert len(history) == run["passes"]
