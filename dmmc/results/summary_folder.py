"""The summary of a result, from which its report can be made again: written, and compared with what it must be."""

from pathlib import Path
from typing import Any

import numpy as np

from dmmc.errors import InputError
from dmmc.report.summary import Summary
from dmmc.results import array_folder
from dmmc.solvers.state_shapes import Each, Either, Numbers, OneOf, Only, Sizes, Text, Whole, find_misfit

LONGEST_ID = 200
"""Characters of a row's id that the report keeps; labels.csv has all of them."""

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
    }
)
CONTENT = {
    "n_features": Whole(1),
    "names": Either(OneOf(None), Each(Text(), count="kept")),
    "ids": Either(OneOf(None), Each(Text(), count="shown", least=0)),
    "image_shape": Either(OneOf(None), Each(Whole(1))),
}


def write_summary(folder: Path, summary: Summary, names: Any, ids: Any, n_features: int, image_shape: Any) -> None:
    """Write a summary with the names of the columns and rows that it shows, if they have any."""
    content = {
        "names": None if names is None else [str(names[column]) for column in summary.columns],
        "ids": None if ids is None else [str(ids[int(row)])[:LONGEST_ID] for row in summary.examples[:, 2]],
        "n_features": n_features,
        "image_shape": image_shape,
    }
    array_folder.write(folder, "summary", content, summary._asdict(), sealed=True)


def read_summary(folder: Path) -> tuple[dict[str, Any], Summary]:
    """Read a summary and what was written with it, or say what is wrong."""
    content, arrays = array_folder.read(folder, "summary", sealed=True)
    sizes: Sizes = {}
    misfit = find_misfit(arrays, ARRAYS, sizes) or find_misfit(content, CONTENT, sizes)
    if not misfit and sizes["bins"] != sizes["edges"] - 1:
        misfit = "counts are of other bins than the edges"
    if misfit:
        raise InputError(f"{folder} does not hold what a report needs: {misfit}.")
    return content, Summary(**arrays)
