"""The order in which Stats are added: a binary tree over the blocks.

The node of level l at place p stands for the blocks from p 2^l up to (p + 1) 2^l; it is the sum of its left child and
its right child, or its left child alone where the blocks end. So any worker can add up whatever complete nodes its
blocks make, wherever they are, and the total has the same bits. (Sums within fixed groups of 16 would do as well, but
70,000 rows of MNIST are four blocks: two workers could not share a group.)
"""

from typing import Any

Node = tuple[int, int]
"""Level and place."""


def add(left: Any, right: Any) -> Any:
    """Add two Stats: arrays and numbers add, tuples of them add member by member."""
    if isinstance(left, tuple):
        members = [add(a, b) for a, b in zip(left, right, strict=True)]
        return type(left)(*members) if hasattr(left, "_fields") else tuple(members)
    return left + right


class TreeSum:
    """A sum over blocks 0 to n_blocks - 1, which come in any order, one by one or as nodes."""

    def __init__(self, n_blocks: int) -> None:
        self.nodes: dict[Node, Any] = {}
        """What has been added up so far and waits for its other half."""
        self._n_blocks = n_blocks
        self._top = (n_blocks - 1).bit_length()

    def put(self, node: Node, stats: Any) -> None:
        """Add the Stats of a node; block i is node (0, i)."""
        level, place = node
        while level < self._top:
            other = place ^ 1
            if other << level < self._n_blocks:
                waiting = self.nodes.pop((level, other), None)
                if waiting is None:
                    break
                stats = add(waiting, stats) if other < place else add(stats, waiting)
            level, place = level + 1, place >> 1
        self.nodes[level, place] = stats

    def put_all(self, nodes: dict[Node, Any]) -> None:
        """Add the Stats of several nodes."""
        for node, stats in nodes.items():
            self.put(node, stats)

    def total(self) -> Any:
        """The sum, when all blocks are in."""
        (node, stats), *rest = self.nodes.items()
        assert node == (self._top, 0)
        assert not rest
        return stats
