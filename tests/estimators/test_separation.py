"""`score` of estimators: minus the cut."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

import dmmc
from dmmc.data.open import open_dataset
from dmmc.estimators.separation import find_cut


@pytest.fixture(scope="module")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    X, y = make_blobs(300, 4, centers=3, cluster_std=0.5, random_state=0)
    return X.astype(np.float32), y


def test_the_score_is_minus_the_cut_of_the_labels(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    model = dmmc.CuttingPlaneMMC(n_clusters=3, random_state=0).fit(X)
    assert model.score(X) == model.score(X, y) == -find_cut(open_dataset(X), model.labels_, 3)
    assert -0.02 < model.score(X) <= 0


def test_labels_that_part_near_rows_have_a_lower_score(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = blobs
    rng = np.random.default_rng(0)
    worse = np.where(rng.random(300) < 0.3, rng.integers(0, 3, 300), y)
    split = KMeans(2, n_init=1, random_state=0).fit_predict(X)
    cuts = [find_cut(open_dataset(X), labels, k) for labels, k in ((y, 3), (worse, 3))]
    assert cuts[0] < 0.02 < 0.2 < cuts[1]
    assert find_cut(open_dataset(X), split, 2) < cuts[1]


def test_sparse_rows_and_two_clusters_have_a_score(blobs: tuple[np.ndarray, np.ndarray]) -> None:
    X = sparse.csr_array(np.abs(blobs[0]))
    score = dmmc.CuttingPlaneMMC(n_clusters=2, random_state=0).fit(X).score(X)
    assert -1.5 < score <= 0
