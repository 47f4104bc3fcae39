"""Principal axes by subspace iteration: a few passes over the data, dense or sparse, in any number of blocks."""

import numpy as np

from dmmc.array_types import Array
from dmmc.model import passes
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Hyperplanes, Oracle
from dmmc.time_limit import NO_LIMIT, TimeLimit

ROUNDS, MORE_ROUNDS = 8, 20
"""Passes; more for latent semantic axes, whose eigenvalues lie close together."""
SPARE = 8
"""Axes beyond those that are wanted: they make these converge."""


def principal_axes(
    oracle: Oracle,
    geometry: Geometry,
    wanted: int,
    key: list[int],
    *,
    centred: bool = True,
    limit: TimeLimit = NO_LIMIT,
) -> Array:
    """The leading axes (wanted, d) of the scaled rows, from a fixed start whose seed is `key`.

    Axes of the covariance; or, not centred, those of the rows as they are, as latent semantic analysis takes them. When
    the time is up they are less exact.
    """
    d = len(geometry.unit)
    width = min(d, wanted + SPARE)
    V = np.linalg.qr(np.random.default_rng(key).standard_normal((d, width)))[0].T
    for turn in range(ROUNDS if centred else MORE_ROUNDS):
        if turn and limit.is_over:
            break
        planes = geometry.raw(V, np.zeros(width)) if centred else _uncentred(geometry, V)
        image = oracle(passes.second_moment, planes)
        tilt = image.tilt if centred else np.zeros(width)
        V = _orthonormal(geometry.centre(image.weighted, tilt), V)
    return np.asarray(V[:wanted])


def _uncentred(geometry: Geometry, V: Array) -> Hyperplanes:
    return Hyperplanes(V / geometry.unit, np.zeros(len(V)), np.zeros(len(V)))


def _orthonormal(image: Array, V: Array) -> Array:
    """The span of the image, turned to the eigenvectors of the restriction; signs: largest entry positive."""
    _, turn = np.linalg.eigh((image @ V.T + V @ image.T) / 2)
    Q = np.linalg.qr((turn.T[::-1] @ image).T)[0].T
    signs = np.sign(Q[np.arange(len(Q)), np.abs(Q).argmax(axis=1)])
    return np.asarray(Q * signs[:, None])
