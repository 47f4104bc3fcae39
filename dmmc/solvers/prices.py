"""Count bounds: prices on labels, raised or lowered until every cluster's weight is within its bounds.

Labels are `argmax(f_p + price_p)`. A cluster gets the rows whose lead over all other labels is at least 0, so the
price that gives it a wanted weight is a quantile of its leads: two histogram passes find it.
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

ROUNDS = 10
"""Raising one price takes rows from others, so prices are found again until all counts hold."""
BINS = 256
SLACK = 1.5
"""A price is stale when its cluster is this far inside the bound the price was made for."""


def violated(counts: Array, lowest: float, highest: float) -> bool:
    """Whether any cluster's share of the weight is out of bounds (by more than rounding)."""
    return bool(np.any(counts < lowest * (1 - 1e-9)) or np.any(counts > highest * (1 + 1e-9)))


def stale(counts: Array, price: Array, lowest: float, highest: float) -> bool:
    """Whether a price is on although its cluster has left the bound."""
    by_label = np.append(0.0, price) if len(price) == 1 else price
    relative = by_label - np.median(by_label)
    return bool(np.any((relative > 0) & (counts > SLACK * lowest) & (counts < highest / SLACK)))


def find(oracle: Oracle, planes: Hyperplanes, total: float, lowest: float, highest: float) -> Array:
    """Prices that bring every label's share of the weight into [lowest, highest], as nearly as ties allow."""
    K = len(planes.W)
    k = max(K, 2)
    prices = np.zeros(k)
    coarse = np.concatenate([-np.geomspace(1e4, 1e-5, BINS // 2), [0.0], np.geomspace(1e-5, 1e4, BINS // 2)])
    for _ in range(ROUNDS):
        at = planes._replace(price=_folded(prices, K))
        weight = oracle(passes.leads, Gaps(at, np.repeat(coarse[None], k, axis=0))) / total
        counts = weight[:, 1 + BINS // 2 :].sum(axis=1)
        low, high = counts < lowest, counts > highest
        if not violated(counts, lowest, highest):
            break
        # leads beyond the bin edges at both ends are open; the refined edges lie inside one coarse bin
        bins = [_bin(weight[p], lowest if low[p] else highest, bool(low[p])) for p in range(k)]
        fine = np.stack([np.linspace(coarse[max(j - 1, 0)], coarse[min(j, len(coarse) - 1)], BINS + 1) for j in bins])
        weight = oracle(passes.leads, Gaps(at, fine)) / total
        for p in np.flatnonzero(low | high):
            j = _bin(weight[p], lowest if low[p] else highest, bool(low[p]))
            # raising to the lower edge of the bin takes all of it in; lowering to its upper edge leaves all of it out
            prices[p] -= fine[p][max(j - 1, 0)] if low[p] else fine[p][min(j, BINS)]
    return _folded(prices, K)


def _bin(weight: Array, wanted: float, at_least: bool) -> int:
    """Index of the histogram bin at which the weight from the top reaches (or would exceed) `wanted`."""
    above = np.cumsum(weight[::-1])[::-1]
    reached = np.flatnonzero(above >= wanted if at_least else above > wanted)
    return int(reached[-1]) if len(reached) else 0


def _folded(prices: Array, K: int) -> Array:
    return np.array([prices[1] - prices[0]]) if K == 1 else prices - prices.mean()
