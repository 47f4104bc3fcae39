"""What travels to a worker and back. All of it can be sent again, to any worker, at any time."""

from collections.abc import Callable
from typing import Any, NamedTuple

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Reader
from dmmc.engine.tree_sum import Node

Sink = Callable[[int, int, list[Any]], Any]
"""Called with rows start to stop and the results of their blocks in order; its result is sent back instead."""


class Span(NamedTuple):
    """A block by its number and its rows."""

    number: int
    start: int
    stop: int


class SentBlock(NamedTuple):
    """What the driver sends of a block: rows that are in its memory, weights and labels given by the user."""

    rows: Array | Csr | None
    weight: Array | None
    given: Array | None


class Message(NamedTuple):
    """The part of a pass that one worker gets."""

    session: str
    """Of the engine: blocks are cached by session."""
    version: int
    """Of the weights and given labels: cached ones of another version are outdated."""
    n_blocks: int
    """Of the whole matrix."""
    spans: tuple[Span, ...]
    work: Callable[[Block, Any], Any]
    params: Any
    summed: bool
    """Whether results are added up, or wanted block by block."""
    worker: str
    """Address of the worker where these blocks are placed; another worker does not keep them."""
    keep: frozenset[int]
    """Numbers of all blocks that are placed there."""
    budget: int
    """Bytes of rows that it can keep."""
    threads: int
    reader: Reader | None
    """Reads rows; None where the driver sends them."""
    has_columns: bool
    """Whether rows have weights or given labels, which the driver sends."""
    sink: Sink | None = None
    """Gets the results of consecutive blocks on the worker, `every` at a time."""
    every: int = 1


class Reply(NamedTuple):
    """The answer to a message."""

    nodes: dict[Node, Any]
    """Sums, as far as the worker's own blocks allow."""
    values: list[tuple[int, Any]]
    """Results block by block, if they were not to be summed."""
    checksums: dict[int, int]
    """Of the blocks that were read for this message."""
    missing: tuple[int, ...] = ()
    """Blocks of which something must be sent first; nothing was done."""
    refused: str = ""
    """Bad input, in a sentence: trying again would not help."""
    failed: str = ""
    """What went wrong, and at which rows: it may be tried again."""
