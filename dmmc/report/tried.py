"""What `auto` tried, for the page: three lines, a table of candidates, and evidence for the number of clusters."""

from typing import Any, NamedTuple

from dmmc.choose.tell import tell_choice
from dmmc.report import text

SHOWN = ("candidates", "n_clusters")
"""Choices that this section shows."""


class Tried(NamedTuple):
    """Sentences, and a row of text for each candidate."""

    lines: list[str]
    candidates: list[tuple[str, str, str, str, str]]
    """Name, cut, sizes of clusters, seconds, and what became of it."""


def describe(run: dict[str, Any]) -> Tried:
    """What run.json says of candidates; nothing where it says something else."""
    choices, parameters = run.get("choices"), run.get("parameters")
    effort = parameters.get("effort", "balanced") if isinstance(parameters, dict) else "balanced"
    try:
        assert isinstance(choices, dict)
        return Tried(tell_choice(choices, effort), [_describe(c) for c in choices.get("candidates", [])])
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError):  # a file that others have written
        return Tried([], [])


def _describe(candidate: dict[str, Any]) -> tuple[str, str, str, str, str]:
    sizes = candidate["sizes"] or []
    told = ", ".join(text.format_count(int(size)) for size in sizes[:20]) + (" …" if len(sizes) > 20 else "")
    return (
        str(candidate["name"]),
        text.format_number(candidate["score"], 3),
        told or "–",
        text.format_duration(float(candidate["seconds"] or 0.0)),
        "chosen" if candidate["chosen"] else str(candidate["why_not"]),
    )
