"""The master of the trace norm (E9): the dual over cutting planes, by an interior-point method.

The trace norm has a variational form on either side of W. On the side of the features it is the D of (E9),
d x d; on the side of the clusters it is K x K,

    1/2 |W|_*^2 = min 1/2 tr(W' E^-1 W),  E positive definite, tr E = 1,

so the master sees the planes' rows only through their inner products, and no array has a side of d. For a given E it
is (E6) with ``G_kl = tr(E Z_k Z_l')`` and ``W = E V, V = sum_k lam_k Z_k``. The conjugate of half the squared trace
norm is half the squared spectral norm, so

    max  a.lam - 1/2 |V|_2^2 - box sum_p |sum_k lam_k s_kp|   over lam >= 0, sum lam <= C

is the dual (E18), and its value at any feasible lam a certified bound.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Floats
from dmmc.master.dual_qp import Solved

STEPS = 120
"""Newton steps; typical solves need twenty."""
CENTRED = 0.25
"""The barrier falls when the squared Newton decrement, in its units, is below this."""
FALL = 0.1
"""By which factor it falls."""
EDGE = 0.95
"""Share of the way to the edge of the simplex that a step may go."""
TRIES = 40
"""Halvings of a step."""


class Mixed(NamedTuple):
    """What the master gives back.

    solved : biases and values as ever; multipliers of the planes that carry weight in the limit
    mixing, weights : shape (K, K); E, and the multipliers of all planes: ``W = E sum_k weights_k Z_k``
    """

    solved: Solved
    mixing: Floats
    weights: Floats


class _Dual(NamedTuple):
    """The dual divided by C, over x = lam / C."""

    products: Floats
    """(m, m, K * K), C times the inner products of all rows of the planes."""
    intercepts: Floats
    tilts: Floats
    box: float


class _At(NamedTuple):
    """The barrier function at (x, t), and what its derivatives are made of."""

    x: Floats
    t: float
    free: float
    """What x leaves of its sum: the flat plane's weight."""
    pulls: Floats
    """(m, K, K), ``Z_k V'``."""
    eigenvalues: Floats
    """Of ``V V'``, and their vectors."""
    vectors: Floats
    bias: Floats
    value: float


def solve(
    products: ArrayLike,
    intercepts: ArrayLike,
    tilts: ArrayLike,
    C: float,
    box: float,
    warm: ArrayLike | None = None,
    tolerance: float = 1e-6,
) -> Mixed:
    """Solve ``min 1/2 |W|_*^2 + C xi`` over planes, to a certified gap.

    A logarithm keeps lam inside the simplex, the biases inside their box, and ``t I - V V'`` positive definite, with
    t in place of the squared spectral norm. Where it is stationary, ``E = 2 mu (t I - V V')^-1`` has trace 1.

    products : shape (m, m, K, K); ``Z_k Z_l'``
    intercepts, tilts, C, box, warm : as of `master.solve`
    tolerance : done when ``value - lower_bound <= tolerance * C``
    Returns if the tolerance is not reached, the answer with the smallest certified gap; no exception.
    """
    given = np.asarray(products, np.float64)
    m, _, K, _ = given.shape
    dual = _Dual(
        C * given.reshape(m, m, K * K), np.asarray(intercepts, np.float64), np.asarray(tilts, np.float64), float(box)
    )
    corners = m + 1 + 3 * K  # the gap on the central path, in units of the barrier
    barrier, last = 1.0 / corners, 0.3 * tolerance / corners
    x = _start(dual, warm, C, K)
    if warm is not None and np.any(warm):
        barrier *= FALL
    at = _evaluate(dual, x, None, max(barrier, last), K)
    best: Mixed | None = None
    for _ in range(STEPS):
        direction, decrement = _newton(dual, at, barrier, K)
        if barrier > last and decrement <= CENTRED * barrier:
            barrier = max(FALL * barrier, last)
            at = _evaluate(dual, at.x, None, barrier, K)
            continue
        if barrier <= last and decrement <= barrier:  # E is as near to its limit as the point is to the path
            found = _certify(dual, at, barrier, C, K)
            best = found if best is None or _gap(found) < _gap(best) else best
            if _gap(best) <= tolerance * C:
                break
        moved = _move(dual, at, direction, decrement, barrier, K)
        if moved is None:
            break
        at = moved
    return _certify(dual, at, barrier, C, K) if best is None else best


def _gap(found: Mixed) -> float:
    return found.solved.value - found.solved.lower_bound


def _start(dual: _Dual, warm: ArrayLike | None, C: float, K: int) -> Floats:
    """Weights inside the simplex: even ones, half way to those that are known, as large as serves the value best."""
    m = len(dual.intercepts)
    x = np.full(m, 1.0 / (m + 1))
    if warm is not None and np.any(warm):
        known = np.zeros(m)
        known[: len(np.asarray(warm))] = np.maximum(np.asarray(warm, np.float64)[:m], 0.0) / C
        x = 0.5 * (x + known / max(1.0, known.sum()))
    square = (x @ (x @ dual.products)).reshape(K, K)
    top = float(np.linalg.eigvalsh(0.5 * (square + square.T))[-1])
    return x * min(1.0, float(dual.intercepts @ x) / max(top, 1e-300))


