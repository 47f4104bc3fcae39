"""Subspace maximum margin clustering (paper 001): clusters, and the directions that separate them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dmmc.array_types import Array
from dmmc.data.readers.numbers import is_dask_array
from dmmc.engine import Engine
from dmmc.errors import InputError
from dmmc.estimators import predict_dask
from dmmc.estimators.cutting_plane import MarginLossClusterer
from dmmc.estimators.parameters import ABOVE_0, POSITIVE_OR_AUTO, Words, document, parameter
from dmmc.master.norms import FROBENIUS, TRACE_NORM, Norm
from dmmc.master.published_alternation import ALTERNATION
from dmmc.model.geometry import Geometry
from dmmc.model.passes import Hyperplanes
from dmmc.solvers.state_shapes import Numbers, Spec
from dmmc.stores.urls import find_remote

SHARE = 0.01
"""A direction with less of the trace norm than this is no part of the subspace."""


@document
@dataclass(eq=False, repr=False, kw_only=True)
class SubspaceMMC(MarginLossClusterer):
    """Clusters with wide margins, and the subspace of few dimensions in which they have them, found together.

    Minimises `½ (sum of the singular values of W)² + C mean(loss)` over hyperplanes W and labels: maximum margin
    clustering with the squared trace norm in place of the squared Euclidean one. It charges for directions rather than
    for hyperplanes, so hyperplanes share as few directions as they can. For two clusters both norms are the same, and
    the result is that of `CuttingPlaneMMC`.

    [parameters]

    Attributes
    ----------
    components_ : (rank_, d) array, orthonormal directions of the subspace, by how much they matter, in the coordinates
        of rows that are centred and scaled (`mean_`, `scale_`)
    singular_values_ : (rank_,) array, how much each of them matters: the singular values of W
    rank_ : int, dimensions of the subspace: directions with at least 1 % of the trace norm
    mean_, scale_ : (d,) arrays; `transform` gives `(x - mean_) / scale_ @ components_.T`
    labels_, coef_, intercept_, objective_, gap_, n_iter_, history_, choices_, n_features_in_, feature_names_in_
        As of `CuttingPlaneMMC`.
    """

    C: float | str = parameter(
        "auto",
        POSITIVE_OR_AUTO,
        "weight of the loss, as of CuttingPlaneMMC. "
        '"auto" is 4 n_clusters - 7 times as much as there, so that a direction half as strong as the others, and the '
        "cluster that depends on it, is kept as long as there",
    )
    schedule: str = parameter(
        "joint",
        Words(("joint", "paper")),
        '"joint" solves each convex problem for hyperplanes and subspace at once. "paper" is the alternation as it was '
        "printed, for comparison: its subspace freezes at the first step (`order` is then inside, as in print)",
    )

    @property
    def method(self) -> str:
        """What `dmmc.fit` calls it."""
        return "smmc"

    @property
    def rank_(self) -> int:
        """Dimensions of the subspace."""
        return len(self.components_)

    @property
    def _n_features_out(self) -> int:
        """Columns of what `transform` gives, for `get_feature_names_out`."""
        return self.rank_

    def check_parameters(self) -> None:
        """Refuse a parameter in one sentence."""
        super().check_parameters()
        if self.schedule == "paper" and self.order == "outside":
            raise InputError('order is "outside" with schedule="paper", whose order is "inside"; leave it "auto".')

    def _choose_norm(self) -> Norm:
        """Of one hyperplane, which is what two clusters have, both norms are the same; the plain master is quicker."""
        if self.schedule == "paper":
            return ALTERNATION
        return FROBENIUS if self.n_clusters == 2 else TRACE_NORM

    def _choose_inside(self) -> bool:
        return self.schedule == "paper" or super()._choose_inside()

    def _may_follow_start(self) -> bool:
        return self.schedule != "paper" and super()._may_follow_start()

    def _choose_C(self) -> float:
        """To give up a direction of strength s beside others of S in sum saves s S + s²/2, in the plain method s²/2.

        The ratio of the two is 1 + 2 S / s, that is 4 k - 7 for one that is half as strong as each of k - 2 others.
        """
        C = super()._choose_C()
        return C if not isinstance(self.C, str) else C * max(1, 4 * self.n_clusters - 7)

    def _set_subspace(self, W: Array, geometry: Geometry) -> None:
        _, sigma, directions = np.linalg.svd(W, full_matrices=False)
        kept = (sigma > 0) & (sigma >= SHARE * sigma.sum())
        largest = np.abs(directions).argmax(axis=1)
        sign = np.sign(directions[np.arange(len(directions)), largest])
        self.components_ = (sign[:, None] * directions)[kept]
        self.singular_values_ = sigma[kept]
        self.mean_, self.scale_ = geometry.mean, geometry.unit
        self.choices_["rank"] = self.rank_

    def _put_all_in_one_cluster(self, engine: Engine, seed: int) -> None:
        super()._put_all_in_one_cluster(engine, seed)
        d = engine.dataset.n_features
        self.components_, self.singular_values_ = np.zeros((0, d)), np.zeros(0)
        self.mean_, self.scale_ = np.zeros(d), np.ones(d)

    def subspace(self) -> Hyperplanes:
        """The components as hyperplanes, whose scores are a row's coordinates in the subspace."""
        folded = self.components_ / self.scale_
        return Hyperplanes(folded, -folded @ self.mean_, np.zeros(self.rank_))

    def transform(
        self, X: Any, *, component: str | None = None, storage_options: Mapping[str, Any] | None = None
    ) -> Any:
        """Coordinates of rows in the subspace.

        Parameters
        ----------
        X : any source that `fit` takes
        component : path inside the store, for a zarr store
        storage_options : as of `dmmc.fit`, for a URL

        Returns
        -------
        float64 array (n, rank_); a lazy dask array for a dask array
        """
        check_is_fitted(self)
        X = find_remote(X, storage_options)
        projection = self.map_, self.subspace()
        if is_dask_array(X):
            found = predict_dask.decision_function(X, projection, self.n_features_in_, type(self).__name__)
            return found[:, None] if self.rank_ == 1 else found
        return np.concatenate(list(self._score_blocks(X, component, projection)))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `array_folder.write` needs to write the model."""
        content, arrays = super().to_arrays()
        parts = {name: getattr(self, f"{name}_") for name in ("components", "singular_values", "mean", "scale")}
        return content, {**arrays, **parts}

    @classmethod
    def from_arrays(cls, content: dict[str, Any], arrays: dict[str, Array], name: str) -> Self:
        """The fitted estimator again; `name` is for messages."""
        model = super().from_arrays(content, arrays, name)
        parts = ("components", "singular_values", "mean", "scale")
        model.components_, model.singular_values_, model.mean_, model.scale_ = (arrays[part] for part in parts)
        return model

    @classmethod
    def describe_arrays(cls, names: Collection[str]) -> Mapping[str, Spec]:
        """The subspace, in the coordinates of the hyperplanes."""
        m = "m" if "map_w" in names or "map_root" in names else "d"
        return {
            "components": Numbers(np.float64, "rank", m),
            "singular_values": Numbers(np.float64, "rank", low=0),
            "mean": Numbers(np.float64, m),
            "scale": Numbers(np.float64, m, low=ABOVE_0),
        }
