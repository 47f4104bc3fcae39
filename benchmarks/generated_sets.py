"""Generated sets that judge `method="auto"`: thirteen with a truth, five Gaussians without any structure.

They were written before anything was clustered on them, and stay as they are. A set is a function of a seed; what
`benchmarks/auto.py` fits with ``random_state=s`` is drawn with seed s, for s = 0 to 4, so each line is of five draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

__all__ = ["GAUSSIANS", "GENERATED", "MIXED_UNITS", "SEEDS", "generate"]

SEEDS = (0, 1, 2, 3, 4)
"""Of the draws that are scored."""

Floats = NDArray[Any]
Drawn = tuple[Any, NDArray[np.int64]]
"""Rows (an array, a CSR matrix, or a list of views of the same rows), and the true cluster of each."""


def _labels(rng: np.random.Generator, sizes: list[int]) -> NDArray[np.int64]:
    """Cluster numbers in a random order: so many of each."""
    return rng.permutation(np.repeat(np.arange(len(sizes)), sizes))


def unequal_sizes(seed: int) -> Drawn:
    """Five round clusters of 1,800 down to 70 rows, 10 columns."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [1800, 700, 300, 130, 70])
    centres = 1.8 * rng.standard_normal((5, 10))
    return (centres[y] + rng.standard_normal((len(y), 10))).astype(np.float32), y


def unequal_variances(seed: int) -> Drawn:
    """Four round clusters of 750 rows with standard deviations of .5, 1, 2 and 3, 8 columns."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [750] * 4)
    centres = 4.0 * rng.standard_normal((4, 8))
    spread = np.array([0.5, 1.0, 2.0, 3.0])[y, None]
    return centres[y] + spread * rng.standard_normal((len(y), 8)), y


def rings(seed: int) -> Drawn:
    """Three rings around one another in the plane, radii 1, 2 and 3, rows in proportion to them."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [500, 1000, 1500])
    angle = rng.uniform(0.0, 2.0 * np.pi, len(y))
    radius = 1.0 + y + 0.1 * rng.standard_normal(len(y))
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


def moons(seed: int) -> Drawn:
    """Two half circles that reach into each other, noise .1, 2,000 points."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [1000, 1000])
    angle = rng.uniform(0.0, np.pi, len(y))
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    lower = np.column_stack([1.0 - np.cos(angle), 0.5 - np.sin(angle)])
    return np.where(y[:, None] == 0, upper, lower) + 0.1 * rng.standard_normal((len(y), 2)), y


def few_informative(seed: int) -> Drawn:
    """Four clusters of 500 rows that differ in 5 of 500 columns; the others are noise of the same variance inside."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [500] * 4)
    corners = 2.0 * np.array([[1, 1, 1, 1, 1], [-1, -1, 1, 1, -1], [1, -1, -1, -1, 1], [-1, 1, -1, 1, -1]])
    X = rng.standard_normal((len(y), 500))
    X[:, rng.choice(500, 5, replace=False)] += corners[y]
    return X.astype(np.float32), y


def heavy_tails(seed: int) -> Drawn:
    """Five clusters of 600 rows with the tails of a Student t of 2.5 degrees of freedom, 6 columns."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [600] * 5)
    centres = 4.0 * rng.standard_normal((5, 6))
    width = np.sqrt(2.5 / rng.chisquare(2.5, len(y)))[:, None]
    return centres[y] + width * rng.standard_normal((len(y), 6)), y


def sparse_topics(seed: int) -> Drawn:
    """Counts of 2,500 words in 3,000 texts of about 80 words; each text is mostly of one of 8 topics of unequal size.

    Words follow Zipf's law; a third of a text is common language, and a topic prefers some words to others.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, [750, 600, 450, 375, 300, 225, 165, 135])
    common = 1.0 / np.arange(1, 2501)
    common /= common.sum()
    topics = np.array([rng.dirichlet(0.02 + 100.0 * common) for _ in range(8)])
    lengths = 10 + rng.lognormal(4.0, 0.6, len(y)).astype(np.int64)
    blocks = []
    for own, length in zip(y, lengths, strict=True):
        mixture = 0.15 * rng.dirichlet(np.full(8, 0.2)) + 0.5 * np.eye(8)[own]
        blocks.append(rng.multinomial(length, 0.35 * common + mixture @ topics))
    return csr_matrix(np.array(blocks, np.float32)), y


def near_duplicates(seed: int) -> Drawn:
    """Sixty records, each repeated 10 to 80 times with noise of .001: six clusters of ten records, 12 columns."""
    rng = np.random.default_rng(seed)
    prototypes = 2.0 * np.repeat(rng.standard_normal((6, 12)), 10, axis=0) + rng.standard_normal((60, 12))
    record = rng.permutation(np.repeat(np.arange(60), rng.integers(10, 81, 60)))
    return prototypes[record] + 0.001 * rng.standard_normal((len(record), 12)), record // 10


def one_of_80(seed: int) -> Drawn:
    """Four clusters, of 80, 10, 6 and 4 % of 3,000 rows, the large one twice as long in one direction, 8 columns."""
    rng = np.random.default_rng(seed)
    y = _labels(rng, [2400, 300, 180, 120])
    centres = 2.0 * rng.standard_normal((4, 8))
    X = rng.standard_normal((len(y), 8))
    X[y == 0, 0] *= 2.0
    return (X + centres[y]).astype(np.float32), y


