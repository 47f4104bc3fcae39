"""Labels in files: zarr, .npy, .npz:key, .csv, .parquet and idx to read; zarr to write."""

import csv
import gzip
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.array_types import Array
from dmmc.data.readers.store_checks import check_seal, refuse_odd_files, seal
from dmmc.data.readers.zarr_arrays import check_complete
from dmmc.data.readers.zarr_nodes import open_store
from dmmc.errors import InputError, StoreFailed
from dmmc.machine import MIB
from dmmc.results import belonging
from dmmc.results.atomic_files import write_folder
from dmmc.results.remote_arrays import NewArray, publish, write_remote
from dmmc.stores.urls import Place, Remote, find_remote

CHUNK_BYTES = 8 * MIB
LARGEST_IDX = 1024 * MIB
CHUNK_ROWS = 2**16
"""Rows of a chunk of labels: few enough for many workers to write side by side, each whole chunks."""
WANTED = "a zarr array, .npy, .npz:KEY, .csv, .parquet or idx file of labels"
LABEL, ID = ("label", "cluster"), ("id", "row")
"""Names of the columns of labels and of ids in tables of more columns."""
IDX = b"\0\0\x08\x01"
"""How an idx file of one byte a label begins, as MNIST has them."""


def read_labels(path: str | Remote) -> Array:
    """Read one label a row from a file or folder, or from a zarr array at a URL.

    `FILE.npz:KEY` names one array of an .npz, and the OUT of a fit is its `labels.zarr`. A .csv has one column of
    labels, or two (row id, label); its first line is a header if it holds a word found in no other line. Of more
    columns, and in a .parquet, the one called `label` (or `cluster`) holds them.
    """
    path = find_remote(path)
    if isinstance(path, Remote):
        with open_store(path) as node, _name_file(str(path)):
            return _read_array(node, str(path))
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
        if file.suffix in (".parquet", ".pq"):
            return np.array([row[-1] for row in _read_parquet(file)])
        if file.suffix != ".npy" and (data := _read_idx(file)) is not None:
            return data
    raise InputError(f"{path} is something else; {WANTED} is wanted.")


def read_ids(path: str | Remote) -> list[str] | None:
    """Read the row ids of a csv of two columns, or of a table with a column of that name; None for any other file."""
    path = find_remote(path)
    if isinstance(path, Remote):
        return None
    file = Path(path)
    if file.suffix not in (".csv", ".parquet", ".pq") or not file.is_file():
        return None
    with _name_file(path):
        rows = _read_csv(file) if file.suffix == ".csv" else _read_parquet(file)
    return [row[0] for row in rows] if len(rows[0]) == 2 else None


@contextmanager
def _name_file(path: str) -> Iterator[None]:
    """Turn any error into an `InputError`: there are three file formats, and each library has errors of its own."""
    try:
        yield
    except (InputError, StoreFailed):
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read as labels ({type(error).__name__}: {error}).") from error


def _read_zarr(path: Path) -> Array:
    import zarr

    if (path / "run.json").is_file():
        belonging.check_result(path)
        path = path / belonging.LABELS
    found = zarr.open(str(path), mode="r")
    return _read_array(found, str(path))


def _read_array(found: Any, name: str) -> Array:
    if not hasattr(found, "shape"):
        raise InputError(f"{name} is a zarr group; the path of an array of labels is wanted.")
    check_complete(found, name, None)
    labels = np.asarray(found[...])
    check_seal(found, name)
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
    chosen: list[int] | None = None
    width = 0
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file)
        for row in reader:
            if not row:
                continue
            cells = [cell.strip() for cell in row]
            if chosen is None and len(cells) > 2 and not rows:
                chosen = _choose_columns(cells)
                if chosen is not None:
                    width = len(cells)
                    continue
            if chosen is not None:
                if len(cells) != width:
                    raise InputError(
                        f"{path} has {len(cells)} column(s) in line {reader.line_num}, but {width} before it."
                    )
                cells = [cells[place] for place in chosen]
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


