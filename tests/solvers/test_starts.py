"""Where the search starts: as good as scikit-learn's KMeans and PCA, the same for a seed, in any type of numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model.geometry import measure
from dmmc.solvers import starts

Array = NDArray[Any]

DIGITS = np.ascontiguousarray(load_digits().data)


@pytest.fixture(autouse=True)
def one_blas_thread() -> Iterator[None]:
    """As the estimators do: with more, the threads of small products wait for each other."""
    with threadpool_limits(1):
        yield


def tfidf(n: int = 1200, words: int = 1500, topics: int = 4) -> Any:
    """Rows like those of news: few words of many, by topic, of unit norm."""
    rng = np.random.default_rng(0)
    frequent = rng.dirichlet(np.full(words, 0.05), topics)
    topic = rng.integers(topics, size=n)
    common = rng.dirichlet(np.full(words, 0.5))
    counts = np.stack([rng.multinomial(80, 0.6 * frequent[t] + 0.4 * common) for t in topic])
    weighted = counts * np.log(n / (1 + (counts > 0).sum(axis=0)))
    return sparse.csr_array((weighted / np.linalg.norm(weighted, axis=1, keepdims=True)).astype(np.float32))


def started(init: str, source: Any, k: int, n_starts: int = 1, seed: int = 0, weight: Any = None) -> list[Array]:
    """Labels of each start."""
    dataset = source if isinstance(source, Dataset) else open_dataset(source)
    if weight is not None:
        dataset = dataset.with_columns(weight=weight)
    with Local(dataset, 2) as engine:
        geometry, dataset = measure(dataset, engine.rows, "none")
    with Local(dataset, 2) as engine:
        found = starts.make_labellings(init, dataset, engine.run, geometry, k, n_starts, seed)
        return [np.concatenate([labelling.of(block) for block in dataset.blocks]) for labelling in found]


def inertia(X: Any, labels: Array, weight: Array | None = None) -> float:
    X = X.toarray() if sparse.issparse(X) else np.asarray(X, np.float64)
    omega = np.ones(len(X)) if weight is None else weight
    total = 0.0
    for label in np.unique(labels[omega > 0]):
        here = (labels == label) & (omega > 0)
        mean = np.average(X[here], axis=0, weights=omega[here])
        total += float(omega[here] @ ((X[here] - mean) ** 2).sum(axis=1))
    return total


# ------------------------------------------------------------------------------------------------------- k-means


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("source", "k"), [(DIGITS, 2), (DIGITS, 10), (tfidf(), 4)], ids=["digits 2", "10", "text"])
def test_k_means_is_within_two_percent_of_ten_runs_of_scikit_learn(source: Any, k: int, seed: int) -> None:
    (labels,) = started("k-means", source, k, seed=seed)
    reference = KMeans(k, n_init=10, random_state=0).fit(source).inertia_
    assert inertia(source, labels) <= 1.02 * reference


def test_k_means_tells_the_inertia_of_its_labels_best_first() -> None:
    dataset = open_dataset(DIGITS)
    with Local(dataset, 2) as engine:
        geometry, _ = measure(dataset, engine.rows, "none")
        found, told = starts.k_means(dataset, engine.run, geometry, 10, 4, 0)
    assert np.all(np.diff(told) >= 0)
    scale = len(DIGITS) * float(geometry.unit[0]) ** 2
    for labelling, value in zip(found, told, strict=True):
        # told for the centres before they moved for the last time
        assert inertia(DIGITS, labelling.of(dataset.blocks[0])) / scale == pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize("init", ["k-means", "random", "pca"])
@pytest.mark.parametrize("k", [2, 5])
def test_one_seed_gives_one_start_and_another_seed_another(init: str, k: int) -> None:
    X = np.random.default_rng(1).random((3000, 5))
    one, same, other = (started(init, X, k, 3, seed) for seed in (7, 7, 8))
    for labels, again in zip(one, same, strict=True):
        np.testing.assert_array_equal(labels, again)
    if init != "pca":
        assert len(one) == 3
        assert not np.array_equal(one[0], other[0])


def test_starts_of_one_seed_differ_from_each_other() -> None:
    X = np.random.default_rng(1).random((2000, 8))
    for init in ("k-means", "random"):
        starts = started(init, X, 6, 3)
        assert len({labels.tobytes() for labels in starts}) == 3


@pytest.mark.parametrize("init", ["k-means", "pca"])
@pytest.mark.parametrize("k", [2, 10])
def test_bytes_start_with_the_labels_of_the_same_floats(init: str, k: int) -> None:
    (floats,) = started(init, DIGITS.astype(np.float32), k)
    (as_bytes,) = started(init, DIGITS.astype(np.uint8), k)
    np.testing.assert_array_equal(as_bytes, floats)


@pytest.mark.parametrize("init", ["k-means", "pca"])
def test_sparse_rows_start_like_dense_ones(init: str) -> None:
    for k in (2, 4):
        (dense,) = started(init, DIGITS, k)
        (thin,) = started(init, sparse.csr_array(DIGITS), k)
        assert adjusted_rand_score(dense, thin) > 0.99


def test_the_number_of_blocks_does_not_change_the_clusters() -> None:
    blocks = tuple(Block(i, a, min(a + 100, 1797), DIGITS[a : a + 100]) for i, a in enumerate(range(0, 1797, 100)))
    split = Dataset("an array", 1797, 64, DIGITS.dtype, False, blocks)
    assert adjusted_rand_score(started("k-means", split, 10)[0], started("k-means", DIGITS, 10)[0]) > 0.99


@pytest.mark.parametrize("init", ["k-means", "pca"])
def test_sample_weights_decide_what_is_a_cluster(init: str) -> None:
    # four blobs on a line; with the two in the middle of no weight, the cut is between the outer pair
    X, blob = make_blobs(2000, centers=[[-9, 0], [-8, 0], [0, 0], [9, 0]], cluster_std=0.3, random_state=0)
    weight = np.choose(blob, [1.0, 0.0, 0.0, 1.0])
    (labels,) = started(init, X, 2, weight=weight)
    assert adjusted_rand_score(labels[weight > 0], blob[weight > 0]) == 1
    # a blob of hardly any weight is not worth a cluster of its own
    X, blob = make_blobs(2000, centers=[[-4, 0], [-1, 0], [6, 0]], cluster_std=0.5, random_state=0)
    (labels,) = started(init, X, 2, weight=np.choose(blob, [1.0, 1.0, 1e-3]))
    assert adjusted_rand_score(labels, blob > 0) > 0.99
    (labels,) = started(init, X, 2)
    assert adjusted_rand_score(labels, blob > 1) > 0.99


def wide_clouds(apart: float) -> tuple[Array, Array]:
    """Five clouds whose centres differ little in any of 4000 columns, and much in all of them together."""
    rng = np.random.default_rng(0)
    cloud = rng.integers(5, size=1500)
    X = rng.standard_normal((1500, 4000)) + apart * rng.standard_normal((5, 4000))[cloud]
    return X.astype(np.float32), cloud


def test_k_means_of_wide_rows_is_seeded_with_enough_of_them() -> None:
    X, cloud = wide_clouds(0.15)
    found = [adjusted_rand_score(started("k-means", X, 5, seed=seed)[0], cloud) for seed in range(4)]
    assert np.mean(found) > 0.9


def test_k_means_goes_on_where_the_centres_of_the_sample_explain_nothing_of_all_rows() -> None:
    X, _ = wide_clouds(0.1)
    with Local(open_dataset(X), 2) as engine:
        geometry, dataset = measure(engine.dataset, engine.rows, "none")
        _, inertias = starts.k_means(dataset, engine.run, geometry, 5, 1, 0)
    assert inertias[0] < 1.0  # that of one centre


def test_rows_of_weight_0_are_never_seeds_however_many_they_are() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((20_000, 2))
    weight = np.zeros(20_000)
    X[-3:] = [[50, 0], [0, 50], [-50, -50]]
    weight[-3:] = 1
    dataset = open_dataset(X).with_columns(weight=weight)
    assert starts.sample_rows(dataset, 3, 0).tolist() == [19_997, 19_998, 19_999]
    for init in ("k-means", "pca"):
        (labels,) = started(init, X, 3, weight=weight)
        assert len(set(labels[-3:])) == 3


def test_weights_are_worth_repeated_rows_in_k_means() -> None:
    rng = np.random.default_rng(3)
    weight = rng.integers(0, 4, len(DIGITS))
    (labels,) = started("k-means", DIGITS, 10, weight=weight)
    reference = KMeans(10, n_init=10, random_state=0).fit(DIGITS, sample_weight=weight).inertia_
    assert inertia(DIGITS, labels, weight.astype(np.float64)) <= 1.02 * reference


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize(("n", "k"), [(2, 2), (5, 5), (12, 10), (100, 100)])
def test_nearly_as_many_clusters_as_rows_are_found(n: int, k: int, sparse_rows: bool) -> None:
    X = np.random.default_rng(4).random((n, 3)) * 10
    (labels,) = started("k-means", sparse.csr_array(X) if sparse_rows else X, k)
    assert labels.min() >= 0
    assert labels.max() < k
    assert len(set(labels)) >= 0.9 * k


@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize("init", ["k-means", "pca"])
def test_duplicates_stay_together_even_with_fewer_distinct_rows_than_clusters(init: str, sparse_rows: bool) -> None:
    distinct = np.array([[0.0, 0], [5, 0], [0, 5]])
    of = np.repeat(np.arange(3), [50, 30, 20])
    X = distinct[of]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (labels,) = started(init, sparse.csr_array(X) if sparse_rows else X, 6)
    assert adjusted_rand_score(labels, of) == 1


def test_a_large_offset_does_not_hide_the_clusters() -> None:
    X, blob = make_blobs(1000, centers=3, n_features=4, random_state=1)
    for init in ("k-means", "pca"):
        (labels,) = started(init, (X + 1e4).astype(np.float32), 3)
        assert adjusted_rand_score(labels, blob) > 0.97


# ----------------------------------------------------------------------------------------------- the other starts


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize(
    "layout",
    [np.asarray, lambda X: X.astype(np.float32), lambda X: X.astype(np.uint16), sparse.csr_array],
    ids=["float64", "float32", "uint16", "csr"],
)
def test_pca_cuts_in_two_by_the_sign_of_the_first_component(layout: Callable[[Array], Any], offset: int) -> None:
    (labels,) = started("pca", layout(DIGITS + offset), 2)
    first = PCA(1).fit_transform(DIGITS)[:, 0]
    clear = np.abs(first) > 1e-3 * np.abs(first).max()
    same = (labels == (first > 0))[clear]
    assert same.all() or not same.any()


def test_pca_with_weights_is_that_of_repeated_rows() -> None:
    weight = np.random.default_rng(5).integers(0, 3, len(DIGITS))
    (labels,) = started("pca", DIGITS, 2, weight=weight)
    pca = PCA(1).fit(np.repeat(DIGITS, weight, axis=0))
    first = pca.transform(DIGITS)[:, 0]
    clear = np.abs(first) > 1e-3 * np.abs(first).max()
    same = (labels == (first > 0))[clear]
    assert same.all() or not same.any()


def test_pca_for_more_clusters_is_k_means_in_the_leading_directions() -> None:
    (labels,) = started("pca", DIGITS, 5)
    shadow = PCA(4).fit_transform(DIGITS)
    reference = KMeans(5, n_init=10, random_state=0).fit(shadow).inertia_
    assert inertia(shadow, labels) <= 1.02 * reference


@pytest.mark.parametrize("k", [2, 4])
def test_pca_of_one_feature_is_that_feature(k: int) -> None:
    X = np.random.default_rng(6).random((200, 1))
    (labels,) = started("pca", X, k)
    assert set(labels) == set(range(k))
    order = labels[np.argsort(X[:, 0])]
    assert np.count_nonzero(np.diff(order)) == k - 1, "clusters are intervals"


def test_random_labels_are_even_and_differ_from_block_to_block() -> None:
    X = np.random.default_rng(7).random((4000, 2))
    blocks = tuple(Block(i, a, a + 1000, X[a : a + 1000]) for i, a in enumerate(range(0, 4000, 1000)))
    split = Dataset("an array", 4000, 2, X.dtype, False, blocks)
    (labels,) = started("random", split, 4)
    assert np.abs(np.bincount(labels) - 1000).max() < 120
    assert not np.array_equal(labels[:1000], labels[1000:2000])


def test_labels_from_the_user_are_taken_as_they_are() -> None:
    wanted = np.arange(len(DIGITS)) % 3
    dataset = open_dataset(DIGITS).with_columns(given=wanted)
    (labels,) = started("labels", dataset, 3)
    np.testing.assert_array_equal(labels, wanted)
