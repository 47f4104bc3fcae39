"""What the benchmarks on a cluster share: worker processes, stores written part by part, fits and their seconds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import dask
import data_sets
import numpy as np
import zarr
from distributed import Client, LocalCluster
from numpy.typing import NDArray

import dmmc
from dmmc.engine.local_workers import LEAN

Array = NDArray[Any]
Part = Callable[[int, int], Array]
"""Rows start to stop; what they are depends on where a part begins, so it is asked for chunk by chunk."""

CHUNK_BYTES = 8 * 2**20
CONTRAST, NOISE = 12, 128
"""Grey levels by which centres differ and rows of a blob do: at 784 features the blobs overlap by a few per cent."""


@contextmanager
def local_client(workers: int, memory_limit: str | int = 0) -> Iterator[Client]:
    """A client of so many worker processes of one thread each, under nannies; 0 is no memory limit.

    Settings are those of dmmc's own local workers, without Dask's profiler and its log of messages.
    """
    with dask.config.set(LEAN):
        cluster = LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            memory_limit=memory_limit,
            silence_logs=50,
        )
        client = Client(cluster)
    with cluster, client:
        yield client


# ------------------------------------------------------------------------------------------------------------ stores


def blobs(n_features: int, n_clusters: int) -> Part:
    """Bytes around random centres, with noise that does not compress."""
    centres = np.random.default_rng(0).integers(0, CONTRAST, (n_clusters, n_features), dtype=np.uint8)

    def part(start: int, stop: int) -> Array:
        rng = np.random.default_rng([1, start])
        rows = rng.integers(0, NOISE, (stop - start, n_features), dtype=np.uint8)
        rows += centres[rng.integers(n_clusters, size=stop - start)]
        return rows

    return part


def copies(X: Array) -> Part:
    """The same rows again and again."""

    def part(start: int, stop: int) -> Array:
        return X[np.arange(start, stop) % len(X)]

    return part


def load_bytes(small: bool) -> tuple[str, Array, Array]:
    """MNIST, or for small runs the digits of scikit-learn: what to call it, its bytes, its classes."""
    X, y = data_sets.load("digits" if small else "mnist")
    return "digits" if small else "MNIST", np.ascontiguousarray(X, np.uint8), y


def count_chunk_rows(part: Part) -> int:
    """Rows of a chunk of the store that is made of these parts."""
    return max(1, CHUNK_BYTES // part(0, 1).nbytes)


def write_store(path: Path, n_rows: int, part: Part, *, compressed: bool = True) -> Path:
    """Write rows to a zarr store, a chunk at a time."""
    first = part(0, 1)
    n_features = first.shape[1]
    each = count_chunk_rows(part)
    array = zarr.create_array(
        path,
        shape=(n_rows, n_features),
        chunks=(each, n_features),
        dtype=first.dtype,
        compressors="auto" if compressed else None,
    )
    for start in range(0, n_rows, each):
        stop = min(start + each, n_rows)
        array[start:stop] = part(start, stop)
    return path


# -------------------------------------------------------------------------------------------------------------- fits


class Fitted(NamedTuple):
    """What is compared of a fit."""

    labels: Array
    passes: int
    search: float
    """Seconds of the passes of the search: data loaded, starting point found."""
    total: float
    """Seconds of everything, on a cluster that is there."""

    each: float
    """Seconds of one pass of the search: the median, as a pass that takes all labels again has more to do."""


def fitted(source: Any, n_clusters: int, max_iter: int, **options: Any) -> Fitted:
    """Fit, with an end to the passes; what it has to say of the clusters is of no interest here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        run = dmmc.fit(source, n_clusters, method="cpmmc", max_iter=max_iter, **options)
    seconds = run.info["timings"]
    each = np.diff([line["seconds"] for line in run.history], prepend=0.0)
    return Fitted(run.labels, len(run.history), seconds["search"], seconds["total"], float(np.median(each)))
