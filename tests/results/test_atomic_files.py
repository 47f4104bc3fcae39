"""Files and folders appear in one step or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dmmc.results import atomic_files


def make(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "text").write_text(text)
    return folder


def test_a_folder_appears_when_all_of_it_is_written(tmp_path: Path) -> None:
    target = tmp_path / "far" / "out"
    with atomic_files.write_folder(target) as aside:
        (aside / "text").write_text("new")
        assert not target.exists()
    assert (target / "text").read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["out"]


@pytest.mark.parametrize("unique", [False, True])
def test_a_folder_that_could_not_be_written_leaves_the_earlier_one_alone(unique: bool, tmp_path: Path) -> None:
    target = make(tmp_path / "out", "old")
    with pytest.raises(KeyboardInterrupt), atomic_files.write_folder(target, unique=unique):
        raise KeyboardInterrupt
    assert (target / "text").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("exchange", [True, False])
def test_a_folder_is_replaced_only_where_that_is_asked_for(
    exchange: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchange:
        monkeypatch.setattr(atomic_files, "_exchange", lambda one, other: False)
    target = make(tmp_path / "out", "old")
    with pytest.raises(OSError, match="not empty"), atomic_files.write_folder(target, replace=False) as aside:
        (aside / "text").write_text("new")
    assert (target / "text").read_text() == "old"
    with atomic_files.write_folder(target) as aside:
        (aside / "text").write_text("new")
    assert (target / "text").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_two_writers_of_one_target_do_not_disturb_each_other(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with atomic_files.write_folder(target, unique=True) as one, atomic_files.write_folder(target, unique=True) as other:
        for aside in (one, other):
            (aside / "text").write_text(aside.name)
    assert (target / "text").read_text() == one.name
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_what_a_killed_writer_left_is_removed_by_the_next(tmp_path: Path) -> None:
    make(tmp_path / ".out.new", "half")
    with atomic_files.write_folder(tmp_path / "out") as aside:
        assert not any(aside.iterdir())
    atomic_files.remove_folder(tmp_path / "out")
    atomic_files.remove_folder(tmp_path / "out")
    assert not any(tmp_path.iterdir())
