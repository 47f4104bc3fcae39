"""What a zarr store says of its matrix, and what is wrong with it, by its metadata and the names of its chunks."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.readers.numbers import memory_dtype
from dmmc.data.readers.store_checks import MEMBERS, has_checksums, is_sealed
from dmmc.data.readers.zarr_arrays import check_seals, describe_missing_chunks
from dmmc.data.readers.zarr_nodes import MatrixNode, find_index, find_matrix, read_csr_shape
from dmmc.errors import InputError
from dmmc.info import row_numbers
from dmmc.info.check_numbers import Note, find_zarr_problems

SMALL_CHUNK = 2**16
"""Bytes below which a chunk costs more to find than to read."""


def describe_zarr(found: dict[str, Any], root: Any, store: str, component: str | None, check: bool) -> None:
    """Write what a zarr array or group says of its matrix into `found`, the dict that `info` gives."""
    problems = found["problems"]
    found["zarr_format"] = root.metadata.zarr_format
    if hasattr(root, "shape"):
        found["kind"] = "zarr array"
        _describe_array(found, root)
    try:
        matrix = find_matrix(root, store, component)
    except InputError as error:
        problems.append(str(error))
        return
    if matrix.frame is None:
        found["kind"] = "zarr CSR group" if matrix.is_sparse else "zarr array"
    else:
        found["kind"] = f"AnnData store, X {'CSR' if matrix.is_sparse else 'dense'}"
    found["name"] = matrix.name
    found["image_shape"] = _read_image_shape(matrix.node, problems, matrix.name)
    indices = {axis: None if matrix.frame is None else find_index(matrix.frame, axis) for axis in ("var", "obs")}
    found["feature_names"], found["row_ids"] = (index is not None for index in indices.values())
    if matrix.is_sparse:
        try:
            shape = read_csr_shape(matrix.node, matrix.name)
        except InputError as error:
            problems.append(str(error))
            return
        _describe_array(found, matrix.node["data"])
        found.update(shape=list(shape), sparse=True, nnz=int(math.prod(matrix.node["data"].shape)))
        others, lost = _find_csr_problems(matrix.node, matrix.name, shape)
    else:
        _describe_array(found, matrix.node)
        others = _find_array_problems(matrix.node, matrix.name)
        lost = _find_chunk_problems(matrix.node, matrix.name)
    problems += others + lost
    _describe_protection(found, matrix, [index for index in indices.values() if index is not None])
    for axis, index in indices.items():
        if index is not None:
            name, length = f"{store}/{index.path}", found["shape"][axis == "var"]
            problems += _find_chunk_problems(index, name)
            if index.shape != (length,):
                problems.append(f"{name} holds {math.prod(index.shape)} names for {length} of them.")
    if lost or not has_real_numbers(found):  # a store may be hollow, and say that it is huge
        return
    names = None if indices["var"] is None else tuple(str(name) for name in indices["var"][:])
    if check:
        problems += find_zarr_problems(matrix.node, tuple(found["shape"]), matrix.name, names)
        try:
            check_seals(matrix, component)
        except InputError as error:
            problems.append(str(error))
    if not matrix.is_sparse:
        problems += row_numbers.find_in_zarr(matrix.node, matrix.name, names, check=check)


def measure_remote(root: Any) -> int | None:
    """Bytes of all objects of a store; None where they cannot be listed."""
    from zarr.core.sync import sync

    return sum(sync(root.store.find_sizes()).values()) if root.store.supports_listing else None


def _describe_protection(found: dict[str, Any], matrix: MatrixNode, names: list[Any]) -> None:
    """Whether all arrays that are read have checksums, and whether what is read is what was sealed."""
    parts = [matrix.node[part] for part in MEMBERS["csr_matrix"]] if matrix.is_sparse else [matrix.node]
    found["checksums"] = all(has_checksums(array) for array in (*parts, *names))
    found["sealed"] = is_sealed(matrix.node) and (matrix.frame is None or is_sealed(matrix.frame))


def has_real_numbers(found: dict[str, Any]) -> bool:
    """Whether the dtype that was found is one of real numbers."""
    try:
        memory_dtype(np.dtype(found["dtype"]), found["name"])
    except (InputError, TypeError):
        return False
    return True


def _describe_array(found: dict[str, Any], array: Any) -> None:
    sizes = array.shards or array.chunks
    found.update(
        shape=list(array.shape),
        dtype=str(array.dtype),
        chunks=list(array.chunks),
        shards=None if array.shards is None else list(array.shards),
        n_chunks=math.prod(math.ceil(length / size) for length, size in zip(array.shape, sizes, strict=True)),
        sparse=False,
    )


def _read_image_shape(node: Any, problems: list[str], name: str) -> list[int] | None:
    shape = node.attrs.get("image_shape")
    if shape is None:
        return None
    width = node.attrs.get("shape", [0, 0])[1] if not hasattr(node, "shape") else node.shape[1]
    if not isinstance(shape, list) or not all(isinstance(n, int) for n in shape) or math.prod(shape) != width:
        problems.append(Note(f"{name}: the attribute image_shape is {shape!r}, which does not fit {width} features."))
        return None
    return shape


def _find_array_problems(array: Any, name: str) -> list[str]:
    problems = []
    try:
        memory_dtype(array.dtype, name)
    except InputError as error:
        problems.append(str(error))
    chunk_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    total = math.prod(array.shape) * array.dtype.itemsize
    if chunk_bytes < SMALL_CHUNK and total > 1000 * chunk_bytes:
        told = f"{math.ceil(total / chunk_bytes)} chunks of {chunk_bytes} bytes are slow to read"
        problems.append(Note(f"{name}: {told}: write it again in chunks of 4 to 16 MB."))
    return problems


def _find_chunk_problems(array: Any, name: str, indptr: NDArray[np.int64] | None = None) -> list[str]:
    sentence = describe_missing_chunks(array, name, indptr)
    return [] if sentence is None else [sentence]


def _find_csr_problems(group: Any, name: str, shape: tuple[int, int]) -> tuple[list[str], list[str]]:
    """What is wrong with the arrays of CSR rows, and which of their chunks are missing."""
    problems: list[str] = []
    data, indices, indptr = group["data"], group["indices"], group["indptr"]
    if indptr.shape != (shape[0] + 1,):
        problems.append(f"{name}: indptr of shape {indptr.shape} does not fit {shape[0]} rows.")
    if data.shape != indices.shape or data.ndim != 1:
        problems.append(f"{name}: data of shape {data.shape} and indices of shape {indices.shape} do not fit together.")
    if indices.dtype.kind not in "iu":
        problems.append(f"{name}: indices of dtype {indices.dtype} cannot be column numbers.")
    lost = _find_chunk_problems(indptr, f"{name}/indptr")
    for part, array in (("data", data), ("indices", indices)):
        if _find_chunk_problems(array, f"{name}/{part}"):
            # only now are the beginnings of rows worth reading: to name the rows
            starts = None if lost or problems else np.asarray(indptr[:]).astype(np.int64)
            lost += _find_chunk_problems(array, f"{name}/{part}", starts)
    return problems + _find_array_problems(data, f"{name}/data"), lost
