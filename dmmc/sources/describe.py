"""What a source is before it is clustered: files and tables too."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dmmc.convert.formats import is_known
from dmmc.errors import InputError, collect_warnings
from dmmc.info import info
from dmmc.info.check_numbers import Note
from dmmc.sources.frames import is_dask_frame, is_frame
from dmmc.sources.open import SMALL, TableOptions, open_source
from dmmc.sources.paths import find_files
from dmmc.stores.urls import Remote, find_remote


def describe(
    source: Any,
    component: str | None = None,
    n_clusters: int = 10,
    *,
    check: bool = False,
    table: TableOptions | None = None,
    memory: int | str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What `dmmc.info.info` says, of files and tables as well: these are read as a fit would read them.

    Of a table, ``table`` is what would be made of it: ``id``, ``columns`` (kind by name), ``left_out`` (reason by name)
    and ``missing`` (cells by column).
    """
    source = find_remote(source, storage_options)
    if isinstance(source, Remote) and is_known(source.name):
        from dmmc.stores.transfer import download  # with zarr, which takes a while to import

        with tempfile.TemporaryDirectory(prefix="dmmc-") as scratch:
            path = download(source, Path(scratch))
            return describe(path, component, n_clusters, check=check, table=table, memory=memory)
    try:
        files = find_files(source)
    except InputError as error:
        found = _describe_nothing(source, n_clusters, check)
        return {**found, "problems": [str(error)], "refused": True}
    if files is None and not (component is None and (is_frame(source) or is_dask_frame(source))):
        return info(source, component, n_clusters, check=check, memory=memory)
    try:
        with collect_warnings() as told, open_source(source, component, table=table) as opened:
            dataset = opened.load() if opened.name is None else replace(opened.load(), name=opened.name)
    except InputError as error:
        found = _describe_nothing(source, n_clusters, check)
        return {**found, "problems": [str(error)], "refused": True}
    stored = files is not None and files.n_bytes > SMALL  # which are converted
    found = info(dataset, None, n_clusters, check=check, memory=memory, stored=stored)
    if opened.preparation is not None:  # what columns of a table say is told of them, not of the matrix made of them
        found["problems"] = [problem for problem in found["problems"] if not isinstance(problem, Note)]
    found["problems"] += [Note(one.message) for one in told]
    if files is not None:
        count = f"{len(files.paths)} files" if len(files.paths) > 1 else "file"
        found.update(
            name=files.name, kind=f"{files.kind.__name__.removesuffix('File')} {count}", disk_bytes=files.n_bytes
        )
    preparation = opened.preparation
    if preparation is not None:
        found["kind"] = f"table, {found['kind']}"
        found["table"] = {
            "id": preparation.id_,
            "columns": {column.name: column.kind for column in preparation.columns_},
            "left_out": preparation.left_out_,
            "missing": preparation.n_missing_,
        }
    return found


def _describe_nothing(source: Any, n_clusters: int, check: bool) -> dict[str, Any]:
    """What is said of a source that cannot be read."""
    found = info([[0.0]], None, n_clusters, check=False)
    keep = ("n_clusters",)
    found = {name: value if name in keep else None for name, value in found.items()}
    name = Path(source).name if isinstance(source, str | Path) else type(source).__name__
    return {**found, "name": name, "checked": check}
