"""The methods that the papers compare theirs with, on sets so small that the answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from baselines import (
    adaptive_subspace,
    constrained_k_means,
    discriminative_k_means,
    iterative_svr,
    label_generation,
    pca_k_means,
    projective_k_means,
    self_expression,
    spectral,
)
from sklearn.svm import SVC

import dmmc


@pytest.fixture(scope="module")
def blobs() -> tuple[Any, Any]:
    """Two clusters along the first of five features, which are far apart."""
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    return rng.standard_normal((80, 5)) + 6.0 * np.outer(2 * y - 1, np.eye(5)[0]), y


@pytest.fixture(scope="module")
def lines() -> tuple[Any, Any]:
    """Two crossing lines through the origin in three dimensions: their centres are the same."""
    rng = np.random.default_rng(1)
    y = np.arange(100) % 2
    directions = np.array([[1.0, 0.2, 0.0], [0.0, 0.2, 1.0]])
    far = rng.choice([-1, 1], 100) * rng.uniform(1, 3, 100)
    return far[:, None] * directions[y] + 0.01 * rng.standard_normal((100, 3)), y


WAYS: dict[str, Any] = {
    "iterative_svr": lambda X: iterative_svr.cluster(X, 0.1),
    "iterative_svr, Gaussian": lambda X: iterative_svr.cluster(X, 0.1, C=10.0, gamma=0.05),
    "normalised cut": lambda X: spectral.normalised_cut(spectral.affinity(X, 0.5), 2),
    "Ng, Jordan, Weiss": lambda X: spectral.ng_jordan_weiss(spectral.affinity(X, 0.5), 2),
    "PCA + k-means": lambda X: pca_k_means.cluster(X, 2),
    "discriminative k-means": lambda X: discriminative_k_means.cluster(X, 2),
    "adaptive subspace": lambda X: adaptive_subspace.cluster(X, 2),
    "label generation": lambda X: label_generation.cluster(X),
    "constrained k-means": lambda X: constrained_k_means.cluster(X, 2, []),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_baseline_finds_two_clusters_that_are_far_apart(way: str, blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    assert dmmc.score(WAYS[way](X), y)["accuracy"] == 1.0


@pytest.mark.parametrize(
    "way",
    [
        lambda X: projective_k_means.cluster(X, 2, 1, seed=3),
        lambda X: self_expression.sparse(X, 2, others=3),
        lambda X: self_expression.low_rank(X, 2),
    ],
    ids=["projective k-means", "sparse", "low rank"],
)
def test_subspace_baselines_part_two_lines_that_cross(way: Any, lines: tuple[Any, Any]) -> None:
    X, y = lines
    assert dmmc.score(way(X), y)["accuracy"] >= 0.95


def test_the_bias_of_iterative_svr_keeps_the_balance() -> None:
    scores = np.concatenate([np.full(9, 1.0), [-1.0]])
    scores = scores + 0.01 * np.arange(10)
    b = iterative_svr.choose_bias(scores, 0.2)
    assert abs(np.mean(np.where(scores + b >= 0, 1, -1))) <= 0.2


def test_the_second_vector_has_the_known_eigenvalue_and_the_cut_that_of_brute_force(blobs: tuple[Any, Any]) -> None:
    A = spectral.affinity(blobs[0], 0.5)
    V, scale = spectral.leading_vectors(A, 2)
    normal = scale[:, None] * A * scale
    np.testing.assert_allclose(normal @ V[:, 0], V[:, 0], atol=1e-8)  # 1 is the largest eigenvalue of any graph
    tiny = A[:8, :8]
    sides = [np.array([i >> j & 1 for j in range(8)], bool) for i in range(1, 255)]
    best = min(spectral.cut_value(tiny, side) for side in sides)
    assert spectral.cut_value(tiny, spectral.normalised_cut(tiny, 2).astype(bool)) == pytest.approx(best)


def test_discriminative_k_means_sees_the_kernel_of_its_formula(blobs: tuple[Any, Any]) -> None:
    X = blobs[0][:20]
    G = (X - X.mean(axis=0)) @ (X - X.mean(axis=0)).T
    ridge = 0.1 * np.linalg.eigvalsh(G)[-1]
    wanted = np.eye(20) - np.linalg.inv(np.eye(20) + G / ridge)
    E = discriminative_k_means.embed(X, 0.1)
    np.testing.assert_allclose(E @ E.T, wanted, atol=1e-8)


def test_the_box_problem_of_label_generation_is_a_support_vector_machine_without_bias(blobs: tuple[Any, Any]) -> None:
    X, y = blobs
    signs = 2.0 * y - 1.0
    rows = np.vstack([X, -X])  # mirrored rows leave such a machine no bias
    theirs = SVC(C=0.5, kernel="linear", tol=1e-8).fit(rows, np.concatenate([signs, -signs]))
    alpha = label_generation.solve_box([signs], np.ones(1), X, 1.0, np.zeros(80), 1000)
    np.testing.assert_allclose((alpha * signs) @ X, theirs.coef_[0], atol=1e-3)


def test_generated_labels_pull_most_of_all_that_keep_the_balance() -> None:
    rng = np.random.default_rng(2)
    X, alpha = rng.standard_normal((8, 2)), rng.uniform(size=8)
    every = [np.array([1.0 if i >> j & 1 else -1.0 for j in range(8)]) for i in range(256)]
    best = max(np.abs((alpha * y) @ X).max() for y in every if abs(y.mean()) <= 0.25)
    found = label_generation.generate_labels(X, alpha, 0.25)
    assert abs(found.mean()) <= 0.25
    assert np.abs((alpha * found) @ X).max() == pytest.approx(best)


def test_low_rank_coefficients_are_at_the_minimum_of_their_problem(lines: tuple[Any, Any]) -> None:
    X = lines[0][:30]
    S = np.linalg.svd(X, compute_uv=False)
    weight = 100.0
    lam = weight / S[0] ** 2
    Z = self_expression.write_by_low_rank(X, weight)

    def cost(Z: Any) -> float:
        return float(np.linalg.svd(Z, compute_uv=False).sum() + 0.5 * lam * ((X.T - X.T @ Z) ** 2).sum())

    rng = np.random.default_rng(0)
    assert all(cost(Z) <= cost(Z + 1e-3 * rng.standard_normal(Z.shape)) for _ in range(20))


def test_no_row_is_written_by_itself(lines: tuple[Any, Any]) -> None:
    Z = self_expression.write_sparsely(lines[0], 3)
    assert not np.diag(Z).any()
    assert (np.count_nonzero(Z, axis=1) <= 3).all()


def test_constrained_k_means_keeps_its_links(blobs: tuple[Any, Any]) -> None:
    X, _ = blobs
    links = [(0, 1, 1), (2, 4, -1), (6, 8, 1)]  # 0 and 1 are of different blobs, 2 and 4 of the same
    labels = constrained_k_means.cluster(X, 2, links)
    assert labels[0] == labels[1]
    assert labels[2] != labels[4]
    assert labels[6] == labels[8]
