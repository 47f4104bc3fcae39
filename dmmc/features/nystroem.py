"""Kernels by a few landmarks (Nyström): rows become `k(x, R) K_RR^(-1/2)`, whose inner products are the kernel's.

Landmarks R are rows drawn at random, or centres of k-means on a sample of rows. All else is a pure function of a row,
computed block by block: hyperplanes between the mapped rows are curved surfaces between the rows themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.features.kmeans import fit_kmeans
from dmmc.machine import free_memory
from dmmc.model.geometry import Geometry
from dmmc.model.passes import cut

KERNELS = ("rbf", "polynomial", "linear")
LANDMARKS = ("k-means", "random")
MOST = 20
"""Highest degree of a polynomial."""
CHUNK = 1024
"""Rows that are mapped at a time: what a thread needs beside its block is a few numbers a row and landmark."""
FLOOR = 1e-12
"""Of the largest eigenvalue of the landmarks' kernel: smaller ones are rounding errors, and are raised to it."""
SPACING = 5.0
"""The RBF kernel falls to 1/e at a squared distance of this many times the squared spacing of the landmarks."""
NARROWEST = 48.0
"""... but not before a squared distance of the median one between landmarks divided by this: landmarks along a curve
without noise are much nearer to each other than the curve is wide."""
ROWS_A_CENTRE = 10
"""The spacing is that of centres with at least so many rows each: of fewer it would be the noise between rows."""
LARGEST = 1e76
"""Kernel values whose roots are numbers of float32."""
SAMPLE_NUMBERS = 20_000_000
SAMPLE_ROWS = 20
"""Rows of the sample a landmark, as far as the numbers allow."""


class Kernel(NamedTuple):
    """k(x, p) of centred rows, features in units of their deviation where they are standardised."""

    name: str
    gamma: float
    degree: int
    coef0: float

    def of(self, inner: Array, rows: Array, points: Array) -> Array:
        """Values from inner products (n, r) and squared norms of rows (n,) and points (r,)."""
        if self.name == "linear":
            return inner
        if self.name == "polynomial":
            return np.asarray((self.gamma * inner + self.coef0) ** self.degree)
        distance = np.maximum(rows[:, None] + points - 2.0 * inner, 0.0)
        return np.exp(-self.gamma * distance)


@dataclass(frozen=True)
class Nystroem:
    """The map.

    kernel : Kernel
    points : (r, d) landmarks, centred and scaled as rows are
    mean, inverse : (d,), rows are `(x - mean) * inverse`
    root : (m, r), what kernel values are multiplied by
    """

    kernel: Kernel
    points: Array
    mean: Array
    inverse: Array
    root: Array

    @classmethod
    def at(cls, kernel: Kernel, points: Array, mean: Array, inverse: Array) -> Nystroem:
        """With these landmarks; `root` is the inverse square root of their own kernel values."""
        norms = (points**2).sum(axis=1)
        with np.errstate(over="ignore"):
            gram = kernel.of(points @ points.T, norms, norms)
        if not np.abs(gram).max() < LARGEST:
            raise InputError(
                f"the {kernel.name} kernel with gamma={kernel.gamma:.3g}, degree={kernel.degree} and "
                f"coef0={kernel.coef0:.3g} is so large that its features overflow; choose smaller ones."
            )
        values, vectors = np.linalg.eigh(gram)
        raised = np.maximum(values, FLOOR * max(float(values[-1]), np.finfo(float).tiny))
        return cls(kernel, points, mean, inverse, (vectors / np.sqrt(raised)) @ vectors.T)

    @property
    def n_features(self) -> int:
        """Columns of the rows that it maps."""
        return int(self.points.shape[1])

    @property
    def n_values(self) -> int:
        """Columns of what it makes of them."""
        return len(self.root)

    def apply(self, block: Block) -> Array:
        """Features of a block's rows, float32."""
        rows, W = block.rows, self.points * self.inverse
        b, norms = -W @ self.mean, (self.points**2).sum(axis=1)
        out = np.empty((block.stop - block.start, self.n_values), np.float32)
        for start in range(0, len(out), CHUNK):
            part = _double(cut(rows, start, start + CHUNK))
            lengths = kernels.squared_distances(part, self.mean, self.inverse)
            values = self.kernel.of(kernels.scores(part, W) + b, lengths, norms)
            out[start : start + CHUNK] = kernels.scores(values, self.root)
        return out

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        name, gamma, degree, coef0 = self.kernel
        content = {"kind": "nystroem", "kernel": name, "gamma": gamma, "degree": degree, "coef0": coef0}
        arrays = {"points": self.points, "mean": self.mean, "inverse": self.inverse, "root": self.root}
        return content, {f"map_{key}": value for key, value in arrays.items()}

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array]) -> Nystroem:
        """The map again."""
        kernel = Kernel(content["kernel"], content["gamma"], content["degree"], content["coef0"])
        return cls(kernel, *(arrays[f"map_{key}"] for key in ("points", "mean", "inverse", "root")))


