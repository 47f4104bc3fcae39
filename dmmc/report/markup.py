"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dmmc.report import elements, figures, rows, text
from dmmc.report.content import Page

ENTRIES = 400
"""Lines of one table of parameters."""
WARNINGS = 100


def body(page: Page) -> str:
    """Everything between the page's head and its scripts."""
    parts = (
        headline(page),
        chooser(page),
        sizes(page),
        sample_map(page),
        margins(page),
        convergence(page),
        rows.examples(page),
        warnings(page),
        parameters(page),
        versions(page),
        command(page),
    )
    return "\n".join(parts)


def headline(page: Page) -> str:
    """What was clustered, into how many clusters, how long it took."""
    data = _dict(page.run, "data")
    given, features = _whole(data.get("n_rows")), _whole(data.get("n_features"))
    n = sum(page.sizes) if given is None else given
    k, seconds, method = len(page.sizes), _seconds(page), _method(page)
    facts = [("rows", text.count(n))]
    if features is not None:
        facts.append(("features", text.count(features)))
    facts.append(("clusters", text.count(k)))
    if seconds is not None:
        facts.append(("time", text.duration(seconds)))
    if page.history:
        facts.append(("passes", text.count(len(page.history))))
    told = text.plural(n, "row")
    if features is not None:
        told += f" of {text.plural(features, 'feature')}"
    sentence = f"{told} in {text.plural(k, 'cluster')}"
    if method is not None:
        sentence += f", by {text.markup(method, 60)}"
    if seconds is not None:
        sentence += f" in {text.duration(seconds)}"
    tiles = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)
    told_of = _warnings(page)
    alarm = f'<p class="alarm"><a href="#warnings">{text.plural(len(told_of), "warning")}</a></p>' if told_of else ""
    return (
        f'<header><p class="kind">Maximum margin clustering</p><h1>{text.markup(page.title, 160)}</h1>'
        f'<p class="sentence">{sentence}.</p>{alarm}<dl class="tiles">{tiles}</dl></header>'
    )


def chooser(page: Page) -> str:
    """Buttons that bring one cluster to the front, and the legend of all colours; shown by the script."""
    start = '<button type="button" aria-pressed='
    buttons = "".join(
        f'{start}"false" data-cluster="{cluster}">{elements.swatch(colour)}{cluster}</button>'
        for cluster, colour in enumerate(figures.colours(len(page.sizes)))
    )
    everything = f'{start}"true" data-cluster="">all</button>'
    return f'<nav class="chooser" aria-label="Cluster to show" hidden><span>cluster</span>{everything}{buttons}</nav>'


def sizes(page: Page) -> str:
    """Bars and a table with shares."""
    total = sum(page.sizes)
    middles = _medians(page)
    lines = "".join(
        f'<tr data-row="{cluster}"><th scope="row">{elements.swatch(colour)}{cluster}</th><td>{text.count(size)}</td>'
        f"<td>{text.share(size, total)}</td><td>{middle}</td></tr>"
        for cluster, (colour, size, middle) in enumerate(
            zip(figures.colours(len(page.sizes)), page.sizes, middles, strict=True)
        )
    )
    head = elements.head("cluster", "rows", "share", "median margin")
    table = elements.scroll("Cluster sizes", f'<table class="numbers">{head}<tbody>{lines}</tbody></table>')
    empty = sum(size == 0 for size in page.sizes)
    note = f"{text.plural(empty, 'cluster')} without any row." if empty else ""
    plot = elements.plot(
        "plot-sizes", f"Bar chart of the rows in each of {len(page.sizes)} clusters; the table has the numbers"
    )
    return elements.section("sizes", "Cluster sizes", note, f'<div class="pair">{plot}{table}</div>')


def sample_map(page: Page) -> str:
    """The sampled rows along the model's own directions."""
    drawn, given = len(figures.sampled(page)), len(page.map_rows)
    if drawn == 0:
        return elements.section("map", "Map", "No sampled rows to draw.", "")
    of = f" of {text.count(given)} sampled" if drawn < given else ""
    along = text.attribute(page.map_along, 160)
    note = f"{text.plural(drawn, 'row')}{of}, along {along}. Point at a dot for its row number."
    return elements.section(
        "map", "Map of sampled rows", note, elements.plot("plot-map", "Scatter plot of sampled rows by cluster")
    )


def margins(page: Page) -> str:
    """The margin histogram of each cluster."""
    if not np.asarray(page.margin_counts).any():
        return elements.section("margins", "Margins", "No margins were recorded.", "")
    lead = "its distance |f| from the boundary" if len(page.sizes) == 2 else "its lead over the runner-up cluster"
    note = (
        f"The margin of a row is {lead}: rows near zero could as well belong elsewhere. "
        "Each cluster is drawn to the height of its fullest bar."
    )
    plot = elements.scroll("Margins", elements.plot("plot-margins", "Histogram of margins for each cluster"), "tall")
    return elements.section("margins", "Margins", note, plot)


