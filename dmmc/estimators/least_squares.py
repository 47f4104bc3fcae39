"""Least-squares maximum margin clustering, any number of clusters: (E11) with one regression a cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dmmc.array_types import Array
from dmmc.errors import ClusteringWarning, NotFeasible, warn
from dmmc.estimators import feature_space, search_starts
from dmmc.estimators.anchor_space import AnchorSpace, Packing, pack_by_planes
from dmmc.estimators.context import FitContext
from dmmc.estimators.fitting import FeaturedClusterer
from dmmc.estimators.parameters import (
    AT_LEAST_1,
    FEW_CLUSTERS,
    MAX_CLUSTERS,
    POSITIVE,
    POSITIVE_OR_AUTO,
    TransformParameters,
    Words,
    at_least,
    document,
    hide_transform,
    parameter,
)
from dmmc.features import build
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.build import FEATURES, OWN, Built
from dmmc.features.graph_merge import cut_of
from dmmc.features.maps import Map
from dmmc.machine import free_memory
from dmmc.model.geometry import Geometry, measure
from dmmc.model.packed_labels import pack_labels, unpack_labels
from dmmc.model.passes import Hyperplanes
from dmmc.solvers import starts
from dmmc.solvers.least_squares import LeastSquares, Problem, Run, State

RIDGES = {"nystroem": 1e-5, "spectral": 1e-3, "lsa": 1e-3}
"""`ridge="auto"` by features; 1e-4 for all others."""
WORSE = 1.15
"""Hyperplanes between axes that cut the graph so many times as much as their starts do are the wrong ones."""
SMALL = 1e-3
"""Added to both cuts, which may be 0."""
GRAPH_STARTS = 5


@document
@hide_transform
@dataclass(eq=False, repr=False, kw_only=True)
class LeastSquaresMMC(TransformParameters, FeaturedClusterer):
    """Clusters whose labels least squares tells best: ridge regression on the labels, labels by the largest score.

    For two clusters its objective is that of `EvolutionaryMMC`, `min_f mean (y - f(x))² + λ|f|²` over labels y = ±1,
    for hyperplanes f in the features; for more there is one regression a cluster. It needs no weight C and no bound on
    biases, and a pass costs as much as one of k-means. With the defaults dense rows start from the graph of nearest
    neighbours, sparse ones from k-means on latent semantic axes; several starts run side by side, and the one that
    agrees most with the others is taken.

    [parameters]

    Attributes
    ----------
    labels_ : int32 array of n labels, what `predict` gives on the training rows; 0 is the largest cluster
    coef_, intercept_ : hyperplanes in the coordinates of the features
    objective_ : float, what the regressions leave of the labels, summed over clusters
    n_iter_ : int, passes made
    history_ : list of dict, one a pass
    choices_ : dict, what was chosen for this fit and why
    n_features_in_, feature_names_in_
    """

    most_clusters = MAX_CLUSTERS

    ridge: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        "λ, what weights cost on features of mean squared norm 1. "
        '"auto" is 1e-4; 1e-3 for "spectral" and "lsa", 1e-5 for "nystroem"',
    )
    features: str = parameter(
        "auto",
        Words((*FEATURES, "auto")),
        'as of CuttingPlaneMMC. "auto" is "lsa" for sparse rows; for others it is "axes" or, where hyperplanes between '
        'axes cut the graph much more than their starts do, "spectral". With a graph, scores on "axes" are averaged '
        "along it",
    )
    transform: str = parameter(
        "auto",
        Words(("none", "unit", "sqrt-unit", "bm25", "log-normalise", "auto")),
        "as of CuttingPlaneMMC",
    )
    init: str | ArrayLike = parameter(
        "auto",
        Words(("auto", "k-means", "graph", "pca", "random"), "labels"),
        'where the search starts. "auto" is "graph", and "k-means" where features are "lsa" or clusters more than 100',
    )
    n_init: int | str = parameter(
        "auto",
        at_least(1, "auto"),
        'number of starts. "auto" is 5 from the graph, 10 random ones, else 1; with "lsa" that one is the consensus '
        "of sixteen",
    )
    select: str = parameter("medoid", Words(("medoid", "objective")), "which of several starts wins")
    epsilon: float = parameter(5e-4, POSITIVE, "the search ends when no more than this share of the labels changes")
    max_iter: int = parameter(200, AT_LEAST_1, "most passes over the data")

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "lsmmc"

    @property
    def wants_graph(self) -> bool:
        """Whether dense rows will be linked to their neighbours."""
        return (self.start_name == "graph" or self._starts_by_graph) and self.features != "lsa"

    @property
    def _starts_by_graph(self) -> bool:
        """Whether dense rows start along the graph, if nobody says where."""
        return self.start_name == "auto" and self.n_clusters <= FEW_CLUSTERS

    def choose_n_init(self, n_rows: int) -> int:
        """Number of starts."""
        if isinstance(self.n_init, str) and self.start_name == "graph":
            return GRAPH_STARTS
        return super().choose_n_init(n_rows)

    def _fit_features(self, context: FitContext) -> None:
        """Choose features and start, where they are "auto", by fitting a copy that names them."""
        kind = None if context.transform is None else context.transform.kind
        by_angle = context.engine.dataset.is_sparse and kind != "log-normalise"
        features = ("lsa" if by_angle else "axes") if self.features == "auto" else self.features
        by_name = {}
        if self.start_name == "auto":
            by_name = {"init": "graph" if features != "lsa" and self._starts_by_graph else "k-means"}
        chosen = type(self)(**{**self.get_params(), "features": features, **by_name})
        if features == "axes" and chosen.start_name == "graph":
            chosen._fit_along_graph(context, choose=self.features == "auto")
        else:
            with feature_space.make_features(chosen, context) as inner:
                chosen._search(inner)
        self._take_over(chosen)

    def _fit_along_graph(self, context: FitContext, choose: bool) -> None:
        """Search between axes, scores averaged along the graph; or between eigenvectors where that cuts it too much."""
        with feature_space.enter_graph(self, context, "axes", by_graph=True) as built:
            context = replace(context, notes={**context.notes, **built.notes})
            context = search_starts.add_starts(self, context, built)
            if choose:
                made = self._remember_probe(context, built)
                ratio = float(made["ratio"][0])
                context = replace(context, notes={**context.notes, "cut_ratio": ratio})
                if ratio > WORSE:
                    self._search_spectral(context, built)
                    return
                self._start_from_probe(context, built, made)
            self._search_axes(context, built)

    def _search_spectral(self, context: FitContext, built: Built | AnchorSpace) -> None:
        other = type(self)(**{**self.get_params(), "features": "spectral"})
        if isinstance(built, AnchorSpace):
            space = built.enter_features(context, "spectral")
        else:
            row_map, rows = build.spectral(built, self.n_neighbors)
            space = feature_space.enter_space(other, context, row_map, rows, "spectral")
        with space as inner:
            other._search(inner)
        self._take_over(other)

    def _remember_probe(self, context: FitContext, built: Built | AnchorSpace) -> dict[str, Array]:
        """What a search between axes finds, and how much more it cuts the graph than its starts do."""
        k, starts = self.n_clusters, context.n_given
        if isinstance(built, AnchorSpace):
            m = 2 * built.places.dataset.n_features
            make = partial(self._probe_anchors, context, built)
            return context.remember("probe", make, "probe of anchors", k=k, starts=starts, m=m)
        return context.remember("probe", partial(self._probe_axes, context, built), k=k, starts=starts)

    def _start_from_probe(self, context: FitContext, built: Built | AnchorSpace, made: dict[str, Array]) -> None:
        """Give the rows the labels that the search between axes ended with."""
        if isinstance(built, AnchorSpace):
            planes = [Hyperplanes(*parts) for parts in zip(made["w"], made["b"], made["price"], strict=True)]
            with built.enter(self._average_anchors(built), f"axes of {context.engine.dataset.name}") as engine:
                given = np.concatenate(list(engine.rows(pack_by_planes, Packing(tuple(planes)))))
        else:
            given = pack_labels(list(made["labels"].T), self.n_clusters)
            given = given if context.n_given > 1 else made["labels"][:, 0]
        context.engine.use(context.engine.dataset.with_columns(given=given))

    def _average_anchors(self, built: AnchorSpace, beside: bool = True) -> AnchorMap:
        """Places of rows averaged along their anchors, the places themselves beside them."""
        return built.anchored.averages(OWN, beside)

    def _probe_anchors(self, context: FitContext, built: AnchorSpace) -> dict[str, Array]:
        """Hyperplanes (runs, k, ...) of a search between axes, and how much more they cut the graph of the anchors."""
        labels = context.anchor_labels
        assert labels is not None
        with self._enter_axes(context, built) as (inner, problem):
            state = search_starts.drive_least_squares(inner, problem, self._make_starts(inner), self.max_iter, "probe")
        found = [problem.geometry.raw(run.at.W, run.at.b, run.at.price) for run in state.runs]
        of_places = self._average_anchors(built)
        ratios = [
            (built.cut(built.label_anchors(of_places, planes)) + SMALL) / (built.cut(before) + SMALL)
            for planes, before in zip(found, labels.T, strict=True)
        ]
        W, b, price = (np.stack(parts) for parts in zip(*found, strict=True))
        return {"w": W, "b": b, "price": price, "ratio": np.array([np.median(ratios)])}

    def _probe_axes(self, context: FitContext, built: Built) -> dict[str, Array]:
        """Labels (n, runs) of a search between axes, and how much more they cut the graph than their starts do."""
        engine, k = context.engine, self.n_clusters
        with self._enter_axes(context, built) as (inner, problem):
            labellings = self._make_starts(inner)
            state = search_starts.drive_least_squares(inner, problem, labellings, self.max_iter, "probe")
            found = search_starts.label_by_runs(inner, problem, state)
        given = engine.dataset.given
        assert given is not None
        base = k if context.n_given > 1 else 0
        before = [cut_of(built.graph, unpack_labels(given, base, place)) for place in range(context.n_given)]
        ratios = [
            (cut_of(built.graph, labels) + SMALL) / (cut + SMALL) for labels, cut in zip(found, before, strict=True)
        ]
        return {"labels": np.stack(found, axis=1).astype(np.int64), "ratio": np.array([np.median(ratios)])}

    @contextmanager
    def _enter_axes(self, context: FitContext, built: Built | AnchorSpace) -> Iterator[tuple[FitContext, Problem]]:
        """Averages along the graph beside the rows on their axes: the first are scored, the others regressed on."""
        if isinstance(built, AnchorSpace):
            plain, _ = measure(built.places.dataset, built.places.rows, "none")
            with built.enter(
                self._average_anchors(built), f"axes of {context.engine.dataset.name}, averaged"
            ) as engine:
                inner = replace(context, engine=engine, geometry=_double(plain, context))
                yield inner, self._pose_problem(inner, scored=built.places.dataset.n_features)
            return
        _, smooth = built.manifold(built.places, self.n_neighbors, unit=False, own=OWN)
        name = context.engine.dataset.name
        with feature_space.enter_rows(context.engine, built.places, f"axes of {name}") as engine:
            plain, _ = measure(engine.dataset, engine.rows, "none")
        both = _double(plain, context)
        rows = np.hstack([smooth, built.places])
        with feature_space.enter_rows(context.engine, rows, f"axes of {name}, averaged") as engine:
            inner = replace(context, engine=engine, geometry=both)
            problem = self._pose_problem(inner, scored=smooth.shape[1])
            yield inner, problem

    def _search_axes(self, context: FitContext, built: Built | AnchorSpace) -> None:
        with self._enter_axes(context, built) as (inner, problem):
            planes = self._find_planes(inner, problem)
        name = f"axes of {context.engine.dataset.name}"
        row_map: Map
        if isinstance(built, AnchorSpace):
            of_places = self._average_anchors(built, beside=False)
            row_map, space = built.anchored.map_rows(of_places), built.enter(of_places, name)
        else:
            row_map, smooth = built.manifold(built.places, self.n_neighbors, unit=False, own=OWN)
            space = feature_space.enter_rows(context.engine, smooth, name)
        with space as engine:
            inner = replace(inner, engine=engine, row_map=row_map)
            self._finish(inner, planes._replace(W=np.ascontiguousarray(planes.W[:, : row_map.n_values])))

    def _search(self, context: FitContext) -> None:
        planes = self._find_planes(context, self._pose_problem(context))
        self._finish(context, planes)

    def _pose_problem(self, context: FitContext, scored: int = 0) -> Problem:
        """What the solver is to find; of `scored` columns the scores are taken, and the others are regressed on."""
        k, dataset, geometry = int(self.n_clusters), context.engine.dataset, context.geometry
        lowest, highest = self.choose_bounds(dataset.n_rows)
        d = dataset.n_features
        wanted, free = 4 * 8 * d * d, free_memory()
        if free is not None and wanted > free:
            raise NotFeasible(
                f"least squares in {d} columns of {dataset.name} needs about {wanted / 1e6:.0f} MB, and "
                f"{free / 1e6:.0f} MB are free: choose features='lsa', 'axes' or 'nystroem'."
            )

        def sample() -> Any:
            rows = geometry.apply(dataset.take(starts.sample_rows(dataset, k, context.seed)))
            if scored:
                rows[:, scored:] = 0.0
            return rows

        ridge = RIDGES.get(self.features, 1e-4) if isinstance(self.ridge, str) else float(self.ridge)
        return Problem(k, ridge, float(self.epsilon), lowest, highest, geometry, sample, scored)

    def _find_planes(self, context: FitContext, problem: Problem) -> Hyperplanes:
        """Search, set what was found but for the hyperplanes, one a cluster, and return these."""
        solver, geometry = LeastSquares(problem, context.engine.run), context.geometry

        def fold(run: Run) -> Hyperplanes:
            return geometry.raw(run.at.W, run.at.b, run.at.price)

        def begin() -> State:
            return solver.init(self._make_starts(context), context.engine.dataset.n_features)

        state, history, why = context.drive(solver, begin, self.max_passes)
        run = solver.best(state)
        if self.select == "medoid" and len(state.runs) > 2:
            run = self._select_run(context, state.runs, fold)
        self._set_result(
            context,
            history,
            run.objective,
            0.0,
            run.ended if why == "done" else why,
            ridge=problem.ridge,
            init=self.start_name,
            n_init=len(state.runs),
            select=self.select,
            prices_folded_into_biases=bool(run.at.price.any()),
            reseeded=run.reseeded,
        )
        return fold(run)

    def _finish(self, context: FitContext, planes: Hyperplanes) -> None:
        """Label the rows of the context, and warn of what a user should know."""
        if self.n_clusters == 2:  # one hyperplane: the difference of the two
            planes = Hyperplanes(*(part[1:] - part[:1] for part in planes))
        self._set_hyperplanes(planes, context)
        ended = self.choices_["ended"]
        self._warn_of_early_end(ended)
        if self.choices_["reseeded"]:
            warn(f"an emptied cluster was seeded again {self.choices_['reseeded']} time(s).", ClusteringWarning)
        self._warn_of_sizes(context, bool(planes.price.any()))


def _double(plain: Geometry, context: FitContext) -> Geometry:
    """The geometry of rows that have the same places twice, side by side."""
    mean, unit = np.tile(plain.mean, 2), np.tile(plain.unit, 2)
    return replace(plain, mean=mean, unit=unit, fingerprint=context.geometry.fingerprint)
