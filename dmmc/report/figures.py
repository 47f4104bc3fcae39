"""The plots of a report, as plotly describes them: plain dicts of data and layout.

Text, grid and background get their colours from the page's style sheet, so that they follow light, dark and print.
"""

import colorsys
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.report import text
from dmmc.report.content import Page
from dmmc.report.largest import count_detailed

Figure = dict[str, Any]

POINTS = 5000  # rows drawn on the map
PASSES = 1500  # points of a curve
LABELLED = 15  # up to this many bars carry their number
ROWS_A_BAR = 6  # bins of a histogram are joined until a bar stands for about so many rows
FEWEST_BARS, MOST_BARS = 20, 60

# Ten hues of middle lightness that can be told apart on white and on near-black.
_TEN = ("#3b82d6", "#e08a1e", "#2fa36b", "#d6495b", "#8d6fd1", "#1aa6b7", "#c2569f", "#8a9a1f", "#b0713f", "#7b8794")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif"
_BAR_LINES = {"width": 0}


def choose_colours(k: int) -> list[str]:
    """One colour for each cluster."""
    if k <= len(_TEN):
        return list(_TEN[:k])
    golden = (5**0.5 - 1) / 2
    lightness = (0.46, 0.6, 0.53)
    shades = (colorsys.hls_to_rgb(0.58 + i * golden, lightness[i % 3], 0.62) for i in range(k))
    return [f"#{round(255 * r):02x}{round(255 * g):02x}{round(255 * b):02x}" for r, g, b in shades]


def draw_sizes(page: Page) -> Figure:
    """One bar for each cluster."""
    k, total = len(page.sizes), sum(page.sizes) + sum(page.hidden)
    bars: dict[str, Any] = {
        "type": "bar",
        "x": list(range(k)),
        "y": [int(size) for size in page.sizes],
        "customdata": [text.format_share(size, total) for size in page.sizes],
        "hovertemplate": "cluster %{x}: %{y:,} rows, %{customdata}<extra></extra>",
        "marker": {"color": choose_colours(k), "line": _BAR_LINES},
    }
    if k <= LABELLED:
        labels = [text.format_count(size) for size in page.sizes]
        bars.update(text=labels, textposition="outside", cliponaxis=False, textangle=0)
    every = {"tickmode": "linear", "tick0": 0, "dtick": 1} if k <= 2 * LABELLED else {"nticks": 12}
    return _make_figure(
        [bars],
        height=320,
        xaxis={"title": {"text": "cluster"}, "showgrid": False, "range": [-0.6, k - 0.4], **every},
        yaxis={"title": {"text": "rows"}, "rangemode": "tozero", "tickformat": ",~s"},
        bargap=0.5 if k <= 4 else 0.25 if k <= 2 * LABELLED else 0.1,
    )


def choose_points(page: Page) -> NDArray[np.intp]:
    """Which of the sampled rows are on the map: all that have a place on it, evenly thinned to `POINTS`."""
    xy = np.asarray(page.map_xy, dtype=np.float64).reshape(-1, 2)
    labels = np.asarray(page.map_labels)
    drawn = np.flatnonzero(np.isfinite(xy).all(axis=1) & (labels >= 0) & (labels < len(page.sizes)))
    return drawn if len(drawn) <= POINTS else drawn[np.arange(POINTS) * len(drawn) // POINTS]


def draw_map(page: Page) -> Figure:
    """The sampled rows, one trace for each cluster."""
    drawn = choose_points(page)
    xy = np.asarray(page.map_xy, dtype=np.float64).reshape(-1, 2)[drawn]
    labels, rows = np.asarray(page.map_labels)[drawn], np.asarray(page.map_rows)[drawn]
    told = _tell_points(page, drawn)
    size = 8 if len(drawn) <= 400 else 6 if len(drawn) <= 2000 else 5
    traces = []
    for cluster, colour in enumerate(choose_colours(len(page.sizes))):
        own = labels == cluster
        if own.any():
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "meta": cluster,
                    "x": _list_numbers(xy[own, 0]),
                    "y": _list_numbers(xy[own, 1]),
                    "customdata": [text.escape_for_plotly(row) for row in rows[own].tolist()],
                    "text": told[own].tolist(),
                    "hovertemplate": "row %{customdata}%{text}<extra></extra>",
                    "marker": {"color": colour, "size": size, "opacity": 0.75, "line": {"width": 0}},
                }
            )
    across, up = page.map_axes
    figure = _make_figure(
        traces,
        height=520,
        xaxis={"title": {"text": text.escape_for_plotly(across)}, "zeroline": False},
        yaxis={"title": {"text": text.escape_for_plotly(up)}, "zeroline": False},
        hovermode="closest",
        dragmode="zoom",
    )
    buttons = ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d", "toImage"]
    return {**figure, "config": {"modeBarButtons": [buttons]}}


