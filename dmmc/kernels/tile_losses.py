"""The losses of a tile of rows, in numba: from scores to labels, coefficients and sums.

Loops have no branch that a processor could guess wrong. `dense_pass` and `csr_pass` call `tile_losses`.
"""

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT_INNER, Ask, Scratch, Sums

GIVEN, OWN, FROZEN, NEAREST = 0, 1, 2, 3
"""What decides a row's label and its piece of the loss.

GIVEN    the label is given, the margin is that label's
OWN      the label is the largest score plus price, the margin is that label's
FROZEN   the label is given, the piece of the loss is that of the label which OWN would take
NEAREST  the label is the largest score; the loss is minus that score (squared distances, up to a constant)
"""


@njit(**EXACT_INNER)
def _piece(t: float, knots: Array) -> int:
    """Number of knots at or below t."""
    p = 0
    for q in range(knots.size):
        p += knots[q] <= t
    return p


@njit(**EXACT_INNER)
def _binary_losses(F: Array, m: int, i0: int, ask: Ask, coef: Array, sums: Sums) -> None:
    """K = 1: one hyperplane a group, labels 0 and 1 by the sign of its score (E2, E3)."""
    b, _, modes, labels, price, table, weight, out, _ = ask
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        bias, lift = b[g], b[g] + price[g, 0]
        tilt, intercept, risk, all_weight, above = 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(m):
            f = F[g, i] + bias
            own = np.int64(F[g, i] + lift >= 0.0)
            y = own if mode == OWN else np.int64(labels[g, i0 + i])
            sign = 2.0 * y - 1.0
            t = (2.0 * own - 1.0) * f if mode == FROZEN else sign * f
            p = _piece(t, knots)
            omega = weight[i0 + i] if weight.size else 1.0
            pull = -slopes[p] * omega * sign
            coef[g, i] = pull
            tilt += pull
            intercept += intercepts[p] * omega
            risk += (intercepts[p] + slopes[p] * t) * omega
            all_weight += omega
            above += omega * y
            if out.size:
                out[g, i0 + i] = y
        sums.tilt[g] += tilt
        sums.intercept[g] += intercept
        sums.risk[g] += risk
        sums.counts[g, 0] += all_weight - above
        sums.counts[g, 1] += above


@njit(**EXACT_INNER)
def _largest(F: Array, h: int, K: int, i: int, b: Array, price: Array, g: int) -> int:
    """Label of the largest score plus price; ties to the lowest index."""
    best, top = 0, F[h, i] + b[h] + price[g, 0]
    for p in range(1, K):
        f = F[h + p, i] + b[h + p] + price[g, p]
        if f > top:
            best, top = p, f
    return best


@njit(**EXACT_INNER)
def _runner_up(F: Array, h: int, K: int, i: int, b: Array, y: int) -> int:
    """Label of the largest score but y's; ties to the lowest index."""
    best = 1 if y == 0 else 0
    top = F[h + best, i] + b[h + best]
    for p in range(best + 1, K):
        f = F[h + p, i] + b[h + p]
        if p != y and f > top:
            best, top = p, f
    return best


@njit(**EXACT_INNER)
def _summed_losses(
    F: Array, h: int, K: int, i: int, y: int, g: int, omega: float, ask: Ask, coef: Array, sums: Sums
) -> None:
    """The losses of a row's margins to all other labels, added up (docs/mathematics.md, "More clusters")."""
    b = ask.b
    knots, intercepts, slopes = ask.table
    own, all_pulls = F[h + y, i] + b[h + y], 0.0
    for r in range(K):
        if r != y:
            t = own - F[h + r, i] - b[h + r]
            p = _piece(t, knots)
            pull = -slopes[p] * omega
            coef[h + r, i] = -pull
            all_pulls += pull
            sums.tilt[h + r] -= pull
            sums.intercept[g] += intercepts[p] * omega
            sums.risk[g] += (intercepts[p] + slopes[p] * t) * omega
    coef[h + y, i] = all_pulls
    sums.tilt[h + y] += all_pulls


@njit(**EXACT_INNER)
def _multi_losses(F: Array, m: int, i0: int, ask: Ask, coef: Array, sums: Sums) -> None:
    """K > 1: labels by the largest score, margins to the runner-up (E7, E8) or to all others, or nearest centres."""
    b, K, modes, labels, price, table, weight, out, summed = ask
    knots, intercepts, slopes = table
    for g in range(price.shape[0]):
        mode = modes[g]
        h = g * K
        for p in range(K):
            for i in range(m):
                coef[h + p, i] = 0
        for i in range(m):
            omega = weight[i0 + i] if weight.size else 1.0
            own = 0 if mode == GIVEN else _largest(F, h, K, i, b, price, g)
            y = own if mode in (OWN, NEAREST) else labels[g, i0 + i]
            sums.counts[g, y] += omega
            if out.size:
                out[g, i0 + i] = y
            if mode == NEAREST:
                coef[h + y, i] = omega
                sums.tilt[h + y] += omega
                sums.risk[g] -= (F[h + y, i] + b[h + y]) * omega
                continue
            if summed:
                _summed_losses(F, h, K, i, y, g, omega, ask, coef, sums)
                continue
            r = _runner_up(F, h, K, i, b, y)
            top, next_to = y, r
            if mode == FROZEN and own != y:
                top, next_to = own, _runner_up(F, h, K, i, b, own)
            t = F[h + top, i] + b[h + top] - F[h + next_to, i] - b[h + next_to]
            p = _piece(t, knots)
            pull = -slopes[p] * omega
            if pull != 0.0:
                coef[h + y, i] = pull
                coef[h + r, i] = -pull
                sums.tilt[h + y] += pull
                sums.tilt[h + r] -= pull
            sums.intercept[g] += intercepts[p] * omega
            sums.risk[g] += (intercepts[p] + slopes[p] * t) * omega


@njit(**EXACT_INNER)
def tile_losses(m: int, i0: int, ask: Ask, s: Scratch, sums: Sums) -> None:
    """Losses of m rows from their scores: coefficients of the weighted sums, and all sums but those."""
    if ask.K == 1:
        _binary_losses(s.scores, m, i0, ask, s.coef, sums)
    else:
        _multi_losses(s.scores, m, i0, ask, s.coef, sums)
