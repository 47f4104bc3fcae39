"""Files of any common kind to zarr stores that `dmmc fit` reads: streaming, checksummed, all or nothing."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from dmmc.convert.csv_files import NoNumber
from dmmc.convert.formats import find_reader
from dmmc.convert.store import Writer
from dmmc.errors import InputError, StoreFailed
from dmmc.results.atomic_files import write_folder
from dmmc.stores.urls import Place, Remote, find_all, find_place

__all__ = ["convert"]

Progress = Callable[[dict[str, Any]], Any]

STORE_FILES = ("zarr.json", ".zarray", ".zgroup")  # what tells a zarr store, of version 3 or 2, from other folders


def convert(
    source: str | Path,
    target: str | Path,
    *,
    key: str | None = None,
    chunk_rows: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write the matrix of a file as a zarr store, in memory that does not grow with the file (but see Matrix Market).

    The kind of file is told by its first bytes, and for text by its name:

    - npy; npz (one array, or the parts that `scipy.sparse.save_npz` writes); idx as MNIST comes in, also gzipped.
      Arrays of more than two dimensions are flattened to rows, with the attribute ``image_shape``.
    - csv (.csv, .tsv, .txt, .data), also gzipped: cells between tabs, semicolons or commas, with or without a header
      of feature names. A first column that begins with a text, or without a name in the header, holds row ids.
      Empty cells, NA, N/A, NaN and null are NaN.
    - parquet: columns of numbers; a single column of text, or the index of a pandas frame, holds row ids. Missing
      numbers are NaN.
    - svmlight (.svm, .svmlight, .libsvm, .txt), also gzipped: labels are kept, as ``obs/label``.
    - Matrix Market (.mtx), also gzipped: needs 40 bytes of memory an entry (80 if symmetric, 8 if dense); a file for
      which the free memory does not suffice is refused.
    - h5ad: X, or the matrix that `key` names, dense or CSR; the indices of obs and var are row ids and feature names.

    Numbers lose nothing. Those of binary files keep their dtype (float16 becomes float32, booleans uint8). Those of
    text files (csv, svmlight, Matrix Market) are written in the smallest of uint8, uint16, int32, int64 and float64
    that holds them all: whole numbers are whole however they are spelled, and what has a fraction or is missing
    makes it float64. When a larger number comes late, what was written until then is written again.

    The store is of zarr version 3, its chunks are whole rows of about 8 MiB, packed by blosc with lz4 and each with a
    checksum. A matrix with neither names nor ids nor labels is the array (or the CSR group) at the root; otherwise
    the root is a group as `anndata` writes it. Everything is written beside the target and renamed at the end.

    Parameters
    ----------
    source : str or Path
        The file; of a URL, a copy is read.
    target : str or Path
        The store to write, a folder such as ``rows.zarr``, or the URL of a place in an object store (s3://, gs://,
        az://, memory://). There the store is written when it is complete, its descriptions last; until then it takes
        room among temporary files (``TMPDIR``). Nothing can be exchanged in one step there: a store that is replaced is
        removed first.
    key : str, optional
        Which array of an npz file, or which matrix of an h5ad file.
    chunk_rows : int, optional
        Rows of a chunk, for a dense matrix; values of a sparse one are chunked by bytes.
    overwrite : bool
        Replace a zarr store at the target, once the new one is complete.
    progress : callable, optional
        Called now and then with a dict: ``phase`` ("convert"), ``rows`` written so far, ``fraction`` of the file
        read, ``seconds``.
    storage_options : dict, optional
        Of the file systems of URLs: credentials, an endpoint.

    Returns
    -------
    dict
        ``rows``, ``columns``, ``dtype``, ``sparse``, ``nnz`` (None if dense), ``bytes`` in memory, ``bytes_on_disk``,
        ``chunk_rows`` (None if sparse), ``feature_names``, ``row_ids`` and ``labels`` (whether there are any),
        ``image_shape``, ``source``, ``target``, ``seconds``.

    Raises
    ------
    InputError
        In one sentence, when the file cannot be converted or the target is taken. Nothing is left behind.
    OSError
        When the disk is full or the target cannot be written. Nothing is left behind.
    """
    begun = time.perf_counter()
    found, place = find_all(storage_options, source, target)
    if isinstance(found, Remote) or isinstance(place, Remote):
        with tempfile.TemporaryDirectory(prefix="dmmc-") as folder:
            done = _convert_remote(
                found, find_place(place), Path(folder), overwrite, key=key, chunk_rows=chunk_rows, progress=progress
            )
        shown = {"source": str(found), "target": str(place), "seconds": round(time.perf_counter() - begun, 3)}
        return done | shown
    source, target = Path(source), Path(target)
    _check(source, target, chunk_rows, overwrite)
    kind = find_reader(source)
    with (
        _point_to_fit(),
        write_folder(target, replace=overwrite, unique=True) as store,
        tempfile.TemporaryDirectory(prefix=f".{target.name}.", suffix=".part", dir=target.parent) as scratch,
        closing(kind(source, key, Path(scratch))) as reader,
    ):
        writer = Writer(reader, Path(scratch), chunk_rows)
        for piece in reader.pieces():
            writer.add(piece)
            if progress is not None:
                seconds, fraction = time.perf_counter() - begun, reader.fraction(writer.n_rows)
                progress(
                    {"phase": "convert", "rows": writer.n_rows, "fraction": fraction, "seconds": round(seconds, 3)}
                )
        summary = writer.finish(store)
        summary["bytes_on_disk"] = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        if target.exists() and not overwrite:
            raise InputError(f"{target} was made by someone else in the meantime: choose another name.")
    return summary | {"source": str(source), "target": str(target), "seconds": round(time.perf_counter() - begun, 3)}


