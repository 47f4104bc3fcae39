"""Every kind of source, read into one matrix in memory.

Each reader ends in a C-contiguous array or in `Csr` rows, with at most a few chunks of the source held
besides. Libraries that a source may come from are imported only when such a source is met.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from itertools import pairwise, product
from mmap import mmap
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.data import Csr, csr_bounds
from dmmc.errors import InputError, InputTypeError

READ_BYTES = 4 * 2**20
"""A thread reads about this much of a zarr array at a time, and at least one chunk of rows."""

OWN_PAGES = 2**20
"""Smaller arrays stay where they are, as a process may map only some 65,000 pieces of memory."""

COLUMNS_OF_INT32 = 2**31 - 1

MADE_UP = "dmmc-made-up-index"
"""Attribute of an obs or var whose index `dmmc convert` made up, as AnnData wants one: it names nothing."""


class Loaded(NamedTuple):
    """A whole matrix in memory, and how its source calls it, its columns and its rows."""

    name: str
    rows: NDArray[Any] | Csr
    feature_names: tuple[str, ...] | None = None
    row_ids: NDArray[Any] | None = None


def load(source: Any, component: str | None = None, n_jobs: int | None = None) -> Loaded:
    """Read a source of any kind; see `dmmc.data.open_dataset`.

    Parameters
    ----------
    source : object
        What the user gave.
    component : str, optional
        Path inside a zarr group or store.
    n_jobs : int, optional
        How many threads read; all cores by default.

    Returns
    -------
    Loaded
        The rows, in memory.
    """
    if isinstance(source, str | os.PathLike):
        return _load_path(os.fspath(source), component, n_jobs)
    if comes_from(source, "zarr") and hasattr(source, "store_path"):
        return _load_zarr(source, str(source.store_path.store), component, n_jobs)
    if component is not None:
        raise InputError(
            f"component={component!r} names a matrix inside a zarr store, but the source is a "
            f"{type(source).__name__}: leave component out, or give the store."
        )
    if is_dask_array(source):
        return _load_dask(source, n_jobs)
    if comes_from(source, "anndata"):
        return _load_anndata(source, n_jobs)
    if (comes_from(source, "pandas") or comes_from(source, "polars")) and hasattr(source, "to_numpy"):
        return _load_frame(source)
    if is_sparse(source):
        name = f"sparse matrix of shape {source.shape}"
        return Loaded(name, csr_of(source, name))
    array = array_of(source)
    name = f"array of shape {array.shape}"
    check_shape(array.shape, name)
    return Loaded(name, np.ascontiguousarray(as_numbers(array, name)))


def comes_from(source: object, library: str) -> bool:
    """Whether a source is of a class of this library, or derived from one, without importing the library."""
    return any(cls.__module__.partition(".")[0] == library for cls in type(source).__mro__)


def is_dask_array(source: object) -> bool:
    """Whether a source is a dask array, found out without importing dask."""
    return comes_from(source, "dask") and hasattr(source, "to_delayed") and hasattr(source, "chunks")


def is_sparse(source: object) -> bool:
    """Whether a source is a sparse matrix of scipy or of `sparse`."""
    return (comes_from(source, "scipy") or comes_from(source, "sparse")) and hasattr(source, "nnz")


# -------------------------------------------------------------------------------------- what a matrix must be


def check_shape(shape: tuple[int, ...], name: str) -> None:
    """Refuse what is not rows by features, in the words scikit-learn's users know."""
    if len(shape) < 2:
        what = "1D" if shape else "scalar"
        raise InputError(
            f"Expected 2D array, got {what} array instead: {name}. Reshape your data with "
            "array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) for a single sample."
        )
    if len(shape) > 2:
        raise InputError(
            f"Found array with dim {len(shape)}. One row per sample and one column per feature is wanted, "
            f"expected <= 2 dimensions, and {name} was given."
        )
    for size, what in zip(shape, ("sample(s)", "feature(s)"), strict=True):
        if size == 0:
            found = f"Found array with 0 {what} (shape=({shape[0]}, {shape[1]}))"
            raise InputError(f"{found} while a minimum of 1 is required.")


