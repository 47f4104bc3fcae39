"""A tree so far (Grown), and what one that was read from a file must look like."""

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.model.passes import Tree
from dmmc.solvers import state_shapes, tree_room
from dmmc.solvers.state_shapes import LARGEST, Anything, Between, Each, Either, Numbers, OneOf, Whole, is_line

ENDED = ("converged", "max_iter", "max_seconds", "count bound", "stalled")
"""Why the search for a split may have ended."""


class Leaf(NamedTuple):
    """A cluster so far, and how it would be split."""

    share: float
    """Of the weight of all rows."""
    W: Array
    """(d,) the split, raw, its price in the bias; empty before it is searched, and where there is none."""
    b: float = 0.0
    above: float = 0.0
    """Share of the rows with f >= 0."""
    gain: float = -math.inf
    """By how much the split lowers the sum of squared distances from the clusters' means, in units of the whole."""
    objective: float = 0.0
    gap: float = 0.0
    ended: str = ""
    """Why its search did; "" before it, "whole" where there is nothing to split."""


class Grown(NamedTuple):
    """A tree so far."""

    W: Array
    b: Array
    children: Array
    leaves: tuple[Leaf, ...]
    objectives: tuple[float, ...] = ()
    """Of each split, times the share of the rows that it splits."""
    gaps: tuple[float, ...] = ()
    ended: tuple[str, ...] = ()
    at: int = 0
    """The leaf whose split is searched."""
    inner: Any = None
    """The state of that search; None before it begins."""
    steps: int = 0
    """Its passes so far."""
    line: dict[str, Any] = {}  # noqa: RUF012
    """What the last pass reported."""
    priced: bool = False
    """Whether a count bound has moved a split."""


def find_misfit(state: Grown, n_features: int, n_clusters: int) -> str:
    """Say where a state is none of a tree that is to have so many leaves; "" where it is one.

    The search for the next split has a specification of its own.
    """
    share, number = Between(-tree_room.ROUNDING, 1 + tree_room.ROUNDING), Between()
    floats = partial(Numbers, np.float64)
    m = state.b.size
    leaf = {
        "share": share,
        "W": Either(floats("d"), floats(0)),
        "b": Between(-LARGEST, LARGEST),
        "above": share,
        "ended": OneOf("", "whole", *ENDED),
    }
    spec = {
        "W": floats(m, "d"),
        "b": floats(m),
        "children": Numbers(np.int64, m, 2),
        "leaves": Each(leaf, count=m + 1),
        **dict.fromkeys(("objectives", "gaps"), Each(number, count=m)),
        "ended": Each(OneOf(*ENDED), count=m),
        "at": Whole(0, m),
        "inner": Anything(),
        "steps": Whole(),
        "line": Either(OneOf({}), {"objective": number, "best": number}),
    }
    misfit = state_shapes.find_misfit(state, spec, {"d": n_features})
    if misfit or m >= n_clusters:
        return misfit or "it has too many leaves"
    if m and not Tree(state.W, state.b, state.children).is_valid():
        return "children are not those of a tree"
    return "" if is_line(state.line, numbered=False) else "line is none of a history"
