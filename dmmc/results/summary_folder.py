"""The summary of a result, from which its report can be made again: written, and compared with what it must be."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.profile.describe import ClusterProfile, name_columns
from dmmc.profile.units import tell_cell
from dmmc.report.summary import HOVERED, Summary
from dmmc.report.text import format_cell
from dmmc.results import array_folder
from dmmc.solvers.state_shapes import (
    LARGEST,
    Between,
    Each,
    Either,
    Numbers,
    OneOf,
    Only,
    Sizes,
    Text,
    Whole,
    find_misfit,
)

LONGEST_ID = 200
"""Characters of a row's id that the report keeps; labels.csv has all of them."""
LONGEST_NAME = 40
"""Characters of a column's name that a row on the map is told by."""

NUMBER = Either(OneOf(None), Between(-LARGEST, LARGEST), Text())
"""A mean: none of no rows, a text of dates."""
KINDS = {"kinds": Either(OneOf(None), Each(OneOf("number", "boolean", "date", "category"), count="kept"))}
"""What the columns are, of a table in a summary of this version."""
ARRAYS = Only(
    {
        "sizes": Numbers("iu", "k", low=0, least=1),
        "edges": Numbers(np.float64, "edges", least=2),
        "counts": Numbers("iu", "k", "bins", low=0),
        "map_xy": Numbers("f", "sampled", 2),
        "map_labels": Numbers("iu", "sampled", low=0, below="k"),
        "map_rows": Numbers("iu", "sampled", low=0),
        "examples": Numbers(np.float64, "shown", 4, low=0),
        "values": Numbers("biuf", "shown", "kept"),
        "columns": Numbers("iu", "kept", low=0),
    },
    {  # not in summaries of older versions
        "map_told": Numbers(np.int64, "sampled", HOVERED, low=-1),
        "map_values": Numbers(np.float64, "sampled", HOVERED),
    },
)
CONTENT = {
    "n_features": Whole(1),
    "names": Either(OneOf(None), Each(Text(), count="kept")),
    "ids": Either(OneOf(None), Each(Text(), count="shown", least=0)),
    "image_shape": Either(OneOf(None), Each(Whole(1))),
}
PROFILES = Each(
    {
        "name": Text(),
        "features": Each(
            {"name": Text(), "inside": NUMBER, "outside": NUMBER, "distinctive": Between(-1.0, 1.0)}, least=0
        ),
    },
    count="k",
)
"""What clusters are, in summaries of this version."""
MAP = {
    "map_ids": Either(OneOf(None), Each(Text(), count="sampled", least=0)),
    "map_words": Each(Text(), count="sampled", least=0),
}
"""Ids of the rows on the map and what stands out of them."""


def write_summary(
    folder: Path,
    summary: Summary,
    names: Any,
    ids: Any,
    n_features: int,
    image_shape: Any,
    profiles: Sequence[ClusterProfile],
    kinds: Sequence[str] | None = None,
) -> None:
    """Write a summary with the names of the columns and rows that it shows, if they have any, and what clusters are.

    kinds : of a table, what each column is
    """
    content = {
        "names": None if names is None else [str(names[column]) for column in summary.columns],
        "ids": None if ids is None else [str(ids[int(row)])[:LONGEST_ID] for row in summary.examples[:, 2]],
        "n_features": n_features,
        "image_shape": image_shape,
        "map_ids": None if ids is None else [str(ids[int(row)])[:LONGEST_ID] for row in summary.map_rows],
        "map_words": _tell_rows(summary, name_columns(names, n_features, image_shape), kinds),
        "kinds": None if kinds is None else [kinds[column] for column in summary.columns],
        "profiles": [
            {"name": profile.name, "features": [feature._asdict() for feature in profile.features]}
            for profile in profiles
        ],
    }
    array_folder.write(folder, "summary", content, summary._asdict(), sealed=True)


def read_summary(folder: Path) -> tuple[dict[str, Any], Summary]:
    """Read a summary and what was written with it, or say what is wrong."""
    content, arrays = array_folder.read(folder, "summary", sealed=True)
    sizes: Sizes = {}
    misfit = find_misfit(arrays, ARRAYS, sizes) or find_misfit(content, CONTENT, sizes)
    if "profiles" in content:  # summaries of older versions have none
        misfit = misfit or find_misfit(content["profiles"], PROFILES, sizes, "profiles")
        misfit = misfit or find_misfit(content, MAP, sizes)
    if "kinds" in content:
        misfit = misfit or find_misfit(content, KINDS, sizes)
    if not misfit and sizes["bins"] != sizes["edges"] - 1:
        misfit = "counts are of other bins than the edges"
    if misfit:
        raise InputError(f"{folder} does not hold what a report needs: {misfit}.")
    none = np.full((len(arrays["map_rows"]), HOVERED), -1)
    return content, Summary(**{"map_told": none, "map_values": none.astype(np.float64), **arrays})


def read_cluster_names(folder: Path) -> Array:
    """Names (k,) of the clusters, from a summary; (0,) of one of an older version, which has none."""
    content, _ = read_summary(folder)
    return np.array([profile["name"] for profile in content.get("profiles", [])], object)


def _tell_rows(summary: Summary, names: Sequence[str], kinds: Sequence[str] | None) -> list[str]:
    """What stands out of each sampled row: names of columns and its numbers there."""

    def tell(column: int, value: float) -> str:
        told = tell_cell(value, "number" if kinds is None else kinds[column])
        return f"{names[column][:LONGEST_NAME]} {format_cell(told)}"

    return [
        ", ".join(tell(i, value) for i, value in zip(columns, values, strict=True) if i >= 0)
        for columns, values in zip(summary.map_told.tolist(), summary.map_values.tolist(), strict=True)
    ]


def write_centres(folder: Path, centres: Array) -> None:
    """Write the means (k, d) of the raw columns of each cluster."""
    array_folder.write(folder, "centres", {}, {"centres": centres}, sealed=True)


def read_centres(folder: Path, k: int) -> Array | None:
    """Read the means (k, d) of k clusters; None where there are none, as in results of older versions."""
    if not folder.is_dir():
        return None
    _, arrays = array_folder.read(folder, "centres", sealed=True)
    misfit = find_misfit(arrays, Only({"centres": Numbers(np.float32, k, "d", least=1)}), {})
    if misfit:
        raise InputError(f"{folder} does not hold the centres of {k} clusters: {misfit}.")
    return arrays["centres"]
