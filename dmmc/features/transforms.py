"""Transforms of rows: what is done to a row before anything else, as part of the model.

    unit            the row divided by its norm
    sqrt-unit       square roots, then unit: for histograms, pixels and other amounts
    bm25            counts of words: how telling a word is, times how often it occurs, then unit (E32)
    log-normalise   counts of single cells: rows scaled to the median total, then log(1 + x) (E33)

Each is a pure function of a row and of a few numbers about the data, which one pass finds. Sparse rows stay sparse.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Rows
from dmmc.errors import InputError
from dmmc.model import inspect

TRANSFORMS = ("none", "unit", "sqrt-unit", "bm25", "log-normalise")
K1, B = 1.2, 0.75
"""Of BM25: how soon a repeated word counts no more; how much the length of a document counts."""
SPARSE = 0.05
"""Counts of which fewer than this part are not 0 are words; of cells more are."""


@dataclass(frozen=True)
class Transform:
    """A transform of rows with `n_features` columns.

    kind : its name
    scale : bm25: the mean length of a row; log-normalise: the median total; else 1
    weight : (d,) of each column for bm25, else empty
    """

    kind: str
    n_features: int
    scale: float
    weight: Array

    @property
    def n_values(self) -> int:
        """Columns of what it makes of rows: as many."""
        return self.n_features

    def apply(self, block: Block) -> Array | Csr:
        """The block's rows, transformed: float32, sparse ones as `Csr` with the same places.

        Those of a fit were looked at; in new ones a number below 0 may be met, which is an error that names it.
        """
        rows = block.rows
        if self.kind not in ("none", "unit"):
            _refuse_negative(block, self.kind)
        if isinstance(rows, Csr):
            lengths = np.diff(rows.indptr)
            which = np.repeat(np.arange(rows.n_rows), lengths)

            def total(values: Array) -> Array:
                return np.bincount(which, values, minlength=rows.n_rows)[which]

            columns = self.weight[rows.indices] if len(self.weight) else self.weight
            values = self._transform(rows.data.astype(np.float64), total, columns)
            return rows._replace(data=values.astype(np.float32))
        dtype = np.float64 if rows.dtype == np.float64 else np.float32
        return self._transform(
            rows.astype(dtype), lambda values: values.sum(axis=1, keepdims=True), self.weight
        ).astype(np.float32, copy=False)

    def _transform(self, x: Array, total: Callable[[Array], Array], weight: Array) -> Array:
        """The values x, given what the sum over a value's row is."""
        if self.kind == "log-normalise":
            return np.log1p(x * (self.scale / np.maximum(total(x), 1e-30)))
        if self.kind == "bm25":
            x = weight * x * (K1 + 1.0) / (x + K1 * (1.0 - B + B * total(x) / self.scale))
        elif self.kind == "sqrt-unit":
            x = np.sqrt(x)
        return np.asarray(x / np.sqrt(np.maximum(total(x * x), 1e-30)))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What a file keeps of it."""
        return {"kind": self.kind, "scale": self.scale}, {"transform_weight": self.weight}

    @classmethod
    def from_arrays(cls, content: Any, arrays: dict[str, Array], n_features: int) -> Self:
        """The transform again, from files that were looked at."""
        return cls(content["kind"], n_features, content["scale"], arrays["transform_weight"])


def _refuse_negative(block: Block, kind: str) -> None:
    """Amounts are at least 0."""
    values = block.rows.data if isinstance(block.rows, Csr) else block.rows
    if values.dtype.kind in "bu" or values.size == 0 or not values.min() < 0:
        return
    row, column = inspect.locate(block, int(np.argmax(values.reshape(-1) < 0)))
    raise InputError(
        f"row {row} holds {values[values < 0][0]:g} in column {column}; the model transforms rows by {kind!r}, which "
        "is for amounts of at least 0, as the rows were that it was fitted to."
    )


class Survey(NamedTuple):
    """What one pass finds of a block, for transforms."""

    least: float
    whole: bool
    """Whether all values are whole numbers."""
    totals: Array
    """(m,) the sum of each row."""
    used: Array
    """(d,) rows in which each column is not 0."""
    nonfinite: tuple[int, int] | None


def survey(block: Block, params: None) -> Survey:
    """As a pass: what transforms need to know of a block."""
    rows = block.rows
    if not np.isfinite(inspect.magnitude(block)):
        return Survey(0.0, False, np.zeros(0), np.zeros(0), inspect.first_nonfinite(block))
    if isinstance(rows, Csr):
        X, values = rows.to_scipy(), rows.data
        used = np.bincount(rows.indices[values != 0].astype(np.int64), minlength=rows.n_features)
        least = min(0.0, float(values.min())) if len(values) else 0.0
        totals = np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    else:
        values, used = rows, np.count_nonzero(rows, axis=0)
        least, totals = float(rows.min()), rows.sum(axis=1, dtype=np.float64)
    whole = values.dtype.kind in "biu" or bool((values == np.rint(values)).all())
    return Survey(least, whole, totals, used.astype(np.float64), None)


class Facts(NamedTuple):
    """What is known of all rows."""

    least: float
    whole: bool
    filled: float
    """Part of the values that are not 0."""
    totals: Array
    used: Array

    @property
    def counts(self) -> bool:
        """Whether all values are whole numbers of at least 0."""
        return self.whole and self.least >= 0


def look_at_rows(dataset: Rows, each: Callable[..., Iterable[Any]]) -> Facts:
    """One pass over all rows; NaN and infinity are refused by their place."""
    found = list(each(survey, None))
    for part in found:
        if part.nonfinite is not None:
            raise inspect.not_finite(dataset, part.nonfinite)
    used = np.sum([part.used for part in found], axis=0)
    filled = float(used.sum() / (dataset.n_rows * dataset.n_features))
    totals = np.concatenate([part.totals for part in found])
    return Facts(min(p.least for p in found), all(p.whole for p in found), filled, totals, used)


def suggest(dataset: Rows, facts: Facts) -> tuple[str, ...]:
    """Transforms that may serve these rows, by what they look like: one, or several for a judge to choose from.

    Counts from AnnData are cells. Counts in other sparse rows (or in rows of next to nothing but zeros) are words if
    few are not 0, else cells; other sparse rows are left alone. Dense rows that are nowhere below 0 may be amounts,
    which square roots put on one scale.
    """
    if facts.counts and (dataset.is_sparse or dataset.cells or facts.filled < SPARSE):
        return ("log-normalise",) if dataset.cells or facts.filled >= SPARSE else ("bm25",)
    if dataset.is_sparse or facts.least < 0:
        return ("none",)
    return "none", "sqrt-unit"


def are_weights(dataset: Rows, facts: Facts) -> bool:
    """Whether sparse rows hold weights of words, such as tf-idf: amounts that are no counts, few of them not 0."""
    return dataset.is_sparse and not facts.counts and facts.least >= 0 and facts.filled < SPARSE


def make_transform(kind: str, dataset: Rows, facts: Facts) -> Transform:
    """The transform of this name for these rows; rows that it is not for are refused in a sentence."""
    name = dataset.name
    if kind == "bm25" and not facts.counts:
        raise InputError(
            f"transform='bm25' is for counts of words, and {name} holds "
            f"{'numbers below 0' if facts.least < 0 else 'numbers that are not whole'}: choose transform='none' for "
            "tf-idf and other weights."
        )
    if kind in ("sqrt-unit", "log-normalise") and facts.least < 0:
        raise InputError(
            f"transform='{kind}' is for amounts of at least 0, and {name} holds {facts.least:g}: choose 'none' or "
            "'unit'."
        )
    weight, scale = np.zeros(0), 1.0
    totals = facts.totals[facts.totals > 0]
    if kind == "bm25":
        n = dataset.n_rows
        weight = np.log((n - facts.used + 0.5) / (facts.used + 0.5) + 1.0)
        scale = float(facts.totals.mean()) if len(totals) else 1.0
    elif kind == "log-normalise":
        scale = float(np.median(totals)) if len(totals) else 1.0
    return Transform(kind, dataset.n_features, scale, weight)
