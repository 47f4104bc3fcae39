"""`info`: what a matrix is, how much memory a fit of it needs, and what is wrong with it."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.data.open import open_dataset
from dmmc.data.readers.csr import COLUMNS_OF_INT32
from dmmc.data.readers.numbers import memory_dtype
from dmmc.data.readers.zarr_nodes import open_store
from dmmc.errors import InputError
from dmmc.info.check_numbers import find_problems
from dmmc.info.memory import Size, estimate_bytes
from dmmc.info.zarr_store import describe_zarr, has_real_numbers
from dmmc.methods import METHODS


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
            with open_store(path):  # says so
                pass
        found["disk_bytes"] = _count_disk_bytes(Path(path))
        try:
            with open_store(path) as node:
                describe_zarr(found, node, Path(path).name, component, check)
        except InputError as error:
            found["problems"].append(str(error))
    elif hasattr(source, "store_path"):
        describe_zarr(found, source, str(source.store_path.store), component, check)
    else:
        _describe_in_memory(found, source, component, check)
    _add_memory(found, n_clusters)
    return found


def _count_disk_bytes(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _add_memory(found: dict[str, Any], n_clusters: int) -> None:
    """Bytes in memory and for a fit, if shape and dtype are known and good."""
    if found["shape"] is None or len(found["shape"]) != 2:
        return
    n_rows, n_features = found["shape"]
    if not has_real_numbers(found):
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
    found["fit_bytes"] = {method: estimate_bytes(method, size, n_clusters) for method in METHODS if method != "auto"}


def _describe_in_memory(found: dict[str, Any], source: Any, component: str | None, check: bool) -> None:
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
        found["problems"] += find_problems(dataset)