def _tell_points(page: Page, drawn: NDArray[np.intp]) -> NDArray[Any]:
    """What is said of each drawn row beside its number: its id, what stands out of it, and its cluster."""
    found = []
    for i in drawn.tolist():
        cluster = int(page.map_labels[i])
        own = "" if page.map_ids is None else f", {text.escape_for_plotly(page.map_ids[i])}"
        told = "" if page.map_told is None else text.escape_for_plotly(page.map_told[i], 120)
        name = f": {text.escape_for_plotly(page.profiles[cluster].name)}" if cluster < len(page.profiles) else ""
        found.append(f"{own}{'<br>' if told else ''}{told}{'<br>' if told or name else ', '}cluster {cluster}{name}")
    return np.array(found, object)


def draw_margins(page: Page) -> Figure:
    """The margin histogram of each cluster, one above the other on one axis; each as high as its fullest bin."""
    k = count_detailed(page)
    edges, counts = _join_bins(page)
    left, right = edges[:-1], edges[1:]
    usable = np.isfinite(left) & np.isfinite(right)
    low, high = min(0.0, float(left[usable].min(initial=0.0))), float(right[usable].max(initial=0.0))
    constant = len(np.unique(edges[np.isfinite(edges)])) <= 1
    high += max(high - low, 1.0) if constant else 0.0  # room for a single bar
    least = (high - low) / (40 if constant else 500)
    traces = []
    for cluster, colour in enumerate(choose_colours(k)):
        own = counts[cluster]
        bins = np.flatnonzero(usable & (own > 0))
        if len(bins) == 0:
            continue
        height = own[bins] / own[bins].max()
        traces.append(
            {
                "type": "bar",
                "meta": cluster,
                "x": _list_numbers((left[bins] + right[bins]) / 2),
                "width": _list_numbers(np.maximum(right[bins] - left[bins], least)),
                "y": _list_numbers(0.88 * height),
                "base": k - 1 - cluster,
                "customdata": [round(n) for n in own[bins].tolist()],
                "hovertemplate": f"cluster {cluster}, margin near %{{x:.3~g}}: %{{customdata:,}} rows<extra></extra>",
                "marker": {"color": colour, "line": _BAR_LINES},
            }
        )
    row = min(110.0, max(20.0, 440.0 / max(k, 1)))
    names = {"tickvals": list(range(k - 1, -1, -1)), "ticktext": [str(cluster) for cluster in range(k)]}
    ticks = {"tickmode": "array", **names, "ticklabelposition": "outside top"}
    side = "bottom" if k <= LABELLED else "top"  # above what has to be scrolled
    return _make_figure(
        traces,
        height=round(row * k + 80),
        xaxis={"title": {"text": "margin"}, "zeroline": False, "range": [low, high], "side": side},
        yaxis={"title": {"text": "cluster"}, "range": [-0.06, k], "zeroline": False, "ticks": "", **ticks},
        barmode="overlay",
        hovermode="closest",
    )


def draw_objective(page: Page) -> Figure:
    """The objective of each pass and, where the history has it, the best so far."""
    return _draw_curves(page, {"objective": "objective", "best": "best so far"}, {"exponentformat": "power"})


def draw_gap(page: Page) -> Figure:
    """The gap after each pass, on a log scale: what is zero or negative is not on it."""
    values = [value for line in page.history if (value := text.to_finite(line.get("gap"))) is not None and value > 0]
    narrow = {"dtick": "D2"} if values and max(values) < 100 * min(values) else {}
    return _draw_curves(page, {"gap": "gap"}, {"type": "log", "tickformat": "~g", **narrow})


def draw_number(page: Page) -> Figure:
    """A curve for each kind of evidence for the number of clusters, in units of its highest; none where k was given."""
    choices = page.run.get("choices")
    found = choices.get("n_clusters") if isinstance(choices, dict) else None
    found = found if isinstance(found, dict) else {}
    numbers = found.get("compared")
    traces = []
    for number, (name, told) in enumerate(EVIDENCE.items()):
        values = found.get(name)
        if not isinstance(numbers, list) or not isinstance(values, list):
            continue
        known = [text.to_finite(value) for value in values]
        highest = max((value for value in known if value is not None), default=0.0)
        if highest > 0:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": told,
                    "x": [text.to_finite(value) for value in numbers],
                    "y": [None if value is None else value / highest for value in known],
                    "line": {"color": _TEN[number], "width": 1.5},
                    "hovertemplate": f"%{{x}} clusters: {told} %{{y:.2f}}<extra></extra>",
                }
            )
    return _make_figure(
        traces,
        height=280,
        xaxis={"title": {"text": "number of clusters"}, "showgrid": False},
        yaxis={"title": {"text": "what speaks for it"}},
        showlegend=True,
        legend={"orientation": "h"},
    )