def customers_table(seed: int) -> Drawn:
    """2,500 customers: age in years, income and spending a year in euros, visits a year, days since the last, returns.

    Segments are 40, 30, 20 and 10 %: families, young people who come often and spend little, people with high incomes,
    retired people who come seldom. Money is lognormal, numbers of visits and returns are whole.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, [1000, 750, 500, 250])
    age = np.clip(np.rint(rng.normal(np.array([41, 25, 50, 70])[y], np.array([6, 4, 7, 6])[y])), 18, 95)
    income = rng.lognormal(np.log([38_000, 17_000, 110_000, 24_000])[y], 0.3)
    spending = rng.lognormal(np.log([2_400, 700, 6_500, 350])[y], 0.45)
    visits = rng.poisson(rng.lognormal(np.log([26, 40, 14, 6])[y], 0.25))
    away = np.rint(rng.exponential(np.array([14, 9, 26, 60])[y]))
    returns = rng.poisson(np.array([1.5, 4.0, 1.0, 0.3])[y])
    return np.column_stack([age, np.rint(income), np.round(spending, 2), visits, away, returns]), y


def cells(seed: int) -> Drawn:
    """Negative binomial counts of 800 genes in 3,000 cells of ten types of unequal size; totals vary threefold.

    Each type makes 25 genes of its own 4 to 12 times as much; types 8 and 9 share two thirds of theirs.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, [660, 540, 420, 360, 300, 240, 180, 120, 100, 80])
    base = rng.lognormal(0.0, 1.3, 800)
    change = np.ones((10, 800))
    marked = rng.permutation(800)[:250].reshape(10, 25)
    marked[9, :17] = marked[8, :17]
    for kind in range(10):
        change[kind, marked[kind]] = rng.uniform(4.0, 12.0, 25)
    change[9, marked[9, :17]] = change[8, marked[8, :17]]
    means = base * change
    means /= means.sum(axis=1, keepdims=True)
    totals = rng.lognormal(np.log(1500), 0.5, len(y))
    rates = totals[:, None] * means[y]
    counts = rng.poisson(rates * rng.gamma(2.0, 0.5, rates.shape))
    return csr_matrix(counts.astype(np.float32)), y


def two_views(seed: int) -> Drawn:
    """2,400 rows of six clusters in two feature spaces: one does not tell 0 from 1, the other 2 from 3.

    The first has 16 columns of all signs; the second 40, none negative, on a scale that is a hundred times larger.
    """
    rng = np.random.default_rng(seed)
    y = _labels(rng, [600, 500, 400, 400, 300, 200])
    a, b = 1.5 * rng.standard_normal((6, 16)), rng.standard_normal((6, 40))
    a[1], b[3] = a[0], b[2]
    first = a[y] + rng.standard_normal((len(y), 16))
    second = 100.0 * np.maximum(b[y] + rng.standard_normal((len(y), 40)), 0.0)
    return [first.astype(np.float32), second.astype(np.float32)], y


def no_structure(seed: int) -> Drawn:
    """3,000 rows of a Gaussian of 20 columns with falling variances, and labels that mean nothing."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((3000, 20)) / np.sqrt(np.arange(1, 21)), rng.integers(0, 5, 3000)


GENERATED: dict[str, tuple[Callable[[int], Drawn], int]] = {
    "unequal_sizes": (unequal_sizes, 5),
    "unequal_variances": (unequal_variances, 4),
    "rings": (rings, 3),
    "moons": (moons, 2),
    "few_informative": (few_informative, 4),
    "heavy_tails": (heavy_tails, 5),
    "sparse_topics": (sparse_topics, 8),
    "near_duplicates": (near_duplicates, 6),
    "one_of_80": (one_of_80, 4),
    "customers_table": (customers_table, 4),
    "cells": (cells, 10),
    "two_views": (two_views, 6),
    "no_structure": (no_structure, 5),
}
"""Functions of a seed, and the number of true clusters."""

MIXED_UNITS = ("customers_table", "two_views")
"""Sets whose columns are of mixed units: k-means on standardised rows counts too."""


def generate(name: str, seed: int) -> Drawn:
    """Rows and truth of one of `GENERATED`."""
    return GENERATED[name][0](seed)


def _round(rng: np.random.Generator) -> Floats:
    """Ten columns of equal variance."""
    return rng.standard_normal((2000, 10))


def _falling(rng: np.random.Generator) -> Floats:
    """Fifty columns with variances 1, 1/2, 1/3 and so on, turned at random."""
    turn, _ = np.linalg.qr(rng.standard_normal((50, 50)))
    return rng.standard_normal((2000, 50)) / np.sqrt(np.arange(1, 51)) @ turn


def _correlated(rng: np.random.Generator) -> Floats:
    """Fifteen columns with correlations of .7 in all pairs."""
    return np.sqrt(0.3) * rng.standard_normal((2000, 15)) + np.sqrt(0.7) * rng.standard_normal((2000, 1))


def _plane(rng: np.random.Generator) -> Floats:
    """Two columns, one three times as wide as the other."""
    return rng.standard_normal((2000, 2)) * [3.0, 1.0]


def _wide(rng: np.random.Generator) -> Floats:
    """A hundred columns of equal variance."""
    return rng.standard_normal((2000, 100))


GAUSSIANS: dict[str, Callable[[np.random.Generator], Floats]] = {
    "isotropic": _round,
    "decaying": _falling,
    "correlated": _correlated,
    "d = 2": _plane,
    "d = 100": _wide,
}
"""Sets of 2,000 rows without structure: functions of random numbers."""
