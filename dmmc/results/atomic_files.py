"""Versioned files that are the old ones or the new ones, never half of one, and that never run code when read.

A description (JSON with a checksum of itself) names its arrays: plain `.npy` files without pickles, each with its
size and digest. Folders are written aside and take their place in one step.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import io
import json
import os
import re
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dmmc.errors import InputError
from dmmc.machine import MIB
from dmmc.plain_json import plain

Array = NDArray[Any]

VERSION = 2
LARGEST_DESCRIPTION = 256 * MIB
KINDS = "biufU"
"""Kinds of numpy dtypes that an array may have: numbers and text."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


# ---------------------------------------------------------------------------------------------------- writing


def write(
    folder: Path, kind: str, content: Mapping[str, Any], arrays: Mapping[str, Array], same: Collection[str] = ()
) -> None:
    """Write a description and its arrays as a new folder; an older one in its place is replaced at the very end.

    Parameters
    ----------
    folder, kind : where, and what it is
    content, arrays : what it holds
    same : arrays that stand in the older folder already, and are to be in the new one as they are
    """
    aside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        listed = _linked(folder, aside, kind, same)
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
            data = buffer.getbuffer()
            _put(aside / f"{name}.npy", data)
            listed[name] = {"file": f"{name}.npy", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        description = {"kind": kind, "version": VERSION, "content": plain(content), "arrays": listed}
        description["checksum"] = _checksum(description)
        _put(aside / f"{kind}.json", json.dumps(description, indent=1, sort_keys=True).encode())
        sync(aside)
        swap(aside, folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _linked(folder: Path, aside: Path, kind: str, names: Collection[str]) -> dict[str, Any]:
    """Take over arrays of an older folder without writing them again."""
    if not names:
        return {}
    listed = json.loads((folder / f"{kind}.json").read_bytes())["arrays"]
    for name in names:
        file = f"{name}.npy"
        try:
            os.link(folder / file, aside / file)
        except OSError:  # a file system without hard links
            _put(aside / file, (folder / file).read_bytes())
    return {name: listed[name] for name in names}


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that it is there, whole, or not at all."""
    aside = path.with_name(f".{path.name}.new")
    try:
        _put(aside, data)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync(path.parent)


def _put(path: Path, data: bytes | memoryview) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Have the names in a folder on disk: until then a power cut can take back what was made or renamed in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems have no such call for folders
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Have everything below a folder on disk."""
    for root, _, names in os.walk(folder):
        for name in names:
            descriptor = os.open(os.path.join(root, name), os.O_RDONLY | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync(Path(root))


def swap(new: Path, target: Path) -> None:
    """Put a finished folder in its place; what stood there goes. At no moment is there neither.

    Where the system cannot exchange two folders in one step, a run killed between two steps leaves the old one aside,
    and `restore` puts it back.
    """
    if not target.exists():
        os.rename(new, target)
        sync(target.parent)
        return
    if not _exchange(new, target):
        old = _aside(target)
        shutil.rmtree(old, ignore_errors=True)
        os.rename(target, old)
        os.rename(new, target)
        new = old
    sync(target.parent)
    shutil.rmtree(new, ignore_errors=True)


def restore(target: Path) -> None:
    """Put back what an interrupted `swap` left aside, or remove it where the new folder is in place."""
    old = _aside(target)
    if old.exists() and not target.exists():
        os.rename(old, target)
    shutil.rmtree(old, ignore_errors=True)


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old")


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step, if the system can."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


# ---------------------------------------------------------------------------------------------------- reading


def read(folder: Path, kind: str) -> tuple[dict[str, Any], dict[str, Array]]:
    """Read what `write` wrote, or say in one sentence what is wrong with it."""
    path = folder / f"{kind}.json"
    description = _description(_file(path, LARGEST_DESCRIPTION), path, kind)
    content, listed = description.get("content"), description.get("arrays")
    if not isinstance(content, dict) or not isinstance(listed, dict):
        raise InputError(f"{path} is damaged: content or arrays are missing.")
    return content, {name: _read_array(folder, name, entry) for name, entry in listed.items()}


def _description(text: bytes, path: Path, kind: str) -> dict[str, Any]:
    try:
        found = json.loads(text, parse_constant=_not_json)
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


def _not_json(word: str) -> NoReturn:
    raise ValueError(word)


def _read_array(folder: Path, name: str, entry: Any) -> Array:
    file = entry.get("file") if isinstance(entry, dict) else None
    if not _NAME.fullmatch(name) or file != f"{name}.npy":
        raise InputError(f"{folder} names {file!r} as the file of array {name!r}; only files of its own are read.")
    path = folder / file
    wanted = entry.get("bytes")
    if not isinstance(wanted, int):
        raise InputError(f"{folder} does not say how large {file} is.")
    data = _file(path, wanted)
    if len(data) != wanted or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise InputError(f"{path} is damaged: it is not the file that was written.")
    try:
        return _array(data)
    except Exception as error:  # numpy lets out whatever its parser meets in a made-up header
        raise InputError(f"{path} is not a plain array.") from error


def _array(data: bytes) -> Array:
    """The array in an .npy file. A header that promises more than is there gets no memory for it."""
    file = io.BytesIO(data)
    header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, by_columns, dtype = header[np.lib.format.read_magic(file)](file)
    if dtype.kind not in KINDS:
        raise ValueError(f"dtype {dtype}")
    flat: Array = np.frombuffer(data, dtype, offset=file.tell())
    return flat.reshape(shape, order="F" if by_columns else "C").copy()  # a copy, as other arrays can be written to


def _file(path: Path, most: int) -> bytes:
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
