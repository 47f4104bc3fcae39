"""How well a model separates rows: the cut of the judge, by which any two models of the same rows can be compared."""

import numpy as np

from dmmc.array_types import Array
from dmmc.choose.judge import judge, link_rows
from dmmc.choose.sample import take_sample
from dmmc.data.dataset import Dataset
from dmmc.engine import Local
from dmmc.errors import collect_warnings
from dmmc.model.geometry import measure


def find_cut(dataset: Dataset, labels: Array, n_clusters: int, n_jobs: int | None = None) -> float:
    """The normalised cut (E36) of labels (n,) in the raw columns: the part of near rows in other clusters, 0 at best.

    A sample of the rows is linked to its nearest ones, on one scale or, of sparse rows, by angle.
    """
    with collect_warnings(), Local(dataset, n_jobs) as engine:  # the fit has warned of these rows
        geometry, rows = measure(engine.dataset, engine.rows, "auto")
        sample = take_sample(rows, geometry, 0, by_angle=rows.is_sparse)
    links = link_rows(np.arange(len(sample.rows)), sample.places)
    own = labels[sample.rows]
    return judge(links, own, np.bincount(own, minlength=n_clusters)).cut
