"""Zarr arrays, read completely; a missing chunk is an error, not zeros."""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.csr import COLUMNS_OF_INT32, check_indptr, check_lengths, narrow_columns, sort_rows
from dmmc.data.readers.numbers import as_numbers, memory_dtype, name_rows
from dmmc.data.readers.store_checks import check_seal, name_damage, show_error
from dmmc.data.readers.zarr_nodes import MatrixNode, find_index, find_matrix, read_csr_shape
from dmmc.errors import InputError
from dmmc.machine import MIB, count_threads
from dmmc.time_limit import NO_LIMIT, TimeLimit

READ_BYTES = 4 * MIB
"""A thread reads about this much of a zarr array at a time, and at least one chunk of rows."""


def load_zarr(
    node: Any, store: str, component: str | None, n_jobs: int | None, limit: TimeLimit = NO_LIMIT
) -> LoadedMatrix:
    """Read a zarr array, a group of CSR arrays, or the one matrix that a group holds."""
    with name_damage(store):
        found = find_matrix(node, store, component)
        read = read_csr if found.is_sparse else read_all
        rows = read(found.node, found.name, n_jobs, limit=limit)
        matrix = LoadedMatrix(found.name, rows, **read_names(found, store))
        check_seals(found, component)
        return matrix


def check_seals(found: MatrixNode, component: str | None) -> None:
    """Refuse a matrix that was changed since dmmc wrote it, or the names around it; last, as chunks say more."""
    check_seal(found.node, found.name, alone=component is None and found.frame is None and bool(found.node.path))
    if found.frame is not None:
        check_seal(found.frame, found.name.removesuffix("/X"))


def read_names(found: MatrixNode, store: str) -> dict[str, Any]:
    """Read names of columns and rows (of an AnnData group) and the shape of images; what there is not is left out."""
    names: dict[str, Any] = {}
    shape = found.node.attrs.get("image_shape")
    if isinstance(shape, list) and 2 <= len(shape) <= 3 and all(isinstance(side, int) and side > 0 for side in shape):
        names["image_shape"] = tuple(shape)
    if found.frame is not None:
        columns = _read_index(found.frame, "var", store)
        names["feature_names"] = None if columns is None else tuple(columns.tolist())
        names["row_ids"] = _read_index(found.frame, "obs", store)
    return names


def _read_index(group: Any, axis: str, store: str) -> NDArray[Any] | None:
    column = find_index(group, axis)
    if column is None:
        return None
    name = f"{store}/{column.path}"
    if column.ndim != 1:
        raise InputError(f"{name} has {column.ndim} axes: one name after the other is wanted.")
    check_complete(column, name, None)
    return np.array(column[:].tolist(), dtype=str)


def read_csr(group: Any, name: str, n_jobs: int | None, *, limit: TimeLimit = NO_LIMIT) -> Csr:
    """Read a whole group of CSR arrays."""
    n_rows, n_features = read_csr_shape(group, name)
    indptr = check_indptr(read_all(group["indptr"], f"{name}/indptr", n_jobs), n_rows, name)

    def as_columns(part: NDArray[Any], start: int) -> NDArray[Any]:
        return narrow_columns(part, n_features, indptr, start, name)

    index_dtype = np.dtype(np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64)
    data = read_all(group["data"], f"{name}/data", n_jobs, indptr=indptr, limit=limit)
    indices = read_all(
        group["indices"], f"{name}/indices", n_jobs, indptr=indptr, dtype=index_dtype, convert=as_columns, limit=limit
    )
    return sort_rows(check_lengths(Csr(data, indices, indptr, n_features), name))


