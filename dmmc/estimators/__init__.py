"""Estimators: thin scikit-learn shells over data, engine, start and solver."""

from dmmc.estimators.cutting_plane import CuttingPlaneMMC

__all__ = ["CuttingPlaneMMC"]
