"""What clusters are, for the page: names, what sets them apart, mean images, and classes of a known truth."""

from typing import Any, NamedTuple

import numpy as np

from dmmc.report import images, text
from dmmc.report.content import Page

SHOWN = 6
"""Features of a cluster that are shown."""
MOST_CLASSES = 60
"""Columns of a table of classes."""
IMAGE_BUDGET = 200_000
"""Characters that mean images may take."""
SURE = {0.85: "are well separated", 0.7: "are mostly separated"}
"""By the part of rows that are sure of their cluster."""


class Card(NamedTuple):
    """One cluster."""

    name: str
    features: list[tuple[str, str, str, float]]
    """Name, mean inside and outside, and how distinctive it is, -1 to 1."""
    image: str | None
    """Mean of its rows, where they are images: a data URI."""


def describe_clusters(page: Page) -> list[Card]:
    """A card for each cluster; none where nothing is known of them."""
    k = len(page.sizes)
    if len(page.profiles) != k:
        return []
    pictures: list[str] | list[None] = [None] * k
    shape = page.image_shape
    if shape is not None and page.centres is not None and images.is_image(shape, page.centres.shape[1]):
        pictures = images.make_data_uris(list(page.centres), shape, IMAGE_BUDGET)
    cards = []
    for profile, picture in zip(page.profiles, pictures, strict=True):
        features = [
            (f.name, text.format_cell(f.inside), text.format_cell(f.outside), float(f.distinctive))
            for f in profile.features[:SHOWN]
        ]
        cards.append(Card(profile.name, features, picture))
    return cards


def describe_separation(run: dict[str, Any]) -> str:
    """How well clusters are separated, as the end of a sentence; nothing where it was not recorded."""
    sure = text.to_finite(run.get("sure"))
    if sure is None:
        return ""
    words = next((told for least, told in SURE.items() if sure >= least), "lie close together")
    return f"The clusters {words}: {100 * sure:.0f} % of the rows are sure of theirs (confidence of .9 or more)."


def suggest(run: dict[str, Any], lines: list[str]) -> str:
    """What to try next, as a sentence."""
    told = next((line.removeprefix("try: ") for line in lines if line.startswith("try: ")), "")
    if told:
        return f"To try: {told}."
    return "To try: the same without a method, which compares several (dmmc fit), or another number of clusters."


class Confusion(NamedTuple):
    """Clusters beside known classes."""

    scores: list[tuple[str, str]]
    classes: list[str]
    rows: list[list[tuple[str, float]]]
    """For each cluster, the rows of each class and their part of the cluster, 0 to 1."""
    hidden: int
    """Classes that are not shown."""


def describe_truth(page: Page) -> Confusion | None:
    """The table of clusters and classes, classes in the order of the clusters that most of their rows are in."""
    if page.truth is None:
        return None
    counts = np.asarray(page.truth.counts)
    order = np.argsort(counts.argmax(axis=0), kind="stable")[:MOST_CLASSES]
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    scores = [(name.replace("_", " "), f"{value:.3f}") for name, value in page.truth.scores.items()]
    rows = [[(text.format_count(int(counts[c, j])), float(share[c, j])) for j in order] for c in range(len(counts))]
    return Confusion(scores, [page.truth.classes[j] for j in order], rows, counts.shape[1] - len(order))
