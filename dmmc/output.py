"""The life of an output folder: locked while it is written, a result only when it is whole."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import socket
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any, Self

from dmmc import checkpoint, result
from dmmc.checkpoint import plain
from dmmc.errors import InputError
from dmmc.result import MARK, Result, unfinished

OWN = {
    "labels.zarr",
    "scores.zarr",
    "labels.csv",
    "model",
    "summary",
    "history.jsonl",
    "run.json",
    "report.html",
    "checkpoint",
    MARK,
}
"""What dmmc writes to an OUT. One that holds anything else is not overwritten."""


class Out:
    """A run's own folder while it runs.

    A new folder is written where it will stand, so that `history.jsonl` can be followed; it says that it is unfinished,
    and goes away if the run fails. With `overwrite`, the new result is written beside the earlier one (as
    `.OUT.partial`) and takes its place in one step at the end.

    Parameters
    ----------
    path : the folder
    overwrite : replace an earlier result, or what a killed run has left
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.given = str(path)
        self.path = Path(os.path.realpath(path))
        self._overwrite = overwrite
        self._partial = self.path.parent / f".{self.path.name}.partial"
        self._lock = self.path.parent / f".{self.path.name}.lock"

    def __enter__(self) -> Self:
        if not self._lock.exists():
            self._refuse()  # before anything is touched
        with ExitStack() as undo:
            undo.callback(_remove_empty, [parent for parent in self.path.parents if not parent.exists()])
            self.path.parent.mkdir(parents=True, exist_ok=True)
            undo.enter_context(_locked(self._lock, self.given))
            undo.callback(self._lock.unlink, missing_ok=True)
            checkpoint.restore(self.path)
            self._refuse()  # again, as another run may have just ended
            shutil.rmtree(self._partial, ignore_errors=True)
            if unfinished(self.path):
                shutil.rmtree(self.path)
            self._finished = False
            self._stage = self._partial if self.path.exists() else self.path
            self._stage.mkdir()
            undo.callback(self._discard)
            (self._stage / MARK).write_text(
                f"A run of dmmc is writing this folder: process {os.getpid()} on {socket.gethostname()}.\n"
                "If that process is gone, it was killed: remove the folder, or fit again and say overwrite.\n"
            )
            self._history: IO[str] = open(self._stage / "history.jsonl", "w", encoding="utf-8")
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):  # what a full disk did not take is still in the buffer
            self._history.close()
        self._undo.close()

    def _refuse(self) -> None:
        """Say why the folder cannot be written, if it cannot."""
        if not os.path.lexists(self.path):
            return
        if not self._overwrite:
            state = "was left unfinished by a run that was killed" if unfinished(self.path) else "exists"
            raise InputError(
                f"{self.given} {state}; choose another folder, or add --overwrite (overwrite=True) to replace it."
            )
        if not (self.path / "run.json").is_file() and not unfinished(self.path):
            raise InputError(f"{self.given} exists and is not a dmmc result; it is not overwritten.")
        others = sorted(name for name in os.listdir(self.path) if name not in OWN and not name.startswith("."))
        if others:
            raise InputError(f"{self.given} holds {others[0]!r}, which dmmc did not write; it is not overwritten.")

    def _discard(self) -> None:
        if not self._finished:
            shutil.rmtree(self._stage, ignore_errors=True)

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the history, now."""
        self._history.write(json.dumps(plain(line)) + "\n")
        self._history.flush()

    def finish(self, found: Result) -> None:
        """Write everything, then let it appear."""
        self._history.close()
        result.write(self._stage, found)
        (self._stage / MARK).unlink()
        if self._stage != self.path:
            checkpoint.swap(self._stage, self.path)
        self._finished = True


def _locked(path: Path, name: str) -> IO[bytes]:
    """Hold a lock file that the system lets go of when this process ends, however it ends."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        lock = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise InputError(f"another run is writing {name}; wait for it, or choose another folder.") from error
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                lock.close()
                raise
            return lock  # a file system without locks: that a folder can be made only once has to do
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return lock
        lock.close()  # its last holder has just removed it: a new one is needed


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
