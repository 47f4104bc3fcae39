"""Maximum margin clustering at scale.

``dmmc.fit(source, n_clusters)`` clusters any matrix, ``dmmc.load(folder)`` reads a model back, and
``dmmc.score(labels, truth)`` says how well. Importing
this package is quick: numba, dask, zarr and scikit-learn are imported by the first call that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dmmc.errors import ClusteringWarning, ClusterLost, ConvergenceWarning, InputError, OutOfTime

if TYPE_CHECKING:
    from dmmc.app.api import fit, load
    from dmmc.app.propose_pairs import propose_pairs
    from dmmc.estimators import (
        CuttingPlaneMMC,
        EvolutionaryMMC,
        LeastSquaresMMC,
        PairwiseMMC,
        StochasticMMC,
        SubspaceMMC,
    )
    from dmmc.results.metrics import score

__version__ = "0.1.0.dev0"

__all__ = [
    "ClusterLost",
    "ClusteringWarning",
    "ConvergenceWarning",
    "CuttingPlaneMMC",
    "EvolutionaryMMC",
    "InputError",
    "LeastSquaresMMC",
    "OutOfTime",
    "PairwiseMMC",
    "StochasticMMC",
    "SubspaceMMC",
    "__version__",
    "fit",
    "load",
    "propose_pairs",
    "score",
]

# public name -> the module that is imported when the name is first used
_LAZY = {
    "fit": "dmmc.app.api",
    "load": "dmmc.app.api",
    "propose_pairs": "dmmc.app.propose_pairs",
    "CuttingPlaneMMC": "dmmc.estimators",
    "LeastSquaresMMC": "dmmc.estimators",
    "PairwiseMMC": "dmmc.estimators",
    "EvolutionaryMMC": "dmmc.estimators",
    "StochasticMMC": "dmmc.estimators",
    "SubspaceMMC": "dmmc.estimators",
    "score": "dmmc.results.metrics",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
