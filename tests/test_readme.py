"""What the README says is what happens."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest


@pytest.fixture
def readme(repo: Path) -> str:
    path = repo / "README.md"
    if not path.is_file():
        pytest.skip("readme: these tests need the checkout")
    return path.read_text(encoding="utf-8")


def commands(readme: str) -> list[str]:
    return [line for block in re.findall(r"```sh\n(.*?)```", readme, flags=re.DOTALL) for line in block.splitlines()]


def test_ci_runs_the_test_command_of_the_readme(readme: str, repo: Path) -> None:
    test_command = commands(readme)[1]
    assert test_command.endswith("-m pytest")
    script = repo / ".ci" / "run"
    assert test_command in script.read_text(encoding="utf-8").splitlines()
    assert os.access(script, os.X_OK)


def test_the_first_command_needs_nothing_but_python_and_the_checkout(readme: str) -> None:
    assert commands(readme)[0] == "python3 -m venv .venv && .venv/bin/pip install '.[report]' && .venv/bin/dmmc demo"


def test_scripts_named_in_commands_exist(readme: str, repo: Path) -> None:
    scripts = re.findall(r"\b((?:examples|benchmarks)/\w+\.py)", "\n".join(commands(readme)))
    assert scripts
    assert [name for name in scripts if not (repo / name).is_file()] == []
