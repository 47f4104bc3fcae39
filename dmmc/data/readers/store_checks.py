"""What lets damage to a zarr store be noticed: checksums in its chunks, and the seal of stores that dmmc has written.

A seal is a digest of all that is read of a matrix: its metadata, the attributes that say what it is, and the checksums
at the end of its chunks. It is an attribute of the matrix, and of the AnnData group with the names of rows and columns.
"""

import asyncio
import hashlib
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

from dmmc.errors import InputError, OutOfTime, StoreFailed

SEAL = "dmmc-seal"
CELLS = "cells"
"""Attribute of a matrix that comes from AnnData."""
ATTRIBUTES = ("encoding-type", "shape", "image_shape", CELLS, "_index", "dmmc-made-up-index")
"""Those that are read."""
MEMBERS = {"csr_matrix": ("data", "indices", "indptr"), "anndata": ("obs", "var"), "dataframe": ("_index",)}
"""Of a group by its encoding: what its seal covers. The X of an AnnData group has a seal of its own."""
CHECKED = {"crc32c", "crc32", "adler32", "fletcher32", "jenkins_lookup3", "gzip", "zlib", "bz2"}
"""Codecs that compare a checksum when they decode; zstd does where it was asked to."""
TAIL = 4
"""Bytes of a checksum at the end of a chunk."""
AT_ONCE = 64
"""Chunks whose ends are read at the same time."""


def refuse_odd_files(path: str) -> None:
    """Refuse a store that is, or holds, something else than files and folders: a pipe would be waited for."""
    for found in (path, *_list_entries(path)):
        if not (os.path.isfile(found) or os.path.isdir(found)):
            raise InputError(f"{found} is neither a file nor a folder, and cannot be part of a store.")


def _list_entries(path: str) -> Iterator[str]:
    """What is below a folder, but for the files, of which nothing need be asked."""
    folders = [path] if os.path.isdir(path) else []
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    yield entry.path


@contextmanager
def name_damage(name: str) -> Iterator[None]:
    """Say in a sentence what is wrong with the metadata of a store: zarr raises whatever its parsers meet in them."""
    try:
        yield
    except (InputError, OutOfTime, StoreFailed):
        raise
    except Exception as error:
        raise InputError(f"{name} is damaged, or of a kind that zarr cannot read ({show_error(error)}).") from error


def show_error(error: Exception) -> str:
    """What another library says is wrong, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}".removesuffix(".")


def has_checksums(array: Any) -> bool:
    """Whether damage to a chunk of an array is noticed when it is read."""
    metadata = array.metadata
    if metadata.zarr_format == 2:
        codecs = [codec.get_config() for codec in (*(metadata.filters or ()), metadata.compressor) if codec is not None]
        return any(_is_checked(str(codec["id"]), codec) for codec in codecs)
    return _has_checked([codec.to_dict() for codec in metadata.codecs])


def _has_checked(codecs: list[Any]) -> bool:
    for codec in codecs:
        settings = codec.get("configuration", {})
        if codec["name"] == "sharding_indexed":
            return _has_checked(settings["codecs"])
        if _is_checked(codec["name"].removeprefix("numcodecs."), settings):
            return True
    return False


def _is_checked(name: str, settings: dict[str, Any]) -> bool:
    return name in CHECKED or (name == "zstd" and bool(settings.get("checksum")))


def seal(node: Any, *, framed: bool = False) -> None:
    """Seal an array or group whose chunks all end in a checksum; `framed`, if it is the X of an AnnData group."""
    node.attrs[SEAL] = {"sha256": _digest(node), "framed": framed}


def is_sealed(node: Any) -> bool:
    """Whether an array or group has a seal."""
    return node.attrs.get(SEAL) is not None


def check_seal(node: Any, name: str, *, alone: bool = False) -> None:
    """Refuse an array or group that is not what was sealed.

    alone : whether it was found in a group that is not said to be an AnnData group
    """
    found = node.attrs.get(SEAL)
    if found is None:
        return
    whole = isinstance(found, dict) and found.get("sha256") == _digest(node)
    if not whole or (alone and found.get("framed")):
        raise InputError(
            f"{name} is not what dmmc wrote: its metadata or its chunks were changed. Restore it or write it again; if "
            f"the change was meant, remove the attribute {SEAL!r} from its zarr.json."
        )


def _digest(node: Any) -> str:
    try:
        told = json.dumps(_describe(node), sort_keys=True, default=str)
    except (KeyError, TypeError, ValueError):  # a member is missing, or is none
        return ""
    return hashlib.sha256(told.encode()).hexdigest()


def _describe(node: Any) -> dict[str, Any]:
    """All that a seal covers of an array or group."""
    attributes = {name: node.attrs[name] for name in ATTRIBUTES if name in node.attrs}
    if hasattr(node, "shape"):
        return {"attributes": attributes, "metadata": _read_metadata(node), "chunks": _digest_chunks(node)}
    members = MEMBERS[str(attributes.get("encoding-type"))]
    return {"attributes": attributes, "members": {name: _describe(node[name]) for name in members}}


def _read_metadata(array: Any) -> dict[str, Any]:
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    found = sync((array.store_path / "zarr.json").get(default_buffer_prototype()))
    told = json.loads(found.to_bytes())
    return {name: value for name, value in told.items() if name != "attributes"}


def _digest_chunks(array: Any) -> str:
    """Of the ends of all chunks, in their order."""
    from zarr.abc.store import SuffixByteRequest
    from zarr.core.buffer import default_buffer_prototype
    from zarr.core.sync import sync

    grid = (range(math.ceil(length / size)) for length, size in zip(array.shape, array.chunks, strict=True))
    keys = (array.metadata.encode_chunk_key(at) for at in product(*grid))
    digest = hashlib.sha256()

    async def read(some: list[str]) -> list[bytes]:
        request, prototype = SuffixByteRequest(TAIL), default_buffer_prototype()
        found = await asyncio.gather(*((array.store_path / key).get(prototype, request) for key in some))
        return [b"none" if end is None else end.to_bytes() for end in found]

    while some := list(islice(keys, AT_ONCE)):
        for end in sync(read(some)):
            digest.update(end)
    return digest.hexdigest()
