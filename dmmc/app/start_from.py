"""`init` as the folder of an earlier result: its model labels the rows that a search starts from."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators.parameters import Words, list_parameters
from dmmc.estimators.source_clusterer import SourceClusterer
from dmmc.profile.confidence import find_standing


def is_earlier(init: Any) -> bool:
    """Whether `init` is a path: a Path, or a text that names a folder or could be nothing but a path."""
    if isinstance(init, Path):
        return True
    return isinstance(init, str) and (os.sep in init or Path(init).is_dir())


def check_start(init: Any, model: SourceClusterer) -> None:
    """Refuse a word that is no start of a method's, and names no folder either."""
    for name, _, allowed, _ in list_parameters(model):
        if name == "init" and isinstance(allowed, Words) and isinstance(init, str) and init not in allowed.words:
            words = ", ".join(map(repr, allowed.words))
            raise InputError(
                f"init is {init!r}; choose one of {words}, or give labels, or the folder of an earlier result, which "
                f"{init!r} is not."
            )


def predict_start(engine: Engine, earlier: SourceClusterer, model: SourceClusterer, name: str) -> Array:
    """Labels (n,) of an engine's rows by an earlier model.

    model : the new one, which has at least as many clusters
    name : of the earlier result, for messages
    """
    k, wanted = earlier.count_clusters(), int(model.n_clusters)
    if k > wanted:
        raise InputError(f"{name} has {k} clusters, and {wanted} are asked for: a start has no more of them.")
    earlier.check_rows(engine.dataset)
    labels = find_standing(engine.rows, earlier.decision(), engine.dataset.n_rows).labels
    if len(np.unique(labels)) < 2:
        raise InputError(f"{name} gives all rows of {engine.dataset.name} one label; a start needs at least two.")
    return labels
