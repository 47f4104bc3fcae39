"""EvolutionaryMMC as users meet it: what it finds, what it refuses, the same bits however it is run, its files."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from numpy.typing import NDArray
from outcomes import bits
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs, make_circles
from stops import Stop, stop_after

import dmmc
from dmmc import ClusteringWarning, EvolutionaryMMC, InputError
from dmmc.data import blocks
from dmmc.estimators import evolution, row_kernel

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ConvergenceWarning")

Array = NDArray[Any]


@pytest.fixture(scope="module")
def pair() -> tuple[Array, Array]:
    """Digits 3 and 8: 357 rows."""
    X, y = data_sets.load("digits")
    chosen = (y == 3) | (y == 8)
    return X[chosen], y[chosen]


@pytest.fixture(scope="module")
def rings() -> tuple[Array, Array]:
    """A ring around another."""
    X, y = make_circles(600, factor=0.3, noise=0.05, random_state=0)
    return X, y


def fitness_of(model: EvolutionaryMMC, X: Array, labels: Array) -> float:
    """F of labels by the definition: n x n matrices, the kernel written out."""
    s = np.sqrt(((X.max(axis=0) - X.min(axis=0)) ** 2).sum())
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2) / (model.sigma * s) ** 2)
    y, n, ridge = 2.0 * labels - 1.0, len(X), model.regularization
    return float(ridge / n * y @ np.linalg.solve(K + ridge * np.eye(n), y))


# -------------------------------------------------------------------------------------------------- what is found


def test_evommc_finds_labels_whose_fitness_is_the_objective_it_tells(pair: tuple[Array, Array]) -> None:
    X, y = pair
    model = EvolutionaryMMC(n_init=3, random_state=0).fit(X)
    assert model.objective_ == pytest.approx(fitness_of(model, X, model.labels_), abs=1e-6)
    assert model.objective_ < 0.16
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.05
    assert abs(np.diff(np.bincount(model.labels_))[0]) <= 0.03 * len(X)
    assert model.labels_.dtype == np.int32
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.method == "evommc"


@pytest.mark.parametrize("mutation", ["paper", "sweeps"])
@pytest.mark.parametrize("asked", [{}, {"rank": 60}, {"max_iter": 1}, {"balance": 0.3}], ids=str)
def test_the_objective_is_the_fitness_of_the_labels_that_evolved(
    pair: tuple[Array, Array], mutation: str, asked: dict[str, Any]
) -> None:
    X = pair[0][:150]
    differ = 0
    for seed in range(6):
        model = EvolutionaryMMC(mutation=mutation, n_init=1, random_state=seed, **asked).fit(X)
        assert model.evolved_labels_ is not None
        if "rank" not in asked:
            assert model.objective_ == pytest.approx(fitness_of(model, X, model.evolved_labels_), abs=1e-6)
            told = model.choices_["objective_of_labels"]
            assert told == pytest.approx(fitness_of(model, X, model.labels_), abs=1e-6)
        many = np.count_nonzero(model.evolved_labels_ != model.labels_)
        assert model.choices_["rows_predicted_otherwise"] == many <= len(X) // 2
        assert model.evolved_labels_.dtype == np.int32
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        assert (many == 0) <= (model.objective_ == pytest.approx(model.choices_["objective_of_labels"], abs=1e-6))
        differ += many > 0
    if mutation == "paper" and "max_iter" in asked:
        assert differ > 0  # or this test shows nothing


def test_weighted_labels_that_evolved_have_the_objective_too(pair: tuple[Array, Array]) -> None:
    X = pair[0][:80]
    weight = np.random.default_rng(0).integers(1, 3, len(X))
    model = EvolutionaryMMC(mutation="paper", n_init=1, random_state=1).fit(X, sample_weight=weight)
    assert model.evolved_labels_ is not None
    repeated = fitness_of(model, np.repeat(X, weight, axis=0), np.repeat(model.evolved_labels_, weight))
    assert model.objective_ == pytest.approx(repeated, abs=1e-6)


def test_the_objective_of_a_tree_is_that_of_the_labels_its_splits_give(pair: tuple[Array, Array]) -> None:
    X = pair[0][:120]
    model = EvolutionaryMMC(3, mutation="paper", n_init=1, max_iter=2, random_state=0).fit(X)
    assert model.evolved_labels_ is None
    assert "rows_predicted_otherwise" not in model.choices_
    assert model.tree_ is not None
    (first,) = [leaf for leaf in (-1 - model.tree_[0]) if leaf >= 0]
    inside = model.labels_ != first
    one = fitness_of(model, X, inside.astype(int))
    s = np.sqrt(((X.max(axis=0) - X.min(axis=0)) ** 2).sum())
    part = X[inside]
    K = np.exp(-((part[:, None] - part) ** 2).sum(axis=2) / s**2)
    y = np.where(model.labels_[inside] == model.labels_[inside][0], 1.0, -1.0)
    other = 0.5 / len(y) * y @ np.linalg.solve(K + 0.5 * np.eye(len(y)), y)
    assert model.objective_ == pytest.approx(one + inside.mean() * other, abs=1e-6)


def test_the_score_of_a_row_is_its_kernel_expansion(pair: tuple[Array, Array]) -> None:
    X, _ = pair
    model = EvolutionaryMMC(n_init=1, random_state=0).fit(X[:200])
    s = np.sqrt(((X[:200].max(axis=0) - X[:200].min(axis=0)) ** 2).sum())

    def k(A: Array, B: Array) -> Array:
        return np.exp(-((A[:, None] - B) ** 2).sum(axis=2) / s**2)

    f = model.decision_function(X[200:])
    y = 2.0 * model.labels_ - 1.0
    expansion = k(X[200:], X[:200]) @ np.linalg.solve(k(X[:200], X[:200]) + 0.5 * np.eye(200), y)
    shift = f - expansion  # the threshold that balances the training rows
    assert np.ptp(shift) < 1e-4
    assert abs(shift.mean()) < 0.2


def test_rings_are_told_apart_through_a_few_rows(rings: tuple[Array, Array]) -> None:
    X, y = rings
    model = EvolutionaryMMC(rank=60, sigma=0.5, random_state=0).fit(X[::2])
    assert dmmc.score(model.predict(X), y)["accuracy"] > 0.99
    assert model.method == "fast-evommc"
    assert model.choices_["rank"] == 60
    assert dmmc.score(dmmc.CuttingPlaneMMC(random_state=0).fit_predict(X), y)["accuracy"] < 0.7


def test_all_rows_as_rank_is_the_full_kernel(pair: tuple[Array, Array]) -> None:
    X = pair[0][:150]
    full, all_rows = (EvolutionaryMMC(rank=rank, random_state=0).fit(X) for rank in (None, 150))
    assert full.objective_ == pytest.approx(all_rows.objective_, abs=1e-6)
    np.testing.assert_array_equal(full.labels_, all_rows.labels_)


@pytest.mark.parametrize("asked", [{"mutation": "paper"}, {"init": "k-means"}, {"init": "pca"}, {"kernel": "linear"}])
def test_other_ways_end_with_labels_that_are_predicted(pair: tuple[Array, Array], asked: dict[str, Any]) -> None:
    X = pair[0][:120] / 16.0
    model = EvolutionaryMMC(n_init=1, random_state=0, **asked).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert 0 < model.objective_ < 1
    objectives = [line["objective"] for line in model.history_]
    assert (np.diff(objectives) <= 1e-12).all()
    assert len(objectives) == model.n_iter_


def test_a_polynomial_kernel_sees_what_is_inside(rings: tuple[Array, Array]) -> None:
    X, y = rings
    model = EvolutionaryMMC(kernel="polynomial", degree=2, rank=50, regularization=0.005, random_state=0).fit(X)
    assert dmmc.score(model.labels_, y)["accuracy"] > 0.99


def test_given_labels_are_climbed_from(pair: tuple[Array, Array]) -> None:
    X, y = pair
    model = EvolutionaryMMC(init=(y == 8).astype(int), offspring=0, random_state=0).fit(X)
    assert model.n_iter_ == 1
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.05


def test_sparse_rows_and_dense_ones_give_the_same_labels(pair: tuple[Array, Array]) -> None:
    X = pair[0][:150]
    dense, sparse = (EvolutionaryMMC(rank=30, random_state=0).fit(rows) for rows in (X, csr_array(X)))
    np.testing.assert_array_equal(dense.labels_, sparse.labels_)


def test_weights_are_repeated_rows(rings: tuple[Array, Array]) -> None:
    X, y = rings
    X, y = X[:200], y[:200]
    weight = np.random.default_rng(0).integers(1, 3, 200)
    model = EvolutionaryMMC(sigma=0.5, random_state=0).fit(X, sample_weight=weight)
    repeated = EvolutionaryMMC(sigma=0.5, random_state=0).fit(np.repeat(X, weight, axis=0))
    assert dmmc.score(model.labels_, y)["accuracy"] > 0.95
    assert model.objective_ == pytest.approx(repeated.objective_, rel=0.05)


def test_more_clusters_are_a_tree() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat(np.arange(4), [60, 50, 40, 30])
    X = rng.normal(size=(180, 2)) + np.array([[0, 0], [12, 0], [0, 12], [12, 12]])[truth]
    model = EvolutionaryMMC(4, rank=60, sigma=0.5, random_state=0).fit(X)
    assert dmmc.score(model.labels_, truth)["accuracy"] == 1.0
    assert model.coef_.shape[0] == 3
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert np.bincount(model.labels_).tolist() == [60, 50, 40, 30]


def test_a_size_bound_is_kept_and_told(rings: tuple[Array, Array]) -> None:
    X, _ = rings
    uneven = np.concatenate([X[X[:, 0] ** 2 + X[:, 1] ** 2 > 0.5], X[X[:, 0] ** 2 + X[:, 1] ** 2 < 0.5][:60]])
    truth = (np.arange(len(uneven)) >= len(uneven) - 60).astype(int)
    with pytest.warns(ClusteringWarning, match="cluster 1 kept shrinking and was held at the minimum size"):
        model = EvolutionaryMMC(sigma=0.3, balance=0.9, min_size=0.6, init=truth, offspring=0, random_state=0).fit(
            uneven
        )
    assert 0.29 * len(uneven) <= np.bincount(model.labels_).min() <= 0.32 * len(uneven)
    loose = EvolutionaryMMC(sigma=0.3, balance=240 / 360, random_state=0).fit(uneven)  # 300 rows and 60
    assert sorted(np.bincount(loose.labels_)) == [60, len(uneven) - 60]


# -------------------------------------------------------------------------------------------- refusals and warnings


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"rank": 61}, "rank is 61, but array of shape .60, 2. has 60 rows that count; at most as many"),
        ({"rank": 1}, "rank is 1; None, .auto., or a whole number of at least 2"),
        ({"rank": "some"}, "rank is 'some'"),
        ({"sigma": 0.0}, "sigma is 0.0; a number above 0"),
        ({"regularization": -1}, "regularization is -1; a number above 0"),
        ({"kernel": "cosine"}, "kernel is 'cosine'; choose one of 'rbf'"),
        ({"mutation": "random"}, "mutation is 'random'; choose one of 'sweeps', 'paper'"),
        ({"mutation": "paper", "offspring": 0}, "offspring is 0; a whole number of at least 1"),
        ({"mutation": "paper", "init": "k-means"}, "init is 'k-means', but mutation='paper' starts from random labels"),
        ({"population": 0}, "population is 0; a whole number of at least 1"),
        ({"init": "graph"}, "init is 'graph'; choose one of 'random'"),
        ({"balance": 1.0}, "balance is 1.0"),
    ],
)
def test_a_wrong_parameter_is_refused_in_a_sentence(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        EvolutionaryMMC(**asked).fit(np.random.default_rng(0).normal(size=(60, 2)))


def test_a_full_kernel_of_many_rows_is_refused_with_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(5001, 2))
    with pytest.raises(InputError, match=r"5001 rows, and the full kernel of evommc is for up to 5000; .*fast-evommc"):
        dmmc.fit(X, method="evommc")
    monkeypatch.setattr(evolution, "HELD", 1000)
    with pytest.raises(InputError, match=r"mutation='paper' holds 60 rows of \d+ features in memory"):
        EvolutionaryMMC(mutation="paper").fit(X[:60])


def test_a_kernel_that_does_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_kernel, "free_memory", lambda: 1000)
    with pytest.raises(
        InputError, match=r"seen through 60 rows of array .* needs about .* MB, .* choose a smaller rank"
    ):
        EvolutionaryMMC().fit(np.random.default_rng(0).normal(size=(60, 2)))


def test_the_methods_have_a_rank_or_none() -> None:
    X = np.random.default_rng(0).normal(size=(60, 2)) + 5.0 * np.repeat([0, 1], 30)[:, None]
    assert dmmc.fit(X, method="evommc").choices["rank"] == 60
    assert dmmc.fit(X, method="fast-evommc").choices["rank"] == 6
    assert dmmc.fit(X, method="fast-evommc", rank=11).choices["rank"] == 11
    with pytest.raises(InputError, match="'rank' is not a parameter of method 'evommc'"):
        dmmc.fit(X, method="evommc", rank=11)


@pytest.mark.parametrize(("sigma", "sentence"), [(1e-4, "nearly the identity"), (1e4, "nearly all ones")])
def test_a_kernel_that_sees_nothing_is_a_warning(rings: tuple[Array, Array], sigma: float, sentence: str) -> None:
    with pytest.warns(ClusteringWarning, match=f"sigma={sigma:g} makes the kernel matrix {sentence}"):
        EvolutionaryMMC(sigma=sigma, n_init=1, random_state=0).fit(rings[0][:100])


def test_a_kernel_of_equal_values_is_refused(rings: tuple[Array, Array]) -> None:
    with pytest.raises(InputError, match="makes all values of the kernel equal; choose a smaller sigma"):
        EvolutionaryMMC(sigma=1e8).fit(rings[0][:100])


def test_the_widths_of_the_paper_are_none(pair: tuple[Array, Array]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClusteringWarning)
        for sigma in (1.0, 3.0, 5.0):
            EvolutionaryMMC(sigma=sigma, n_init=1, offspring=0, random_state=0).fit(pair[0])


def test_an_odd_number_of_rows_cannot_be_halved(rings: tuple[Array, Array]) -> None:
    with pytest.warns(ClusteringWarning, match="balance=0 .* 99 rows are an odd number: they may differ by one row"):
        model = EvolutionaryMMC(balance=0, n_init=1, random_state=0).fit(rings[0][:99])
    assert sorted(np.bincount(model.labels_)) == [49, 50]
    even = EvolutionaryMMC(balance=0, n_init=1, random_state=0).fit(rings[0][:100])
    assert np.bincount(even.labels_).tolist() == [50, 50]


def test_rows_that_repeat_make_a_singular_kernel_and_are_clustered(rings: tuple[Array, Array]) -> None:
    X, y = rings
    X, y = np.repeat(X[:60], 3, axis=0), np.repeat(y[:60], 3)
    model = EvolutionaryMMC(sigma=0.5, balance=0.2, random_state=0).fit(X)
    assert np.isfinite(model.coef_).all()
    assert dmmc.score(model.labels_, y)["accuracy"] > 0.95


def test_a_gross_outlier_does_not_blind_the_kernel(rings: tuple[Array, Array]) -> None:
    X, y = rings
    X = np.vstack([X[:300], [[1e4, 1e4]]])
    with pytest.warns(ClusteringWarning, match="1 of 301 rows lie more than 10 times as far out"):
        model = EvolutionaryMMC(rank=60, sigma=0.5, random_state=0).fit(X)
    assert dmmc.score(model.labels_[:300], y[:300])["accuracy"] > 0.99


# ------------------------------------------------------------------------------------- the same bits, however it is run


CASES: dict[str, dict[str, Any]] = {
    "one block": {"method": "fast-evommc", "rank": 25, "n_init": 2},
    "many blocks": {"method": "fast-evommc", "rank": 25, "population": 2, "offspring": 2, "max_iter": 30},
    "full kernel": {"method": "evommc", "n_init": 1, "offspring": 0},
    "published": {"method": "fast-evommc", "rank": 20, "mutation": "paper", "n_init": 2},
    "tree": {"method": "fast-evommc", "rank": 25, "n_clusters": 3, "n_init": 1, "offspring": 0},
}
WEIGHTED = {"many blocks", "tree"}


def case(name: str, rows: Array) -> dict[str, Any]:
    rows = rows[:200]
    weight = np.random.default_rng(0).random(len(rows)) + 0.5 if name in WEIGHTED else None
    return {"source": rows.astype(np.float32), "sample_weight": weight, **CASES[name]}


@pytest.fixture
def blocks_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes blocks small, but for the case with one of them."""

    def small(name: str) -> None:
        if name != "one block":
            monkeypatch.setattr(blocks, "ONE_BLOCK", 8 * 1024)
            monkeypatch.setattr(blocks, "FOUR_BLOCKS", 16 * 1024)

    return small


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_threads_and_workers_give_the_same_bits(
    clients: Callable[[int], Any], blocks_of: Callable[[str], None], pair: tuple[Array, Array], name: str
) -> None:
    blocks_of(name)
    asked = case(name, pair[0])
    alone = bits(dmmc.fit(**asked, n_jobs=1))
    assert bits(dmmc.fit(**asked, n_jobs=4)) == alone
    for workers in (1, 2):
        assert bits(dmmc.fit(**asked, scheduler=clients(workers))) == alone


