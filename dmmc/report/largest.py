"""A page of many clusters: the first hundred are shown, which are the largest, and all are a table to download."""

import csv
import io
from dataclasses import replace

import numpy as np

from dmmc.report.content import Page
from dmmc.report.summary import MOST_CLUSTERS

DETAILED = 6
"""Of many clusters, those that have a card, rows and a histogram of their own: the script that draws takes nearly all
of the 5 MB that a page may have."""
DRAWN = 200
"""Rows on the map of many clusters."""


def show_largest(page: Page, most: int = MOST_CLUSTERS) -> Page:
    """The page with its first `most` clusters, and a table of all; as it is where there are no more."""
    if len(page.sizes) <= most:
        return page
    truth = page.truth
    known = np.flatnonzero(np.asarray(page.map_labels) < most)
    drawn = known[np.arange(min(DRAWN, len(known))) * len(known) // max(1, min(DRAWN, len(known)))]
    return replace(
        page,
        sizes=page.sizes[:most],
        hidden=page.sizes[most:],
        table=write_table(page),
        margin_counts=np.asarray(page.margin_counts)[:most],
        examples=[example for example in page.examples if example.cluster < DETAILED],
        map_xy=np.asarray(page.map_xy)[drawn],
        map_labels=np.asarray(page.map_labels)[drawn],
        map_rows=np.asarray(page.map_rows)[drawn],
        map_ids=None if page.map_ids is None else [page.map_ids[i] for i in drawn],
        map_told=None,
        profiles=page.profiles[:most],
        centres=None if page.centres is None else page.centres[:most],
        truth=None if truth is None else replace(truth, counts=np.asarray(truth.counts)[:most]),
    )


def count_detailed(page: Page) -> int:
    """How many clusters have a card, rows and a histogram of their own."""
    return min(DETAILED, len(page.sizes)) if page.hidden else len(page.sizes)


def write_table(page: Page) -> str:
    """Number and rows of each cluster, as lines of csv."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["cluster", "rows"])
    writer.writerows((cluster, int(size)) for cluster, size in enumerate(page.sizes))
    return file.getvalue()
