"""The result of every reader."""

from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmmc.data.blocks import Csr


class LoadedMatrix(NamedTuple):
    """A matrix in memory, and the names that its source has for it, its columns and its rows."""

    name: str
    rows: NDArray[Any] | Csr
    feature_names: tuple[str, ...] | None = None
    row_ids: NDArray[Any] | None = None
