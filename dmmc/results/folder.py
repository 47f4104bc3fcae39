"""An output folder (OUT) while a run writes it: locked, marked as unfinished, and a result only when complete."""

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

from dmmc.errors import InputError, refuse_url
from dmmc.plain_json import plain
from dmmc.results import atomic_files, contents
from dmmc.results.belonging import MARK, is_unfinished
from dmmc.results.contents import Result

# What a finished run leaves beside its history, and all that dmmc writes to an OUT: one with other files is kept.
RESULTS = {"labels.zarr", "scores.zarr", "labels.csv", "labels.parquet", "profile.csv", "centres"}
RESULTS |= {"model", "summary", "run.json", "report.html"}
OWN = {*RESULTS, "history.jsonl", "checkpoint", MARK}
EXISTS = "exists; choose another folder, or add --overwrite (overwrite=True) to replace it."
LEFT = (
    "was left unfinished by a run that was killed or interrupted; add --resume (resume=True) to go on with it or "
    "--overwrite (overwrite=True) to begin anew, or choose another folder."
)


class Out:
    """A run's own folder while it runs.

    A new folder is written where it will stand, so that `history.jsonl` can be followed; it says that it is unfinished.
    With `overwrite`, the new result is written beside the earlier one (as `.OUT.partial`) and takes its place in one
    step at the end; what a killed run has left is replaced too. With `resume`, the run goes on in the folder that an
    earlier one left unfinished, if it has a checkpoint. If the run fails, the folder goes away, unless it has a
    checkpoint: then it stays, and the exception gets a note that says how to go on.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False, resume: bool = False) -> None:
        refuse_url(path)
        self.given = str(path)
        self.path = Path(os.path.realpath(path))
        self.resumed = False
        self._overwrite = overwrite
        self._resume = resume
        self._partial = self.path.parent / f".{self.path.name}.partial"
        self._lock = self.path.parent / f".{self.path.name}.lock"

    @property
    def checkpoint(self) -> Path:
        """Where the run's checkpoint belongs."""
        return self._stage / "checkpoint"

    def __enter__(self) -> Self:
        if not self._lock.exists():
            self._refuse()  # before anything is touched
        with ExitStack() as undo:
            undo.callback(_remove_empty, [parent for parent in self.path.parents if not parent.exists()])
            self.path.parent.mkdir(parents=True, exist_ok=True)
            undo.enter_context(_hold_lock(self._lock, self.given))
            undo.callback(self._lock.unlink, missing_ok=True)
            atomic_files.restore(self.path)
            self._complete_swap()
            self._refuse()  # again, as another run may have just ended
            self._stage, self.resumed = self._choose_stage()
            if not self.resumed:
                atomic_files.remove_folder(self._partial)
                if is_unfinished(self.path):
                    atomic_files.remove_folder(self.path)
                with atomic_files.write_folder(self._stage, replace=False) as aside:
                    (aside / MARK).write_bytes(_describe_run())  # never taken for something else
            self._finished = False
            self._going_on = not self.resumed
            undo.callback(self._discard)
            if self.resumed:
                atomic_files.write_bytes(self._stage / MARK, _describe_run())
            self._history = self._open_history()
            self._undo = undo.pop_all()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        with suppress(OSError):  # what a full disk did not take is still in the buffer
            self._history.close()
        self._undo.close()
        if error is not None and not self._finished:
            self._add_note(error)

    def _refuse(self) -> None:
        """Raise an InputError where the folder may not be written or resumed."""
        if not os.path.lexists(self.path):
            return
        left = is_unfinished(self.path)
        if not self._overwrite and not self._resume:
            raise InputError(f"{self.given} {LEFT if left else EXISTS}")
        if not left and not _is_result(self.path):
            rest = "it is not overwritten" if self._overwrite else "there is nothing to resume in it"
            raise InputError(f"{self.given} exists and is not a dmmc result; {rest}.")
        if self._resume and not left and not is_unfinished(self._partial):
            raise InputError(f"{self.given} is finished: nothing to resume.")
        if self._resume and left and (self.path / "checkpoint").is_dir():
            return  # nothing in it is replaced
        others = self._list_others()
        if others:
            raise InputError(f"{self.given} holds {others[0]!r}, which dmmc did not write; it is not overwritten.")

    def _list_others(self) -> list[str]:
        return sorted(name for name in os.listdir(self.path) if name not in OWN and not name.startswith("."))

    def _complete_swap(self) -> None:
        """Complete what a run that was killed in `finish` had left to do: replace the earlier result, remove its rest.

        A result with a checkpoint in it is a new one; the one that it replaces has none.
        """
        free = not os.path.lexists(self.path) or (_is_result(self.path) and not self._list_others())
        if self._resume and free and _is_result(self._partial) and (self._partial / "checkpoint").is_dir():
            atomic_files.swap(self._partial, self.path)
        if not is_unfinished(self._partial) and not (self._partial / "checkpoint").is_dir():
            atomic_files.remove_folder(self._partial)  # the one that was replaced, or what is left of it
        if _is_result(self.path) and (self.path / "checkpoint").is_dir():
            shutil.rmtree(self.path / "checkpoint")

    def _choose_stage(self) -> tuple[Path, bool]:
        """The folder to write, and whether there is a checkpoint in it to go on with."""
        for stage in (self.path, self._partial):
            if self._resume and is_unfinished(stage):
                atomic_files.restore(stage / "checkpoint")
                if os.path.lexists(stage / "checkpoint"):
                    return stage, True
        return self._partial if os.path.lexists(self.path) and not is_unfinished(self.path) else self.path, False

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to `history.jsonl` and flush it."""
        self._history.write(json.dumps(plain(line)) + "\n")
        self._history.flush()

    def rewrite_history(self, lines: Sequence[dict[str, Any]]) -> None:
        """Replace `history.jsonl` by these lines; the next ones are appended."""
        self._going_on = True
        self._history.close()
        text = "".join(json.dumps(plain(line)) + "\n" for line in lines)
        atomic_files.write_bytes(self._stage / "history.jsonl", text.encode())
        self._history = self._open_history()

    def _open_history(self) -> IO[str]:
        path = self._stage / "history.jsonl"
        _refuse_odd_file(path)
        return open(path, "a", encoding="utf-8")

    def finish(self, found: Result) -> None:
        """Write the result, remove the mark and, with `overwrite`, replace the earlier result."""
        self._history.close()
        self._remove_results()  # of a run that was killed in the lines below
        contents.write_result(self._stage, found)
        atomic_files.sync_all(self._stage)
        (self._stage / MARK).unlink()  # now it is complete; what is left to do, `_complete_swap` can do
        if self._stage != self.path:
            atomic_files.swap(self._stage, self.path)
        self._finished = True
        shutil.rmtree(self.path / "checkpoint", ignore_errors=True)

    def _discard(self) -> None:
        """Remove what a failed run has written, but for its checkpoint and history if it can be resumed."""
        if self._finished:
            return
        atomic_files.restore(self.checkpoint)
        if os.path.lexists(self.checkpoint):
            self._remove_results()
        else:
            atomic_files.remove_folder(self._stage)

    def _remove_results(self) -> None:
        for path in self._stage.iterdir():
            if path.name.lstrip(".").removesuffix(".new").removesuffix(".old") in RESULTS:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)

    def _add_note(self, error: BaseException) -> None:
        """Add to an exception how to resume, unless resuming is what was refused."""
        if not os.path.lexists(self.checkpoint):
            if isinstance(error, KeyboardInterrupt):
                error.add_note("The search had not begun: there is nothing to resume, what was unfinished is removed.")
        elif self._going_on or not isinstance(error, InputError):
            place = " in place of --overwrite" if self._stage == self._partial else ""
            error.add_note(
                f"A checkpoint was written ({self.checkpoint}): say --resume (resume=True){place} to go on with it."
            )


def _is_result(folder: Path) -> bool:
    """Whether a folder is a finished result."""
    return (folder / "run.json").is_file() and not is_unfinished(folder)


def _describe_run() -> bytes:
    text = (
        f"A run of dmmc is writing this folder: process {os.getpid()} on {socket.gethostname()}.\n"
        "If that process is gone, it was interrupted: fit again and say resume to go on, or overwrite to begin anew.\n"
    )
    return text.encode()


def _hold_lock(path: Path, name: str) -> IO[bytes]:
    """Open and lock a file; the system unlocks it when this process ends, however it ends."""
    if not path.is_symlink():  # which is not followed
        _refuse_odd_file(path)
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


def _refuse_odd_file(path: Path) -> None:
    """Refuse something else in the place of a file that a run opens to write: a pipe would be waited for."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InputError(f"{path} is no plain file, as dmmc writes it: move it away, or choose another folder.")


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()
