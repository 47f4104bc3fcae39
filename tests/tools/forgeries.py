"""Changes to descriptions that dmmc wrote, for tests of what it refuses to read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from dmmc.results import array_folder

Change = Callable[[dict[str, Any]], Any]


def put(value: Any, *path: Any) -> Change:
    """A change that puts a value at a path of keys and indices."""

    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


def write_sealed(folder: Path, kind: str, content: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write what was read and changed, with all checksums right and a seal of its own."""
    content = {name: value for name, value in content.items() if name != array_folder.SEAL}
    array_folder.write(folder, kind, content, arrays, sealed=True)
