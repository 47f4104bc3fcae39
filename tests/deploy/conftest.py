"""What the tests of deploy/ share: schemas, certificates, processes that do not outlive a test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn
from zipfile import ZipFile

import psutil
import pytest
from waits import start_session, until

import dmmc

PACKAGE = str(Path(dmmc.__file__).parents[1])
PROGRAMS = {
    "dask": [sys.executable, "-m", "dask"],
    "dmmc": [sys.executable, "-m", "dmmc"],
    "python": [sys.executable],
}


@pytest.fixture(scope="session")
def deploy(repo: Path) -> Path:
    """The folder deploy/ of the checkout."""
    if not (repo / "deploy").is_dir():
        pytest.skip("deploy: these tests need the checkout")
    return repo / "deploy"


# ------------------------------------------------------------------------------------------------------- schemas


@pytest.fixture(scope="session")
def wheel(request: pytest.FixtureRequest, skip: Callable[[str, str], NoReturn]) -> Callable[[str], ZipFile]:
    """``wheel("dask_kubernetes")``: the wheel of schemas.txt, fetched once and kept in pytest's cache."""
    folder = Path(request.config.cache.mkdir("schemas"))  # type: ignore[union-attr]
    wanted = Path(__file__).parent / "schemas.txt"
    kept = folder / "schemas.txt"
    if not kept.is_file() or kept.read_text() != wanted.read_text():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        try:
            done = subprocess.run(
                [*command, "-q", "-d", folder, "-r", wanted], capture_output=True, text=True, timeout=120
            )
            why = "" if done.returncode == 0 else " ".join(done.stderr.split())[-300:]
        except subprocess.TimeoutExpired:
            why = "pip download took more than two minutes"
        if why:
            skip("schemas", f"the wheels of tests/deploy/schemas.txt cannot be fetched: {why}")
        kept.write_text(wanted.read_text())
    return lambda name: ZipFile(max(folder.glob(f"{name}-*.whl")))


# ------------------------------------------------------------------------------------------------------ processes


class Process:
    """A command in a session of its own, with what it says in a file."""

    def __init__(self, command: list[str], log: Path, **options: Any) -> None:
        self.log = log
        self.command = command
        with open(log, "w") as file:
            self.popen = start_session(command, file, stdin=subprocess.DEVNULL, **options)

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, words: str, seconds: float = 30) -> str:
        """Wait until it has said something."""
        return until(
            lambda: words in self.said and self.said, lambda: f"{words!r} in {self.log.name}:\n{self.said}", seconds
        )

    def end(self, seconds: float = 60) -> int:
        """Wait for its end, and give its exit code."""
        until(lambda: self.popen.poll() is not None, lambda: f"the end of {self.command}:\n{self.said}", seconds)
        return int(self.popen.returncode)

    def signal(self, number: int, *, group: bool = False) -> None:
        """Send a signal; to the whole group, as a terminal does."""
        if group:
            os.killpg(self.popen.pid, number)
        else:
            self.popen.send_signal(number)


class Processes:
    """Starts commands; all of them and their children carry a mark, by which those left behind are found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.started: list[Process] = []

    def environment(self, **variables: object) -> dict[str, str]:
        texts = {name: str(value) for name, value in variables.items()}
        return {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONUNBUFFERED": "1", "DMMC_TEST_MARK": self.mark, **texts}

    def start(self, *command: object, cwd: Path | None = None, **variables: object) -> Process:
        """Begin a command; `dask`, `dmmc` and `python` are those of this environment."""
        words = [str(word) for word in command]
        words = [*PROGRAMS.get(words[0], words[:1]), *words[1:]]
        log = self.folder / f"{len(self.started)}-{Path(words[0]).name}.log"
        process = Process(words, log, cwd=cwd or self.folder, env=self.environment(**variables))
        self.started.append(process)
        return process

    def run(self, *command: object, seconds: float = 60, **variables: Any) -> Process:
        """A command to its end."""
        process = self.start(*command, **variables)
        process.end(seconds)
        return process

    def left(self) -> list[str]:
        """Command lines of what still runs and carries the mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get("DMMC_TEST_MARK") == self.mark:
                    found.append(" ".join(process.cmdline()))
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                pass
        return found

    def none_left(self, seconds: float = 10) -> None:
        """Fail if anything that was started here, or by what was started here, still runs."""
        until(lambda: not self.left(), lambda: f"the end of {self.left()}", seconds)

    def close(self) -> None:
        """End everything that carries the mark."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in psutil.process_iter():
                try:
                    if process.environ().get("DMMC_TEST_MARK") == self.mark:
                        process.send_signal(number)
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    pass
            end = time.monotonic() + 5
            while self.left() and time.monotonic() < end:
                time.sleep(0.05)
        for process in self.started:
            process.end(10)


@pytest.fixture
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """``processes.start("dask", "scheduler", ...)``; ended after the test."""
    with closing(Processes(tmp_path_factory.mktemp("processes"))) as found:
        yield found


@pytest.fixture(scope="module")
def module_processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Processes]:
    """The same for a cluster that the tests of a module share."""
    with closing(Processes(tmp_path_factory.mktemp("processes"))) as found:
        yield found


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A port that nothing listens on."""

    def find() -> int:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return int(one.getsockname()[1])

    return find


@pytest.fixture(scope="session")
def certificates(deploy: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``certificates("ours")``: a folder that tls.sh has filled, one authority a name."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            folder = tmp_path_factory.mktemp(f"tls-{name}")
            subprocess.run(["bash", deploy / "tls.sh", folder], check=True, capture_output=True, timeout=30)
            made[name] = folder
        return made[name]

    return make


@pytest.fixture(scope="session")
def labels_of() -> Callable[[Path], list[int]]:
    """The labels in an OUT."""

    def read(out: Path) -> list[int]:
        import zarr

        assert "objective" in json.loads((out / "run.json").read_text())
        return zarr.open_array(str(out / "labels.zarr"), mode="r")[:].tolist()

    return read


# ------------------------------------------------------------------------------------------------------ a slow fit


SLOW = ["--set", "epsilon=1e-6"]


@pytest.fixture(scope="session")
def slow() -> list[str]:
    """Options with which a fit of the digits takes 293 passes: on a cluster long enough to be interrupted."""
    return SLOW


@pytest.fixture(scope="session")
def slow_labels(cli: Any, digits_store: Path, labels_of: Any, tmp_path_factory: pytest.TempPathFactory) -> list[int]:
    """What it finds in one process, undisturbed."""
    out = tmp_path_factory.mktemp("slow") / "out"
    done = cli("fit", "--method", "cpmmc", digits_store, "-k", 10, "-o", out, *SLOW)
    assert done.code == 0, done.stderr
    assert len((out / "history.jsonl").read_text().splitlines()) > 100
    return labels_of(out)