def _evaluate(dual: _Dual, x: Floats, t: float | None, barrier: float, K: int) -> _At:
    """All that is needed at (x, t); without t, at the best one. Out of bounds the value is minus infinity."""
    free = 1.0 - float(x.sum())
    flat = x @ dual.products
    square = (x @ flat).reshape(K, K)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (square + square.T))
    if t is None:
        t = _lift(eigenvalues, barrier)
    inside = free > 0 and bool((x > 0).all()) and t > eigenvalues[-1]
    tilt = x @ dual.tilts
    bias, cost = _biases(tilt, dual.box, barrier)
    value = -np.inf
    if inside:
        logs = np.log(x).sum() + np.log(free) + np.log(t - eigenvalues).sum()
        value = float(dual.intercepts @ x - 0.5 * t - cost + barrier * logs)
    return _At(x, float(t), free, flat.reshape(-1, K, K), eigenvalues, vectors, bias, value)


def _lift(eigenvalues: Floats, barrier: float) -> float:
    """The t at which ``2 mu tr(t I - V V')^-1 = 1``: Newton's method on the reciprocal, from the right end."""
    top, K = float(eigenvalues[-1]), len(eigenvalues)
    away = 2.0 * barrier * K
    for _ in range(100):
        inverse = 1.0 / (away + (top - eigenvalues))
        total, slope = 2.0 * barrier * inverse.sum(), 2.0 * barrier * (inverse**2).sum()
        step = total * (1.0 - total) / slope
        away = max(away - step, 0.1 * away)
        if abs(step) <= 1e-13 * away:
            break
    return top + away


def _biases(tilt: Floats, box: float, barrier: float) -> tuple[Floats, float]:
    """The biases inside their box that a logarithm holds back, and what they cost: ``box |tilt|`` without it."""
    if box == 0.0:
        return np.zeros_like(tilt), 0.0
    bias = tilt * box**2 / (barrier + np.hypot(barrier, tilt * box))
    room = (box - bias) * (box + bias)
    return bias, float(bias @ tilt + barrier * np.log(room / box**2).sum())


def _newton(dual: _Dual, at: _At, barrier: float, K: int) -> tuple[Floats, float]:
    """Newton's direction in (x, t), and the squared decrement."""
    m = len(at.x)
    inverse = 1.0 / (at.t - at.eigenvalues)
    E = 2.0 * barrier * (at.vectors * inverse) @ at.vectors.T
    # ``xi - (a_k - <Z_k, W> - s_k.b) = mu / x_k`` with ``xi = mu / free`` on the central path
    slack = dual.intercepts - at.pulls.reshape(m, -1) @ E.ravel() - dual.tilts @ at.bias
    gradient = np.append(slack + barrier / at.x - barrier / at.free, barrier * inverse.sum() - 0.5)
    root = np.sqrt(inverse)
    turned = at.vectors.T @ (at.pulls + at.pulls.transpose(0, 2, 1)) @ at.vectors
    scaled = (turned * (root[:, None] * root)).reshape(m, -1)
    H = np.empty((m + 1, m + 1))
    H[:m, :m] = dual.products @ E.ravel() + barrier * (scaled @ scaled.T + 1.0 / at.free**2)
    H[range(m), range(m)] += barrier / at.x**2
    if dual.box > 0.0:
        room = (dual.box - at.bias) * (dual.box + at.bias)
        bend = room**2 / (2.0 * barrier * (dual.box**2 + at.bias**2))
        H[:m, :m] += (dual.tilts * bend) @ dual.tilts.T
    H[m, :m] = H[:m, m] = -barrier * np.einsum("kii,i->k", turned, inverse**2)
    H[m, m] = barrier * (inverse**2).sum()
    H = 0.5 * (H + H.T)
    scale = 1.0 / np.sqrt(H.diagonal())  # weights next to 0 have curvatures many orders apart
    direction = scale * np.linalg.lstsq(scale[:, None] * H * scale, scale * gradient, rcond=1e-15)[0]
    return direction, float(gradient @ direction)


def _move(dual: _Dual, at: _At, direction: Floats, decrement: float, barrier: float, K: int) -> _At | None:
    """A step that raises the value; None if there is none, which is rounding."""
    step, lift = direction[:-1], float(direction[-1])
    reach = min(float((at.x[step < 0] / -step[step < 0]).min(initial=np.inf)), np.inf)
    if step.sum() > 0:
        reach = min(reach, at.free / float(step.sum()))
    length = min(1.0, EDGE * reach)
    for _ in range(TRIES):
        new = _evaluate(dual, at.x + length * step, at.t + length * lift, barrier, K)
        if new.value > at.value + 0.01 * length * decrement:
            return new
        length *= 0.5
    return None


def _certify(dual: _Dual, at: _At, barrier: float, C: float, K: int) -> Mixed:
    """Primal and dual value at the biases and ``W = E V``, and which planes carry weight in the limit."""
    E = 2.0 * barrier * (at.vectors / (at.t - at.eigenvalues)) @ at.vectors.T
    E /= np.trace(E)
    square = np.tensordot(at.x, at.pulls, axes=1)
    image = np.linalg.eigvalsh(E @ (0.5 * (square + square.T)) @ E)
    norm = float(np.sqrt(np.maximum(image, 0.0)).sum())
    bias = at.bias - at.bias.mean() if K > 1 else at.bias
    below = dual.intercepts - at.pulls.reshape(len(at.x), -1) @ E.ravel() - dual.tilts @ bias
    loss = max(0.0, float(below.max()))
    value = 0.5 * norm**2 + loss
    bound = float(dual.intercepts @ at.x) - 0.5 * max(0.0, float(at.eigenvalues[-1]))
    bound -= dual.box * float(np.abs(at.x @ dual.tilts).sum())
    # a plane's weight and its slack have the barrier as their product: the larger one is the one that stays
    kept = np.where(at.x >= loss - below, at.x, 0.0)
    kept *= at.x.sum() / max(kept.sum(), 1e-300)
    return Mixed(Solved(C * kept, bias, C * value, C * min(bound, value), "barrier"), E, C * at.x)
