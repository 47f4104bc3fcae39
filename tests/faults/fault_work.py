"""Work for workers that goes wrong in every way. Workers of these tests have this folder on their path."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dmmc.data.blocks import Block

Array = NDArray[Any]


def total(block: Block, params: Any = None) -> Array:
    """Float sums: another order of addition would be other bits."""
    return np.asarray(block.rows, np.float64).sum(axis=0) / 3.0


def pids(block: Block, params: Any = None) -> dict[int, int]:
    return {block.index: os.getpid()}


def once(folder: str, what: str) -> bool:
    """Whether this is the first call of all processes."""
    try:
        os.close(os.open(Path(folder) / what, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def count(folder: str, what: str) -> None:
    """One more file: so runs can be counted from outside."""
    number = 0
    while not once(folder, f"{what}.{number}"):
        number += 1


def runs(folder: Path | str, what: str) -> int:
    return len(list(Path(folder).glob(f"{what}.*")))


def held(block: Block, folder: str) -> Array:
    """Waits at block 3 of 0, 1, 2 ... until told to go on; says who waits there."""
    if block.index == 3 and once(folder, "held"):
        Path(folder, "pid").write_text(str(os.getpid()))
        os.rename(Path(folder, "pid"), Path(folder, "holder"))
        until = time.monotonic() + 60.0
        while not Path(folder, "go").exists() and time.monotonic() < until:
            time.sleep(0.01)
    return total(block)


def dies(block: Block, params: tuple[str, str, int]) -> Array:
    """The worker of one block dies so many times."""
    folder, how, times = params
    if block.index == 5 and runs(folder, "death") < times:
        count(folder, "death")
        if how == "segfault":
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return total(block)


def poison(block: Block, folder: str) -> Array:
    """Block 5 ends whoever touches it."""
    if block.index == 5:
        count(folder, "death")
        os.kill(os.getpid(), signal.SIGKILL)
    return total(block)


def raises(block: Block, params: tuple[str, int]) -> Array:
    """Block 2 raises so many times."""
    folder, times = params
    count(folder, f"block{block.index}")
    if block.index == 2 and runs(folder, "block2") <= times:
        raise RuntimeError("the moon is in the wrong place")
    return total(block)


class UnpicklableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")
        self.handle = (number for number in range(3))

    def __reduce__(self) -> NoReturn:
        raise TypeError("this cannot be sent")


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("even its text fails")


def odd(block: Block, kind: str) -> Array:
    """Errors that travel badly."""
    if block.index == 1:
        if kind == "unpicklable":
            raise UnpicklableError(1, 2)
        if kind == "unspeakable":
            raise UnspeakableError
        if kind == "exit":
            raise SystemExit(9)
        if kind == "stop":
            raise StopIteration("lost in a generator")
        raise RuntimeError("x" * 50_000_000)
    return total(block)


def bad_result(block: Block, params: Any) -> Any:
    """What comes back cannot be pickled."""
    return [(number for number in range(3))]


def sleeps(block: Block, seconds: float) -> Array:
    time.sleep(seconds)
    return total(block)


def fatal_once(part: Array, folder: str, how: str) -> Array:
    """A chunk of a dask array whose making goes wrong the first time, or always."""
    if how == "always":
        raise OSError("the tape is torn")
    if len(part) and once(folder, "fatal"):
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def fit_as_daemon(arguments: list[str]) -> None:
    """Fit with a worker in a process of multiprocessing that may not start others, and print how that ended."""
    process = multiprocessing.get_context("fork").Process(target=_try_fit, args=arguments, daemon=True)
    process.start()
    process.join(120)


def _try_fit(source: str) -> None:
    import dmmc

    try:
        dmmc.fit(source, 3, workers=1, method="cpmmc")
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)
