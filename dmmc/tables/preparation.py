"""`TablePreparation`: learns from a table how to make a matrix of it, and makes the same of new rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any, Self

import numpy as np
import pyarrow
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dmmc.array_types import Array
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.info.row_numbers import BY_NAME, are_spread, tell_unrepeated
from dmmc.profile.units import Units
from dmmc.solvers.state_shapes import Between, Each, Either, OneOf, Only, Text, find_misfit
from dmmc.tables.columns import MISSING, Column, to_numbers, to_texts
from dmmc.tables.medians import find_median
from dmmc.tables.rows import TableInMemory, TableRows, tell_row, to_table
from dmmc.tables.survey import MOST_TEXTS, ColumnSurvey, find_missing, find_repeated, find_text, survey
from dmmc.tables.texts import TypedTexts

MISSING_WAYS = ("median", "drop", "refuse")
SCALES = ("standard", "auto")
LARGEST = 1e300
TOLD = 50
"""Names that a sentence lists."""
_NUMBER = Between(-LARGEST, LARGEST)
_COLUMN = Only(
    {
        "name": Text(),
        "kind": OneOf("number", "boolean", "date", "category"),
        "fill": _NUMBER,
        "shift": _NUMBER,
        "scale": Between(1e-300, LARGEST),
        "categories": Each(Text(), least=0),
    }
)
RECIPE = Only({"id": Either(OneOf(None), Text()), "missing": OneOf(*MISSING_WAYS), "columns": Each(_COLUMN)})


class TablePreparation(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A matrix of a table: numbers and dates on one scale, categories one-hot, missing cells filled.

    Every used column weighs the same: numbers, truth values (0 or 1) and dates (days) are standardised, and the
    columns of a category together have variance 1. Missing numbers become the median, missing truth values the
    share of true ones, missing categories a category of their own; a category not met before counts with the rare ones.
    Columns of one value, ids, row numbers and texts that hardly repeat are left out, with a warning that names them;
    so are whole numbers that never repeat in a column that is called a number, code or key. Others of these are used,
    and mentioned.

    Parameters
    ----------
    id : name of the column that names the rows; None to find it, by its name or as a text that never repeats
    columns : names of the columns to use; None for all that say something
    drop : names of columns to leave out
    missing : "median" fills; "drop" leaves out rows with a missing cell; "refuse" raises `InputError`
    rare : categories of a smaller share of the rows are counted together
    most_categories : columns that one category takes at most
    scale : "standard" puts all columns on one scale; "auto" leaves numbers as they are where every used column is one

    Attributes
    ----------
    columns_ : how each used column becomes numbers
    id_ : name of the id column, or None
    left_out_ : why columns that were not asked to be left out were: reason by name
    n_missing_ : missing cells of each used column that has any
    n_rows_ : rows that it was learned from
    """

    columns_: list[Column]

    def __init__(
        self,
        *,
        id: str | None = None,
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        missing: str = "median",
        rare: float = 0.01,
        most_categories: int = 50,
        scale: str = "standard",
    ) -> None:
        self.id = id
        self.columns = columns
        self.drop = drop
        self.missing = missing
        self.rare = rare
        self.most_categories = most_categories
        self.scale = scale

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a table: a frame of pandas or polars, a pyarrow table, or a dict of columns."""
        del y
        return self.learn(TypedTexts(TableInMemory(to_table(X)), [self.id]))

    def learn(self, rows: TableRows) -> Self:
        """Learn from a table that is read in parts, a few times: the columns at large, then the median of each."""
        self._check_parameters(rows)
        if self.id is not None:
            self._refuse_repeated(rows, self.id)
        asked = [name for name in rows.names if name != self.id and name not in (self.drop or ())]
        found = survey(rows, asked if self.columns is None else self._list_candidates(rows, asked))
        self.n_rows_ = next(iter(found.values())).n_rows if found else 0
        self._refuse_spoilt(rows, [found[name] for name in asked if name in found])
        self.id_ = self.id if self.id is not None else self._find_id(rows, found)
        names = [name for name in asked if name != self.id_]
        self.left_out_: dict[str, str] = {}
        if self.columns is not None:
            names = [name for name in names if name in self.columns]
        else:
            for name in names:
                reason = "it is an index" if name == rows.index else found[name].find_reason(self.most_categories)
                if reason:
                    self.left_out_[name] = reason + self._tell_repeated(rows, found[name])
            names = [name for name in names if name not in self.left_out_]
        if not names:
            told = "".join(f"; {name!r} was left out, as {reason}" for name, reason in self.left_out_.items())
            raise InputError(
                f"{rows.name} has no column to use, of {', '.join(map(repr, rows.names))}{told}."
                if rows.names and self.n_rows_
                else f"{rows.name} has no rows."
            )
        self.n_missing_ = {name: found[name].missing for name in names if found[name].missing}
        if self.missing == "refuse":
            self._refuse_missing(rows, found, names)
        if self.missing == "drop" and self.n_missing_:
            kinds = {name: found[name].kind for name in names}
            found = survey(rows, names, lambda part: part.filter(pyarrow.array(~_find_gone(part, kinds))))
            if found[names[0]].n_rows == 0:
                raise InputError(f"every row of {rows.name} has a missing cell: missing='median' fills them.")
        scaled = self.scale == "standard" or any(found[name].kind != "number" for name in names)
        self.columns_ = [self._learn(rows, found[name], scaled) for name in names]
        self._tell()
        self._tell_numbers(rows, [found[name] for name in names])
        if self.columns is None:
            _tell_unrepeated([found[name] for name in names], scaled)
        return self

    def transform(self, X: Any) -> Array:
        """The matrix of a table, float64 of shape (rows, columns of the matrix)."""
        return self.prepare(X)[0]

    def prepare(
        self, X: Any, *, fill: bool = False, place: Callable[[int], str] = tell_row
    ) -> tuple[Array, NDArray[np.int64], list[str] | None]:
        """The matrix, the number in the table of each of its rows, and their ids where the table has them.

        fill : leave out no rows, whatever `missing` says
        place : says where a row is
        """
        check_is_fitted(self)
        table = to_table(X)
        self.check_columns(table.column_names, "the table")
        cells = {column.name: column.read(table.column(column.name), place) for column in self.columns_}
        if self.id_ is not None and self.id_ in table.column_names:
            cells[self.id_] = table.column(self.id_)
        table = pyarrow.table(cells)
        kept = np.arange(table.num_rows)
        if self.missing != "median" and not fill:
            gone = _find_gone(table, {column.name: column.kind for column in self.columns_})
            if self.missing == "refuse" and gone.any():
                self._refuse_missing(TableInMemory(table), survey(TableInMemory(table), self._list_used()), None)
            table, kept = table.filter(pyarrow.array(~gone)), kept[~gone]
        ids = to_texts(table.column(self.id_)) if self.id_ in table.column_names else None

        def place_kept(row: int) -> str:
            return place(int(kept[row]) if len(kept) else 0)

        encoded = [column.encode_as_found(table.column(column.name), place_kept) for column in self.columns_]
        return np.hstack(encoded), kept, ids

    def check_columns(self, names: Sequence[str], where: str) -> None:
        """Refuse a table that lacks a column."""
        lacks = [column.name for column in self.columns_ if column.name not in names]
        if lacks:
            others = f" (and {len(lacks) - 1} more)" if len(lacks) > 1 else ""
            near = find_near(lacks[0], [name for name in names if name not in self._list_used()])
            hint = "it has" if near is None else f"did you mean {near!r}? It has"
            raise InputError(
                f"{where} lacks the column {lacks[0]!r}{others}, which the preparation was learned with; {hint} "
                f"{list_names(names)}."
            )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the matrix's columns: that of a column, or column=category."""
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.names_out], object)

    @property
    def has_categories(self) -> bool:
        """Whether some columns hold categories or truth values, so that rows lie in separate sheets."""
        return any(column.kind in ("category", "boolean") for column in self.columns_)

    @property
    def units(self) -> Units:
        """How the matrix's numbers become those of the table again."""
        each = [(column.kind, column.shift, column.scale) for column in self.columns_ for _ in column.names_out]
        kinds, shift, scale = zip(*each, strict=True)
        return Units(kinds, np.array(shift), np.array(scale))

    def to_recipe(self) -> dict[str, Any]:
        """What `transform` needs, as JSON can say it."""
        check_is_fitted(self)
        columns = [{**asdict(column), "categories": list(column.categories)} for column in self.columns_]
        return {"id": self.id_, "missing": self.missing, "columns": columns}

    @classmethod
    def from_recipe(cls, recipe: Any) -> Self:
        """The preparation again, from what `to_recipe` gave; anything else is refused."""
        if misfit := find_misfit(recipe, RECIPE, {}, "recipe"):
            raise InputError(f"this is not the recipe of a table: {misfit}.")
        found = cls(id=recipe["id"], missing=recipe["missing"])
        found.id_, found.left_out_, found.n_missing_ = recipe["id"], {}, {}
        found.columns_ = [Column(**{**one, "categories": tuple(one["categories"])}) for one in recipe["columns"]]
        return found

    def _check_parameters(self, rows: TableRows) -> None:
        if self.missing not in MISSING_WAYS:
            raise InputError(f"missing is {self.missing!r}; one of {', '.join(map(repr, MISSING_WAYS))} is wanted.")
        if self.scale not in SCALES:
            raise InputError(f"scale is {self.scale!r}; one of {', '.join(map(repr, SCALES))} is wanted.")
        for what in ("columns", "drop"):
            if isinstance(getattr(self, what), str):
                raise InputError(f"{what} is a text; a list of names is wanted.")
        asked = {"id": [] if self.id is None else [self.id], "columns": self.columns or (), "drop": self.drop or ()}
        for what, names in asked.items():
            for name in names:
                if name not in rows.names:
                    near = find_near(str(name), rows.names)
                    hint = "it" if near is None else f"did you mean {near!r}? It"
                    known = list_names(rows.names)
                    raise InputError(f"{what} names {name!r}, and {rows.name} has no such column; {hint} has {known}.")

    def _list_candidates(self, rows: TableRows, asked: list[str]) -> list[str]:
        """Columns to look at where some are asked for: these, and what may name the rows."""
        named = [name for name in asked if BY_NAME.fullmatch(name) or name == rows.index] if self.id is None else []
        return [name for name in asked if name in (self.columns or ()) or name in named]

    def _list_used(self) -> list[str]:
        return [column.name for column in self.columns_]

    def _find_id(self, rows: TableRows, found: Mapping[str, ColumnSurvey]) -> str | None:
        """The column that names the rows: one that never repeats and is an index, is called an id or holds texts."""
        free = [name for name in found if name not in (self.columns or ())]
        if rows.index in free and not found[rows.index].missing and find_repeated(rows, rows.index) is None:
            return rows.index
        names = [name for name in free if found[name].is_different]
        return min(names, key=lambda name: (found[name].only_counts, BY_NAME.fullmatch(name) is None), default=None)

    def _tell_repeated(self, rows: TableRows, found: ColumnSurvey) -> str:
        """Why a column that is called an id does not name the rows; "" of other columns."""
        if found.missing or found.hashes is not None or BY_NAME.fullmatch(found.name) is None:
            return ""
        twin = find_repeated(rows, found.name)
        return "" if twin is None else f", and repeats: {twin[0]!r} is in {' and '.join(map(rows.place, twin[1]))}"

    def _refuse_repeated(self, rows: TableRows, name: str) -> None:
        twin = find_repeated(rows, name)
        if twin is not None and twin[0] != MISSING:
            where = " and ".join(rows.place(row) for row in twin[1])
            raise InputError(f"the id column {name!r} holds {twin[0]!r} in several rows, {where}: ids must not repeat.")
        start = 0
        for part in rows.parts([name]):
            lost = find_missing(part.column(name), "category")
            if lost.any():
                where = rows.place(start + int(np.argmax(lost)))
                raise InputError(f"the id column {name!r} of {rows.name} has no value in {where}: each row needs one.")
            start += len(lost)

    def _refuse_spoilt(self, rows: TableRows, found: Sequence[ColumnSurvey]) -> None:
        """Refuse a column of numbers among which some cells hold words: as texts, its numbers would say nothing."""
        for column in found:
            words = column.list_spoilers()
            if words and column.has_many_numbers and column.name != rows.index:
                ids = "; if it names the rows, say so (--id, id=)" if column.is_different else ""
                raise InputError(
                    f"column {column.name!r} holds numbers, and {_tell_words(rows, column.name, words)}: correct or "
                    f"empty such cells, or leave the column out (--drop, drop=){ids}."
                )

    def _refuse_missing(self, rows: TableRows, found: Mapping[str, ColumnSurvey], names: Sequence[str] | None) -> None:
        for name in found if names is None else names:
            if found[name].missing:
                raise InputError(
                    f"column {name!r} has no value in {rows.place(found[name].first_missing)}: missing='median' fills "
                    "such cells, missing='drop' leaves out their rows."
                )

    def _learn(self, rows: TableRows, found: ColumnSurvey, scaled: bool) -> Column:
        """How a column becomes numbers, from what was found of it, and its median."""
        name, kind = found.name, found.kind
        if kind == "nothing":
            raise InputError(f"column {name!r} has no value: leave it out.")
        if kind == "category":
            if not found.has_all:
                raise InputError(
                    f"column {name!r} holds more than {MOST_TEXTS:,} different texts, too many for a category: leave "
                    "it out."
                )
            return self._learn_category(name, found.count_texts(), found.n_rows)
        if found.run is None:
            raise InputError(f"column {name!r} has no value: leave it out.")
        given = found.n_rows - found.missing
        low, high = float(found.run.low[0]), float(found.run.high[0])

        def read() -> Iterator[NDArray[np.float64]]:
            for part in rows.parts([name]):
                numbers = to_numbers(part.column(name), kind)
                yield numbers[~np.isnan(numbers)]

        if kind == "boolean":
            fill = float(found.scaler.mean_[0])
        elif found.missing or not scaled or self.missing == "median":
            fill = find_median(read, given, low, high)
        else:
            fill = float(found.scaler.mean_[0])
        if not scaled:
            return Column(name, kind, fill)
        if found.missing:
            found.scaler.partial_fit(np.array([[fill]]), sample_weight=np.array([float(found.missing)]))
        return Column(name, kind, fill, float(found.scaler.mean_[0]), float(found.scaler.scale_[0]))

    def _learn_category(self, name: str, counts: Mapping[str, int], n_rows: int) -> Column:
        """The categories that have a column of their own, by the rules of scikit-learn's OneHotEncoder."""
        texts = np.array(sorted(counts), object)
        often = np.array([counts[text] for text in texts])
        rare = often < self.rare * n_rows
        most = self.most_categories - 1
        if len(often) - rare.sum() > most:
            rare[np.argsort(often, kind="stable")[: len(often) - most]] = True
        share = np.append(often[~rare], often[rare].sum()) / n_rows
        spread = float(np.sqrt((share * (1.0 - share)).sum()))
        return Column(name, "category", scale=spread or 1.0, categories=tuple(texts[~rare].tolist()))

    def _tell(self) -> None:
        """Warn of what was found and done."""
        if self.id_ is not None and self.id is None:
            warn(f"column {self.id_!r} was taken as the ids of the rows, as it never repeats.", ClusteringWarning)
        for name, reason in self.left_out_.items():
            named = "columns= (--columns) names those to use"
            warn(f"column {name!r} was left out, as {reason}; {named}.", ClusteringWarning)
        if self.n_missing_:
            done = "their rows are left out" if self.missing == "drop" else "they are filled"
            cells = ", ".join(f"{name!r} {count}" for name, count in self.n_missing_.items())
            warn(f"cells are missing, and {done}: {cells}.", ClusteringWarning)

    def _tell_numbers(self, rows: TableRows, used: Sequence[ColumnSurvey]) -> None:
        """Warn of columns that are categories as words stand among their numbers, which may have been meant as such."""
        for column in used:
            if words := column.list_spoilers():
                warn(
                    f"column {column.name!r} was taken as categories, as it holds few different numbers, and "
                    f"{_tell_words(rows, column.name, words)}; correct or empty such cells if it holds numbers.",
                    ClusteringWarning,
                )