@pytest.mark.parametrize("name", CASES)
def test_a_fit_that_is_stopped_goes_on_to_the_same_bits(
    blocks_of: Callable[[str], None], pair: tuple[Array, Array], tmp_path: Path, name: str
) -> None:
    blocks_of(name)
    asked = case(name, pair[0])
    whole = bits(dmmc.fit(**asked))
    stops, run = 0, None
    while run is None:
        try:
            run = dmmc.fit(**asked, out=tmp_path / "out", resume=True, callbacks=stop_after(2 + 4 * stops))
        except Stop:
            stops += 1
    assert stops > 0
    assert bits(run) == whole


def test_features_that_are_not_kept_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, blocks_of: Callable[[str], None], pair: tuple[Array, Array]
) -> None:
    blocks_of("many blocks")
    asked = case("many blocks", pair[0])
    kept = bits(dmmc.fit(**asked))
    monkeypatch.setattr(evolution, "KEPT", 0)
    assert bits(dmmc.fit(**asked)) == kept


# -------------------------------------------------------------------------------------------- files, the command line


@pytest.mark.parametrize("k", [2, 3])
def test_a_saved_model_predicts_the_same(pair: tuple[Array, Array], tmp_path: Path, k: int) -> None:
    X, _ = pair
    run = dmmc.fit(X, k, method="fast-evommc", rank=20, n_init=1, out=tmp_path / "out", scores=True)
    model = dmmc.load(tmp_path / "out")
    assert isinstance(model, EvolutionaryMMC)
    np.testing.assert_array_equal(model.predict(X), run.labels)
    np.testing.assert_array_equal(model.decision_function(X[:9]), run.model.decision_function(X[:9]))
    told = json.loads((tmp_path / "out" / "run.json").read_text())
    assert told["method"] == "fast-evommc"
    assert told["choices"]["rank"] == 20
    evolved = run.model.evolved_labels_
    assert (evolved is None) == (model.evolved_labels_ is None) == (k > 2)
    if k == 2:
        np.testing.assert_array_equal(model.evolved_labels_, evolved)
        assert told["choices"]["rows_predicted_otherwise"] == np.count_nonzero(evolved != run.labels)
    assert (tmp_path / "out" / "report.html").stat().st_size > 10_000


