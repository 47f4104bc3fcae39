"""From content to one HTML file."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from string import Template

from dmmc.report import figures, markup, text
from dmmc.report.content import Page


def available() -> bool:
    """Whether plotly (extra ``report``) is there; without it no page can be made."""
    return find_spec("plotly") is not None


def render(page: Page) -> str:
    """One self-contained HTML page.

    Raises
    ------
    ImportError
        If plotly is not installed.
    """
    body = markup.body(page)
    drawn = [{"id": name, **make(page)} for name, make in figures.PLOTS.items() if f'id="{name}"' in body]
    library, script = _plotly(), _file("page.js")
    return Template(_file("page.html")).substitute(
        policy=_policy(library, script),
        title=text.attribute(page.title, 160),
        style=_file("page.css"),
        body=body,
        figures=text.script_json(drawn),
        library=library,
        script=script,
    )


def _policy(*scripts: str) -> str:
    """Nothing from outside, and no script but these: what slips past an escape still cannot run."""
    allowed = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode('utf-8')).digest()).decode('ascii')}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


@cache
def _file(name: str) -> str:
    return (files("dmmc.report") / name).read_text("utf-8")


@cache
def _plotly() -> str:
    """plotly.js as it may stand inside a script element."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError("the report needs plotly: pip install 'dmmc[report]'.") from error
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")
