"""Estimators: thin scikit-learn shells over data, engine, start and solver."""

from dmmc.estimators.auto import AutoMMC
from dmmc.estimators.cutting_plane import CuttingPlaneMMC
from dmmc.estimators.evolution import EvolutionaryMMC
from dmmc.estimators.least_squares import LeastSquaresMMC
from dmmc.estimators.pairwise import PairwiseMMC
from dmmc.estimators.stochastic import StochasticMMC
from dmmc.estimators.subspace import SubspaceMMC

__all__ = [
    "AutoMMC",
    "CuttingPlaneMMC",
    "EvolutionaryMMC",
    "LeastSquaresMMC",
    "PairwiseMMC",
    "StochasticMMC",
    "SubspaceMMC",
]