def _tell_words(rows: TableRows, name: str, words: Sequence[str]) -> str:
    """The first of some texts in a column, and where it is."""
    rest = f" (and {len(words) - 1} other texts)" if len(words) > 1 else ""
    return f"{words[0]!r}{rest} in {rows.place(find_text(rows, name, words[0]))}"


def find_near(name: str, names: Sequence[str]) -> str | None:
    """The one of some names that may have been meant: the same but for case and spaces, or a similar one."""
    same = {other.casefold().strip(): other for other in reversed(names)}
    near = get_close_matches(name.casefold().strip(), same, 1)
    return same[near[0]] if near else None


def list_names(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first and how many more there are."""
    more = f" and {len(names) - TOLD:,} more" if len(names) > TOLD else ""
    return ", ".join(map(repr, names[:TOLD])) + more


def _tell_unrepeated(used: Sequence[ColumnSurvey], scaled: bool) -> None:
    """Mention used columns that may be ids; where they are not `scaled`, row numbers are told of with the matrix."""
    names = [
        column.name
        for column in used
        if column.never_repeats
        and column.run is not None
        and (scaled or are_spread(column.run.low[0], column.run.high[0], column.n_rows))
    ]
    if names:
        warn(tell_unrepeated(names), ClusteringWarning)


def _find_gone(table: Any, kinds: Mapping[str, str]) -> NDArray[np.bool_]:
    """Which rows of a table lack a cell of these columns."""
    gone = np.zeros(table.num_rows, bool)
    for name, kind in kinds.items():
        gone |= find_missing(table.column(name), kind)
    return gone
