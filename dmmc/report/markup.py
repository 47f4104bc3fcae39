"""The sections of a report, in the order in which they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from dmmc.report import figures, images, text
from dmmc.report.content import Example, Page

IMAGE_BUDGET = 600_000
"""Characters that all images of a page may take."""
FEATURES = 5
"""Features told of a row that is no image."""
ENTRIES = 400
"""Lines of one table of parameters."""
WARNINGS = 100
KINDS = {"typical": "Typical", "borderline": "Borderline"}


def body(page: Page) -> str:
    """Everything between the page's head and its scripts."""
    parts = (
        headline(page),
        chooser(page),
        sizes(page),
        sample_map(page),
        margins(page),
        convergence(page),
        examples(page),
        warnings(page),
        parameters(page),
        versions(page),
        command(page),
    )
    return "\n".join(parts)


def headline(page: Page) -> str:
    """What was clustered, into how many clusters, how long it took."""
    data = _dict(page.run, "data")
    rows, features = _whole(data.get("n_rows")), _whole(data.get("n_features"))
    rows = sum(page.sizes) if rows is None else rows
    k, seconds, method = len(page.sizes), _seconds(page), _method(page)
    facts = [("rows", text.count(rows))]
    if features is not None:
        facts.append(("features", text.count(features)))
    facts.append(("clusters", text.count(k)))
    if seconds is not None:
        facts.append(("time", text.duration(seconds)))
    if page.history:
        facts.append(("passes", text.count(len(page.history))))
    told = text.plural(rows, "row")
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
    buttons = "".join(
        f'<button type="button" data-cluster="{cluster}" aria-pressed="false">{_swatch(colour)}{cluster}</button>'
        for cluster, colour in enumerate(figures.colours(len(page.sizes)))
    )
    everything = '<button type="button" data-cluster="" aria-pressed="true">all</button>'
    return f'<nav class="chooser" aria-label="Cluster to show" hidden><span>cluster</span>{everything}{buttons}</nav>'


def sizes(page: Page) -> str:
    """Bars and a table with shares."""
    total = sum(page.sizes)
    middles = _medians(page)
    lines = "".join(
        f'<tr data-row="{cluster}"><th scope="row">{_swatch(colour)}{cluster}</th><td>{text.count(size)}</td>'
        f"<td>{text.share(size, total)}</td><td>{middle}</td></tr>"
        for cluster, (colour, size, middle) in enumerate(
            zip(figures.colours(len(page.sizes)), page.sizes, middles, strict=True)
        )
    )
    head = _head("cluster", "rows", "share", "median margin")
    table = _scroll("Cluster sizes", f'<table class="numbers">{head}<tbody>{lines}</tbody></table>')
    empty = sum(size == 0 for size in page.sizes)
    note = f"{text.plural(empty, 'cluster')} without any row." if empty else ""
    plot = _plot(
        "plot-sizes", f"Bar chart of the rows in each of {len(page.sizes)} clusters; the table has the numbers"
    )
    return _section("sizes", "Cluster sizes", note, f'<div class="pair">{plot}{table}</div>')


def sample_map(page: Page) -> str:
    """The sampled rows along the model's own directions."""
    drawn, given = len(figures.sampled(page)), len(page.map_rows)
    if drawn == 0:
        return _section("map", "Map", "No sampled rows to draw.", "")
    of = f" of {text.count(given)} sampled" if drawn < given else ""
    note = f"{text.plural(drawn, 'row')}{of}, along the model's own directions. Point at a dot for its row number."
    return _section("map", "Map of sampled rows", note, _plot("plot-map", "Scatter plot of sampled rows by cluster"))


