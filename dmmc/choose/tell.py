"""What `auto` says of its choice: what was chosen, what came close, and what to try."""

from collections.abc import Mapping
from typing import Any

LATE = "the time was up"
"""Why a candidate was not tried, or not to its end."""
CLOSE = 1.5
"""A score up to this many times that of the answer is close."""


def tell_choice(choices: Mapping[str, Any], effort: str = "balanced") -> list[str]:
    """Three lines of words about `choices["candidates"]`; none where nothing was chosen.

    choices : as in `run.json`
    effort : with which they were made
    """
    candidates = [c for c in choices.get("candidates", []) if c["score"] is not None]
    chosen = next((c for c in candidates if c["chosen"]), None)
    if chosen is None:
        return []
    others = [c for c in candidates if c is not chosen]
    tried = "; ".join(f"{c['name']} {c['score']:.3g}" for c in others)
    why = f", {choices['why']}" if "why" in choices else ""
    lines = [f"chosen: {chosen['name']}, cut {chosen['score']:.3g}{why}" + (f" (others: {tried})" if tried else "")]
    close = [f"{c['name']} ({c['why_not']})" for c in others if c["score"] <= CLOSE * chosen["score"]]
    lines.append(f"came close: {'; '.join(close)}" if close else "came close: nothing")
    if "starts" in choices:  # linked pairs
        told = [
            f"{one['name']} ({one['links_broken']} links broken)" for one in choices["starts"] if "links_broken" in one
        ]
        return [*lines, f"with the links: {choices['started']}; tried: {', '.join(told)}"]
    lines.append("try: " + ", or ".join(_suggest(choices, chosen, others, effort)))
    return lines


def _suggest(choices: Mapping[str, Any], chosen: Any, others: list[Any], effort: str) -> list[str]:
    """What a user could try next."""
    found = []
    number = choices.get("n_clusters")
    late = [c["name"] for c in choices.get("candidates", []) if c["why_not"] == LATE]
    if late:
        found.append(f"a longer --max-seconds: the time was up before {' and '.join(late)}")
    if isinstance(number, Mapping) and number["runner_up"] != number["suggestion"]:
        found.append(f"-k {number['runner_up']}, the next best guess ({number['suggestion']} was the first)")
    if effort != "best" and not late:
        more = {"fast": "balanced", "balanced": "best"}[effort]
        found.append(f"--effort {more}")
    methods = [c for c in (chosen, *others) if c["parameters"]]
    if methods:
        best = min(methods, key=lambda c: c["score"])
        settings = "".join(f" --set {name}={value}" for name, value in best["parameters"].items() if name != "method")
        asked = f" -k {number['suggestion']}" if isinstance(number, Mapping) else ""
        found.append(f"--method {best['parameters']['method']}{asked}{settings} to have {best['name']} alone")
    return found or ["another number of clusters with -k"]
