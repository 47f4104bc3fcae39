"""Several labellings of the same rows as one column of numbers, as rows carry one given label each."""

from collections.abc import Sequence

import numpy as np

from dmmc.array_types import Array


def pack_labels(labellings: Sequence[Array], n_clusters: int) -> Array:
    """Several labellings (n,) as the digits of one number a row, so that they travel as one column."""
    assert n_clusters ** len(labellings) < 2**63
    packed = np.zeros(len(labellings[0]), np.int64)
    for labels in reversed(labellings):
        packed = packed * n_clusters + labels
    return packed


def count_packable(n_clusters: int) -> int:
    """How many labellings fit into one number."""
    return next(count for count in range(62, 0, -1) if n_clusters**count < 2**63)


def unpack_labels(packed: Array, base: int, place: int) -> Array:
    """Labelling number `place` of those that were packed; with base 0 the labels themselves."""
    return packed // base**place % base if base else packed
