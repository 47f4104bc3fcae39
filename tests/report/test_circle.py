"""The map of many clusters in curved features."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestCentroid

from dmmc.report.circle import place_on_circle


def test_rows_lie_with_their_cluster_and_between_those_that_they_are_near() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 6
    f = rng.normal(0, 0.2, (600, 6)) + 2.0 * (labels[:, None] == np.arange(6))
    f[0] = [2, 0, 0, 0, 2, 0]
    xy = place_on_circle(f)
    assert np.all(np.hypot(*xy.T) <= 1.0)
    told = NearestCentroid().fit(xy[1:], labels[1:])
    assert np.mean(told.predict(xy[1:]) == labels[1:]) > 0.98
    centres = told.centroids_
    away = np.linalg.norm(centres - xy[0], axis=1)
    assert abs(away[0] - away[4]) < 0.1 * away[0]


def test_clusters_that_rows_confuse_are_neighbours_on_the_circle() -> None:
    labels = np.arange(400) % 4
    f = 2.0 * (labels[:, None] == np.arange(4))
    f = f + 1.8 * (labels[:, None] == (np.arange(4) + 2) % 4)  # 0 with 2, 1 with 3
    f = f + np.random.default_rng(0).normal(0, 0.1, f.shape)
    xy = place_on_circle(f + 0.5 * (labels[:, None] == np.arange(4)))
    angle = [np.angle(complex(*xy[labels == c].mean(axis=0))) for c in range(4)]
    apart = [abs((angle[a] - angle[b] + np.pi) % (2 * np.pi) - np.pi) for a, b in ((0, 2), (1, 3))]
    assert max(apart) < 0.6 * np.pi
