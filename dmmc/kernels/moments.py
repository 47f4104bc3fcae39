"""Moments, distances and plain weighted sums of a block."""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.data.blocks import TILE_ROWS, Csr
from dmmc.kernels.arguments import EXACT, FAST, FAST_INNER, compute_dtype, count, frozen, parts

NO_WEIGHTS = np.empty(0)


@njit(**EXACT)
def _dense_moments(X: Array, shift: Array, weight: Array, first: Array, second: Array) -> None:
    for i in range(X.shape[0]):
        omega = weight[i] if weight.size else 1.0
        for j in range(X.shape[1]):
            v = float(X[i, j]) - shift[j]
            first[j] += omega * v
            second[j] += omega * v * v


@njit(**EXACT)
def _csr_moments(
    data: Array,
    indices: Array,
    indptr: Array,
    shift: Array,
    weight: Array,
    first: Array,
    second: Array,
    stored: Array,
) -> float:
    """Sums over the stored numbers, and their weight; returns the weight of all rows, added up in the same order."""
    total = 0.0
    for i in range(indptr.size - 1):
        omega = weight[i] if weight.size else 1.0
        total += omega
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            v = float(data[q]) - shift[j]
            first[j] += omega * v
            second[j] += omega * v * v
            stored[j] += omega
    return total


def moments(rows: Array | Csr, shift: Array, weight: Array | None = None) -> tuple[Array, Array]:
    """Per feature: weighted sums of `x - shift` and of its square; exactly 0 where all rows are at the shift."""
    first, second = np.zeros(len(shift)), np.zeros(len(shift))
    omega = frozen(NO_WEIGHTS if weight is None else weight, np.float64)
    about = frozen(shift, np.float64)
    if isinstance(rows, Csr):
        stored = np.zeros(len(shift))
        total = _csr_moments(*parts(rows), about, omega, first, second, stored)
        zeros = total - stored
        return first - zeros * about, second + zeros * about * about
    _dense_moments(*parts(rows), about, omega, first, second)
    return first, second


@njit(**FAST_INNER)
def _dense_distance(X: Array, i: int, centre: Array, inverse: Array) -> float:
    total = 0.0
    for j in range(centre.size):
        v = (float(X[i, j]) - centre[j]) * inverse[j]
        total += v * v
    return total


@njit(**EXACT)
def _dense_distances(X: Array, centre: Array, inverse: Array, out: Array) -> None:
    for i in range(X.shape[0]):
        out[i] = _dense_distance(X, i, centre, inverse)


@njit(**EXACT)
def _csr_distances(
    data: Array, indices: Array, indptr: Array, centre: Array, inverse: Array, base: float, out: Array
) -> None:
    for i in range(indptr.size - 1):
        total = base
        for q in range(indptr[i], indptr[i + 1]):
            j = indices[q]
            v, c = float(data[q]) * inverse[j], centre[j] * inverse[j]
            total += v * (v - 2.0 * c)
        out[i] = total


def squared_distances(rows: Array | Csr, centre: Array, inverse: Array) -> Array:
    """`sum_j ((x_j - centre_j) * inverse_j) ** 2` for every row."""
    out = np.empty(count(rows))
    about, scale = frozen(centre, np.float64), frozen(inverse, np.float64)
    if isinstance(rows, Csr):
        _csr_distances(*parts(rows), about, scale, float(np.sum((centre * inverse) ** 2)), out)
    else:
        _dense_distances(*parts(rows), about, scale, out)
    return np.maximum(out, 0.0)


@njit(**EXACT)
def _csr_weighted_sum(data: Array, indices: Array, indptr: Array, coef: Array, Z: Array) -> None:
    for i in range(indptr.size - 1):
        for q in range(indptr[i], indptr[i + 1]):
            v, j = float(data[q]), indices[q]
            for h in range(coef.shape[1]):
                Z[j, h] += coef[i, h] * v


@njit(**FAST)
def _dense_weighted_sum(X: Array, coef: Array, z: Array, Z: Array) -> None:
    """Sums of at most 128 rows in the compute type, then in float64."""
    real = z.dtype.type
    for i0 in range(0, X.shape[0], TILE_ROWS):
        stop = min(i0 + TILE_ROWS, X.shape[0])
        for h in range(coef.shape[1]):
            for i in range(i0, stop):
                c = coef[i, h]
                for j in range(X.shape[1]):
                    z[h, j] += c * real(X[i, j])
        for h in range(coef.shape[1]):
            for j in range(X.shape[1]):
                Z[h, j] += z[h, j]
                z[h, j] = 0


def weighted_sum(rows: Array | Csr, coef: Array) -> Array:
    """`coef.T @ rows` (H, d) in float64, for coefficients (m, H)."""
    H = coef.shape[1]
    if isinstance(rows, Csr):
        total = np.zeros((rows.n_features, H))
        _csr_weighted_sum(*parts(rows), frozen(coef, np.float64), total)
        return np.ascontiguousarray(total.T)
    dtype = compute_dtype(rows.dtype)
    total = np.zeros((H, rows.shape[1]))
    _dense_weighted_sum(*parts(rows), frozen(coef, dtype), np.zeros(total.shape, dtype), total)
    return total
