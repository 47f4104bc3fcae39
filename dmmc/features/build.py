"""From the name of features to a map of rows, and the features of all fitted rows."""

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dmmc import machine
from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.errors import InputError, NotFeasible, needs
from dmmc.features import graph
from dmmc.features.axes import principal_axes
from dmmc.features.graph import Index, Neighbours
from dmmc.features.maps import Manifold, Map, map_rows
from dmmc.features.projection import Projection, scale_rows
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Oracle
from dmmc.process_state import Forked
from dmmc.time_limit import NO_LIMIT, TimeLimit

Remember = Callable[..., dict[str, Array]]
"""The arrays of a phase, by its name, what makes them and sizes of them: made now, or known from an earlier run."""

FEATURES = ("raw", "axes", "nystroem", "lsa", "smooth", "spectral", "umap")
AXES, MORE_AXES, WIDE = 64, 128, 1024
"""Principal axes in which dense rows are compared; for rows of more than 1,024 columns there are more."""
TOPICS = 200
"""Latent semantic axes in which sparse rows are compared, by the angle between them."""
MOST_CLUSTERS = 100
"""Of a graph's eigenvectors, of which there are four a cluster, and of groups joined along it."""
SMOOTHINGS = 30
AT_ONCE = 4 * graph.SLICE
"""Rows whose neighbours are looked for between two looks at the clock."""
EMBEDDED = 10
"""Dimensions of a UMAP embedding."""
OWN = 0.5
"""How much a row's own place counts beside those of its neighbours, in the features "axes" along a graph."""


class Ask(NamedTuple):
    """What is asked for."""

    features: str
    n_clusters: int
    n_neighbors: int
    seed: int
    threads: int
    graph: bool
    """Whether the graph is wanted for a start too."""
    by_angle: bool = False
    """Whether rows are compared by the angle between them on latent semantic axes, or else on principal axes."""
    unit: bool = False
    """Whether rows on principal axes are scaled to norm 1."""


class Built(NamedTuple):
    """Where rows are compared, who is near to whom, and what features were made of that."""

    projection: Projection
    places: Array
    """(n, p) float32, rows on the axes."""
    row_map: Map | None
    """Makes the features that were asked for; None for raw ones."""
    rows: Array | None
    """(n, m) float32, those of the fitted rows."""
    found: Neighbours | None
    scale: Array | None
    """(n,), each row's own scale."""
    graph: Any
    """The graph of nearest neighbours, if there is one."""
    vectors: Array | None
    """(n, m) its leading eigenvectors, where they are wanted."""
    notes: dict[str, Any]
    """What is worth knowing: recall of the neighbours, pieces that the graph falls into."""

    def manifold(self, values: Array, n_neighbors: int, unit: bool, own: float = 0.0) -> tuple[Manifold, Array]:
        """Features averaged over neighbours: how to make them, and those of the fitted rows (n, m)."""
        assert self.found is not None
        assert self.scale is not None
        count = min(n_neighbors, len(self.places) - 1)
        row_map = Manifold(self.projection, self.places, self.scale, values, count, unit, own)
        return row_map, row_map.average(self.found, self.places)


def build(
    ask: Ask,
    dataset: Rows,
    oracle: Oracle,
    each: Callable[..., Iterable[Any]],
    geometry: Geometry,
    remember: Remember,
    limit: TimeLimit = NO_LIMIT,
    tell: Callable[[str, float], Any] = lambda phase, fraction: None,
) -> Built:
    """Make features.

    1. axes in which rows are compared, and where each row is among them: passes over the data
    2. the graph of nearest neighbours, here
    3. features of the fitted rows from it, averaged over neighbours as those of new rows will be

    `oracle` gives a pass's sum over all blocks, `each` what it gives of each block. Half a graph is of no use: when the
    time is up before the features are there, `OutOfTime` is raised. `tell` hears which part of a phase is done.
    """
    check(ask, dataset)

    def place_rows() -> dict[str, Array]:
        projection = make_projection(ask, dataset, limit.guard(oracle, "axes were computed"), geometry)
        return {"w": projection.W, "b": projection.b, "rows": np.concatenate(list(each(map_rows, projection)))}

    made = remember("axes", place_rows, p=count_axes(ask, dataset.n_features))  # 1
    projection, Z = Projection(made["w"], made["b"], unit=ask.by_angle or ask.unit), made["rows"]
    plain = ask.features in ("axes", "lsa")
    row_map: Map | None = projection if plain else None
    built = Built(projection, Z, row_map, Z if plain else None, None, None, None, None, {})
    if plain and not ask.graph:
        return built
    count = min(ask.n_neighbors, len(Z) - 1)
    near = remember("neighbours", lambda: _neighbours(Z, count, ask.threads, limit, tell), near=count + 1)  # 2
    found = Neighbours(near["who"], near["distance"])
    others = graph.drop_self(found)
    scale = graph.scale_of(others.distance)
    A = graph.adjacency(others, scale)
    notes = {"recall": float(near["recall"][0]), "pieces": graph.pieces(A)}
    built = built._replace(found=found, scale=scale, graph=A, notes=notes)
    if ask.graph or ask.features == "spectral":
        m = count_vectors(ask.n_clusters, len(Z))
        vectors = remember("spectral", lambda: {"vectors": make_vectors(A, m, limit)}, m=m)["vectors"]
        built = built._replace(vectors=vectors)
    if plain or ask.features == "raw":
        return built
    if ask.features == "spectral":  # 3
        row_map, rows = spectral(built, count)
    else:
        width = Z.shape[1] if ask.features == "smooth" else _count_embedded(Z)
        values = remember("features", lambda: {"values": make_values(A, Z, ask, limit)}, m=width)["values"]
        row_map, rows = built.manifold(values, count, unit=False)
    return built._replace(row_map=row_map, rows=rows)


