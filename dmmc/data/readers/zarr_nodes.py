"""Zarr stores: which matrix is meant, and what it is, before any of it is read."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from dmmc.data.readers.numbers import check_shape
from dmmc.data.readers.store_checks import refuse_odd_files
from dmmc.errors import InputError, StoreFailed
from dmmc.stores.urls import Remote, find_remote

MADE_UP = "dmmc-made-up-index"
"""Attribute of an obs or var whose index `dmmc convert` made up, as AnnData wants one: it names nothing."""


def name_store(source: Any) -> str:
    """The name of a store in messages."""
    found = find_remote(source)
    return found.name if isinstance(found, Remote) else Path(source).name


@contextmanager
def open_store(source: str | Remote) -> Iterator[Any]:
    """Open a zarr store: its root, an array or a group.

    source : on disk, the path of a directory or a .zip file; else the URL of an object store
    """
    found = find_remote(source)
    if isinstance(found, Remote):
        yield _open_remote(found)
        return
    path: str = found
    if not os.path.exists(path):
        folder, name = os.path.split(path)
        near = get_close_matches(name, os.listdir(folder or ".") if os.path.isdir(folder or ".") else [], 1)
        hint = f"did you mean {os.path.join(folder, near[0])!r}? The" if near else "the"
        raise InputError(f"{path!r} does not exist: {hint} path of a zarr store or of a file is wanted.")
    refuse_odd_files(path)
    import zarr

    with ExitStack() as stack:
        try:
            if zipfile.is_zipfile(path):
                zipfile.ZipFile(path).close()  # zarr does not say what is wrong with one that it cannot open
                store: Any = stack.enter_context(zarr.storage.ZipStore(path, mode="r"))
            else:
                store = path
            node = zarr.open(store, mode="r")
        except Exception as error:
            raise InputError(
                f"{path!r} is not a zarr store that can be opened ({type(error).__name__}): give one, "
                "or write one from a file of another kind with `dmmc convert`."
            ) from error
        yield node


def _open_remote(place: Remote) -> Any:
    """The root of a zarr store in an object store."""
    import zarr

    from dmmc.stores.object_store import ObjectStore, refuse

    store = ObjectStore(place)
    try:
        return zarr.open(store, mode="r")
    except (InputError, StoreFailed):
        raise
    except Exception as error:
        if store.refused is not None:
            raise refuse(place, store.refused) from None
        if isinstance(error, FileNotFoundError):
            raise InputError(f"there is no zarr store at {place}: no zarr.json, .zarray or .zgroup is there.") from None
        raise InputError(f"{place} is not a zarr store that can be opened ({type(error).__name__}).") from None


class MatrixNode(NamedTuple):
    """The node of a zarr store that is the matrix: a 2-D array, or a group of CSR arrays (`is_sparse`)."""

    name: str
    """For messages."""
    node: Any
    is_sparse: bool
    frame: Any = None
    """The AnnData group whose X it is."""


def find_matrix(node: Any, store: str, component: str | None) -> MatrixNode:
    """Find the matrix below the root of a zarr store called `store`, or say why none can be read."""
    if component is not None:
        if hasattr(node, "shape"):
            raise InputError(f"{store} is a single array, so there is no component={component!r} in it.")
        try:
            node = node[component]
        except (KeyError, ValueError) as error:
            raise InputError(f"{store} has no {component!r}: {_list_candidates(node)}.") from error
    kind = _find_kind(node)
    if kind == "group":
        found = list(_list_matrices(node))
        if len(found) != 1:
            raise InputError(f"{store} does not say which matrix is meant: {_list_candidates(node)}.")
        node, kind = found[0], _find_kind(found[0])
    name = f"{store}/{node.path}" if node.path else store
    if kind == "anndata":
        if "X" not in node:
            raise InputError(f"{store} is an AnnData store without X: {_list_candidates(node)}.")
        return find_matrix(node["X"], store, None)._replace(frame=node)
    if kind == "csc_matrix":
        raise InputError(f"{name} is stored by columns (csc_matrix): convert it with tocsr() and write it again.")
    if kind == "array":
        check_shape(node.shape, f"{name} of shape {node.shape}")
    return MatrixNode(name, node, is_sparse=kind == "csr_matrix")


def _find_kind(node: Any) -> str:
    """Tell what a node is to us: "array", "csr_matrix", "csc_matrix", "anndata" or just a "group"."""
    if hasattr(node, "shape"):
        return "array"
    encoding = node.attrs.get("encoding-type")
    return encoding if encoding in ("csr_matrix", "csc_matrix", "anndata") else "group"


def _list_candidates(group: Any) -> str:
    within = f"{group.path}/" if group.path else ""
    paths = sorted(repr(node.path.removeprefix(within)) for node in _list_matrices(group))
    if not paths:
        return "it holds no 2-D array and no CSR group"
    return f"choose with component= one of {', '.join(paths)}"


def _list_matrices(group: Any) -> Iterator[Any]:
    """All nodes below a group that could be meant."""
    if not group.store.supports_listing and group.metadata.consolidated_metadata is None:
        raise InputError(
            f"{group.store.place}/{group.path} is a group, and neither can a web server list what is in it nor has it "
            "consolidated metadata (zarr.consolidate_metadata): say which matrix is meant with component=."
        )
    for _, node in sorted(group.members()):
        kind = _find_kind(node)
        if kind == "group":
            yield from _list_matrices(node)
        elif kind != "array" or len(node.shape) == 2:
            yield node


def find_index(group: Any, axis: str) -> Any | None:
    """The array with the names of rows ("obs") or columns ("var") of an AnnData store, if it has them."""
    frame = group.get(axis)
    if frame is None or _find_kind(frame) == "array" or frame.attrs.get(MADE_UP):
        return None
    column = frame.get(frame.attrs.get("_index", "_index"))
    return None if column is None or _find_kind(column) != "array" else column


def read_csr_shape(group: Any, name: str) -> tuple[int, int]:
    """Shape of a CSR group that has all its parts."""
    lacking = [part for part in ("data", "indices", "indptr") if not hasattr(group.get(part), "ndim")]
    shape = group.attrs.get("shape")
    if lacking or not isinstance(shape, list) or len(shape) != 2:
        lacks = ", ".join(lacking) or "the attribute shape of two numbers"
        raise InputError(f"{name} says it is a csr_matrix but lacks {lacks}.")
    n_rows, n_features = (int(size) for size in shape)
    check_shape((n_rows, n_features), name)
    return n_rows, n_features
