"""Small files of every kind that a fit takes directly, matrices and tables, which the fuzz tests damage."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pandas
import scipy.io
import scipy.sparse
from alterations import Random, alter_file, list_files, pick
from fuzz_cases import ROWS, make_rows, make_table
from sklearn.datasets import dump_svmlight_file

import dmmc
from dmmc.errors import InputError
from dmmc.info import format_info
from dmmc.plain_json import plain
from dmmc.sources import cache
from dmmc.sources import open as sources
from dmmc.sources.describe import describe

CELLS = (
    *(
        b"",
        b"NA",
        b"nan",
        b"inf",
        b"-1e400",
        b"1e308",
        b"x",
        b'"',
        b'""',
        b'"a\nb"',
        b"a,b",
        b"\x00",
        b"\xff",
        b"\xef\xbb\xbf",
    ),
    *(
        b"2024-02-30",
        b"9999-12-31",
        b"true",
        b"0x10",
        b"1_000",
        b"1,5",
        b"7" * 400,
        b" 3 ",
        b"=1+1",
        b"\xc3\xa9",
        b"\r",
    ),
)
"""What may stand in the place of a cell of a csv file."""


def write_csv(path: Path, **options: Any) -> None:
    make_table().to_csv(path, index=False, **options)


def write_parts(path: Path) -> None:
    path.mkdir()
    for number, part in enumerate(np.array_split(np.arange(ROWS), 3)):
        make_table().iloc[part].to_parquet(path / f"part-{number}.parquet", index=False)


FILES: dict[str, Callable[[Path], None]] = {
    "table.csv": write_csv,
    "table.tsv": lambda path: write_csv(path, sep="\t"),
    "table.csv.gz": lambda path: path.write_bytes(gzip.compress(make_table().to_csv(index=False).encode())),
    "quoted.csv": lambda path: write_csv(path, quoting=1),
    "matrix.csv": lambda path: pandas.DataFrame(make_rows()).to_csv(path, index=False),
    "bare.csv": lambda path: np.savetxt(path, make_rows(), delimiter=","),
    "table.parquet": lambda path: make_table().to_parquet(path, row_group_size=30),
    "matrix.parquet": lambda path: pandas.DataFrame(make_rows(), columns=list("abcde")).to_parquet(path),
    "parts": write_parts,
    "matrix.npy": lambda path: np.save(path, make_rows()),
    "matrix.npz": lambda path: np.savez_compressed(path, X=make_rows()),
    "sparse.npz": lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.maximum(make_rows(), 0))),
    "matrix.mtx": lambda path: scipy.io.mmwrite(path, scipy.sparse.coo_array(np.maximum(make_rows(), 0))),
    "matrix.svm": lambda path: dump_svmlight_file(make_rows(), np.arange(ROWS) % 3, str(path)),
    "matrix.h5ad": lambda path: anndata.AnnData(make_rows()).write_h5ad(path),
}


def prepare_files(folder: Path) -> dict[str, Any]:
    """Write every file; gives the labels of a fit of each."""
    wanted = {}
    for name, write in FILES.items():
        (folder / name).mkdir(parents=True)
        write(folder / name / name)
        shutil.copytree(folder / name, folder / "unaltered")
        wanted[name] = [fit(folder / "unaltered", name, size) for size in (0, sources.SMALL)]
        shutil.rmtree(folder / "unaltered")
    return wanted


def alter_source(source: Path, target: Path, rng: Random) -> str:
    """Damage of a file, cells of a csv file, or what an earlier run has kept of it."""
    shutil.copytree(source, target)
    place = target / source.name
    how = rng.random()
    if how < 0.25:
        fit(target, source.name, 0)
        kept = list_files(target / cache.FOLDER)
        entries = [path for path in kept if path.name == cache.ENTRY]
        path = pick(rng, entries if rng.random() < 0.4 else kept)
        return f"kept: {alter_file(path, rng)}"
    if source.suffix in (".csv", ".tsv") and how < 0.75:
        return _alter_cell(place, rng)
    return alter_file(place if place.is_file() else pick(rng, list_files(place)), rng)


def _alter_cell(path: Path, rng: Random) -> str:
    lines = path.read_bytes().split(b"\n")
    number = 0 if rng.random() < 0.2 else int(rng.integers(len(lines)))
    mark = b"\t" if path.suffix == ".tsv" else b","
    cells = lines[number].split(mark)
    place, new = int(rng.integers(len(cells))), pick(rng, CELLS)
    how = rng.random()
    if how < 0.7:
        cells[place] = new
    elif how < 0.8:
        cells.insert(place, new)
    elif how < 0.9:
        del cells[place]
    else:
        cells = [new if rng.random() < 0.5 else cell for cell in cells]
    lines[number] = mark.join(cells)
    path.write_bytes(b"\n".join(lines))
    return f"line {number}, cell {place}: {new[:20]!r}"


def fit(folder: Path, name: str, small: int) -> list[int]:
    """Labels of a fit, of files that are converted where they have more than so many bytes."""
    before, sources.SMALL = sources.SMALL, small
    out = folder / "out"
    try:
        run = dmmc.fit(folder / name, 3, method="cpmmc", max_iter=60, n_jobs=1, out=out, overwrite=True)
        labels = run.model.predict(folder / name)
        assert labels.tolist() == run.labels.tolist() or len(labels) > len(run.labels)
    finally:
        sources.SMALL = before
        shutil.rmtree(out, ignore_errors=True)
    return [int(label) for label in run.labels]


def use_source(name: str, words: str, folder: Path, wanted: list[list[int]]) -> str:
    """Look at a file and fit it, both ways; they agree, and what was kept of a file is used only as it was written."""
    found = describe(folder / name, check=True)
    format_info(found)
    json.dumps(plain(found))
    results: list[Any] = []
    for small in (0, sources.SMALL):
        try:
            results.append(fit(folder, name, small))
        except InputError as error:
            if not str(error) or "\n" in str(error) or len(str(error)) > 3000:
                return f"no sentence: {error}"
            results.append(error)
    kept = words.startswith("kept: ")
    if kept and (results[1] != wanted[1] or (isinstance(results[0], list) and results[0] != wanted[0])):
        return "other"
    refused = [isinstance(one, InputError) for one in results]
    if any(refused):
        if not kept and not all(refused):
            return f"one way alone refuses: {results}"
        raise next(one for one in results if isinstance(one, InputError))
    return "same" if results == wanted else "another file"
