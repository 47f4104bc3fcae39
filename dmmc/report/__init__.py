"""`report.html`: one self-contained page about one clustering.

`render` makes the page from `templates/page.html` (jinja2). Nothing is loaded from elsewhere: plotly.js, style and
images are inside it. Every string from outside (names, paths, warnings, parameters) is escaped by the template, and
the page's content security policy lets no script run but its own two.
"""

from dmmc.report.content import Comparison, Example, Page
from dmmc.report.page import MISSING, available, render

__all__ = ["MISSING", "Comparison", "Example", "Page", "available", "render"]
