"""npy, npz and idx files keep their numbers, their dtype and the shape of images."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from converted import ZARR_WARNINGS, idx, numbers, through, written

from dmmc import InputError
from dmmc.convert import convert

pytestmark = ZARR_WARNINGS


@pytest.mark.parametrize("dtype", ["u1", "<i4", ">i8", "<f4", ">f8", "f2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_keep_their_numbers_and_their_dtype(tmp_path, small, dtype, order):
    X = np.asarray(np.random.default_rng(4).integers(0, 2, (50, 7)) * 1.5, dtype, order=order)
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "one.npz", X)
    np.savez_compressed(tmp_path / "two.npz", a=X, b=np.arange(3))
    held = {"f2": np.float32, "?": np.uint8}.get(dtype, np.dtype(dtype).newbyteorder("="))
    for name, key in (("x.npy", None), ("one.npz", None), ("two.npz", "a")):
        dataset = through(tmp_path / name, key=key)
        assert dataset.dtype == held
        assert np.array_equal(numbers(dataset), X)


@pytest.mark.parametrize("order", ["C", "F"])
def test_images_are_flattened_and_their_shape_is_kept(tmp_path, small, order):
    images = np.asarray(np.random.default_rng(5).integers(0, 256, (40, 4, 3, 2)), np.uint8, order=order)
    np.save(tmp_path / "images.npy", images)
    assert np.array_equal(numbers(through(tmp_path / "images.npy")), images.reshape(40, -1))
    assert zarr.open(tmp_path / "images.npy.zarr", mode="r").attrs["image_shape"] == [4, 3, 2]


def test_a_sparse_npz_is_what_scipy_saved(tmp_path, small):
    matrix = sp.random_array((50, 30), density=0.1, rng=np.random.default_rng(6), format="csr", dtype=np.float32)
    sp.save_npz(tmp_path / "m.npz", matrix)
    dataset = through(tmp_path / "m.npz")
    assert dataset.is_sparse
    assert dataset.dtype == np.float32
    assert np.array_equal(numbers(dataset), matrix.toarray())
    sp.save_npz(tmp_path / "c.npz", matrix.tocsc())
    with pytest.raises(InputError, match=r"csc form.*tocsr"):
        convert(tmp_path / "c.npz", tmp_path / "out.zarr")


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_images_stay_bytes_and_keep_their_shape(tmp_path, small, zipped):
    images = np.random.default_rng(7).integers(0, 256, (30, 5, 4), dtype=np.uint8)
    data = idx(images.shape, images.tobytes())
    path = written(tmp_path, gzip.compress(data) if zipped else data, "train-images-idx3-ubyte")
    dataset = through(path)
    assert dataset.dtype == np.uint8
    assert np.array_equal(numbers(dataset), images.reshape(30, 20))
    assert zarr.open(str(path) + ".zarr", mode="r").attrs["image_shape"] == [5, 4]


def test_idx_of_other_types_is_read(tmp_path):
    X = np.arange(-3, 3).reshape(3, 2)
    for kind, dtype in ((9, "i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")):
        dataset = through(written(tmp_path, idx((3, 2), X.astype(dtype).tobytes(), kind), "x.idx"))
        assert np.array_equal(numbers(dataset), X)


def test_pickled_arrays_are_never_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "sprung"),)

    np.save(tmp_path / "x.npy", np.array([[Trap(), 1]], object), allow_pickle=True)
    np.savez(tmp_path / "x.npz", np.array([[Trap(), 1]], object))
    for name in ("x.npy", "x.npz"):
        with pytest.raises(InputError, match="pickled"):
            convert(tmp_path / name, tmp_path / "out.zarr")
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "x.npz"]
