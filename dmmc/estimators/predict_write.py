"""Predicting into files: labels, confidence, runner-up and scores, written block by block by whoever has the rows.

Zarr arrays are written in whole chunks, side by side by all threads or workers, to disk or to an object store. A csv or
parquet file is made of such arrays afterwards, some rows at a time. Nothing as long as the rows is held on the way.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import ONE_BLOCK, Block, Csr
from dmmc.data.dataset import Rows, Stored
from dmmc.data.readers.zarr_nodes import open_store
from dmmc.errors import InputError, StoreFailed
from dmmc.features import maps
from dmmc.features.maps import Decision
from dmmc.model import inspect
from dmmc.model.margins import Standing, rank_clusters
from dmmc.profile.confidence import find_confidence, stand, unassign
from dmmc.results.atomic_files import sync
from dmmc.results.label_arrays import CHUNK_ROWS, create_arrays, open_to_write
from dmmc.results.label_table import ENDINGS, write_table
from dmmc.results.remote_arrays import NewArray
from dmmc.stores.urls import Place, Remote

TYPES: Mapping[str, type] = {
    "labels": np.int32,
    "confidence": np.float32,
    "runner_up": np.int32,
    "scores": np.float64,
}
"""What can be written of each row."""
COLUMNS = ("labels", "confidence", "runner_up")
"""What a table has of each row."""
NOT_SEEN = "does not see the folder"


class Ask(NamedTuple):
    """Parameters of the pass."""

    decision: Decision
    name: str
    """Of the matrix."""
    feature_names: tuple[str, ...] | None
    scores: bool
    """Whether scores are wanted too."""


class Found(NamedTuple):
    """What the pass finds out about a block."""

    standing: Standing
    scores: Array | None


def decide(block: Block, ask: Ask) -> Found:
    """The pass: where a block's rows stand; a number that is not finite is an error that names it."""
    if not np.isfinite(inspect.magnitude(block)):
        row, column = inspect.first_nonfinite(block)
        rows = block.rows.to_scipy() if isinstance(block.rows, Csr) else block.rows
        called = None if ask.feature_names is None else str(ask.feature_names[column])
        raise inspect.named_not_finite(ask.name, (row, column), rows[row - block.start, column], called)
    if not ask.scores:
        return Found(stand(block, ask.decision), None)
    f = maps.scores(block, ask.decision)
    return Found(rank_clusters(f), f)


class Writer(Protocol):
    """An engine that can hand what a pass finds to a sink."""

    def write(self, work: Callable[..., Any], params: Any, sink: Files, every: int) -> None:
        """Hand the results of consecutive blocks, `every` at a time, to a sink."""
        ...


class Files(NamedTuple):
    """Where what was found is put: a sink that pickles as paths, or as places in an object store."""

    places: Mapping[str, Path | NewArray]
    """Of the arrays, by the name of what they hold."""
    scale: float
    """What margins are measured in."""
    unassigned: float | None = None
    """Confidence below which a row has label -1."""

    def __call__(self, start: int, stop: int, found: list[Found]) -> None:
        """Write rows start to stop: all that was found in consecutive blocks."""
        labels, runner_up, margins = (
            np.concatenate(column) for column in zip(*(f.standing for f in found), strict=True)
        )
        confidence = find_confidence(margins, self.scale)
        columns = {
            "labels": unassign(labels, confidence, self.unassigned),
            "confidence": confidence,
            "runner_up": runner_up,
        }
        if "scores" in self.places:
            f = np.concatenate([one.scores for one in found if one.scores is not None])
            columns["scores"] = f[:, 0] if f.shape[1] == 1 else f
        for what, place in self.places.items():
            _open(place)[start:stop] = columns[what]


class Ruled(NamedTuple):
    """How sure labels are, and which rows have none."""

    scale: float
    """What margins are measured in."""
    unassigned: float | None = None
    """Confidence below which a row has label -1."""


