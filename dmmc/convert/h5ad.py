"""h5ad files of AnnData, read with h5py where it is installed."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dmmc.convert.arrays import csr_pieces
from dmmc.convert.reading import BY_KEY, Piece, Reader, count_rows, name_damage
from dmmc.data.readers.numbers import as_numbers, check_shape, memory_dtype
from dmmc.errors import InputError, needs

DAMAGE = (OSError, KeyError, RuntimeError, ValueError, TypeError)  # what h5py raises over a damaged file


class H5ad(Reader):
    """An h5ad file of AnnData: its X, or with a key another matrix in it, such as ``layers/counts``."""

    takes_key = True
    cells = True
    n_rows: int

    def _open(self) -> None:
        try:
            import h5py
        except ImportError as error:
            raise InputError(needs(f"reading {self.name}", "h5py")) from error
        self._dataset, self._group = h5py.Dataset, h5py.Group
        with name_damage(self.name, *DAMAGE):
            self._file = self.files.enter_context(h5py.File(self.path, "r"))
            self._matrix = self._find(self.key or "X")
            self._take_shape()
            self._ids, names = self._find_index("obs", self.n_rows), self._find_index("var", self.n_features)
            self.has_ids = self._ids is not None
            self.feature_names = None if names is None else _texts(names[:])

    def _find(self, key: str) -> Any:
        node = self._file.get(key)
        if node is None:
            paths: list[str] = []
            self._file.visititems(lambda path, node: paths.append(path) if self._is_matrix(node) else None)
            listed = ", ".join(repr(path) for path in paths) or "nothing of the kind"
            raise InputError(f"{self.name} holds no matrix {key!r}: choose with {BY_KEY} one of {listed}.")
        if not self._is_matrix(node):
            raise InputError(f"{self.name}: {key!r} is no matrix, a 2-D dataset or a CSR group is wanted.")
        return node

    def _is_matrix(self, node: Any) -> bool:
        if isinstance(node, self._dataset):
            return bool(node.ndim == 2)
        return _form(node) in ("csr_matrix", "csc_matrix", "csr", "csc")

    def _take_shape(self) -> None:
        node = self._matrix
        self.sparse = not isinstance(node, self._dataset)
        where = f"{self.name}{node.name}"
        shape = node.attrs.get("shape", node.attrs.get("h5sparse_shape", ())) if self.sparse else node.shape
        if self.sparse:
            if _form(node).startswith("csc"):
                raise InputError(f"{where} is stored by columns ({_form(node)}): save it again after X = X.tocsr().")
            if len(shape) != 2 or any(part not in node for part in ("data", "indices", "indptr")):
                raise InputError(f"{where} says it is a csr_matrix but lacks data, indices, indptr or its shape.")
        memory_dtype(node["data"].dtype if self.sparse else node.dtype, where)
        check_shape(tuple(shape), f"{where} of shape {tuple(shape)}")
        self.n_rows, self.n_features = (int(size) for size in shape)

    def _find_index(self, axis: str, length: int) -> Any | None:
        """Names of rows or columns, as a dataset of strings, if they are there and fit."""
        frame = self._file.get(axis)
        if frame is None:
            return None
        if isinstance(frame, self._dataset):
            # files of anndata before 0.7 have one table
            field = next((name for name in ("index", "_index") if name in (frame.dtype.names or ())), None)
            column = None if field is None else frame.fields(field)
        else:
            column = frame.get(_text(frame.attrs.get("_index", "_index")))
            if isinstance(column, self._group):
                column = column.get("values")  # strings of which some may be missing
        return column if column is not None and len(column) == length else None

    def pieces(self) -> Iterator[Piece]:
        """Read all rows."""
        first = 0
        for piece in self._read_sparse() if self.sparse else self._read_dense():
            last = first + (len(piece.rows) if isinstance(piece.rows, np.ndarray) else piece.rows.n_rows)
            yield piece if self._ids is None else piece._replace(ids=_texts(self._read(self._ids, first, last)))
            first = last

    def _read_dense(self) -> Iterator[Piece]:
        node = self._matrix
        step = count_rows(self.n_features * node.dtype.itemsize)
        if node.chunks is not None:
            # whole chunks, as each is decoded whenever a part of it is read
            step = max(1, step // node.chunks[0]) * node.chunks[0]
        for first, last in pairwise([*range(0, self.n_rows, step), self.n_rows]):
            yield Piece(as_numbers(self._read(node, first, last), self.name))

    def _read_sparse(self) -> Iterator[Piece]:
        with name_damage(self.name, *DAMAGE):
            data, columns, starts = (self._matrix[part] for part in ("data", "indices", "indptr"))

        def read(first: int, last: int) -> tuple[NDArray[Any], NDArray[Any]]:
            return as_numbers(self._read(data, first, last), self.name), self._read(columns, first, last)

        return csr_pieces(self, self._read(starts, 0, self.n_rows + 1).astype(np.int64), data, columns, read)

    def _read(self, node: Any, start: int, stop: int) -> NDArray[Any]:
        with name_damage(self.name, *DAMAGE):
            return np.asarray(node[start:stop])


def _form(node: Any) -> str:
    """In which form a sparse matrix is stored, as newer and older files of anndata say it."""
    return _text(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "")))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _texts(values: Any) -> list[str]:
    return [_text(value) for value in values]
