"""Format, lint, types and layers: the tools that the test command runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

COMMANDS = {
    "ruff format": ("ruff", ["-m", "ruff", "format", "--check", "--diff", "."]),
    "ruff check": ("ruff", ["-m", "ruff", "check", "."]),
    "mypy": ("mypy", ["-m", "mypy"]),
}


def run(command: list[str], repo: Path) -> None:
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"


@pytest.fixture
def checkout(repo: Path) -> Path:
    if not (repo / "pyproject.toml").is_file():
        pytest.skip("style: these tests need the checkout, and there is no pyproject.toml")
    return repo


@pytest.mark.parametrize("name", COMMANDS)
def test_the_code_passes(name: str, checkout: Path) -> None:
    tool, arguments = COMMANDS[name]
    if find_spec(tool) is None:
        pytest.skip(f"style: {tool} is not installed")
    run([sys.executable, *arguments], checkout)


def test_each_layer_imports_only_those_below_it(checkout: Path) -> None:
    command = shutil.which("lint-imports", path=Path(sys.executable).parent)
    if command is None:
        pytest.skip("style: import-linter is not installed")
    run([command, "--no-cache"], checkout)
