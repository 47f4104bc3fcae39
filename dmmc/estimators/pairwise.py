"""Maximum margin clustering with must-links and cannot-links (paper 003)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dmmc import constraints as known
from dmmc import start
from dmmc.constraints import Closed, Links
from dmmc.data import Csr, Rows
from dmmc.engine import Engine
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.estimators.checks import ABOVE_0, choice, number
from dmmc.estimators.fitting import MarginClusterer
from dmmc.geometry import Geometry
from dmmc.losses import LOSSES
from dmmc.solvers.base import Callback
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.pair_losses import PairLosses
from dmmc.solvers.state import Problem, State

WISH = 0.5
FREE = 1000.0


class PairwiseMMC(MarginClusterer):
    """x."""

    def __init__(
        self,
        n_clusters: int = 2,
        *,
        C: float | str = "auto",
        C_pairs: float | str = "auto",
        margin: str = "max",
        balance: float | str | None = "auto",
        min_size: float = 0.1,
        max_size: float | None = None,
        epsilon: float = 0.01,
        max_iter: int = 1000,
        init: str | ArrayLike = "k-means",
        n_init: int | str = "auto",
        scale: str = "auto",
        features: str = "raw",
        n_neighbors: int = 10,
        random_state: Any = None,
        n_jobs: int | None = None,
        max_seconds: float | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.C = C
        self.C_pairs = C_pairs
        self.margin = margin
        self.balance = balance  # type: ignore[assignment]
        self.min_size = min_size
        self.max_size = max_size
        self.epsilon = epsilon
        self.max_iter = max_iter
        self.init = init
        self.n_init = n_init
        self.scale = scale
        self.features = features
        self.n_neighbors = n_neighbors
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.max_seconds = max_seconds
        self.callbacks = callbacks

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "pairwise"

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None, *, constraints: Any = None, component: str | None = None) -> Self:
        self._links = known.read(constraints)
        return super().fit(X, y, sample_weight, component=component)

    def _search(self, engine: Engine, geometry: Geometry, seed: int, began: float) -> None:
        dataset = engine.dataset
        k = int(self.n_clusters)
        links = known.checked(self._links, dataset.n_rows, k)
        lowest, highest = self._bounds(dataset.n_rows)
        problem = Problem(
            n_clusters=k,
            C=self._C(),
            balance=FREE if self.balance is None else self._balance(dataset),
            epsilon=float(self.epsilon),
            inside=False,
            lowest=lowest,
            highest=highest,
            geometry=geometry,
            sample=lambda: geometry.apply(dataset.take(start.sample_rows(dataset, k, seed))),
            table=LOSSES["hinge"].table,
            wide=k > 2 or self._starts() > 1,
            guarded=k > 2 and self.max_size is None and 0 < self.min_size < WISH,
            summed=self.margin == "sum",
            pairs=self._pair_losses(links, dataset, geometry),
        )
        solver = CuttingPlane(problem, engine.run)

        def begin() -> State:
            return solver.init(self._labellings(engine, geometry, seed), dataset.n_features)

        state, history, why = self._driven(solver, begin, geometry, began)
        best = solver.best(state)
        why = best.ended if why == "done" else why
        self._found(geometry, seed, history, best.best.value, best.gap, why, C=problem.C, init=self._init)
        self._phase("label")
        self._settle(geometry.raw(best.best.W, best.best.b, best.best.price), engine)
        self._tell_of_end(why)
        self._tell_of_bound(why, bool(best.best.price.any()))
        self._tell_of_empty()

    def _pair_losses(self, links: Links, dataset: Rows, geometry: Geometry) -> PairLosses | None:
        if not links.size:
            return None
        found = known.closed(links, int(self.n_clusters))
        rows = dataset.take(found.rows)
        if not isinstance(rows, np.ndarray):
            kind = np.uint32 if dataset.n_features <= 2**31 else np.uint64
            rows = Csr(rows.data, rows.indices.astype(kind), rows.indptr.astype(np.int64), dataset.n_features)
        C = self._C_pairs()
        scale = getattr(self, "_scale_c", lambda m: 1.0)
        return PairLosses(rows, found.must, found.cannot, geometry, C*scale(found.must.weight.sum()), C*scale(found.cannot.weight.sum()))

    def _C(self):
        return (30.0 if self.n_clusters == 2 else 100.0) if self.C == "auto" else float(self.C)
    def _C_pairs(self):
        return 30.0 if self.C_pairs == "auto" else float(self.C_pairs)

    def check_parameters(self) -> None:
        pass

def _plain(links):
    rows, flat = np.unique(np.stack([links.one, links.other], axis=1), return_inverse=True)
    ends = flat.reshape(-1, 2)
    return rows, ends[links.must], ends[~links.must]
