"""Labels from files: zarr, .npy, .npz:key, .csv."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.errors import InputError


def read_labels(path: str) -> Any:
    """One label a row. A csv has one column, or a header and a last column of labels."""
    name, colon, key = path.rpartition(":")
    if colon and name.endswith(".npz"):
        return _npz(Path(name), key)
    file = Path(path)
    if not file.exists():
        raise InputError(f"{path} does not exist; a zarr array, .npy, .npz:key or .csv of labels is wanted.")
    try:
        if file.suffix == ".npy":
            return np.load(file, allow_pickle=False)
        if file.suffix == ".npz":
            return _npz(file, None)
        if file.suffix == ".csv":
            return _csv(file)
        if file.is_dir():
            return _zarr(file)
    except InputError:
        raise
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} cannot be read as labels: {error}.") from error
    raise InputError(f"{path} is not a zarr array, .npy, .npz:key or .csv.")


def _zarr(path: Path) -> Any:
    import zarr

    try:
        found = zarr.open(str(path), mode="r")
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{path} is not a zarr array of labels: {error}.") from error
    if not isinstance(found, zarr.Array):
        raise InputError(f"{path} is a zarr group; the path of an array of labels is wanted.")
    return found[...]


def _npz(path: Path, key: str | None) -> Any:
    with np.load(path, allow_pickle=False) as archive:
        keys = list(archive)
        if key is None and len(keys) == 1:
            key = keys[0]
        if key not in keys:
            raise InputError(f"{path} holds {', '.join(keys)}; say which as {path.name}:KEY.")
        return archive[key]


def _csv(path: Path) -> Any:
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    if not rows:
        raise InputError(f"{path} is empty; one label a line is wanted.")
    width = len(rows[0])
    for line, row in enumerate(rows, 1):
        if len(row) != width:
            raise InputError(f"{path} has {len(row)} columns in line {line}, but {width} in line 1.")
    column = [row[-1].strip() for row in rows]
    if len(column) > 1 and not _number(column[0]) and all(_number(word) for word in column[1:]):
        column = column[1:]  # a header
    elif width > 1:
        column = column[1:]
    return np.array(column)


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
