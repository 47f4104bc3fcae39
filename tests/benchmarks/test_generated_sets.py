"""The generated sets are what they say, the same for the same seed, and can be told apart by someone who knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generated_sets import GAUSSIANS, GENERATED, SEEDS, generate
from numpy.testing import assert_array_equal
from scipy.sparse import issparse
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier

JUDGES = {"rings": KNeighborsClassifier(10), "moons": KNeighborsClassifier(10), "sparse_topics": MultinomialNB()}


def views_of(X: Any) -> list[Any]:
    """Dense views of a set."""
    return [part.toarray() if issparse(part) else part for part in (X if isinstance(X, list) else [X])]


@pytest.mark.parametrize("name", GENERATED)
def test_a_seed_gives_one_set_of_finite_rows_with_all_its_clusters(name: str) -> None:
    (X, y), (again, same) = generate(name, 3), generate(name, 3)
    assert_array_equal(y, same)
    assert_array_equal(np.unique(y), np.arange(GENERATED[name][1]))
    assert 1_000 <= len(y) <= 5_000
    for part, other in zip(views_of(X), views_of(again), strict=True):
        assert_array_equal(part, other)
        assert len(part) == len(y)
        assert np.isfinite(part).all()
    assert not np.array_equal(views_of(generate(name, 4)[0])[0][:50], views_of(X)[0][:50])


@pytest.mark.parametrize("name", ["sparse_topics", "cells"])
def test_counts_are_whole_numbers_of_which_most_are_zero(name: str) -> None:
    X, _ = generate(name, 0)
    assert_array_equal(X.data, np.rint(X.data))
    assert X.data.min() >= 1
    assert X.nnz < 0.5 * X.shape[0] * X.shape[1]
    totals = np.asarray(X.sum(axis=1)).ravel()
    assert np.quantile(totals, 0.9) > 2 * np.quantile(totals, 0.1) > 20


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", [name for name in GENERATED if name != "no_structure"])
def test_someone_who_is_told_the_clusters_can_tell_them_apart(name: str, seed: int) -> None:
    X, y = generate(name, seed)
    rows = np.hstack(views_of(X))
    if name in ("cells", "customers_table"):
        rows = np.log1p(rows)
    half = len(y) // 2
    judge = JUDGES.get(name, LinearDiscriminantAnalysis())
    assert judge.fit(rows[:half], y[:half]).score(rows[half:], y[half:]) > 0.93


@pytest.mark.parametrize("name", GAUSSIANS)
def test_gaussians_have_one_mode(name: str) -> None:
    X = GAUSSIANS[name](np.random.default_rng(0))
    assert X.shape[0] == 2_000
    kurtosis = ((X - X.mean(axis=0)) ** 4).mean(axis=0) / X.var(axis=0) ** 2
    assert np.abs(kurtosis - 3).max() < 0.6
