"""Typical and borderline rows: as images, or by the features that say most of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from dmmc.profile.units import tell_cell
from dmmc.report import images
from dmmc.report.content import Example, Page

IMAGE_BUDGET = 600_000  # characters that all images of a page may take
N_FEATURES = 5  # features shown of a row that is no image
KINDS = ("typical", "borderline")


class Examples(NamedTuple):
    """All rows that are drawn."""

    rows: dict[tuple[int, str], list[Example]]  # of each cluster and kind that has any
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
        rows = [replace(example, image=uri) for example, uri in zip(flat, uris, strict=True)]
        note, aspect = "The margin stands below each.", f"{shape[1]}/{shape[0]}"
    else:
        rows, note = _choose_features(flat, page.feature_names or (), page.kinds)
    remaining = iter(rows)
    drawn = {key: [next(remaining) for _ in group] for key, group in groups.items()}
    return Examples(drawn, note, max(4, *map(len, groups.values())), aspect)


def _choose_features(
    flat: Sequence[Example], names: Sequence[str], kinds: Sequence[str] | None
) -> tuple[list[Example], str]:
    """Each row with the few features that say most of it, and a sentence on how they were chosen."""
    raw = np.array([example.values for example in flat], np.float64)
    rows = np.nan_to_num(raw, posinf=0.0, neginf=0.0)
    n, width = rows.shape
    weights = np.abs(rows)
    note = "Of each row its largest features are shown, those first that are large in the others of its cluster too."
    cluster = np.array([example.cluster for example in flat])
    for own in np.unique(cluster):
        weights[cluster == own] *= np.sqrt(np.mean(weights[cluster == own], axis=0))
    if width <= N_FEATURES or np.count_nonzero(raw == 0) <= 0.7 * raw.size:  # not sparse
        with np.errstate(over="ignore", invalid="ignore"):
            mean = (rows / n).sum(axis=0)
            square = ((rows - mean) ** 2 / n).sum(axis=0)
            weights = np.nan_to_num(np.abs(rows - mean) / np.where(square > 0, np.sqrt(square), np.inf))
        note = "Of each row those features are shown in which it differs most from the other rows shown here."
    chosen = []
    for example, row, weight in zip(flat, rows, weights, strict=True):
        best = [int(i) for i in np.argsort(-weight, kind="stable")[:N_FEATURES] if weight[i] > 0]
        features = tuple(
            (names[i] if i < len(names) else f"feature {i}", tell_cell(row[i], kinds[i] if kinds else "number"))
            for i in best
        )
        chosen.append(replace(example, features=features))
    return chosen, note