def memory_dtype(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    """Say in which dtype numbers of `dtype` are held in memory, or that they are not real numbers."""
    if dtype.kind == "c":
        raise InputError(f"Complex data not supported: {name} is of dtype {dtype}, real numbers are wanted.")
    if dtype.kind == "b":
        return np.dtype(np.uint8)
    if dtype.kind == "O":
        return np.dtype(np.float64)
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        return np.dtype(np.float32 if dtype.itemsize < 4 else np.float64)
    if dtype.kind not in "fiu":
        held = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations"}.get(dtype.kind, "records")
        raise InputError(f"{name} holds {held} (dtype {dtype}): convert it to a numeric dtype first.")
    return dtype.newbyteorder("=")


def as_numbers(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Give an array in its `memory_dtype`: itself, or a view, wherever that is possible."""
    dtype = memory_dtype(array.dtype, name)
    if array.dtype.kind == "b":
        return array.view(dtype)
    if array.dtype.kind != "O":
        return array.astype(dtype, copy=False)
    try:
        return array.astype(dtype)
    except (TypeError, ValueError) as error:
        raise _not_a_number(array, name) from error


def _not_a_number(array: NDArray[Any], name: str) -> InputError:
    for place, value in np.ndenumerate(array):
        try:
            float(value)
        except TypeError as error:
            return InputTypeError(f"{name} has something else than a number at {list(place)}: {error}.")
        except ValueError:
            return InputError(f"{name} has {value!r} at {list(place)}: numbers are wanted.")
    return InputError(f"{name} of dtype object could not be converted to numbers.")


def array_of(source: Any) -> NDArray[Any]:
    """Anything array-like as a plain array; what numpy would quietly lose on the way is refused."""
    if isinstance(source, np.matrix):
        raise InputTypeError("np.matrix is not supported: convert it to an array with np.asarray.")
    if isinstance(source, np.ma.MaskedArray) and np.ma.is_masked(source):
        raise InputError(f"masked array of shape {source.shape} has masked values: fill or drop them first.")
    try:
        return np.asarray(source)
    except (TypeError, ValueError) as error:
        raise InputError(f"{type(source).__name__} cannot be read as a matrix of numbers: {error}") from error


# ----------------------------------------------------------------------------------------------------- frames


def _load_frame(frame: Any) -> Loaded:
    """Read a frame of pandas or polars."""
    name = f"{type(frame).__name__} of shape {frame.shape}"
    check_shape(frame.shape, name)
    dtypes = list(frame.dtypes)
    # pandas offers `sparse` where all columns are; unless they leave out zeros they are dense to us
    if hasattr(frame, "sparse") and all(dtype.fill_value == 0 for dtype in dtypes):
        rows: NDArray[Any] | Csr = csr_of(frame.sparse.to_coo(), name)
    else:
        values = frame.to_numpy()
        if values.dtype == object and all(getattr(dtype, "kind", "O") in "biuf" for dtype in dtypes):
            # pandas gives objects for its nullable numbers and for numbers mixed with booleans
            values = frame.to_numpy(dtype=np.float64, na_value=np.nan)
        rows = np.ascontiguousarray(as_numbers(values, name))
    names = tuple(frame.columns)
    feature_names = names if all(isinstance(column, str) for column in names) else None
    index = getattr(frame, "index", None)
    row_ids = None if index is None or type(index).__name__ == "RangeIndex" else index.to_numpy()
    return Loaded(name, rows, feature_names, row_ids)


def _load_anndata(adata: Any, n_jobs: int | None) -> Loaded:
    """Read the X of an AnnData object, in memory or backed."""
    if adata.X is None:
        raise InputError("the AnnData object has no X: a matrix of numbers is wanted.")
    values = adata.X.to_memory() if hasattr(adata.X, "to_memory") else adata.X
    matrix = load(values, n_jobs=n_jobs)
    names = tuple(str(name) for name in adata.var_names)
    return matrix._replace(name=f"X of AnnData, {matrix.name}", feature_names=names, row_ids=adata.obs_names.to_numpy())


# ------------------------------------------------------------------------------------------------ sparse rows


def csr_of(matrix: Any, name: str) -> Csr:
    """Any sparse matrix of scipy or `sparse`, as sorted rows; a CSR matrix that has them is not copied."""
    check_shape(matrix.shape, name)
    dtype = memory_dtype(matrix.dtype, name)
    if matrix.dtype != dtype and matrix.dtype.kind != "b":
        matrix = _converted(matrix, dtype, name)
    if hasattr(matrix, "to_scipy_sparse"):
        try:
            matrix = matrix.to_scipy_sparse()
        except ValueError as error:
            raise InputError(f"{name} cannot be read as sparse rows: {error}") from error
    if matrix.format != "csr":
        matrix = matrix.tocsr()
    # scipy lets the arrays be longer than what indptr says is in use
    used = slice(0, int(matrix.indptr[-1])) if len(matrix.indptr) else slice(None)
    indptr = checked_indptr(matrix.indptr, matrix.shape[0], name)
    indices = narrow(matrix.indices[used], matrix.shape[1], indptr, 0, name)
    data = as_numbers(matrix.data[used], name)
    return sorted_rows(same_lengths(Csr(data, indices, indptr, matrix.shape[1]), name))


def _converted(matrix: Any, dtype: np.dtype[Any], name: str) -> Any:
    try:
        return matrix.astype(dtype)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} of dtype {matrix.dtype} cannot be converted to {dtype}: {error}") from error


def checked_indptr(indptr: NDArray[Any], n_rows: int, name: str) -> NDArray[np.int64]:
    """Where each row begins; refused unless it starts at 0 and never falls."""
    if indptr.ndim != 1 or len(indptr) != n_rows + 1:
        raise InputError(
            f"{name}: indptr of shape {indptr.shape} does not fit {n_rows} rows, ({n_rows + 1},) is wanted."
        )
    starts = indptr.astype(np.int64, copy=False)
    if starts[0] != 0:
        raise InputError(f"{name}: indptr begins with {starts[0]}, 0 is wanted.")
    falls = np.flatnonzero(starts[1:] < starts[:-1])
    if len(falls):
        raise InputError(f"{name}: indptr falls at row {falls[0]}, it must never decrease.")
    return starts


def same_lengths(csr: Csr, name: str) -> Csr:
    """The same rows; refused unless there are as many values as columns, and as indptr says."""
    if not len(csr.data) == len(csr.indices) == csr.indptr[-1]:
        raise InputError(
            f"{name}: data, indices and the end of indptr disagree on the number of values: {len(csr.data)}, "
            f"{len(csr.indices)}, {csr.indptr[-1]}."
        )
    return csr


def narrow(indices: NDArray[Any], n_features: int, indptr: NDArray[np.int64], offset: int, name: str) -> NDArray[Any]:
    """Column numbers as uint32 where int32 can hold them all, checked; the first is value number `offset`."""
    if indices.dtype.kind not in "iu":
        raise InputError(f"{name}: indices of dtype {indices.dtype} cannot be column numbers, integers are wanted.")
    # seen as unsigned, a negative number is too large as well
    columns = indices.view(indices.dtype.str.replace("i", "u"))
    if len(columns) and columns.max() >= n_features:
        worst = int(np.argmax(columns >= n_features))
        row = int(np.searchsorted(indptr, offset + worst, side="right")) - 1
        raise InputError(f"{name}: row {row} has column {indices[worst]}, but there are {n_features} columns.")
    return columns.astype(np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64, copy=False)


def sorted_rows(csr: Csr) -> Csr:
    """Rows with sorted columns, none twice; the same arrays if they are so already."""
    # in bands, as scipy would copy the columns of a matrix of more than 2**31 values
    bounds = csr_bounds(csr.indptr, csr.data.itemsize).tolist()
    bands = [csr.cut(a, b).to_scipy() for a, b in pairwise(bounds)]
    if all(band.has_canonical_format for band in bands):
        return csr
    tidy = [band.copy() for band in bands]
    for band in tidy:
        band.sum_duplicates()
    return _stack(tidy)


def _stack(bands: list[Any]) -> Csr:
    """One matrix of bands of scipy CSR rows; takes them out of the list one by one to free them."""
    n_features = bands[0].shape[1]
    counts = np.concatenate([np.diff(band.indptr) for band in bands])
    indptr = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    data = np.empty(indptr[-1], bands[0].dtype)
    indices = np.empty(indptr[-1], np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64)
    start = 0
    bands.reverse()
    while bands:
        band = bands.pop()
        stop = start + band.nnz
        data[start:stop], indices[start:stop] = band.data, band.indices
        start = stop
    return Csr(data, indices, indptr, n_features)


# ------------------------------------------------------------------------------------------------------- dask


def _load_dask(array: Any, n_jobs: int | None) -> Loaded:
    """Read a dask array; each of its chunks is computed once and put where it belongs as it comes."""
    if any(math.isnan(size) for size in array.shape):
        array = array.copy().compute_chunk_sizes()
    name = f"dask array of shape {array.shape}"
    check_shape(array.shape, name)
    chunks = _DaskChunks(array, name)
    chunks.compute(n_jobs)
    return Loaded(name, chunks.matrix())


class _DaskChunks:
    """The place where the chunks of a dask array arrive, in any order and from any thread."""

    def __init__(self, array: Any, name: str) -> None:
        self.array = array
        self.name = name
        self.dtype = memory_dtype(array.dtype, name)
        self.edges = [np.concatenate([[0], np.cumsum(sizes)]).tolist() for sizes in array.chunks]
        self.places = list(product(*(range(len(sizes)) for sizes in array.chunks)))
        self.arrived: set[tuple[int, ...]] = set()
        self.dense: NDArray[Any] | None = None
        self.sparse: dict[tuple[int, ...], Any] = {}
        self.lock = Lock()

    def compute(self, n_jobs: int | None) -> None:
        """Bring in all chunks: at once if this process computes them, else one after the other."""
        dask: Any = import_module("dask")
        array = self.array
        if dask.base.get_scheduler(collections=[array]) in (dask.local.get_sync, dask.threaded.get):
            put = dask.delayed(self.put, pure=False)
            tasks = [put(chunk, place) for place, chunk in zip(self.places, array.to_delayed().ravel(), strict=True)]
            # dask does not say which chunk failed: the loop below meets it again and does
            with suppress(Exception):
                dask.compute(tasks, num_workers=threads(n_jobs))
        else:
            # other processes cannot put into ours; persist, so that what chunks share is computed once
            array = array.persist()
        for place, chunk in zip(self.places, array.to_delayed().ravel(), strict=True):
            if place not in self.arrived:
                self._compute_one(place, chunk)

    def _compute_one(self, place: tuple[int, ...], chunk: Any) -> None:
        rows = row_words(*self.edges[0][place[0] : place[0] + 2])
        try:
            self.put(chunk.compute(), place)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"{self.name}: {rows} could not be computed: {error}") from error

    def put(self, chunk: Any, place: tuple[int, ...]) -> None:
        """Put a chunk where it belongs, after a look at its shape and dtype."""
        spans = [slice(edges[i], edges[i + 1]) for edges, i in zip(self.edges, place, strict=True)]
        shape = tuple(span.stop - span.start for span in spans)
        name = f"{self.name}, {row_words(spans[0].start, spans[0].stop)}"
        if chunk.shape != shape:
            raise InputError(f"{name}: a chunk is of shape {chunk.shape}, dask promised {shape}.")
        if not np.can_cast(memory_dtype(chunk.dtype, name), self.dtype):
            raise InputError(f"{name}: a chunk is of dtype {chunk.dtype}, dask promised {self.dtype}.")
        if is_sparse(chunk) and math.prod(shape):
            self.sparse[place] = _in_own_pages(csr_of(chunk, name).to_scipy().astype(self.dtype, copy=False))
        elif math.prod(shape):
            self._dense()[tuple(spans)] = as_numbers(array_of(chunk), name)
        self.arrived.add(place)

    def _dense(self) -> NDArray[Any]:
        with self.lock:
            if self.dense is None:
                self.dense = np.empty(self.array.shape, self.dtype)
            return self.dense

    def matrix(self) -> NDArray[Any] | Csr:
        """Give all chunks as one matrix; sparse ones are given up on the way."""
        if self.dense is not None:
            if self.sparse:
                raise InputError(f"{self.name} has dense chunks and sparse chunks: one kind is wanted.")
            return self.dense
        bands = [self._band(i) for i in range(len(self.array.chunks[0])) if self.array.chunks[0][i]]
        return _stack(bands)

    def _band(self, i: int) -> Any:
        from scipy.sparse import hstack

        parts = [self.sparse.pop((i, j)) for j, size in enumerate(self.array.chunks[1]) if size]
        return parts[0] if len(parts) == 1 else _in_own_pages(hstack(parts, format="csr"))


def _in_own_pages(matrix: Any) -> Any:
    """Move CSR rows to memory that goes back to the system the moment it is freed.

    What the threads of dask allocate, malloc would keep for them: all chunks would stay until the end, as a
    second copy of the matrix that is made of them.
    """

    def copy(array: NDArray[Any]) -> NDArray[Any]:
        if array.nbytes < OWN_PAGES:
            return array
        pages = np.frombuffer(mmap(-1, array.nbytes), array.dtype)
        pages[:] = array
        return pages

    matrix.data, matrix.indices = copy(matrix.data), copy(matrix.indices)
    return matrix


def threads(n_jobs: int | None) -> int:
    """How many threads read."""
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    # where the system can say so, the cores that this process may use rather than all there are
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def row_words(start: int, stop: int) -> str:
    """Rows start to stop - 1, as a message names them."""
    return f"row {start}" if stop == start + 1 else f"rows {start} to {stop - 1}"


# ------------------------------------------------------------------------------------------------------- zarr


def _load_path(path: str, component: str | None, n_jobs: int | None) -> Loaded:
    """Read a zarr store on disk."""
    with opened(path) as node:
        return _load_zarr(node, Path(path).name, component, n_jobs)


@contextmanager
def opened(path: str) -> Iterator[Any]:
    """Open a zarr store on disk, a directory or a .zip file: its root, an array or a group."""
    if "://" in path:
        raise InputError(f"{path!r} is a URL, and those are not yet read: copy the store to a local path.")
    if not os.path.exists(path):
        raise InputError(f"{path!r} does not exist: the path of a zarr store is wanted.")
    import zarr

    with ExitStack() as stack:
        try:
            if zipfile.is_zipfile(path):
                store: Any = stack.enter_context(zarr.storage.ZipStore(path, mode="r"))
            else:
                store = path
            node = zarr.open(store, mode="r")
        except Exception as error:
            raise InputError(
                f"{path!r} is not a zarr store that can be opened ({type(error).__name__}): give one, "
                "or write one from a file of another kind with `dmmc convert`."
            ) from error
        yield node


def _load_zarr(node: Any, store: str, component: str | None, n_jobs: int | None) -> Loaded:
    """Read a zarr array, a group of CSR arrays, or the one matrix that a group holds."""
    found = find_matrix(node, store, component)
    names, row_ids = None, None
    if found.frame is not None:
        columns = index_of(found.frame, "var", store)
        names = None if columns is None else tuple(columns.tolist())
        row_ids = index_of(found.frame, "obs", store)
    read = read_csr if found.is_sparse else read_all
    return Loaded(found.name, read(found.node, found.name, n_jobs), names, row_ids)


class Found(NamedTuple):
    """The matrix that is meant in a zarr store, before any of it is read.

    Parameters
    ----------
    name : str
        How to call it in a message.
    node : zarr.Array or zarr.Group
        A 2-D array, or the group of CSR arrays.
    is_sparse : bool
        Whether it is such a group.
    frame : zarr.Group, optional
        The AnnData group whose X it is.
    """

    name: str
    node: Any
    is_sparse: bool
    frame: Any = None


def find_matrix(node: Any, store: str, component: str | None) -> Found:
    """Find the matrix in a zarr store, or say why none can be read.

    Parameters
    ----------
    node : zarr.Array or zarr.Group
        Root of the store.
    store : str
        Its name.
    component : str, optional
        Path of the matrix inside.

    Returns
    -------
    Found
    """
    if component is not None:
        node = _inside(node, store, component)
    kind = _kind(node)
    if kind == "group":
        node = _only_matrix(node, store)
        kind = _kind(node)
    name = f"{store}/{node.path}" if node.path else store
    if kind == "anndata":
        if "X" not in node:
            raise InputError(f"{store} is an AnnData store without X: {_candidates(node)}.")
        return find_matrix(node["X"], store, None)._replace(frame=node)
    if kind == "csc_matrix":
        raise InputError(f"{name} is stored by columns (csc_matrix): convert it with tocsr() and write it again.")
    if kind == "array":
        check_shape(node.shape, f"{name} of shape {node.shape}")
    return Found(name, node, is_sparse=kind == "csr_matrix")


def _kind(node: Any) -> str:
    """Tell what a node is to us: "array", "csr_matrix", "csc_matrix", "anndata" or just a "group"."""
    if hasattr(node, "shape"):
        return "array"
    encoding = node.attrs.get("encoding-type")
    return encoding if encoding in ("csr_matrix", "csc_matrix", "anndata") else "group"


def _inside(node: Any, store: str, component: str) -> Any:
    if hasattr(node, "shape"):
        raise InputError(f"{store} is a single array, so there is no component={component!r} in it.")
    try:
        return node[component]
    except (KeyError, ValueError) as error:
        raise InputError(f"{store} has no {component!r}: {_candidates(node)}.") from error


def _only_matrix(group: Any, store: str) -> Any:
    found = list(_matrices(group))
    if len(found) != 1:
        raise InputError(f"{store} does not say which matrix is meant: {_candidates(group)}.")
    return found[0]


def _candidates(group: Any) -> str:
    within = f"{group.path}/" if group.path else ""
    paths = sorted(repr(node.path.removeprefix(within)) for node in _matrices(group))
    if not paths:
        return "it holds no 2-D array and no CSR group"
    return f"choose with component= one of {', '.join(paths)}"


def _matrices(group: Any) -> Iterator[Any]:
    """All nodes below a group that could be meant."""
    for _, node in sorted(group.members()):
        kind = _kind(node)
        if kind == "group":
            yield from _matrices(node)
        elif kind != "array" or len(node.shape) == 2:
            yield node


def find_index(group: Any, axis: str) -> Any | None:
    """The array with the names of rows ("obs") or columns ("var") of an AnnData store, if it has them."""
    frame = group.get(axis)
    if frame is None or _kind(frame) == "array" or frame.attrs.get(MADE_UP):
        return None
    column = frame.get(frame.attrs.get("_index", "_index"))
    return None if column is None or _kind(column) != "array" else column


def index_of(group: Any, axis: str, store: str) -> NDArray[Any] | None:
    """Read the names of rows or columns in an AnnData store."""
    column = find_index(group, axis)
    if column is None:
        return None
    check_complete(column, f"{store}/{column.path}", None)
    return np.array(column[:].tolist(), dtype=str)


def csr_shape(group: Any, name: str) -> tuple[int, int]:
    """Shape of a CSR group that has all its parts."""
    lacking = [part for part in ("data", "indices", "indptr") if not hasattr(group.get(part), "ndim")]
    shape = group.attrs.get("shape")
    if lacking or not isinstance(shape, list) or len(shape) != 2:
        lacks = ", ".join(lacking) or "the attribute shape of two numbers"
        raise InputError(f"{name} says it is a csr_matrix but lacks {lacks}.")
    n_rows, n_features = (int(size) for size in shape)
    check_shape((n_rows, n_features), name)
    return n_rows, n_features


def read_csr(group: Any, name: str, n_jobs: int | None) -> Csr:
    """Read a whole group of CSR arrays."""
    n_rows, n_features = csr_shape(group, name)
    indptr = checked_indptr(read_all(group["indptr"], f"{name}/indptr", n_jobs), n_rows, name)

    def as_columns(part: NDArray[Any], start: int) -> NDArray[Any]:
        return narrow(part, n_features, indptr, start, name)

    index_dtype = np.dtype(np.uint32 if n_features <= COLUMNS_OF_INT32 else np.uint64)
    data = read_all(group["data"], f"{name}/data", n_jobs, indptr=indptr)
    indices = read_all(
        group["indices"], f"{name}/indices", n_jobs, indptr=indptr, dtype=index_dtype, convert=as_columns
    )
    return sorted_rows(same_lengths(Csr(data, indices, indptr, n_features), name))


def read_all(
    array: Any,
    name: str,
    n_jobs: int | None,
    *,
    indptr: NDArray[np.int64] | None = None,
    dtype: np.dtype[Any] | None = None,
    convert: Callable[[NDArray[Any], int], NDArray[Any]] | None = None,
) -> NDArray[Any]:
    """Read a whole zarr array, some of its chunks at a time on several threads.

    Parameters
    ----------
    array : zarr.Array
        Of any number of dimensions.
    name : str
        How to call it in a message.
    n_jobs : int, optional
        Number of threads.
    indptr : ndarray of int64, optional
        Says to which row each entry of `array` belongs, where they are values of CSR rows.
    dtype : numpy.dtype, optional
        Of the result, by default the `memory_dtype`.
    convert : callable, optional
        Turns a part, and the number of its first entry, into what is kept; by default `as_numbers`.
    """
    check_complete(array, name, indptr)
    whole = np.empty(array.shape, dtype or memory_dtype(array.dtype, name))
    if whole.size == 0:
        return whole
    # whole chunks, as zarr decodes a chunk each time a part of it is asked for
    chunk_bytes = array.chunks[0] * whole[0].nbytes
    step = array.chunks[0] * max(1, READ_BYTES // chunk_bytes)

    def read(start: int) -> None:
        stop = min(start + step, len(whole))
        try:
            part = np.asarray(array[start:stop])
        except Exception as error:
            raise unreadable(name, rows_of(start, stop, indptr), error) from error
        whole[start:stop] = convert(part, start) if convert else as_numbers(part, name)

    with ThreadPoolExecutor(threads(n_jobs)) as pool:
        for _ in pool.map(read, range(0, len(whole), step)):
            pass
    return whole


def unreadable(name: str, rows: tuple[int, int], error: Exception) -> InputError:
    """The sentence about a chunk that zarr cannot read."""
    return InputError(
        f"{name}: a chunk of {row_words(*rows)} could not be read, it is truncated, corrupt or unreadable "
        f"({type(error).__name__}: {error}): restore it from a copy."
    )


def rows_of(start: int, stop: int, indptr: NDArray[np.int64] | None) -> tuple[int, int]:
    """Rows that the entries start to stop of an array belong to."""
    if indptr is None:
        return start, stop
    first = int(np.searchsorted(indptr, start, side="right")) - 1
    return first, max(first + 1, int(np.searchsorted(indptr, stop)))


def check_complete(array: Any, name: str, indptr: NDArray[np.int64] | None) -> None:
    """Refuse an array with a chunk missing: zarr would read it as zeros without a word."""
    sentence = missing_chunks(array, name, indptr)
    if sentence is not None:
        raise InputError(sentence)


def missing_chunks(array: Any, name: str, indptr: NDArray[np.int64] | None = None) -> str | None:
    """Say which chunks of an array are missing in its store; None if none is.

    Parameters
    ----------
    array : zarr.Array
        Of any number of dimensions.
    name : str
        How to call it.
    indptr : ndarray of int64, optional
        Says to which row each entry belongs, where they are values of CSR rows.
    """
    # a shard is one object in the store, whatever the chunks in it
    sizes = array.shards or array.chunks
    grid = [math.ceil(length / size) for length, size in zip(array.shape, sizes, strict=True)]
    stored = _stored_keys(array) - {"zarr.json", ".zarray", ".zattrs", ".zmetadata"}
    absent = math.prod(grid) - len(stored)
    missing: list[tuple[str, int]] = []
    # a few are named: the grid of a hollow store may be too large to walk
    for place in product(*(range(count) for count in grid)):
        if len(missing) == 3:
            break
        key = array.metadata.encode_chunk_key(place)
        if key not in stored:
            missing.append((key, place[0] * sizes[0]))
    if not missing:
        return None
    listed = []
    for key, start in missing:
        rows = row_words(*rows_of(start, min(start + sizes[0], array.shape[0]), indptr))
        listed.append(f"{key} ({rows})")
    absent = max(absent, len(missing))
    more = f" and {absent - 3} more" if absent > 3 else ""
    return (
        f"{name}: {absent} of {math.prod(grid)} chunks are missing, {', '.join(listed)}{more}, "
        "and zarr would read them as zeros: restore them, or if they are zeros write the store with "
        "write_empty_chunks=True."
    )


def _stored_keys(array: Any) -> set[str]:
    """Keys of what the store has of an array, relative to the array."""
    # nchunks_initialized would not do: it miscounts shards at the edge, and is quadratic in their number
    from zarr.core.sync import sync

    within = f"{array.path}/" if array.path else ""

    async def keys() -> set[str]:
        return {key.removeprefix(within) async for key in array.store.list_prefix(within)}

    return sync(keys())
