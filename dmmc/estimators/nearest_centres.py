"""k-means as a candidate of `auto`: a model like any other, with hyperplanes halfway between centres."""

from dataclasses import dataclass

from dmmc.estimators.context import FitContext
from dmmc.estimators.fitting import MarginClusterer
from dmmc.estimators.parameters import MAX_CLUSTERS, TransformParameters, hide_transform
from dmmc.model.passes import ByScores, Hyperplanes
from dmmc.solvers import starts

SETTLED = 1e-4
STARTS, TRIES = 3, 14
"""Starts on all rows, each the best of up to so many on a sample."""


@hide_transform
@dataclass(eq=False, repr=False, kw_only=True)
class NearestCentres(TransformParameters, MarginClusterer):
    """Rows belong to the nearest of k centres, their means."""

    most_clusters = MAX_CLUSTERS

    @property
    def method(self) -> str:
        """What candidates call it."""
        return "k-means"

    @property
    def features(self) -> str:  # type: ignore[override]
        """What hyperplanes are in."""
        return "raw"

    def _search(self, context: FitContext) -> None:
        context.tell_phase("start")
        engine, k = context.engine, int(self.n_clusters)
        labellings, inertia = starts.k_means(
            engine.dataset,
            engine.run,
            context.geometry,
            k,
            STARTS,
            context.seed,
            context.limit,
            TRIES,
            SETTLED,
            least=1,
        )
        best = labellings[0]
        assert isinstance(best, ByScores)
        planes = best.planes
        if k == 2:
            planes = Hyperplanes(*(part[1:] - part[:1] for part in planes))
        ended = "max_seconds" if context.limit.is_over else "converged"
        self._set_result(context, [], float(inertia[0]), 0.0, ended)
        self._set_hyperplanes(planes, context)
        self._warn_of_early_end(ended)
        self._warn_of_sizes(context, priced=False)
