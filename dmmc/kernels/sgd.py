"""Stochastic gradient over the rows of a block, one row a step, in numba (E19).

Rows are seen as `(x - mean) / unit`, never made: weights are kept in raw coordinates, `w / unit`, as a scale times a
vector, so that shrinking them costs one multiplication and a step costs what its row holds. Of sparse rows the mean's
part is kept as one number. Their average over the steps is kept in the same way, by its differences.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.data.blocks import Csr
from dmmc.kernels.arguments import EXACT, EXACT_INNER, FAST_INNER, compute_dtype, frozen, parts


class Path(NamedTuple):
    """Where a descent has come to, in raw coordinates, and its average over the steps."""

    W: Array
    """(d,)"""
    b: float
    mean_W: Array
    mean_b: float


class Course(NamedTuple):
    """How a descent goes: what numba needs to know besides the rows."""

    order: Array
    """Rows to visit, in order."""
    labels: Array
    """(m,) int8, or empty: then a row's label is the sign of its score plus price."""
    pulls: Array
    """(m,) derivatives that are added to those of the loss, or empty."""
    weight: Array
    """(m,), mean 1 over the rows to visit, or empty."""
    norms: Array
    """(m,) squared norms of the centred and scaled rows."""
    knots: Array
    slopes: Array
    price: float
    C: float
    box: float
    """Bound of |b|."""
    begun: float
    """The step at row number i is `rate / (begun + i)`, or `rate` where `begun` is 0."""
    rate: float
    careful: bool
    """Whether a step ends where the loss bends."""


@njit(**EXACT_INNER)
def _pull(f: float, i: int, norm: float, eta: float, course: Course) -> float:
    """How far a step moves the row's score, in units of its squared norm: minus eta C times the loss's derivative."""
    label = course.labels[i] if course.labels.size else np.int8(f + course.price >= 0.0)
    y = 2.0 * label - 1.0
    t = y * f
    knots = course.knots
    p = 0
    for q in range(knots.size):
        p += knots[q] <= t
    slope = y * course.slopes[p]
    if course.pulls.size:
        slope += course.pulls[i]
    if slope == 0.0:
        return 0.0
    step = eta * course.C * abs(slope)
    if course.weight.size:
        step *= course.weight[i]
    if course.careful:
        if slope * y < 0.0:
            if p < knots.size:
                step = min(step, (knots[p] - t) / (norm + 1.0))
        elif p > 0:
            step = min(step, (t - knots[p - 1]) / (norm + 1.0))
    return float(-step if slope > 0.0 else step)


@njit(**EXACT_INNER)
def _eta(course: Course, number: int) -> float:
    eta = course.rate / (course.begun + number) if course.begun > 0.0 else course.rate
    return min(float(eta), 0.5)


@njit(**FAST_INNER)
def _dense_score(X: Array, i: int, w: Array, mean: Array) -> float:
    real = w.dtype.type
    total = real(0)
    for j in range(w.size):
        total += w[j] * (real(X[i, j]) - mean[j])
    return float(total)


@njit(**FAST_INNER)
def _dense_add(X: Array, i: int, mean: Array, inverse: Array, step: float, behind: float, w: Array, r: Array) -> None:
    """Move w along the row, and r by as much, times what the average is behind."""
    real = w.dtype.type
    one, other = real(step), real(step * behind)
    for j in range(w.size):
        x = (real(X[i, j]) - mean[j]) * inverse[j]
        w[j] += one * x
        r[j] += other * x


@njit(**EXACT)
def _dense(X: Array, course: Course, mean: Array, inverse: Array, w: Array, r: Array, at: Array) -> None:
    """`at`: bias, sum of biases, scale, sum of scales."""
    b, biases, scale, scales = at[0], 0.0, 1.0, 0.0
    for number in range(course.order.size):
        i = course.order[number]
        norm = course.norms[i]
        eta = _eta(course, number)
        step = _pull(scale * _dense_score(X, i, w, mean) + b, i, norm, eta, course)
        scale *= 1.0 - eta
        if step != 0.0:
            _dense_add(X, i, mean, inverse, step / scale, scales, w, r)
            b = min(max(b + step, -course.box), course.box)
        scales += scale
        biases += b
    at[0], at[1], at[2], at[3] = b, biases, scale, scales


@njit(**EXACT)
def _csr(
    data: Array,
    indices: Array,
    indptr: Array,
    course: Course,
    mean: Array,
    inverse: Array,
    w: Array,
    r: Array,
    at: Array,
) -> None:
    """As `_dense`; `at` also gets how often the mean is in w, and in r: `w + at[4] mean * inverse`."""
    b, biases, scale, scales = at[0], 0.0, 1.0, 0.0
    means, behind = 0.0, 0.0
    middle = 0.0  # w . mean
    square = 0.0  # of the mean
    for j in range(w.size):
        middle += w[j] * mean[j]
        square += mean[j] * mean[j] * inverse[j]
    for number in range(course.order.size):
        i = course.order[number]
        norm = course.norms[i]
        eta = _eta(course, number)
        own, common = 0.0, 0.0
        for q in range(indptr[i], indptr[i + 1]):
            j, x = indices[q], float(data[q])
            own += w[j] * x
            common += mean[j] * inverse[j] * x
        f = scale * (own - middle + means * (common - square)) + b
        step = _pull(f, i, norm, eta, course)
        scale *= 1.0 - eta
        if step != 0.0:
            one = step / scale
            for q in range(indptr[i], indptr[i + 1]):
                j, x = indices[q], float(data[q])
                w[j] += one * x * inverse[j]
                r[j] += one * scales * x * inverse[j]
            means -= one
            behind -= one * scales
            middle += one * common
            b = min(max(b + step, -course.box), course.box)
        scales += scale
        biases += b
    at[0], at[1], at[2], at[3], at[4], at[5] = b, biases, scale, scales, means, behind


def descend(rows: Array | Csr, mean: Array, unit: Array, course: Course, W: Array, b: float) -> Path:
    """Visit rows one by one from a hyperplane.

    rows : dense (m, d) or Csr
    mean, unit : rows are seen as `(x - mean) / unit`
    course : which rows, and how
    W, b : (d,) and a number: scores are `W . (x - mean) + b`, so W is in raw coordinates and b is not
    Returns path, in the same coordinates.
    """
    values = parts(rows)
    sparse = isinstance(rows, Csr)
    dtype = np.float64 if sparse else compute_dtype(values[0].dtype)
    w, r, at = W.astype(dtype), np.zeros(len(W), dtype), np.array([b, 0.0, 1.0, 0.0, 0.0, 0.0])
    middle, inverse = frozen(mean, dtype), frozen(1.0 / unit**2, dtype)
    # numba does not look where an array ends
    m = len(course.norms)
    assert m == (rows.n_rows if isinstance(rows, Csr) else len(rows))
    assert all(len(part) in (0, m) for part in (course.labels, course.pulls, course.weight))
    (_csr if sparse else _dense)(*values, course, middle, inverse, w, r, at)
    b, biases, scale, scales, means, behind = at.tolist()
    steps = len(course.order)
    last, mean_of = w.astype(np.float64), r.astype(np.float64)
    if sparse:
        last += means * mean / unit**2
        mean_of += behind * mean / unit**2
    return Path(scale * last, b, (scales * last - mean_of) / steps, biases / steps)