def margins(page: Page) -> str:
    """The margin histogram of each cluster."""
    if not np.asarray(page.margin_counts).any():
        return _section("margins", "Margins", "No margins were recorded.", "")
    lead = "its distance |f| from the boundary" if len(page.sizes) == 2 else "its lead over the runner-up cluster"
    note = (
        f"The margin of a row is {lead}: rows near zero could as well belong elsewhere. "
        "Each cluster is drawn to the height of its fullest bar."
    )
    plot = _scroll("Margins", _plot("plot-margins", "Histogram of margins for each cluster"), "tall")
    return _section("margins", "Margins", note, plot)


def convergence(page: Page) -> str:
    """Objective and gap over the passes."""
    if not page.history:
        return _section("convergence", "Convergence", "No passes were recorded.", "")
    last = page.history[-1]
    made = text.plural(len(page.history), "pass", "es")
    note = f"{made} over the data; at the end objective {text.number(last.get('objective'))}"
    note += f" and gap {text.number(last.get('gap'))}." if text.finite(last.get("gap")) is not None else "."
    plots = _plot("plot-objective", "Objective after each pass")
    if any((text.finite(line.get("gap")) or 0.0) > 0 for line in page.history):
        plots += _plot("plot-gap", "Gap after each pass, on a log scale")
    return _section("convergence", "Convergence", note, f'<div class="halves">{plots}</div>')


def examples(page: Page) -> str:
    """Typical and borderline rows of each cluster."""
    k = len(page.sizes)
    most = 8 if k <= 10 else 6 if k <= 30 else 4
    shown: dict[tuple[int, str], list[Example]] = {}
    for example in page.examples:
        own = shown.setdefault((example.cluster, example.kind), [])
        if 0 <= example.cluster < k and example.kind in KINDS and len(own) < most:
            own.append(example)
    flat = [example for own in shown.values() for example in own]
    if not flat:
        return _section("examples", "Typical and borderline rows", "No rows were kept to show.", "")
    widths = {len(example.values) for example in flat}
    if len(widths) == 1 and images.drawable(page.image_shape, *widths) and page.image_shape is not None:
        draw = _pictures(flat, page.image_shape)
        note = (
            "Typical rows lie in the middle of their cluster, borderline rows have the smallest margins (below each)."
        )
    else:
        draw, how = _tables(flat, page.feature_names)
        note = f"Typical rows lie in the middle of their cluster, borderline rows have the smallest margins. {how}"
    cards = "".join(_cards(page, shown, draw))
    abreast = max(4, *(len(own) for own in shown.values()))
    columns = f"--abreast:{abreast};--narrow:{(abreast + 1) // 2}"
    many = " many" if k > 12 else ""
    return _section(
        "examples",
        "Typical and borderline rows",
        note,
        f'<div class="cards{many}" style="{columns}" role="region" aria-label="Rows of each cluster" tabindex="0">'
        f"{cards}</div>",
    )


def warnings(page: Page) -> str:
    """What the user should know of how the result came about."""
    told = _warnings(page)
    if not told:
        return _section("warnings", "Warnings", "None.", "")
    lines = "".join(f"<li>{text.markup(warning, 2000)}</li>" for warning in told[:WARNINGS])
    if len(told) > WARNINGS:
        lines += f"<li>and {text.count(len(told) - WARNINGS)} more, in run.json</li>"
    return _section("warnings", "Warnings", "", f'<ul class="warnings">{lines}</ul>')


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
    return _section("parameters", "Parameters", note, f'<div class="entries">{found}</div>' if found else "")


def versions(page: Page) -> str:
    """What it was made with."""
    found = _entries("Versions", page.run.get("versions"))
    note = "" if found else "None were recorded."
    return _section("versions", "Versions", note, f'<div class="entries">{found}</div>' if found else "")


def command(page: Page) -> str:
    """How to make it again."""
    shown = text.markup(page.command, 20_000, keep="\n")
    return _section("command", "The command that made it", "", f"<pre><code>{shown}</code></pre>")


