"""`labels.csv` or `labels.parquet`: for each row its id, cluster, the cluster's name, and how sure the label is."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dmmc.array_types import Array

ENDINGS = (".csv", ".parquet", ".pq")
"""Of files that are such a table."""
COLUMNS = ("id", "label", "name", "confidence", "runner_up")
CSV_ROWS = 1_000_000
"""A table of more rows is a parquet file."""
ROWS_AT_ONCE = 2**16
DECIMALS = 6
"""Of a confidence in a csv."""


def choose_name(n_rows: int) -> str:
    """Name of the table in a result folder."""
    return "labels.csv" if n_rows <= CSV_ROWS else "labels.parquet"


def write_table(
    path: Path, ids: Array | None, labels: Array, names: Sequence[str] | Array | None, more: Mapping[str, Array]
) -> None:
    """Write the table as csv or parquet, by the path's ending.

    ids : of the rows; their numbers where None
    labels : (n,) clusters; -1 is none, and has no name
    names : one a cluster; without them there is no such column
    more : `confidence` and `runner_up` of each row

    Labels and what is more of them may be zarr arrays: they are read some rows at a time.
    """
    import pyarrow
    from pyarrow import parquet

    types = {
        "id": pyarrow.int64() if ids is None else pyarrow.string(),
        "label": pyarrow.int32(),
        "name": pyarrow.string(),
        "confidence": pyarrow.float64(),
        "runner_up": pyarrow.int32(),
    }
    schema = pyarrow.schema({name: kind for name, kind in types.items() if name != "name" or names is not None})
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "wb"))  # pyarrow takes no path that is not UTF-8
        if path.suffix in (".parquet", ".pq"):
            writer = stack.enter_context(parquet.ParquetWriter(file, schema))
            for columns in _cut(ids, labels, names, more):
                writer.write_table(pyarrow.table(columns, schema=schema))
        else:
            write = begin_csv(file, schema.names)
            for columns in _cut(ids, labels, names, more):
                write(columns)


def begin_csv(file: BinaryIO, names: Sequence[str]) -> Callable[[Mapping[str, Any]], None]:
    """Write the header of a csv, and return what writes rows: columns by name, quoted only where it must be.

    pyarrow's writer puts each text and each name of a column in quotes.
    """
    text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)

    def write(columns: Mapping[str, Any]) -> None:
        cells = (column if isinstance(column := columns[name], list) else column.tolist() for name in names)
        writer.writerows(zip(*cells, strict=True))
        text.flush()

    return write


def _cut(
    ids: Array | None, labels: Array, names: Sequence[str] | Array | None, more: Mapping[str, Array]
) -> Iterator[dict[str, Any]]:
    """The columns, some rows at a time."""
    lookup = None if names is None else np.array([*map(as_text, names), ""], object)  # of -1: the last
    for start in range(0, labels.shape[0], ROWS_AT_ONCE):
        here = slice(start, start + ROWS_AT_ONCE)
        numbers = np.arange(start, min(start + ROWS_AT_ONCE, labels.shape[0]))
        found = np.asarray(labels[here], np.int32)
        yield {
            "id": numbers if ids is None else [as_text(name) for name in ids[here]],
            "label": found,
            **({} if lookup is None else {"name": lookup[found]}),
            "confidence": np.round(more["confidence"][here].astype(np.float64), DECIMALS),
            "runner_up": more["runner_up"][here].astype(np.int32),
        }


def as_text(value: object) -> str:
    """A text that can be encoded: lone surrogates are written out."""
    return str(value).encode("utf-8", "backslashreplace").decode()
