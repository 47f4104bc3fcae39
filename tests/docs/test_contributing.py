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

pytestmark = pytest.mark.slow
CONFTEST = """
from pathlib import Path
import pytest

@pytest.fixture
def repo():
    return Path(__file__).parent
"""
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
        (folder / "docs").mkdir()
        text = page.split(f"\n## {section}\n")[1].split("\n## ")[0]
        self.commands = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)).splitlines()
        X, y = data_sets.load("digits")
        chosen = np.isin(y, (3, 8))
        self.truth = y[chosen]
        zarr.save(str(folder / "digits.zarr"), X[chosen])

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_its_commands(self) -> dict[str, Any]:
        """Run what the page says to type; gives what `dmmc fit` wrote to run.json."""
        make_page, fit = self.commands
        module, page = make_page.removeprefix("python -m ").split(" > ")
        (self.folder / page).write_text(self.run("-m", module), encoding="utf-8")
        self.run("-m", *fit.split(), "--quiet")
        found: dict[str, Any] = json.loads((self.folder / "result" / "run.json").read_text(encoding="utf-8"))
        return found

    def run_tests(self, checkout: Path, *names: str) -> None:
        """Run some tests of the repository on the copy; those of the command line have been run above."""
        for name in names:
            shutil.copy(checkout / "tests" / name, self.folder)
        (self.folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        files = [Path(name).name for name in names]
        self.run("-m", "pytest", "-q", "-x", "-n0", "-p", "no:cacheprovider", "-k", "not terminal", *files)

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
    assert copy.run_its_commands()["parameters"]["loss"] == "soft-hinge"
    assert copy.accuracy("result") > 0.9
    copy.run_tests(checkout, "model/test_losses.py", "app/test_parameter_tables.py")


def test_the_recipe_of_a_solver_clusters_digits_and_goes_on_after_an_interrupt(checkout: Path, tmp_path: Path) -> None:
    copy = Copy(checkout, tmp_path, "A new solver")
    copy.check_style()
    assert copy.run_its_commands()["choices"]["method"] == "subgradient"
    assert copy.accuracy("result") > 0.9
    assert re.search(r" - about .*\bsubgradient\b", copy.run("-m", "dmmc", "info", "digits.zarr"))
    copy.run_tests(checkout, "app/test_parameter_tables.py")
    copy.run("-c", INTERRUPTED)
    straight, resumed = (zarr.open(str(tmp_path / name / "labels.zarr"))[:] for name in ("result", "again"))
    np.testing.assert_array_equal(straight, resumed)
