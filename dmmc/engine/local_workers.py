"""Worker processes of our own: started again when they die, ended with the driver, and silent."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import LocalCluster, Nanny, Status
from distributed.system import MEMORY_LIMIT
from distributed.utils import LoopRunner

from dmmc.engine.dask_client import Limits
from dmmc.errors import ClusterLost, InputError
from dmmc.process_state import Shared

LEAN = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.low-level-log-length": 0,
}
"""Dask's settings for a cluster without a dashboard. The statistical profiler and the clock of the event loop interrupt
the kernels some hundred times a second, which takes a fifth of a pass where all cores are at work. The log of the last
thousand messages to each worker keeps the parameters that they carry: megabytes a fit."""
SETTINGS = {**LEAN, "distributed.scheduler.worker-ttl": "60s", "distributed.worker.daemon": True}
TRIES = 5
"""Starts of a worker that dies before it is ready."""
ENDED = (Status.closing_gracefully, Status.closing, Status.closed)
"""Of a nanny that may start no other process."""
ENDING = 10.0
"""Seconds in which killed processes and their nannies have ended."""


@contextmanager
def start_workers(workers: Any, limits: Limits, *, dashboard: bool, profile: bool) -> Iterator[LocalCluster]:
    """Start worker processes of one thread each, with Dask's dashboard or profiler; they end with the context.

    `ClusterLost` where none of them can be started.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers is {workers!r}; a number of processes of at least 1 is wanted.")
    with _PROCESS, _start_loop() as loop:
        cluster = LocalCluster(
            loop=loop,
            n_workers=0,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would still open a port, on all addresses
            scheduler_kwargs={"dashboard": dashboard},
            silence_logs=logging.CRITICAL,
        )
        nannies: list[_Nanny] = []
        try:
            if dashboard:
                sys.stderr.write(f"dashboard: {cluster.dashboard_link}\n")
            settings = {"distributed.worker.profile.enabled": dashboard or profile}
            why = cluster.sync(_start, cluster.scheduler_address, nannies, workers, settings, limits.workers)
            if not any(nanny.status == Status.running for nanny in nannies):
                raise ClusterLost(f"no worker could be started on this machine: {why}.")
            yield cluster
        finally:
            with suppress(Exception):
                cluster.sync(_end, nannies, callback_timeout=ENDING)
            with suppress(Exception):
                cluster.close(timeout=ENDING)


class _Nanny(Nanny):  # type: ignore[misc] # dask is not looked into
    """Keeps a worker process alive, from its first moment on.

    Dask's own nanny gives up where the process dies before it is ready, and waits for ever where it stands still.
    """

    patience = 60.0
    """Seconds for a process to get ready."""

    async def instantiate(self) -> Status:
        """Start a worker process; again where it has died before it was ready, or stood still."""
        until = time.monotonic() + self.patience
        for _ in range(TRIES):
            starting = asyncio.ensure_future(super().instantiate())
            await asyncio.wait({starting}, timeout=max(0.0, until - time.monotonic()))
            if not starting.done():
                self.kill_worker()
            status = await starting
            if status == Status.running or self.status in ENDED:
                return status
            if time.monotonic() > until:
                break
        raise RuntimeError("its processes died or stood still while they started, as they do where memory is short")

    def kill_worker(self) -> None:
        """End the worker process at once."""
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


async def _start(address: str, nannies: list[_Nanny], count: int, settings: dict[str, Any], patience: float) -> str:
    """Start nannies and wait for their workers; gives the last reason why one could not be started, if any."""
    for number in range(count):
        nanny = _Nanny(
            address,
            name=number,
            nthreads=1,
            host="127.0.0.1",
            memory_limit=MEMORY_LIMIT // count,
            config=settings,
            dashboard_address=None,
            dashboard=False,
            silence_logs=logging.CRITICAL,
        )
        nanny.patience = patience
        nannies.append(nanny)
    outcomes = await asyncio.gather(*(nanny.start() for nanny in nannies), return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    return _find_reason(failures[-1]) if failures else ""


def _find_reason(error: BaseException) -> str:
    """What began the chain of errors that ended in this one."""
    before = error.__cause__ or error.__context__
    return _find_reason(before) if before is not None else str(error).rstrip(".")


async def _end(nannies: list[_Nanny]) -> None:
    """End the workers, without asking: what they have can be made again, and one that stands still would not hear."""
    for nanny in nannies:
        nanny.close_gracefully()  # it starts no other
        nanny.kill_worker()
    await asyncio.gather(*(nanny.close() for nanny in nannies), return_exceptions=True)


@contextmanager
def _start_loop() -> Iterator[Any]:
    """An event loop on a thread that ignores Ctrl-C and SIGTERM, as do the processes that it starts.

    A terminal sends Ctrl-C to all processes of a job, a batch system SIGTERM; but it is the driver that ends its
    workers, with SIGKILL, after it wrote its checkpoint. A worker that died before would be started again meanwhile.
    """
    _start_tracker()
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


def _start_tracker() -> None:
    """Start Python's tracker of semaphores, which is a process of its own.

    Now, or the first worker would start it, and let the signal through after that; and without its warning of
    semaphores that killed processes have left behind: it removes them.
    """
    quiet = "ignore:resource_tracker:UserWarning"
    sys.warnoptions.append(quiet)  # which processes inherit
    try:
        resource_tracker.ensure_running()
    finally:
        sys.warnoptions.remove(quiet)


@contextmanager
def _prepare_process() -> Iterator[None]:
    """Have this process as worker processes are to inherit it; what nannies change in it is undone too."""
    with dask.config.set(SETTINGS), _keep_environment(), _hide_main_module():
        yield


@contextmanager
def _keep_environment() -> Iterator[None]:
    """Undo what nannies add to the environment for their workers, such as OMP_NUM_THREADS."""
    names = *dask.config.get("distributed.nanny.pre-spawn-environ", {}), "PYTHONHASHSEED", "__DASK_PARENT_PID"
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _hide_main_module() -> Iterator[None]:
    """Hide the user's script from worker processes.

    Multiprocessing imports the main module in each process that it spawns, which would run a script again that does
    not guard itself with `if __name__ == "__main__"`. Our tasks are all in this package and do not need it.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    if "__file__" in hidden:
        del main.__file__
    try:
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)


_PROCESS = Shared(_prepare_process)
