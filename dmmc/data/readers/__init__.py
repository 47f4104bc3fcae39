"""Every kind of source, read into rows in memory."""

from typing import Any, NamedTuple

from numpy.typing import NDArray

from dmmc.data.blocks import Csr


class LoadedMatrix(NamedTuple):
    """A matrix in memory, with the names of columns and rows and the shape of images, where its source has them."""

    name: str
    rows: NDArray[Any] | Csr
    feature_names: tuple[str, ...] | None = None
    row_ids: NDArray[Any] | None = None
    image_shape: tuple[int, ...] | None = None
    cells: bool = False
    """Whether it comes from AnnData."""
