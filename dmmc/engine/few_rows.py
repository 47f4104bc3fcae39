"""A few rows of a matrix whose blocks are elsewhere, by a pass over the blocks that hold them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Rows, find_blocks, join_rows, pick_rows
from dmmc.engine.messages import Span, list_spans


def gather_rows(
    source: Rows, rows: Array, find_values: Callable[[dict[int, Array], Sequence[Span]], Sequence[Any]]
) -> Any:
    """The wanted rows in the order asked for: an array, or scipy CSR rows.

    find_values : what `take_rows` gives of each of some blocks
    """
    holder = find_blocks(source.bounds, rows)
    wanted = {int(b): rows[holder == b] for b in np.unique(holder)}
    spans = list_spans(source.bounds)
    parts = find_values(wanted, [spans[b] for b in sorted(wanted)])
    return join_rows(source, holder, dict(zip(sorted(wanted), parts, strict=True)))


def take_rows(block: Block, wanted: dict[int, Array]) -> Any:
    """As a pass: the wanted rows of a block."""
    return pick_rows(block, wanted[block.index])
