"""Tasks: the part of a pass that one worker gets, and what has become of it so far."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dmmc.array_types import Array
from dmmc.data.readers.numbers import name_rows
from dmmc.engine.messages import Sink, Span
from dmmc.machine import MIB

LARGEST_SENT = 64 * MIB
"""Rows from the driver's memory travel in tasks of about this size."""


@dataclass(frozen=True)
class Pass:
    """What is done with every block."""

    name: str
    work: Callable[..., Any]
    params: Any
    summed: bool
    sink: Sink | None
    every: int


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
