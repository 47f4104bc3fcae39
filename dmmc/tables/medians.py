"""The median of numbers that are read in parts: exact, in memory that does not grow with them."""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

BINS = 2**16
AT_ONCE = 2**21
"""Numbers that are sorted in memory."""


def find_median(
    read: Callable[[], Iterable[NDArray[np.float64]]], count: int, low: float, high: float, at_once: int = AT_ONCE
) -> float:
    """The median of `count` finite numbers between low and high, which `read` gives in parts, as often as it is called.

    Each pass counts the numbers in bins of equal width; the bin of the middle one is looked into in the next pass,
    until it holds so few numbers that they can be sorted.
    """
    lower = _select(read, (count - 1) // 2, count, low, high, at_once)
    if count % 2:
        return lower
    up_to, above = 0, np.inf
    for part in read():
        up_to += int(np.count_nonzero(part <= lower))
        above = min(above, float(np.min(part, where=part > lower, initial=np.inf)))
    upper = lower if up_to > count // 2 else above
    return float(np.mean([lower, upper]))


def _select(
    read: Callable[[], Iterable[NDArray[np.float64]]], rank: int, count: int, low: float, high: float, at_once: int
) -> float:
    """The number that has `rank` others before it, of those between low and high, of which there are `count`."""
    while low < high:
        if count <= at_once:
            inside = [part[(part >= low) & (part <= high)] for part in read()]
            return float(np.partition(np.concatenate(inside), rank)[rank])
        edges = np.unique(2.0 * np.linspace(low / 2.0, high / 2.0, BINS + 1))  # the whole width may overflow
        edges[0] = low
        bins, least, most = np.zeros(len(edges), np.int64), np.full(len(edges), np.inf), np.full(len(edges), -np.inf)
        for part in read():
            part = part[(part >= low) & (part <= high)]
            place = np.searchsorted(edges, part, side="right") - 1
            bins += np.bincount(place, minlength=len(edges))
            np.minimum.at(least, place, part)
            np.maximum.at(most, place, part)
        before = np.cumsum(bins) - bins
        here = int(np.searchsorted(before, rank, side="right")) - 1
        while bins[here] == 0:
            here -= 1
        rank, count, low, high = rank - int(before[here]), int(bins[here]), float(least[here]), float(most[here])
    return low
