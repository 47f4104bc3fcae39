"""Trees: a method for two clusters finds more of them by splitting clusters, the split that gains most first.

Growing a tree is itself a solver: its state holds the splits so far and the state of the search for the next one, so
the one driver loop stops it, reports it and keeps it, and a fit that was interrupted goes on in the middle of a split.
A split sees all rows, those of other leaves with weight 0: it is the same on any engine.

`binary.BinaryClusterer` says how an estimator uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.model import geometry, passes
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.solvers import count_bounds, starts, tree_passes, tree_room
from dmmc.solvers.state_shapes import fits
from dmmc.solvers.tree_state import Grown, Leaf, find_misfit

if TYPE_CHECKING:
    from dmmc.engine import Engine


class Found(NamedTuple):
    """Two clusters, or a tree of more."""

    planes: Any
    """One hyperplane in raw coordinates, with its price (Hyperplanes); or a Tree."""
    objective: float
    gap: float
    """inf where the method has none."""
    ended: str
    """One of `tree_state.ENDED`."""
    choices: dict[str, Any] = {}  # noqa: RUF012
    """What was chosen on the way, for `choices_`; a tree does not keep it."""
    signs: Array | None = None
    """The labels ±1 (n,) that the objective is of, where the hyperplane may give others."""


class Search(NamedTuple):
    """A search for two clusters among the rows that an engine has."""

    solver: Any
    """Has `find_misfit`, `step`, `done` and `report`."""
    begin: Callable[[], Any]
    """Makes its first state."""
    found: Callable[[Any, str], Found]
    """What a state amounts to; the text is why the loop ended: "done", "max_iter" or "max_seconds"."""


class Growth:
    """The solver: a step is one pass of the search for the next split.

    two : makes a search, from engine, geometry, seed, and the least and largest share of a cluster
    types : what the states of that search are made of
    engine : has all rows; at the end it is to be given `whole_rows` again
    geometry : of all rows
    seed : of the fit; each leaf's search has one of its own
    n_clusters : leaves wanted
    lowest, highest : bounds of a leaf's share of the weight
    max_iter : most passes of one search
    labelled : whether rows have given labels to start from; those of a leaf are joined to two groups
    """

    def __init__(
        self,
        two: Callable[[Engine, Geometry, int, float, float], Search],
        types: tuple[type[Any], ...],
        engine: Engine,
        geometry: Geometry,
        seed: int,
        n_clusters: int,
        lowest: float,
        highest: float,
        max_iter: int,
        labelled: bool,
    ) -> None:
        self.types = (Grown, Leaf, *types)
        self.whole_rows = engine.dataset
        self.max_iter = max_iter
        self._two = two
        self._engine = engine
        self._geometry = geometry
        self._seed = seed
        self._k = n_clusters
        self._lowest = lowest
        self._highest = highest
        self._labelled = labelled
        self._search: Search | None = None
        self._part = geometry

    def init(self) -> Grown:
        """One leaf: all rows."""
        d = self.whole_rows.n_features
        return Grown(np.zeros((0, d)), np.zeros(0), np.zeros((0, 2), np.int64), (Leaf(1.0, np.zeros(0)),))

    def done(self, state: Grown) -> bool:
        """There are as many leaves as wanted."""
        return len(state.leaves) == self._k

    def report(self, state: Grown) -> dict[str, Any]:
        """The pass of the search at work, and how many clusters there are so far."""
        return {**state.line, "clusters": len(state.leaves)}

    def step(self, state: Grown) -> Grown:
        """One pass; where a search ends, its leaf knows its split, and when all do, the best split is made.

        1. begin the search for the split of this leaf, or go on with it
        2. at its end take note of the hyperplane, and of what it gains
        3. while every leaf is known and there are too few, split the one that gains most
        """
        leaf = state.leaves[state.at]
        if state.inner is None or self._search is None:  # 1
            self._search = self._enter(state)
        if self._search is None:
            return self._next(self._set_leaf(state, leaf._replace(ended="whole")))
        if state.inner is None:
            state = state._replace(inner=self._search.begin(), steps=0)
        inner = self._search.solver.step(state.inner)
        state = state._replace(inner=inner, steps=state.steps + 1, line=self._search.solver.report(inner))
        done = self._search.solver.done(inner)
        if not (done or state.steps >= self.max_iter):
            return state
        found = self._search.found(inner, "done" if done else "max_iter")  # 2
        W, b = found.planes.W[0], float(found.planes.b[0] + found.planes.price[0])
        above, gain = self._gain(W, b)
        leaf = leaf._replace(
            W=W, b=b, above=above, gain=gain, objective=found.objective, gap=found.gap, ended=found.ended
        )
        state = state._replace(priced=state.priced or bool(found.planes.price.any()))
        return self._next(self._set_leaf(state, leaf))  # 3

    def finish(self, state: Grown) -> Grown:
        """The tree with all its leaves, found in a hurry: one pass a split."""
        self.max_iter = 1
        while not self.done(state):
            state = self.step(state)
        return state

    def find_misfit(self, state: Grown) -> str:
        """Say where a state that was read from a file is not one of this tree; "" where it is."""
        misfit = find_misfit(state, self.whole_rows.n_features, self._k)
        if misfit or state.inner is None:
            return misfit
        self._search = self._enter(state)
        if self._search is None:
            return "its leaf cannot be split"
        solver = self._search.solver
        return str(solver.find_misfit(state.inner)) if fits(state.inner, solver.types[0]) else "its search is another"

    def _set_leaf(self, state: Grown, leaf: Leaf) -> Grown:
        """The leaf at work is known."""
        leaves = (*state.leaves[: state.at], leaf, *state.leaves[state.at + 1 :])
        line = state.line or {"objective": leaf.objective, "best": leaf.objective}
        return state._replace(leaves=leaves, inner=None, line=line)

    def _enter(self, state: Grown) -> Search | None:
        """Let the engine see the rows of the leaf at work, and make the search for its split, if there may be one."""
        reach, share = self._reach(state.leaves, state.at), state.leaves[state.at].share
        if not reach or share <= 0 or not self._show_rows(state, state.at):
            return None
        least = min(min(low, share - high) for low, high in reach) / share
        seed = self._seed
        if state.b.size:
            seed = int(np.random.default_rng([seed, 5, len(state.b), state.at]).integers(2**31))
        return self._two(self._engine, self._part, seed, max(0.0, least), min(1.0, 1.0 - least))

    def _show_rows(self, state: Grown, at: int) -> bool:
        """Give all other rows the weight 0; False where the rows of the leaf do not differ."""
        engine, rows = self._engine, self.whole_rows
        engine.use(rows)
        inside = np.ones(rows.n_rows, bool)
        if state.b.size:
            tree = Tree(state.W, state.b, state.children)
            inside = np.concatenate(list(engine.rows(passes.label_rows, tree))) == at
            base = np.ones(rows.n_rows) if rows.weight is None else rows.weight
            engine.use(rows.with_columns(weight=np.where(inside, base, 0.0)))
            part = geometry.measure_part(engine.dataset, engine.rows, self._geometry)
            if part is None:
                return False
            self._part = part
        else:
            self._part = self._geometry
        if self._labelled:
            engine.use(engine.dataset.with_columns(given=self._groups(inside)))
        return True

    def _groups(self, inside: Array) -> Array:
        """Given labels joined to two groups: along the line through their means that tells them apart best."""
        engine, part = self._engine, self._part
        given = self.whole_rows.given
        assert given is not None
        sums, counts = engine.run(tree_passes.label_sums, self._k)
        present = np.flatnonzero(counts > 0)
        if len(present) < 2:
            (labelling,), _ = starts.k_means(engine.dataset, engine.run, part, 2, 1, self._seed)
            assert isinstance(labelling, passes.ByScores)
            return np.concatenate(list(engine.rows(passes.label_rows, labelling.planes))).astype(np.int64)
        mass = counts[present]
        means = (sums[present] / mass[:, None] - part.mean) / part.unit
        _, _, directions = np.linalg.svd(np.sqrt(mass)[:, None] * means, full_matrices=False)
        order = np.argsort(means @ directions[0], kind="stable")
        before, pull = np.cumsum(mass[order])[:-1], np.cumsum(mass[order, None] * means[order], axis=0)[:-1]
        between = (pull**2).sum(axis=1) / (before * (mass.sum() - before))
        group = np.zeros(self._k, np.int64)
        group[present[order[1 + int(between.argmax()) :]]] = 1
        return group[given]

    def _gain(self, W: Array, b: float) -> tuple[float, float]:
        """Share of the rows with f >= 0, and the fall of the sum of squares, in units of all rows'."""
        tree = Tree(W[None], np.array([b]), np.array([[-1, -2]]))
        weighted, above = self._engine.run(tree_passes.upper_sums, tree)
        total = self._part.total
        if not 0 < above < total:
            return above / self._geometry.total, -math.inf
        apart = (weighted - above * self._part.mean) / self._geometry.unit
        gain = float(apart @ apart) * total / (above * (total - above)) / self._geometry.total
        return above / self._geometry.total, gain

    def _next(self, state: Grown) -> Grown:
        """The leaf to search next; while there is none and there are too few, the best split is made."""
        while len(state.leaves) < self._k:
            unknown = [number for number, leaf in enumerate(state.leaves) if not leaf.ended]
            if unknown:
                return state._replace(at=unknown[0])
            state = self._split(state)
        return state

    def _split(self, state: Grown) -> Grown:
        """Split the leaf that gains most; where none can be split, one gets an empty sibling."""
        leaves = state.leaves
        able = [number for number, leaf in enumerate(leaves) if leaf.W.size and self._reach(leaves, number)]
        if not able:
            nothing = Leaf(0.0, np.zeros(0), ended="whole")
            kept = leaves[0]._replace(W=np.zeros(0), ended="whole")
            return self._add_split(state, 0, np.zeros(self.whole_rows.n_features), 1.0, nothing, kept)
        at = max(able, key=lambda number: (leaves[number].gain, -number))
        leaf = leaves[at]
        reach = self._reach(leaves, at)
        low, high = min(reach, key=lambda span: (max(span[0] - leaf.above, leaf.above - span[1]), span))
        if not low - tree_room.ROUNDING <= leaf.above <= high + tree_room.ROUNDING and self._show_rows(state, at):
            share = leaf.share
            planes = Hyperplanes(leaf.W[None], np.array([leaf.b]), np.zeros(1))
            lowest, highest = np.array([share - high, low]) / share, np.array([share - low, high]) / share
            price = count_bounds.find_prices(self._engine.run, planes, self._part.total, lowest, highest)
            leaf = leaf._replace(b=leaf.b + float(price[0]))
            leaf = leaf._replace(above=self._gain(leaf.W, leaf.b)[0])
            state = state._replace(priced=True)
        state = state._replace(
            objectives=(*state.objectives, leaf.share * leaf.objective),
            gaps=(*state.gaps, leaf.gap),
            ended=(*state.ended, leaf.ended),
        )
        below, above = (Leaf(share, np.zeros(0)) for share in (leaf.share - leaf.above, leaf.above))
        return self._add_split(state, at, leaf.W, leaf.b, below, above)

    def _add_split(self, state: Grown, at: int, W: Array, b: float, below: Leaf, above: Leaf) -> Grown:
        """The tree with one split more: the rows with f < 0 keep the leaf's number."""
        node, new = len(state.b), len(state.leaves)
        children = np.where(state.children == -1 - at, node, state.children)
        return state._replace(
            W=np.vstack([state.W, W]),
            b=np.append(state.b, b),
            children=np.vstack([children, [-1 - at, -1 - new]]).astype(np.int64),
            leaves=(*state.leaves[:at], below, *state.leaves[at + 1 :], above),
            objectives=state.objectives if len(state.objectives) > node else (*state.objectives, 0.0),
            gaps=state.gaps if len(state.gaps) > node else (*state.gaps, 0.0),
            ended=state.ended if len(state.ended) > node else (*state.ended, "converged"),
        )

    def _reach(self, leaves: tuple[Leaf, ...], at: int) -> list[tuple[float, float]]:
        return tree_room.reach([leaf.share for leaf in leaves], at, self._k, self._lowest, self._highest)
