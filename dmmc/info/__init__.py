"""What a matrix is before it is clustered: its shape, the memory that a fit needs, and what is wrong with it."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.data.open import open_dataset
from dmmc.data.readers.csr import COLUMNS_OF_INT32
from dmmc.data.readers.numbers import memory_dtype
from dmmc.data.readers.zarr_arrays import missing_chunks
from dmmc.data.readers.zarr_nodes import csr_shape, find_index, find_matrix, opened
from dmmc.errors import InputError
from dmmc.info.memory import FIT_BYTES, Size
from dmmc.info.numbers import problems_of_dataset, problems_of_zarr

__all__ = ["format_info", "info"]

SMALL_CHUNK = 2**16
"""Bytes below which a chunk costs more to find than to read."""


def info(source: Any, component: str | None = None, n_clusters: int = 10, *, check: bool = False) -> dict[str, Any]:
    """Say what a matrix is, how much memory a fit of it needs, and what is wrong with it.

    Of a zarr store only metadata and the names of its chunks are read, unless `check` asks for more.

    Parameters
    ----------
    source : str or Path of a zarr store, or any other source that `dmmc.fit` takes
        The matrix.
    component : str, optional
        Path of the matrix inside the store.
    n_clusters : int
        How many clusters the fit would look for.
    check : bool
        Read all numbers, a few MiB at a time: chunks that cannot be read, NaN and infinity, constant features.

    Returns
    -------
    dict
        - ``name``, ``kind``, ``zarr_format``
        - ``shape``, ``dtype`` (as stored), ``chunks``, ``shards``, ``n_chunks``
        - ``sparse``, ``nnz``, ``density`` (None for dense data)
        - ``memory_bytes``: the data in memory; ``fit_bytes``: for each method, what a fit into ``n_clusters`` clusters
          needs in all, see `dmmc.info.memory`; ``disk_bytes``: the store
        - ``feature_names`` and ``row_ids``: whether there are any; ``image_shape``
        - ``checked``: whether all numbers were read; ``problems``: a list of sentences

        What is not known is None.

    Raises
    ------
    InputError
        If there is nothing at the path. All else that is wrong is among the problems.
    """
    found: dict[str, Any] = dict.fromkeys(
        ("name", "kind", "zarr_format", "shape", "dtype", "chunks", "shards", "n_chunks", "sparse", "nnz", "density")
    )
    found |= dict.fromkeys(("memory_bytes", "fit_bytes", "disk_bytes", "feature_names", "row_ids", "image_shape"))
    found |= {"n_clusters": n_clusters, "checked": check, "problems": []}
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        found["name"] = Path(path).name
        if "://" in path or not os.path.exists(path):
            with opened(path):  # says so
                pass
        found["disk_bytes"] = _disk_bytes(Path(path))
        try:
            with opened(path) as node:
                _describe_zarr(found, node, Path(path).name, component, check)
        except InputError as error:
            found["problems"].append(str(error))
    elif hasattr(source, "store_path"):
        _describe_zarr(found, source, str(source.store_path.store), component, check)
    else:
        _describe_loaded(found, source, component, check)
    _add_memory(found, n_clusters)
    return found


def _disk_bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _add_memory(found: dict[str, Any], n_clusters: int) -> None:
    """Bytes in memory and for a fit, if shape and dtype are known and good."""
    if found["shape"] is None or len(found["shape"]) != 2:
        return
    n_rows, n_features = found["shape"]
    if not _is_readable(found):
        return
    itemsize = memory_dtype(np.dtype(found["dtype"]), found["name"]).itemsize
    if found["nnz"] is not None:
        found["density"] = found["nnz"] / max(1, n_rows * n_features)
        data = found["nnz"] * (itemsize + (4 if n_features <= COLUMNS_OF_INT32 else 8)) + 8 * (n_rows + 1)
    elif found["sparse"]:
        return
    else:
        data = n_rows * n_features * itemsize
    found["memory_bytes"] = data
    size = Size(n_rows, n_features, found["nnz"], data)
    found["fit_bytes"] = {method: needed(size, n_clusters) for method, needed in FIT_BYTES.items()}


# -------------------------------------------------------------------------------------------- sources in memory


def _describe_loaded(found: dict[str, Any], source: Any, component: str | None, check: bool) -> None:
    library = type(source).__module__.partition(".")[0]
    found["kind"] = f"{type(source).__name__} of {library}" if library != "builtins" else type(source).__name__
    try:
        dataset = open_dataset(source, component)
    except InputError as error:
        found["name"] = found["kind"]
        found["problems"].append(str(error))
        return
    found.update(
        name=dataset.name,
        shape=[dataset.n_rows, dataset.n_features],
        dtype=str(dataset.dtype),
        sparse=dataset.is_sparse,
        nnz=dataset.nnz if dataset.is_sparse else None,
        feature_names=dataset.feature_names is not None,
        row_ids=dataset.row_ids is not None,
    )
    if check:
        found["problems"] += problems_of_dataset(dataset)


# --------------------------------------------------------------------------------------------------------- zarr


def _describe_zarr(found: dict[str, Any], root: Any, store: str, component: str | None, check: bool) -> None:
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
    found["image_shape"] = _image_shape(matrix.node, problems, matrix.name)
    indices = {axis: None if matrix.frame is None else find_index(matrix.frame, axis) for axis in ("var", "obs")}
    found["feature_names"], found["row_ids"] = (index is not None for index in indices.values())
    if matrix.is_sparse:
        try:
            shape = csr_shape(matrix.node, matrix.name)
        except InputError as error:
            problems.append(str(error))
            return
        _describe_array(found, matrix.node["data"])
        found.update(shape=list(shape), sparse=True, nnz=int(math.prod(matrix.node["data"].shape)))
        problems += _csr_problems(matrix.node, matrix.name, shape)
    else:
        _describe_array(found, matrix.node)
        problems += _array_problems(matrix.node, matrix.name) + _chunk_problems(matrix.node, matrix.name)
    for axis, index in indices.items():
        if index is not None:
            problems += _index_problems(index, f"{store}/{index.path}", found["shape"][axis == "var"])
    if check and _is_readable(found):
        names = None if indices["var"] is None else tuple(str(name) for name in indices["var"][:])
        problems += problems_of_zarr(matrix.node, tuple(found["shape"]), matrix.name, names)


def _is_readable(found: dict[str, Any]) -> bool:
    """Whether the numbers are of a kind that can be looked at."""
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


def _image_shape(node: Any, problems: list[str], name: str) -> list[int] | None:
    shape = node.attrs.get("image_shape")
    if shape is None:
        return None
    width = node.attrs.get("shape", [0, 0])[1] if not hasattr(node, "shape") else node.shape[1]
    if not isinstance(shape, list) or not all(isinstance(n, int) for n in shape) or math.prod(shape) != width:
        problems.append(f"{name}: the attribute image_shape is {shape!r}, which does not fit {width} features.")
        return None
    return shape


def _array_problems(array: Any, name: str) -> list[str]:
    problems = []
    try:
        memory_dtype(array.dtype, name)
    except InputError as error:
        problems.append(str(error))
    chunk_bytes = math.prod(array.shards or array.chunks) * array.dtype.itemsize
    total = math.prod(array.shape) * array.dtype.itemsize
    if chunk_bytes < SMALL_CHUNK and total > 1000 * chunk_bytes:
        problems.append(
            f"{name}: {math.ceil(total / chunk_bytes)} chunks of {chunk_bytes} bytes are slow to read: write it again "
            "in chunks of 4 to 16 MB."
        )
    return problems


def _chunk_problems(array: Any, name: str, indptr: NDArray[np.int64] | None = None) -> list[str]:
    sentence = missing_chunks(array, name, indptr)
    return [] if sentence is None else [sentence]


def _csr_problems(group: Any, name: str, shape: tuple[int, int]) -> list[str]:
    problems: list[str] = []
    data, indices, indptr = group["data"], group["indices"], group["indptr"]
    if indptr.shape != (shape[0] + 1,):
        problems.append(f"{name}: indptr of shape {indptr.shape} does not fit {shape[0]} rows.")
    if data.shape != indices.shape or data.ndim != 1:
        problems.append(f"{name}: data of shape {data.shape} and indices of shape {indices.shape} do not fit together.")
    if indices.dtype.kind not in "iu":
        problems.append(f"{name}: indices of dtype {indices.dtype} cannot be column numbers.")
    lost = _chunk_problems(indptr, f"{name}/indptr")
    for part, array in (("data", data), ("indices", indices)):
        if _chunk_problems(array, f"{name}/{part}"):
            # only now are the beginnings of rows worth reading: to name the rows
            starts = None if lost or problems else np.asarray(indptr[:]).astype(np.int64)
            lost += _chunk_problems(array, f"{name}/{part}", starts)
    return problems + lost + _array_problems(data, f"{name}/data")


def _index_problems(index: Any, name: str, length: int) -> list[str]:
    problems = _chunk_problems(index, name)
    if index.shape != (length,):
        problems.append(f"{name} holds {math.prod(index.shape)} names for {length} of them.")
    return problems


# --------------------------------------------------------------------------------------------------- for people


def format_info(found: dict[str, Any]) -> str:
    """Lines for people of what `info` found.

    Parameters
    ----------
    found : dict
        From `info`.

    Returns
    -------
    str
    """
    lines = [str(found["name"])]

    def add(label: str, text: str) -> None:
        lines.append(f"  {label:15s} {text}")

    kind = found["kind"] or "unknown"
    add("kind", kind if found["zarr_format"] is None else f"{kind} (zarr version {found['zarr_format']})")
    if found["shape"] is not None:
        sizes = " x ".join(f"{size:,}" for size in found["shape"])
        add("shape", f"{sizes} ({'rows x features' if len(found['shape']) == 2 else 'not rows x features'})")
        add("dtype", found["dtype"])
    if found["chunks"] is not None:
        shards = "" if found["shards"] is None else f" in shards of {_times(found['shards'])}"
        what = "values" if found["sparse"] else "numbers"
        add("chunks", f"{found['n_chunks']:,} of {_times(found['chunks'])} {what}{shards}")
    if found["nnz"] is not None:
        add("stored values", f"{found['nnz']:,} (density {100 * (found['density'] or 0):.3g} %)")
    if found["image_shape"] is not None:
        add("images", _times(found["image_shape"]))
    if found["feature_names"] is not None:
        add("feature names", "yes" if found["feature_names"] else "no")
        add("row ids", "yes" if found["row_ids"] else "no")
    if found["disk_bytes"] is not None:
        add("on disk", _size(found["disk_bytes"]))
    if found["memory_bytes"] is not None:
        add("in memory", _size(found["memory_bytes"]))
    for method, needed in (found["fit_bytes"] or {}).items():
        add(f"fit, {method}", f"about {_size(needed)} for {found['n_clusters']} clusters, all included")
    if found["problems"]:
        lines.append("  problems")
        lines += [f"    - {sentence}" for sentence in found["problems"]]
    else:
        read = "all numbers were read" if found["checked"] else "numbers were not read, ask for a check to do so"
        add("problems", f"none found ({read})")
    return "\n".join(lines)


def _times(sizes: list[int]) -> str:
    return " x ".join(str(size) for size in sizes)


def _size(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} bytes"
