"""From content to one HTML file, by the template `templates/page.html`."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from dmmc.errors import needs
from dmmc.report import figures, sections, text
from dmmc.report.content import Page
from dmmc.report.largest import show_largest

MISSING = needs("the report", "plotly", "jinja2")


def available() -> bool:
    """Whether plotly and jinja2 (extra ``report``) are there; without them no page can be made."""
    return find_spec("plotly") is not None and find_spec("jinja2") is not None


def render(page: Page) -> str:
    """One self-contained HTML page; an ImportError where plotly or jinja2 is not installed."""
    library, script = _read_plotly(), _read_file("page.js")
    template = _make_template()
    from markupsafe import Markup

    page = show_largest(page)
    drawn = figures.draw(page)
    html: str = template.render(
        **sections.describe(page),
        policy=_make_policy(library, script),
        figures=drawn,
        figures_json=Markup(text.dump_for_script([{"id": name, **figure} for name, figure in drawn.items()])),
        style=Markup(_read_file("page.css")),
        library=Markup(library),
        script=Markup(script),
    )
    return html


@cache
def _make_template() -> Any:
    """The page's template: every value is made inert, then escaped, unless it is `Markup` made here."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    def shown(value: object, limit: int = text.LONG, keep: str = "") -> Markup:
        """A string isolated from the direction of the text around it."""
        return Markup("<bdi>{}</bdi>").format(text.make_visible(value, limit, keep))

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else text.make_inert(str(value)),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(shown=shown, visible=text.make_visible)
    environment.globals["text"] = text
    return environment.from_string(_read_file("page.html"))


def _make_policy(*scripts: str) -> str:
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
def _read_file(name: str) -> str:
    return (files("dmmc.report") / "templates" / name).read_text("utf-8")


@cache
def _read_plotly() -> str:
    """plotly.js as it may stand inside a script element."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise ImportError(MISSING) from error
    script = str(get_plotlyjs()).replace("\r\n", "\n").replace("\r", "\n")
    return script.replace("</script", r"<\/script").replace("<!--", r"<\!--")
