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
    params: Mapping[str, Any] = MappingProxyType({})
    """Parameters that the name fixes."""
    defaults: Mapping[str, Any] = MappingProxyType({})
    """Parameters that are others by default than the estimator's."""


METHODS = {
    "auto": Method("CuttingPlaneMMC", "chooses for you; in this version it is cpmmc, and pairwise with constraints"),
    "cpmmc": Method(
        "CuttingPlaneMMC", "CuttingPlaneMMC: maximum margin clustering by cutting planes, 2 to 100 clusters"
    ),
    "pairwise": Method("PairwiseMMC", "PairwiseMMC: the same, with pairs of rows that must or cannot be together"),
    "smmc": Method("SubspaceMMC", "SubspaceMMC: clusters and the subspace that separates them, learned together"),
    "evommc": Method(
        "EvolutionaryMMC",
        "EvolutionaryMMC: kernels, labels evolve; the full kernel of up to 5,000 rows",
        {"rank": None},
    ),
    "fast-evommc": Method(
        "EvolutionaryMMC",
        "EvolutionaryMMC through a few rows (`rank`): kernels for any number of rows",
        defaults={"rank": "auto"},
    ),
    "mmc-sg": Method("StochasticMMC", "StochasticMMC: by stochastic gradient, hinge loss", {"loss": "hinge"}),
    "rmmc-sg": Method("StochasticMMC", "StochasticMMC with the ramp loss: rows in between let go", {"loss": "ramp"}),
    "cmmc-sg": Method(
        "StochasticMMC", "StochasticMMC with the compact loss: each cluster near its own plane", {"loss": "compact"}
    ),
    "rcmmc-sg": Method(
        "StochasticMMC",
        "StochasticMMC with the robust compact loss: the same, and outliers have no pull",
        {"loss": "robust-compact"},
    ),
}
"""`auto` is `cpmmc` until there is more to choose from; with constraints it is `pairwise`."""
