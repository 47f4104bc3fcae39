"""Any source to what `dmmc.data` opens: files are read or converted, tables are prepared."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dmmc.convert.csv_files import Csv
from dmmc.convert.formats import is_known
from dmmc.convert.reading import Reader
from dmmc.data.dataset import Dataset, Rows
from dmmc.data.open import cut, measure_store, open_dataset, open_rows
from dmmc.data.views import are_views, suggest_pattern
from dmmc.errors import ClusteringWarning, InputError, collect_warnings, warn
from dmmc.info.row_numbers import BY_NAME, MAY_NAME
from dmmc.machine import MIB
from dmmc.sources import csv_tables
from dmmc.sources.cache import FOLDER, Cache, Progress, write_store
from dmmc.sources.frames import (
    copy_dask_frame,
    hold_numbers,
    is_dask_frame,
    is_frame,
    is_plain,
    load_arrow,
    may_hold_ids,
    read_frame,
    refuse_unread,
    tell_of_frame,
    tell_of_matrix,
)
from dmmc.sources.parquet_tables import ParquetTable
from dmmc.sources.paths import Files, find_files, identify, refuse_changed
from dmmc.sources.readers import Incomplete, JoinedFiles, PreparedTable, gather
from dmmc.stores.urls import Remote, find_remote
from dmmc.tables.columns import Column
from dmmc.tables.preparation import TablePreparation, list_names
from dmmc.tables.rows import TableRows
from dmmc.tables.texts import TYPES, TypedTexts
from dmmc.time_limit import NO_LIMIT, TimeLimit

SMALL = 32 * MIB
"""Files up to this size are read into memory at once; larger ones are converted."""


@dataclass(frozen=True)
class TableOptions:
    """What is asked of a table; None where nothing is."""

    id: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    missing: str | None = None

    @property
    def given(self) -> list[str]:
        """Names of the options that are given."""
        return [name for name, value in asdict(self).items() if value is not None]

    def make_preparation(self) -> TablePreparation:
        """A preparation that has learned nothing yet."""
        missing = "median" if self.missing is None else self.missing
        return TablePreparation(id=self.id, columns=self.columns, drop=self.drop, missing=missing, scale="auto")


@dataclass(frozen=True)
class Wanted:
    """What a fitted model wants of rows: the preparation it was fitted with, or the names or number of its columns."""

    preparation: TablePreparation | None = None
    names: tuple[str, ...] | None = None
    n_features: int | None = None

    def refuse_matrix(self, source: Any) -> None:
        """Refuse rows that are no table, if the model was fitted with one: its columns are not those of a matrix."""
        if self.preparation is None or isinstance(source, Dataset):
            return
        if isinstance(source, Remote):
            name = source.name
        elif isinstance(source, str | os.PathLike):
            name = Path(os.fspath(source)).name
        else:
            shape = getattr(source, "shape", None)
            name = type(source).__name__ + ("" if shape is None else f" of shape {shape}")
        columns = list_names([column.name for column in self.preparation.columns_])
        raise InputError(
            f"{name} is a matrix, and the model was fitted with a table: a table with the columns {columns} is wanted."
        )

    def refuse_table(self, rows: TableRows, preparation: TablePreparation) -> None:
        """Refuse a table of which other than the columns of numbers was made that the model was fitted with."""
        if self.n_features is None:
            return
        numbers = [column.name for column in preparation.columns_ if column.kind == "number"]
        if len(numbers) != len(preparation.columns_) or len(numbers) != self.n_features:
            raise InputError(
                f"{rows.name} is a table with the columns {list_names(rows.names)}, and the model was fitted with a "
                f"matrix of {self.n_features} column{'s' * (self.n_features != 1)}: these, all of numbers, are wanted."
            )


@dataclass(frozen=True)
class Opened:
    """A source that `dmmc.data` can open.

    source, component : of `open_dataset`
    name : what the user calls it; None where `dmmc.data` knows better
    preparation : what made a matrix of it, if it was a table
    """

    source: Any
    component: str | None = None
    name: str | None = None
    preparation: TablePreparation | None = None

    def load(self, n_jobs: int | None = None, limit: TimeLimit = NO_LIMIT) -> Dataset:
        """The rows in memory."""
        dataset = open_dataset(self.source, self.component, n_jobs, limit)
        return dataset if self.name is None else replace(dataset, name=self.name)

    def measure_store(self) -> int | None:
        """Bytes that the rows take in memory, if they are in a store that can be opened."""
        return measure_store(self.source, self.component)

    def open_rows(self, n_jobs: int | None, compute: Callable[[Sequence[Any]], list[Any]] | None = None) -> Rows:
        """The rows where they are, if they can be read block by block; `compute` as of `dmmc.data.open.open_rows`."""
        rows = open_rows(self.source, self.component, n_jobs, compute)
        return rows if self.name is None else replace(rows, name=self.name)


@contextmanager
def open_source(
    source: Any,
    component: str | None = None,
    *,
    table: TableOptions | None = None,
    wanted: Wanted | None = None,
    beside: Path | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Iterator[Opened]:
    """Make any source one that `dmmc.data` opens, for as long as the block lasts.

    source : a URL, or a list with some, too
    component : inside a zarr store, an npz or an h5ad file
    table : what is asked of a table
    wanted : what a fitted model wants of it
    beside : path of a result, beside which converted files are kept for later runs; without it they are removed
    progress : hears of a conversion
    storage_options : of a URL's file system
    """
    source = find_remote(source, storage_options)
    table = TableOptions() if table is None else table
    work = Opening(table, Wanted() if wanted is None else wanted, beside, progress)
    with ExitStack() as stack:
        if are_views(source):
            views = [stack.enter_context(open_source(view, beside=beside, progress=progress)) for view in source]
            if table.given or any(view.preparation is not None for view in views):
                names = [str(view) for view in source]
                raise InputError(
                    "a list is several views of the same rows, all of them matrices of numbers, and one of these is a "
                    f"table, or options of tables are given{suggest_pattern(names)}."
                )
            found = Opened([view.source if view.name is None else view.load() for view in views], component)
        else:
            found = work.open(source, component, stack)
        if found.preparation is None:
            work.wanted.refuse_matrix(source)
        if table.given and found.preparation is None:
            raise InputError(f"{table.given[0]} is for tables with named columns, and the source is none.")
        yield found


class Opening:
    """How one source is opened; see `open_source`."""

    def __init__(self, table: TableOptions, wanted: Wanted, beside: Path | None, progress: Progress | None) -> None:
        self.table, self.wanted, self.beside, self.progress = table, wanted, beside, progress

    def open(self, source: Any, component: str | None, stack: ExitStack) -> Opened:
        """Open a file, a frame, or whatever `dmmc.data` opens."""
        refuse_unread(source)
        files = find_files(source)
        if isinstance(source, Remote) and is_known(source.name):
            from dmmc.stores.transfer import download  # with zarr, which takes a while to import

            files = find_files(download(source, _make_scratch(stack)))
            self.beside = None  # the copy has no name by which a later run could find what was made of it
        if files is not None:
            return self._open_files(files, component, stack)
        if component is None and is_dask_frame(source):
            scratch = _make_scratch(stack)
            rows = copy_dask_frame(source, scratch)
            return self._prepare(self._type(rows), scratch / "rows.zarr")
        if component is None and is_frame(source):
            if (
                self.wanted.preparation is None
                and not self.table.given
                and is_plain(source, known=self.wanted.names is not None)
            ):
                if self.wanted == Wanted():
                    tell_of_frame(source)
                return Opened(cut(load_arrow(source))) if hasattr(source, "num_columns") else Opened(source)
            return self._prepare(self._type(read_frame(source)), None)
        return Opened(source, component)

    def _prepare(self, rows: TableRows, store: Path | None) -> Opened:
        """Learn how a table becomes a matrix, if that is not known, and make it: in memory, or a store."""
        preparation, fill = self._learn(rows)
        reader = PreparedTable(rows, preparation, fill=fill)
        if store is None:
            return Opened(cut(gather(reader)), None, rows.name, preparation)
        write_store(reader, store, self.progress)
        return Opened(str(store), None, rows.name, preparation)

    def _type(self, rows: TableRows) -> TableRows:
        """Rows of frames and parquet files as those of a csv file; a fitted preparation reads texts by itself."""
        return TypedTexts(rows, [self.table.id]) if self.wanted.preparation is None else rows

    def _learn(self, rows: TableRows) -> tuple[TablePreparation, bool]:
        """The preparation, and whether rows with missing cells are kept: new ones are, so that each gets a label."""
        if self.wanted.preparation is not None:
            return self.wanted.preparation, self.wanted.preparation.missing != "refuse"
        if self.wanted.names is not None:
            return take_numbers(self.wanted.names), False
        with collect_warnings() as told:
            preparation = self.table.make_preparation().learn(rows)
            self.wanted.refuse_table(rows, preparation)
        for one in told:
            warn(one.message, ClusteringWarning)
        return preparation, False

    def _open_files(self, files: Files, component: str | None, stack: ExitStack) -> Opened:
        small = files.n_bytes <= SMALL
        before = identify(files)
        if small:
            found = self._read(files, component, None, _make_scratch(stack))
            refuse_changed(files, before)
            return found
        asked = {**asdict(self.table), "component": component, "wanted": self._describe_wanted()}
        keep = self.beside is not None and self.wanted == Wanted()
        folder = self.beside.parent / FOLDER if keep and self.beside is not None else _make_scratch(stack)
        cache = Cache(folder, files.name, before, asked)
        notes = cache.find()
        if notes is None:
            with cache.write() as (store, notes), collect_warnings() as told:
                with tempfile.TemporaryDirectory(prefix=".table-", dir=store.parent) as scratch:
                    done = self._read(files, component, store, Path(scratch))
                refuse_changed(files, before)
                recipe = None if done.preparation is None else done.preparation.to_recipe()
                notes |= {"recipe": recipe, "warnings": [one.message for one in told]}
        for message in notes["warnings"]:
            warn(message, ClusteringWarning)
        recipe = notes["recipe"]
        preparation = None if recipe is None else TablePreparation.from_recipe(recipe)
        return Opened(str(cache.store), None, files.name, preparation)

    def _describe_wanted(self) -> Any:
        preparation = self.wanted.preparation
        return self.wanted.names if preparation is None else preparation.to_recipe()

    def _read(self, files: Files, component: str | None, store: Path | None, scratch: Path) -> Opened:
        """Read files into memory, or into a store."""
        if files.is_table and component is None and not self._may_be_plain(files):
            return self._prepare(self._read_table(files, scratch if store is not None else None), store)
        try:
            reader = self._open_reader(files, component, scratch)
            if store is None:
                matrix = gather(reader)
                if files.is_table and self.wanted == Wanted():
                    tell_of_matrix(matrix)
                return Opened(cut(matrix))
            write_store(reader, store, self.progress)
        except Incomplete:
            return self._prepare(self._read_table(files, scratch if store is not None else None), store)
        return Opened(str(store), None, files.name)

    def _open_reader(self, files: Files, component: str | None, scratch: Path) -> Reader:
        readers = [files.kind(path, component, scratch) for path in files.paths]
        return JoinedFiles(readers, files.name, complete=files.is_table and not self.wanted.names)

    def _may_be_plain(self, files: Files) -> bool:
        """Whether files with named columns seem to be a plain matrix; whether it is complete only all rows tell."""
        if self.table.given or self.wanted.preparation is not None:
            return False
        known = self.wanted.names
        if files.kind is not Csv:
            rows = ParquetTable(files.name, files.paths)
            plain = rows.index is None and hold_numbers(rows.schema) and (known is not None or not _hold_ids(rows))
            names: Sequence[str] | None = rows.names
        else:
            layout = csv_tables.find_layout(files.paths[0])
            kinds = csv_tables.read_types(files.paths[0], layout, layout.names)
            plain = all(kind == TYPES["number"] for kind in kinds.values())
            plain = plain and not any(BY_NAME.fullmatch(name) for name in layout.names)
            if plain and known is None:
                plain = not csv_tables.may_hold_ids(files.paths[0], layout)
            names = layout.names if layout.skipped else None
        return plain and (known is None or names is None or list(known) == list(names))

    def _read_table(self, files: Files, scratch: Path | None) -> TableRows:
        if files.kind is not Csv:
            return self._type(ParquetTable(files.name, files.paths))
        texts = [] if self.table.id is None else [self.table.id]
        kinds: dict[str, str] = {}
        if self.wanted.preparation is not None:
            preparation = self.wanted.preparation
            kinds = {column.name: column.kind for column in preparation.columns_}
            texts = [] if preparation.id_ is None else [preparation.id_]
            columns = [*kinds, *texts]
        elif self.wanted.names is not None:
            kinds = dict.fromkeys(self.wanted.names, "number")
            columns = list(kinds)
        else:
            columns = self._choose_columns(csv_tables.find_layout(files.paths[0]).names)
        return csv_tables.read_csv_table(files.name, files.paths, columns, texts, kinds, scratch)

    def _choose_columns(self, names: Sequence[str]) -> list[str]:
        """Columns that are asked for, and those that may name the rows."""
        asked, drop, id = self.table.columns, self.table.drop or (), self.table.id
        chosen = [name for name in names if asked is None or name in asked or BY_NAME.fullmatch(name)]
        return [name for name in names if name == id or (name in chosen and name not in drop)]


def _hold_ids(rows: TableRows) -> bool:
    """Whether a column of the first rows is of numbers that may name the rows."""
    named = [name for name in rows.names if MAY_NAME.fullmatch(name) is not None]
    first = next(iter(rows.read(named)), None) if named else None
    return first is not None and may_hold_ids(first)


def take_numbers(names: Sequence[str]) -> TablePreparation:
    """A preparation that takes these columns of numbers as they are."""
    found = TablePreparation(missing="refuse")
    found.id_, found.left_out_, found.n_missing_ = None, {}, {}
    found.columns_ = [Column(name, "number") for name in names]
    return found


def _make_scratch(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dmmc-")))