def spectral(built: Built, n_neighbors: int) -> tuple[Manifold, Array]:
    """Eigenvectors of the graph as features, rows of norm 1: how to make them, and those of the fitted rows."""
    assert built.vectors is not None
    return built.manifold(scale_rows(built.vectors, unit=True), n_neighbors, unit=True)


def check(ask: Ask, dataset: Rows) -> None:
    """Refuse what cannot be made, in a sentence."""
    check_features(ask)
    if ask.features not in ("axes", "lsa") or ask.graph:
        n = dataset.n_rows
        if n < 3:
            raise NotFeasible(f"{dataset.name} has {n} rows; a graph of neighbours needs at least 3.")
        vectors = count_vectors(ask.n_clusters, n)
        wanted = graph.need(n, count_axes(ask, dataset.n_features), ask.n_neighbors, vectors)
        graph.check_size(dataset.name, wanted, machine.free_memory())


def check_features(ask: Ask) -> None:
    """Refuse features that no graph gives here."""
    if ask.features == "umap" and find_spec("umap") is None:
        raise InputError(needs("features='umap'", "umap-learn"))
    if ask.features == "umap" and Forked.lacks_numba_threads:
        raise InputError(
            "features='umap' cannot be made in a process that was forked from one with numba's threads: start it with "
            "multiprocessing's 'spawn', or choose other features."
        )
    if ask.n_clusters > MOST_CLUSTERS and (ask.graph or ask.features == "spectral"):
        raise NotFeasible(
            f"n_clusters is {ask.n_clusters}; a start along the graph and its eigenvectors are for at most "
            f"{MOST_CLUSTERS}: use init='k-means' and features='axes' or 'raw'."
        )


def _neighbours(
    Z: Array, count: int, threads: int, limit: TimeLimit, tell: Callable[[str, float], Any]
) -> dict[str, Array]:
    index = Index(Z, threads)
    cuts = [*range(0, max(1, len(Z) - AT_ONCE), AT_ONCE), len(Z)]
    parts = []
    for start, stop in pairwise(cuts):
        limit.check("nearest neighbours were looked for")
        parts.append(index.nearest(Z[start:stop], count + 1))
        tell("neighbours", stop / len(Z))
    who, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
    return {"who": who, "distance": distance, "recall": np.array([index.recall(count + 1)])}


def make_values(A: Any, Z: Array, ask: Ask, limit: TimeLimit) -> Array:
    """Rows or anchors (n, p) smoothed along their graph, or embedded by UMAP."""
    limit.check("features of the graph were made")
    values = graph.smooth(A, Z, SMOOTHINGS) if ask.features == "smooth" else _umap(Z, ask)
    return np.ascontiguousarray(values, np.float32)


def count_axes(ask: Ask, n_features: int) -> int:
    """Axes in which rows of so many columns are compared."""
    return min(TOPICS if ask.by_angle else MORE_AXES if n_features > WIDE else AXES, n_features)


def make_projection(ask: Ask, dataset: Rows, oracle: Oracle, geometry: Geometry) -> Projection:
    """Where rows are compared: principal axes, or angles between centred rows on latent semantic ones."""
    count, d = count_axes(ask, dataset.n_features), dataset.n_features
    if ask.by_angle:
        V = principal_axes(oracle, geometry, count, [ask.seed, 5], centred=False)
        W = V / geometry.unit
        return Projection(W, -W @ geometry.mean, unit=True)
    V = np.eye(d) if d <= count else principal_axes(oracle, geometry, count, [ask.seed, 5])
    planes = geometry.raw(V, np.zeros(len(V)))
    return Projection(planes.W, planes.b, unit=ask.unit)


def make_vectors(A: Any, count: int, limit: TimeLimit) -> Array:
    """So many leading eigenvectors of the graph."""
    return np.ascontiguousarray(graph.spectrum(A, count, limit), np.float32)


def count_vectors(n_clusters: int, n_rows: int) -> int:
    """How many eigenvectors tell so many clusters apart, as far as so many rows have them: four a cluster."""
    return min(max(4 * n_clusters, 8), n_rows - 1)


def _count_embedded(Z: Array) -> int:
    """Dimensions of a UMAP embedding of these rows."""
    return min(EMBEDDED, int(Z.shape[1]), len(Z) - 2)


def _umap(Z: Array, ask: Ask) -> Array:
    import umap

    model = umap.UMAP(
        n_components=_count_embedded(Z),
        n_neighbors=min(max(2, ask.n_neighbors + 5), len(Z) - 1),
        min_dist=0.0,
        random_state=ask.seed % 2**32,
        n_jobs=1,
    )
    return np.asarray(model.fit_transform(Z))
