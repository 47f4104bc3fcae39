"""Labels in files: zarr, .npy, .npz:key and .csv to read; zarr to write."""

import csv
import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.readers.store_checks import check_seal, refuse_odd_files, seal
from dmmc.data.readers.zarr_arrays import describe_missing_chunks
from dmmc.errors import InputError, refuse_url
from dmmc.machine import MIB
from dmmc.results.atomic_files import write_folder

CHUNK_BYTES = 8 * MIB
CHUNK_ROWS = 2**16
"""Rows of a chunk of labels: few enough for many workers to write side by side, each whole chunks."""
WANTED = "a zarr array, .npy, .npz:KEY or .csv of labels"


def read_labels(path: str) -> Array:
    """Read one label a row from a file or folder.

    `FILE.npz:KEY` names one array of an .npz, and the OUT of a fit is its `labels.zarr`. A .csv has one column of
    labels, or two (row id, label); its first line is a header if it holds a word found in no other line.
    """
    refuse_url(path)
    name, _, key = path.rpartition(":")
    path, key = (name, key) if name.endswith(".npz") else (path, "")
    file = Path(path)
    if not file.exists():
        raise InputError(f"{path} does not exist; {WANTED} is wanted.")
    refuse_odd_files(path)
    with _name_file(path):
        if file.is_dir():
            return _read_zarr(file)
        if file.suffix in (".npy", ".npz"):
            return _read_numpy(file, key)
        if file.suffix == ".csv":
            return np.array([row[-1] for row in _read_csv(file)])
    raise InputError(f"{path} is something else; {WANTED} is wanted.")


def read_ids(path: str) -> list[str] | None:
    """Read the row ids of a csv of two columns; None for any other file."""
    file = Path(path)
    if file.suffix != ".csv" or not file.is_file():
        return None
    with _name_file(path):
        rows = _read_csv(file)
    return [row[0] for row in rows] if len(rows[0]) == 2 else None


@contextmanager
def _name_file(path: str) -> Iterator[None]:
    """Turn any error into an `InputError`: there are three file formats, and each library has errors of its own."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as labels ({type(error).__name__}: {error}).") from error


def _read_zarr(path: Path) -> Array:
    import zarr

    if (path / "run.json").is_file():
        path = path / "labels.zarr"
    found = zarr.open(str(path), mode="r")
    if not isinstance(found, zarr.Array):
        raise InputError(f"{path} is a zarr group; the path of an array of labels is wanted.")
    if (lost := describe_missing_chunks(found, str(path))) is not None:
        raise InputError(lost)
    labels = np.asarray(found[...])
    check_seal(found, str(path))
    return labels


def _read_numpy(path: Path, key: str) -> Array:
    found: Any = np.load(path, allow_pickle=False)
    if path.suffix == ".npz":
        if isinstance(found, np.ndarray):
            raise InputError(f"{path} is a single array, not an archive of arrays; call it .npy.")
        with found as archive:
            keys = list(archive)
            if not key and len(keys) == 1:
                key = keys[0]
            if key not in keys:
                raise InputError(f"{path} holds {', '.join(keys) or 'nothing'}; say which as {path.name}:KEY.")
            found = archive[key]
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} is not a single array of labels.")
    return found


def _read_csv(path: Path) -> list[list[str]]:
    """Read the cells of each row, one or two, without the header."""
    rows: list[list[str]] = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for row in reader:
            if not row:
                continue
            cells = [cell.strip() for cell in row]
            if rows and len(cells) != len(rows[0]):
                raise InputError(
                    f"{path} has {len(cells)} column(s) in line {reader.line_num}, but {len(rows[0])} before it."
                )
            if len(cells) > 2:
                raise InputError(
                    f"{path} has {len(cells)} columns; one column of labels, or two (row id, label), are wanted."
                )
            if not cells[-1]:
                raise InputError(f"{path} has no label in line {reader.line_num}.")
            rows.append(cells)
    if rows and not _is_number(rows[0][-1]) and all(row[-1] != rows[0][-1] for row in rows[1:]):
        rows = rows[1:]
    if not rows:
        raise InputError(f"{path} is empty; one label a line is wanted.")
    return rows


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def write_arrays(wanted: Mapping[Path, Array]) -> None:
    """Write each array as a zarr store of its own; they appear when all of them are whole, or none does."""
    with create_arrays({path: (values.shape, values.dtype.type) for path, values in wanted.items()}) as asides:
        for path, values in wanted.items():
            open_to_write(str(asides[path]))[...] = values


def open_to_write(path: str) -> Any:
    """Open an array that `create_arrays` created; chunks of zeros are written like others."""
    import zarr

    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_array(path, mode="r+")


@contextmanager
def create_arrays(wanted: Mapping[Path, tuple[tuple[int, ...], type]]) -> Iterator[dict[Path, Path]]:
    """Create zarr arrays aside, for whoever can to write; they appear when the block ends, or none does if it fails.

    They have checksums and a seal, and no chunk is left out: what is lost or damaged later is noticed. `wanted` has the
    shape and type of the array at each path; the block is given where each array is until then.
    """
    with ExitStack() as stack:
        asides = {path: stack.enter_context(write_folder(path, replace=False)) for path in wanted}
        for path, (shape, kind) in wanted.items():
            _create(asides[path], shape, kind)
        yield asides
        for aside in asides.values():
            seal(open_to_write(str(aside)))


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