def convergence(page: Page) -> str:
    """Objective and gap over the passes."""
    if not page.history:
        return elements.section("convergence", "Convergence", "No passes were recorded.", "")
    last = page.history[-1]
    made = text.plural(len(page.history), "pass", "es")
    note = f"{made} over the data; at the end objective {text.number(last.get('objective'))}"
    note += f" and gap {text.number(last.get('gap'))}." if text.finite(last.get("gap")) is not None else "."
    plots = ""
    if any(text.finite(line.get("objective")) is not None for line in page.history):
        plots += elements.plot("plot-objective", "Objective after each pass")
    if any((text.finite(line.get("gap")) or 0.0) > 0 for line in page.history):
        plots += elements.plot("plot-gap", "Gap after each pass, on a log scale")
    return elements.section("convergence", "Convergence", note, f'<div class="halves">{plots}</div>')


def warnings(page: Page) -> str:
    """What the user should know of how the result came about."""
    told = _warnings(page)
    if not told:
        return elements.section("warnings", "Warnings", "None.", "")
    lines = "".join(f"<li>{text.markup(warning, 2000)}</li>" for warning in told[:WARNINGS])
    if len(told) > WARNINGS:
        lines += f"<li>and {text.count(len(told) - WARNINGS)} more, in run.json</li>"
    return elements.section("warnings", "Warnings", "", f'<ul class="warnings">{lines}</ul>')


def parameters(page: Page) -> str:
    """Parameters, and all else that run.json holds."""
    told_elsewhere = ("versions", "warnings", "command", "history")
    tables = [_entries("Method", page.run.get("parameters"))]
    rest = {key: value for key, value in page.run.items() if key not in ("parameters", *told_elsewhere)}
    groups = {key: value for key, value in rest.items() if isinstance(value, dict)}
    tables += [_entries(str(key).replace("_", " ").capitalize(), value) for key, value in groups.items()]
    tables.append(_entries("Run", {key: value for key, value in rest.items() if key not in groups}))
    found = "".join(tables)
    note = "" if found else "None were recorded."
    return elements.section("parameters", "Parameters", note, f'<div class="entries">{found}</div>' if found else "")


def versions(page: Page) -> str:
    """What it was made with."""
    found = _entries("Versions", page.run.get("versions"))
    note = "" if found else "None were recorded."
    return elements.section("versions", "Versions", note, f'<div class="entries">{found}</div>' if found else "")


def command(page: Page) -> str:
    """How to make it again."""
    shown = text.markup(page.command, 20_000, keep="\n")
    return elements.section("command", "The command that made it", "", f"<pre><code>{shown}</code></pre>")


def _medians(page: Page) -> list[str]:
    """The median margin of each cluster, as near as the histogram tells."""
    edges = np.asarray(page.margin_edges, np.float64)
    counts = np.nan_to_num(np.asarray(page.margin_counts, np.float64)).reshape(len(page.sizes), -1)
    found = np.full(len(counts), np.nan)
    for cluster, own in enumerate(counts):
        half = own.sum() / 2
        if half > 0:
            bin_ = int(np.searchsorted(own.cumsum(), half))
            inside = (half - own[:bin_].sum()) / own[bin_]
            found[cluster] = edges[bin_] + inside * (edges[bin_ + 1] - edges[bin_])
    return text.column(found.tolist())


def _entries(title: str, values: Any) -> str:
    """A table of names and values; nothing if there are none."""
    flat = list(_flat(values)) if isinstance(values, dict) else []
    if not flat:
        return ""
    lines = "".join(
        f'<tr><th scope="row">{text.markup(name, 80)}</th><td>{text.markup(_value(value))}</td></tr>'
        for name, value in flat[:ENTRIES]
    )
    if len(flat) > ENTRIES:
        lines += f'<tr><td colspan="2">and {text.count(len(flat) - ENTRIES)} more, in run.json</td></tr>'
    name = text.visible(title, 80)
    return (
        f"<div><h3>{text.markup(title, 80)}</h3>{elements.scroll(name, f'<table><tbody>{lines}</tbody></table>')}</div>"
    )


def _flat(values: dict[Any, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and depth < 4:
            yield from _flat(value, f"{before}{key}.", depth + 1)
        else:
            yield f"{before}{key}", value


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(_value(item) for item in value[:20])
        return shown + (f", … ({len(value):,} in all)" if len(value) > 20 else "")
    return str(value)


def _warnings(page: Page) -> list[Any]:
    told = page.run.get("warnings")
    if isinstance(told, str):
        return [told]
    return list(told) if isinstance(told, Iterable) else []


def _method(page: Page) -> str | None:
    for holder in (_dict(page.run, "choices"), _dict(page.run, "parameters"), page.run):
        if isinstance(holder.get("method"), str):
            return str(holder["method"])
    return None


def _seconds(page: Page) -> float | None:
    timings = _dict(page.run, "timings")
    last = page.history[-1] if page.history else {}
    found = (
        timings.get("total"),
        timings.get("seconds"),
        page.run.get("seconds"),
        timings.get("fit"),
        last.get("seconds"),
    )
    return next((known for value in found if (known := text.finite(value)) is not None and known >= 0), None)


def _dict(run: dict[str, Any], key: str) -> dict[str, Any]:
    found = run.get(key)
    return found if isinstance(found, dict) else {}


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | np.integer) else None