def read_all(
    array: Any,
    name: str,
    n_jobs: int | None,
    *,
    indptr: NDArray[np.int64] | None = None,
    dtype: np.dtype[Any] | None = None,
    convert: Callable[[NDArray[Any], int], NDArray[Any]] | None = None,
    limit: TimeLimit = NO_LIMIT,
) -> NDArray[Any]:
    """Read a zarr array of any number of dimensions completely, some chunks at a time on several threads.

    Where its entries are values of CSR rows, `indptr` says to which row each belongs. `convert` turns a part and the
    number of its first entry into what is kept, in `dtype`; by default `as_numbers` and `memory_dtype`. `OutOfTime` is
    raised when the time is up before the last chunk is begun.
    """
    check_complete(array, name, indptr)
    whole = np.empty(array.shape, dtype or memory_dtype(array.dtype, name))
    if whole.size == 0:
        return whole
    # whole chunks, as zarr decodes a chunk each time a part of it is asked for
    chunk_bytes = array.chunks[0] * whole[0].nbytes
    step = array.chunks[0] * max(1, READ_BYTES // chunk_bytes)

    def read(start: int) -> None:
        stop = min(start + step, len(whole))
        limit.check(f"{name} was being read")
        try:
            part = np.asarray(array[start:stop])
        except Exception as error:
            raise unreadable_chunk(name, name_rows(*find_rows(start, stop, indptr)), error) from error
        whole[start:stop] = convert(part, start) if convert else as_numbers(part, name)

    with ThreadPoolExecutor(count_threads(n_jobs)) as pool:
        for _ in pool.map(read, range(0, len(whole), step)):
            pass
    return whole


def unreadable_chunk(name: str, rows: str, error: Exception) -> InputError:
    """What to raise for a chunk that zarr cannot read."""
    return InputError(
        f"{name}: a chunk of {rows} could not be read, it is truncated, corrupt or unreadable "
        f"({show_error(error)}): restore it from a copy."
    )


def find_rows(start: int, stop: int, indptr: NDArray[np.int64] | None) -> tuple[int, int]:
    """Rows that the entries start to stop of an array belong to."""
    if indptr is None:
        return start, stop
    first = int(np.searchsorted(indptr, start, side="right")) - 1
    return first, max(first + 1, int(np.searchsorted(indptr, stop)))


def check_complete(array: Any, name: str, indptr: NDArray[np.int64] | None) -> None:
    """Refuse an array with a missing chunk, which zarr would read as zeros."""
    sentence = describe_missing_chunks(array, name, indptr)
    if sentence is not None:
        raise InputError(sentence)


def describe_missing_chunks(array: Any, name: str, indptr: NDArray[np.int64] | None = None) -> str | None:
    """Say in a sentence which chunks are missing in the store; None if none is. `indptr` as in `read_all`."""
    # a shard is one object in the store, whatever the chunks in it
    sizes = array.shards or array.chunks
    grid = [math.ceil(length / size) for length, size in zip(array.shape, sizes, strict=True)]
    stored = _list_keys(array) - {"zarr.json", ".zarray", ".zattrs", ".zmetadata"}
    if array.shards:  # zarr takes an empty one for one without chunks
        stored = {key for key in stored if _find_size(array, key)}
    keys = ((array.metadata.encode_chunk_key(at), at[0] * sizes[0]) for at in product(*(range(n) for n in grid)))
    # a few are named: the grid of a hollow store may be too large to walk
    missing = list(islice(((key, start) for key, start in keys if key not in stored), 3))
    if not missing:
        return None
    listed = [
        f"{key} ({name_rows(*find_rows(start, min(start + sizes[0], array.shape[0]), indptr))})"
        for key, start in missing
    ]
    absent = max(math.prod(grid) - len(stored), len(missing))
    more = f" and {absent - 3} more" if absent > 3 else ""
    return (
        f"{name}: {absent} of {math.prod(grid)} chunks are missing, {', '.join(listed)}{more}, "
        "and zarr would read them as zeros: restore them, or if they are zeros write the store with "
        "write_empty_chunks=True."
    )


def find_absent_chunk(array: Any, part: NDArray[Any], first: int) -> str | None:
    """Key of a chunk that was deleted since the store was opened; None if all are there.

    `part` is what zarr gave for some whole chunks, `first` the number of its first entry. Only a chunk that is nothing
    but the fill value can be absent.
    """
    from zarr.core.sync import sync

    sizes = array.shards or array.chunks
    spans = [(first, first + len(part)), *((0, length) for length in array.shape[1:])]
    fill = 0 if array.fill_value is None else array.fill_value
    for place in product(*(range(a // size, -(-b // size)) for (a, b), size in zip(spans, sizes, strict=True))):
        cut = tuple(
            slice(max(i * size - a, 0), (i + 1) * size - a) for i, (a, _), size in zip(place, spans, sizes, strict=True)
        )
        if (part[cut][:1] == fill).all() and (part[cut] == fill).all():
            key = array.metadata.encode_chunk_key(place)
            if not sync((array.store_path / key).exists()):
                return str(key)
    return None


def _find_size(array: Any, key: str) -> int:
    from zarr.core.sync import sync

    path = (array.store_path / key).path
    return int(sync(array.store.getsize(path)))


def _list_keys(array: Any) -> set[str]:
    """Keys of what the store has of an array, relative to the array."""
    # nchunks_initialized would not do: it miscounts shards at the edge, and is quadratic in their number
    from zarr.core.sync import sync

    within = f"{array.path}/" if array.path else ""

    async def keys() -> set[str]:
        return {key.removeprefix(within) async for key in array.store.list_prefix(within)}

    return sync(keys())
