"""The data sets are what the papers describe, and a missing one is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import issparse

from dmmc import InputError

SHAPES = {
    "digits": ((1797, 64), np.float64, 10),
    "wine": ((178, 13), np.float64, 3),
    "iris": ((150, 4), np.float64, 3),
    "breast_cancer": ((569, 30), np.float64, 2),
    "mnist": ((70_000, 784), np.uint8, 10),
    "letter": ((20_000, 16), np.uint8, 26),
    "satellite": ((6_435, 36), np.uint8, 6),
    "ionosphere": ((351, 34), np.float64, 2),
    "newsgroups_rec": ((3_970, 8_012), np.float32, 4),
    "cifar10_cnn": ((34_000, 2_560), np.uint8, 10),
    "fashion_mnist": ((70_000, 784), np.uint8, 10),
    "newsgroups": ((18_828, 25_622), np.float32, 20),
    "usps": ((9_298, 256), np.uint16, 10),
    "coil20": ((1_440, 1_024), np.uint8, 20),
    "webkb": ((8_282, 13_967), np.float32, 7),
    "cora": ((2_708, 1_433), np.uint8, 7),
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_data_set_has_its_shape_dtype_and_classes(name: str, load: Callable[[str], tuple[Any, Any]]) -> None:
    X, y = load(name)
    shape, dtype, classes = SHAPES[name]
    assert X.shape == shape
    assert X.dtype == dtype
    assert y.shape == shape[:1]
    assert len(np.unique(y)) == classes


def test_every_name_is_listed() -> None:
    assert set(SHAPES) == {*data_sets.BUNDLED, *data_sets.FILES}


def test_text_is_csr_with_32_bit_indices(load: Callable[[str], tuple[Any, Any]]) -> None:
    X, _ = load("newsgroups_rec")
    assert issparse(X)
    assert X.format == "csr"
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.nnz == 237_142
    assert_array_equal(np.round(X.multiply(X).sum(axis=1), 4), 1)  # unit rows


def test_counts_of_words_are_whole_numbers_in_the_places_of_their_weights(
    load: Callable[[str], tuple[Any, Any]],
) -> None:
    weights, counts = load("newsgroups_rec")[0], data_sets.load("newsgroups_rec:counts")[0]
    assert_array_equal(counts.indices, weights.indices)
    assert_array_equal(counts.data, np.rint(counts.data))
    assert counts.data.min() >= 1


def test_a_file_is_read_from_the_folder_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.savez(tmp_path / "letter.npz", X=X, y=y)
    for found in (data_sets.load("letter", tmp_path), data_sets.load("letter", str(tmp_path))):
        assert_array_equal(found[0], X)
        assert_array_equal(found[1], y)
    monkeypatch.setenv("DMMC_DATA", str(tmp_path))
    assert data_sets.folder() == tmp_path
    assert_array_equal(data_sets.load("letter")[0], X)


def test_a_missing_file_is_an_error_that_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mnist") as caught:
        data_sets.load("mnist", tmp_path)
    assert str(tmp_path / "mnist.npz") in str(caught.value)


def test_no_data_folder_is_an_error_that_names_both_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DMMC_DATA", raising=False)
    monkeypatch.setattr(data_sets, "_BESIDE_THE_CHECKOUT", tmp_path / "nowhere")
    assert data_sets.folder() is None
    with pytest.raises(InputError, match="DMMC_DATA is not set") as caught:
        data_sets.load("mnist")
    assert str(tmp_path / "nowhere") in str(caught.value)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"'tulips': one of digits, wine, iris"):
        data_sets.load("tulips")


def test_a_pair_is_the_rows_of_two_classes_in_their_order() -> None:
    X, y = data_sets.load("digits")
    X38, y38 = data_sets.pair(X, y, 8, 3)
    assert_array_equal(y38, y[(y == 3) | (y == 8)])
    assert_array_equal(X38, X[(y == 3) | (y == 8)])


def test_a_pair_works_on_letters_and_on_sparse_rows(load: Callable[[str], tuple[Any, Any]]) -> None:
    assert len(data_sets.pair(*load("letter"), "A", "B")[1]) == 1555
    X, y = data_sets.pair(*load("newsgroups_rec"), 0, 3)
    assert issparse(X)
    assert X.shape[0] == len(y) == 988 + 997


def test_a_pair_with_an_absent_class_is_an_error() -> None:
    with pytest.raises(InputError, match="No row is of class 11"):
        data_sets.pair(*data_sets.load("digits"), 3, 11)
