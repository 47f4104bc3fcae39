"""What every reader gives back."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmmc.data.blocks import Csr


class Loaded(NamedTuple):
    """A whole matrix in memory, and how its source calls it, its columns and its rows."""

    name: str
    rows: NDArray[Any] | Csr
    feature_names: tuple[str, ...] | None = None
    row_ids: NDArray[Any] | None = None