def test_the_command_line_fits_by_evolution(cli: Any, digits_store: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = cli(
        "fit", digits_store, "-k", 2, "-o", out, "--method", "fast-evommc", "--set", "rank=40", "--set", "n_init=1",
        "--set", "sigma=3", "--json",
    )  # fmt: skip
    assert done.code == 0, done.stderr
    assert sum(json.loads(done.stdout)["sizes"]) == 1797
    assert dmmc.load(out).get_params()["sigma"] == 3
    refused = cli("fit", digits_store, "-k", 2, "-o", tmp_path / "no", "--method", "fast-evommc", "--set", "rank=5000")
    assert refused.code == 2
    assert "rank is 5000" in refused.stderr
    assert "evommc" in cli("methods").stdout


@pytest.mark.parametrize("method", ["evommc", "fast-evommc"])
def test_rows_that_are_alike_stay_together_and_no_cluster_is_empty(method: str) -> None:
    run = dmmc.fit(np.vstack([np.zeros((30, 4)), np.eye(4)]), 2, method=method)
    assert np.bincount(run.labels).tolist() == [30, 4]


@pytest.mark.parametrize("regularization", [1e-16, 1e-60, 1e-300])
def test_next_to_no_regularization_ends_with_a_fitness_that_can_be(regularization: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6)) + 6 * rng.standard_normal((3, 6))[rng.integers(3, size=100)]
    run = dmmc.fit(X, 4, method="evommc", regularization=regularization)
    assert run.model.objective_ >= 0
    assert np.isfinite(run.model.decision_function(X)).all()