def _choose_columns(names: Sequence[str]) -> list[int] | None:
    """Places of ids, if there are any, and of labels, by the names of columns; None where no labels are named."""
    found = [next((names.index(name) for name in known if name in names), None) for known in (ID, LABEL)]
    return None if found[1] is None else [place for place in found if place is not None]


def _read_parquet(path: Path) -> list[list[str]]:
    """Ids, if there are any, and labels of each row."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        names = list(file.schema_arrow.names)
        chosen = [0] if len(names) == 1 else _choose_columns(names)
        if chosen is None:
            raise InputError(f"{path} has no column called label; it has {', '.join(map(repr, names))}.")
        columns = file.read([names[place] for place in chosen]).columns
    return [[str(cell) for cell in row] for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _read_idx(path: Path) -> Array | None:
    """The labels of an idx file, gzipped or not; None for any other file."""
    data = path.read_bytes() if path.stat().st_size < LARGEST_IDX else b""
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if data[:4] != IDX:
        return None
    count = int.from_bytes(data[4:8], "big")
    if len(data) != 8 + count:
        raise InputError(f"{path} is truncated: {count} labels are wanted, and {len(data) - 8} are there.")
    return np.frombuffer(data, np.uint8, offset=8)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def refuse_taken(place: Place) -> None:
    """Refuse to write where something is."""
    if isinstance(place, Remote):
        from dmmc.stores import transfer  # with zarr, which takes a while to import

        transfer.refuse_taken(place)
    elif os.path.lexists(place):
        raise InputError(f"{place} exists; choose another path to write to, or remove it first.")


def write_arrays(wanted: Mapping[Place, Array]) -> None:
    """Write each array as a zarr store of its own; they appear when all of them are whole, or none does."""
    with create_arrays({path: (values.shape, values.dtype.type) for path, values in wanted.items()}) as asides:
        for path, values in wanted.items():
            open_to_write(asides[path])[...] = values


def open_to_write(aside: Path | NewArray) -> Any:
    """Open an array that `create_arrays` created; chunks of zeros are written like others."""
    import zarr

    with zarr.config.set({"array.write_empty_chunks": True}):
        return aside.open() if isinstance(aside, NewArray) else zarr.open_array(str(aside), mode="r+")


@contextmanager
def create_arrays(wanted: Mapping[Place, tuple[tuple[int, ...], type]]) -> Iterator[dict[Place, Path | NewArray]]:
    """Create zarr arrays aside, for whoever can to write; they appear when the block ends, or none does if it fails.

    They have checksums and a seal, and no chunk is left out: what is lost or damaged later is noticed. `wanted` has the
    shape and type of the array at each path; the block is given where each array is until then.
    """
    asides: dict[Place, Path | NewArray] = {}
    with ExitStack() as stack:
        for path, (shape, kind) in wanted.items():
            if isinstance(path, Remote):
                asides[path] = stack.enter_context(write_remote(path, partial(_create, shape=shape, kind=kind)))
            else:
                aside = asides[path] = stack.enter_context(write_folder(path, replace=False))
                _create(str(aside), shape, kind)
        yield asides
        for written in asides.values():
            if isinstance(written, NewArray):
                publish(written)
            else:
                seal(open_to_write(written))


def _create(store: Any, shape: tuple[int, ...], kind: type) -> Any:
    import zarr
    from zarr.codecs import BytesCodec, Crc32cCodec, ZstdCodec

    fit = CHUNK_BYTES // max(1, math.prod(shape[1:]) * np.dtype(kind).itemsize)
    # powers of two, so that whole chunks of scores make a chunk of labels
    rows = min(CHUNK_ROWS, 2 ** max(0, fit.bit_length() - 1))
    return zarr.create_array(
        store,
        shape=shape,
        chunks=(max(1, min(shape[0], rows)), *shape[1:]),
        dtype=kind,
        serializer=BytesCodec(),
        compressors=[ZstdCodec(level=3), Crc32cCodec()],
        config={"write_empty_chunks": True},
    )
