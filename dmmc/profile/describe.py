"""What sets a cluster apart: the columns that differ most from the rest of the rows, and a short name made of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.profile.cluster_sums import ColumnMeans
from dmmc.profile.units import PRESENT, tell_mean

TOLD = 10
"""Features of a cluster that are told."""
NAMED = 3
"""Features that make its name."""
LEAST = 0.02
"""A feature that is less distinctive is in no name."""
LONGEST, LONGEST_PART = 200, 40
"""Characters of a column's name that are told, and that are part of a cluster's name."""
DIRECTIONS: dict[str, tuple[str, str | None]] = {
    "word": ("", None),
    "number": ("high ", "low "),
    "date": ("late ", "early "),
    "boolean": ("", "not "),
}
"""What a name says before a column: where it is high, and where it is low; a word that is not there is not named."""
RARE = 0.5
"""A column that is not 0 in less than this part of all rows is of something that is there or not, as a word is."""


PROFILE_COLUMNS = ("cluster", "name", "size", "feature", "inside", "outside", "distinctive")


class Feature(NamedTuple):
    """One column, inside and outside of a cluster: its mean, of dates a day, of categories and truth values a share."""

    name: str
    inside: float | str
    outside: float | str
    distinctive: float
    """Correlation of the column with being in the cluster, -1 to 1; as of `find_distinctive`."""


class ClusterProfile(NamedTuple):
    """What a cluster is."""

    cluster: int
    name: str
    size: int
    features: tuple[Feature, ...]
    """The most distinctive first."""


def find_distinctive(means: ColumnMeans, cluster: int) -> Array:
    """(d,) correlation of each column with being in a cluster; 0 for a constant column and an empty cluster.

    Of a column that is mostly 0, such as the counts of a word, it is that of not being 0: how often a word comes in one
    text says little.
    """
    share = means.sizes[cluster] / max(means.n_rows, 1)
    found, present = means.compare(cluster), means.present
    rare = present < RARE
    spread = np.where(rare, np.sqrt(present * (1.0 - present)), means.spread)
    apart = np.where(rare, found.present_inside - found.present_outside, found.inside - found.outside)
    correlation = np.sqrt(share * (1.0 - share)) * apart / np.where(spread > 0, spread, np.inf)
    return np.asarray(np.clip(np.nan_to_num(correlation), -1.0, 1.0))


def name_columns(names: Sequence[str] | None, n_features: int, image_shape: Sequence[int] | None) -> list[str]:
    """A name for each column: the data's own, the place of a pixel, or a number."""
    if names is not None:
        return [str(name)[:LONGEST] for name in names]
    if image_shape is not None:
        channels = "" if len(image_shape) < 3 or image_shape[2] == 1 else "rgb"
        places = np.stack(np.unravel_index(np.arange(n_features), tuple(image_shape)), axis=1).tolist()
        return [f"pixel {at[0]},{at[1]}{channels[at[2] : at[2] + 1] if channels else ''}" for at in places]
    return [f"feature {column}" for column in range(n_features)]


def describe_clusters(
    means: ColumnMeans, names: Sequence[str], most: int = TOLD, kinds: Sequence[str] | None = None
) -> list[ClusterProfile]:
    """The profile of each cluster, with its `most` most distinctive columns.

    names : one a column
    kinds : of a table, what each column is, as of `Units`
    """
    kinds = ["number"] * len(names) if kinds is None else kinds
    word = (means.present < RARE) & np.array([kind != "date" for kind in kinds])
    truth = np.array([kind == "boolean" for kind in kinds])
    word = (word | np.array([kind in PRESENT for kind in kinds])) & ~truth
    profiles: list[ClusterProfile] = []
    taken: set[str] = set()
    for cluster, size in enumerate(means.sizes.tolist()):
        own, (inside, outside, *_) = find_distinctive(means, cluster), means.compare(cluster)
        strength = np.where(word, np.maximum(own, -0.5 * own), np.abs(own))  # what is there says more than what is not
        order = np.argsort(-strength, kind="stable")
        best = order[: max(most, NAMED)]
        columns = [i for i in best[:most].tolist() if own[i] != 0]
        features = [
            Feature(
                names[i], tell_mean(float(inside[i]), kinds[i]), tell_mean(float(outside[i]), kinds[i]), float(own[i])
            )
            for i in columns
        ]
        ranked = order[: 4 * NAMED].tolist()
        name = _make_name([(names[i], float(own[i]), "word" if word[i] else kinds[i]) for i in ranked])
        name = name or f"cluster {cluster}"
        name = f"{name} ({cluster})" if name in taken else name
        taken.add(name)
        profiles.append(ClusterProfile(cluster, name, size, tuple(features)))
    return profiles


def _make_name(ranked: Sequence[tuple[str, float, str]]) -> str:
    """Words of the most distinctive columns: those that are there by their name, others as high or low."""
    parts: list[str] = []
    plain = True
    for name, own, kind in ranked:
        high, low = DIRECTIONS.get(kind, DIRECTIONS["number"])
        direction = high if own > 0 else low
        if abs(own) < LEAST or direction is None or len(parts) == NAMED:
            continue
        parts.append(direction + name[:LONGEST_PART])
        plain &= kind == "word" and " " not in name
    return (" " if plain else ", ").join(parts)


def list_lines(profiles: Sequence[ClusterProfile]) -> list[dict[str, Any]]:
    """One dict a feature of each cluster, as `profile.csv` has them; a cluster without features has one line."""
    nothing = Feature("", np.nan, np.nan, 0.0)
    return [
        dict(zip(PROFILE_COLUMNS, (profile.cluster, profile.name, profile.size, *feature), strict=True))
        for profile in profiles
        for feature in profile.features or (nothing,)
    ]