@pytest.mark.parametrize("sigma", [1e-200, 1e300])
def test_a_width_that_no_number_holds_is_refused(sigma: float) -> None:
    with pytest.raises(dmmc.InputError, match="choose a sigma nearer to 1"):
        dmmc.fit(np.random.default_rng(0).standard_normal((50, 3)), 2, method="evommc", sigma=sigma)


def test_the_restart_that_agrees_most_with_the_others_may_win() -> None:
    X, y = make_circles(120, noise=0.1, random_state=0)
    by = {
        select: EvolutionaryMMC(2, n_init=4, select=select, random_state=0).fit(X) for select in ("medoid", "objective")
    }
    assert by["objective"].objective_ <= by["medoid"].objective_
    assert 0 < by["medoid"].labels_.sum() < len(y)


def make_uneven(share: float, count: int = 240) -> tuple[Array, Array]:
    """Two round clusters, one with this share of the rows."""
    rng = np.random.default_rng(0)
    y = (np.arange(count) < share * count).astype(int)
    return rng.standard_normal((count, 6)) + np.outer(2 * y - 1, np.full(6, 1.5)), y


@pytest.mark.parametrize("mutation", ["sweeps", "paper"])
@pytest.mark.parametrize(("share", "balance"), [(1 / 2, 0.03), (2 / 3, 0.4), (3 / 4, 0.6), (9 / 10, 0.9)])
def test_clusters_of_two_three_and_nine_to_one_are_found_with_the_default_balance(
    share: float, balance: float, mutation: str
) -> None:
    X, y = make_uneven(share)
    model = EvolutionaryMMC(mutation=mutation, n_init=2, random_state=0).fit(X)
    assert model.choices_["balance"] == balance
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.02
    assert model.evolved_labels_ is not None
    assert model.objective_ == pytest.approx(fitness_of(model, X, model.evolved_labels_), abs=1e-6)
    alone = EvolutionaryMMC(mutation=mutation, n_init=2, random_state=0, balance=balance).fit(X)
    assert alone.objective_ == pytest.approx(model.objective_, abs=1e-3)


