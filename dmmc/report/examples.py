"""Typical and borderline rows: as images, or by the features that say most of them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.report import images
from dmmc.report.content import Example, Page

IMAGE_BUDGET = 600_000  # characters that all images of a page may take
N_FEATURES = 5  # features shown of a row that is no image
KINDS = ("typical", "borderline")

Features = list[tuple[str, float]]


class Row(NamedTuple):
    """One row as it is drawn: its image, or names and values of features."""

    example: Example
    image: str | None
    features: Features


class Examples(NamedTuple):
    """All rows that are drawn."""

    rows: dict[tuple[int, str], list[Row]]  # of each cluster and kind that has any
    note: str  # what is shown of a row, as a sentence
    abreast: int  # most images in a line
    aspect: str  # width / height of an image


def choose(page: Page) -> Examples:
    """The first few examples of each cluster and kind, with their images or their features."""
    k = len(page.sizes)
    most = 8 if k <= 10 else 6 if k <= 30 else 4
    groups: dict[tuple[int, str], list[Example]] = {}
    for example in page.examples:
        if 0 <= example.cluster < k and example.kind in KINDS:
            groups.setdefault((example.cluster, example.kind), []).append(example)
    groups = {key: group[:most] for key, group in groups.items()}
    flat = [example for group in groups.values() for example in group]
    if not flat:
        return Examples({}, "", 0, "")
    shape, aspect = page.image_shape, ""
    if shape is not None and images.is_image(shape, len(flat[0].values)):
        uris = images.make_data_uris([example.values for example in flat], shape, IMAGE_BUDGET)
        rows = [Row(example, uri, []) for example, uri in zip(flat, uris, strict=True)]
        note, aspect = "The margin stands below each.", f"{shape[1]}/{shape[0]}"
    else:
        features, note = _choose_features(flat, page.feature_names or ())
        rows = [Row(example, None, own) for example, own in zip(flat, features, strict=True)]
    remaining = iter(rows)
    drawn = {key: [next(remaining) for _ in group] for key, group in groups.items()}
    return Examples(drawn, note, max(4, *map(len, groups.values())), aspect)


def _choose_features(flat: Sequence[Example], names: Sequence[str]) -> tuple[list[Features], str]:
    """Of each row the few features that say most of it, and a sentence on how they were chosen."""
    width = len(flat[0].values)
    zeros = sum(np.count_nonzero(np.asarray(example.values) == 0) for example in flat)
    mean, spread = np.zeros(width), np.ones(width)
    note = "Of each row its largest features are shown."
    if width <= N_FEATURES or zeros <= 0.7 * len(flat) * width:  # not sparse
        mean, spread = _find_mean_and_spread(flat)
        note = "Of each row those features are shown in which it differs most from the other rows shown here."
    chosen = []
    for example in flat:
        row = _get_numbers(example)
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.nan_to_num(np.abs(row - mean) / spread)
        best = [int(i) for i in np.argsort(-weight, kind="stable")[:N_FEATURES] if weight[i] > 0]
        chosen.append([(names[i] if i < len(names) else f"feature {i}", float(row[i])) for i in best])
    return chosen, note


def _find_mean_and_spread(flat: Sequence[Example]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each feature over the rows, taken one by one as they can be wide; a constant one has infinite spread."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean = sum((_get_numbers(example) / len(flat) for example in flat), np.zeros(len(flat[0].values)))
        square = sum(((_get_numbers(example) - mean) ** 2 / len(flat) for example in flat), np.zeros(len(mean)))
    return mean, np.where(square > 0, np.sqrt(square), np.inf)


def _get_numbers(example: Example) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(example.values, np.float64), posinf=0.0, neginf=0.0)
