"""Processes that are forked from one that has imported everything, and so start at once.

As a script this is that one: for each line of JSON on its stdin it forks a process and prints its number.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from waits import hear_signals, until

REPO = Path(__file__).resolve().parents[2]
IMPORTS = (
    *("dmmc.app.api", "dmmc.app.cli", "dmmc.convert", "sklearn.cluster", "zarr"),
    *("distributed.cli.dask_scheduler", "distributed.cli.dask_worker", "dmmc.engine.worker", "dmmc.kernels"),
)


class Forked:
    """A process, with the methods of `Popen` that tests use; what it says is in two files."""

    def __init__(self, pid: int, place: Path) -> None:
        self.pid = pid
        self._place = place

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        path = self._place.with_suffix(".code")
        return int(path.read_text()) if path.exists() else None

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for its end and give its exit code."""
        until(lambda: self.poll() is not None, f"the end of process {self.pid}", seconds, 0.005)
        return int(self.poll() or 0)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    @property
    def stdout(self) -> str:
        """What it has written to stdout."""
        return self._read(".out")

    @property
    def stderr(self) -> str:
        """What it has written to stderr."""
        return self._read(".err")

    def _read(self, suffix: str) -> str:
        path = self._place.with_suffix(suffix)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""  # it may not have begun


class ForkServer:
    """Starts processes that have imported everything.

    Parameters
    ----------
    folder : for what they write to stdout and stderr, and their exit codes
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started = 0
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(REPO)},
        )

    def start(
        self,
        function: str,
        *arguments: object,
        cwd: Path | None = None,
        path: str = "",
        at_once: bool = False,
        **environment: str,
    ) -> Forked:
        """Begin a process, in a session of its own, that calls a function with a list of words.

        Parameters
        ----------
        function : "module:name"
        arguments : words
        cwd : working directory
        path : folders of further modules, as of PYTHONPATH
        at_once : end without the clean-up of Python, which is quicker
        environment : variables; those of Dask are heeded, those that are read on import are not
        """
        self._started += 1
        place = self.folder / str(self._started)
        job = {
            "function": function,
            "arguments": [os.fsdecode(one) if isinstance(one, os.PathLike) else str(one) for one in arguments],
            "cwd": str(cwd or self.folder),
            "path": path,
            "at_once": at_once,
            "environment": environment,
            "place": str(place),
        }
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return Forked(int(self._server.stdout.readline()), place)

    def close(self) -> None:
        """End the server, but no process that it has forked."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait(60)


# ------------------------------------------------------------------------------------------------------- the server


def serve() -> dict[str, Any]:
    """Fork for each job; gives the job in the process that is to do it, and never returns in others."""
    for line in sys.stdin:
        with suppress(ChildProcessError):  # nobody else waits for keepers
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        job = json.loads(line)
        if os.fork() == 0:
            child = os.fork()
            if child == 0:
                return job
            keep(child, Path(job["place"]))
    os._exit(0)


def keep(child: int, place: Path) -> None:
    """Wait for the end of a process and write down its exit code."""
    print(child, flush=True)
    os.setsid()
    for number in range(3):
        os.close(number)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    place.with_suffix(".new").write_text(str(code))
    place.with_suffix(".new").rename(place.with_suffix(".code"))
    os._exit(0)


def prepare(place: str, cwd: str, path: str, environment: Mapping[str, str]) -> None:
    """Make a process look like one that was just started."""
    import dask

    os.setsid()
    hear_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, file in ((0, os.devnull), (1, f"{place}.out"), (2, f"{place}.err")):
        opened = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC if number else os.O_RDONLY, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    if path:
        sys.path[:0] = path.split(os.pathsep)
    os.environ.update(environment)
    if environment:
        dask.config.refresh()


def main() -> None:
    """Import everything, then fork on demand."""
    from importlib import import_module

    for name in IMPORTS:
        import_module(name)
    job = serve()
    prepare(job["place"], job["cwd"], job["path"], job["environment"])
    module, _, name = job["function"].partition(":")
    code: Any = 0
    try:
        getattr(import_module(module), name)(job["arguments"])
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if job["at_once"]:
        os._exit(code or 0)
    sys.exit(code)


if __name__ == "__main__":
    main()
