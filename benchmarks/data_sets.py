"""The real data sets of the tests and benchmarks.

Four come with scikit-learn; the others are files that ``$DMMC_DATA`` points to. Nothing is downloaded.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import InputError

__all__ = ["BUNDLED", "COUNTS", "FILES", "customers", "folder", "load", "pair", "read_words", "with_outliers"]

BUNDLED = ("digits", "wine", "iris", "breast_cancer")
"""Data sets that come with scikit-learn."""

FILES = (
    "mnist",
    "letter",
    "satellite",
    "ionosphere",
    "newsgroups_rec",
    "cifar10_cnn",
    "fashion_mnist",
    "newsgroups",
    "usps",
    "coil20",
    "webkb",
    "cora",
)
"""Data sets that are files ``NAME.npz`` in the data folder."""

COUNTS = ("newsgroups_rec", "newsgroups", "webkb")
"""Texts, whose rows are tf-idf; ``NAME:counts`` are the counts of words that these were made of."""

_BESIDE_THE_CHECKOUT = Path(__file__).resolve().parents[2] / "shared" / "data"


def folder() -> Path | None:
    """Where the data files are: ``$DMMC_DATA`` if set, else ``../shared/data`` beside the checkout, if there.

    Returns
    -------
    Path or None
        A folder (for ``$DMMC_DATA`` not checked), or None if there is none.
    """
    named = os.environ.get("DMMC_DATA")
    if named:
        return Path(named)
    return _BESIDE_THE_CHECKOUT if _BESIDE_THE_CHECKOUT.is_dir() else None


def load(name: str, data: str | os.PathLike[str] | None = None) -> tuple[Any, NDArray[Any]]:
    """Rows and true classes of one data set, in its own dtype.

    Parameters
    ----------
    name : str
        One of `BUNDLED` or `FILES`, or one of `COUNTS` with ``:counts`` after it.
    data : path, optional
        The folder with the files; by default `folder()`.

    Returns
    -------
    X : ndarray or scipy.sparse.csr_matrix of shape (n, d)
        Sparse for texts (tf-idf, or counts, float32).
    y : ndarray of shape (n,)
        True classes: numbers, or letters for ``letter``.

    Raises
    ------
    InputError
        If the name is not known or the file is not there; the sentence says where it was looked for.
    """
    if name in BUNDLED:
        return _bundled(name)
    name, _, part = name.partition(":")
    if name not in FILES or part not in ("", "counts" if name in COUNTS else ""):
        raise InputError(f"There is no data set {name!r}: one of {', '.join(BUNDLED + FILES)} is wanted.")
    place = folder() if data is None else Path(data)
    if place is None:
        raise InputError(
            f"The data set {name!r} is a file, and no data folder was found: DMMC_DATA is not set and "
            f"{_BESIDE_THE_CHECKOUT} does not exist."
        )
    path = place / f"{name}.npz"
    if not path.is_file():
        raise InputError(f"The data set {name!r} was looked for at {path}, and there is no such file.")
    with np.load(path, allow_pickle=False) as arrays:
        if "indptr" not in arrays:
            return arrays["X"], arrays["y"]
        from scipy.sparse import csr_matrix

        indices = arrays["indices"].astype(np.int32)
        pieces = arrays[part or "data"].astype(np.float32), indices, arrays["indptr"].astype(np.int32)
        return csr_matrix(pieces, shape=tuple(arrays["shape"])), arrays["y"]


def read_words(name: str, data: str | os.PathLike[str] | None = None) -> tuple[list[str], list[str]]:
    """Names of the classes of a set of texts, and the word that each column counts.

    Parameters
    ----------
    name : str
        One of `COUNTS`.
    data : path, optional
        The folder with the files; by default `folder()`.

    Returns
    -------
    groups, words : lists of str
    """
    place = folder() if data is None else Path(data)
    load(name, data)  # says what is missing
    assert place is not None
    with np.load(place / f"{name}.npz", allow_pickle=False) as arrays:
        return arrays["target_names"].tolist(), [word.decode() for word in arrays["vocab"].tolist()]


def _bundled(name: str) -> tuple[NDArray[Any], NDArray[Any]]:
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    return X, y


def pair(X: Any, y: NDArray[Any], a: Any, b: Any) -> tuple[Any, NDArray[Any]]:
    """The rows of two classes.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        All rows.
    y : ndarray of shape (n,)
        Their classes.
    a, b : number or str
        The two classes wanted.

    Returns
    -------
    X, y
        The rows of class `a` or `b`, in their order, and their classes.
    """
    for wanted in (a, b):
        if not (y == wanted).any():
            raise InputError(f"No row is of class {wanted!r}: y holds {np.unique(y).tolist()}.")
    chosen = np.flatnonzero((y == a) | (y == b))
    return X[chosen], y[chosen]


def with_outliers(seed: int, n: int, share: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two clusters of n rows together, then outliers at 100 times their scale.

    Parameters
    ----------
    seed : int
        Of the random numbers.
    n : int
        Rows that are no outliers; these come first.
    share : float
        Outliers of all rows.

    Returns
    -------
    X : ndarray of shape (n + outliers, 10)
    y : ndarray of shape (n + outliers,)
        The cluster of each row, 0 or 1; for outliers, either by chance.
    """
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, 10)) + 3.0 * np.outer(2 * y - 1, np.eye(10)[0])
    far = int(share * n / (1 - share))
    X = np.vstack([X, 100.0 * X.std() * rng.standard_normal((far, 10))])
    return X, np.concatenate([y, rng.integers(0, 2, far)])


def customers(seed: int, n: int = 2000) -> tuple[NDArray[Any], NDArray[Any]]:
    """A table of customers: age, and the logarithms of income, spending and visits, which are lognormal.

    Parameters
    ----------
    seed : int
        Of the random numbers.
    n : int
        Customers.

    Returns
    -------
    X : ndarray of shape (n, 4)
    y : ndarray of shape (n,)
        Four segments: half of the customers, 28, 15 and 7 %.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.5, 0.28, 0.15, 0.07])
    age = np.clip(rng.normal(np.array([44, 27, 56, 69])[y], 5), 18, 95)
    income = rng.lognormal(np.array([10.3, 9.9, 11.2, 9.7])[y], 0.3)
    spending = rng.lognormal(np.array([5.6, 6.6, 7.8, 4.2])[y], 0.45)
    visits = rng.lognormal(np.array([1.5, 2.4, 1.8, 0.4])[y], 0.35)
    return np.column_stack([age, np.log(income), np.log(spending), np.log(visits)]), y