def _cards(page: Page, shown: dict[tuple[int, str], list[Example]], draw: dict[int, str]) -> Iterator[str]:
    total = sum(page.sizes)
    for cluster, colour in enumerate(figures.colours(len(page.sizes))):
        size = page.sizes[cluster]
        drawn = ""
        for kind, heading in KINDS.items():
            if own := shown.get((cluster, kind)):
                drawn += f'<h4>{heading}</h4><div class="rows">{"".join(draw[id(one)] for one in own)}</div>'
        told = f"<small>{text.plural(size, 'row')}, {text.share(size, total)}</small>"
        title = f"<h3>{_swatch(colour)}Cluster {cluster} {told}</h3>"
        yield f'<article class="card" data-of="{cluster}">{title}{drawn or "<p>No rows to show.</p>"}</article>'


def _pictures(flat: Sequence[Example], shape: tuple[int, ...]) -> dict[int, str]:
    uris = images.data_uris([example.values for example in flat], shape, IMAGE_BUDGET)
    form = f'style="aspect-ratio:{shape[1]}/{shape[0]}"'
    return {
        id(example): (
            f'<figure class="picture"><img src="{uri}" alt="row {example.row}" {form}>'
            f"<figcaption>{_called(example, 24)}<br>{text.number(example.margin, 2)}</figcaption></figure>"
        )
        for example, uri in zip(flat, uris, strict=True)
    }


def _tables(flat: Sequence[Example], names: Sequence[str] | None) -> tuple[dict[int, str], str]:
    """Each row by the few features that say most of it, and a sentence on how they were chosen."""
    width = max(len(example.values) for example in flat)
    values = np.zeros((len(flat), width))
    for line, example in zip(values, flat, strict=True):
        line[: len(example.values)] = np.nan_to_num(np.asarray(example.values, np.float64), posinf=0.0, neginf=0.0)
    sparse = width > FEATURES and np.mean(values == 0) > 0.7
    if sparse:
        weight, how = np.abs(values), "Of each row its largest features are shown."
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            spread = values.std(axis=0)
            weight = np.abs(values - values.mean(axis=0)) / np.where(spread > 0, spread, np.inf)
        weight = np.nan_to_num(weight)
        how = "Of each row those features are shown in which it differs most from the other rows shown here."
    drawn = {}
    for example, line, heavy in zip(flat, values, weight, strict=True):
        best = [int(i) for i in np.argsort(-heavy, kind="stable")[:FEATURES] if heavy[i] > 0]
        told = "".join(f"<li>{_feature(names, i)} <b>{text.number(line[i], 3)}</b></li>" for i in best)
        drawn[id(example)] = (
            f'<div class="line"><p>{_called(example, 40)} <small>margin {text.number(example.margin, 2)}</small></p>'
            f"<ul>{told or '<li>nothing stands out</li>'}</ul></div>"
        )
    return drawn, how


def _feature(names: Sequence[str] | None, i: int) -> str:
    return text.markup(names[i], 40) if names is not None and i < len(names) else f"feature {i}"


def _called(example: Example, limit: int) -> str:
    return f"row {example.row}" if example.name is None else text.markup(example.name, limit)


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
    return f"<div><h3>{text.markup(title, 80)}</h3>{_scroll(name, f'<table><tbody>{lines}</tbody></table>')}</div>"


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


def _swatch(colour: str) -> str:
    return f'<i class="swatch" style="background:{colour}"></i>'


def _head(*names: str) -> str:
    cells = "".join(f'<th scope="col">{name}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _scroll(name: str, content: str, more: str = "") -> str:
    return f'<div class="scroll {more}" role="region" aria-label="{text.attribute(name)}" tabindex="0">{content}</div>'


def _plot(name: str, told: str) -> str:
    return f'<div class="plot" id="{name}" role="img" aria-label="{text.attribute(told)}"></div>'


def _section(name: str, title: str, note: str, content: str) -> str:
    told = f'<p class="note">{note}</p>' if note else ""
    return f'<section id="{name}"><h2>{title}</h2>{told}{content}</section>'
