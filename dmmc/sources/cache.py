"""Converted files that a later run finds again, as long as their sources are what they were."""

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from dmmc import __version__
from dmmc.convert.reading import Reader
from dmmc.convert.store import Writer
from dmmc.machine import MIB
from dmmc.results.array_folder import read_file
from dmmc.results.atomic_files import write_folder

FOLDER = "dmmc-cache"
ENTRY = "entry.json"
STORE = "rows.zarr"
LONGEST = 50
"""Characters of a source's name in that of its folder: with all that is added, no file system has too few bytes."""
LARGEST_ENTRY = 256 * MIB
"""Bytes: the recipe of a table may have very many categories."""
EVERY = 2.0
"""Seconds between two reports of progress."""

Progress = Callable[[dict[str, Any]], Any]


class Cache:
    """A folder of converted files, each in a folder of its own: `rows.zarr`, and `entry.json`, which says of what.

    asked : what the conversion depends on, beside the files
    """

    def __init__(self, folder: Path, name: str, files: list[dict[str, Any]], asked: dict[str, Any]) -> None:
        self.facts = {"dmmc": __version__, "files": files, "asked": asked}
        key = json.dumps([[one["path"] for one in files], asked], sort_keys=True)
        shown = name[:LONGEST].replace("*", "_")
        self.path = folder / f"{shown}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"
        self.store = self.path / STORE

    def find(self) -> dict[str, Any] | None:
        """What was noted when these very files were converted; None where they were not, or have changed since."""
        try:
            entry = json.loads(read_file(self.path / ENTRY, LARGEST_ENTRY))
        except (OSError, ValueError):  # InputError is one, too
            return None
        if not isinstance(entry, dict) or entry.pop("sha256", None) != _digest(entry):
            return None
        same = all(entry.get(name) == value for name, value in self.facts.items())
        return entry["notes"] if same and self.store.is_dir() else None

    @contextmanager
    def write(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Give a folder to convert into and a dict for notes; the entry appears, whole, when the block ends."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        notes: dict[str, Any] = {}
        with write_folder(self.path, unique=True) as aside:
            yield aside / STORE, notes
            entry = {**self.facts, "notes": notes}
            (aside / ENTRY).write_text(json.dumps({**entry, "sha256": _digest(entry)}, indent=1))


def _digest(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


def write_store(reader: Reader, store: Path, progress: Progress | None) -> None:
    """Write all rows of a reader as a zarr store, of which there is nothing yet if not all of them can be read."""
    begun = told = time.perf_counter()
    store.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".parts-", dir=store.parent) as scratch, closing(reader):
        writer = Writer(reader, Path(scratch), None)
        for piece in reader.pieces():
            writer.add(piece)
            now = time.perf_counter()
            if progress is not None and now - told > EVERY:
                told, fraction = now, reader.fraction(writer.n_rows)
                progress({"phase": "convert", "rows": writer.n_rows, "fraction": fraction, "seconds": now - begun})
        store.mkdir()
        writer.finish(store)
