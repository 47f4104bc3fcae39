"""What estimators know of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from dmmc.data.blocks import Block
from dmmc.data.dataset import Rows

Params = TypeVar("Params")
Stats = TypeVar("Stats")


class Engine(Protocol):
    """Runs a pass over all blocks of a matrix."""

    @property
    def dataset(self) -> Rows:
        """The rows that it runs over."""
        ...

    def use(self, dataset: Rows) -> None:
        """Replace weights and given labels; the rows stay."""
        ...

    def over(self, dataset: Rows) -> AbstractContextManager[Engine]:
        """An engine of the same kind over other rows, while this one goes on."""
        ...

    def run(self, work: Callable[[Block, Params], Stats], params: Params) -> Stats:
        """Sum of `work(block, params)` over all blocks."""
        ...

    def rows(self, work: Callable[[Block, Params], Stats], params: Params) -> Iterator[Stats]:
        """`work(block, params)` of each block, in block order."""
        ...