def number_passes(history: Sequence[dict[str, Any]]) -> list[float]:
    """Where each line of the history stands: at its iteration, or at its place if iterations do not rise."""
    iterations = [text.to_finite(line.get("iteration")) for line in history]
    known = [at for at in iterations if at is not None]
    rising = len(known) == len(iterations) and all(a < b for a, b in pairwise(known))
    return known if rising else [float(i + 1) for i in range(len(history))]


def _draw_curves(page: Page, names: dict[str, str], axis: dict[str, Any]) -> Figure:
    """A curve for each key of the history that has numbers; `names` says what it is called."""
    at = number_passes(page.history)
    n = len(at)
    kept = range(n) if n <= PASSES else sorted({i * (n - 1) // (PASSES - 1) for i in range(PASSES)})
    positive = axis.get("type") == "log"
    curves: list[dict[str, Any]] = []
    for key, name in names.items():
        values = [text.to_finite(page.history[i].get(key)) for i in kept]
        values = [None if value is None or (positive and value <= 0) else value for value in values]
        if any(value is not None for value in values):
            more = {"customdata": [_list_others(page.history[i]) for i in kept]} if not curves else {}
            curves.append(
                {
                    "type": "scatter",
                    "mode": "lines" if curves or n > 60 else "lines+markers",
                    "name": name,
                    "x": [at[i] for i in kept],
                    "y": values,
                    "hovertemplate": f"pass %{{x}}: {name} %{{y:.5g}}{'%{customdata}' if more else ''}<extra></extra>",
                    "line": {"color": _TEN[len(curves)], "width": 2, "dash": "dot" if curves else "solid"},
                    "marker": {"size": 5},
                    "connectgaps": False,
                    **more,
                }
            )
    whole = {"tickmode": "linear", "tick0": at[0], "dtick": 1} if 0 < n <= 8 else {}
    return _make_figure(
        curves,
        height=300,
        xaxis={"title": {"text": "pass"}, "zeroline": False, "showgrid": False, "tickformat": ",d", **whole},
        yaxis={"title": {"text": next(iter(names))}, "zeroline": False, **axis},
        hovermode="x",
        showlegend=len(curves) > 1,
        legend={"x": 1, "xanchor": "right", "y": 1, "bgcolor": "rgba(0,0,0,0)"},
    )


def _join_bins(page: Page) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Edges and counts of the margin histogram, with neighbouring bins joined where rows are few or bins many."""
    counts = np.asarray(page.margin_counts, np.float64).reshape(len(page.sizes), -1)
    counts = np.where(np.isfinite(counts), counts, 0.0)
    edges = np.asarray(page.margin_edges, np.float64)
    clusters, bins = max(1, int((counts.sum(axis=1) > 0).sum())), counts.shape[1]
    most = MOST_BARS if len(counts) <= 2 * LABELLED else MOST_BARS // 2
    wanted = min(most, max(FEWEST_BARS, counts.sum() / clusters / ROWS_A_BAR))
    starts = np.arange(0, bins, max(1, math.ceil(bins / wanted)))
    return np.append(edges[starts], edges[-1:]), np.add.reduceat(counts, starts, axis=1)


def _list_others(line: dict[str, Any]) -> str:
    """What else a line of the history knows, for its hover text."""
    found = ((what, text.to_finite(line.get(what))) for what in ("planes", "flips", "seconds"))
    return "".join(f"<br>{what} {value:g}" for what, value in found if value is not None)


def _make_figure(traces: list[dict[str, Any]], **more: Any) -> Figure:
    """The traces in the layout that all plots share, and what is different in this one; without buttons."""
    for axis in ("xaxis", "yaxis"):
        more[axis] = {"automargin": True, "fixedrange": "dragmode" not in more, **more[axis]}
    layout = {
        "autosize": True,
        "margin": {"l": 48, "r": 12, "t": 18, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": _FONT, "size": 12},
        "hoverlabel": {"font": {"family": _FONT, "size": 13}, "align": "left"},
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#8a94a3", "activecolor": _TEN[0]},
        "showlegend": False,
        "dragmode": False,
        **more,
    }
    return {"data": traces, "layout": layout, "config": {"displayModeBar": False}}


def _list_numbers(values: NDArray[Any]) -> list[float | None]:
    return [text.to_finite(value) for value in values.tolist()]


EVIDENCE = {
    "cut_jumps": "rise of the cut",
    "merge_jumps": "merge heights",
    "eigengaps": "eigengap",
    "strengths": "prediction strength",
}
"""What speaks for a number of clusters, by its name in run.json."""

PLOTS = {  # by the id of the element that each is drawn in
    "plot-sizes": draw_sizes,
    "plot-map": draw_map,
    "plot-margins": draw_margins,
    "plot-objective": draw_objective,
    "plot-gap": draw_gap,
    "plot-number": draw_number,
}


def draw(page: Page) -> dict[str, Figure]:
    """Every plot that has something to show, by the id of its element."""
    return {name: figure for name, make in PLOTS.items() if (figure := make(page))["data"]}
