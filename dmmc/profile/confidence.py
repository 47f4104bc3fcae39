"""How sure the label of a row is: its margin, on a scale that was compared with fits of parts of the rows."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from dmmc.array_types import Array
from dmmc.data.blocks import Block, fill_columns
from dmmc.errors import InputError
from dmmc.features import maps
from dmmc.features.maps import Decision
from dmmc.model.label_counts import AT_ONCE
from dmmc.model.margins import Standing, rank_rows

SLOPE = 3.0
"""How fast confidence grows with the margin, in medians of the margin. `benchmarks/confidence.py` compares it with how
often fits of random halves of the rows agree about a row: the best slope is 2 to 6, and more on small sets."""


def find_confidence(margins: Array, scale: float | None) -> Array:
    """Confidence (n,) of labels with these margins (E40): .5 where two clusters tie, towards 1 far from all borders.

    In the type of the margins: float32 where they are those of all rows.

    scale : the median margin of the rows that the model was fitted on; None: of these rows
    """
    scale = find_scale(margins) if scale is None else scale
    found = np.empty(len(margins), np.result_type(margins, np.float32))
    for start in range(0, len(margins), AT_ONCE):  # there may be very many
        here = slice(start, start + AT_ONCE)
        found[here] = expit(SLOPE * margins[here] / scale)
    return found


def find_scale(margins: Array) -> float:
    """What margins are measured in: their median, 1 where that is 0."""
    return (float(np.median(margins)) if len(margins) else 0.0) or 1.0


def stand(block: Block, decision: Decision) -> Standing:
    """As a pass: where the rows of a block stand among the clusters."""
    row_map, planes = decision
    return rank_rows((block if row_map is None else maps.embed_block(block, row_map)).rows, planes)


def find_standing(rows: Callable[..., Iterator[Any]], decision: Decision, n_rows: int) -> Standing:
    """Where all rows stand, by one pass; `rows` gives a pass's answer for each block, as of an engine."""
    return Standing(*fill_columns(rows(stand, decision), n_rows))


def unassign(labels: Array, confidence: Array, least: float | None) -> Array:
    """Labels (n,), with -1 where confidence is below `least`; None leaves them as they are."""
    return labels if least is None else np.where(confidence < least, -1, labels).astype(np.int32)


def check_unassigned(least: Any) -> None:
    """Refuse what is no confidence."""
    number = isinstance(least, int | float | np.integer | np.floating) and not isinstance(least, bool)
    if least is not None and not (number and 0 <= least <= 1):
        raise InputError(
            f"unassigned is {least!r}; a confidence from 0 to 1 is wanted, below which a row gets no label."
        )
