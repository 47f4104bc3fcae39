"""Predicting on a cluster: workers read and score rows, and write labels into zarr arrays or send them back."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import ONE_BLOCK, Block, Csr
from dmmc.data.dataset import Rows, Stored
from dmmc.data.open import open_rows
from dmmc.errors import InputError
from dmmc.features import maps
from dmmc.features.maps import Decision
from dmmc.model import inspect, passes
from dmmc.results.label_arrays import CHUNK_ROWS, create_arrays, open_to_write

if TYPE_CHECKING:
    from dmmc.engine.dask_client import Cluster


@contextmanager
def rows_on_cluster(
    X: Any, component: str | None, n_jobs: int | None, scheduler: Any, workers: int | None, security: Any
) -> Iterator[tuple[Rows, Cluster]]:
    """A source as a cluster sees it, and the cluster."""
    from dmmc.engine.connect import connect

    with connect(scheduler, workers, security) as cluster:
        yield open_rows(X, component, n_jobs, cluster.compute), cluster


def write(rows: Stored, cluster: Cluster, decision: Decision, paths: Mapping[str, Path]) -> None:
    """Write labels (and scores) of all rows; they appear when all of them are whole."""
    from dmmc.engine.distributed import Distributed

    each = block_rows(rows.nbytes / rows.n_rows)
    bounds = np.append(np.arange(0, rows.n_rows, each), rows.n_rows).astype(np.int64)
    K = decision[1].n_scores
    shapes: dict[str, tuple[tuple[int, ...], type]] = {
        "labels": ((rows.n_rows,), np.int32),
        "scores": ((rows.n_rows,) if K == 1 else (rows.n_rows, K), np.float64),
    }
    with create_arrays({path: shapes[what] for what, path in paths.items()}) as asides:
        sink = Files(*(str(asides[paths[what]].absolute()) if what in paths else None for what in shapes))
        with Distributed(replace(rows, bounds=bounds), cluster) as engine:
            engine.write(decide, (decision, rows.name), sink, CHUNK_ROWS // each)


def find_labels(rows: Stored, cluster: Cluster, decision: Decision) -> Array:
    """Labels of all rows, sent back by the workers: no file, as they may be on machines with other disks."""
    from dmmc.engine.distributed import Distributed

    with Distributed(rows, cluster) as engine:
        return np.concatenate(list(engine.rows(label_block, (decision, rows.name))))


def block_rows(row_bytes: float) -> int:
    """Rows of a block: a power of two, so that whole blocks make a chunk of labels."""
    most = max(1, min(CHUNK_ROWS, int(ONE_BLOCK / max(row_bytes, 1))))
    return int(2 ** (most.bit_length() - 1))


def decide(block: Block, params: tuple[Decision, str]) -> Array:
    """Scores of a block; a number that is not finite is an error that names it."""
    decision, name = params
    f = maps.check_and_score(block, decision)
    if isinstance(f, tuple):
        rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else block.rows
        raise inspect.named_not_finite(name, f, rows[f[0] - block.start, f[1]])
    return f


def label_block(block: Block, params: tuple[Decision, str]) -> Array:
    """Labels of a block."""
    return passes.decide_labels(decide(block, params)).astype(np.int32)


class Files:
    """Where workers put what they found: a sink that pickles as two paths."""

    def __init__(self, labels: str | None, scores: str | None) -> None:
        self.labels = labels
        self.scores = scores

    def __call__(self, start: int, stop: int, found: list[Array]) -> None:
        """Write a whole chunk: the scores of consecutive blocks, and the labels they decide."""
        f = np.concatenate(found)
        if self.labels is not None:
            _open(self.labels)[start:stop] = passes.decide_labels(f).astype(np.int32)
        if self.scores is not None:
            _open(self.scores)[start:stop] = f[:, 0] if f.shape[1] == 1 else f


def _open(path: str) -> Any:
    """An array that the driver has made, if this machine sees it."""
    if not os.path.isdir(path):
        folder = os.path.dirname(path)
        raise InputError(
            f"{os.uname().nodename}, which was asked to write labels, does not see the folder {folder!r}: a path "
            "that all workers see is wanted; in Python, without `out`, labels come back to the driver."
        )
    return open_to_write(path)
