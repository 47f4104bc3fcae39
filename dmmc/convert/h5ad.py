"""h5ad files of AnnData, read with h5py where it is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.arrays import check_csr, csr_bands, csr_piece
from dmmc.convert.reading import Piece, Reader, damage_named, optional, rows_at_once
from dmmc.data.readers.numbers import as_numbers, check_shape, memory_dtype
from dmmc.errors import InputError

DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError)
"""What h5py raises over a damaged file."""


class H5ad(Reader):
    """An h5ad file of AnnData: its X, or with a key another matrix in it, such as ``layers/counts``."""

    def __init__(self, path: Path, key: str | None, scratch: Path) -> None:
        super().__init__(path, key, scratch)
        h5py = optional("h5py", self.name)
        with ExitStack() as stack, damage_named(self.name, *DAMAGE):
            self._file = stack.enter_context(h5py.File(path, "r"))
            self._h5py = h5py
            self._matrix = self._found(key or "X")
            self._open_matrix()
            ids, names = self._index("obs", self.n_rows), self._index("var", self.n_features)
            self.has_ids, self._ids = ids is not None, ids
            self.feature_names = None if names is None else _texts(names[:])
            self._rows_read = 0
            stack.pop_all()

    def _found(self, key: str) -> Any:
        node = self._file.get(key)
        if node is None:
            paths: list[str] = []
            self._file.visititems(lambda path, node: paths.append(path) if self._is_matrix(node) else None)
            listed = ", ".join(repr(path) for path in paths) or "nothing of the kind"
            raise InputError(f"{self.name} holds no matrix {key!r}: choose with key= one of {listed}.")
        if not self._is_matrix(node):
            raise InputError(f"{self.name}: {key!r} is no matrix, a 2-D dataset or a CSR group is wanted.")
        return node

    def _is_matrix(self, node: Any) -> bool:
        if isinstance(node, self._h5py.Dataset):
            return bool(node.ndim == 2)
        return _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", ""))) in (
            "csr_matrix",
            "csc_matrix",
            "csr",
            "csc",
        )

    def _open_matrix(self) -> None:
        node = self._matrix
        self.sparse = not isinstance(node, self._h5py.Dataset)
        where = f"{self.name}{node.name}"
        if self.sparse:
            form = _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "")))
            if form.startswith("csc"):
                raise InputError(f"{where} is stored by columns ({form}): save it again after X = X.tocsr().")
            shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ()))
            if len(shape) != 2 or any(part not in node for part in ("data", "indices", "indptr")):
                raise InputError(f"{where} says it is a csr_matrix but lacks data, indices, indptr or its shape.")
            memory_dtype(node["data"].dtype, where)
        else:
            shape = node.shape
            memory_dtype(node.dtype, where)
        check_shape(tuple(shape), f"{where} of shape {tuple(shape)}")
        self.n_rows, self.n_features = (int(size) for size in shape)

    def _index(self, axis: str, length: int) -> Any | None:
        """Names of rows or columns, as a dataset of strings, if they are there and fit."""
        frame = self._file.get(axis)
        if frame is None:
            return None
        if isinstance(frame, self._h5py.Dataset):
            # files of anndata before 0.7 have one table
            field = next((name for name in ("index", "_index") if name in (frame.dtype.names or ())), None)
            column = None if field is None else frame.fields(field)
        else:
            column = frame.get(_text(frame.attrs.get("_index", "_index")))
            if isinstance(column, self._h5py.Group):
                column = column.get("values")  # strings of which some may be missing
        return column if column is not None and len(column) == length else None

    def pieces(self) -> Iterator[Piece]:
        """All rows."""
        for first, last, piece in self._sparse() if self.sparse else self._dense():
            self._rows_read = last
            yield piece if self._ids is None else piece._replace(ids=_texts(self._read(self._ids, first, last)))

    def _dense(self) -> Iterator[tuple[int, int, Piece]]:
        node = self._matrix
        step = rows_at_once(self.n_features * node.dtype.itemsize)
        if node.chunks is not None:
            # whole chunks, as each is decoded whenever a part of it is read
            step = max(1, step // node.chunks[0]) * node.chunks[0]
        for first in range(0, self.n_rows, step):
            last = min(first + step, self.n_rows)
            yield first, last, Piece(as_numbers(self._read(node, first, last), self.name))

    def _sparse(self) -> Iterator[tuple[int, int, Piece]]:
        with damage_named(self.name, *DAMAGE):
            data, columns, starts = (self._matrix[part] for part in ("data", "indices", "indptr"))
        indptr = self._read(starts, 0, self.n_rows + 1).astype(np.int64)
        check_csr(indptr, self.n_rows, (data.shape, columns.shape), columns.dtype, self.name)
        for first, last in csr_bands(indptr, data.dtype.itemsize):
            a, b = int(indptr[first]), int(indptr[last])
            values = as_numbers(self._read(data, a, b), self.name)
            places = self._read(columns, a, b)
            yield first, last, csr_piece(values, places, indptr[first : last + 1], self.n_features, first, self.name)

    def _read(self, node: Any, start: int, stop: int) -> NDArray[Any]:
        with damage_named(self.name, *DAMAGE):
            return np.asarray(node[start:stop])

    def fraction(self) -> float:
        """How many of the rows have been read."""
        return self._rows_read / self.n_rows

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in values]
