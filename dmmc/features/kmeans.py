"""scikit-learn's k-means, on one thread and without a word about rows that are alike."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dmmc.array_types import Array
from dmmc.process_state import Shared, ThreadPools

if TYPE_CHECKING:
    from sklearn.cluster import KMeans


def fit_kmeans(rows: Any, count: int, seed: int, max_iter: int = 300, weight: Array | None = None) -> KMeans:
    """k-means from one start of so many centres; of fewer where rows (n, d) differ by less than rounding."""
    from sklearn.cluster import KMeans

    with ThreadPools.use_one_thread(), _IGNORE_ALIKE:
        return KMeans(count, n_init=1, max_iter=max_iter, random_state=seed).fit(rows, sample_weight=weight)


@contextmanager
def _ignore_alike() -> Iterator[None]:
    """Let nobody hear that there are fewer distinct rows than centres: then all of them are centres."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


_IGNORE_ALIKE = Shared(_ignore_alike)
