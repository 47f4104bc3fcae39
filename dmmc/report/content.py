"""What a report shows."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Example:
    """One row worth looking at.

    Attributes
    ----------
    cluster : the row's cluster
    kind : "typical" or "borderline"
    row : its number in the data
    name : its id, where the data have ids
    margin : its lead over the runner-up cluster
    values : the raw row, dense
    """

    cluster: int
    kind: str
    row: int
    name: str | None
    margin: float
    values: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Page:
    """All that a page is made from; any part may be empty.

    Attributes
    ----------
    title : what was clustered
    command : the command line or Python call that made it
    run : content of run.json: parameters, versions, choices, timings, data, warnings
    history : one dict a pass: iteration, objective, gap, planes, flips, seconds
    sizes : rows of each cluster
    margin_edges : the bins + 1 edges of the margin histogram
    margin_counts : rows of each cluster in each bin, (k, bins)
    map_xy : two coordinates of each sampled row
    map_labels : cluster of each sampled row
    map_rows : number of each sampled row
    map_axes : what the two coordinates are
    examples : typical and borderline rows
    feature_names : one name a column
    image_shape : (height, width) or (height, width, 3) when the rows are images
    map_along : what the map shows the rows along
    """

    title: str
    command: str
    run: dict[str, Any]
    history: list[dict[str, Any]]
    sizes: list[int]
    margin_edges: NDArray[Any]
    margin_counts: NDArray[Any]
    map_xy: NDArray[Any]
    map_labels: NDArray[Any]
    map_rows: NDArray[Any]
    map_axes: tuple[str, str]
    examples: list[Example]
    feature_names: list[str] | None
    image_shape: tuple[int, ...] | None
    map_along: str = "the model's own directions"
