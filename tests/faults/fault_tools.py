"""Clusters made of real processes, which tests may kill, stop and starve. Every wait here has a limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

import dask
import numpy as np
import psutil
from distributed import Client
from forks import Forked, ForkServer
from numpy.typing import NDArray
from waits import hear_signals, until

import dmmc
from dmmc.plain_json import plain
from dmmc.results.label_arrays import read_labels

HERE = Path(__file__).resolve().parent
REPO = HERE.parents[1]

Array = NDArray[Any]
Started: TypeAlias = "subprocess.Popen[bytes] | Forked"

QUIET = {
    "PYTHONPATH": f"{HERE}{os.pathsep}{REPO}",
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
    "DASK_DISTRIBUTED__WORKER__DAEMON": "True",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__GIL__ENABLED": "False",
    "OMP_NUM_THREADS": "1",
}


def alive(pid: int) -> bool:
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
            *("--idle-timeout", "20m"),  # should these tests be killed, their clusters end by themselves
        )
        until(self.file.exists, "a scheduler file")

    def _begin(self, what: str, *arguments: object, **extra: str) -> Started:
        if "--nanny" not in arguments and all(name.startswith("DASK_") for name in (*self.settings, *extra)):
            settings = {**QUIET, **self.settings, **extra}
            return self._forks.start(f"distributed.cli.dask_{what}:main", *arguments, path=str(HERE), **settings)
        with open(self.folder / f"{what}-{self._started}.log", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "dask", what, *map(str, arguments)],
                env={**os.environ, **QUIET, **self.settings, **extra},
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=hear_signals,
            )

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
        **extra: str,
    ) -> list[str]:
        """Start workers; gives their names."""
        names = []
        for _ in range(count):
            self._started += 1
            name = f"w{self._started}"
            self.workers[name] = self._begin(
                "worker",
                *("--scheduler-file", self.file, "--nthreads", threads, "--name", name, "--memory-limit", memory),
                *("--no-dashboard", "--local-directory", self.folder, "--nanny" if nanny else "--no-nanny"),
                *("--death-timeout", 60, "--host", "127.0.0.1"),
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


@contextmanager
def limits(**seconds: float) -> Iterator[None]:
    """Settings dmmc.wait.*, in this process."""
    with dask.config.set({f"dmmc.wait.{name}": f"{value}s" for name, value in seconds.items()}):
        yield


def blobs(n: int = 1500, d: int = 24, k: int = 3, dtype: str = "f8", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    X = 8.0 * rng.standard_normal((n, d)) + 6.0 * rng.standard_normal((k, d))[rng.integers(k, size=n)]
    return (X + 100.0).clip(0, 255).astype(dtype) if dtype == "u1" else X.astype(dtype)


def bits(run: Any) -> dict[str, Any]:
    """All of a run that may not depend on who computed it."""
    model = run.model
    history = [{key: value for key, value in line.items() if key != "seconds"} for line in run.history]
    return {
        "labels": run.labels.tobytes(),
        "coef": model.coef_.tobytes(),
        "intercept": model.intercept_.tobytes(),
        "history": plain(history),
        "objective": model.objective_,
    }


def written(out: Path) -> dict[str, Any]:
    """The same, of what a run wrote."""
    model = dmmc.load(out)
    lines = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    return {
        "labels": read_labels(str(out / "labels.zarr")).tobytes(),
        "coef": model.coef_.tobytes(),
        "intercept": model.intercept_.tobytes(),
        "history": [{key: value for key, value in line.items() if key != "seconds"} for line in lines],
        "objective": model.objective_,
    }


class Command:
    """A `dmmc` process (see `fault_cli`), the leader of its own group as one started from a terminal is.

    Parameters
    ----------
    forks : starts it
    arguments : of the command line
    pause : seconds after each pass
    settings : environment
    """

    def __init__(self, forks: ForkServer, *arguments: object, pause: float = 0.0, **settings: str) -> None:
        settings = {**QUIET, "PAUSE": str(pause), **settings}
        self.process = forks.start("fault_cli:main", *arguments, path=str(HERE), **settings)
        self.out = Path(str(arguments[arguments.index("-o") + 1])) if "-o" in arguments else None

    def await_passes(self, number: int, seconds: float = 60.0) -> None:
        """Wait until so many passes are in the history."""
        assert self.out is not None
        history = self.out / "history.jsonl"

        def there() -> bool:
            assert self.process.poll() is None, self.process.stderr
            return history.exists() and history.read_bytes().count(b"\n") >= number

        until(there, f"{number} passes", seconds)

    def ended(self, seconds: float = 60.0) -> tuple[int, str]:
        """Exit code and what it said on stderr, within a limit."""
        return self.process.wait(seconds), self.process.stderr


class During:
    """Runs something in a thread of its own while the test waits for a run; its failure is the test's."""

    def __init__(self, action: Callable[[], Any]) -> None:
        self._action = action
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._act, daemon=True)

    def _act(self) -> None:
        try:
            self._action()
        except BaseException as error:
            self._error = error

    def __enter__(self) -> During:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join(60)
        if self._error is not None:
            raise self._error
