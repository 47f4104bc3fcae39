"""Estimators whose method finds two clusters: they find more of them by splitting, as a tree of hyperplanes."""

from __future__ import annotations

from typing import Any, ClassVar

from dmmc.engine import Engine
from dmmc.estimators.fitting import MarginClusterer
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Hyperplanes, Tree
from dmmc.solvers.tree import Growth, Search


class BinaryClusterer(MarginClusterer):
    """An estimator whose method finds two clusters, and more of them through a tree.

    A subclass says what its solver's states are made of (`types`), and makes a search for two clusters (`_two`). That
    is all: fits of two clusters, trees of more, progress, checkpoints, labels, model files and predictions are made
    here and in `MarginClusterer` (`tests/test_tree.py` has a small one). In `_two`

    - the engine's rows are all rows; those of other leaves have weight 0. What rows count is in their weights, how many
      there are is `geometry.total`, and centre and scale are the geometry's
    - start from `self._labellings(engine, geometry, seed)`: labels 0 and 1, whatever `init` is
    - the shares of both clusters are to be within `lowest` and `highest`
    - a search begins when `begin` is called, not before: a fit that is resumed goes on without

    The hyperplanes are in the coordinates of the engine's rows. A kernel method makes features of the rows first, in
    `_with_features`, so that all splits share them.
    """

    types: ClassVar[tuple[type[Any], ...]]

    def _two(self, engine: Engine, geometry: Geometry, seed: int, lowest: float, highest: float) -> Search:
        """A search for two clusters among the rows that have weight."""
        raise NotImplementedError

    def _chosen(self) -> dict[str, Any]:
        """What was chosen for this fit, for `choices_`."""
        return {}

    @property
    def _n_labels(self) -> int:
        """Labels of a start."""
        return 2

    @property
    def most_passes(self) -> int:
        """Passes that a search makes at most; in a tree, that all searches do."""
        return int(self.max_iter) * max(1, 2 * int(self.n_clusters) - 3)

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        if self.n_clusters > 2:
            self._grow(engine, geometry, seed, began)
            return
        search = self._two(engine, geometry, seed, *self._bounds(engine.dataset.n_rows))
        state, history, why = self._driven(search.solver, search.begin, geometry, began)
        found = search.found(state, why)
        folded = bool(found.planes.price.any())
        self._found(geometry, seed, history, found.objective, found.gap, found.ended, **self._choices(folded))
        self._finish(found.planes, engine, found.ended, folded)

    def _grow(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        """Split until there are as many leaves as clusters are wanted."""
        lowest, highest = self._bounds(engine.dataset.n_rows)
        labelled = self._init in ("labels", "graph")
        k, most = int(self.n_clusters), int(self.max_iter)
        growth = Growth(self._two, self.types, engine, geometry, seed, k, lowest, highest, most, labelled)
        try:
            state, history, why = self._driven(growth, growth.init, geometry, began)
            state = growth.finished(state)
        finally:
            engine.use(growth.whole_rows)
        early = [ended for ended in state.ended if ended != "converged"]
        why = why if why != "done" else early[0] if early else "converged"
        self._found(geometry, seed, history, sum(state.objectives), max(state.gaps), why, **self._choices(state.priced))
        self._finish(Tree(state.W, state.b, state.children), engine, why, state.priced)

    def _choices(self, folded: bool) -> dict[str, Any]:
        return {
            **self._chosen(),
            "init": self._init,
            "n_init": self._starts(),
            "prices_folded_into_biases": folded,
        }

    def _finish(self, planes: Hyperplanes | Tree, engine: Engine, why: str, folded: bool) -> None:
        self._phase("label")
        self._settle(planes, engine)
        self._tell_of_end(why)
        self._tell_of_bound(why, folded)
        self._tell_of_empty()
