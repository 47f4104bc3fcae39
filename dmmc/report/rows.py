"""Typical and borderline rows: as images, or by the features that say most of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from dmmc.report import elements, figures, images, text
from dmmc.report.content import Example, Page

IMAGE_BUDGET = 600_000
"""Characters that all images of a page may take."""
FEATURES = 5
"""Features told of a row that is no image."""
KINDS = {"typical": "Typical", "borderline": "Borderline"}


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
        return elements.section("examples", "Typical and borderline rows", "No rows were kept to show.", "")
    if page.image_shape is not None and images.drawable(page.image_shape, len(flat[0].values)):
        draw = _pictures(flat, page.image_shape)
        how = "The margin stands below each."
    else:
        draw, how = _tables(flat, page.feature_names)
    note = f"Typical rows lie in the middle of their cluster, borderline rows have the smallest margins. {how}"
    cards = "".join(_cards(page, shown, draw))
    abreast = max(4, *(len(own) for own in shown.values()))
    columns = f"--abreast:{abreast};--narrow:{(abreast + 1) // 2}"
    many = " many" if k > 12 else ""
    return elements.section(
        "examples",
        "Typical and borderline rows",
        note,
        f'<div class="cards{many}" style="{columns}" role="region" aria-label="Rows of each cluster" tabindex="0">'
        f"{cards}</div>",
    )


def _cards(page: Page, shown: dict[tuple[int, str], list[Example]], draw: dict[int, str]) -> Iterator[str]:
    total = sum(page.sizes)
    for cluster, colour in enumerate(figures.colours(len(page.sizes))):
        size = page.sizes[cluster]
        drawn = ""
        for kind, heading in KINDS.items():
            if own := shown.get((cluster, kind)):
                drawn += f'<h4>{heading}</h4><div class="rows">{"".join(draw[id(one)] for one in own)}</div>'
        told = f"<small>{text.plural(size, 'row')}, {text.share(size, total)}</small>"
        title = f"<h3>{elements.swatch(colour)}Cluster {cluster} {told}</h3>"
        yield f'<article class="card" data-of="{cluster}">{title}{drawn or "<p>No rows to show.</p>"}</article>'


def _pictures(flat: Sequence[Example], shape: tuple[int, ...]) -> dict[int, str]:
    uris = images.data_uris([example.values for example in flat], shape, IMAGE_BUDGET)
    form = f'style="aspect-ratio:{shape[1]}/{shape[0]}"'
    return {
        id(example): (
            f'<figure class="picture"><img src="{uri}" alt="row {text.attribute(example.row)}" {form}>'
            f"<figcaption>{_called(example, 24)}<br>{text.number(example.margin, 2)}</figcaption></figure>"
        )
        for example, uri in zip(flat, uris, strict=True)
    }


def _tables(flat: Sequence[Example], names: Sequence[str] | None) -> tuple[dict[int, str], str]:
    """Each row by the few features that say most of it, and a sentence on how they were chosen."""
    width = len(flat[0].values)
    zeros = sum(np.count_nonzero(np.asarray(example.values) == 0) for example in flat)
    mean, spread = np.zeros(width), np.ones(width)
    how = "Of each row its largest features are shown."
    if width <= FEATURES or zeros <= 0.7 * len(flat) * width:  # not sparse
        mean, spread = _mean_and_spread(flat)
        how = "Of each row those features are shown in which it differs most from the other rows shown here."
    drawn = {}
    for example in flat:
        row = _numbers(example)
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.nan_to_num(np.abs(row - mean) / spread)
        best = [int(i) for i in np.argsort(-weight, kind="stable")[:FEATURES] if weight[i] > 0]
        told = "".join(f"<li>{_feature(names, i)} <b>{text.number(row[i], 3)}</b></li>" for i in best)
        drawn[id(example)] = (
            f'<div class="line"><p>{_called(example, 40)} <small>margin {text.number(example.margin, 2)}</small></p>'
            f"<ul>{told or '<li>nothing stands out</li>'}</ul></div>"
        )
    return drawn, how


def _mean_and_spread(flat: Sequence[Example]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each feature over the rows, one row at a time: they can be wide. A constant feature is spread for ever."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum((_numbers(example) / len(flat) for example in flat), np.zeros(len(flat[0].values)))
        square = sum(((_numbers(example) - mean) ** 2 / len(flat) for example in flat), np.zeros(len(mean)))
    return mean, np.where(square > 0, np.sqrt(square), np.inf)


def _numbers(example: Example) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(example.values, np.float64), posinf=0.0, neginf=0.0)


def _feature(names: Sequence[str] | None, i: int) -> str:
    return text.markup(names[i], 40) if names is not None and i < len(names) else f"feature {i}"


def _called(example: Example, limit: int) -> str:
    return f"row {text.markup(example.row)}" if example.name is None else text.markup(example.name, limit)
