"""The part of a pass that one worker gets: what travels to it and back, and what has become of it so far.

All that travels can be sent again, to any worker, at any time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Reader
from dmmc.data.readers.numbers import name_rows
from dmmc.engine.tree_sum import Node
from dmmc.errors import InputError
from dmmc.machine import MIB

Sink = Callable[[int, int, list[Any]], Any]
"""Called with rows start to stop and the results of their blocks in order; its result is sent back instead."""

LARGEST_SENT = 64 * MIB
"""Rows from the driver's memory travel in tasks of about this size."""


class Span(NamedTuple):
    """A block by its number and its rows."""

    number: int
    start: int
    stop: int


def list_spans(bounds: Array) -> tuple[Span, ...]:
    """All blocks between these bounds."""
    return tuple(Span(i, start, stop) for i, (start, stop) in enumerate(pairwise(bounds.tolist())))


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
    work: Callable[[Block, Any], Any]
    params: Any
    summed: bool
    """Whether results are added up, or wanted block by block."""
    sink: Sink | None
    """Gets the results of consecutive blocks on the worker, `every` at a time."""
    every: int
    reader: Reader | None
    """Reads rows; None where the driver sends them."""
    has_columns: bool
    """Whether rows have weights or given labels, which the driver sends."""
    spans: tuple[Span, ...] = ()
    worker: str = ""
    """Address of the worker where these blocks are placed; another worker does not keep them."""
    keep: frozenset[int] = frozenset()
    """Numbers of all blocks that are placed there."""
    budget: int = 0
    """Bytes of rows that it can keep."""
    threads: int = 1


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
    store_failed: str = ""
    """An object store failed, in a sentence: it was asked often enough."""
    failed: str = ""
    """What went wrong, and at which rows: it may be tried again."""


@dataclass(eq=False)
class Task:
    """Blocks for one worker."""

    spans: tuple[Span, ...]
    worker: str
    """Address."""
    sends: bool = False
    """Whether what the worker cannot get by itself travels with the task."""
    alone: bool = False
    """Whether nothing else may run meanwhile, as it may end its worker."""
    failures: int = 0
    losses: int = 0
    lost_workers: int = 0
    """Workers that were gone before it ended: it may be what ends them."""
    future: Any = None
    began: float = 0.0

    @property
    def rows(self) -> str:
        """The rows from its first to its last block, as a message names them."""
        return name_rows(self.spans[0].start, self.spans[-1].stop)


def split_by_size(spans: Sequence[Span], sizes: Array) -> Iterator[tuple[Span, ...]]:
    """Consecutive spans in parts that may be sent; `sizes` are the bytes of each block."""
    part: list[Span] = []
    for span in spans:
        if part and sum(sizes[other.number] for other in (*part, span)) > LARGEST_SENT:
            yield tuple(part)
            part = []
        part.append(span)
    if part:
        yield tuple(part)


def compare_checksums(known: dict[int, int], found: dict[int, int], spans: Sequence[Span], name: str) -> None:
    """Refuse rows that are not what they were when they were first read, and remember those read for the first time.

    known, found : checksums by the number of the block
    name : of the matrix
    """
    for index, checksum in found.items():
        if known.setdefault(index, checksum) != checksum:
            raise InputError(
                f"{name} changed during the run: {name_rows(spans[index].start, spans[index].stop)} are not what "
                "they were when they were first read."
            )
