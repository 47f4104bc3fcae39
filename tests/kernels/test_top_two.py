"""The two best scores of a row, against a stable sort."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from dmmc import kernels


@pytest.mark.parametrize("k", [2, 3, 4])
def test_the_best_and_the_next_are_those_of_a_stable_sort(k: int) -> None:
    f = np.array(list(product(range(-2, 3), repeat=k)), np.float64)
    order, each = np.argsort(-f, axis=1, kind="stable"), np.arange(len(f))
    first, second, lead = kernels.top_two(f)
    assert (first == order[:, 0]).all()
    assert (second == order[:, 1]).all()
    assert (lead == f[each, order[:, 0]] - f[each, order[:, 1]]).all()
    assert first.dtype == second.dtype == np.int32