@contextmanager
def _point_to_fit() -> Iterator[None]:
    """Say of a csv that is no matrix what takes it."""
    try:
        yield
    except NoNumber as error:
        error.add_note("A table with words or dates needs no conversion: dmmc fit (dmmc.fit) takes it as it is.")
        raise


def _convert_remote(
    source: str | Path | Remote, target: Place, folder: Path, overwrite: bool, **options: Any
) -> dict[str, Any]:
    """Convert by way of a folder on this machine: a copy of the file, the store before it is sent, or both."""
    from dmmc.stores import transfer  # with zarr, which takes a while to import

    if isinstance(target, Remote):
        transfer.refuse_taken(target, overwrite=overwrite)
    path = transfer.download(source, folder) if isinstance(source, Remote) else Path(source)
    if not isinstance(target, Remote):
        return convert(path, target, overwrite=overwrite, **options)
    store = folder / "store" / target.name
    store.parent.mkdir()
    done = convert(path, store, **options)
    transfer.begin(target, overwrite=overwrite)
    try:
        transfer.upload(store, target)
        transfer.finish(target)
    except BaseException:
        with suppress(InputError, StoreFailed):  # what has failed is the reason; the mark says that it is unfinished
            transfer.clear(target)
        raise
    return done


def _check(source: Path, target: Path, chunk_rows: int | None, overwrite: bool) -> None:
    if source.is_dir():
        raise InputError(f"{source} is a folder: a file is wanted, and a zarr store needs no conversion.")
    if not source.is_file():
        raise InputError(f"{source} does not exist: a file to convert is wanted.")
    if chunk_rows is not None and chunk_rows < 1:
        raise InputError(f"chunk_rows is {chunk_rows!r}: a whole number of at least 1 is wanted.")
    if not target.name or not target.parent.is_dir():
        raise InputError(f"{target} cannot be made: there is no folder {target.parent}.")
    if not (target.exists() or target.is_symlink()):
        return
    if not overwrite:
        raise InputError(f"{target} exists: choose another name, or add --overwrite (overwrite=True) to replace it.")
    if target.resolve() in source.resolve().parents:
        raise InputError(f"{source} is inside {target}, which would be overwritten: choose another name.")
    store = target.is_dir() and not target.is_symlink()
    if not store or not (any((target / name).is_file() for name in STORE_FILES) or not any(target.iterdir())):
        raise InputError(f"{target} is not a zarr store: only such a one is overwritten, choose another name.")
