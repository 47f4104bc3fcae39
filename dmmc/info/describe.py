"""`info`: what a matrix is, how much memory a fit of it needs, and what is wrong with it; `format_info`: its lines."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.data.blocks import ONE_BLOCK
from dmmc.data.memory_plan import ROW, plan_memory
from dmmc.data.memory_plan import Size as PlanSize
from dmmc.data.open import open_dataset
from dmmc.data.readers.csr import COLUMNS_OF_INT32
from dmmc.data.readers.numbers import memory_dtype
from dmmc.data.readers.store_checks import name_damage
from dmmc.data.readers.zarr_nodes import open_store
from dmmc.errors import InputError
from dmmc.info import row_numbers
from dmmc.info.check_numbers import Note, find_problems
from dmmc.info.memory import Size, estimate_bytes
from dmmc.info.zarr_store import describe_zarr, has_real_numbers, measure_remote
from dmmc.machine import MIB, count_threads
from dmmc.methods import METHODS
from dmmc.stores.urls import Remote, find_remote

LARGEST_BLOCK = ONE_BLOCK + MIB
LISTED = "are noticed: their names were listed"
UNLISTED = "show only when they are read (a fit fails then, and --check says which): a web server lists no names"
LONGEST = 2**53
"""A side of a matrix is shorter."""


def info(
    source: Any,
    component: str | None = None,
    n_clusters: int = 10,
    *,
    check: bool = False,
    memory: int | str | None = None,
    stored: bool | None = None,
) -> dict[str, Any]:
    """Say what a matrix is, how much memory a fit of it needs, and what is wrong with it.

    Of a zarr store only metadata, the names of its chunks and a few of them (for ids among the features) are read,
    unless `check` asks for more.

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
    memory : str or int, optional
        As of `dmmc.fit`.
    stored : bool, optional
        Whether the rows will be in a store when they are fitted; by default they are if they are in one.

    Returns
    -------
    dict
        - ``name``, ``kind``, ``zarr_format``
        - ``shape``, ``dtype`` (as stored), ``chunks``, ``shards``, ``n_chunks``
        - ``sparse``, ``nnz``, ``density`` (None for dense data)
        - ``memory_bytes``: the data in memory; ``fit_bytes``: for each method, what a fit into ``n_clusters`` clusters
          needs in all, see `dmmc.info.memory`; ``disk_bytes``: the store
        - ``driver_bytes``: what the driver of a cluster holds of all rows at most
        - ``reading``, of rows in a store: what a fit in one process will do with its share of memory: ``in_memory``,
          ``room_bytes`` (for rows and work), ``kept_bytes`` and ``pass_bytes`` (of rows that are kept, and that are
          read again in each pass), or ``refused`` alone
        - ``feature_names`` and ``row_ids``: whether there are any; ``image_shape``
        - ``checksums``: whether damage to a chunk is noticed when it is read; ``sealed``: whether all other changes of
          the store are noticed, too
        - ``listed``: of an object store, whether the names of its chunks can be listed, so that missing ones are
          noticed before any is read
        - ``checked``: whether all numbers were read; ``problems``: a list of sentences; ``refused``: whether a fit
          would refuse the matrix for one of these

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
    found |= dict.fromkeys(("checksums", "sealed", "listed", "driver_bytes", "reading"))
    found |= {"n_clusters": n_clusters, "checked": check, "problems": []}
    source = find_remote(source)
    if isinstance(source, Remote):
        found["name"] = source.name
        with open_store(source) as node:
            found |= {"listed": source.is_listed, "disk_bytes": measure_remote(node)}
            try:
                with name_damage(source.name):
                    describe_zarr(found, node, source.name, component, check)
            except InputError as error:
                found["problems"].append(str(error))
    elif isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        found["name"] = Path(path).name
        if not os.path.exists(path):
            with open_store(path):  # says so
                pass
        files = [Path(path)] if os.path.isfile(path) else Path(path).rglob("*")
        found["disk_bytes"] = sum(file.stat().st_size for file in files if file.is_file())
        try:
            with open_store(path) as node, name_damage(found["name"]):
                describe_zarr(found, node, found["name"], component, check)
        except InputError as error:
            found["problems"].append(str(error))
    elif hasattr(source, "store_path"):
        describe_zarr(found, source, str(source.store_path.store), component, check)
    else:
        _describe_in_memory(found, source, component, check)
    _add_memory(found, n_clusters)
    if stored or (stored is None and found["zarr_format"] is not None):
        _add_reading(found, memory)
    found["refused"] = any(not isinstance(sentence, Note) for sentence in found["problems"])
    return found


def _add_memory(found: dict[str, Any], n_clusters: int) -> None:
    """Bytes in memory and for a fit, if shape and dtype are known and good."""
    if found["shape"] is None or len(found["shape"]) != 2 or not has_real_numbers(found):
        return
    if not all(0 < side < LONGEST for side in found["shape"]):
        return
    n_rows, n_features = found["shape"]
    itemsize = memory_dtype(np.dtype(found["dtype"]), found["name"]).itemsize
    if found["nnz"] is not None:
        found["density"] = found["nnz"] / max(1, n_rows * n_features)
        data = found["nnz"] * (itemsize + (4 if n_features <= COLUMNS_OF_INT32 else 8)) + 8 * (n_rows + 1)
    elif found["sparse"]:
        return
    else:
        data = n_rows * n_features * itemsize
    found["memory_bytes"] = data
    found["driver_bytes"] = ROW * n_rows
    size = Size(n_rows, n_features, found["nnz"], data)
    found["fit_bytes"] = {method: estimate_bytes(method, size, n_clusters) for method in METHODS}


