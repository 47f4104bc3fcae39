"""What a report shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from dmmc.profile.describe import ClusterProfile
from dmmc.report.summary import Summary


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
    features: tuple[tuple[str, float | str], ...] = ()


@dataclass(frozen=True, eq=False)
class Comparison:
    """Clusters beside the classes of a known truth."""

    scores: dict[str, float]  # as of `dmmc.score`
    classes: list[str]
    counts: NDArray[Any]  # (k, classes) rows


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
    profiles: Sequence[ClusterProfile] = ()  # what each cluster is; none in results of older versions
    centres: NDArray[Any] | None = None  # (k, d) mean rows of the clusters
    map_ids: Sequence[str] | None = None  # id of each sampled row
    map_told: Sequence[str] | None = None  # what stands out of each sampled row
    kinds: Sequence[str] | None = None  # of a table, what each column is that `examples` have
    truth: Comparison | None = None  # how clusters agree with known classes
    hidden: Sequence[int] = ()  # rows of each further cluster, which is in the table alone
    table: str = ""  # all clusters as lines of csv, where some are hidden

    @classmethod
    def of_map(cls, summary: Summary, profiles: Sequence[ClusterProfile], ids: Sequence[str] | None) -> Self:
        """What the map alone is drawn from."""
        return cls(
            title="",
            command="",
            run={},
            history=[],
            sizes=[int(size) for size in summary.sizes],
            margin_edges=summary.edges,
            margin_counts=summary.counts,
            map_xy=summary.map_xy,
            map_labels=summary.map_labels,
            map_rows=summary.map_rows,
            map_axes=("first direction", "second direction"),
            examples=[],
            feature_names=None,
            image_shape=None,
            profiles=profiles,
            map_ids=ids,
        )
