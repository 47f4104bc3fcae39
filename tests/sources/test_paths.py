"""Which files a source is: what is passed over, and what is refused rather than passed over or waited for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from permissions import without_override

import dmmc
from dmmc.sources.paths import find_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two parquet files of ten rows each, one in a folder of its own."""
    (tmp_path / "data" / "month=1").mkdir(parents=True)
    for path in ("a.parquet", "month=1/b.pq"):
        pyarrow.parquet.write_table(table(10), tmp_path / "data" / path)
    return tmp_path / "data"


def table(n: int) -> Any:
    return pa.table({"x": np.arange(n) + 0.5, "y": np.arange(n) % 3})


def names(source: Any) -> list[str]:
    found = find_files(source)
    assert found is not None
    return [path.name for path in found.paths]


@pytest.mark.parametrize("hidden", ["_temporary/0", ".staging", "_delta_log"])
def test_what_a_writer_has_not_finished_is_no_part_of_a_folder(folder: Path, hidden: str) -> None:
    """Spark leaves such folders when it is ended: their rows would be there twice."""
    (folder / hidden).mkdir(parents=True)
    pyarrow.parquet.write_table(table(10), folder / hidden / "part.parquet")
    (folder / "_SUCCESS").write_text("")
    (folder / "_part.parquet").write_text("")
    assert names(folder) == ["a.parquet", "b.pq"]


def test_a_folder_may_be_called_like_a_file(folder: Path) -> None:
    (folder / "c.parquet").mkdir()
    pyarrow.parquet.write_table(table(10), folder / "c.parquet" / "part-0.parquet")
    assert names(folder) == ["a.parquet", "part-0.parquet", "b.pq"]


@pytest.mark.parametrize("pattern", [False, True])
@pytest.mark.parametrize("what", ["a pipe", "a link to nothing", "a link to a device"])
def test_a_part_that_is_no_file_is_refused_and_neither_waited_for_nor_left_out(
    folder: Path, what: str, pattern: bool
) -> None:
    part = folder / "c.parquet"
    if what == "a pipe":
        os.mkfifo(part)
    else:
        part.symlink_to("nowhere" if what == "a link to nothing" else "/dev/zero")
    with pytest.raises(dmmc.InputError, match=r"c\.parquet is neither a file nor a folder"):
        find_files(str(folder / "*.parquet") if pattern else folder)


def test_a_folder_that_cannot_be_listed_is_not_left_out(folder: Path) -> None:
    (folder / "month=1").chmod(0o000)
    try:
        with without_override(), pytest.raises(PermissionError):
            find_files(folder)
    finally:
        (folder / "month=1").chmod(0o700)


def test_an_empty_path_is_not_the_folder_that_one_is_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert len(names(".")) == 2
    with pytest.raises(dmmc.InputError, match="the path of the source is empty"):
        dmmc.fit("", 2)
