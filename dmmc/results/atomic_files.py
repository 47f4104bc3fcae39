"""Files and folders that appear in one step: whoever reads finds the old one or the new one, never half of one."""

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # constants of Linux


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file, or replace it, in one step."""
    aside = _aside(path, "new")
    try:
        write_synced(aside, data)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    sync(path.parent)


@contextmanager
def write_folder(target: Path, *, replace: bool = True, unique: bool = False) -> Iterator[Path]:
    """Give an empty folder to write into; it becomes `target` in one step when the block ends, or goes if it fails.

    A target that exists is replaced, or without `replace` an OSError. A `unique` folder has a random name, for a target
    that two processes may write at once; otherwise the next run removes what a killed process left behind.
    """
    aside = _aside(target, f"{secrets.token_hex(4)}.new" if unique else "new")
    _remove_tree(aside)
    aside.mkdir(parents=True)
    try:
        yield aside
        if replace:
            swap(aside, target)
        else:
            os.rename(aside, target)
            sync(target.parent)
    except BaseException:
        _remove_tree(aside)
        raise


def remove_folder(folder: Path) -> None:
    """Remove a folder; a process killed on the way leaves nothing under its name."""
    aside = _aside(folder, "new")
    _remove_tree(aside)
    with suppress(FileNotFoundError):
        os.rename(folder, aside)
    if os.path.lexists(aside) and (aside.is_symlink() or not aside.is_dir()):
        aside.unlink()  # no folder: somebody put it there
    _remove_tree(aside)


def swap(new: Path, target: Path) -> None:
    """Put a finished folder in its place and remove what was there.

    Where the system cannot exchange two folders in one step, a process killed between two steps leaves the old one
    aside, and `restore` puts it back.
    """
    old = new
    if not target.exists():
        os.rename(new, target)
    elif not _exchange(new, target):
        old = _aside(target, "old")
        _remove_tree(old)
        os.rename(target, old)
        os.rename(new, target)
    sync(target.parent)
    _remove_tree(old)


def restore(target: Path) -> None:
    """Put back what an interrupted `swap` left aside, or remove it where the new folder is in place."""
    old = _aside(target, "old")
    if old.is_dir() and not target.exists():
        os.rename(old, target)
    _remove_tree(old)


def _remove_tree(folder: Path) -> None:
    """Remove a folder as far as possible. What is none stays: a pipe would be waited for."""
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def _aside(target: Path, end: str) -> Path:
    return target.with_name(f".{target.name.removeprefix('.')}.{end}")


def _exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders in one step; False where the system cannot."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        return False
    if call(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        return False
    raise OSError(code, os.strerror(code), str(other))


def write_synced(path: Path, data: bytes | memoryview) -> None:
    """Write a file, not in one step, and wait until it is on disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync(path: Path, kind: int = os.O_DIRECTORY) -> None:
    """Wait until the names in a folder are on disk; until then a power cut can undo what was made or renamed in it."""
    descriptor = os.open(path, os.O_RDONLY | kind)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if kind != os.O_DIRECTORY or error.errno != errno.EINVAL:  # some file systems have no such call for folders
            raise
    finally:
        os.close(descriptor)


def sync_all(folder: Path) -> None:
    """Wait until everything below a folder is on disk."""
    for root, _, names in os.walk(folder):
        for name in names:
            sync(Path(root, name), os.O_NOFOLLOW)
        sync(Path(root))
