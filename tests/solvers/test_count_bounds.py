"""Count bounds: prices bring every cluster's share of the weight within its bounds."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmmc import ClusteringWarning, CuttingPlaneMMC
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.estimators import size_notes
from dmmc.model import passes
from dmmc.model.passes import Hyperplanes
from dmmc.solvers import count_bounds

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]


def priced(X: Array, W: Array, b: Array, lowest: float, highest: float, weight: Array | None = None) -> tuple[Any, ...]:
    """Prices, shares of the labels taken with them, and how many passes it took."""
    dataset = open_dataset(X).with_columns(weight=weight)
    total = float(len(X) if weight is None else weight.sum())
    planes = Hyperplanes(W, b, np.zeros_like(b))
    calls = []
    with Local(dataset, 1) as engine:

        def oracle(work: Any, params: Any) -> Any:
            calls.append(work)
            return engine.run(work, params)

        found = count_bounds.find_prices(oracle, planes, total, lowest, highest)
        labels = np.concatenate(
            [passes.decide_labels(f) for f in engine.rows(passes.scores, planes._replace(price=found))]
        )
    shares = np.bincount(labels, weight, minlength=max(len(W), 2)) / total
    return found, shares, len(calls)


def random_scores(seed: int, n: int, k: int, size: float = 1.0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    K = 1 if k == 2 else k
    return rng.standard_normal((n, 6)), size * rng.standard_normal((K, 6)), 2.0 * size * rng.standard_normal(K)


@pytest.mark.parametrize("k", [2, 3, 10])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([60, 500, 3000]),
    size=st.sampled_from([0.01, 1.0, 100.0]),
    bounds=st.sampled_from([(0.1, np.inf), (0.5, 2.0), (0.9, 1.1), (0.0, 1.5)]),
)
def test_prices_bring_counts_within_bounds(k: int, seed: int, n: int, size: float, bounds: tuple[float, float]) -> None:
    lowest = max(1, np.floor(bounds[0] * n / k)) / n
    highest = min(n, np.ceil(bounds[1] * n / k)) / n
    found, shares, passes_made = priced(*random_scores(seed, n, k, size), lowest, highest)
    row = 1.0 / n
    assert shares.min() > lowest - row * (0.5 if k < 10 else 1.5)
    assert shares.max() < highest + row * (0.5 if k < 10 else 1.5)
    assert passes_made <= count_bounds.ROUNDS
    assert found.shape == (1 if k == 2 else k,)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_equal_bounds_give_nearly_equal_counts(k: int) -> None:
    for seed in range(5):
        _, shares, _ = priced(*random_scores(seed, 1000, k), np.floor(1000 / k) / 1000, np.ceil(1000 / k) / 1000)
        assert np.abs(1000 * shares - 1000 / k).max() <= 2


@pytest.mark.parametrize("k", [2, 3, 10])
def test_a_loose_bound_takes_few_passes_and_leaves_the_other_clusters_alone(k: int) -> None:
    X, W, b = random_scores(0, 1000, k)
    b[-1] -= 100.0  # the last cluster has no row
    found, shares, passes_made = priced(X, W, b, 0.1 / k, 1.0)
    assert 0.1 / k <= shares.min() <= 0.15 / k
    assert passes_made <= 12
    if k > 2:
        assert np.all(found[shares > 0.15 / k] == 0)


def test_counts_within_bounds_need_no_price() -> None:
    X, W, b = random_scores(1, 400, 3)
    found, _, passes_made = priced(X, W, 0.0 * b, 0.001, 1.0)
    assert not found.any()
    assert passes_made == 1


def test_weights_count_rather_than_rows() -> None:
    X, W, _ = random_scores(2, 600, 2)
    f = X @ W[0]
    weight = np.where(f > 0, 0.05, 1.0)  # few by weight
    _, shares, _ = priced(X, W, np.zeros(1), 0.4, 1.0, weight)
    assert 0.4 <= shares.min() <= 0.44  # at most a tenth more than asked for


def test_equal_rows_cannot_be_parted_by_any_price() -> None:
    X = np.repeat(np.eye(2), 50, axis=0)
    _, shares, passes_made = priced(X, np.array([[1.0, -1.0]]), np.zeros(1), 0.7, 1.0)
    assert sorted(shares) in ([0.0, 1.0], [0.5, 0.5])
    assert passes_made <= count_bounds.ROUNDS


# ------------------------------------------------------------------------------------------------ in a whole fit


@pytest.mark.parametrize("order", ["inside", "outside"])
@pytest.mark.parametrize("k", [2, 3])
def test_equal_sizes_can_be_asked_for(k: int, order: str) -> None:
    rng = np.random.default_rng(k)
    X = (
        rng.standard_normal((200, 4))
        + 3.0 * rng.standard_normal((k, 4))[np.minimum(rng.integers(2 * k, size=200), k - 1)]
    )
    with pytest.warns(ClusteringWarning, match=r"held at the m(in|ax)imum size \(\d+ rows\)"):
        model = CuttingPlaneMMC(k, min_size=1, max_size=1, order=order, random_state=0).fit(X)
    assert np.ptp(np.bincount(model.labels_, minlength=k)) <= 2
    assert model.choices_["prices_folded_into_biases"] is True
    np.testing.assert_array_equal(model.labels_, model.predict(X))


def test_a_bound_that_is_not_active_is_not_mentioned(load: Load) -> None:
    X, _ = load("digits")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CuttingPlaneMMC(10, random_state=0).fit(X)
    assert model.choices_["prices_folded_into_biases"] is False
    assert len(np.unique(model.labels_)) == 10


@pytest.mark.parametrize("order", ["inside", "outside"])
def test_one_row_against_all_others_is_not_a_clustering(load: Load, order: str) -> None:
    X, y = load("digits")
    X = X[(y == 3) | (y == 8)]
    lonely = np.zeros(len(X), int)
    lonely[10] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = CuttingPlaneMMC(init=lonely, order=order, random_state=0).fit(X)
    assert np.bincount(model.labels_).min() >= int(0.1 * len(X) / 2)


def test_sizes_of_a_large_fit_respect_the_bounds(load: Load) -> None:
    X, _ = load("digits")
    with pytest.warns(ClusteringWarning, match=r"kept growing and (was|were) held at the maximum size"):
        model = CuttingPlaneMMC(10, min_size=0.9, max_size=1.1, random_state=0).fit(X)
    sizes = np.bincount(model.labels_, minlength=10)
    assert sizes.min() >= int(0.9 * 179.7) - 1
    assert sizes.max() <= 1.1 * 179.7 + 2
    assert model.choices_["ended"] == "converged"


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
def test_a_search_ends_where_a_cluster_falls_to_a_loose_bound_and_goes_on_within_a_tight_one(load: Load) -> None:
    X, _ = load("digits")
    loose = CuttingPlaneMMC(20, random_state=0).fit(X)
    assert loose.choices_["ended"] == "count bound"
    assert np.bincount(loose.labels_, minlength=20).min() >= int(0.1 * len(X) / 20)
    tight = CuttingPlaneMMC(20, min_size=0.5, random_state=0).fit(X)
    assert tight.choices_["ended"] == "converged"
    assert np.bincount(tight.labels_, minlength=20).min() >= int(0.5 * len(X) / 20) - 1


def test_a_search_that_ended_at_a_bound_says_which_cluster_fell_and_what_to_try(load: Load) -> None:
    X, _ = load("digits")
    with pytest.warns(ClusteringWarning) as told:
        CuttingPlaneMMC(20, random_state=1).fit(X)
    (said,) = [str(one.message) for one in told if one.category is ClusteringWarning]
    found = re.fullmatch(
        r"cluster (\d+) kept shrinking, and the search ended at the minimum size \(8 rows\) with the best labels until "
        r"then; try fewer clusters, or a smaller min_size \(it is 0\.1, and 0 is no minimum\)\.",
        said,
    )
    assert found, said
    assert int(found[1]) < 20


@pytest.mark.parametrize("k", [2, 3])
def test_clusters_that_a_bound_holds_are_named(k: int, load: Load) -> None:
    X, y = load("digits")
    rows = np.concatenate([np.flatnonzero(y == digit)[: 25 if digit == k - 1 else 160] for digit in range(k)])
    with pytest.warns(ClusteringWarning) as told:
        model = CuttingPlaneMMC(k, min_size=0.6, balance=0.6, random_state=0).fit(X[rows])
    (said,) = [str(one.message) for one in told if one.category is ClusteringWarning]
    least = int(0.6 * len(rows) / k)
    fewer = "fewer clusters, or " if k > 2 else ""
    assert said == (
        f"cluster {k - 1} kept shrinking and was held at the minimum size ({least} rows); try {fewer}a smaller "
        "min_size (it is 0.6, and 0 is no minimum)."
    )
    assert least <= np.bincount(model.labels_)[k - 1] <= 1.1 * least


def test_a_sentence_names_a_few_clusters() -> None:
    names = [size_notes.name_clusters(range(count)) for count in range(6)]
    assert names == [
        "a cluster",
        "cluster 0",
        "clusters 0 and 1",
        "clusters 0, 1 and 2",
        "clusters 0, 1, 2 and 1 more",
        "clusters 0, 1, 2 and 2 more",
    ]


# ------------------------------------------------------------------------------------------------ dying clusters


@pytest.mark.parametrize("sparse", [False, True])
def test_a_dying_cluster_is_seeded_again_with_a_warning(sparse: bool) -> None:
    from scipy.sparse import csr_array
    from sklearn.datasets import make_blobs

    X, y = make_blobs([100, 100, 100], 5, center_box=(-6, 6), random_state=0)
    only_two = np.minimum(y, 1)  # two blobs share a label, and one label has no row
    with pytest.warns(ClusteringWarning, match="dying cluster was seeded again"):
        model = CuttingPlaneMMC(3, min_size=0, init=only_two, random_state=0).fit(csr_array(X) if sparse else X)
    assert model.choices_["reseeded"] >= 1
    assert len(np.unique(model.labels_)) == 3
    assert np.bincount(model.labels_).min() > 50


def test_a_cluster_without_rows_gets_some_where_there_is_a_bound() -> None:
    from sklearn.datasets import make_blobs

    X, y = make_blobs([100, 100, 100], 5, center_box=(-6, 6), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = CuttingPlaneMMC(3, init=np.minimum(y, 1), random_state=0).fit(X)
    assert np.bincount(model.labels_, minlength=3).min() >= 10


def test_inside_with_many_clusters_ends_with_all_of_them(load: Load) -> None:
    X, _ = load("digits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = CuttingPlaneMMC(10, order="inside", random_state=0).fit(X[:300])
    assert len(np.unique(model.labels_)) == 10
    assert model.choices_["ended"] == "converged"


def test_a_hundred_clusters_are_found() -> None:
    rng = np.random.default_rng(0)
    centres = 6.0 * rng.standard_normal((100, 20))
    truth = np.repeat(np.arange(100), 15)
    X = centres[truth] + 0.5 * rng.standard_normal((1500, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = CuttingPlaneMMC(100, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 100
    from dmmc import score

    assert score(model.labels_, truth)["accuracy"] > 0.9
