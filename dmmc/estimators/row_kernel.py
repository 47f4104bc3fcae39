"""The kernel of evolutionary MMC: seen through rows drawn at random, or through all of them."""

import math
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.dataset import Rows
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.estimators.context import FitContext
from dmmc.estimators.parameters import KernelParameters
from dmmc.features.kernel_width import extent
from dmmc.features.nystroem import FLOOR, Kernel, Nystroem
from dmmc.machine import free_memory
from dmmc.solvers.evolution import LEADING

FULL = 5000
"""Most rows of a full kernel: its eigenvectors take time as the cube of them."""
QUICK = 2000
"""Landmarks whose eigenvectors take no more than a second or two: a fit whose time is up makes them nevertheless."""
NEGLIGIBLE = 1e-6
"""Of F: directions of the kernel that change it by less are left out."""


class RowKernel(KernelParameters):
    """A kernel with a `sigma`, a `regularization` and a `rank`, as a map of rows to features."""

    rank: int | str | None
    sigma: float
    regularization: float

    def make_kernel_map(self, context: FitContext) -> tuple[Nystroem, dict[str, Any]]:
        """Landmarks are rows drawn at random, or all of them."""
        dataset, geometry = context.engine.dataset, context.geometry
        reach = extent(dataset, context.engine.rows, geometry)
        eligible = np.arange(dataset.n_rows) if dataset.weight is None else np.flatnonzero(dataset.weight > 0)
        count = self._choose_rank(dataset, len(eligible))
        wanted, free = 8 * (3 * count * dataset.n_features + 4 * count * count), free_memory()
        if free is not None and wanted > free:
            raise InputError(
                f"a kernel seen through {count} rows of {dataset.name} needs about {wanted / 1e6:.0f} MB, and "
                f"{free / 1e6:.0f} MB are free: choose a smaller rank (method fast-evommc)."
            )
        width = float(self.sigma) * reach
        if not 1e-150 < width < 1e150:
            raise InputError(
                f"sigma={self.sigma:g} makes the kernel {width:.3g} wide, whose square float64 cannot hold; "
                "choose a sigma nearer to 1."
            )
        gamma = 1.0 / width**2
        kernel = Kernel(self.kernel, gamma, int(self.degree), float(self.coef0))
        mean, inverse = geometry.mean, geometry.norm / geometry.unit

        def make() -> dict[str, Array]:
            drawn = np.random.default_rng([context.seed, 6]).choice(len(eligible), count, replace=False, shuffle=False)
            rows = dataset.take(eligible[np.sort(drawn)])
            rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
            points = np.asarray((rows - mean) * inverse, np.float64)
            norms = (points**2).sum(axis=1)
            values = kernel.of(points @ points.T, norms, norms)
            if np.ptp(points, axis=0).any():
                self._check_kernel(values, len(eligible))
            if count > QUICK:
                context.limit.check("a kernel was made ready")
            return {"points": points, "root": self._find_root(values, len(eligible))}

        made = context.remember("landmarks", make, "landmarks without a width", r=count)
        directions = len(made["root"])
        chosen = {"kernel": self.kernel, "gamma": gamma, "extent": reach, "rank": count, "directions": directions}
        return Nystroem(kernel, made["points"], mean, inverse, made["root"]), chosen

    def _choose_rank(self, dataset: Rows, n: int) -> int:
        """How many landmarks, of n rows that count."""
        if self.rank is None:
            if n > FULL:
                raise InputError(
                    f"{dataset.name} has {n} rows, and the full kernel of evommc is for up to {FULL}; choose method "
                    "fast-evommc (FastEvoMMC: EvolutionaryMMC with a rank)."
                )
            return n
        if isinstance(self.rank, str):
            return min(n, max(2, min(math.ceil(0.1 * n), 200), min(math.ceil(0.01 * n), 1000)))
        if self.rank > n:
            raise InputError(
                f"rank is {self.rank}, but {dataset.name} has {n} rows that count; at most as many are wanted."
            )
        return int(self.rank)

    def _find_root(self, values: Array, n: int) -> Array:
        """What makes features of kernel values at the landmarks, `Λ^-½ Vᵀ`, from the landmarks' own; n rows count.

        Directions that change no F by more than a millionth are left out: seen through r of n rows, their eigenvalues
        are about r / n of the whole kernel's, and they count as `Λ / (Λ + λn)`. The leading ones are where starts are.
        """
        found, vectors = np.linalg.eigh(values)
        floor = FLOOR * float(found[-1])
        counts = found > NEGLIGIBLE * self.regularization * len(values) / n
        counts[-max(LEADING) :] = True
        kept = np.flatnonzero(counts & (found > floor))
        return np.ascontiguousarray((vectors[:, kept] / np.sqrt(found[kept])).T)

    def _check_kernel(self, values: Array, n: int) -> None:
        """Warn where the kernel sees no two of n rows as alike, or no two as different."""
        if self.kernel != "rbf":
            return
        if np.ptp(values) < FLOOR:
            raise InputError(f"sigma={self.sigma:g} makes all values of the kernel equal; choose a smaller sigma.")
        mean = float((values.sum() - np.trace(values)) / (values.size - len(values)))
        if n * mean < 0.1:
            warn(
                f"sigma={self.sigma:g} makes the kernel matrix nearly the identity: no two rows are alike to it, and "
                "any labels fit as well as others. Choose a larger sigma.",
                ClusteringWarning,
            )
        elif n * (1.0 - mean) < 0.1 * self.regularization:
            warn(
                f"sigma={self.sigma:g} makes the kernel matrix nearly all ones: all rows are alike to it. Choose a "
                "smaller sigma, or a smaller regularization.",
                ClusteringWarning,
            )
