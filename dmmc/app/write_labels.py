"""Where `dmmc predict` writes, by the endings of paths; what cannot be written is refused before anything is read."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dmmc.errors import InputError
from dmmc.results.label_arrays import refuse_taken
from dmmc.results.label_table import ENDINGS
from dmmc.stores.urls import Place, find_place

OTHERS = {".csv", ".npy", ".npz", ".txt", *ENDINGS}


def check_targets(targets: Mapping[str, Any]) -> dict[str, Place]:
    """The paths and URLs that are given, by what goes there ("labels" first); refuses what cannot be written.

    Labels may be a csv or a parquet file, all else is a zarr store.
    """
    paths = {what: find_place(path) for what, path in targets.items() if path is not None}
    for what, target in paths.items():
        refuse_taken(target)
        if isinstance(target, Path) and not target.parent.is_dir():
            raise InputError(f"{target} cannot be written: there is no folder {target.parent}.")
        endings = ENDINGS if what == "labels" else ()
        if target.suffix in OTHERS - set(endings):
            names = " or ".join(f"{target.stem}{ending}" for ending in (*endings[:2], ".zarr"))
            raise InputError(f"{target} is of no kind that is written here; a name such as {names} is wanted.")
    places = [os.path.abspath(str(path)) for path in paths.values()]
    for number, (what, place) in enumerate(zip(paths, places, strict=True)):
        if place in places[:number]:
            first = list(paths)[places.index(place)]
            raise InputError(f"{first} and {what.replace('_', '-')} are both to be {paths[what]}; choose two paths.")
    return paths
