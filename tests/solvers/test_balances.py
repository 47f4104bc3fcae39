"""Which balance evolved labels are taken of: the variance that is left against plain least squares, and the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from dmmc.solvers.balances import EQUAL, FAR, Evolved, choose_balance, find_unexplained

Array = NDArray[Any]


def whiten(X: Array, ridge: float) -> Array:
    """Φ of a linear kernel, by its definition: F(y) = 1 - |Φᵀy|²."""
    values, V = np.linalg.eigh(X @ X.T)
    values = np.maximum(values, 0.0)
    return np.asarray(V * np.sqrt(values / (len(X) * (values + ridge))))


@pytest.mark.parametrize("positive", [5, 15, 26])
def test_what_is_left_is_that_of_ridge_regression_with_a_free_bias(positive: int) -> None:
    X, y = np.random.default_rng(positive).standard_normal((30, 4)), np.where(np.arange(30) < positive, 1.0, -1.0)
    ridge = 0.7

    def left(bias: float) -> float:
        w = np.linalg.solve(X.T @ X + ridge * np.eye(4), X.T @ (y - bias))
        return float((np.sum((y - bias - X @ w) ** 2) + ridge * w @ w) / 30)

    Phi = whiten(X, ridge)
    expected = minimize_scalar(left).fun / y.var()
    assert find_unexplained(Phi.T @ y, y.mean(), Phi.sum(axis=0)) == pytest.approx(expected, rel=1e-9)


def make(limit: float, explained: float, balance: float = 0.0) -> Evolved:
    """Labels of ten rows whose fit explains a given part of them; without a mean nothing else counts."""
    return Evolved(limit, np.array([np.sqrt(explained)]), balance)


@pytest.mark.parametrize(
    ("found", "limit"),
    [
        ([make(1.0, 0.5), make(4.0, 0.9)], 4.0),  # explained far better
        ([make(4.0, 0.9), make(1.0, 0.5)], 4.0),  # in whatever order they come
        ([make(1.0, 0.5), make(4.0, 0.5 + 0.9 * EQUAL)], 1.0),  # as good, and tighter
        ([make(1.0, 0.5), make(4.0, 0.5, balance=4.0)], 1.0),  # labels that would do within the tighter limit
        ([make(1.0, 0.8), make(9.0, 0.85)], 9.0),  # a loose limit, but labels that are not very uneven
    ],
)
def test_the_tightest_balance_that_is_as_good_as_the_best_is_chosen(found: list[Evolved], limit: float) -> None:
    assert choose_balance(found, np.zeros(1), 10.0).limit == limit


@pytest.mark.parametrize(("part", "limit"), [(0.9, 9.0), (1.1, 1.0)])
def test_very_uneven_labels_count_only_where_they_are_explained_far_better(part: float, limit: float) -> None:
    ones, even, mean = np.zeros(1), make(1.0, 0.05), 0.9
    left = part * FAR * find_unexplained(even.p, 0.0, ones)
    uneven = make(9.0, (1.0 - left) * (1.0 - mean**2), balance=10.0 * mean)
    assert find_unexplained(uneven.p, mean, ones) == pytest.approx(left)
    assert choose_balance([even, uneven], ones, 10.0).limit == limit
    assert choose_balance([uneven], ones, 10.0) is uneven


def test_labels_that_are_nearly_all_alike_are_not_explained_by_their_mean() -> None:
    ones = np.array([0.9, 0.0])
    even, alike = Evolved(1.0, np.array([0.0, 0.7]), 0.0), Evolved(9.0, np.array([0.8, 0.0]), 9.0)
    assert alike.p @ alike.p > even.p @ even.p  # so its F is lower
    assert choose_balance([even, alike], ones, 10.0) is even
