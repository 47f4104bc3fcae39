"""Labels in files of every kind."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from dmmc import InputError
from dmmc.results.label_arrays import read_labels, write_arrays

LABELS = np.array([0, 2, 1, 1, 0], np.int32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_arrays({tmp_path / "labels.zarr": LABELS})
    zarr.create_array(str(tmp_path / "plain.zarr"), data=LABELS, zarr_format=2)
    np.save(tmp_path / "labels.npy", LABELS)
    np.savez(tmp_path / "one.npz", y=LABELS)
    np.savez_compressed(tmp_path / "two.npz", X=np.zeros((5, 2)), y=LABELS)
    return tmp_path


@pytest.mark.parametrize("name", ["labels.zarr", "plain.zarr", "labels.npy", "one.npz", "one.npz:y", "two.npz:y"])
def test_labels_are_read_from(name: str, folder: Path) -> None:
    assert read_labels(str(folder / name)).tolist() == LABELS.tolist()


def test_labels_of_a_result_folder_are_its_labels(fitted: Path) -> None:
    assert read_labels(str(fitted)).tolist() == read_labels(str(fitted / "labels.zarr")).tolist()


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0\n2\n1\n", ["0", "2", "1"]),
        ("label\n0\n2\n", ["0", "2"]),
        ("0", ["0"]),
        ("cat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("animal\ncat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("row,cluster\na,3\nb,4\n", ["3", "4"]),
        ("a,3\nb,4\n", ["3", "4"]),
        ("17,3\n18,4\n", ["3", "4"]),
        ('"x, y",3\r\n"z\nz",4\r\n\r\n', ["3", "4"]),
        ("\ufeffy\n1\n-1\n", ["1", "-1"]),
        (" y \n 1.0\n 2.0 \n", ["1.0", "2.0"]),
        ("id,name\n1,ü\n2,ö\n3,ü\n", ["ü", "ö", "ü"]),
    ],
)
def test_a_csv_has_its_labels_in_the_last_column(text: str, labels: list[str], tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(text, encoding="utf-8")
    assert read_labels(str(tmp_path / "y.csv")).tolist() == labels


def npy(array: Any) -> bytes:
    import io

    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


BAD = {
    "ragged.csv": (b"1,2\n3,4\n5\n", "1 column.s. in line 3, but 2 before it"),
    "gap.csv": (b"1\n2\n,\n", "2 column.s. in line 3"),
    "hole.csv": (b"a,1\nb,\n", "no label in line 2"),
    "empty.csv": (b"", "is empty"),
    "blank.csv": (b"\n\n", "is empty"),
    "header.csv": (b"label\n", "is empty"),
    "latin.csv": (b"caf\xe9\n", "UnicodeDecodeError"),
    "wide.csv": (b"x" * 200_000, "field larger"),
    "pickled.npy": (pickle.dumps([1]), "cannot be read as labels"),
    "objects.npy": (npy(np.array([{}], object)), "cannot be read as labels"),
    "cut.npy": (npy(np.arange(1000))[:500], "cannot be read as labels"),
    "huge.npy": (npy(np.arange(9)).replace(b"(9,)", b"(9000000000000000,)"), "cannot be read as labels"),
    "noise.npz": (b"PK\x03\x04 noise", "cannot be read as labels"),
    "array.npz": (npy(np.arange(3)), "single array, not an archive"),
    "notes.txt": (b"1\n2\n", "something else"),
    "no-suffix": (b"1\n2\n", "something else"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_without_labels_is_refused(name: str, tmp_path: Path) -> None:
    data, words = BAD[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words):
        read_labels(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.npy", "does not exist"),
        ("nowhere.npz:y", "nowhere.npz does not exist"),
        ("two.npz", "holds X, y; say which as two.npz:KEY"),
        ("two.npz:z", "holds X, y; say which"),
        ("two.npz:", "holds X, y; say which"),
        (".", "cannot be read as labels"),
    ],
)
def test_labels_that_are_not_there_are_refused(name: str, words: str, folder: Path) -> None:
    with pytest.raises(InputError, match=words):
        read_labels(str(folder / name))


def test_a_group_is_not_an_array_of_labels(tmp_path: Path) -> None:
    zarr.create_group(str(tmp_path / "g.zarr"))
    with pytest.raises(InputError, match="zarr group"):
        read_labels(str(tmp_path / "g.zarr"))


def test_damage_to_written_labels_is_noticed(tmp_path: Path) -> None:
    values = np.zeros(100_000, np.int32)  # two chunks
    write_arrays({tmp_path / "l.zarr": values})
    first, second = (tmp_path / "l.zarr" / "c" / name for name in "01")
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 4
    first.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be read as labels"):
        read_labels(str(tmp_path / "l.zarr"))
    second.unlink()
    with pytest.raises(InputError, match="1 of 2 chunks are missing"):
        read_labels(str(tmp_path / "l.zarr"))


@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (5, 3), (0, 3)])
def test_any_shape_is_written_and_read(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    write_arrays({tmp_path / "deep" / "x.zarr": values})
    found = read_labels(str(tmp_path / "deep" / "x.zarr"))
    assert (found.dtype, found.shape) == (values.dtype, shape)
    assert np.array_equal(found, values)


def test_chunks_of_scores_have_a_few_megabytes(tmp_path: Path) -> None:
    write_arrays({tmp_path / "s.zarr": np.ones((30_000, 100))})
    chunks = zarr.open(str(tmp_path / "s.zarr"), mode="r").chunks
    assert 4e6 < chunks[0] * chunks[1] * 8 <= 8 * 2**20


def test_of_two_arrays_both_appear_or_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="object"):
        write_arrays({tmp_path / "one.zarr": np.arange(3), tmp_path / "two.zarr": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_labels_are_found_in_tables_by_the_name_of_their_column_and_in_idx_files(tmp_path: Path) -> None:
    import gzip

    import pyarrow as pa
    import pyarrow.parquet

    from dmmc.results.label_arrays import read_ids
    from dmmc.results.label_table import write_table

    ids, more = np.array(["a", "b,c", "d"]), {"confidence": np.ones(3), "runner_up": np.zeros(3)}
    for name in ("l.csv", "l.parquet"):
        write_table(tmp_path / name, ids, np.array([1, 0, 2]), None, more)
        assert read_labels(str(tmp_path / name)).tolist() == ["1", "0", "2"]
        assert read_ids(str(tmp_path / name)) == ids.tolist()
    (tmp_path / "idx1.gz").write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x03\x07\x00\x09"))
    assert read_labels(str(tmp_path / "idx1.gz")).tolist() == [7, 0, 9]
    pa.parquet.write_table(pa.table({"x": [1], "y": [2]}), tmp_path / "no.parquet")
    with pytest.raises(InputError, match="no column called label; it has 'x', 'y'"):
        read_labels(str(tmp_path / "no.parquet"))
