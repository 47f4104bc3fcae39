"""The highest and the next highest of each row's scores."""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT


@njit(**EXACT)
def _top_two(f: Array, first: Array, second: Array, lead: Array) -> None:
    for i in range(f.shape[0]):
        best, best_at = -np.inf, 0
        next_best, next_at = -np.inf, -1
        for j in range(f.shape[1]):
            value = f[i, j]
            if value > best:
                next_best, next_at = best, best_at if j > 0 else -1
                best, best_at = value, j
            elif value > next_best or (next_at < 0 and j > 0):
                next_best, next_at = value, j
        first[i], second[i], lead[i] = best_at, next_at, best - next_best


def top_two(f: Array) -> tuple[Array, Array, Array]:
    """Columns (m,) int32 of the highest and the next highest of scores (m, K), K > 1, and the difference of the two.

    Of equal scores the first column is the higher one.
    """
    first, second = np.empty(len(f), np.int32), np.empty(len(f), np.int32)
    lead = np.empty(len(f))
    _top_two(np.ascontiguousarray(f, np.float64), first, second, lead)
    return first, second, lead
