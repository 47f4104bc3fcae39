"""What tests share: the data sets, the command line, skips that can be forbidden, and the seconds of each folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import data_sets
import numpy as np
import pytest
from forks import ForkServer
from waits import hear_signals
from xdist.scheduler import LoadScopeScheduling

REPO = Path(__file__).resolve().parents[1]


def skip(what: str, why: str) -> NoReturn:
    """Skip for want of `what`, or fail where DMMC_REQUIRE (names between commas) asks for it."""
    required = {name.strip() for name in os.environ.get("DMMC_REQUIRE", "").split(",")}
    if what in required:
        pytest.fail(f"DMMC_REQUIRE asks for {what}: {why}", pytrace=False)
    pytest.skip(f"{what}: {why}")


# ----------------------------------------------------------------------------------------- which process runs what


def pytest_addoption(parser: pytest.Parser) -> None:
    """How much `tests/faults/test_fuzz.py` alters, and what it draws."""
    parser.addoption("--fuzz", type=int, default=200, help="alterations of each method's checkpoint")
    parser.addoption("--fuzz-seed", type=int, default=20, help="another one draws other alterations")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three or four processes, as many tests wait; none for a single file, which is done sooner without."""
    if len(config.args) == 1 and Path(config.args[0].partition("::")[0]).is_file():
        return 0
    return min(4, max(3, len(os.sched_getaffinity(0))))


class ByFile(LoadScopeScheduling):
    """Gives each process one file of tests at a time, because fixtures of a module are made once a process."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Replace xdist's own order of tests."""
    return ByFile(config, log)


LONGEST = (
    *("benchmarks/test_benchmarks.py", "faults/test_fuzz.py", "estimators/test_sklearn.py", "faults/test_workers.py"),
    *("faults/test_starts.py", "faults/test_threads.py", "faults/test_drivers.py", "estimators/test_accuracy.py"),
    *("estimators/test_evolution.py", "faults/test_setups.py", "faults/test_network.py", "faults/test_mnist.py"),
)
"""Files that take longest, in that order; the "seconds per folder" and `--durations` say when it is another."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, then those with slow tests: no process is left with one at the end."""
    if hasattr(config, "workerinput"):
        longest = {REPO / "tests" / name: place for place, name in enumerate(LONGEST)}
        slow = {item.path for item in items if item.get_closest_marker("slow")}
        items.sort(key=lambda item: (longest.get(item.path, len(longest)), item.path not in slow))


@cache
def _load(name: str) -> tuple[Any, Any]:
    return data_sets.load(name)


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session", name="skip")
def skip_fixture() -> Callable[[str, str], NoReturn]:
    """``skip("browser", "there is no chromium")``, for the fixtures of a folder of tests."""
    return skip


@pytest.fixture
def data_folder() -> Path:
    """The folder with the data files; without one the test is skipped."""
    folder = data_sets.folder()
    if folder is None:
        skip("data", "DMMC_DATA is not set and there is no ../shared/data beside the checkout")
    if not folder.is_dir():
        skip("data", f"there is no folder {folder}")
    return folder


@pytest.fixture
def load(request: pytest.FixtureRequest) -> Callable[[str], tuple[Any, Any]]:
    """``load("mnist") -> (X, y)``, copies of a data set; a test whose file is not there is skipped."""

    def copies(name: str) -> tuple[Any, Any]:
        if name in data_sets.FILES:
            folder = request.getfixturevalue("data_folder")
            if not (folder / f"{name}.npz").is_file():
                skip("data", f"there is no file {folder / name}.npz")
        X, y = _load(name)
        return X.copy(), y.copy()

    return copies


# ------------------------------------------------------------------------------------------- the command line

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPO)}
DMMC = [sys.executable, "-m", "dmmc"]


class Done(NamedTuple):
    """How a command ended, and what it said."""

    code: int
    stdout: str
    stderr: str


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    """``forks.start("dmmc.app.cli:main", "fit", ...) -> Forked``: processes that have imported everything."""
    server = ForkServer(tmp_path_factory.mktemp("forks"))
    yield server
    server.close()


@pytest.fixture(scope="session")
def clients(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Any]]:
    """``clients(2)``: a Dask client of a cluster with so many workers, which all tests share and none may harm."""
    from grids import Grid

    made: dict[int, Grid] = {}

    def client(workers: int) -> Any:
        if workers not in made:
            made[workers] = Grid(tmp_path_factory.mktemp("workers"), forks)
            made[workers].add(workers)
        return made[workers].client

    yield client
    for grid in made.values():
        grid.close()


@pytest.fixture(scope="session")
def cli(forks: ForkServer) -> Callable[..., Done]:
    """``cli("fit", store, "-k", 3, ...) -> Done``: `dmmc` in a process of its own, to its end."""

    def run(*arguments: object, cwd: Path | None = None) -> Done:
        process = forks.start("dmmc.app.cli:main", *arguments, cwd=cwd, at_once=True)
        return Done(process.wait(250), process.stdout, process.stderr)

    return run


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """``start("fit", ...)`` begins a `dmmc` process, `by` another command, and does not wait; it ends with the test."""
    begun: list[subprocess.Popen[str]] = []

    def begin(*arguments: object, by: tuple[str, ...] = (), **options: Any) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT, **options}
        command = [*by, *DMMC, *(str(one) for one in arguments)]
        begun.append(subprocess.Popen(command, preexec_fn=hear_signals, **pipes))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.wait()


def write_store(path: Path, rows: Any, chunk_rows: int = 500, **options: Any) -> Path:
    """A dense matrix as a zarr store without compression, so that damage lands where a test wants it."""
    import zarr

    rows = np.asarray(rows)
    chunks = (min(chunk_rows, max(1, len(rows))), *rows.shape[1:])
    array = zarr.create_array(
        str(path),
        shape=rows.shape,
        chunks=chunks,
        dtype=rows.dtype,
        compressors=None,
        config={"write_empty_chunks": True},
        **options,
    )
    array[...] = rows
    return path


@pytest.fixture(scope="session")
def store_of() -> Callable[..., Path]:
    """``store_of(path, rows) -> path``: writes a zarr store."""
    return write_store


@pytest.fixture(scope="session")
def digits_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits of scikit-learn as a zarr store of float32, in chunks of 500 rows."""
    return write_store(tmp_path_factory.mktemp("digits") / "digits.zarr", _load("digits")[0].astype(np.float32))


@pytest.fixture(scope="session")
def fitted(cli: Callable[..., Done], digits_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of a fit of the digits with 10 clusters, scores and images; to be looked at, or copied, not changed."""
    out = tmp_path_factory.mktemp("fitted") / "out"
    done = cli("fit", "--method", "cpmmc", digits_store, "-k", 10, "-o", out, "--scores", "--image-shape", "8x8")
    assert done.code == 0, done.stderr
    return out


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the seconds that each folder of tests took, set-up and tear-down included."""
    seconds: defaultdict[Path, float] = defaultdict(float)
    tests: defaultdict[Path, int] = defaultdict(int)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                folder = Path(report.location[0]).parent
                seconds[folder] += report.duration
                tests[folder] += report.when == "call" or report.skipped
    if not seconds:
        return
    terminalreporter.section("seconds per folder")
    for folder in sorted(seconds):
        terminalreporter.write_line(f"{seconds[folder]:8.1f} s  {tests[folder]:5d} tests  {folder}")
