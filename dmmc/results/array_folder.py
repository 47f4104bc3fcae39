"""A folder with a description and arrays, as models, checkpoints and summaries are kept; reading never runs code.

The description (`KIND.json`, versioned, with a checksum of itself) names its arrays: `.npy` files without pickles, each
with its size and digest. Models, checkpoints and summaries are sealed, too: their content holds a digest of everything
in the folder, so that no part of one can be put into another, nor be changed by whoever can make a checksum.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError
from dmmc.machine import MIB
from dmmc.plain_json import plain
from dmmc.results.atomic_files import sync, write_folder, write_synced

VERSION = 3
SEALED = 3
"""The first version with a seal."""
SEAL = "seal"
"""Where it is in the content."""
LARGEST_DESCRIPTION = 256 * MIB
KINDS = "biufU"  # kinds of numpy dtypes that an array may have: numbers and text
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def write(
    folder: Path,
    kind: str,
    content: Mapping[str, Any],
    arrays: Mapping[str, Array],
    same: Collection[str] = (),
    *,
    sealed: bool = False,
) -> None:
    """Write a description and its arrays as a folder, or replace that folder, in one step.

    Arrays with a name in `same` are taken over from the folder that is replaced. A `sealed` one gets a seal.
    """
    with write_folder(folder) as aside:
        listed = _link_arrays(folder, aside, kind, same)
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            data = buffer.getbuffer()
            write_synced(aside / f"{name}.npy", data)
            listed[name] = {"file": f"{name}.npy", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        description = {"kind": kind, "version": VERSION, "content": plain(content), "arrays": listed}
        if sealed:
            description["content"][SEAL] = make_seal(description)
        description["checksum"] = _checksum(description)
        write_synced(aside / f"{kind}.json", json.dumps(description, indent=1, sort_keys=True).encode())
        sync(aside)


def _link_arrays(folder: Path, aside: Path, kind: str, names: Collection[str]) -> dict[str, Any]:
    """Take over arrays of an older folder without writing them again."""
    if not names:
        return {}
    listed = json.loads((folder / f"{kind}.json").read_bytes())["arrays"]
    for name in names:
        file = f"{name}.npy"
        try:
            os.link(folder / file, aside / file)
        except OSError:  # a file system without hard links
            write_synced(aside / file, (folder / file).read_bytes())
    return {name: listed[name] for name in names}


def make_seal(description: Mapping[str, Any]) -> str:
    """Digest of all that a folder holds: what was asked for, of which data and by which versions, and every array."""
    content = {name: value for name, value in description["content"].items() if name != SEAL}
    digests = {name: entry["sha256"] for name, entry in description["arrays"].items()}
    sealed = {"seal of": description["kind"], "version": description["version"], "content": content, "arrays": digests}
    return _checksum(sealed)


def read(folder: Path, kind: str, *, sealed: bool = False) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write` wrote, or say in one sentence what is wrong with it.

    Where it is to be `sealed`, one without a seal is refused, unless it is older than seals.
    """
    path = folder / f"{kind}.json"
    description = _parse_description(read_file(path, LARGEST_DESCRIPTION), path, kind)
    content, listed = description.get("content"), description.get("arrays")
    if not isinstance(content, dict) or not isinstance(listed, dict):
        raise InputError(f"{path} is damaged: content or arrays are missing.")
    arrays = {name: _read_array(folder, name, entry) for name, entry in listed.items()}
    checked = SEAL in content or (sealed and description["version"] >= SEALED)
    if checked and content.get(SEAL) != make_seal(description):
        raise InputError(f"{path} is damaged: its seal is not that of what it holds, so something was changed.")
    return content, arrays


def _parse_description(text: bytes, path: Path, kind: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_refuse_constant)
        if not isinstance(found, dict) or found.get("kind") != kind:
            raise InputError(f"{path} is not a dmmc {kind}.")
        version = found.get("version")
        if not isinstance(version, int) or version < 1:
            raise InputError(f"{path} is damaged: its version is not a whole number of at least 1.")
        if version > VERSION:
            raise InputError(f"{path} has version {version}; this dmmc reads up to {VERSION}: install a newer one.")
        if found.pop("checksum", None) != _checksum(found):
            raise InputError(f"{path} is damaged: its checksum does not match.")
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON.") from error
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(word)  # NaN and Infinity, which are not JSON


def _read_array(folder: Path, name: str, entry: Any) -> Array:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not _NAME.fullmatch(name) or file != f"{name}.npy":
        raise InputError(f"{folder} names {file!r} as the file of array {name!r}; only files of its own are read.")
    path = folder / file
    size = entry.get("bytes")
    if not isinstance(size, int):
        raise InputError(f"{folder} does not say how large {file} is.")
    data = read_file(path, size)
    if len(data) != size or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise InputError(f"{path} is damaged: it is not the file that was written.")
    try:
        return _parse_array(data)
    except Exception as error:  # numpy lets out whatever its parser meets in a made-up header
        raise InputError(f"{path} is not a plain array.") from error


def _parse_array(data: bytes) -> Array:
    """The array in an .npy file. A header that promises more than is there gets no memory for it."""
    file = io.BytesIO(data)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = header[np.lib.format.read_magic(file)](file)
    if dtype.kind not in KINDS:
        raise ValueError(f"dtype {dtype}")
    flat: Array = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C").copy()  # a copy, as other arrays can be written to


def read_file(path: Path, most: int) -> bytes:
    """Content of a plain file of at most so many bytes, not reached through a link."""
    try:
        if path.is_symlink() or not path.is_file():
            raise InputError(f"{path} is missing, or is not a plain file.")
        if path.stat().st_size > most:
            raise InputError(f"{path} is damaged: it is larger than what was written.")
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory.") from error


def _checksum(description: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()
