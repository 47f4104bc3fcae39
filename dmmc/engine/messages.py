"""What travels to a worker and back. All of it can be sent again, to anyone, any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Reader
from dmmc.engine.tree_sum import Node

Array = NDArray[Any]
Sink = Callable[[int, int, list[Any]], Any]
"""Rows start to stop and what was computed of their blocks, in order, to what is sent back instead."""


class Span(NamedTuple):
    """A block by its number and its rows."""

    number: int
    start: int
    stop: int


class Supply(NamedTuple):
    """What a worker cannot get by itself of a block: rows in the driver's memory, columns given by the user."""

    rows: Array | Csr | None
    weight: Array | None
    given: Array | None


class Order(NamedTuple):
    """One worker's share of a pass."""

    session: str
    version: int
    """Of what is said of the rows: when it changes, weights and labels at hand are outdated."""
    n_blocks: int
    """Of the whole matrix."""
    spans: tuple[Span, ...]
    work: Callable[[Block, Any], Any]
    params: Any
    summed: bool
    """Whether results are added up on the way, or wanted block by block."""
    home: str
    """Address of the worker that is to keep these blocks; elsewhere they are only passing through."""
    keep: frozenset[int]
    """All blocks that it is to keep."""
    budget: int
    """Bytes of rows that it can keep."""
    threads: int
    reader: Reader | None
    """Reads rows; None where they are in the driver's memory."""
    has_columns: bool
    """Whether rows have weights or given labels, which only the driver knows."""
    sink: Sink | None = None
    """What is done there with the results of consecutive blocks, `every` at a time."""
    every: int = 1


class Reply(NamedTuple):
    """What came of an order."""

    nodes: dict[Node, Any]
    """Sums, as far as the worker's own blocks allow."""
    values: list[tuple[int, Any]]
    """Results block by block, if they were not to be summed."""
    checksums: dict[int, int]
    """Of the blocks that were read for this order."""
    missing: tuple[int, ...] = ()
    """Blocks of which something must be supplied; nothing was done."""
    refused: str = ""
    """Bad input, in a sentence: trying again would not help."""
    failed: str = ""
    """What went wrong, and at which rows: it may be tried again."""
