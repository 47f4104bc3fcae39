"""The recipes of CONTRIBUTING.md, copied out of the page into a copy of the package, cluster digits."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
import zarr

import dmmc

INTERRUPTED = """
import dmmc

def interrupt(line):
    if line.get("iteration") == 25:
        raise KeyboardInterrupt

try:
    dmmc.fit("digits.zarr", 2, method="subgradient", out="again", progress=interrupt)
except KeyboardInterrupt:
    run = dmmc.fit("digits.zarr", 2, method="subgradient", out="again", resume=True)
    assert len(run.history) > 25
"""


def blocks_of(page: str, section: str) -> list[tuple[str, str]]:
    """Where each Python block of a section goes, as its first line says, and the rest of it."""
    text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n# (\S+\.py[^\n]*)\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == text.count("```python")
    return blocks


def put(package: Path, where: str, code: str) -> Path:
    """Write a new file, or insert code before a name or into a table (`NAME = {`) of a file."""
    name, _, place = where.partition(", ")
    path = package / name
    if not place:
        assert not path.exists(), f"{name} is there already"
        path.write_text(code, encoding="utf-8")
        return path
    text = path.read_text(encoding="utf-8")
    how, table = place.split()
    found = re.search(rf"^{table}\b", text, flags=re.MULTILINE)
    assert found is not None, f"{name} has no {table}"
    at = found.start() if how == "before" else text.index("\n}\n", found.end()) + 1  # a new line of a table is its last
    code = f"{code}\n\n" if how == "before" else textwrap.indent(code, "    ")
    path.write_text(text[:at] + code + text[at:], encoding="utf-8")
    return path


class Copy:
    """A copy of the package with a recipe in it, beside a store of digits 3 and 8."""

    def __init__(self, repo: Path, folder: Path, section: str) -> None:
        page = (repo / "CONTRIBUTING.md").read_text(encoding="utf-8")
        self.folder = folder
        shutil.copytree(repo / "dmmc", folder / "dmmc")  # compiled kernels included
        shutil.copy(repo / "pyproject.toml", folder)
        self.changed = [put(folder, where, code) for where, code in blocks_of(page, section)]
        self.commands = re.findall(r"```sh\n(dmmc fit .*)\n```", page.split(f"\n## {section}\n")[1].split("\n## ")[0])
        X, y = data_sets.load("digits")
        chosen = np.isin(y, (3, 8))
        self.truth = y[chosen]
        zarr.save(str(folder / "digits.zarr"), X[chosen])

    def run(self, *arguments: str) -> None:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def run_its_command(self) -> dict[str, Any]:
        """What `dmmc fit ...` of the page wrote to run.json."""
        (command,) = self.commands
        self.run("-m", *command.split(), "--quiet")
        found: dict[str, Any] = json.loads((self.folder / "result" / "run.json").read_text(encoding="utf-8"))
        return found

    def accuracy(self, result: str) -> float:
        labels = zarr.open(str(self.folder / result / "labels.zarr"))[:]
        return dmmc.score(labels, self.truth)["accuracy"]

    def check_style(self) -> None:
        for command in (["check", "--select", "I", "--fix"], ["format", "--check", "--diff"], ["check"]):
            self.run("-m", "ruff", *command, *map(str, self.changed))


@pytest.fixture
def checkout(repo: Path) -> Path:
    if not (repo / "CONTRIBUTING.md").is_file():
        pytest.skip("docs: these tests need the checkout")
    return repo


def test_the_recipe_of_a_loss_clusters_digits_and_passes_the_tests_of_losses(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(checkout, tmp_path, "A new loss")
    copy.check_style()
    assert copy.run_its_command()["parameters"]["loss"] == "soft-hinge"
    assert copy.accuracy("result") > 0.9
    shutil.copy(checkout / "tests" / "model" / "test_losses.py", tmp_path)
    copy.run("-m", "pytest", "-q", "-x", "-n0", "--noconftest", "-p", "no:cacheprovider", "test_losses.py")


def test_the_recipe_of_a_solver_clusters_digits_and_goes_on_after_an_interrupt(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(checkout, tmp_path, "A new solver")
    copy.check_style()
    assert copy.run_its_command()["choices"]["method"] == "subgradient"
    assert copy.accuracy("result") > 0.9
    copy.run("-c", INTERRUPTED)
    straight, resumed = (zarr.open(str(tmp_path / name / "labels.zarr"))[:] for name in ("result", "again"))
    np.testing.assert_array_equal(straight, resumed)
