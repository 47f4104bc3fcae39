"""`report.html`: one self-contained page about one clustering.

`render` makes the page. Nothing on the page comes from elsewhere: plotly.js, style and
images are inside it. Every string from outside (names, paths, warnings, parameters) is shown, never run: it is escaped
where it is put in, and the page's own content security policy lets no script run but the two it was made with.
"""

from __future__ import annotations

from dmmc.report.content import Example, Page
from dmmc.report.page import available, render

__all__ = ["Example", "Page", "available", "render"]
