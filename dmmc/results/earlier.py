"""An earlier result, as far as a new one is compared with it."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.errors import InputError, refuse_url
from dmmc.results.belonging import UNFINISHED, check_result, is_unfinished
from dmmc.results.label_arrays import read_ids, read_labels
from dmmc.results.summary_folder import read_centres, read_summary
from dmmc.stores.urls import Remote, find_remote


class Earlier(NamedTuple):
    """Labels and centres of an earlier result."""

    name: str
    labels: Array
    """(n,) of its rows."""
    ids: Array | None
    """(n,) of its rows, as texts; None where they had none."""
    centres: Array | None
    """(k, d) means of the raw columns; None in results of older versions."""
    n_clusters: int


def read_earlier(path: str | Path) -> Earlier:
    """Read what is compared of the result in a folder."""
    refuse_url(path)
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{path} is not a folder that dmmc wrote; the OUT of an earlier fit is wanted to match with.")
    if is_unfinished(folder):
        raise InputError(f"{path} {UNFINISHED}")
    labels, ids = _read_rows(folder, check_result(folder))
    _, summary = read_summary(folder / "summary")
    k = len(summary.sizes)
    return Earlier(str(path), labels.astype(np.int64), ids, read_centres(folder / "centres", k), k)


def read_named_labels(path: str | Remote) -> tuple[Array, Array | None]:
    """Labels from wherever `read_labels` reads them, and (n,) the rows' ids as texts, if they have any.

    Ids are those of a csv or parquet file, or of the result that a folder, or the `labels.zarr` in it, belongs to.
    """
    path = find_remote(path)
    if not isinstance(path, Remote):
        given = Path(path)
        folder = given.parent if given.name == "labels.zarr" else given
        if (folder / "run.json").is_file():
            return _read_rows(folder, check_result(folder))
    ids = read_ids(path)
    return read_labels(path), None if ids is None else np.array(ids, str)


def _read_rows(folder: Path, run: dict[str, Any]) -> tuple[Array, Array | None]:
    """Labels of a result, and the ids of its rows."""
    labels = read_labels(str(folder))
    return labels, _read_table_ids(folder, labels) if run["data"].get("ids", True) else None


def _read_table_ids(folder: Path, labels: Array) -> Array | None:
    """The ids in the table of labels, if there is one; refused where its labels are others, or in another order."""
    path = folder / "labels.parquet"
    if path.is_file():
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["id", "label"])
        ids, told = np.array(table["id"].to_pylist(), str), table["label"].to_numpy()
    else:
        path = folder / "labels.csv"
        found = read_ids(str(path))
        if found is None:
            return None
        ids, told = np.array(found, str), read_labels(str(path))
    if len(ids) != len(labels):
        raise InputError(f"{folder} has {len(labels)} labels and {len(ids)} row ids: one of its files was changed.")
    if not np.array_equal(told.astype(str), labels.astype(str)):
        raise InputError(
            f"{path} has other labels than labels.zarr, or its rows are in another order, so that its ids are those of "
            "other rows: one of them was changed."
        )
    return ids
