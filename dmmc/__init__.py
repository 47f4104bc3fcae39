"""Maximum margin clustering at scale.

``dmmc.fit(source, n_clusters)`` clusters any matrix, ``dmmc.load(folder)`` reads a model back, and
``dmmc.score(labels, truth)`` says how well. Importing
this package is quick: numba, dask, zarr and scikit-learn are imported by the first call that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from dmmc.errors import ClusteringWarning, ClusterLost, ConvergenceWarning, InputError, OutOfTime, StoreFailed

if TYPE_CHECKING:
    from dmmc.app.api import fit, load
    from dmmc.app.propose_pairs import propose_pairs
    from dmmc.estimators import (
        AutoMMC,
        CuttingPlaneMMC,
        EvolutionaryMMC,
        LeastSquaresMMC,
        PairwiseMMC,
        StochasticMMC,
        SubspaceMMC,
    )
    from dmmc.estimators.paper_units import from_paper_units
    from dmmc.results.metrics import score
    from dmmc.tables.preparation import TablePreparation

__version__ = "0.1.0.dev0"

__all__ = [
    "AutoMMC",
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
    "StoreFailed",
    "SubspaceMMC",
    "TablePreparation",
    "__version__",
    "fit",
    "from_paper_units",
    "load",
    "propose_pairs",
    "score",
]

# public name -> the module that is imported when the name is first used
_LAZY = {
    "fit": "dmmc.app.api",
    "load": "dmmc.app.api",
    "propose_pairs": "dmmc.app.propose_pairs",
    "AutoMMC": "dmmc.estimators",
    "CuttingPlaneMMC": "dmmc.estimators",
    "LeastSquaresMMC": "dmmc.estimators",
    "PairwiseMMC": "dmmc.estimators",
    "EvolutionaryMMC": "dmmc.estimators",
    "StochasticMMC": "dmmc.estimators",
    "SubspaceMMC": "dmmc.estimators",
    "from_paper_units": "dmmc.estimators.paper_units",
    "TablePreparation": "dmmc.tables.preparation",
    "score": "dmmc.results.metrics",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
