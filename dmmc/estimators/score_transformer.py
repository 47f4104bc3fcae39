"""A clusterer as a transformer of scikit-learn's: scores as columns, `set_output`; what is read after it was loaded."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from dmmc.array_types import Array
from dmmc.estimators.separation import find_cut


class ScoreTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin):  # type: ignore[misc]
    """`transform` gives decision values, as KMeans gives distances; it is a method beside the parameter `transform`."""

    decision_function: Callable[..., Any]
    predict: Callable[..., Any]
    open: Callable[..., Any]
    count_clusters: Callable[[], int]
    n_jobs: int | None
    hyperplanes: Callable[[], Any]

    @property
    def _n_features_out(self) -> int:
        """Columns of what `transform` gives, for `get_feature_names_out`."""
        return int(self.hyperplanes().n_scores)

    def __init_subclass__(cls, **options: Any) -> None:
        """Let scikit-learn wrap methods for `set_output`, but not the parameter `transform`."""
        field = cls.__dict__.get("transform")
        super().__init_subclass__(**options)
        if isinstance(field, dataclasses.Field):
            cls.transform = field

    if TYPE_CHECKING:
        transform: Any  # a parameter, too
    else:

        def transform(
            self, X: Any, *, component: str | None = None, storage_options: Mapping[str, Any] | None = None
        ) -> Any:
            """Scores of rows, a column for each cluster (one for two clusters, whose sign decides).

            Parameters
            ----------
            X : any source that `fit` takes
            component : path inside the store, for a zarr store
            storage_options : as of `dmmc.fit`, for a URL

            Returns
            -------
            float64 array (n, n_clusters), or (n, 1) for two clusters; a lazy dask array for a dask array; a frame where
            `set_output` asks for one
            """
            f = self.decision_function(X, component=component, storage_options=storage_options)
            return f[:, None] if f.ndim == 1 else f

    def score(self, X: Any, y: Any = None, *, component: str | None = None) -> float:
        """Minus the cut of the rows' labels, the higher the better: 0 where all near rows are together.

        It is what `auto` judges by (E36), on a sample of the raw columns, so models of any method and objective
        can be compared on the same rows; not minus the objective, as a lower one is not a better clustering.

        Parameters
        ----------
        X : any source that `fit` takes
        y : not looked at
        component : path inside the store, for a zarr store
        """
        del y
        rows = self.open(X, component)
        labels = np.asarray(self.predict(rows))
        return -find_cut(rows, labels, self.count_clusters(), self.n_jobs)

    def remember(self, read: dict[str, Callable[[], Array]]) -> None:
        """Name attributes that are read from a result folder when they are asked for, such as `labels_`."""
        self.__dict__["_to_read"] = read

    def forget(self, name: str) -> None:
        """Forget an attribute that was read or set, or is to be read: of an earlier fit."""
        self.__dict__.pop(name, None)
        self.__dict__.get("_to_read", {}).pop(name, None)

    def __getattr__(self, name: str) -> Any:
        read = self.__dict__.get("_to_read", {}).get(name)
        if read is None:
            return self.__getattribute__(name)  # raises what brought us here again, with its cause
        found = np.asarray(read())
        setattr(self, name, found)
        return found

    def __getstate__(self) -> Any:
        """What pickle keeps: not what is yet to be read."""
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_to_read"}
