"""What the sections of a page say: numbers, sentences and tables, for its template."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dmmc.report import clusters, examples, figures, text, tried
from dmmc.report.content import Page
from dmmc.report.largest import count_detailed

MOST_ENTRIES = 400  # lines of one table of parameters


class Table(NamedTuple):
    """Names and values, and how many more there are."""

    title: str
    entries: list[tuple[str, str]]
    hidden: int


def describe(page: Page) -> dict[str, Any]:
    """All that the template shows but the plots, by name."""
    run, k = page.run, len(page.sizes)
    n_labelled = sum(page.sizes) + sum(page.hidden)
    attempts = tried.describe(run)
    data = _get_dict(run, "data")
    n_rows, n_features, n_columns = (
        int(value) if isinstance(value, int | np.integer) else None
        for value in (data.get("n_rows"), data.get("n_features"), data.get("n_columns"))
    )
    return {
        "page": page,
        "k": k,
        "colours": figures.choose_colours(k),
        "medians": _find_medians(page),
        "n_detailed": count_detailed(page),
        "n_clusters": k + len(page.hidden),
        "table": text.make_csv_uri(page.table) if page.table else "",
        "n_labelled": n_labelled,
        "n_rows": n_labelled if n_rows is None else n_rows,
        "n_features": n_features,
        "n_columns": None if n_features is None or n_columns == n_features else n_columns,
        "seconds": _find_seconds(page),
        "method": _find_method(run),
        "n_drawn": len(figures.choose_points(page)),
        "examples": examples.choose(page),
        "tried": attempts,
        "cards": clusters.describe_clusters(page),
        "separation": clusters.describe_separation(run),
        "suggestion": clusters.suggest(run, attempts.lines),
        "confusion": clusters.describe_truth(page),
        "warnings": _list_warnings(run),
        "parameters": _list_parameters(run),
        "versions": _make_tables([("Versions", run.get("versions"))]),
    }


def _find_medians(page: Page) -> list[str]:
    """The median margin of each cluster, as near as the histogram tells."""
    edges = np.asarray(page.margin_edges, np.float64)
    counts = np.nan_to_num(np.asarray(page.margin_counts, np.float64)).reshape(len(page.sizes), -1)
    medians = np.full(len(counts), np.nan)
    for cluster, own in enumerate(counts):
        half = own.sum() / 2
        if half > 0:
            bin_ = int(np.searchsorted(own.cumsum(), half))
            inside = (half - own[:bin_].sum()) / own[bin_]
            medians[cluster] = edges[bin_] + inside * (edges[bin_ + 1] - edges[bin_])
    return text.format_column(medians.tolist())


def _list_warnings(run: dict[str, Any]) -> list[Any]:
    told = run.get("warnings")
    if isinstance(told, str):
        return [told]
    return list(told) if isinstance(told, Iterable) else []


def _list_parameters(run: dict[str, Any]) -> list[Table]:
    """Parameters, and all else that run.json holds and no other section shows."""
    shown = ("parameters", "versions", "warnings", "command", "history")
    rest = {key: value for key, value in run.items() if key not in shown}
    if isinstance(rest.get("choices"), dict):
        rest["choices"] = {key: value for key, value in rest["choices"].items() if key not in tried.SHOWN}
    groups = {key: value for key, value in rest.items() if isinstance(value, dict)}
    return _make_tables(
        [
            ("Method", run.get("parameters")),
            *((str(key).replace("_", " ").capitalize(), value) for key, value in groups.items()),
            ("Run", {key: value for key, value in rest.items() if key not in groups}),
        ]
    )


def _make_tables(groups: Iterable[tuple[str, Any]]) -> list[Table]:
    """One table for each group that has entries."""
    tables = []
    for title, values in groups:
        entries = [(name, _show_value(value)) for name, value in _flatten(values)] if isinstance(values, dict) else []
        if entries:
            tables.append(Table(title, entries[:MOST_ENTRIES], max(0, len(entries) - MOST_ENTRIES)))
    return tables


def _flatten(values: dict[Any, Any], before: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict) and value and depth < 4:
            yield from _flatten(value, f"{before}{key}.", depth + 1)
        else:
            yield f"{before}{key}", value


def _show_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list | tuple):
        shown = ", ".join(_show_value(item) for item in value[:20])
        return shown + (f", … ({len(value):,} in all)" if len(value) > 20 else "")
    return str(value)


def _find_method(run: dict[str, Any]) -> str | None:
    holders = (_get_dict(run, "choices"), run)
    return next((holder["method"] for holder in holders if isinstance(holder.get("method"), str)), None)


def _find_seconds(page: Page) -> float | None:
    timings = _get_dict(page.run, "timings")
    last = page.history[-1] if page.history else {}
    values = (timings.get("total"), last.get("seconds"))
    return next((known for value in values if (known := text.to_finite(value)) is not None and known >= 0), None)


def _get_dict(run: dict[str, Any], key: str) -> dict[str, Any]:
    found = run.get(key)
    return found if isinstance(found, dict) else {}
