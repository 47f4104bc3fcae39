"""State of the whole process: what fits on several threads change at once, and what a fork leaves of it."""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from threadpoolctl import OpenBLASController, ThreadpoolController

DASK_THREADS = ("Dask-Offload", "IO loop")
"""How the names of Dask's threads begin."""


class Shared(AbstractContextManager[None]):
    """A context that is entered with the first of those who want it and left with the last, on whatever threads.

    Each of them entering a context of its own would not do: the first to leave would change the state back under the
    others, and the last would leave it as it was in the middle.

    make : makes the context
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._users = 0
        self._undo = ExitStack()
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """Make a new lock, as a thread that the new process does not have may hold the old one."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                self._undo.enter_context(self._make())
            self._users += 1

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._undo.close()


class Forked:
    """What became of the threads of libraries if this process was forked after dmmc was imported: they are gone."""

    is_so = False
    """Whether it was forked. OpenMP would wait for its threads for ever, unless it is to use one."""
    lacks_numba_threads = False
    """Whether numba had threads before: it ends the process rather than to use them."""
    lacks_dask_threads = False
    """Whether Dask had threads before: it would wait for them for ever."""
    _had_dask_threads = False

    @classmethod
    def prepare(cls) -> None:
        """Take note of threads, before a fork."""
        cls._had_dask_threads = any(thread.name.startswith(DASK_THREADS) for thread in threading.enumerate())

    @classmethod
    def note(cls) -> None:
        """Take note of a fork, in the new process."""
        cls.is_so = True
        cls.lacks_dask_threads |= cls._had_dask_threads
        if "numba" in sys.modules:
            with suppress(ValueError):  # it had none yet
                sys.modules["numba"].threading_layer()
                cls.lacks_numba_threads = True


os.register_at_fork(before=Forked.prepare, after_in_child=Forked.note)


class ThreadPools:
    """The thread pools of the libraries that this process has loaded."""

    _found: tuple[int, ThreadpoolController] | None = None
    """How many modules there were when they were looked for, and what was found: to look takes milliseconds."""

    @classmethod
    def use_one_thread(cls, user_api: str | None = None) -> AbstractContextManager[Any]:
        """A context in which they have one thread each, or those of one kind ("blas", "openmp")."""
        n_modules = len(sys.modules)  # a library comes with a module, which is entered after it was loaded
        if cls._found is None or cls._found[0] != n_modules:
            cls._found = n_modules, ThreadpoolController()
        context: AbstractContextManager[Any] = cls._found[1].limit(limits=1, user_api=user_api)
        return context


@contextmanager
def _limit_blas() -> Iterator[None]:
    """One thread for linear algebra, and in the end as many as before."""
    _take_control_of_blas()
    with ThreadPools.use_one_thread("blas"):
        try:
            yield
        finally:
            _take_control_of_blas()


def _take_control_of_blas() -> None:
    """Have threadpoolctl heed this thread: it ignores all but the first that has set a limit, which may be another."""
    let_go = getattr(OpenBLASController, "clear_controlling_thread", None)  # since its version 3.8
    if let_go is not None:
        let_go(force=True)


_ONE_BLAS_THREAD = Shared(_limit_blas)


@contextmanager
def use_one_blas_thread() -> Iterator[None]:
    """Linear algebra of this process on one thread: the same bits whatever the number of cores."""
    with _ONE_BLAS_THREAD, ThreadPools.use_one_thread("blas"):  # some libraries have a limit for each thread
        yield


LARGE = 2**20
"""Bytes from which on memory is the system's, and goes back to it when it is freed."""
_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD = -3, -1  # constants of glibc


def give_memory_back() -> None:
    """Let large arrays that are freed go back to the system at once, from now on; nothing where malloc is not glibc's.

    By default glibc takes arrays of up to 32 MB from heaps of its threads, once some were freed. Blocks that are read,
    decoded and dropped by several threads leave holes there that nobody fills: hundreds of MB.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_M_MMAP_THRESHOLD, LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, LARGE)
