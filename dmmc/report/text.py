"""Strings from outside made inert, and numbers as people read them."""

import base64
import html
import json
import math
import unicodedata
from collections.abc import Sequence
from typing import Any

LONG = 300
"""Characters of a string that are shown; of a longer one, its two ends."""

# Letters of several scripts and emoji are joined by these two: the only format characters that pass.
_JOINERS = "\u200c\u200d"
_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def make_visible(value: object, limit: int = LONG, keep: str = "") -> str:
    """A string of at most about `limit` characters that shows what it holds; characters in `keep` stay as they are."""
    text = str(value)
    if len(text) > limit:
        head, tail = limit * 2 // 3, limit // 4
        text = f"{text[:head]} … {text[-tail:]} ({len(text):,} characters)"
    return make_inert(text, keep)


def make_inert(text: str, keep: str = "") -> str:
    r"""Write out what is not seen (``\u202e``): control characters, direction marks, line separators, lone surrogates.

    So they can neither reorder the text around them nor fail to encode.
    """
    return "".join(c if c in keep or _shows(c) else c.encode("unicode_escape").decode() for c in text)


def make_csv_uri(table: str) -> str:
    """Lines of csv as an address that a browser offers to save."""
    packed = base64.b64encode(table.encode("utf-8", "backslashreplace")).decode("ascii")
    return f"data:text/csv;charset=utf-8;base64,{packed}"


def escape_for_plotly(value: object, limit: int = 60) -> str:
    """A string for plotly, which reads tags and entities in labels and hover texts."""
    return html.escape(make_visible(value, limit), quote=False)


def dump_for_script(value: Any) -> str:
    """JSON that can stand inside a script element: ASCII, and no character that could end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def to_finite(value: object) -> float | None:
    """The number, with five digits, or None for what is not a finite number: null in JSON, a hole in a curve."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None
    return float(f"{number:.5g}") if math.isfinite(number) else None


def format_number(value: object, digits: int = 4) -> str:
    """A measured number with a few digits, whatever its size; a dash for what is none."""
    known = to_finite(value)
    if known is None:
        return "–"
    return f"{known:,.0f}" if 10**digits <= abs(known) < 1e6 else f"{known:.{digits}g}"


def format_cell(value: float | str, digits: int = 3) -> str:
    """A number with a few digits; a text, such as a day, as it is."""
    return value if isinstance(value, str) else format_number(value, digits)


def format_column(values: Sequence[float]) -> list[str]:
    """Numbers that stand below each other: with the same number of decimals, so that they can be compared."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not 1e-3 <= largest < 1e6:
        return [format_number(value, 3) for value in values]
    decimals = max(0, 2 - math.floor(math.log10(largest)))
    return [f"{value:,.{decimals}f}" if math.isfinite(value) else "–" for value in values]


def format_count(value: int) -> str:
    """A number of things: 12,345."""
    return f"{value:,}"


def format_share(part: float, whole: float) -> str:
    """Part of a whole: 12.3 %."""
    return f"{100 * part / whole:.1f} %" if whole else "–"


def format_duration(seconds: float) -> str:
    """0.42 s, 12 s, 4 min 10 s, 2 h 05 min."""
    if seconds < 1:
        return f"{seconds:.2g} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60:02d} min"


def format_plural(n: int, noun: str, ending: str = "s") -> str:
    """1 row, 2 rows."""
    return f"{format_count(n)} {noun}{'' if n == 1 else ending}"


def _shows(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character) not in _UNSEEN
