"""What phases before a search leave in a checkpoint: the arrays of each.

n is the number of rows, d that of their features, k that of the clusters. Other sides are told by whoever makes the
arrays, or are those of the first array that has them.
"""

from typing import Any

import numpy as np

from dmmc.estimators.parameters import ABOVE_0
from dmmc.model.geometry import Geometry
from dmmc.solvers import state_shapes
from dmmc.solvers.state_shapes import Numbers, Only, Sizes

SLACK = 2.0
"""Of the bounds, for rounding."""

_LANDMARKS = {"points": Numbers(np.float64, "r", "d"), "root": Numbers(np.float64, "m", "r", least=1)}

PHASES = {
    "axes": Only(
        {
            "w": Numbers(np.float64, "p", "d", within="steepest"),
            "b": Numbers(np.float64, "p", within="highest"),
            "rows": Numbers(np.float32, "n", "p"),
        }
    ),
    "axes of anchors": Only(
        {"w": Numbers(np.float64, "p", "d", within="steepest"), "b": Numbers(np.float64, "p", within="highest")}
    ),
    "anchors": Only(
        {
            "points": Numbers(np.float32, "G", "p", least=2),
            "lists": Numbers(np.float32, "lists", "p"),
            "recall": Numbers(np.float64, 1, low=0, high=1),
        }
    ),
    "anchor_graph": Only(
        {
            "weight": Numbers(np.float64, "edges", low=0),
            "from": Numbers(np.int32, "edges", low=0, below="G"),
            "to": Numbers(np.int32, "edges", low=0, below="G"),
            "means": Numbers(np.float32, "G", "p"),
            "mass": Numbers(np.float64, "G", low=0),
        }
    ),
    "features of anchors": Only({"values": Numbers(np.float32, "n", "m")}),
    "probe of anchors": Only(
        {
            "w": Numbers(np.float64, "starts", "k", "m"),
            "b": Numbers(np.float64, "starts", "k"),
            "price": Numbers(np.float64, "starts", "k"),
            "ratio": Numbers(np.float64, 1, low=0),
        }
    ),
    "neighbours": Only(
        {
            "who": Numbers(np.int64, "n", "near", low=0, below="n"),
            "distance": Numbers(np.float64, "n", "near", low=0),
            "recall": Numbers(np.float64, 1, low=0, high=1),
        }
    ),
    "spectral": Only({"vectors": Numbers(np.float32, "n", "m")}),
    "features": Only({"values": Numbers(np.float32, "n", "m")}),
    "join": Only(
        {
            "labels": Numbers(np.int16, "n", "starts", low=0, below="k"),
            "trees": Numbers(np.float64, "starts", "joins", 3, finite=False),
        }
    ),
    "topics": Only({"labels": Numbers(np.int16, "n", "starts", low=0, below="k")}),
    "probe": Only(
        {"labels": Numbers(np.int64, "n", "starts", low=0, below="k"), "ratio": Numbers(np.float64, 1, low=0)}
    ),
    "landmarks": Only({**_LANDMARKS, "gamma": Numbers(np.float64, 1, low=ABOVE_0)}),
    "landmarks without a width": Only(_LANDMARKS),
}


def find_misfit(phase: str, geometry: Geometry, sizes: Sizes, found: dict[str, Any]) -> str:
    """Say where arrays are not those of a phase; "" where they are.

    Directions of norm 1 between centred and scaled rows bound those between raw rows, and their biases.
    """
    inverse = 1.0 / np.abs(geometry.unit)
    bounds = {"steepest": SLACK * inverse.max(), "highest": SLACK * (np.abs(geometry.mean) * inverse).sum()}
    return state_shapes.find_misfit(found, PHASES[phase], {**sizes, **bounds})
