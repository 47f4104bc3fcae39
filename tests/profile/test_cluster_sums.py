"""Means of raw columns inside and outside of clusters, against pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import dmmc
from dmmc.data.dataset import Dataset
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.profile import cluster_sums
from dmmc.profile.cluster_sums import find_means

K = 3


def draw() -> tuple[Any, Any]:
    """Rows far from 0, mostly 0 in the last columns, and their labels; -1 is none."""
    rng = np.random.default_rng(0)
    X = np.hstack([1e6 + rng.normal(size=(500, 3)), rng.poisson(0.2, size=(500, 4))])
    return X, rng.integers(-1, K, 500)


def finer(dataset: Dataset) -> Dataset:
    """The same rows in ten blocks."""
    from dmmc.data.dataset import cut_finer

    cut = cut_finer(dataset, np.linspace(0, dataset.n_rows, 11).astype(np.int64))
    assert isinstance(cut, Dataset)
    return cut


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_means_are_those_of_pandas(form: Any) -> None:
    X, labels = draw()
    X = X if form is np.asarray else np.where(X > 1e5, X - 1e6, X)
    with Local(finer(open_dataset(form(X)))) as engine:
        found = find_means(engine.dataset, engine.use, engine.run, labels, K)
    frame = pd.DataFrame(X)
    for cluster in range(K):
        own = labels == cluster
        assert found.sizes[cluster] == own.sum()
        inside, outside, present_inside, present_outside = found.compare(cluster)
        assert np.allclose(inside, frame[own].mean(), rtol=1e-12, atol=1e-9)
        assert np.allclose(outside, frame[~own].mean(), rtol=1e-12, atol=1e-9)
        assert np.allclose(found.centres[cluster], frame[own].mean(), rtol=1e-6)
        assert np.allclose(present_inside, (frame[own] != 0).mean())
        assert np.allclose(present_outside, (frame[~own] != 0).mean())
        assert np.allclose(found.present, (frame != 0).mean())
    assert np.allclose(found.spread, frame.std(ddof=0), rtol=1e-9)
    assert np.allclose(found.mean, frame.mean())


def test_a_cluster_without_rows_has_no_means() -> None:
    with Local(open_dataset(np.arange(6.0).reshape(3, 2))) as engine:
        found = find_means(engine.dataset, engine.use, engine.run, np.array([0, 0, 2]), 3)
    assert found.sizes.tolist() == [2, 0, 1]
    assert np.isnan(found.compare(1).inside).all()
    assert np.isfinite(found.compare(1).outside).all()
    assert found.centres[1].tolist() == [0, 0]


def test_reordered_means_are_of_the_same_clusters() -> None:
    X, labels = draw()
    number = np.array([2, 0, 1])
    with Local(open_dataset(X)) as engine:
        before = find_means(engine.dataset, engine.use, engine.run, labels, K)
        again = find_means(engine.dataset, engine.use, engine.run, np.where(labels < 0, -1, number[labels]), K)
    for one, other in zip(before.reorder(number).sums, again.sums, strict=True):
        assert np.allclose(one, other)


def test_rows_without_labels_are_refused() -> None:
    block = open_dataset(np.ones((2, 2))).blocks[0]
    with pytest.raises(dmmc.InputError, match="no labels"):
        cluster_sums.sum_clusters(block, cluster_sums.Ask(2, np.zeros(2)))
