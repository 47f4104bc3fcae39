"""Predicting on a cluster: workers read and score rows, and write labels (`predict_write`) or send them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.dataset import Rows, Stored
from dmmc.estimators.predict_write import Ask, decide
from dmmc.features.maps import Decision
from dmmc.sources.open import Wanted, open_source

if TYPE_CHECKING:
    from dmmc.engine.dask_client import Cluster
    from dmmc.engine.distributed import Distributed


@contextmanager
def rows_on_cluster(
    X: Any,
    component: str | None,
    n_jobs: int | None,
    scheduler: Any,
    workers: int | None,
    security: Any,
    wanted: Wanted | None = None,
) -> Iterator[tuple[Rows, Cluster]]:
    """A source as a cluster sees it, and the cluster."""
    from dmmc.engine.connect import connect

    with connect(scheduler, workers, security) as cluster, open_source(X, component, wanted=wanted) as opened:
        yield opened.open_rows(n_jobs, cluster.compute), cluster


def make_engine(rows: Rows, cluster: Cluster) -> Distributed:
    """An engine of the cluster's workers."""
    from dmmc.engine.distributed import Distributed

    return Distributed(rows, cluster)


def find_labels(rows: Stored, cluster: Cluster, decision: Decision) -> Array:
    """Labels of all rows, sent back by the workers: no file, as they may be on machines with other disks."""
    with make_engine(rows, cluster) as engine:
        return np.concatenate(
            list(engine.rows(label_block, Ask(decision, rows.name, rows.feature_names, scores=False)))
        )


def label_block(block: Block, ask: Ask) -> Array:
    """Labels of a block."""
    return decide(block, ask).standing.labels
