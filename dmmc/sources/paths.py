"""Which files a source is: one, a folder of parquet files, a pattern; and whether they stay as they are."""

import glob
import os
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from dmmc.convert import STORE_FILES
from dmmc.convert.csv_files import Csv
from dmmc.convert.formats import find_reader
from dmmc.convert.parquet import Parquet
from dmmc.convert.reading import Reader
from dmmc.data.readers.store_checks import refuse_odd_files
from dmmc.errors import InputError
from dmmc.machine import MIB

AT_ONCE = 4 * MIB
PARQUET = (".parquet", ".pq")


class Files(NamedTuple):
    """Files of one kind, in the order of their rows.

    name : what the user calls them
    kind : the class that reads one of them as a matrix
    """

    name: str
    paths: list[Path]
    kind: type[Reader]

    @property
    def is_table(self) -> bool:
        """Whether they may hold more than numbers."""
        return self.kind in (Csv, Parquet)

    @property
    def n_bytes(self) -> int:
        """Of all of them, on disk."""
        return sum(path.stat().st_size for path in self.paths)


def find_files(source: Any) -> Files | None:
    """The files that a path or pattern means; None for a zarr store, a URL and all that is no path."""
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source)
    path = Path(text)
    if "://" in text:
        return None
    if not text:
        raise InputError("the path of the source is empty: that of a zarr store, a file or a folder is wanted.")
    if path.is_dir():
        paths = _list_parquet(path)
        if not paths:
            _refuse_csv_folder(path)
        return Files(path.name, paths, Parquet) if paths else None
    if not os.path.lexists(path):
        return _match(text) if glob.has_magic(text) else None
    refuse_odd_files(text)
    if path.suffix == ".zip":
        return None
    return Files(path.name, [path], find_reader(path))


def _list_parquet(folder: Path) -> list[Path]:
    """The parquet files in a folder and in folders in it, but for names that begin with "." or "_".

    Writers give such names to what is not data, or not data yet, files and folders alike.
    """
    if any((folder / name).is_file() for name in STORE_FILES):
        return []
    paths = []
    for above, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found = (Path(above, name) for name in names if not name.startswith((".", "_")))
        paths += [path for path in found if path.suffix in PARQUET]
    for path in paths:
        refuse_odd_files(str(path))
    return sorted(paths)


def _refuse_csv_folder(folder: Path) -> None:
    """Say how csv files in a folder are given; in stores and results they are something else."""
    names = os.listdir(folder)
    if any(Path(name).suffix == ".csv" for name in names) and not {*STORE_FILES, "run.json"} & set(names):
        raise InputError(
            f"{str(folder)!r} is a folder with csv files, which may be of one table or not: if they are, say so by a "
            f"pattern, {str(folder / '*.csv')!r}."
        )


def _raise(error: OSError) -> None:
    """A folder that cannot be listed may have rows in it."""
    raise error


def _match(pattern: str) -> Files:
    paths = sorted(Path(path) for path in glob.glob(pattern, recursive=True) if not os.path.isdir(path))
    for path in paths:
        refuse_odd_files(str(path))
    if not paths:
        raise InputError(f"{pattern!r} matches no file: csv or parquet files are wanted.")
    kinds = {path: find_reader(path) for path in paths}
    first = kinds[paths[0]]
    other = next((path for path in paths if kinds[path] is not first), None)
    if other is not None:
        raise InputError(f"{pattern!r} matches files of several kinds, such as {paths[0].name} and {other.name}.")
    if len(paths) > 1 and first not in (Csv, Parquet):
        raise InputError(
            f"{pattern!r} matches {len(paths)} files: several csv or parquet files make one table, others not."
        )
    return Files(Path(pattern).name, paths, first)


def identify(files: Files) -> list[dict[str, Any]]:
    """Path, size, time and checksum of each file: what tells whether it has changed."""
    found = []
    for path in files.paths:
        told, checksum = path.stat(), 0
        with path.open("rb") as file:
            while data := file.read(AT_ONCE):
                checksum = zlib.crc32(data, checksum)
        found.append(
            {
                "path": str(path.resolve()),
                "size": told.st_size,
                "time": told.st_mtime_ns,
                "checksum": checksum,
            }
        )
    return found


def refuse_changed(files: Files, before: list[dict[str, Any]]) -> None:
    """Refuse files that are no longer what they were when they were first looked at."""
    for path, was in zip(files.paths, before, strict=True):
        try:
            (now,) = identify(files._replace(paths=[path]))
        except FileNotFoundError:
            now = {}
        if now != was:
            raise InputError(f"{path.name} changed while it was read: run this again when nobody writes it any more.")
