"""Zarr arrays, read completely; a missing chunk is an error, not zeros."""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Csr
from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.csr import COLUMNS_OF_INT32, check_indptr, check_lengths, narrow_columns, sort_rows
from dmmc.data.readers.numbers import as_numbers, memory_dtype, name_rows
from dmmc.data.readers.store_checks import CELLS, check_seal, is_sealed, name_damage, show_error
from dmmc.data.readers.zarr_nodes import MatrixNode, find_index, find_matrix, read_csr_shape
from dmmc.errors import InputError, StoreFailed
from dmmc.machine import MIB, count_threads
from dmmc.time_limit import NO_LIMIT, TimeLimit

PAUSES = (0.2, 1.0)
"""Seconds before a read that failed is tried again: a store may be busy, or a file system come back."""
READ_BYTES = 4 * MIB
"""A thread reads about this much of a zarr array at a time, and at least one chunk of rows."""
REMOTE_BYTES = 16 * MIB
"""The same of an object store, which gives several chunks sooner than one after the other."""


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
    """Read names of columns and rows (of an AnnData group) and the shape of images; what there is not is left out.

    AnnData holds cells, but for the groups that dmmc writes around any matrix with names: these have an attribute.
    """
    names: dict[str, Any] = {}
    shape = found.node.attrs.get("image_shape")
    if isinstance(shape, list) and 2 <= len(shape) <= 3 and all(isinstance(side, int) and side > 0 for side in shape):
        names["image_shape"] = tuple(shape)
    if found.node.attrs.get(CELLS) is True or (found.frame is not None and not is_sealed(found.frame)):
        names["cells"] = True
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
    on_disk = not is_remote(array)
    # whole chunks, as zarr decodes a chunk each time a part of it is asked for
    chunk_bytes = array.chunks[0] * whole[0].nbytes
    step = array.chunks[0] * max(1, (READ_BYTES if on_disk else REMOTE_BYTES) // chunk_bytes)

    def read(start: int) -> None:
        stop = min(start + step, len(whole))
        limit.check(f"{name} was being read")
        # of a store on disk, all chunks were there a moment ago
        part = read_span(array, start, stop, name, lambda: name_rows(*find_rows(start, stop, indptr)), once=on_disk)
        whole[start:stop] = convert(part, start) if convert else as_numbers(part, name)

    with ThreadPoolExecutor(count_threads(n_jobs)) as pool:
        for _ in pool.map(read, range(0, len(whole), step)):
            pass
    return whole


def is_remote(node: Any) -> bool:
    """Whether an array or group is in an object store that was opened by its URL."""
    from dmmc.stores.object_store import ObjectStore  # with zarr, which takes a while to import

    return isinstance(node.store, ObjectStore)


@contextmanager
def many_at_once(node: Any) -> Iterator[None]:
    """Let zarr ask for many chunks at once, if they come from an object store."""
    from dmmc.stores.object_store import read_many_at_once

    with read_many_at_once(node.store):
        yield


def read_span(
    array: Any, start: int, stop: int, name: str, tell_rows: Callable[[], str], *, once: bool = False
) -> NDArray[Any]:
    """Read whole chunks of an array, entries start to stop; what fails is tried again, unless `once`.

    `tell_rows` says which rows of the matrix they are, for messages. A chunk that is missing is an error, not zeros.
    """
    for pause in (None,) if once else (*PAUSES, None):
        try:
            with many_at_once(array):
                part = np.asarray(array[start:stop])
            absent = None if once else find_absent_chunk(array, part, start)
            if absent is not None:
                raise FileNotFoundError(f"{absent} is missing")
            return part
        except StoreFailed as error:  # it was tried often enough
            raise unreadable_chunk(name, tell_rows(), error) from None
        except Exception as error:
            if pause is None:
                if is_remote(array):
                    raise _find_damage(array, start, stop, name, tell_rows(), error) from None
                raise unreadable_chunk(name, tell_rows(), error) from error
            time.sleep(pause)
    raise AssertionError


def _find_damage(array: Any, start: int, stop: int, name: str, rows: str, error: Exception) -> StoreFailed:
    """What to raise for chunks of an object store that cannot be decoded: the first of them is named."""
    sizes = array.shards or array.chunks
    spans = [(start, stop), *((0, length) for length in array.shape[1:])]
    for place in product(*(range(a // size, -(-b // size)) for (a, b), size in zip(spans, sizes, strict=True))):
        try:
            array[tuple(slice(i * size, (i + 1) * size) for i, size in zip(place, sizes, strict=True))]
        except Exception as found:
            key = f"{array.path}/{array.metadata.encode_chunk_key(place)}".lstrip("/")
            said = f"{array.store.place}/{key} came damaged each time ({show_error(found)}): restore it from a copy."
            return StoreFailed(f"{name}: {rows} could not be read: {said}")
    return StoreFailed(f"{name}: {rows} came damaged several times ({show_error(error)}).")


def unreadable_chunk(name: str, rows: str, error: Exception) -> InputError | StoreFailed:
    """What to raise for a chunk that zarr cannot read."""
    if isinstance(error, StoreFailed):
        return StoreFailed(f"{name}: {rows} could not be read: {error}")
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
        raise (StoreFailed if is_remote(array) else InputError)(sentence)


def describe_missing_chunks(array: Any, name: str, indptr: NDArray[np.int64] | None = None) -> str | None:
    """Say in a sentence which chunks are missing in the store; None if none is. `indptr` as in `read_all`.

    Of a store that cannot be listed nothing is known: a chunk that is missing is an error when it is read.
    """
    if not array.store.supports_listing:
        return None
    # a shard is one object in the store, whatever the chunks in it
    sizes = array.shards or array.chunks
    grid = [math.ceil(length / size) for length, size in zip(array.shape, sizes, strict=True)]
    stored = _list_keys(array) - {"zarr.json", ".zarray", ".zattrs", ".zmetadata"}
    if array.shards:  # zarr takes an empty one for one without chunks
        stored = _drop_empty(array, stored)
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

    if is_remote(array):  # that is an error there
        return None
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


def _drop_empty(array: Any, keys: set[str]) -> set[str]:
    """The keys of objects that hold something."""
    from zarr.core.sync import sync

    if is_remote(array):
        within = f"{array.path}/" if array.path else ""
        sizes = sync(array.store.find_sizes(within))
        return {key for key in keys if sizes.get(within + key)}
    return {key for key in keys if sync(array.store.getsize((array.store_path / key).path))}


def _list_keys(array: Any) -> set[str]:
    """Keys of what the store has of an array, relative to the array."""
    # nchunks_initialized would not do: it miscounts shards at the edge, and is quadratic in their number
    from zarr.core.sync import sync

    within = f"{array.path}/" if array.path else ""

    async def keys() -> set[str]:
        return {key.removeprefix(within) async for key in array.store.list_prefix(within)}

    return sync(keys())