@pytest.mark.parametrize("method", ["evommc", "fast-evommc"])
@pytest.mark.parametrize("sizes", [(405, 45), (427, 23)])
def test_a_small_cluster_far_away_is_not_cut(method: str, sizes: tuple[int, int]) -> None:
    X, y = make_blobs(sizes, centers=[[-3.0, -3.0], [3.0, 3.0]], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClusteringWarning)
        run = dmmc.fit(X, 2, method=method, random_state=0)
    assert np.bincount(run.labels).tolist() == list(sizes)
    assert dmmc.score(run.labels, y)["purity_error"] == 0.0


def test_where_the_loosest_balance_is_too_tight_the_user_is_told() -> None:
    X, _ = make_blobs((432, 18), centers=[[-3.0] * 6, [3.0] * 6], random_state=0)
    with pytest.warns(ClusteringWarning, match="more uneven than balance=0.9 allows, .* Choose a balance nearer to 1"):
        model = EvolutionaryMMC(rank=60, n_init=2, random_state=0).fit(X)
    assert np.bincount(model.labels_).tolist() == [427, 23]
    asked = EvolutionaryMMC(rank=60, n_init=2, balance=0.95, min_size=0, random_state=0).fit(X)
    assert np.bincount(asked.labels_).tolist() == [432, 18]


