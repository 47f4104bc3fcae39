"""Small stores of every kind, which the fuzz tests damage."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numcodecs
import numpy as np
import scipy.sparse
import zarr
from alterations import Random, alter_file, alter_json_file, list_files, pick
from fuzz_cases import FEATURES, ROWS, cut_into_blocks, make_rows
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

from dmmc.convert import convert
from dmmc.data.open import open_dataset
from dmmc.data.zarr_rows import open_stored
from dmmc.engine import Local
from dmmc.info import info
from dmmc.model.geometry import measure

CHUNK = 20
METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")


def write_array(path: Path, dtype: str, **options: Any) -> None:
    rows = make_rows()
    rows = (10 * np.abs(rows)).astype(dtype) if dtype == "u1" else rows.astype(dtype)
    options = {"chunks": (CHUNK, FEATURES), "config": {"write_empty_chunks": True}, **options}
    array = zarr.create_array(str(path), shape=rows.shape, dtype=rows.dtype, **options)
    array[...] = rows


def make_sparse() -> Any:
    rows = make_rows()
    return scipy.sparse.csr_array(np.where(rows > 0.5, rows, 0))


def write_csr(path: Path, **options: Any) -> None:
    rows = make_sparse()
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": [ROWS, FEATURES]}
    group = zarr.create_group(str(path), attributes=attributes, zarr_format=options.get("zarr_format", 3))
    for name in ("data", "indices", "indptr"):
        values = getattr(rows, name)
        config = {"write_empty_chunks": True}
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(50,), config=config, **compress(options)
        )
        array[...] = values


def compress(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "zarr_format"}


def write_anndata(path: Path, rows: Any, version: int) -> None:
    frame = anndata.AnnData(rows)
    frame.obs_names = [f"row {i}" for i in range(ROWS)]
    frame.var_names = [f"feature {i}" for i in range(FEATURES)]
    with anndata.settings.override(zarr_write_format=version):
        frame.write_zarr(path)


def convert_dense(path: Path) -> None:
    np.save(path.with_suffix(".npy"), make_rows())
    convert(path.with_suffix(".npy"), path, chunk_rows=CHUNK)


def convert_csv(path: Path) -> None:
    lines = [",".join(["id", *(f"feature {i}" for i in range(FEATURES))])]
    lines += [f"row {i}," + ",".join(map(str, row)) for i, row in enumerate(make_rows())]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    convert(path.with_suffix(".csv"), path, chunk_rows=CHUNK)


def convert_sparse(path: Path) -> None:
    scipy.sparse.save_npz(path.with_suffix(".npz"), make_sparse())
    convert(path.with_suffix(".npz"), path)


def write_zip(path: Path) -> None:
    write_array(path.with_suffix(".folder"), "f4", compressors=Crc32cCodec())
    shutil.make_archive(str(path), "zip", path.with_suffix(".folder"))
    path.with_name(path.name + ".zip").rename(path)


STORES: dict[str, Callable[[Path], None]] = {
    "version 2": lambda path: write_array(path, "f4", zarr_format=2, compressors=None),
    "version 2, zlib, bytes": lambda path: write_array(path, "u1", zarr_format=2, compressors=numcodecs.Zlib(1)),
    "version 2, blosc": lambda path: write_array(path, "f8", zarr_format=2, compressors=numcodecs.Blosc()),
    "version 2, by columns": lambda path: write_array(
        path, "f4", zarr_format=2, compressors=numcodecs.GZip(1), order="F"
    ),
    "version 3": lambda path: write_array(path, "f4", compressors=None),
    "version 3, bytes": lambda path: write_array(path, "u1", compressors=None),
    "version 3, zstd": lambda path: write_array(path, "f4", compressors=ZstdCodec(level=1)),
    "version 3, zstd with checksum": lambda path: write_array(
        path, "f8", compressors=ZstdCodec(level=1, checksum=True)
    ),
    "version 3, gzip": lambda path: write_array(path, "f8", compressors=GzipCodec(level=1)),
    "version 3, checksums": lambda path: write_array(path, "u1", compressors=Crc32cCodec()),
    "version 3, columns in chunks": lambda path: write_array(path, "f4", chunks=(CHUNK, 2), compressors=Crc32cCodec()),
    "shards": lambda path: write_array(path, "f4", shards=(2 * CHUNK, FEATURES), compressors=None),
    "shards with checksums": lambda path: write_array(
        path, "f4", shards=(2 * CHUNK, FEATURES), compressors=[BloscCodec(), Crc32cCodec()]
    ),
    "shards, gzip, bytes": lambda path: write_array(
        path, "u1", shards=(2 * CHUNK, FEATURES), compressors=GzipCodec(level=1)
    ),
    "zip": write_zip,
    "CSR": lambda path: write_csr(path, compressors=None),
    "CSR, checksums": lambda path: write_csr(path, compressors=Crc32cCodec()),
    "CSR, version 2": lambda path: write_csr(path, zarr_format=2, compressors=numcodecs.Blosc()),
    "AnnData, version 2": lambda path: write_anndata(path, make_rows(), 2),
    "AnnData": lambda path: write_anndata(path, make_rows(), 3),
    "AnnData, CSR": lambda path: write_anndata(path, scipy.sparse.csr_matrix(make_sparse()), 3),
    "converted": convert_dense,
    "converted, names": convert_csv,
    "converted, CSR": convert_sparse,
}


def prepare_stores(folder: Path) -> dict[str, Any]:
    """Write every store; gives what each holds, and what dmmc info says of damage to it."""
    wanted = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, write in STORES.items():
            place = folder / name
            place.mkdir(parents=True)
            write(place / "X.zarr")
            said = info(place / "X.zarr")
            wanted[name] = {
                "digest": read_store(place / "X.zarr"),
                "checksums": said["checksums"],
                "sealed": said["sealed"],
            }
    return wanted


def alter_store(source: Path, target: Path, rng: Random) -> str:
    target.mkdir()
    store = target / "X.zarr"
    (shutil.copytree if (source / "X.zarr").is_dir() else shutil.copy)(source / "X.zarr", store)
    files = [store] if store.is_file() else list_files(store)
    described = [path for path in files if path.name in METADATA]
    if described and rng.random() < 0.5:
        path = pick(rng, described)
        words = alter_json_file(path, rng) if rng.random() < 0.8 else alter_file(path, rng)
        return f"metadata: {path.parent.name}/{words}"
    path = pick(rng, [path for path in files if path not in described])
    words = alter_file(path, rng)
    moved = "exchanged" in words or "metadata" in words
    return f"{'metadata' if moved else 'chunk'}: {path.relative_to(target)} {words}"


def read_store(path: Path) -> str:
    """A digest of all that a fit sees of a store; a sentence where it cannot be read, however it is read."""
    found = []
    with cut_into_blocks(True):
        dataset = open_dataset(path, n_jobs=1)
        with Local(dataset, 1) as engine:
            measure(dataset, engine.rows, "auto")
        found.append(dataset)
        stored = open_stored(path)
        assert stored is not None
        parts = [stored.reader.read(a, b) for a, b in zip(stored.bounds[:-1], stored.bounds[1:], strict=True)]
    told = []
    for one in found:
        rows = one.take(np.arange(one.n_rows))
        numbers = rows if isinstance(rows, np.ndarray) else rows.toarray()
        told.append(
            [
                hash_array(numbers),
                str(numbers.dtype),
                one.feature_names,
                None if one.row_ids is None else list(map(str, one.row_ids)),
            ]
        )
    blocks = np.concatenate([part if isinstance(part, np.ndarray) else part.to_scipy().toarray() for part in parts])
    told.append(hash_array(blocks))
    told.append([stored.n_rows, stored.n_features, stored.feature_names is not None])
    return hashlib.sha256(json.dumps(told, default=str).encode()).hexdigest()


def hash_array(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes() + str(array.shape).encode()).hexdigest()
