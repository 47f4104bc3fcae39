"""Looking at the data: what is not finite is named at its place, digests notice every byte, moments are numpy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Dataset
from dmmc.data.open import open_dataset
from dmmc.model import inspect
from dmmc.model.inspect import Limits

Array = NDArray[Any]


def as_csr(X: Array) -> Csr:
    m = sparse.csr_array(X)
    return Csr(m.data, m.indices.astype(np.uint32), m.indptr.astype(np.int64), X.shape[1])


def block_of(X: Array, sparse_rows: bool, start: int = 0, weight: Array | None = None) -> Block:
    return Block(0, start, start + len(X), as_csr(X) if sparse_rows else X, weight)


both = pytest.mark.parametrize("sparse_rows", [False, True], ids=["dense", "csr"])


@both
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_the_first_number_that_is_not_finite_is_named_by_row_and_column(
    bad: float, dtype: str, sparse_rows: bool
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(10):
        X = rng.integers(0, 3, (40, 7)).astype(dtype)
        places = np.sort(rng.choice(280, 2, replace=False))
        X.flat[places] = bad
        found = inspect.inspect(block_of(X, sparse_rows, start=1000), np.zeros(7))
        assert found.nonfinite == (1000 + places[0] // 7, places[0] % 7)
        assert not np.isfinite(found.largest)


@both
def test_a_bad_number_is_found_in_a_row_of_weight_0_too(sparse_rows: bool) -> None:
    X = np.ones((5, 2))
    X[3, 1] = np.nan
    found = inspect.inspect(block_of(X, sparse_rows, weight=np.array([1.0, 1, 1, 0, 1])), np.zeros(2))
    assert found.nonfinite == (3, 1)


@both
def test_large_numbers_are_finite_and_their_magnitude_is_told(sparse_rows: bool) -> None:
    for dtype, large in (("float32", np.finfo("f4").max), ("float64", 1e300)):
        X = np.zeros((5, 2), dtype)
        X[1, 1], X[2, 0] = 1, -large
        found = inspect.inspect(block_of(X, sparse_rows), np.zeros(2))
        assert found.nonfinite is None
        assert found.largest == np.float64(large)


@both
@pytest.mark.parametrize("dtype", ["uint8", "int32", "bool"])
def test_whole_numbers_are_always_finite(dtype: str, sparse_rows: bool) -> None:
    X = np.array([[0, 1], [1, 1], [1, 0]]).astype(dtype)
    found = inspect.inspect(block_of(X, sparse_rows), np.zeros(2))
    assert found.nonfinite is None
    assert found.moments.first.tolist() == [2, 2]
    assert found.moments.weight == 3


def test_rows_without_a_stored_number_are_looked_at_too() -> None:
    found = inspect.inspect(block_of(np.zeros((4, 3)), sparse_rows=True), np.ones(3))
    assert found.nonfinite is None
    assert found.moments.first.tolist() == [-4, -4, -4]
    assert found.moments.second.tolist() == [4, 4, 4]


@both
@pytest.mark.parametrize("dtype", ["float32", "uint8", "bool"])
def test_the_digest_changes_with_any_number_and_with_nothing_else(dtype: str, sparse_rows: bool) -> None:
    rng = np.random.default_rng(1)
    X = rng.integers(0, 2, (6, 4)).astype(dtype)

    def digest(X: Array, weight: Array | None = None) -> str:
        return inspect.inspect(block_of(X, sparse_rows, weight=weight), np.zeros(4)).digest

    assert digest(X) == digest(X.copy(), np.full(6, 2.0))
    digests = {digest(X)}
    for i in range(X.size):
        other = X.copy()
        other.flat[i] = 1 - int(other.flat[i])
        digests.add(digest(other))
    assert len(digests) == X.size + 1


def test_sparse_rows_with_the_same_values_in_other_places_have_another_digest() -> None:
    places = (np.eye(3), np.eye(3)[::-1].copy(), np.diag([1.0, 1.0], 1) + np.diag([1.0], -2))
    digests = {inspect.inspect(block_of(X, sparse_rows=True), np.zeros(3)).digest for X in places}
    assert len(digests) == 3


@both
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_the_sentence_says_what_is_where_and_what_to_do(bad: float, what: str, sparse_rows: bool) -> None:
    X = np.ones((5, 3))
    X[2, 1] = bad
    dataset: Dataset = open_dataset(sparse.csr_array(X) if sparse_rows else X)
    sentence = str(inspect.not_finite(dataset, (2, 1)))
    assert f"contains {what} at row 2, column 1; every number must be finite" in sentence
    assert dataset.name in sentence
    assert sentence.endswith("impute or drop such rows first.")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), start=st.integers(0, 50), sparse_rows=st.booleans(), weighted=st.booleans())
def test_limits_multiply_the_weights_of_their_rows(seed: int, start: int, sparse_rows: bool, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, (30, 3)).astype(np.float64)
    shift = rng.integers(-3, 4, 3) / 4.0
    weight = rng.integers(0, 4, 30) / 2.0 if weighted else None
    rows = np.flatnonzero(rng.random(100) < 0.3)
    limits = Limits(rows, rng.integers(1, 4, len(rows)) / 4.0)
    whole = np.ones(100)
    whole[limits.rows] = limits.factors
    omega = whole[start : start + 30] * (1.0 if weight is None else weight)
    got = inspect.describe(block_of(X, sparse_rows, start, weight), (shift, limits))
    np.testing.assert_allclose(got.first, omega @ (X - shift), atol=1e-12)
    np.testing.assert_allclose(got.second, omega @ (X - shift) ** 2, atol=1e-12)
    assert got.weight == pytest.approx(omega.sum())


@both
def test_distances_are_those_of_numpy(sparse_rows: bool) -> None:
    rng = np.random.default_rng(2)
    X, centre, inverse = rng.random((20, 5)), rng.random(5), rng.random(5)
    got = inspect.distances(block_of(X, sparse_rows), (centre, inverse))
    np.testing.assert_allclose(got, np.linalg.norm((X - centre) * inverse, axis=1))
