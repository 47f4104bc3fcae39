"""Labels in files: zarr, .npy, .npz:key and .csv to read; zarr to write."""

from __future__ import annotations

import csv
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.readers.zarr_arrays import missing_chunks
from dmmc.errors import InputError
from dmmc.machine import MIB

Array = NDArray[Any]

CHUNK_BYTES = 8 * MIB
CHUNK_ROWS = 2**16
"""Rows of a chunk of labels: few enough for many workers to write side by side, each whole chunks."""
WANTED = "a zarr array, .npy, .npz:KEY or .csv of labels"


# ---------------------------------------------------------------------------------------------------- reading


def read_labels(path: str) -> Array:
    """One label a row.

    Parameters
    ----------
    path : file or folder; `FILE.npz:KEY` names one array of an .npz, and the OUT of a fit is its `labels.zarr`.
        A .csv has one column of labels, or two (row id, label); its first line is a header if it holds a word found
        in no other line.
    """
    name, _, key = path.rpartition(":")
    if name.endswith(".npz"):
        path = name
    else:
        key = ""
    file = Path(path)
    if not file.exists():
        raise InputError(f"{path} does not exist; {WANTED} is wanted.")
    try:
        if file.is_dir():
            return _zarr(file)
        if file.suffix == ".npy":
            return _one_array(np.load(file, allow_pickle=False), path)
        if file.suffix == ".npz":
            return _npz(file, key)
        if file.suffix == ".csv":
            return _csv(file)
    except InputError:
        raise
    except Exception as error:  # three file formats, and each library has errors of its own
        raise InputError(f"{path} cannot be read as labels ({type(error).__name__}: {error}).") from error
    raise InputError(f"{path} is something else; {WANTED} is wanted.")


def _zarr(path: Path) -> Array:
    import zarr

    if (path / "run.json").is_file():
        path = path / "labels.zarr"
    found = zarr.open(str(path), mode="r")
    if not isinstance(found, zarr.Array):
        raise InputError(f"{path} is a zarr group; the path of an array of labels is wanted.")
    lost = missing_chunks(found, str(path))
    if lost is not None:
        raise InputError(lost)
    return np.asarray(found[...])


def _npz(path: Path, key: str) -> Array:
    opened: Any = np.load(path, allow_pickle=False)
    if isinstance(opened, np.ndarray):
        raise InputError(f"{path} is a single array, not an archive of arrays; call it .npy.")
    with opened as archive:
        keys = list(archive)
        if not key and len(keys) == 1:
            key = keys[0]
        if key not in keys:
            raise InputError(f"{path} holds {', '.join(keys) or 'nothing'}; say which as {path.name}:KEY.")
        return _one_array(archive[key], f"{path}:{key}")


def _one_array(found: Any, name: str) -> Array:
    if not isinstance(found, np.ndarray):
        raise InputError(f"{name} is not a single array of labels.")
    return found


def read_ids(path: str) -> list[str] | None:
    """Row ids of a csv of two columns; None for any other file."""
    file = Path(path)
    if file.suffix != ".csv" or not file.is_file():
        return None
    with open(file, newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines) if row]
    if not rows or len(rows[0]) != 2:
        return None
    return [row[0].strip() for row in rows[len(rows) - len(_csv(file)) :]]


def _csv(path: Path) -> Array:
    column: list[str] = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        width = None
        for row in reader:
            if not row:
                continue
            width = width or len(row)
            if len(row) != width:
                raise InputError(f"{path} has {len(row)} column(s) in line {reader.line_num}, but {width} before it.")
            if len(row) > 2:
                raise InputError(
                    f"{path} has {len(row)} columns; one column of labels, or two (row id, label), are wanted."
                )
            if not row[-1].strip():
                raise InputError(f"{path} has no label in line {reader.line_num}.")
            column.append(row[-1].strip())
    if column and not _number(column[0]) and column[0] not in column[1:]:
        column = column[1:]
    if not column:
        raise InputError(f"{path} is empty; one label a line is wanted.")
    return np.array(column)


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------------------- writing


def write_arrays(wanted: Mapping[Path, Array]) -> None:
    """Write each array as a zarr store of its own; they appear when all of them are whole, or none does."""
    with Appearing({path: (values.shape, values.dtype.type) for path, values in wanted.items()}) as asides:
        for path, values in wanted.items():
            open_to_write(str(asides[path]))[...] = values


def open_to_write(path: str) -> Any:
    """An array in the making; chunks of zeros are written like others."""
    import zarr

    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(path, mode="r+")


class Appearing:
    """Zarr arrays in the making: written aside by whoever can, they appear when all of them are whole, or none does.

    With checksums, and no chunk left out: what is lost or damaged later is noticed.

    Parameters
    ----------
    wanted : shape and type of the array at each path
    """

    def __init__(self, wanted: Mapping[Path, tuple[tuple[int, ...], type]]) -> None:
        self._wanted = wanted
        self._asides = {path: path.with_name(f".{path.name}.new") for path in wanted}

    def __enter__(self) -> dict[Path, Path]:
        try:
            for path, (shape, kind) in self._wanted.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(self._asides[path], ignore_errors=True)
                _create(self._asides[path], shape, kind)
        except BaseException:
            self._remove()
            raise
        return self._asides

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if kind is None:
                for path, aside in self._asides.items():
                    os.rename(aside, path)
        finally:
            self._remove()

    def _remove(self) -> None:
        for aside in self._asides.values():
            shutil.rmtree(aside, ignore_errors=True)


def _create(path: Path, shape: tuple[int, ...], kind: type) -> None:
    import zarr
    from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

    fit = CHUNK_BYTES // max(1, math.prod(shape[1:]) * np.dtype(kind).itemsize)
    # powers of two, so that whole chunks of scores make a chunk of labels
    rows = min(CHUNK_ROWS, 2 ** max(0, fit.bit_length() - 1))
    zarr.create_array(
        str(path),
        shape=shape,
        chunks=(max(1, min(shape[0], rows)), *shape[1:]),
        dtype=kind,
        serializer=BytesCodec(),
        compressors=[ZstdCodec(level=3), Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
