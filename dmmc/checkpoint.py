"""Versioned files that are the old ones or the new ones, never half of one, and that never run code when read.

A description (JSON with a checksum of itself) names its arrays: plain `.npy` files without pickles, each with its
size and digest. Folders are written aside and renamed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import InputError

Array = NDArray[Any]

VERSION = 1
LARGEST_DESCRIPTION = 64 * 2**20
_FILE = re.compile(r"[a-z][a-z0-9_]*\.npy")


def write(folder: Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a description and its arrays as a new folder; an older one in its place is replaced at the very end."""
    aside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        listed = {}
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            data = buffer.getvalue()
            write_bytes(aside / f"{name}.npy", data)
            listed[name] = {"file": f"{name}.npy", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        description = {"kind": kind, "version": VERSION, "content": dict(content), "arrays": listed}
        description["checksum"] = _checksum(description)
        write_bytes(aside / f"{kind}.json", json.dumps(description, indent=1, sort_keys=True).encode())
        swap(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def read(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write` wrote, or say in one sentence what is wrong with it."""
    path = folder / f"{kind}.json"
    try:
        if path.stat().st_size > LARGEST_DESCRIPTION:
            raise InputError(f"{path} is larger than any {kind} description; it was not written by dmmc.")
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{folder} holds no {kind} that can be read: {path.name}: {error.strerror}.") from error
    try:
        description = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: it is not JSON.") from error
    if not isinstance(description, dict) or description.get("kind") != kind:
        raise InputError(f"{path} is not a dmmc {kind}.")
    version = description.get("version")
    if not isinstance(version, int) or version < 1:
        raise InputError(f"{path} is damaged: its version is {version!r}.")
    if version > VERSION:
        raise InputError(f"{path} has version {version}; this dmmc reads up to {VERSION}: install a newer one.")
    if description.pop("checksum", None) != _checksum(description):
        raise InputError(f"{path} is damaged: its checksum does not match.")
    listed = description["arrays"]
    return description["content"], {name: _read_array(folder, name, listed[name]) for name in listed}


def _read_array(folder: Path, name: str, entry: Mapping[str, Any]) -> Array:
    file = entry["file"]
    if not isinstance(file, str) or not _FILE.fullmatch(file):
        raise InputError(f"{folder} names {file!r} as the file of array {name!r}; only files of its own are read.")
    path = folder / file
    try:
        if path.is_symlink() or path.stat().st_size != entry["bytes"]:
            raise InputError(f"{path} is damaged: {entry['bytes']} bytes of its own are wanted.")
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} is missing or cannot be read: {error.strerror}.") from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise InputError(f"{path} is damaged: its digest does not match.")
    try:
        array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not a plain array.") from error
    return array


def _checksum(description: Mapping[str, Any]) -> str:
    plain = {key: value for key, value in description.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that it is there, whole, or not at all."""
    aside = path.with_name(f".{path.name}.new")
    try:
        with open(aside, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def swap(new: Path, target: Path) -> None:
    """Put a finished folder in its place; what stood there goes last."""
    old = target.with_name(f".{target.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if target.exists():
        os.replace(target, old)
    os.replace(new, target)
    shutil.rmtree(old, ignore_errors=True)
