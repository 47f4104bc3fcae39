"""Count bounds: prices on labels, raised or lowered until every cluster's weight is within its bounds.

Labels are `argmax(f_p + price_p)`. A cluster gets the rows whose lead over all other labels is at least 0, so the price
that gives it a wanted weight is a quantile of its leads. Each round takes a histogram of all leads, in bins that are
finer the nearer they are to 0, and moves the prices of the clusters that are out of bounds.
"""

import numpy as np

from dmmc.array_types import Array
from dmmc.model import passes
from dmmc.model.passes import Gaps, Hyperplanes, Oracle

ROUNDS = 60
"""Raising one price takes rows from other clusters, so prices are found again until all counts hold."""
BOLD = 3
"""Rounds that move all wrong prices at once; later ones only raise or only lower, or they might go round in circles."""
EXACT = 8
"""Rounds in which a price must also be no larger than needed: its cluster within 10 % of the bound that it is for."""
SIDE = 160
"""Bins on either side of 0, each 17 % wider than the next one inwards."""
EDGES = np.concatenate([-np.geomspace(1e4, 1e-7, SIDE), [0.0], np.geomspace(1e-7, 1e4, SIDE)])
SLACK = 1.5
"""A price is stale when its cluster is this far inside the bound the price was made for."""


def is_violated(counts: Array, lowest: float, highest: float) -> bool:
    """Whether any cluster's share of the weight is out of bounds (by more than rounding)."""
    return _excess(counts, *_bounds(len(counts), lowest, highest)) > 0


def is_stale(counts: Array, price: Array, lowest: float, highest: float) -> bool:
    """Whether a price is on although its cluster is well inside its bounds."""
    if len(price) == 1:  # raising label 1 is lowering label 0
        raised = int(price[0] > 0)
        return bool(price[0] != 0 and counts[raised] > SLACK * max(lowest, 1.0 - highest))
    return bool(np.any((price > 0) & (counts > SLACK * lowest)) or np.any((price < 0) & (SLACK * counts < highest)))


def find_prices(
    oracle: Oracle, planes: Hyperplanes, total: float, lowest: float | Array, highest: float | Array
) -> Array:
    """Prices that bring every label's share of the weight into [lowest, highest], as nearly as ties allow.

    Bounds are those of all labels, or of each. One price a hyperplane; 0 for a cluster that was never out of bounds.
    """
    K = len(planes.W)
    k = max(K, 2)
    low, high = _bounds(k, lowest, highest)
    if K == 1:  # one price rules both counts, so label 1 bears the bounds of both
        low, high = np.array([0.0, max(low[1], 1.0 - high[0])]), np.array([1.0, min(high[1], 1.0 - low[0])])
    prices = np.zeros(k)
    best, least = prices, np.inf
    edges = np.repeat(EDGES[None], k, axis=0)
    for turn in range(ROUNDS):
        weight = oracle(passes.leads, Gaps(planes._replace(price=prices[k - K :]), edges)) / total
        counts = weight[:, SIDE + 1 :].sum(axis=1)
        excess = _excess(counts, low, high)
        floor, ceiling = low, high
        if turn < EXACT:
            floor = np.where(prices < 0, np.maximum(low, 0.9 * high), low)
            ceiling = np.where(prices > 0, np.minimum(high, 1.1 * low), high)
        if excess < least or (excess == least == 0.0):
            best, least = prices.copy(), excess
        if _excess(counts, floor, ceiling) == 0:
            break
        raising, lowering = counts < floor, counts > ceiling
        if turn >= BOLD and raising.any() and lowering.any():
            (lowering if turn % 2 else raising)[:] = False
        for p in np.flatnonzero(raising | lowering):
            moved = prices[p] - _threshold(weight[p], floor[p], ceiling[p], bool(raising[p]))
            # a price that was too large may go, but not turn into its opposite, unless the bound across asks for it
            needless = low[p] <= counts[p] <= high[p]
            prices[p] = 0.0 if needless and moved * prices[p] < 0 else moved
    return best[k - K :]


def _bounds(k: int, lowest: float | Array, highest: float | Array) -> tuple[Array, Array]:
    """Bounds of each label, widened by rounding."""
    return np.full(k, lowest * (1 - 1e-9)), np.full(k, highest * (1 + 1e-9))


def _excess(counts: Array, low: Array, high: Array) -> float:
    """Weight out of bounds."""
    return float(np.maximum(low - counts, 0.0).sum() + np.maximum(counts - high, 0.0).sum())


def _threshold(weight: Array, low: float, high: float, raising: bool) -> float:
    """The lead from which on rows must belong to a label if its weight is to be in [low, high]."""
    above = np.cumsum(weight[::-1])[::-1]  # weight of the leads in this bin or higher ones
    reach = np.count_nonzero(above >= low) - 1 if raising else np.count_nonzero(above > high)
    first = int(np.clip(reach, 1, len(EDGES) - 1))
    if not low <= above[first] <= high:
        # more rows in one bin than may change sides: take a part of it, next time the bins there are finer
        aim, j = (low, first) if raising else (high, max(first - 1, 1))
        part = np.clip((above[j] - aim) / weight[j], 0.0, 1.0) if weight[j] > 0 else 0.0
        return float(EDGES[j - 1] + part * (EDGES[j] - EDGES[j - 1]))
    # the middle of the gap, lest two labels outbid each other for one row for ever by next to nothing
    below, taken = np.flatnonzero(weight[:first]), first + np.flatnonzero(weight[first:])
    upper = EDGES[taken[0] - 1] if len(taken) else EDGES[-1]
    lower = EDGES[below[-1]] if len(below) else upper
    return 0.5 * float(lower + upper)
