"""Worker processes of our own on this machine, reachable from nowhere else."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

import dask
from distributed import LocalCluster
from distributed.utils import LoopRunner

from dmmc.errors import InputError

NO_PROFILER = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}
"""Dask's settings for workers without a dashboard: the statistical profiler and the clock of the event loop interrupt
the kernels some hundred times a second, which takes a fifth of a pass where all cores are at work."""


@contextmanager
def start_workers(workers: Any, dashboard: bool, profile: bool) -> Iterator[LocalCluster]:
    """Start worker processes of one thread each, with Dask's dashboard or profiler; they end with the context."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers is {workers!r}; a number of processes of at least 1 is wanted.")
    settings: dict[str, Any] = {"distributed.scheduler.worker-ttl": "60s", "distributed.worker.daemon": True}
    if not (dashboard or profile):
        settings.update(NO_PROFILER)
    with dask.config.set(settings), _hide_main_module(), _start_loop() as loop:
        cluster = LocalCluster(
            loop=loop,
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would still open a port, on all addresses
            scheduler_kwargs={"dashboard": dashboard},
            worker_dashboard_address=None,
            silence_logs=50,
        )
        try:
            if dashboard:
                sys.stderr.write(f"dashboard: {cluster.dashboard_link}\n")
            yield cluster
        finally:
            with suppress(Exception):
                cluster.close(timeout=10)


@contextmanager
def _start_loop() -> Iterator[Any]:
    """An event loop on a thread that ignores Ctrl-C, as do the processes that it starts.

    A terminal sends Ctrl-C to all processes, but it is the driver that ends its workers, after it wrote its checkpoint.
    """
    resource_tracker.ensure_running()  # or the first process would start it, and let the signal through after that
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


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
