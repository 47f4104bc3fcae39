"""Readers of more than one file and of prepared tables, and what they read gathered in memory."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from dmmc.convert.reading import Piece, Reader
from dmmc.convert.store import sort_columns
from dmmc.data.blocks import Csr
from dmmc.data.readers import LoadedMatrix
from dmmc.data.readers.csr import to_csr
from dmmc.errors import InputError
from dmmc.tables.preparation import TablePreparation
from dmmc.tables.rows import TableRows


class Incomplete(InputError):  # noqa: N818 - what the rows are, not what was wrong
    """A file of numbers lacks some: it is a table with missing cells."""


class JoinedFiles(Reader):
    """Files of numbers with the same columns, one after the other."""

    def __init__(self, readers: Sequence[Reader], name: str, *, complete: bool) -> None:
        first = readers[0]
        self.readers, self.name, self.path, self._complete = readers, name, first.path, complete
        self.sparse, self.feature_names, self.has_ids = first.sparse, first.feature_names, first.has_ids
        self.has_labels, self.image_shape, self.cells = first.has_labels, first.image_shape, first.cells
        counts = [reader.n_rows for reader in readers]
        self.n_rows = None if None in counts else sum(count for count in counts if count is not None)
        for reader in readers[1:]:
            if (reader.n_features, reader.feature_names) != (first.n_features, first.feature_names):
                raise InputError(
                    f"{reader.name} has other columns than {first.name}: the same in the same order are wanted."
                )

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Known after the last piece, as of each file."""
        return self.readers[0].n_features

    @property
    def shift(self) -> int:  # type: ignore[override]
        """As of the first file: only text of one file has one."""
        return self.readers[0].shift

    def pieces(self) -> Iterator[Piece]:
        """Read all rows of all files."""
        for reader in self.readers:
            for piece in reader.pieces():
                if self._complete and not isinstance(piece.rows, Csr) and np.isnan(piece.rows).any():
                    raise Incomplete(f"{reader.name} lacks some numbers.")
                yield piece

    def fraction(self, rows_read: int) -> float:
        """The part of the files that has been read."""
        shares = [1.0 if reader.source is None else reader.source.fraction() for reader in self.readers]
        return rows_read / self.n_rows if self.n_rows else sum(shares) / len(shares)

    def close(self) -> None:
        """Close all of them."""
        for reader in self.readers:
            reader.close()


class PreparedTable(Reader):
    """The matrix that a preparation makes of a table.

    fill : leave out no row, whatever the preparation says of missing cells
    """

    def __init__(self, rows: TableRows, preparation: TablePreparation, *, fill: bool) -> None:
        preparation.check_columns(rows.names, rows.name)
        self.rows, self.preparation, self.name, self._fill = rows, preparation, rows.name, fill
        self.path = Path(rows.name)
        self.feature_names = preparation.get_feature_names_out().tolist()
        self.n_features = len(self.feature_names)
        self._numbered = preparation.id_ not in rows.names and preparation.missing == "drop" and not fill
        self.has_ids = preparation.id_ in rows.names or self._numbered
        self.n_rows = None
        self._expected = getattr(preparation, "n_rows_", 0)
        self.columns = [column.name for column in preparation.columns_]
        if preparation.id_ in rows.names:
            self.columns.append(preparation.id_)

    def pieces(self) -> Iterator[Piece]:
        """Prepare part after part."""
        start = 0
        for part in self.rows.parts(self.columns):
            place = partial(self._place, start)
            matrix, kept, ids = self.preparation.prepare(part, fill=self._fill, place=place)
            if self._numbered:
                ids = [str(start + row) for row in kept.tolist()]
            start += part.num_rows
            yield Piece(matrix, ids)
        if start == 0:
            raise InputError(f"{self.name} has no rows.")

    def _place(self, start: int, row: int) -> str:
        return self.rows.place(start + row)

    def fraction(self, rows_read: int) -> float:
        """The part of the rows that has been prepared."""
        return min(1.0, rows_read / self._expected) if self._expected else 0.0

    def close(self) -> None:
        """Nothing is open."""


def gather(reader: Reader) -> LoadedMatrix:
    """All rows of a reader in memory."""
    parts: list[Any] = []
    ids: list[str] = []
    with closing(reader):
        for piece in reader.pieces():
            parts.append(piece.rows)
            ids += piece.ids or []
    if not parts:
        raise InputError(f"{reader.name} holds no rows: nothing to cluster.")
    names = None if reader.feature_names is None else tuple(reader.feature_names)
    row_ids = np.array(ids, object) if reader.has_ids else None
    rows = _join_sparse(reader, parts) if reader.sparse else np.ascontiguousarray(np.concatenate(parts))
    return LoadedMatrix(reader.name, rows, names, row_ids, reader.image_shape, reader.cells)


def _join_sparse(reader: Reader, parts: Sequence[Csr]) -> Csr:
    """Sparse rows below each other; what the last piece tells of the columns holds for all of them."""
    found = []
    for part in parts:
        part = sort_columns(part)
        indices = part.indices + reader.shift
        found.append(csr_array((part.data, indices, part.indptr), shape=(part.n_rows, reader.n_features)))
    return to_csr(vstack(found, format="csr"), reader.name)
