"""Clusters made of real processes, which tests may kill, stop and starve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import psutil
from distributed import Client
from forks import Forked, ForkServer
from waits import start_session, until

REPO = Path(__file__).resolve().parents[2]
FAULTS = REPO / "tests" / "faults"
"""Workers find fault_work there."""
Started: TypeAlias = "subprocess.Popen[bytes] | Forked"

QUIET = {
    "PYTHONPATH": f"{FAULTS}{os.pathsep}{REPO}",
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
    "DASK_DISTRIBUTED__WORKER__DAEMON": "True",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
    "OMP_NUM_THREADS": "1",
}


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    with suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


def family(pid: int) -> set[int]:
    """A process and all that came from it."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return {pid, *(child.pid for child in process.children(recursive=True))}
    return set()


def kill_all(pids: Iterable[int]) -> None:
    """End processes at once, those that stand still too."""
    for pid in pids:
        for number in (signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def hiding(folder: Path) -> tuple[str, ...]:
    """What to put before a command that is to find a disk of its own in place of a folder."""
    return ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(folder))


class Grid:
    """A scheduler and its workers, each a process of its own.

    Parameters
    ----------
    folder : for logs, the scheduler file and whatever workers spill
    forks : starts those that need no other variables than Dask's
    settings : environment of all of them
    """

    def __init__(self, folder: Path, forks: ForkServer, settings: dict[str, str] | None = None) -> None:
        self.folder = folder
        self._forks = forks
        self.settings = settings or {}
        self.file = folder / "scheduler.json"
        self.file.unlink(missing_ok=True)
        self.workers: dict[str, Started] = {}
        self._started = 0
        self._client: Client | None = None
        self.scheduler = self._begin(
            "scheduler",
            *("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--scheduler-file", self.file),
            *("--idle-timeout", "2h"),  # should these tests be killed, their clusters end by themselves
        )
        until(self.file.exists, "a scheduler file")

    def _begin(self, what: str, *arguments: object, before: Sequence[str] = (), **extra: str) -> Started:
        known = all(name.startswith("DASK_") for name in (*self.settings, *extra))
        if "--nanny" not in arguments and known and not before:
            settings = {**QUIET, **self.settings, **extra}
            return self._forks.start(f"distributed.cli.dask_{what}:main", *arguments, path=str(FAULTS), **settings)
        with open(self.folder / f"{what}-{self._started}.log", "wb") as log:
            command = [*before, sys.executable, "-m", "dask", what, *map(str, arguments)]
            return start_session(command, log, env={**os.environ, **QUIET, **self.settings, **extra})

    @property
    def address(self) -> str:
        return str(self.client.scheduler.address)

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = Client(scheduler_file=str(self.file), timeout=20, set_as_default=False)
        return self._client

    def add(
        self,
        count: int = 1,
        *,
        threads: int = 1,
        memory: str = "0",
        nanny: bool = False,
        wait: bool = True,
        before: Sequence[str] = (),
        **extra: str,
    ) -> list[str]:
        """Start workers, with words such as `hiding(folder)` before their command; gives their names."""
        names = []
        for _ in range(count):
            self._started += 1
            name = f"w{self._started}"
            self.workers[name] = self._begin(
                "worker",
                *("--scheduler-file", self.file, "--nthreads", threads, "--name", name, "--memory-limit", memory),
                *("--no-dashboard", "--local-directory", self.folder, "--nanny" if nanny else "--no-nanny"),
                *("--death-timeout", 60, "--host", "127.0.0.1"),
                before=before,
                **extra,
            )
            names.append(name)
        if wait:
            until(lambda: set(names) <= set(self.names()), f"workers {names}")
        return names

    def names(self) -> dict[str, str]:
        """Addresses of the workers that the scheduler gives work to."""
        info = self.client.sync(self.client.scheduler.identity, n_workers=-1)
        running = {address: one for address, one in info["workers"].items() if one["status"] == "running"}
        return {str(worker["name"]): address for address, worker in running.items()}

    def pid_of(self, pid: int) -> str:
        """Name of the worker that runs as this process, or whose nanny started it."""
        return next(name for name, process in self.workers.items() if pid in family(process.pid))

    def signal(self, name: str, number: int = signal.SIGKILL) -> None:
        self.workers[name].send_signal(number)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.workers.pop(name).wait(10)

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close(timeout=2)
        every = [self.scheduler, *self.workers.values()]
        kill_all(set().union(*(family(process.pid) for process in every)))
        for process in every:
            process.wait(10)
