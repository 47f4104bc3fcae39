"""Importing dmmc is quick and offers what it promises."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dmmc

HEAVY = ("dask", "distributed", "zarr", "numba", "sklearn", "scipy", "numpy", "pandas")


def in_a_new_process(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_dmmc_imports_nothing_heavy() -> None:
    printed = in_a_new_process(f"import sys, dmmc; print([name for name in {HEAVY} if name in sys.modules])")
    assert printed.strip() == "[]"


def test_scoring_needs_neither_dask_nor_numba() -> None:
    printed = in_a_new_process(
        "import sys, dmmc; dmmc.score([0, 1], [1, 0]);"
        "print([name for name in ('dask', 'distributed', 'zarr', 'numba') if name in sys.modules])"
    )
    assert printed.strip() == "[]"


@pytest.mark.parametrize("name", dmmc.__all__)
def test_every_public_name_is_there_and_listed(name: str) -> None:
    assert getattr(dmmc, name) is not None
    assert name in dir(dmmc)


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fot'"):
        dmmc.fot  # noqa: B018


def test_a_star_import_brings_the_public_names() -> None:
    printed = in_a_new_process("from dmmc import *; print(callable(fit), callable(score), CuttingPlaneMMC.__name__)")
    assert printed.split() == ["True", "True", "CuttingPlaneMMC"]


def test_errors_are_value_errors_and_warnings_are_user_warnings() -> None:
    assert issubclass(dmmc.InputError, ValueError)
    assert issubclass(dmmc.ClusteringWarning, UserWarning)
    assert issubclass(dmmc.ConvergenceWarning, dmmc.ClusteringWarning)


def test_the_version_is_one_that_packaging_accepts() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+|rc\d+)?", dmmc.__version__)


def test_type_checkers_are_told_that_the_package_is_typed() -> None:
    assert (Path(dmmc.__file__).parent / "py.typed").is_file()