@pytest.mark.parametrize("digits", [(3, 8), (1, 7), (2, 7), (8, 9), (1, 8)])
def test_a_few_odd_rows_are_no_cluster(digits: tuple[int, int]) -> None:
    X, _ = data_sets.pair(*data_sets.load("digits"), *digits)
    model = EvolutionaryMMC(rank="auto", random_state=0).fit(X)
    assert model.choices_["balance"] <= 0.6


def test_a_bound_on_sizes_is_kept_whatever_balance_is_tried() -> None:
    X, _ = make_uneven(3 / 4)
    model = EvolutionaryMMC(min_size=0.9, n_init=2, random_state=0).fit(X)
    assert np.bincount(model.labels_).min() >= 0.45 * len(X)


def test_the_medoid_is_one_of_the_restarts_of_the_chosen_balance() -> None:
    X, y = make_uneven(2 / 3)
    model = EvolutionaryMMC(select="medoid", n_init=4, random_state=0).fit(X)
    assert model.choices_["balance"] == 0.4
    assert dmmc.score(model.labels_, y)["purity_error"] < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("method", ["evommc", "fast-evommc"])
def test_two_classes_of_two_to_one_are_found_in_a_satellites_pixels(load: Any, method: str) -> None:
    X, y = data_sets.pair(*load("satellite"), 1, 2)
    run = dmmc.fit(X, 2, method=method, random_state=0)
    assert dmmc.score(run.labels, y)["purity_error"] < 0.025
