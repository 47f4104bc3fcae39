"""What a report shows."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Example:
    """One row worth looking at."""

    cluster: int
    kind: str  # "typical" or "borderline"
    row: int  # its number in the data
    name: str | None  # its id, where the data have ids
    margin: float  # its lead over the runner-up cluster
    values: NDArray[Any]  # the raw row, dense
    image: str | None = None  # as it is drawn: a data URI, or names and values of features
    features: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Page:
    """All that a page is made from; any part may be empty."""

    title: str  # what was clustered
    command: str  # the command line or Python call that made it
    run: dict[str, Any]  # content of run.json: parameters, versions, choices, timings, data, warnings
    history: list[dict[str, Any]]  # one dict a pass: iteration, objective, gap, planes, flips, seconds
    sizes: list[int]  # rows of each cluster
    margin_edges: NDArray[Any]  # the bins + 1 edges of the margin histogram
    margin_counts: NDArray[Any]  # rows of each cluster in each bin, (k, bins)
    map_xy: NDArray[Any]  # two coordinates of each sampled row
    map_labels: NDArray[Any]  # cluster of each sampled row
    map_rows: NDArray[Any]  # number of each sampled row
    map_axes: tuple[str, str]  # what the two coordinates are
    examples: list[Example]  # typical and borderline rows
    feature_names: list[str] | None  # one name a column
    image_shape: tuple[int, ...] | None  # (height, width) or (height, width, 3) when the rows are images
    map_along: str = "the model's own directions"  # what the map shows the rows along
