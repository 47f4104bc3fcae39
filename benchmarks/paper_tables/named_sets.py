"""The data sets of the papers, by names such as "digits 3-8", "letter A-B", "text 1" or "satellite train 1-2"."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import data_sets
import numpy as np

TEXTS = {"text 1": (0, 1), "text 2": (2, 3)}
TRAINED = {"satellite": 4435, "usps": 7291}
"""Rows of the training parts, which come first."""
HARD = ("3-8", "1-7", "2-7", "8-9")
"""The pairs of digits that the papers single out."""
PAIRS = tuple(f"{a}-{b}" for a, b in combinations(range(10), 2))
FEW = 240
"""Rows of a set in quick runs."""


@cache
def load_whole(name: str) -> tuple[Any, Any]:
    """All rows of a file or of a set of scikit-learn."""
    return data_sets.load(name)


def load(name: str, quick: bool = False, most: int | None = None) -> tuple[Any, Any]:
    """Rows and classes of a set; of more rows than `most` (240 in quick runs) some, drawn at random."""
    X, y = _find(name)
    most = FEW if quick else most
    if most is not None and len(y) > most:
        chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:most])
        X, y = X[chosen], y[chosen]
    return (np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X), y


def _find(name: str) -> tuple[Any, Any]:
    if name in TEXTS:
        return data_sets.pair(*load_whole("newsgroups_rec"), *TEXTS[name])
    words = name.split()
    X, y = load_whole(words[0])
    if "train" in words:
        X, y = X[: TRAINED[words[0]]], y[: TRAINED[words[0]]]
    if "-" not in words[-1]:
        return X, y
    classes = words[-1].split("-")
    return classes_of(X, y, tuple(c if y.dtype.kind == "U" else int(c) for c in classes))


def classes_of(X: Any, y: Any, classes: tuple[Any, ...]) -> tuple[Any, Any]:
    """The rows of some classes."""
    chosen = np.flatnonzero(np.isin(y, classes))
    return X[chosen], y[chosen]
