"""Rows opened for a fit, and the features that it searches in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import validate_data

from dmmc.data.dataset import Dataset, Rows, Stored
from dmmc.data.open import open_dataset
from dmmc.engine import Engine, Local
from dmmc.errors import InputError
from dmmc.estimators import parameters
from dmmc.estimators.base import LinearClusterer
from dmmc.estimators.parameters import ABOVE_0, choice, number
from dmmc.features import nystroem
from dmmc.features.build import FEATURES, Ask, Built, Remember, build
from dmmc.features.mapped_rows import mapped
from dmmc.features.nystroem import KERNELS, LANDMARKS, MOST, Kernel, Nystroem
from dmmc.machine import count_threads
from dmmc.model.geometry import Geometry, measure
from dmmc.solvers import starts
from dmmc.solvers.driver import Callback, Keeper

Array = NDArray[Any]


class Featured(LinearClusterer):
    """An estimator whose hyperplanes are between rows as they are, or between features of them.

    Its constructor takes `features`, `n_neighbors` and, for kernels, `n_components, kernel, gamma, degree, coef0,
    landmarks`.
    """

    n_components: int = 200
    kernel: str = "rbf"
    gamma: float | str = "auto"
    degree: int = 3
    coef0: float = 1.0
    landmarks: str = "k-means"
    _notes: dict[str, Any]
    _standardised: bool
    _listener: Callback | None = None
    _engine: Engine | None = None
    _keeper: Keeper | None = None

    def on(self, engine: Engine | None) -> None:
        """Let the next fit run on this engine, whose rows it is then given; whoever made it closes it."""
        self._engine = engine

    @contextmanager
    def _working(self, dataset: Rows) -> Iterator[Engine]:
        """The engine of a fit, with these rows: the one it was told to use, or threads of its own."""
        if self._engine is not None:
            self._engine.use(dataset)
            yield self._engine
            return
        with Local(open_dataset(dataset), self.n_jobs) as engine:
            yield engine

    def watch(self, listener: Callback | None, keeper: Keeper | None = None) -> None:
        """Tell `listener` when a phase of the next fit begins, and about each pass; let `keeper` save its search."""
        self._listener, self._keeper = listener, keeper

    def _phase(self, name: str) -> None:
        if self._listener is not None:
            self._listener({"phase": name})

    def _open(self, source: Any, component: str | None, sample_weight: ArrayLike | None) -> Rows:
        """The training rows with their weights; sets `n_features_in_` and, for frames, `feature_names_in_`."""
        dataset = source if self._engine is not None else open_dataset(source, component, self.n_jobs)
        if hasattr(source, "columns"):
            validate_data(self, source, skip_check_array=True)
        elif isinstance(source, Dataset | Stored) and source.feature_names is not None:
            self.feature_names_in_ = np.array(source.feature_names, object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.n_features_in_ = dataset.n_features
        if dataset.n_rows < self.n_clusters:
            raise InputError(
                f"{dataset.name} has {dataset.n_rows} sample(s), fewer than n_clusters={self.n_clusters}; "
                "at least one row a cluster is wanted."
            )
        return parameters.weighted(dataset, sample_weight)

    @contextmanager
    def _with_features(self, engine: Engine, geometry: Geometry, seed: int) -> Iterator[tuple[Engine, Geometry]]:
        """Where a search takes place: over the rows as they are, or over features of them; with a graph start's labels.

        Sets `map_` (None for raw rows), and `merge_tree_` where groups were joined along the graph.
        """
        self.map_, self.merge_tree_, self._notes = None, None, {}
        self._standardised = geometry.standardised
        starts = isinstance(self.init, str) and self.init == "graph"
        kernel = self.features == "nystroem"

        def remember(phase: str, make: Callable[[], dict[str, Array]]) -> dict[str, Array]:
            self._phase(phase)
            return make() if self._keeper is None else self._keeper.remember(geometry.fingerprint, phase, make)

        rows = None
        if starts or self.features not in ("raw", "nystroem"):
            features = "raw" if kernel else self.features
            ask = Ask(features, self.n_clusters, self.n_neighbors, seed, count_threads(self.n_jobs), starts)
            built = build(ask, engine.dataset, engine.run, engine.rows, geometry, remember)
            self.map_, self._notes, rows = built.row_map, built.notes, built.rows
            if starts:
                joined = remember("join", lambda: self._joined(engine, built, seed))
                self.merge_tree_ = joined["tree"]
                engine.use(engine.dataset.with_columns(given=joined["labels"]))
        if kernel:
            self.map_ = self._kernel_map(engine.dataset, geometry, seed, remember)
        if self.map_ is None:
            yield engine, geometry
            return
        name = f"{self.features} features of {engine.dataset.name}"
        with self._over_features(engine, None if kernel else rows, name) as inner:
            its_geometry, limited = measure(inner.dataset, inner.rows, "none")
            if limited is not inner.dataset:
                inner.use(limited)
            yield inner, replace(its_geometry, fingerprint=geometry.fingerprint)

    def _over_features(self, engine: Engine, rows: Array | None, name: str) -> AbstractContextManager[Engine]:
        """Where features are the rows: those that are at hand, or each block's when it is its turn."""
        assert self.map_ is not None
        if rows is None:
            return mapped(engine, self.map_, name)
        named = replace(open_dataset(rows), name=name)
        return engine.over(named.with_columns(engine.dataset.weight, engine.dataset.given))

    def _kernel_map(self, dataset: Rows, geometry: Geometry, seed: int, remember: Remember) -> Nystroem:
        """Landmarks and the width of the kernel; notes what was chosen."""
        ask = nystroem.Ask(
            self.kernel, self.gamma, self.degree, self.coef0, int(self.n_components), self.landmarks, seed
        )

        def make() -> dict[str, Array]:
            found = nystroem.nystroem(ask, dataset, geometry)
            return {"points": found.points, "root": found.root, "gamma": np.array([found.kernel.gamma])}

        made = remember("landmarks", make)
        gamma = float(made["gamma"][0])
        self._notes.update(kernel=self.kernel, gamma=gamma, n_components=len(made["points"]), landmarks=self.landmarks)
        kernel = Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))
        return Nystroem(kernel, made["points"], geometry.mean, geometry.norm / geometry.unit, made["root"])

    def _joined(self, engine: Engine, built: Built, seed: int) -> dict[str, Array]:
        """Labels of a graph start, and the tree of its groups."""
        assert built.spectral is not None
        with engine.over(open_dataset(built.spectral)) as grouping:
            geometry, _ = measure(grouping.dataset, grouping.rows, "none")
            return starts.by_graph(grouping.dataset, grouping, geometry, built.graph, self.n_clusters, seed)._asdict()

    def _check_feature_parameters(self) -> None:
        """Refuse a parameter of the features in one sentence."""
        choice("features", self.features, FEATURES)
        number("n_neighbors", self.n_neighbors, "a whole number from 2 to 200", 2, 201, whole=True)
        number("n_components", self.n_components, "a whole number of at least 1", 1, np.inf, whole=True)
        choice("kernel", self.kernel, KERNELS)
        choice("landmarks", self.landmarks, LANDMARKS)
        if not (isinstance(self.gamma, str) and self.gamma == "auto"):
            number("gamma", self.gamma, 'a number above 0, or "auto",', ABOVE_0, np.inf)
        number("degree", self.degree, f"a whole number from 1 to {MOST}", 1, MOST + 1, whole=True)
        number("coef0", self.coef0, "a number of at least 0", 0.0, np.inf)