def write(
    rows: Rows,
    make_engine: Callable[[Rows], AbstractContextManager[Writer]],
    decision: Decision,
    rule: Ruled,
    places: Mapping[str, Place],
    *,
    by_workers: bool,
    names: Sequence[str] | Array = (),
) -> None:
    """Write what is asked for of all rows; each file appears when all of them are whole.

    make_engine : an engine over rows, wherever they are
    places : by what is wanted of `TYPES`; that of the labels may be a csv or a parquet file, which has ids, labels,
        names of clusters, confidence and runner-up. Others are zarr arrays
    by_workers : whether the engine's rows are in other processes
    names : of the clusters, if they are known
    """
    labels = places["labels"]
    if by_workers:
        _refuse_unshared(places.values())
    if labels.suffix not in ENDINGS:
        _write_arrays(rows, make_engine, decision, rule, places)
        return
    with ExitStack() as stack:
        folder, columns = stack.enter_context(_make_scratch(labels, by_workers=by_workers))
        arrays = {**columns, **places, "labels": columns["labels"]}
        _write_arrays(rows, make_engine, decision, rule, arrays)
        opened = {
            what: stack.enter_context(open_store(place if isinstance(place := arrays[what], Remote) else str(place)))
            for what in columns
        }
        table = folder / labels.name
        write_table(table, rows.row_ids, opened.pop("labels"), names if len(names) else None, opened)
        _publish(table, labels)


def _refuse_unshared(places: Collection[Place]) -> None:
    """Refuse a place that workers cannot write to."""
    for place in places:
        if isinstance(place, Remote) and not place.is_shared:
            raise InputError(f"{place} is in the memory of this process, which workers do not see: choose a path.")


@contextmanager
def _make_scratch(labels: Place, *, by_workers: bool) -> Iterator[tuple[Path, dict[str, Place]]]:
    """A folder of this machine for a table of labels, and places for its columns that all who write them see."""
    beside = None if isinstance(labels, Remote) else labels.absolute().parent
    with tempfile.TemporaryDirectory(prefix=".dmmc-", dir=beside) as scratch:
        folder = Path(scratch)
        names = {what: f"{what}.zarr" for what in COLUMNS}
        if not (by_workers and isinstance(labels, Remote)):
            yield folder, {what: folder / name for what, name in names.items()}
            return
        from dmmc.stores import transfer  # with zarr, which takes a while to import

        remote = replace(labels, url=f"{labels.url}{folder.name}")
        try:
            yield folder, {what: remote.join(name) for what, name in names.items()}
        finally:
            with suppress(InputError, StoreFailed):  # labels are written, or something else is the reason
                transfer.clear(remote)


def _publish(table: Path, place: Place) -> None:
    """Put a file where it is wanted, in one step."""
    if isinstance(place, Remote):
        from dmmc.stores import transfer

        transfer.put_file(table, place)
        return
    sync(table, os.O_NOFOLLOW)
    os.replace(table, place)
    sync(place.absolute().parent)


def _write_arrays(
    rows: Rows,
    make_engine: Callable[[Rows], AbstractContextManager[Writer]],
    decision: Decision,
    rule: Ruled,
    places: Mapping[str, Place],
) -> None:
    each = block_rows(rows.nbytes / rows.n_rows)
    if isinstance(rows, Stored):
        bounds = np.append(np.arange(0, rows.n_rows, each), rows.n_rows).astype(np.int64)
        rows = replace(rows, bounds=bounds)
    K = decision[1].n_scores
    shapes = {what: (rows.n_rows,) if what != "scores" or K == 1 else (rows.n_rows, K) for what in places}
    ask = Ask(decision, rows.name, rows.feature_names, "scores" in places)
    with create_arrays({place: (shapes[what], TYPES[what]) for what, place in places.items()}) as asides:
        made = {what: asides[place] for what, place in places.items()}
        sink = Files({what: one.absolute() if isinstance(one, Path) else one for what, one in made.items()}, *rule)
        with make_engine(rows) as engine:
            engine.write(decide, ask, sink, CHUNK_ROWS // each)


def block_rows(row_bytes: float) -> int:
    """Rows of a block: a power of two, so that whole blocks make a chunk of labels."""
    most = max(1, min(CHUNK_ROWS, int(ONE_BLOCK / max(row_bytes, 1))))
    return int(2 ** (most.bit_length() - 1))


def _open(place: Path | NewArray) -> Any:
    """An array that the driver has made, if this machine sees it."""
    if isinstance(place, Path) and not place.is_dir():
        folder = str(place.parent)
        raise InputError(
            f"{os.uname().nodename}, which was asked to write labels, {NOT_SEEN} {folder!r}: a path "
            "that all workers see is wanted; in Python, without `out`, labels come back to the driver."
        )
    return open_to_write(place)
