"""Count bounds in a tree: which splits of a leaf leave room for all leaves to be within their bounds in the end."""

import math
from collections.abc import Sequence

ROUNDING = 1e-9
"""Of shares."""


def reach(shares: Sequence[float], at: int, k: int, lowest: float, highest: float) -> list[tuple[float, float]]:
    """Shares that one side of a leaf's split may have, as intervals; empty: the leaf may not be split.

    A leaf that is to become m clusters needs a share from m times the least to m times the largest, of k in the end.
    """
    others = [_clusters(share, k, lowest, highest) for number, share in enumerate(shares) if number != at]
    share = shares[at]
    fewest, most = _clusters(share, k, lowest, highest)
    fewest = max(2, fewest, k - sum(cap for _, cap in others))
    most = min(most, k - sum(need for need, _ in others))
    found = []
    for m in range(fewest, most + 1):
        for one in range(1, m):
            low = max(one * lowest, share - (m - one) * highest)
            high = min(one * highest, share - (m - one) * lowest)
            if low <= high + ROUNDING:
                found.append((low, max(low, high)))
    return found


def _clusters(share: float, k: int, lowest: float, highest: float) -> tuple[int, int]:
    """Fewest and most clusters that a leaf can become."""
    fewest = max(1, math.ceil(share / highest - ROUNDING))
    return fewest, max(1, math.floor(share / lowest + ROUNDING)) if lowest > 0 else k
