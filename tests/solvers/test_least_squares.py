"""Least-squares MMC: its regression, its objective, and what it does with clusters that run empty."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

import dmmc
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model.geometry import Geometry, measure
from dmmc.model.packed_labels import pack_labels, unpack_labels
from dmmc.model.passes import Given, list_given
from dmmc.solvers import label_sums
from dmmc.solvers.driver import drive
from dmmc.solvers.label_sums import Request, Requests
from dmmc.solvers.least_squares import LeastSquares, Problem


def pose(geometry: Geometry, k: int, ridge: float = 1e-3, lowest: float = 0.0, X: Any = None) -> Problem:
    return Problem(k, ridge, 5e-4, lowest, 1.0, geometry, lambda: geometry.apply(X))


def regress(X: Any, y: Any, k: int, ridge: float, weight: Any = None) -> tuple[Any, Any, Geometry]:
    """The solver's regression on labels y, and the geometry of the rows."""
    with Local(open_dataset(X).with_columns(weight=weight, given=y)) as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        solver = LeastSquares(pose(geometry, k, ridge), engine.run)
        (sums,) = engine.run(label_sums.sum_by_label, Requests((Request(0, Given(), None),), k))
        return solver.regress(sums), sums, geometry


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [2, 3, 5])
def test_hyperplanes_are_those_of_ridge_regression_on_the_labels(k: int, sparse: bool) -> None:
    rng = np.random.default_rng(k)
    X = rng.standard_normal((200, 7)) * (rng.random((200, 7)) < 0.6) + 1.0
    y = rng.integers(k, size=200)
    ridge = 1e-2
    found, _, geometry = regress(csr_array(X) if sparse else X, y, k, ridge)
    Z = (X - geometry.mean) / geometry.unit
    share = np.bincount(y) / len(y)
    Y = np.where(y == 1, 1.0, -1.0)[:, None] if k == 2 else np.eye(k)[y] / np.sqrt(share)
    reference = Ridge(alpha=ridge * len(X), fit_intercept=True).fit(Z, Y)
    W = np.atleast_2d(reference.coef_)
    spread = (Z @ W.T).std(axis=0)
    ours = found.W[1:] - found.W[:1] if k == 2 else found.W
    np.testing.assert_allclose(ours, W / spread[:, None], atol=1e-6)
    if k > 2:  # the intercept is charged too, as a column of ones is
        np.testing.assert_allclose(found.b, Y.mean(axis=0) / (1.0 + ridge) / spread, atol=1e-6)
    else:  # halfway between the means of both clusters
        f = Z @ ours[0] + found.b[1] - found.b[0]
        np.testing.assert_allclose(f[y == 1].mean(), -f[y == 0].mean(), atol=1e-6)


def test_for_two_clusters_the_objective_is_that_of_evolutionary_mmc() -> None:
    """F(y) = λ yᵀ(K + λnI)⁻¹y of (E11), with the linear kernel of centred rows."""
    rng = np.random.default_rng(0)
    X, y, ridge = rng.standard_normal((60, 4)), rng.integers(2, size=60), 1e-2
    found, _, geometry = regress(X, y, 2, ridge)
    Z = (X - geometry.mean) / geometry.unit
    K, signs = Z @ Z.T, 2.0 * y - 1.0
    F = ridge * signs @ np.linalg.solve(K + ridge * 60 * np.eye(60), signs)
    np.testing.assert_allclose(found.objective, F, rtol=1e-6)


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(1)
    X, y, weight = rng.standard_normal((80, 3)), rng.integers(3, size=80), rng.integers(1, 4, size=80)
    weighted, _, _ = regress(X, y, 3, 1e-3, weight.astype(float))
    repeated, _, _ = regress(np.repeat(X, weight, axis=0), np.repeat(y, weight), 3, 1e-3)
    np.testing.assert_allclose(weighted.W, repeated.W, rtol=1e-5)
    np.testing.assert_allclose(weighted.objective, repeated.objective, rtol=1e-6)


def search(X: Any, starts: list[Any], k: int, lowest: float = 0.0) -> tuple[Any, list[Any], Any]:
    with Local(open_dataset(X).with_columns(given=pack_labels(starts, k))) as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        solver = LeastSquares(pose(geometry, k, 1e-3, lowest, X), engine.run)
        labellings: list[Any] = list(list_given(k, len(starts)))
        state, history, _ = drive(solver, solver.init(labellings, X.shape[1]), max_iter=200)
        planes = [geometry.raw(run.at.W, run.at.b, run.at.price) for run in state.runs]
    return state, history, [(X @ p.W.T + p.b + p.price).argmax(axis=1) for p in planes]


@pytest.mark.parametrize("share", [0.5, 0.33, 0.15])
def test_two_clusters_of_uneven_sizes_are_found_and_none_runs_empty(share: float) -> None:
    rng = np.random.default_rng(2)
    truth = (rng.random(300) < share).astype(int)
    X = rng.standard_normal((300, 5)) + 3.0 * truth[:, None]
    start = np.where(rng.random(300) < 0.25, 1 - truth, truth)
    state, history, (labels,) = search(X, [start], 2)
    assert dmmc.score(labels, truth)["accuracy"] > 0.98
    assert history[-1]["objective"] < history[0]["objective"]
    assert state.runs[0].reseeded == 0


def test_on_tiny_rows_one_of_a_few_starts_ends_at_the_best_labels_of_all() -> None:
    rng = np.random.default_rng(3)
    X = np.r_[rng.standard_normal((5, 2)), rng.standard_normal((5, 2)) + 6.0]
    best = min(regress(X, np.array(y), 2, 1e-3)[0].objective for y in product((0, 1), repeat=10) if 0 < sum(y) < 10)
    starts = [rng.integers(2, size=10) for _ in range(8)]
    state, _, labels = search(X, starts, 2)
    assert all(run.ended == "converged" for run in state.runs)
    lowest = min(run.objective for run in state.runs)
    assert lowest == pytest.approx(best, abs=1e-9)
    at = [run.objective for run in state.runs].index(lowest)
    assert sorted(np.bincount(labels[at])) == [5, 5]


def test_runs_side_by_side_are_those_that_each_would_be_alone() -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((400, 6)) + 4.0 * np.eye(6)[np.arange(400) % 3]
    starts = [rng.integers(3, size=400) for _ in range(3)]
    together = search(X, starts, 3)[2]
    for start, labels in zip(starts, together, strict=True):
        np.testing.assert_array_equal(search(X, [start, start], 3)[2][0], labels)


@pytest.mark.parametrize("lowest", [0.0, 0.05])
def test_an_emptied_cluster_is_seeded_again_or_held_at_its_bound(lowest: float) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((300, 3)) + 6.0 * np.eye(3)[np.arange(300) % 3]
    start = np.zeros(300, int)
    start[:150] = 1  # label 2 has no rows
    state, _, (labels,) = search(X, [start], 3, lowest)
    assert np.isfinite(state.runs[0].at.W).all()
    assert np.isfinite(state.runs[0].objective)
    assert np.bincount(labels, minlength=3).min() >= max(1, lowest * 300)


def test_packed_labellings_come_back_one_by_one() -> None:
    rng = np.random.default_rng(6)
    several = [rng.integers(100, size=50) for _ in range(9)]
    packed = pack_labels(several, 100)
    for place, labels in enumerate(several):
        np.testing.assert_array_equal(unpack_labels(packed, 100, place), labels)
