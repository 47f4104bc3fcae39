"""Several feature spaces of the same rows, side by side as one matrix that knows which columns are whose.

Blocks are cut wherever one of the views is cut, so that they depend on the views' sizes alone. Views of which one is
sparse are held as sparse rows.
"""

import os
from collections.abc import Sequence
from functools import reduce
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.dataset import Dataset, Reader, Rows, Stored, View, cut_into_blocks
from dmmc.data.readers.csr import to_csr
from dmmc.data.readers.numbers import comes_from
from dmmc.errors import InputError
from dmmc.stores.urls import Remote


def are_views(source: Any) -> bool:
    """Whether a source is a list of matrices, not one matrix."""
    return isinstance(source, list | tuple) and len(source) > 0 and all(map(_is_matrix, source))


def _is_matrix(source: Any) -> bool:
    if isinstance(source, str | os.PathLike | Remote | Dataset | Stored) or comes_from(source, "anndata"):
        return True
    return getattr(source, "ndim", 0) == 2 or hasattr(source, "store_path")


def join_views(views: Sequence[Rows]) -> Rows:
    """The views as one matrix: in memory, or in their stores where all of them are."""
    if len(views) == 1:
        return views[0]
    _check_rows(views)
    sparse = any(view.is_sparse for view in views)
    dtype = np.result_type(*(view.dtype for view in views))
    parts = tuple(View(view.name, view.n_features, view.is_sparse) for view in views)
    n_features = sum(part.n_features for part in parts)
    bounds = reduce(np.union1d, [view.bounds for view in views]).astype(np.int64)
    name = " and ".join(view.name for view in views)
    named = [view.feature_names for view in views if view.feature_names is not None]
    about: dict[str, Any] = {
        "feature_names": tuple(one for some in named for one in some) if len(named) == len(views) else None,
        "row_ids": next((view.row_ids for view in views if view.row_ids is not None), None),
        "views": parts,
    }
    stored = [view for view in views if isinstance(view, Stored)]
    if len(stored) == len(views):
        nnz = sum(view.nnz for view in stored)
        reader = JoinedRows(tuple(view.reader for view in stored), dtype, sparse)
        return Stored(name, views[0].n_rows, n_features, dtype, sparse, bounds, nnz, reader, **about)
    rows = join_columns([_hold(view) for view in views], dtype, sparse)
    return cut_into_blocks(name, rows, bounds, **about)


def suggest_pattern(names: Sequence[str]) -> str:
    """The second half of a sentence, on how several files of one table are given; "" where these are something else."""
    endings = {PurePath(name).suffix for name in names}
    if len(set(names)) < 2 or len(endings) > 1 or not endings <= {".csv", ".parquet", ".pq"}:
        return ""
    pattern = f"{os.path.commonprefix(list(names))}*{endings.pop()}"  # noqa: RUF071 - characters, not folders
    return f"; files with rows of one table are given as a pattern, such as {pattern!r}"


def _check_rows(views: Sequence[Rows]) -> None:
    """Refuse views of other rows than the first one's."""
    first = views[0]
    for number, view in enumerate(views[1:], start=2):
        if view.n_rows != first.n_rows:
            raise InputError(
                f"view {number} ({view.name}) has {view.n_rows} rows, but view 1 ({first.name}) has {first.n_rows}: "
                f"views of the same rows in the same order are wanted{suggest_pattern([one.name for one in views])}."
            )
        if view.row_ids is not None and first.row_ids is not None:
            others = np.flatnonzero(np.asarray(view.row_ids).astype(str) != np.asarray(first.row_ids).astype(str))
            if len(others):
                row = int(others[0])
                raise InputError(
                    f"row {row} is {view.row_ids[row]!r} in view {number} ({view.name}), but {first.row_ids[row]!r} in "
                    f"view 1 ({first.name}): views of the same rows in the same order are wanted."
                )


def _hold(view: Rows) -> NDArray[Any] | Csr:
    """All rows of a view, in memory."""
    if isinstance(view, Stored):
        return view.reader.load(None)
    parts: list[Any] = [block.rows for block in view.blocks]
    if view.is_sparse:
        from scipy.sparse import vstack

        return to_csr(vstack([part.to_scipy() for part in parts], format="csr"), view.name)
    return np.concatenate(parts)


def join_columns(parts: Sequence[Any], dtype: np.dtype[Any], sparse: bool) -> NDArray[Any] | Csr:
    """Rows of the views, arrays or `Csr`, side by side."""
    if sparse:
        from scipy.sparse import csr_array, hstack

        rows = [part.to_scipy() if isinstance(part, Csr) else csr_array(part) for part in parts]
        return to_csr(hstack(rows, format="csr", dtype=dtype), "views")
    joined: NDArray[Any] = np.concatenate(parts, axis=1, dtype=dtype)
    return joined


class JoinedRows(NamedTuple):
    """Reads the rows of several stores side by side."""

    readers: tuple[Reader, ...]
    dtype: np.dtype[Any]
    sparse: bool

    def read(self, start: int, stop: int) -> NDArray[Any] | Csr:
        """Rows start to stop."""
        return join_columns([reader.read(start, stop) for reader in self.readers], self.dtype, self.sparse)

    def load(self, n_jobs: int | None) -> NDArray[Any] | Csr:
        """All rows."""
        return join_columns([reader.load(n_jobs) for reader in self.readers], self.dtype, self.sparse)