def _add_reading(found: dict[str, Any], memory: int | str | None) -> None:
    """What a fit of rows in a store will do, if their size is known."""
    n_bytes = found["memory_bytes"]
    if n_bytes is None:
        return
    n_rows = found["shape"][0]
    # blocks of a matrix that is worth reading block by block are no larger
    size = PlanSize(found["name"], n_rows, n_bytes, min(n_bytes, max(LARGEST_BLOCK, n_bytes // n_rows)))
    try:
        plan = plan_memory(size, count_threads(None), memory)
    except InputError as error:
        found["reading"] = {"refused": str(error)}
        return
    kept = n_bytes if plan.in_memory else min(plan.kept, n_bytes)
    found["reading"] = {
        "in_memory": plan.in_memory,
        "room_bytes": plan.room,
        "kept_bytes": kept,
        "pass_bytes": n_bytes - kept,
    }


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
    found["problems"] += row_numbers.find_in_dataset(dataset)


KINDS = {"number": "numbers", "boolean": "yes or no", "date": "dates", "category": "categories"}
"""Kinds of columns of a table."""


def format_info(found: dict[str, Any]) -> str:
    """Lines for people of what `info` found."""
    lines = [str(found["name"])]

    def join(sizes: list[int]) -> str:
        return " x ".join(str(size) for size in sizes)

    def add(label: str, text: str) -> None:
        lines.append(f"  {label:15s} {text}")

    kind = found["kind"] or "unknown"
    add("kind", kind if found["zarr_format"] is None else f"{kind} (zarr version {found['zarr_format']})")
    if found["shape"] is not None:
        add("shape", _tell_shape(found["shape"], found.get("table")))
        add("dtype", found["dtype"])
    if found["chunks"] is not None:
        shards = "" if found["shards"] is None else f" in shards of {join(found['shards'])}"
        what = "values" if found["sparse"] else "numbers"
        add("chunks", f"{found['n_chunks']:,} of {join(found['chunks'])} {what}{shards}")
    if found["nnz"] is not None:
        add("stored values", f"{found['nnz']:,} (density {100 * (found['density'] or 0):.3g} %)")
    if found.get("table") is not None:
        add("ids", found["table"]["id"] or "none: rows are numbered")
        kinds = found["table"]["columns"]
        for kind in sorted(set(kinds.values())):
            add(KINDS[kind], ", ".join(name for name in kinds if kinds[name] == kind))
    if found["image_shape"] is not None:
        add("images", join(found["image_shape"]))
    if found["feature_names"] is not None:
        add("feature names", "yes" if found["feature_names"] else "no")
        add("row ids", "yes" if found["row_ids"] else "no")
    if found["checksums"] is not None:
        add("damage", _describe_protection(found["checksums"], found["sealed"]))
    if found["listed"] is not None:
        add("missing chunks", LISTED if found["listed"] else UNLISTED)
    if found["disk_bytes"] is not None:
        add("on disk" if found["listed"] is None else "in the store", _format_bytes(found["disk_bytes"]))
    if found["memory_bytes"] is not None:
        add("in memory", _format_bytes(found["memory_bytes"]))
    if found["reading"] is not None:
        add("one process", _tell_reading(found["reading"]))
    if found["driver_bytes"] is not None:
        add(
            "driver",
            f"at most {_format_bytes(found['driver_bytes'])} for all rows ({ROW} bytes each), on a cluster too",
        )
    if found["problems"]:
        lines.append("  problems" if found["refused"] else "  notes")
        lines += [f"    - {sentence}" for sentence in found["problems"]]
    else:
        read = "all numbers were read" if found["checked"] else "few numbers were read, ask for a check of all"
        add("problems", f"none found ({read})")
    if found["fit_bytes"]:
        lines.append(f"  memory that a fit into {found['n_clusters']} clusters takes, all included")
        lines += [f"    - {line}" for line in _tell_needed(found["fit_bytes"])]
    return "\n".join(lines)


def _tell_shape(shape: list[int], table: dict[str, Any] | None) -> str:
    """Rows and features; of a table, the columns of which these are made."""
    sizes = " x ".join(f"{size:,}" for size in shape)
    if table is None or len(table["columns"]) == shape[-1]:
        return f"{sizes} ({'rows x features' if len(shape) == 2 else 'not rows x features'})"
    count = len(table["columns"])
    return f"{shape[0]:,} rows x {count:,} used column{'s' * (count != 1)} ({shape[1]:,} features)"


def _tell_needed(needed: dict[str, int]) -> list[str]:
    """Bytes that methods need, least first; methods that need about the same in one line."""
    methods: dict[str, list[str]] = {}
    for method in sorted(needed, key=needed.__getitem__):
        methods.setdefault(_format_bytes(needed[method]), []).append(method)
    return [f"about {size}: {', '.join(same)}" for size, same in methods.items()]


def _tell_reading(reading: dict[str, Any]) -> str:
    """What one process will do with rows in a store."""
    if "refused" in reading:
        return str(reading["refused"])
    if reading["in_memory"]:
        return "holds all rows in memory"
    kept = f"keeps {_format_bytes(reading['kept_bytes'])} of the rows" if reading["kept_bytes"] else "keeps no rows"
    again = _format_bytes(reading["pass_bytes"])
    return f"{kept} and reads {again} again in each pass ({_format_bytes(reading['room_bytes'])} for rows and work)"


def _describe_protection(checksums: bool, sealed: bool) -> str:
    """Which damage to a store is noticed."""
    if sealed:
        return "is noticed: chunks have checksums, and a seal covers the rest"
    if checksums:
        return "to chunks is noticed, as they have checksums; to the metadata it may not be"
    return "may not be noticed: this store has no checksums (stores that dmmc convert writes have)"


def _format_bytes(n_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.3g} {unit}"
    return f"{n_bytes} bytes"
