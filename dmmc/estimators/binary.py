"""Estimators whose method finds two clusters: they find more of them by splitting, as a tree of hyperplanes."""

from dataclasses import replace
from typing import Any, ClassVar

from dmmc.engine import Engine
from dmmc.estimators.balance import BalancedClusterer
from dmmc.estimators.context import FitContext
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Labelling, Tree
from dmmc.solvers.tree import Found, Growth, Search


class BinaryClusterer(BalancedClusterer):
    """An estimator whose method finds two clusters, and more of them through a tree.

    A subclass says what its solver's states are made of (`types`), and makes a search for two clusters
    (`_pose_split`). That is all: fits of two clusters, trees of more, progress, checkpoints, labels, model files and
    predictions are made here and in `MarginClusterer` (`tests/solvers/test_tree.py` has a small one). In `_pose_split`

    - the context's rows are all rows; those of other leaves have weight 0. What rows count is in their weights, how
      many there are is `geometry.total`, and centre and scale are the geometry's
    - start from `self._make_starts(context)`: labels 0 and 1, whatever `init` is
    - the shares of both clusters are to be within `lowest` and `highest`
    - a search begins when its `begin` is called, not before: a fit that is resumed goes on without

    The hyperplanes are in the coordinates of the context's rows.
    """

    types: ClassVar[tuple[type[Any], ...]]

    def _pose_split(self, context: FitContext, lowest: float, highest: float) -> Search:
        """A search for two clusters among the rows that have weight."""
        raise NotImplementedError

    def _list_choices(self) -> dict[str, Any]:
        """What was chosen for this fit, for `choices_`."""
        return {}

    @property
    def max_passes(self) -> int:
        """Passes that a search makes at most; in a tree, that all searches do."""
        return int(self.max_iter) * max(1, 2 * int(self.n_clusters) - 3)

    def _make_starts(self, context: FitContext, n_labels: int | None = 2, init: str | None = None) -> list[Labelling]:
        return super()._make_starts(context, n_labels, init)

    def choose_n_init(self, n_rows: int) -> int:
        """Number of starts; a tree splits along the labels of one."""
        return 1 if self.n_clusters > 2 and self.start_name == "graph" else super().choose_n_init(n_rows)

    def _search(self, context: FitContext) -> None:
        if self.n_clusters > 2:
            self._grow(context)
            return
        search = self._pose_split(context, *self.choose_bounds(context.engine.dataset.n_rows))
        state, history, why = context.drive(search.solver, search.begin, self.max_passes)
        found = search.found(state, why)
        self._finish(context, found, history, bool(found.planes.price.any()))

    def _grow(self, context: FitContext) -> None:
        """Split until there are as many leaves as clusters are wanted."""
        engine = context.engine
        lowest, highest = self.choose_bounds(engine.dataset.n_rows)

        def pose_split(engine: Engine, part: Geometry, seed: int, least: float, most: float) -> Search:
            return self._pose_split(replace(context, engine=engine, geometry=part, seed=seed), least, most)

        growth = Growth(
            pose_split,
            self.types,
            engine,
            context.geometry,
            context.seed,
            int(self.n_clusters),
            lowest,
            highest,
            int(self.max_iter),
            self.start_name in ("labels", "graph"),
        )
        try:
            state, history, why = context.drive(growth, growth.init, self.max_passes)
            state = growth.finish(state)
        finally:
            engine.use(growth.whole_rows)
        early = [ended for ended in state.ended if ended != "converged"]
        ended = why if why != "done" else early[0] if early else "converged"
        tree = Tree(state.W, state.b, state.children)
        grown = Found(tree, sum(state.objectives), max(state.gaps), ended)
        self._finish(context, grown, history, state.priced)

    def _finish(self, context: FitContext, found: Found, history: list[dict[str, Any]], priced: bool) -> None:
        """Set what was found, and warn of what a user should know of it."""
        self._set_result(
            context,
            history,
            found.objective,
            found.gap,
            found.ended,
            **{**self._list_choices(), **found.choices},
            init=self.start_name,
            n_init=self.choose_n_init(context.engine.dataset.n_rows),
            prices_folded_into_biases=priced,
        )
        self._set_hyperplanes(found.planes, context)
        self._warn_of_early_end(found.ended)
        self._warn_of_sizes(context, priced)
