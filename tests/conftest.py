"""What tests share: the data sets, skips that can be forbidden, and the seconds of each folder."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import pytest

from dmmc import datasets

REPO = Path(__file__).resolve().parents[1]


def skip(what: str, why: str) -> NoReturn:
    """Skip for want of `what`, or fail where DMMC_REQUIRE (names between commas) asks for it."""
    required = {name.strip() for name in os.environ.get("DMMC_REQUIRE", "").split(",")}
    if what in required:
        pytest.fail(f"DMMC_REQUIRE asks for {what}: {why}", pytrace=False)
    pytest.skip(f"{what}: {why}")


@cache
def _load(name: str) -> tuple[Any, Any]:
    return datasets.load(name)


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
    folder = datasets.folder()
    if folder is None:
        skip("data", "DMMC_DATA is not set and there is no ../shared/data beside the checkout")
    if not folder.is_dir():
        skip("data", f"there is no folder {folder}")
    return folder


@pytest.fixture
def load(request: pytest.FixtureRequest) -> Callable[[str], tuple[Any, Any]]:
    """``load("mnist") -> (X, y)``, copies of a data set; a test whose file is not there is skipped."""

    def copies(name: str) -> tuple[Any, Any]:
        if name in datasets.FILES:
            folder = request.getfixturevalue("data_folder")
            if not (folder / f"{name}.npz").is_file():
                skip("data", f"there is no file {folder / name}.npz")
        X, y = _load(name)
        return X.copy(), y.copy()

    return copies


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
