"""Which balance evolved labels are taken of: a looser one always fits as well, so F cannot tell (E34)."""

from collections.abc import Sequence
from typing import NamedTuple

from dmmc.array_types import Array

EQUAL = 0.01
"""Of the variance of labels: balances whose fits explain so much less than the best one are as good, if tighter."""
UNEVEN = 0.6 + 1e-9
"""Labels whose clusters differ by a larger share (they are more uneven than four to one) ..."""
FAR = 2 / 3
"""... count if their fit leaves no more than this of what that of less uneven labels leaves."""


class Evolved(NamedTuple):
    """The best labels of one balance."""

    limit: float
    """Most that |Σ ω y| might be."""
    p: Array
    """Φᵀy"""
    balance: float
    """Σ ω y"""


def find_unexplained(p: Array, mean: float, ones: Array) -> float:
    """Share of the variance of labels that their fit with a free bias leaves (E34).

    p : Φᵀy
    mean : of the labels y
    ones : Φᵀ1
    """
    alone, both, left = 1.0 - float(ones @ ones), mean - float(ones @ p), 1.0 - float(p @ p)
    bias = both * both / alone if alone > 0 else 0.0
    return max(left - bias, 0.0) / max(1.0 - mean * mean, 1e-12)


def choose_balance(found: Sequence[Evolved], ones: Array, total: float) -> Evolved:
    """Of the labels of several balances those of the tightest that is as good as the best; Σω is `total`.

    Labels whose F is not lower than that of a tighter balance do not count: those would do there, too. Very uneven ones
    count only where they are explained far better, as a few odd rows are easily told from all others.
    """
    kept: list[Evolved] = []
    for one in sorted(found, key=lambda one: one.limit):
        if all(one.p @ one.p > tighter.p @ tighter.p for tighter in kept):
            kept.append(one)
    left = [(one, find_unexplained(one.p, one.balance / total, ones)) for one in kept]
    even = [share for one, share in left if not is_uneven(one, total)]
    if even:
        left = [(one, share) for one, share in left if share <= FAR * min(even) or not is_uneven(one, total)]
    least = min(share for _, share in left)
    return next(one for one, share in left if share <= least + EQUAL)


def is_uneven(one: Evolved, total: float) -> bool:
    """Whether clusters are more uneven than four to one."""
    return abs(one.balance) > UNEVEN * total
