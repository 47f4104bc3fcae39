"""What a fit says of the sizes of its clusters: held at a bound, out of it, or without rows."""

from collections.abc import Sequence

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import ClusteringWarning, warn

NAMED = 3
"""Clusters that a sentence names."""
AT = 1.1
"""A cluster within this factor of a bound is at it: prices are no larger than needed, but for a tenth."""


def warn_of_bounds(
    sizes: Array, bounds: tuple[float, float], params: tuple[float, float | None], fallen: Sequence[int] | None = None
) -> None:
    """Say which clusters a bound has held, and what to try.

    sizes : (k,) rows of each cluster, by their weight
    bounds : least and most rows of a cluster
    params : min_size and max_size, of which the bounds were made
    fallen : clusters that fell to the least size and so ended the search; None where it went on within the bounds
    """
    (least, most), (min_size, max_size) = bounds, params
    fewer = "fewer clusters, or " if len(sizes) > 2 else ""
    shrink = f"try {fewer}a smaller min_size (it is {min_size:g}, and 0 is no minimum)"
    if fallen is not None:
        warn(
            f"{name_clusters(fallen)} kept shrinking, and the search ended at the minimum size ({_rows(least)}) with "
            f"the best labels until then; {shrink}.",
            ClusteringWarning,
        )
        return
    small = np.flatnonzero(sizes <= AT * least)
    large = np.flatnonzero(AT * sizes >= most) if max_size is not None else np.zeros(0, np.int64)
    if len(small):
        warn(
            f"{name_clusters(small)} kept shrinking and {_was(small)} held at the minimum size ({_rows(least)}); "
            f"{shrink}.",
            ClusteringWarning,
        )
    if len(large):
        warn(
            f"{name_clusters(large)} kept growing and {_was(large)} held at the maximum size ({_rows(most)}); try more "
            f"clusters, or a larger max_size (it is {max_size:g}, and None is no maximum).",
            ClusteringWarning,
        )
    if not len(small) and not len(large):
        warn(
            f"a border was moved to keep cluster sizes within bounds (min_size={min_size}, max_size={max_size}); "
            "min_size=0 and max_size=None are no bounds.",
            ClusteringWarning,
        )


def warn_of_empty_clusters(sizes: Array) -> None:
    """Warn where a cluster has no rows."""
    k, present = len(sizes), np.count_nonzero(sizes)
    if present < k:
        warn(f"only {present} of {k} clusters have rows; are there {k} distinct groups of rows?", ClusteringWarning)


def name_clusters(numbers: Sequence[int] | Array) -> str:
    """Clusters by their numbers, if they are few: "cluster 9", "clusters 3, 4, 5 and 2 more"."""
    named = [str(number) for number in numbers[:NAMED]]
    if len(numbers) > NAMED:
        return f"clusters {', '.join(named)} and {len(numbers) - NAMED} more"
    if len(named) < 2:
        return f"cluster {named[0]}" if named else "a cluster"
    return f"clusters {', '.join(named[:-1])} and {named[-1]}"


def _was(numbers: Array) -> str:
    return "was" if len(numbers) == 1 else "were"


def _rows(count: float) -> str:
    return f"{count:.0f} row{'' if round(count) == 1 else 's'}"
