"""Changes to descriptions that dmmc wrote, for tests of what it refuses to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], Any]


def put(value: Any, *path: Any) -> Change:
    """A change that puts a value at a path of keys and indices."""

    def change(content: dict[str, Any]) -> None:
        inner: Any = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change
