"""Columns that number the rows are mentioned; measurements, pixels and counts are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import dmmc
from dmmc.data.open import open_dataset
from dmmc.info import info, row_numbers

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]
WORDS = "seems to have ids or row numbers among its features: "


def measured(n: int, d: int = 3) -> Array:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) + 5.0 * (np.arange(n) % 2)[:, None]


def with_column(values: Any, at: int = 1) -> Array:
    return np.insert(measured(len(values)), at, values, axis=1)


NUMBERINGS = {
    "1 to n": np.arange(1, 3001),
    "n to 1": np.arange(3000, 0, -1),
    "in any order": np.random.default_rng(1).permutation(3000) + 17,
    "with gaps": np.cumsum(np.random.default_rng(1).integers(1, 1000, 3000)),
    "of a few rows": np.arange(25),
    "below 0": np.arange(-1500, 1500),
}
rng = np.random.default_rng(2)
OTHERS = {
    "measurements": rng.standard_normal(3000),
    "sorted measurements": np.sort(rng.standard_normal(3000)),
    "incomes": rng.integers(10_000, 200_000, 3000),
    "incomes, no two alike": 10 * rng.permutation(30_000)[:3000],
    "counts": rng.poisson(4, 3000),
    "pixels": rng.integers(0, 256, 3000),
    "years": np.repeat(np.arange(1900, 2000), 30),
    "nearly a numbering": np.where(np.arange(3000) == 1234, 7, rng.permutation(3000)),
    "beyond float64": np.arange(3000) * 2.0**60,
    "of very few rows": np.arange(12),
}


def fit_notes(X: Any, **options: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dmmc.fit(X, 2, max_iter=2, **options)
    return [str(one.message) for one in told if WORDS in str(one.message)]


@pytest.mark.parametrize("name", NUMBERINGS)
def test_a_column_that_numbers_the_rows_is_noted(name: str) -> None:
    X = with_column(NUMBERINGS[name])
    (note,) = fit_notes(X)
    assert note == (
        f"array of shape {X.shape} {WORDS}column 1 (whole numbers, all different); they count like all others, so "
        "leave them out if they say nothing of a row."
    )
    assert info(X)["problems"] == [note]


@pytest.mark.parametrize("name", OTHERS)
def test_a_column_that_says_something_is_not_mentioned(name: str) -> None:
    X = with_column(OTHERS[name])
    assert not fit_notes(X)
    assert not info(X)["problems"]


def test_real_data_have_no_such_column(load: Load) -> None:
    from sklearn.datasets import load_breast_cancer, load_iris

    for X in (load("digits")[0], load("digits")[0][:30], load("wine")[0], load_iris().data, load_breast_cancer().data):
        assert not fit_notes(X)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, True) for name in ("id", "customer_id", "CustomerID", "Row Number", "index", "uuid")),
        *((name, False) for name in ("paid", "humid", "PAID", "price index", "rows")),
    ],
)
def test_different_numbers_in_any_order_are_ids_if_they_are_called_so(name: str, said: bool) -> None:
    import pandas as pd

    X = pd.DataFrame(with_column(OTHERS["incomes, no two alike"], 0), columns=[name, "a", "b", "c"])
    notes = row_numbers.find_in_dataset(open_dataset(X))
    assert bool(notes) == said
    assert not said or f"column 0 ({name!r}) (whole" in notes[0]
    assert not row_numbers.find_in_dataset(open_dataset(X.assign(**{name: X[name] + 0.5})))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = dmmc.fit(X, 2, max_iter=2)
    assert (fitted.model.preparation_ is not None) == said  # the fit leaves it out, or takes all columns as they are


def test_several_are_listed_and_sparse_rows_are_left_alone() -> None:
    from scipy.sparse import csr_array

    X = np.hstack([measured(100), *[np.arange(k, 100 + k)[:, None] for k in range(5)]])
    (note,) = fit_notes(X)
    assert "column 3, column 4, column 5 and 2 more (whole" in note
    assert not fit_notes(csr_array(X))


@pytest.mark.parametrize("name", ["1 to n", "in any order", "incomes, no two alike"])
def test_workers_look_at_all_rows_too(name: str, clients: Any, tmp_path: Path, store_of: Any) -> None:
    X = with_column({**NUMBERINGS, **OTHERS}[name])
    store = store_of(tmp_path / "X.zarr", X, 500)
    assert bool(fit_notes(store, scheduler=clients(2))) == (name in NUMBERINGS)


def test_info_of_a_store_looks_at_a_few_chunks_and_a_check_at_all(cli: Any, tmp_path: Path, store_of: Any) -> None:
    store = store_of(tmp_path / "sorted.zarr", with_column(NUMBERINGS["with gaps"]), 300)
    assert f"{WORDS}column 1 (whole" in cli("info", store).stdout
    store = store_of(tmp_path / "mixed.zarr", with_column(NUMBERINGS["in any order"]), 300)
    assert not info(store)["problems"]  # a few chunks do not tell
    (said,) = info(store, check=True)["problems"]
    assert said.startswith(f"mixed.zarr {WORDS}column 1 ")
    late = NUMBERINGS["with gaps"].copy()
    late[1900] = 0
    store = store_of(tmp_path / "late.zarr", with_column(late), 300)
    assert not info(store, check=True)["problems"]


def test_a_csv_with_a_column_of_ids_is_told_of(cli: Any, tmp_path: Path) -> None:
    lines = [f"{i + 1},{a:.3f},{b:.3f}" for i, (a, b) in enumerate(measured(100, 2))]
    (tmp_path / "t.csv").write_text("\n".join(["id,a,b", *lines]))
    assert cli("convert", "t.csv", "t.zarr", "--quiet", cwd=tmp_path).code == 0
    assert f"{WORDS}column 0 ('id') (whole" in cli("info", "t.zarr", cwd=tmp_path).stdout
    done = cli("fit", "--method", "cpmmc", "t.zarr", "-k", 2, "-o", "out", cwd=tmp_path)
    assert done.code == 0
    assert f"{WORDS}column 0 ('id') (whole" in done.stderr


def test_what_parts_say_joined_is_what_the_whole_says() -> None:
    rng = np.random.default_rng(0)
    for values in (np.arange(60), np.arange(60)[::-1], rng.permutation(60), rng.integers(-9, 9, 60), rng.random(60)):
        column = np.asarray(values, np.float64)[:, None]
        whole = row_numbers.describe_columns(column)
        for cut in (1, 17, 59):
            parts = row_numbers.describe_columns(column[:cut]), row_numbers.describe_columns(column[cut:])
            joined = row_numbers.join(*parts)
            for name, one, other in zip(whole._fields, whole, joined, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=name)


def test_no_more_than_the_columns_in_question_are_read(load: Load) -> None:
    dataset = open_dataset(with_column(OTHERS["incomes"]))
    asked: list[Any] = []

    def read(columns: Array) -> Any:
        asked.append(columns)
        return (row_numbers.describe_block(block, columns) for block in dataset.blocks)

    sample = np.asarray(dataset.take(np.arange(0, 3000, 3)), np.float64)
    candidates = row_numbers.find_candidates(sample, np.arange(4), 3000, None)
    assert not len(row_numbers.confirm(candidates, 3000, None, read))
    assert not asked


CALLED = (
    *("customer_number", "account_no", "order_nbr", "userid", "sku", "SKU", "barcode", "key", "nr", "patient", "seq"),
    *(
        "transaction",
        "Kundennummer",
        "orderNo",
        "AccountKey",
        "invoice no",
        "Cust#",
        "productCode",
        "zip_code",
        "numero",
    ),
)
MEASURED = (
    *("age", "year", "count", "income", "number_of_rooms", "number_of_orders", "noise", "piano", "casino", "monkey"),
    *("paid", "humid", "aluminum", "turkey", "knots", "minimum", "transactions", "first_order", "codec", "nose"),
)


def test_numbers_codes_and_keys_are_known_by_their_names() -> None:
    assert [name for name in CALLED if row_numbers.MAY_NAME.fullmatch(name) is None] == []
    assert [name for name in MEASURED if row_numbers.MAY_NAME.fullmatch(name) is not None] == []


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (rng.permutation(10**5)[:5000] + 10**6, True),
        (np.tile(rng.permutation(10**5)[:2500], 2), False),
        (np.append(np.arange(4000), 3), False),
        (rng.permutation(5000) / 2, False),
        (rng.permutation(5000).astype(np.float64), True),
        (np.array([1.0, np.nan] * 20), False),
        (np.arange(19), False),
        (np.arange(100, dtype=np.float16), True),
        (np.array(["a"] * 30), False),
    ],
)
def test_whole_numbers_that_never_repeat_are_found(values: Any, wanted: bool) -> None:
    assert row_numbers.never_repeats(values) == wanted
