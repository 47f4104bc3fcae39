"""Decision values of rows that may hold NaN or infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dmmc.data.blocks import Block, Csr
from dmmc.features import maps
from dmmc.model.passes import Hyperplanes


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_scores_of_rows_that_are_not_finite_give_the_place_instead(sparse_rows: bool, bad: float) -> None:
    X = np.ones((9, 3), np.float32)
    decision = (None, Hyperplanes(np.random.default_rng(0).standard_normal((1, 3)), np.zeros(1), np.zeros(1)))

    def block() -> Block:
        rows: Any = X
        if sparse_rows:
            csr = sparse.csr_array(X)
            rows = Csr(csr.data, csr.indices.astype(np.uint32), csr.indptr.astype(np.int64), 3)
        return Block(0, 100, 109, rows)

    np.testing.assert_array_equal(maps.check_and_score(block(), decision), maps.scores(block(), decision))
    X[4, 2] = X[7, 0] = bad
    assert maps.check_and_score(block(), decision) == (104, 2)
    # opposite infinities must not cancel, and large numbers are not infinite
    X[4, 2] = X[7, 0] = np.finfo(np.float32).max
    assert isinstance(maps.check_and_score(block(), decision), np.ndarray)
