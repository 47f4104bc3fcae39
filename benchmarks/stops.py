"""Callbacks of tests and benchmarks that end a fit from within."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Stop(Exception):  # noqa: N818
    """Ends a fit from within."""


def stop_after(passes: int) -> Callable[[dict[str, Any]], None]:
    """A callback that lets a fit make so many passes."""
    heard: list[int] = []

    def hear(line: dict[str, Any]) -> None:
        heard.append(line["iteration"])
        if len(heard) == passes:
            raise Stop

    return hear


class Interrupt:
    """A listener (`progress`) that interrupts a fit when a phase begins."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    def __call__(self, event: dict[str, Any]) -> None:
        if event["phase"] == self.phase:
            raise KeyboardInterrupt
