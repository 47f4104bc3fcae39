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


def test_a_folder_of_csv_files_is_refused_with_a_pattern_that_takes_them(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    for day in (1, 2):
        (tmp_path / "parts" / f"day{day}.csv").write_text("x,y\n" + "".join(f"{i},{i % 3 + day}\n" for i in range(9)))
    with pytest.raises(dmmc.InputError, match="a folder with csv files") as caught:
        dmmc.fit(tmp_path / "parts", 2)
    pattern = str(caught.value).split("'")[-2]
    assert names(pattern) == ["day1.csv", "day2.csv"]
    dmmc.fit(tmp_path / "parts" / "day1.csv", 2, out=tmp_path / "out", method="cpmmc")
    with pytest.raises(dmmc.InputError, match="not a zarr store that can be opened"):  # with csv files, but a result
        dmmc.fit(tmp_path / "out", 2)


@pytest.mark.parametrize("plan", ["", ",basic"])
def test_a_list_of_csv_files_is_refused_with_the_pattern_that_may_be_meant(plan: str, tmp_path: Path) -> None:
    for day in (1, 2):
        lines = [f"{i},{i % 3}{plan}{i % 2 if plan else ''}" for i in range(9 + day)]
        (tmp_path / f"day{day}.csv").write_text("\n".join(["x,y" + ",plan" * bool(plan), *lines]) + "\n")
    with pytest.raises(dmmc.InputError, match=r"as a pattern, such as '.*day\*\.csv'"):
        dmmc.fit([tmp_path / "day1.csv", tmp_path / "day2.csv"], 2)


def test_what_is_nearly_a_frame_is_refused_with_what_makes_one_of_it() -> None:
    with pytest.raises(dmmc.InputError, match=r"the source is a dict: .* pyarrow\.table"):
        dmmc.fit({"x": [1.0, 2.0], "y": [3.0, 4.0]}, 2)
    polars = pytest.importorskip("polars")
    with pytest.raises(dmmc.InputError, match=r"LazyFrame .* frame\.collect\(\)"):
        dmmc.fit(polars.DataFrame({"x": [1.0, 2.0]}).lazy(), 2)


def test_an_empty_path_is_not_the_folder_that_one_is_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert len(names(".")) == 2
    with pytest.raises(dmmc.InputError, match="the path of the source is empty"):
        dmmc.fit("", 2)
