"""Count bounds: prices on labels, raised or lowered until every cluster's weight is within its bounds.

Labels are `argmax(f_p + price_p)`. The right prices minimise `mean_i max_p (f_ip + price_p)` minus `lowest * price_p`
for each price above 0 and minus `highest * price_p` for each one below: a price is above 0 only on a cluster at its
lowest weight, below 0 only on one at its highest.

A cluster gets the rows whose lead over all other labels is at least 0, so the price that gives it a wanted weight is a
quantile of its leads. Each round takes a histogram of all leads, in bins that are finer the nearer they are to 0, and
moves all wrong prices at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc import passes
from dmmc.passes import Gaps, Hyperplanes

Array = NDArray[Any]
Oracle = Callable[[Callable[..., Any], Any], Any]

ROUNDS = 100
BOLD = 3
"""Rounds that move prices all the way; later ones go half of it, as raising one price takes rows from others."""
SIDE = 160
"""Bins on either side of 0, each 17 % wider than the next one inwards."""
SLACK = 1.5
"""A price is stale when its cluster is this far inside the bound the price was made for."""

EDGES = np.concatenate([-np.geomspace(1e4, 1e-7, SIDE), [0.0], np.geomspace(1e-7, 1e4, SIDE)])


def violated(counts: Array, lowest: float, highest: float) -> bool:
    """Whether any cluster's share of the weight is out of bounds (by more than rounding)."""
    return bool(_excess(counts, *_bounds(len(counts), lowest, highest)) > 0)


def stale(counts: Array, price: Array, lowest: float, highest: float) -> bool:
    """Whether a price is on although its cluster has left the bound."""
    if len(price) == 1:  # raising label 1 is lowering label 0
        least = max(lowest, 1.0 - highest)
        return bool(price[0] != 0 and counts[int(price[0] > 0)] > SLACK * least and counts.max() < 1.0 - least)
    return bool(np.any((price > 0) & (counts > SLACK * lowest)) or np.any((price < 0) & (SLACK * counts < highest)))


def find(
    oracle: Oracle, planes: Hyperplanes, total: float, lowest: float, highest: float, start: Array | None = None
) -> Array:
    """Prices that bring every label's share of the weight into [lowest, highest], as nearly as ties allow.

    Parameters
    ----------
    oracle : a pass and its params to the sum over all rows
    planes : hyperplanes; their own prices are not looked at
    total : weight of all rows
    lowest, highest : bounds, as fractions of the weight
    start : prices to start from
    """
    K = len(planes.W)
    k = max(K, 2)
    low, high = _bounds(k, lowest, highest)
    if K == 1:
        low[0], high[0] = 0.0, 1.0  # one price rules both counts
        low[1], high[1] = max(lowest, 1.0 - highest), min(highest, 1.0 - lowest)
    prices = np.zeros(k)
    if start is not None:
        prices[k - K :] = start
    best, least = prices, np.inf
    for turn in range(ROUNDS):
        at = planes._replace(price=prices[k - K :])
        weight = oracle(passes.leads, Gaps(at, np.repeat(EDGES[None], k, axis=0))) / total
        counts = weight[:, SIDE + 1 :].sum(axis=1)
        excess = _excess(counts, low, high)
        if excess < least:
            best, least = prices.copy(), excess
        if excess == 0:
            break
        low_ones, high_ones = counts < low, counts > high
        if turn >= BOLD and low_ones.any() and high_ones.any():
            (high_ones if turn % 2 else low_ones)[:] = False
        for p in np.flatnonzero(low_ones | high_ones):
            prices[p] += _step(weight[p], float(low[p] if low_ones[p] else high[p]))
    return best[k - K :]


def _bounds(k: int, lowest: float, highest: float) -> tuple[Array, Array]:
    """Bounds of each label, widened by rounding."""
    return np.full(k, lowest * (1 - 1e-9)), np.full(k, highest * (1 + 1e-9))


def _excess(counts: Array, low: Array, high: Array) -> float:
    return float(np.maximum(low - counts, 0.0).sum() + np.maximum(counts - high, 0.0).sum())


def _step(weight: Array, aim: float) -> float:
    """How far to raise a label's price (or, below 0, lower it) to give it the weight `aim`: a quantile of its leads."""
    above = np.cumsum(weight[::-1])[::-1]  # weight of the leads in this bin or higher ones
    j = int(np.clip(np.count_nonzero(above >= aim) - 1, 1, len(EDGES) - 1))
    part = np.clip((above[j] - aim) / weight[j], 0.0, 1.0) if weight[j] > 0 else 0.0
    return -float(EDGES[j - 1] + part * (EDGES[j] - EDGES[j - 1]))
