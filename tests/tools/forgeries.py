"""Changes to descriptions that dmmc wrote, for tests of what it refuses to read."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dmmc.results import array_folder, belonging

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
    list_again(folder.parent)


def list_again(folder: Path) -> None:
    """Let `run.json` of a result list the seals as they are now, if it is there, and lists any."""
    with suppress(OSError, ValueError):
        run = json.loads((folder / "run.json").read_text())
        if belonging.SEALS in run:
            run[belonging.SEALS] = belonging.list_seals(folder)
            (folder / "run.json").write_text(json.dumps(run))


def downgrade(folder: Path, kind: str, changed: dict[str, Any] | None = None) -> None:
    """Make a folder one of the format before seals, with right checksums; `changed` arrays are put into it."""
    description = json.loads((folder / f"{kind}.json").read_text())
    description["version"] = array_folder.SEALED - 1
    description["content"].pop(array_folder.SEAL, None)
    sign(folder, kind, description, changed or {})


def permute(folder: Path, name: str) -> dict[str, Any]:
    """An array of a folder with its first axis the other way around, as `downgrade` takes it."""
    return {name: np.load(folder / f"{name}.npy")[::-1].copy()}


def sign(folder: Path, kind: str, description: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write arrays and a description of them with right sizes and checksums, as whoever knows the outer format can.

    The seal stays what it was; `array_folder.make_seal` of the description gives the right one.
    """
    for name, array in arrays.items():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=False)
        data = buffer.getvalue()
        (folder / f"{name}.npy").write_bytes(data)
        entry = {"file": f"{name}.npy", "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        description["arrays"][name] = entry
    description.pop("checksum", None)
    description["checksum"] = array_folder._checksum(description)
    (folder / f"{kind}.json").write_text(json.dumps(description))
