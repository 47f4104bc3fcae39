"""What a sample of rows tells before anything is tried: how many clusters, on which scale, if there are any."""

from dataclasses import dataclass, replace
from typing import Any

from dmmc.array_types import Array
from dmmc.choose.number_of_clusters import Suggestion, suggest_number
from dmmc.choose.sample import put_on_one_scale
from dmmc.choose.structure import NONE_ABOVE, find_ratio
from dmmc.errors import ClusteringWarning, warn
from dmmc.time_limit import TimeLimit


@dataclass(frozen=True)
class Look:
    """What was seen.

    suggestion : evidence for the number of clusters, where it was looked for
    ratio : the cut of clusters over that of Gaussian rows of the same covariance; None where there was no time, or
        hardly any row
    on_one_scale : whether there is more structure with all columns on one scale
    ratios : where both were tried, of columns as they are, and on one scale
    """

    n_clusters: int
    suggestion: Suggestion | None
    ratio: float | None
    on_one_scale: bool = False
    ratios: tuple[float, float] | None = None

    def tell(self) -> dict[str, Any]:
        """As `choices_` has it; rows without structure are a warning."""
        notes: dict[str, Any] = {} if self.suggestion is None else {"n_clusters": self.suggestion.describe()}
        if self.ratios is not None:
            notes["scale"] = "standard" if self.on_one_scale else "none"
            notes["structure_ratios"] = dict(zip(("none", "standard"), self.ratios, strict=True))
        if self.ratio is None:
            return notes
        if self.ratio > NONE_ABOVE:
            warn(
                f"no structure was found: rows are as near to each other across {self.n_clusters} clusters as those of "
                f"one Gaussian cloud of the same covariance ({self.ratio:.2f} of its cut; clusters have less than "
                f"{NONE_ABOVE}). The clusters may mean little; try other columns or another number.",
                ClusteringWarning,
            )
        return {**notes, "structure_ratio": self.ratio}


def look_at(
    places: Array,
    numbers: int | tuple[int, int],
    by_angle: bool,
    unclear: bool,
    seed: int,
    threads: int,
    limit: TimeLimit,
) -> tuple[Array, Look]:
    """Look at rows (m, p); where it is unclear how their columns are to be scaled, both ways, and take the clearer one.

    numbers : of clusters: one, or the lowest and the highest
    by_angle : whether rows are compared by the angle between them
    Returns the rows as they are to be compared, and what was seen.
    """
    as_they_are = _look(places, numbers, by_angle, seed, threads, limit)
    if not unclear or as_they_are.ratio is None:
        return places, as_they_are
    scaled = put_on_one_scale(places)
    other = _look(scaled, numbers, by_angle, seed, threads, limit)
    if other.ratio is None:
        return places, as_they_are
    ratios = as_they_are.ratio, other.ratio
    if other.ratio < as_they_are.ratio:
        return scaled, replace(other, on_one_scale=True, ratios=ratios)
    return places, replace(as_they_are, ratios=ratios)


def _look(
    places: Array, numbers: int | tuple[int, int], by_angle: bool, seed: int, threads: int, limit: TimeLimit
) -> Look:
    if isinstance(numbers, int):
        k, suggestion = numbers, None
    else:
        suggestion = suggest_number(places, *numbers)
        k = max(suggestion.number, min(2, len(places)))
    if len(places) <= max(10, 2 * k) or limit.is_over:
        return Look(k, suggestion, None)
    return Look(k, suggestion, find_ratio(places, k, by_angle, seed, threads))
