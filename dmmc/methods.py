"""The methods by name: which estimator, with which of its parameters fixed. Importing this costs nothing."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple


class Method(NamedTuple):
    """One name that `dmmc.fit` and `dmmc fit` know."""

    estimator: str
    """Its class in `dmmc.estimators`."""
    words: str
    """One line for `dmmc methods`."""
    memory: str = "cutting_plane"
    """Name of the formula in `dmmc.info.memory` for the bytes that a fit needs."""
    params: Mapping[str, Any] = MappingProxyType({})
    """Parameters that the name fixes."""
    defaults: Mapping[str, Any] = MappingProxyType({})
    """Parameters that are others by default than the estimator's."""


def _stochastic(words: str, loss: str) -> Method:
    return Method("StochasticMMC", f"StochasticMMC{words}", "stochastic", {"loss": loss})


METHODS = {
    "auto": Method(
        "AutoMMC",
        "AutoMMC: tries k-means, cpmmc and lsmmc, judges them without labels; pairwise with constraints",
        "least_squares",
    ),
    "cpmmc": Method(
        "CuttingPlaneMMC", "CuttingPlaneMMC: maximum margin clustering by cutting planes, 2 to 1,000 clusters"
    ),
    "lsmmc": Method(
        "LeastSquaresMMC",
        "LeastSquaresMMC: least squares on the labels, 2 to 10,000 clusters; finds images, features, words by itself",
        "least_squares",
    ),
    "pairwise": Method(
        "PairwiseMMC", "PairwiseMMC: the same, with pairs of rows that must or cannot be together", "pairwise"
    ),
    "smmc": Method(
        "SubspaceMMC", "SubspaceMMC: clusters and the subspace that separates them, learned together", "subspace"
    ),
    "evommc": Method(
        "EvolutionaryMMC",
        "EvolutionaryMMC: kernels, labels evolve; the full kernel of up to 5,000 rows",
        "evolution",
        {"rank": None},
    ),
    "fast-evommc": Method(
        "EvolutionaryMMC",
        "EvolutionaryMMC through a few rows (`rank`): kernels for any number of rows",
        "fast_evolution",
        defaults={"rank": "auto"},
    ),
    "mmc-sg": _stochastic(": by stochastic gradient, hinge loss", "hinge"),
    "rmmc-sg": _stochastic(" with the ramp loss: rows in between let go", "ramp"),
    "cmmc-sg": _stochastic(" with the compact loss: each cluster near its own plane", "compact"),
    "rcmmc-sg": _stochastic(" with the robust compact loss: the same, and outliers have no pull", "robust-compact"),
}
"""`auto` is `cpmmc` where parameters of a method are given, and `pairwise` with constraints."""