def _double(rows: Array | Csr) -> Array | Csr:
    """Rows in float64: roots of small eigenvalues make rounding errors of kernel values large."""
    if isinstance(rows, Csr):
        return rows._replace(data=rows.data.astype(np.float64))
    return rows.astype(np.float64)


class Ask(NamedTuple):
    """What is asked for."""

    kernel: str
    gamma: float | str
    """In units of the rows (standardised ones, where they are), as scikit-learn's; "auto" follows the landmarks."""
    degree: int
    coef0: float
    n_components: int
    landmarks: str
    seed: int


def nystroem(ask: Ask, dataset: Rows, geometry: Geometry) -> Nystroem:
    """Choose landmarks and the width of the kernel, without labels.

    1. a seeded sample of rows, centred and scaled
    2. landmarks: rows of the sample, or centres of k-means on it
    3. gamma: see `spacing_rule`
    """
    check(ask, dataset)
    mean, inverse = geometry.mean, geometry.norm / geometry.unit
    sample = _sample(ask, dataset, mean, inverse)  # 1
    count = min(ask.n_components, len(sample))
    if count < ask.n_components:
        warn(
            f"n_components is {ask.n_components}, but {dataset.name} has {count} rows that count: "
            f"{count} landmarks are used.",
            ClusteringWarning,
        )
    if ask.landmarks == "random" or count == len(sample):
        points = sample[np.random.default_rng([ask.seed, 7]).permutation(len(sample))[:count]]  # 2
    else:
        points = centres(sample, count, ask.seed)
    gamma = ask.gamma if not isinstance(ask.gamma, str) else _gamma(ask, sample, points, geometry.norm)  # 3
    return Nystroem.at(Kernel(ask.kernel, float(gamma), int(ask.degree), float(ask.coef0)), points, mean, inverse)


def check(ask: Ask, dataset: Rows) -> None:
    """Refuse what does not fit into memory, with the numbers."""
    r, d = ask.n_components, dataset.n_features
    wanted = 8 * (3 * r * d + 4 * r * r)
    free = free_memory()
    if free is not None and wanted > free:
        raise InputError(
            f"a kernel of {r} components for {dataset.name} with {d} features needs about {wanted / 1e6:.0f} MB, and "
            f"{free / 1e6:.0f} MB are free: choose a smaller n_components."
        )


def _sample(ask: Ask, dataset: Rows, mean: Array, inverse: Array) -> Array:
    """Some rows, dense, centred and scaled; rows of weight 0 are none of them."""
    weight = dataset.weight
    eligible = np.arange(dataset.n_rows) if weight is None else np.flatnonzero(weight > 0)
    fit = SAMPLE_NUMBERS // dataset.n_features
    count = min(len(eligible), max(2 * ask.n_components, min(SAMPLE_ROWS * ask.n_components, fit)))
    chosen = np.sort(np.random.default_rng([ask.seed, 6]).choice(len(eligible), count, replace=False, shuffle=False))
    rows = dataset.take(eligible[chosen])
    rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
    return np.asarray((rows - mean) * inverse, np.float64)


def centres(sample: Array, count: int, seed: int) -> Array:
    """Centres of k-means, by scikit-learn on one thread."""
    return np.unique(fit_kmeans(sample, count, seed % 2**32, max_iter=20).cluster_centers_, axis=0)


def _gamma(ask: Ask, sample: Array, points: Array, norm: float) -> float:
    if ask.kernel != "rbf":
        return 1.0 / norm**2
    most = len(sample) // ROWS_A_CENTRE
    by_centres = ask.landmarks == "k-means" and len(points) <= most
    return spacing_rule(points if by_centres else centres(sample, max(2, min(len(points), most)), ask.seed), norm)


def spacing_rule(points: Array, norm: float) -> float:
    """Width of an RBF kernel that is as local as the landmarks allow: gamma = 1 / (5 h^2), h their spacing.

    A wider kernel sees no curve (the median distance between rows leaves moons at 16 %); a narrower one leaves gaps
    between the landmarks, where all features are 0.
    """
    squares = (points**2).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2.0 * points @ points.T, 0.0)
    median = float(np.median(distance[np.triu_indices(len(points), 1)])) if len(points) > 1 else 0.0
    np.fill_diagonal(distance, np.inf)
    width = max(SPACING * float(np.median(distance.min(axis=1))), median / NARROWEST)
    return 1.0 / width if np.isfinite(width) and width > 1e-12 * norm**2 else 1.0 / norm**2
