"""Estimators: thin scikit-learn shells over data, engine, start and solver."""

from dmmc.estimators.cutting_plane import CuttingPlaneMMC
from dmmc.estimators.pairwise import PairwiseMMC

__all__ = ["CuttingPlaneMMC", "PairwiseMMC"]
