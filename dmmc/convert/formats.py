"""Which kind of file it is: by its first bytes where they tell, by its name where it is text."""

import re
from contextlib import closing
from pathlib import Path, PurePath

from dmmc.convert.arrays import IdxFile, NpyFile, NpzFile
from dmmc.convert.csv_files import Csv
from dmmc.convert.h5ad import H5ad
from dmmc.convert.matrix_market import MatrixMarket
from dmmc.convert.parquet import Parquet
from dmmc.convert.reading import Bytes, Reader
from dmmc.convert.svmlight import Svmlight
from dmmc.errors import InputError

MAGIC: dict[bytes, type[Reader]] = {
    b"\x93NUMPY": NpyFile,
    b"PK\x03\x04": NpzFile,
    b"PK\x05\x06": NpzFile,
    b"PAR1": Parquet,
    b"\x89HDF\r\n\x1a\n": H5ad,
    b"%%MatrixMarket": MatrixMarket,
    b"%%matrixmarket": MatrixMarket,
}

ZIPPED = (MatrixMarket, IdxFile, Csv, Svmlight)  # kinds that are read from gzip files

SUFFIXES: dict[str, type[Reader]] = {
    ".npy": NpyFile,
    ".npz": NpzFile,
    ".h5ad": H5ad,
    ".mtx": MatrixMarket,
    ".idx": IdxFile,
    **dict.fromkeys((".parquet", ".pq"), Parquet),
    **dict.fromkeys((".csv", ".tsv", ".tab", ".data"), Csv),
    **dict.fromkeys((".svm", ".svmlight", ".libsvm"), Svmlight),
}

KNOWN = "npy, npz, csv, parquet, svmlight (.svm, .svmlight, .libsvm, .txt), Matrix Market (.mtx), idx and h5ad"

PAIRS = re.compile(rb"^[ \t]*[^\s:#,;]+([ \t]+qid:\S+)?([ \t]+\d+:\S+)+[ \t]*(#.*)?\r?$", re.MULTILINE)
"""A line of an svmlight file."""


def is_known(name: str) -> bool:
    """Whether a name is that of a file, of a kind that can be converted."""
    suffix = PurePath(name.lower().removesuffix(".gz")).suffix
    return suffix in SUFFIXES or suffix == ".txt"


def find_reader(path: Path) -> type[Reader]:
    """Find the class that reads an existing file."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with closing(Bytes(path)) as source:
        start = source.read(2**16)
    if not start:
        raise InputError(f"{path.name} is empty: a file with rows is wanted.")
    kind = _find_kind(path, start)
    if kind is None:
        raise InputError(f"{path.name} is of no known kind: {KNOWN} files can be converted.")
    if zipped and kind not in ZIPPED:
        raise InputError(f"{path.name} is a gzip file of a kind that is not read from one: gunzip it first.")
    return kind


def _find_kind(path: Path, start: bytes) -> type[Reader] | None:
    for magic, kind in MAGIC.items():
        if start.startswith(magic):
            return kind
    if start[:2] == b"\0\0" and len(start) > 3 and start[2] in IdxFile.KINDS and 1 <= start[3] <= 8:
        return IdxFile
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    if suffix == ".txt" and b"\0" not in start:
        return Svmlight if PAIRS.search(start) else Csv
    return SUFFIXES.get(suffix)
