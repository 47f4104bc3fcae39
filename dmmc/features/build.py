"""From the name of features to a map of rows, and the features of all fitted rows."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from dmmc import machine
from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.errors import InputError, needs
from dmmc.features import graph
from dmmc.features.axes import principal_axes
from dmmc.features.graph import Index, Neighbours
from dmmc.features.maps import Manifold, Map, Projection, map_rows
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Oracle
from dmmc.time_limit import NO_LIMIT, TimeLimit

Remember = Callable[..., dict[str, Array]]
"""The arrays of a phase, by its name, what makes them and sizes of them: made now, or known from an earlier run."""

FEATURES = ("raw", "nystroem", "lsa", "smooth", "spectral", "umap")
AXES = 64
"""Principal axes in which dense rows are compared."""
TOPICS = 100
"""Latent semantic axes in which sparse rows are compared, by the angle between them."""
SMOOTHINGS = 30
AT_ONCE = 8192
"""Rows whose neighbours are looked for between two looks at the clock: whole blocks of the index's own 4096."""
EMBEDDED = 10
"""Dimensions of a UMAP embedding."""


class Ask(NamedTuple):
    """What is asked for."""

    features: str
    n_clusters: int
    n_neighbors: int
    seed: int
    threads: int
    graph: bool
    """Whether the graph is wanted for a start too."""


class Built(NamedTuple):
    """Features of the fitted rows, and how to get those of others."""

    row_map: Map | None
    """None for raw features."""
    rows: Array | None
    """(n, m) float32."""
    graph: Any
    """The graph of nearest neighbours, if there is one."""
    spectral: Array | None
    """(n, m) spectral features, where the graph is for a start."""
    notes: dict[str, Any]
    """What is worth knowing: recall of the neighbours, pieces that the graph falls into."""


def build(
    ask: Ask,
    dataset: Rows,
    oracle: Oracle,
    each: Callable[..., Iterable[Any]],
    geometry: Geometry,
    remember: Remember,
    limit: TimeLimit = NO_LIMIT,
) -> Built:
    """Make features.

    1. axes in which rows are compared, and where each row is among them: passes over the data
    2. the graph of nearest neighbours, here
    3. features of the fitted rows from it, averaged over neighbours as those of new rows will be

    `oracle` gives a pass's sum over all blocks, `each` what it gives of each block. Half a graph is of no use: when the
    time is up before the features are there, `OutOfTime` is raised.
    """
    check(ask, dataset)

    def place_rows() -> dict[str, Array]:
        projection = _projection(ask, dataset, limit.guard(oracle, "axes were computed"), geometry)
        return {"w": projection.W, "b": projection.b, "rows": np.concatenate(list(each(map_rows, projection)))}

    made = remember("axes", place_rows, p=_count_axes(ask, dataset))  # 1
    projection, Z = Projection(made["w"], made["b"], unit=_by_angle(ask, dataset)), made["rows"]
    if ask.features == "lsa" and not ask.graph:
        return Built(projection, Z, None, None, {})
    count = min(ask.n_neighbors, len(Z) - 1)
    near = remember("neighbours", lambda: _neighbours(Z, count, ask.threads, limit), near=count + 1)  # 2
    found = Neighbours(near["who"], near["distance"])
    others = graph.drop_self(found)
    scale = graph.scale_of(others.distance)
    A = graph.adjacency(others, scale)
    notes = {"recall": float(near["recall"][0]), "pieces": graph.pieces(A)}
    row_map = Manifold(projection, Z, scale, np.zeros((len(Z), 0), np.float32), count, unit=False)  # 3
    spectral = None
    if ask.graph or ask.features == "spectral":
        vectors = _count_vectors(ask.n_clusters, len(Z))
        values = remember("spectral", lambda: {"values": _spectral(A, vectors, limit)}, m=vectors)["values"]
        unit = replace(row_map, values=values, unit=True)
        spectral = unit.average(found)
        if ask.features == "spectral":
            return Built(unit, spectral, A, spectral, notes)
    if ask.features in ("raw", "lsa"):
        return Built(projection if ask.features == "lsa" else None, Z, A, spectral, notes)
    width = Z.shape[1] if ask.features == "smooth" else _count_embedded(Z)
    values = remember("features", lambda: {"values": _values(A, Z, ask, limit)}, m=width)["values"]
    row_map = replace(row_map, values=values)
    return Built(row_map, row_map.average(found), A, spectral, notes)


def check(ask: Ask, dataset: Rows) -> None:
    """Refuse what cannot be made, in a sentence."""
    if ask.features == "umap" and find_spec("umap") is None:
        raise InputError(needs("features='umap'", "umap-learn"))
    if ask.features != "lsa" or ask.graph:
        n = dataset.n_rows
        if n < 3:
            raise InputError(f"{dataset.name} has {n} rows; a graph of neighbours needs at least 3.")
        vectors = _count_vectors(ask.n_clusters, n)
        wanted = graph.need(n, _count_axes(ask, dataset), ask.n_neighbors, vectors)
        graph.check_size(dataset.name, wanted, machine.free_memory())


def _neighbours(Z: Array, count: int, threads: int, limit: TimeLimit) -> dict[str, Array]:
    index = Index(Z, threads)
    cuts = [*range(0, max(1, len(Z) - AT_ONCE), AT_ONCE), len(Z)]
    parts = []
    for start, stop in pairwise(cuts):
        limit.check("nearest neighbours were looked for")
        parts.append(index.nearest(Z[start:stop], count + 1))
    who, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
    return {"who": who, "distance": distance, "recall": np.array([index.recall(count + 1)])}


def _values(A: Any, Z: Array, ask: Ask, limit: TimeLimit) -> Array:
    limit.check("features of the graph were made")
    values = graph.smooth(A, Z, SMOOTHINGS) if ask.features == "smooth" else _umap(Z, ask)
    return np.ascontiguousarray(values, np.float32)


def _by_angle(ask: Ask, dataset: Rows) -> bool:
    return dataset.is_sparse or ask.features == "lsa"


def _count_axes(ask: Ask, dataset: Rows) -> int:
    return min(TOPICS if _by_angle(ask, dataset) else AXES, dataset.n_features)


def _projection(ask: Ask, dataset: Rows, oracle: Oracle, geometry: Geometry) -> Projection:
    """Where rows are compared: principal axes for dense rows, angles between latent semantic ones for sparse rows."""
    d, seed = dataset.n_features, ask.seed
    if _by_angle(ask, dataset):
        V = principal_axes(oracle, geometry, _count_axes(ask, dataset), [seed, 5], centred=False)
        return Projection(V / geometry.unit, np.zeros(len(V)), unit=True)
    V = np.eye(d) if d <= AXES else principal_axes(oracle, geometry, AXES, [seed, 5])
    planes = geometry.raw(V, np.zeros(len(V)))
    return Projection(planes.W, planes.b, unit=False)


def _spectral(A: Any, count: int, limit: TimeLimit) -> Array:
    """So many leading eigenvectors of the graph, rows of norm 1."""
    U = graph.spectrum(A, count, limit)
    norms = np.sqrt((U**2).sum(axis=1, keepdims=True))
    return np.ascontiguousarray(U / np.maximum(norms, 1e-12), np.float32)


def _count_vectors(n_clusters: int, n_rows: int) -> int:
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
