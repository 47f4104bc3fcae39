"""Scores of labels, against scikit-learn and by hand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zarr
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.cluster import contingency_matrix

import dmmc
from dmmc import InputError
from dmmc.results.metrics import score

two_columns = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(-3, 5), min_size=n, max_size=n),
        st.lists(st.integers(0, 4), min_size=n, max_size=n),
    )
)


def matched_by_trying_all(labels: list[int], truth: list[int]) -> float:
    counts = contingency_matrix(truth, labels)
    counts = counts if counts.shape[0] <= counts.shape[1] else counts.T
    best = max(
        sum(counts[i, j] for i, j in enumerate(columns))
        for columns in permutations(range(counts.shape[1]), counts.shape[0])
    )
    return float(best) / len(labels)


@given(two_columns)
@example(([0], [0]))
@example(([0, 0, 0], [0, 1, 2]))
@example(([0, 1, 2], [0, 0, 0]))
@example(([0, 0], [1, 1]))
@example(([0, 0, 1, 1], [0, 1, 0, 1]))
def test_scores_agree_with_scikit_learn(columns: tuple[list[int], list[int]]) -> None:
    labels, truth = columns
    found = score(labels, truth)
    assert found["nmi"] == pytest.approx(normalized_mutual_info_score(truth, labels), abs=1e-10)
    assert found["ari"] == pytest.approx(adjusted_rand_score(truth, labels), abs=1e-12)
    counts = contingency_matrix(truth, labels)
    assert found["purity_error"] == pytest.approx(1 - counts.max(axis=0).sum() / len(labels), abs=1e-12)


@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 5), min_size=n, max_size=n),
            st.lists(st.integers(0, 3), min_size=n, max_size=n),
        )
    )
)
def test_accuracy_is_that_of_the_best_one_to_one_matching(columns: tuple[list[int], list[int]]) -> None:
    labels, truth = columns
    assert score(labels, truth)["accuracy"] == pytest.approx(matched_by_trying_all(labels, truth), abs=1e-12)


def test_a_known_table_gives_the_numbers_worked_out_by_hand() -> None:
    labels = [0, 0, 0, 1, 1, 1, 2, 2]
    truth = ["a", "a", "b", "b", "b", "b", "a", "a"]
    found = score(labels, truth)
    assert found["purity_error"] == pytest.approx(1 / 8)
    assert found["accuracy"] == pytest.approx(5 / 8)  # 0 or 2 is a, 1 is b, one cluster is left over
    assert list(found) == ["purity_error", "accuracy", "nmi", "ari"]
    assert all(type(value) is float for value in found.values())


def test_names_of_clusters_do_not_matter() -> None:
    truth = np.repeat([0, 1, 2], [50, 30, 20])
    renamed = np.array(["x", "y", "z"])[(truth + 1) % 3]
    assert score(renamed, truth) == {"purity_error": 0.0, "accuracy": 1.0, "nmi": 1.0, "ari": 1.0}


def test_one_cluster_for_everything_scores_nothing_but_the_majority() -> None:
    found = score(np.zeros(10, dtype=np.int32), [0] * 7 + [1] * 3)
    assert found == pytest.approx({"purity_error": 0.3, "accuracy": 0.7, "nmi": 0.0, "ari": 0.0})


SOURCES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "list": lambda a, _: a.tolist(),
    "int8": lambda a, _: a.astype(np.int8),
    "uint64": lambda a, _: a.astype(np.uint64),
    "float": lambda a, _: a.astype(np.float64),
    "strings": lambda a, _: a.astype(str),
    "objects": lambda a, _: a.astype(object),
    "pandas": lambda a, _: pd.Series(a, index=range(7, 7 + len(a))),
    "pandas strings": lambda a, _: pd.Series(a).astype(str),
    "polars": lambda a, _: pl.Series(a),
    "dask": lambda a, _: da.from_array(a, chunks=333),
    "dask, unknown lengths": lambda a, _: da.from_array(a, chunks=333)[da.from_array(a, chunks=333) >= 0],
    "dask, uneven": lambda a, _: da.from_array(a, chunks=((1, 0, 499, len(a) - 500),)),
    "zarr in memory": lambda a, _: zarr.array(a, chunks=(97,)),
    "zarr on disk": lambda a, path: zarr.create_array(path / "y.zarr", data=a, chunks=(101,)),
    "zarr, sharded": lambda a, path: zarr.create_array(path / "y.zarr", data=a, chunks=(50,), shards=(250,)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_scores(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 5, 1500)
    labels = np.where(rng.random(1500) < 0.3, rng.integers(0, 4, 1500), truth)
    wanted = score(labels, truth)
    source = SOURCES[kind](labels, tmp_path)
    assert score(source, truth) == pytest.approx(wanted, abs=1e-12)
    assert score(truth, source)["nmi"] == pytest.approx(wanted["nmi"], abs=1e-12)
    assert score(source, zarr.array(truth, chunks=(77,))) == pytest.approx(wanted, abs=1e-12)


def test_large_and_negative_numbers_are_told_apart() -> None:
    labels = np.array([2**63, 2**63 + 1, 2**63, 0], dtype=np.uint64)
    truth = np.array([-(2**62), 2**62, -(2**62), -1])
    assert score(labels, truth) == {"purity_error": 0.0, "accuracy": 1.0, "nmi": 1.0, "ari": 1.0}


def test_booleans_strings_and_numbers_of_mixed_kinds_are_labels() -> None:
    assert score([True, False, True], ["b", "a", "a"])["accuracy"] == pytest.approx(2 / 3)
    assert score(np.array(["a", 1, 2.5, "a"], object), [0, 1, 2, 0])["ari"] == 1.0


def test_the_rand_index_of_many_rows_does_not_overflow() -> None:
    truth = np.tile(np.arange(10, dtype=np.int8), 500_000)
    found = score((truth + 1) % np.int8(10), truth)
    assert found == pytest.approx({"purity_error": 0.0, "accuracy": 1.0, "nmi": 1.0, "ari": 1.0})


@pytest.mark.parametrize(
    ("labels", "truth", "sentence"),
    [
        ([], [], "0 rows"),
        ([0, 1], [0, 1, 1], "labels hold 2 rows and truth 3"),
        (da.zeros(5, chunks=2), np.zeros(4), "labels hold 5 rows and truth 4"),
        (
            da.from_array(np.arange(5), chunks=2)[da.arange(5, chunks=2) > 0],
            [0] * 7,
            "labels hold 4 rows and truth 7",
        ),
        ([0.0, np.nan], [0, 1], "labels holds NaN in row 1"),
        ([0, 1], ["a", None], "truth holds None in row 1"),
        ([0, 1], ["a", float("nan")], "truth holds nan in row 1"),
        (pd.Series([1, None], dtype="Int64"), [0, 1], "in row 1"),
        (np.ma.masked_array([1, 2], mask=[False, True]), [0, 1], "labels has masked rows"),
        (np.zeros((3, 1)), [0, 0, 0], "labels has shape (3, 1)"),
        ([0, 0, 0], np.zeros((3, 2)), "truth has shape (3, 2)"),
        (da.zeros((4, 2), chunks=2), np.zeros(4), "labels has shape (4, 2)"),
        (pd.DataFrame({"a": [1], "b": [2]}), [0], "labels has shape (1, 2)"),
        (3, [1], "labels has shape ()"),
        ("labels.zarr", [1], "labels has shape ()"),
        ([[1], [1, 2]], [0, 1], "labels cannot be read"),
        (np.array([1j, 2j]), [0, 1], "labels holds 1j in row 0"),
    ],
)
def test_bad_input_gets_a_sentence(labels: Any, truth: Any, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        score(labels, truth)
    assert sentence in str(caught.value)


def test_a_column_of_row_numbers_is_refused_rather_than_tabulated() -> None:
    with pytest.raises(InputError, match="not row numbers"):
        score(np.arange(10_000), np.arange(10_000))


def test_the_package_offers_score() -> None:
    assert dmmc.score is score
