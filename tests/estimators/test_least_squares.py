"""LeastSquaresMMC: clusters of real data without a label, the same bits everywhere, and what it chooses by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs
from stops import Stop, stop_after

import dmmc
from dmmc import ClusteringWarning, InputError, LeastSquaresMMC

FEATURES = ("raw", "axes", "nystroem", "lsa", "smooth", "spectral")


def bits(model: Any) -> tuple[bytes, ...]:
    return model.labels_.tobytes(), model.coef_.tobytes(), model.intercept_.tobytes()


def accuracy(labels: Any, y: Any) -> float:
    return float(dmmc.score(labels, y)["accuracy"])


def make_words(n: int = 300, k: int = 3, d: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(d, 0.03), k)
    y = np.arange(n) % k
    return csr_array(np.stack([rng.multinomial(40, topics[c]) for c in y]).astype(np.float32)), y


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    X, y = data_sets.load("digits")
    return X.astype(np.float32), y


def test_digits_are_found_without_a_label_or_a_parameter(digits: tuple[Any, Any]) -> None:
    X, y = digits
    model = LeastSquaresMMC(10, random_state=0).fit(X)
    assert accuracy(model.labels_, y) >= 0.945
    assert model.choices_["features"] == "spectral"
    assert model.choices_["n_init"] == 5
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.decision_function(X).shape == (1797, 10)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("features", FEATURES)
def test_labels_are_what_predict_gives_in_all_features(features: str, sparse: bool, k: int) -> None:
    rng = np.random.default_rng(1)
    y = np.arange(150) % k
    X = (rng.random((150, 12)) < 0.5) * rng.random((150, 12)) + 5.0 * np.eye(12)[y]
    X = csr_array(X) if sparse else X
    model = LeastSquaresMMC(k, features=features, n_components=20, random_state=0).fit(X)
    assert accuracy(model.labels_, y) == 1.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_array_equal(model.predict(X[:7]), model.labels_[:7])
    assert model.coef_.shape[0] == (1 if k == 2 else k)


def test_words_are_weighed_and_found_by_their_topics() -> None:
    X, y = make_words()
    model = LeastSquaresMMC(3, random_state=0).fit(X)
    assert accuracy(model.labels_, y) == 1.0
    choices = {name: model.choices_[name] for name in ("transform", "features", "init", "n_init")}
    assert choices == {"transform": "bm25", "features": "lsa", "init": "k-means", "n_init": 1}


def test_counts_of_cells_go_along_the_graph_of_their_axes() -> None:
    rng = np.random.default_rng(2)
    y = np.arange(240) % 4
    means = rng.lognormal(0.0, 1.0, (4, 60))
    totals = rng.lognormal(0.0, 0.5, (240, 1))
    X = csr_array(rng.negative_binomial(2, 2 / (2 + totals * means[y])).astype(np.float32))
    model = LeastSquaresMMC(4, random_state=0).fit(X)
    assert model.choices_["transform"] == "log-normalise"
    assert model.choices_["init"] == "graph"
    assert accuracy(model.labels_, y) > 0.95
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_scores_between_axes_are_averaged_along_the_graph_also_for_new_rows(tmp_path: Path) -> None:
    X, y = make_blobs(400, 30, centers=4, cluster_std=4.0, random_state=3)
    run = dmmc.fit(X[:300], 4, method="lsmmc", features="axes", out=tmp_path / "out")
    assert run.model.map_.own == 0.5
    loaded = dmmc.load(tmp_path / "out")
    np.testing.assert_array_equal(loaded.predict(X[:300]), run.labels)
    assert accuracy(loaded.predict(X[300:]), y[300:]) > 0.95


@pytest.mark.parametrize("seed", range(3))
def test_uneven_clusters_stay_uneven(seed: int) -> None:
    sizes = [1600, 100, 100, 100, 100]
    X, y = make_blobs(sizes, 10, centers=None, random_state=seed)
    model = LeastSquaresMMC(5, random_state=0).fit(X)
    assert accuracy(model.labels_, y) >= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["digits", "words"])
def test_threads_and_workers_give_the_same_bits(
    kind: str, digits: tuple[Any, Any], clients: Callable[[int], Any]
) -> None:
    X, k = (digits[0][:600], 10) if kind == "digits" else (make_words()[0], 3)
    one = LeastSquaresMMC(k, random_state=0, n_jobs=1).fit(X)
    assert bits(LeastSquaresMMC(k, random_state=0, n_jobs=2).fit(X)) == bits(one)
    for workers in (1, 2):
        assert bits(dmmc.fit(X, k, method="lsmmc", scheduler=clients(workers)).model) == bits(one)


@pytest.mark.parametrize("kind", ["digits", "words"])
def test_a_fit_that_was_stopped_goes_on_to_the_same_bits(kind: str, digits: tuple[Any, Any], tmp_path: Path) -> None:
    X, k = (digits[0][:300], 4) if kind == "digits" else (make_words(150)[0], 3)
    whole = dmmc.fit(X, k, method="lsmmc")
    for passes in (1, 1):
        with pytest.raises(Stop):
            dmmc.fit(X, k, method="lsmmc", out=tmp_path / "out", resume=True, callbacks=stop_after(passes))
    run = dmmc.fit(X, k, method="lsmmc", out=tmp_path / "out", resume=True)
    assert bits(run.model) == bits(whole.model)
    assert bits(dmmc.load(tmp_path / "out").fit(X)) == bits(whole.model)


def test_the_start_that_agrees_most_with_the_others_wins_or_the_lowest_objective(digits: tuple[Any, Any]) -> None:
    X = digits[0][:600]
    by = {
        select: LeastSquaresMMC(10, init="random", features="raw", n_init=6, select=select, random_state=0).fit(X)
        for select in ("medoid", "objective")
    }
    assert by["objective"].objective_ <= by["medoid"].objective_
    assert by["medoid"].choices_["select"] == "medoid"


def test_given_labels_and_weights_are_taken(digits: tuple[Any, Any]) -> None:
    X, y = digits[0][:500], digits[1][:500]
    model = LeastSquaresMMC(10, init=y, features="raw", transform="none").fit(X, sample_weight=1.0 + (y == 3))
    assert accuracy(model.labels_, y) > 0.85
    assert model.choices_["init"] == "labels"


def test_parameters_out_of_range_are_refused() -> None:
    for wrong, words in (({"ridge": 0}, "ridge is 0"), ({"select": "best"}, "select is 'best'")):
        with pytest.raises(InputError, match=words):
            LeastSquaresMMC(2, **wrong).fit(np.eye(5))


def test_a_cluster_held_at_its_least_size_is_said() -> None:
    X, _ = make_blobs([300, 60, 60], 4, centers=[[0.0] * 4, [9.0] * 4, [9.0, -9.0] * 2], random_state=0)
    with pytest.warns(ClusteringWarning, match="held at the minimum size"):
        model = LeastSquaresMMC(3, init="k-means", features="raw", min_size=0.9).fit(X)
    assert np.bincount(model.labels_).min() >= 0.9 * 140 - 1


def test_it_is_a_method_at_the_terminal(cli: Callable[..., Any], digits_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli("fit", digits_store, "-k", 10, "-o", out, "--method", "lsmmc", "--set", "transform=none", "--json")
    assert done.code == 0, done.stderr
    assert isinstance(dmmc.load(out), LeastSquaresMMC)
    assert "lsmmc" in cli("methods").stdout
