"""Tables in memory, and dask's frames: whether they are plain matrices, and what is read of them if not."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.numbers import as_numbers, comes_from
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.info.row_numbers import BY_NAME, HEAD, MAY_NAME, list_unrepeated, never_repeats, tell_unrepeated
from dmmc.sources.parquet_tables import ParquetTable
from dmmc.tables.columns import name_kind
from dmmc.tables.rows import TableInMemory, TableRows, find_index, to_table
from dmmc.tables.survey import find_missing


def refuse_unread(source: Any) -> None:
    """Refuse what is nearly a frame, and say how to make one of it."""
    if comes_from(source, "polars") and hasattr(source, "collect"):
        raise InputError("the source is a LazyFrame of polars, which has no rows yet: give frame.collect().")
    if type(source) is dict:  # not scipy's dictionary of keys, which is one too
        raise InputError(
            "the source is a dict: a frame or a matrix is wanted, such as pandas.DataFrame(columns) or "
            "pyarrow.table(columns)."
        )


def is_frame(source: Any) -> bool:
    """Whether a source is a frame of pandas or polars, or a table of pyarrow."""
    if comes_from(source, "pyarrow"):
        return hasattr(source, "schema") and hasattr(source, "num_columns")
    return (comes_from(source, "pandas") or comes_from(source, "polars")) and hasattr(source, "columns")


def is_dask_frame(source: Any) -> bool:
    """Whether a source is a frame of dask."""
    return comes_from(source, "dask") and hasattr(source, "npartitions") and hasattr(source, "columns")


def hold_numbers(schema: Any, index: str | None = None) -> bool:
    """Whether all columns are of numbers, or all of truth values, and none is called an id."""
    fields = [field for field in schema if field.name != index]
    if any(BY_NAME.fullmatch(field.name) for field in fields):
        return False
    kinds = {name_kind(field.type, field.name) for field in fields}
    return len(kinds) == 1 and kinds <= {"number", "boolean"}


def is_plain(frame: Any, *, known: bool = False) -> bool:
    """Whether a frame is a plain matrix, which `dmmc.data` opens: complete columns of numbers.

    known : whether it is known which columns are features, so that none is looked at as ids
    """
    if hasattr(frame, "sparse") or (hasattr(frame, "shape") and 0 in frame.shape):
        return True  # pandas offers `sparse` where all columns are
    table = to_table(frame)
    if not hold_numbers(table.schema) or (not known and may_hold_ids(table)):
        return False
    return not any(find_missing(values, "number").any() for values in table.itercolumns())


def may_hold_ids(table: Any) -> bool:
    """Whether a column that is called a number, code or key never repeats in these rows."""
    named = [name for name in table.column_names if MAY_NAME.fullmatch(name) is not None]
    return any(never_repeats(table.column(name).drop_null().to_numpy()) for name in named)


def tell_of_frame(frame: Any) -> None:
    """Mention columns of a plain frame that may be ids."""
    if hasattr(frame, "sparse") or (hasattr(frame, "shape") and 0 in frame.shape):
        return
    head = to_table(frame[:HEAD])
    names = [name for name in head.column_names if never_repeats(head.column(name).to_numpy())]
    if names:
        table = to_table(frame)
        tell_of_columns((name, table.column(name).to_numpy()) for name in names)


def tell_of_matrix(matrix: LoadedMatrix) -> None:
    """Mention columns with names that may be ids."""
    names, rows = matrix.feature_names, matrix.rows
    if names is not None and isinstance(rows, np.ndarray):
        tell_of_columns((name, rows[:, column]) for column, name in enumerate(names))


def tell_of_columns(columns: Iterable[tuple[str, NDArray[Any]]]) -> None:
    """Mention those that may be ids."""
    if names := list_unrepeated(columns):
        warn(tell_unrepeated(names), ClusteringWarning)


def read_frame(frame: Any) -> TableRows:
    """A frame as a table."""
    table = to_table(frame, index=True)
    name = f"{type(frame).__name__} of {table.num_rows} rows"
    return TableInMemory(table, name, find_index(table.schema, name))


def load_arrow(table: Any) -> LoadedMatrix:
    """A plain table of pyarrow as a matrix."""
    table = to_table(table)
    rows = np.stack([np.asarray(values) for values in table.itercolumns()], axis=1)
    name = f"Table of shape {rows.shape}"
    return LoadedMatrix(name, np.ascontiguousarray(as_numbers(rows, name)), tuple(table.column_names))


def copy_dask_frame(frame: Any, scratch: Path) -> TableRows:
    """A frame of dask, each partition computed once and kept as a parquet file."""
    paths = []
    for number, part in enumerate(frame.to_delayed()):
        path = scratch / f"{number:06d}.parquet"
        pyarrow.parquet.write_table(to_table(part.compute()), path)
        paths.append(path)
    if not paths:
        raise InputError("the frame of dask has no partitions.")
    return ParquetTable(f"frame of dask in {len(paths)} partitions", paths)
