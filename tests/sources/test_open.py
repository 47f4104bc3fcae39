"""Files and tables straight into a fit: every kind of file, caches, tables as they are, and what is refused."""

from __future__ import annotations

import gc
import gzip
import json
import os
import re
import runpy
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import scipy.io
import scipy.sparse
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import dmmc
from dmmc.info import format_info
from dmmc.sources import cache
from dmmc.sources import open as sources
from dmmc.sources.csv_tables import find_layout
from dmmc.sources.describe import describe

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning", "ignore:.*Zarr.*")
CUSTOMERS = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "customers.py"))["make_customers"]


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.round(rng.normal(size=(80, 4)) + 6.0 * (np.arange(80) % 2)[:, None], 3)


@pytest.fixture(scope="module")
def customers() -> tuple[pa.Table, np.ndarray]:
    return CUSTOMERS(400)


@pytest.fixture(params=["in memory", "converted"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways a file can go, for files of any size."""
    if request.param == "converted":
        monkeypatch.setattr(sources, "SMALL", 0)
    return request.param


def fit(source: Any, k: int = 2, **options: Any) -> dmmc.Run:
    return dmmc.fit(source, k, method="cpmmc", **options)


def write_files(folder: Path, X: np.ndarray) -> list[str]:
    """The same matrix as every kind of file."""
    np.savetxt(folder / "rows.csv", X, delimiter=",", fmt="%.17g")
    np.save(folder / "rows.npy", X)
    np.savez(folder / "rows.npz", X)
    scipy.io.mmwrite(folder / "rows.mtx", X)
    pd.DataFrame(X, columns=list("abcd")).to_parquet(folder / "rows.parquet")
    (folder / "many").mkdir()
    for i, part in enumerate(np.array_split(X, 3)):
        pd.DataFrame(part, columns=list("abcd")).to_parquet(folder / "many" / f"{i}.parquet", index=False)
        pd.DataFrame(part, columns=list("abcd")).to_csv(folder / f"part-{i}.csv", index=False)
    with gzip.open(folder / "rows.idx.gz", "wb") as file:
        file.write(b"\0\0\x0e\x02" + np.array(X.shape, ">i4").tobytes() + X.astype(">f8").tobytes())
    dump_svmlight_file(X, np.zeros(len(X)), str(folder / "rows.svm"))
    import anndata

    anndata.AnnData(X).write_h5ad(folder / "rows.h5ad")
    return ["rows.csv", "rows.npy", "rows.npz", "rows.mtx", "rows.parquet", "many", "part-*.csv", "many/*.parquet",
            "rows.idx.gz", "rows.svm", "rows.h5ad"]  # fmt: skip


def test_every_kind_of_file_gives_the_labels_of_its_matrix(tmp_path: Path, X: np.ndarray, size: str) -> None:
    wanted = fit(X)
    for name in write_files(tmp_path, X):
        run = fit(str(tmp_path / name))
        np.testing.assert_array_equal(run.labels, wanted.labels, err_msg=name)
        assert run.model.preparation_ is None
        np.testing.assert_array_equal(run.model.predict(tmp_path / name), wanted.labels, err_msg=name)
        if name not in ("rows.svm",):
            assert run.model.objective_ == wanted.model.objective_, name
    assert fit(X.astype(np.float32)).model.preparation_ is None


def test_tables_of_every_library_are_prepared_alike(tmp_path: Path, customers: Any, size: str) -> None:
    table, _ = customers
    wanted = fit(dmmc.TablePreparation().fit_transform(table), 4).labels
    pa.csv.write_csv(table, tmp_path / "t.csv")
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "folder").mkdir()
    for i in range(4):
        pa.parquet.write_table(table.slice(100 * i, 100), tmp_path / "folder" / f"{i}.parquet")
    import dask.dataframe

    frame = table.to_pandas()
    typed = frame.assign(member=frame["member"].astype("boolean"), joined=pd.to_datetime(frame["joined"]))
    given: list[Any] = [tmp_path / "t.csv", tmp_path / "t.parquet", tmp_path / "folder", table, pl.from_arrow(table)]
    for source in [*given, frame, dask.dataframe.from_pandas(typed, npartitions=3)]:
        run = fit(source, 4)
        np.testing.assert_array_equal(run.labels, wanted)
        np.testing.assert_array_equal(run._dataset.row_ids, table.column("customer_id").to_pylist())
        np.testing.assert_array_equal(run.model.predict(source), wanted)


@pytest.mark.filterwarnings("ignore:Could not infer format")
def test_texts_of_frames_and_parquet_files_mean_what_they_mean_in_a_csv(tmp_path: Path, size: str) -> None:
    table, _ = CUSTOMERS(400)
    path = tmp_path / "t.csv"
    pa.csv.write_csv(table, path)
    path.write_text(path.read_text().replace('"plus"', "n/a"))
    import dask.dataframe

    frame = pd.read_csv(path, keep_default_na=False, na_values={name: [""] for name in table.column_names})
    texts = frame.assign(member=frame["member"].map({True: "True", False: "False"}))
    assert (frame["joined"].dtype.kind, texts["member"].dtype.kind) == ("O", "O")
    frame.to_parquet(tmp_path / "t.parquet")
    texts.to_parquet(tmp_path / "texts.parquet")
    dates = pd.read_csv(path, parse_dates=["joined"])
    given: dict[str, Any] = {
        "pandas": frame,
        "texts": texts,
        "polars": pl.read_csv(path),
        "arrow": pa.Table.from_pandas(texts),
        "parquet": tmp_path / "t.parquet",
        "parquet of texts": tmp_path / "texts.parquet",
        "dask": dask.dataframe.from_pandas(dates, npartitions=3),
        "dask of texts": dask.dataframe.from_pandas(texts, npartitions=3),
    }
    wanted = fit(path, 4, out=tmp_path / "out")
    model = dmmc.load(tmp_path / "out")
    kinds = {column.name: column.kind for column in wanted.model.preparation_.columns_}
    assert (kinds["joined"], kinds["member"]) == ("date", "boolean")
    for name, source in given.items():
        run = fit(source, 4)
        assert run.model.preparation_.to_recipe() == wanted.model.preparation_.to_recipe(), name
        np.testing.assert_array_equal(run.labels, wanted.labels, err_msg=name)
        np.testing.assert_array_equal(model.predict(source), wanted.labels, err_msg=name)


def test_a_text_that_fits_no_other_of_its_column_is_told_with_its_row(tmp_path: Path) -> None:
    days = [f"2020-01-{1 + i % 28:02d}" for i in range(12_000)]
    frame = pd.DataFrame({"joined": [*days, "soon"], "x": np.arange(12_001) % 7, "plan": ["p", *["q"] * 12_000]})
    frame.to_parquet(tmp_path / "rows.parquet")
    words = "column 'joined' holds 'soon' in row 12000 (from 0){}, where dates are wanted, as in other rows"
    for source, where in ((frame, ""), (tmp_path / "rows.parquet", " of rows.parquet")):
        with pytest.raises(dmmc.InputError, match=re.escape(words.format(where))):
            fit(source)
    model = fit(frame[:100]).model
    with pytest.raises(dmmc.InputError, match=r"'joined' holds 'soon' in row 12000 \(from 0\) of rows\.parquet, where"):
        model.predict(tmp_path / "rows.parquet")


def test_a_saved_model_prepares_new_tables_unknown_categories_and_missing_cells_too(
    tmp_path: Path, customers: Any
) -> None:
    table, _ = customers
    pa.csv.write_csv(table, tmp_path / "t.csv")
    run = fit(tmp_path / "t.csv", 4, out=tmp_path / "out", missing="drop")
    kept = len(run.labels)
    assert kept < len(table)
    model = dmmc.load(tmp_path / "out")
    assert (
        json.loads((tmp_path / "out" / "model" / "model.json").read_text())["content"]["table"]["id"] == "customer_id"
    )
    assert len(model.predict(table)) == len(table)
    frame = table.to_pandas().assign(plan="never seen")[table.column_names[::-1]]
    again = model.predict(pl.from_pandas(frame))
    assert again.shape == (len(table),)
    with pytest.raises(dmmc.InputError, match="lacks the column 'plan'"):
        model.predict(frame.drop(columns="plan"))
    path = tmp_path / "out" / "model" / "model.json"
    path.write_text(path.read_text().replace('"premium"', '"premiun"'))
    with pytest.raises(dmmc.InputError):
        dmmc.load(tmp_path / "out")


def test_a_model_of_a_table_takes_no_matrix_and_one_of_a_matrix_no_table(
    tmp_path: Path, customers: Any, size: str
) -> None:
    table, _ = customers
    model = fit(table, 4).model
    rows = np.zeros((5, model.n_features_in_))
    np.save(tmp_path / "rows.npy", rows)
    dmmc.fit(np.random.default_rng(0).normal(size=(50, 11)), 2, method="cpmmc", out=tmp_path / "matrix")
    import dask.array

    for source in (tmp_path / "rows.npy", rows, scipy.sparse.csr_array(rows), dask.array.from_array(rows), [rows]):
        for ask in (model.predict, model.decision_function):
            with pytest.raises(dmmc.InputError, match=r"is a matrix, .* a table with the columns 'age', .* is wanted"):
                ask(source)
    pa.csv.write_csv(table, tmp_path / "t.csv")
    other = dmmc.load(tmp_path / "matrix")
    for source in (tmp_path / "t.csv", table):
        with pytest.raises(dmmc.InputError, match=r"table with the columns 'customer_id', .* a matrix of 11 columns"):
            other.predict(source)


def test_a_column_that_is_nearly_there_is_asked_about(customers: Any) -> None:
    table, _ = customers
    model = fit(table, 4).model
    for given, wanted in (("Income", "income"), ("AGE", "age")):
        names = [given if name == wanted else name for name in table.column_names]
        with pytest.raises(dmmc.InputError, match=f"lacks the column '{wanted}'.*did you mean '{given}'"):
            model.predict(table.rename_columns(names))


def test_a_model_of_an_older_version_with_a_category_called_other_is_read(tmp_path: Path, X: np.ndarray) -> None:
    frame = pd.DataFrame({"x": X[:, 0], "plan": ["other", "basic"] * 40})
    model = fit(frame, out=tmp_path / "out").model
    content, arrays = model.to_arrays()
    content["feature_names"] = [name.replace("other (rare)", "other") for name in content["feature_names"]]
    assert content["feature_names"].count("plan=other") == 2
    again = type(model).from_arrays(json.loads(json.dumps(content)), arrays, "the model")
    np.testing.assert_array_equal(again.predict(frame), model.labels_)


def test_columns_of_numbers_are_found_by_their_names(tmp_path: Path, X: np.ndarray) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = fit(tmp_path / "t.csv").model
    frame.assign(name=[f"n{i}" for i in range(80)])[["name", *"dcba"]].to_csv(tmp_path / "new.csv", index=False)
    np.testing.assert_array_equal(model.predict(tmp_path / "new.csv"), model.labels_)
    frame.drop(columns="c").to_csv(tmp_path / "less.csv", index=False)
    with pytest.raises(dmmc.InputError, match=r"less.csv lacks the column 'c'"):
        model.predict(tmp_path / "less.csv")


def test_a_second_run_does_not_convert_again_and_a_changed_file_is(
    tmp_path: Path, customers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL", 0)
    table, _ = customers
    source = tmp_path / "t.csv"
    pa.csv.write_csv(table, source)
    written: list[str] = []
    write = cache.write_store
    monkeypatch.setattr(sources, "write_store", lambda *given: (written.append(given[0].name), write(*given)))
    with pytest.warns(dmmc.ClusteringWarning, match="cells are missing"):
        first = fit(source, 4, out=tmp_path / "one")
    with pytest.warns(dmmc.ClusteringWarning, match="cells are missing"):
        second = fit(source, 4, out=tmp_path / "two")
    assert written == ["t.csv"]
    np.testing.assert_array_equal(first.labels, second.labels)
    told = source.stat()
    text = source.read_text()
    source.write_text(text.replace("premium", "Premium"))  # the same size, and made to have the same time
    os.utime(source, ns=(told.st_atime_ns, told.st_mtime_ns))
    fit(source, 4, out=tmp_path / "three")
    source.write_text("\n".join(text.splitlines()[:200]) + "\n")
    assert len(fit(source, 4, out=tmp_path / "four").labels) == 199
    assert written == ["t.csv"] * 3
    fit(source, 4, out=tmp_path / "five", drop=["plan"])
    assert len(written) == 4
    assert len(list((tmp_path / "dmmc-cache").iterdir())) == 2


def refused(source: Path, out: Path, **options: Any) -> str:
    """The sentence of a fit that is refused, which leaves nothing behind."""
    before = sorted(source.parent.iterdir())
    with pytest.raises(dmmc.InputError) as told:
        fit(source, out=out, **options)
    shutil.rmtree(out.parent / "dmmc-cache", ignore_errors=not any((out.parent / "dmmc-cache").glob("*")))
    assert sorted(source.parent.iterdir()) == before
    return str(told.value)


BAD = {
    "ragged": (b"name,x\na,1\nb,2,3\nc,3\n", "rows.csv, line 3 has 3 cells: 2 are wanted"),
    "two encodings": ("name,x\ncafé,1\n".encode() + "café,2\n".encode("latin-1"), "rows.csv, line 3 is not UTF-8"),
    "text late": (
        b"name,x\n" + b"a,1.5\n" * 12_000 + b"b,lots\n",
        "rows.csv, line 12002: column 'x' holds 'lots', where numbers are wanted, as in other rows",
    ),
    "text late among numbers": (
        b"x,y\n" + b"1,1.5\n2,3\n" * 6000 + b"5,lots\n",
        "rows.csv, line 12002, column 2 ('y') holds 'lots'",
    ),
    "two columns of one name": (b"x,x\na,1\n", "several columns of the name 'x'"),
    "a header alone": (b"x,y\n", "rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_csv_is_one_sentence_with_its_place_and_leaves_nothing(tmp_path: Path, name: str, size: str) -> None:
    content, words = BAD[name]
    (tmp_path / "rows.csv").write_bytes(content)
    assert words in refused(tmp_path / "rows.csv", tmp_path / "out")


def test_ids_that_repeat_are_named_with_their_lines(tmp_path: Path, size: str) -> None:
    lines = ["key,x,y", *(f"k{i},{i % 7},{i % 5}" for i in range(50)), "k3,1,2"]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    said = refused(tmp_path / "rows.csv", tmp_path / "out", id="key")
    assert "'key' holds 'k3' in several rows, line 5 of rows.csv and line 52 of rows.csv" in said
    said = refused(tmp_path / "rows.csv", tmp_path / "out", columns=["x", "z"])
    assert "columns names 'z'" in said


def test_a_file_that_changes_while_it_is_read_is_refused(
    tmp_path: Path, customers: Any, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "t.csv"
    pa.csv.write_csv(customers[0], source)
    learn = dmmc.TablePreparation.learn

    def learn_while_it_grows(*given: Any) -> Any:
        with source.open("a") as file:
            file.write("\n")
        return learn(*given)

    monkeypatch.setattr(dmmc.TablePreparation, "learn", learn_while_it_grows)
    assert "t.csv changed while it was read" in refused(source, tmp_path / "out")


def test_parquet_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    for name, column in (("a", "x"), ("b", "y")):
        pd.DataFrame({column: [1.0, 2.0], "plan": ["p", "q"]}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(dmmc.InputError, match=r"b.parquet lacks the column 'x', which a.parquet has"):
        fit(tmp_path)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a,b\n1,x\n", ["a", "b"]),
        ("1,x\n2,y\n", ["column 1", "column 2"]),
        (",a\nr1,5\n", ["row", "a"]),
        ("a;b\nr1;5;x\n", ["row", "a", "b"]),
        ("2020-01-01,x\n2020-01-02,y\n", ["column 1", "column 2"]),
    ],
)
def test_a_header_is_told_from_rows(tmp_path: Path, text: str, names: list[str]) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert find_layout(tmp_path / "t.csv").names == names


def test_a_fit_of_customers_as_they_are_is_as_good_as_a_pipeline(tmp_path: Path) -> None:
    table, kind = CUSTOMERS()
    pa.csv.write_csv(table, tmp_path / "customers.csv")
    found = dmmc.score(dmmc.fit(tmp_path / "customers.csv", 4).labels, kind)["accuracy"]
    frame = table.to_pandas()
    frame["joined"] = pd.to_datetime(frame["joined"]).map(lambda day: np.nan if pd.isna(day) else day.toordinal())
    frame["member"] = frame["member"].astype(float)
    filled = SimpleImputer(strategy="median")
    peers = {}
    for name, after in (("standardised", StandardScaler()), ("as it is", "passthrough")):
        before = make_column_transformer(
            (make_pipeline(filled, StandardScaler()), frame.select_dtypes("number").columns),
            (make_pipeline(OneHotEncoder(sparse_output=False), after), ["plan", "region"]),
        )
        peer = make_pipeline(before, KMeans(4, n_init=10, random_state=0)).fit_predict(frame)
        peers[name] = dmmc.score(peer, kind)["accuracy"]
    assert found >= peers["standardised"]
    assert found >= peers["as it is"] - 0.005  # a category weighs as one column here, and less there


def test_info_says_what_would_be_made_of_a_table_and_what_would_be_refused(tmp_path: Path, customers: Any) -> None:
    pa.csv.write_csv(customers[0], tmp_path / "t.csv")
    found = describe(tmp_path / "t.csv", check=True)
    assert found["table"]["id"] == "customer_id"
    assert found["table"]["columns"]["plan"] == "category"
    assert found["table"]["missing"]["age"] == customers[0].column("age").null_count
    assert not found["refused"]
    np.save(tmp_path / "nan.npy", np.array([[1.0, np.nan], [3.0, 4.0]]))
    assert describe(tmp_path / "nan.npy", check=True)["refused"]
    (tmp_path / "t.csv").write_text("a,b\nx,1\ny\n")
    found = describe(tmp_path / "t.csv")
    assert found["refused"]
    assert "line 3 has 1 cell" in found["problems"][0]


def test_parquet_files_with_columns_of_other_kinds_are_refused(tmp_path: Path) -> None:
    for name, values in (("a", [1.0, 2.0]), ("b", ["u", "v"])):
        pd.DataFrame({"x": values, "plan": ["p", "q"]}).to_parquet(tmp_path / f"{name}.parquet")
    with pytest.raises(
        dmmc.InputError, match=r"column 'x' holds double in a.parquet and \w+ in b.parquet: one kind is wanted"
    ):
        fit(tmp_path)
    assert len(fit(tmp_path, drop=["x"]).labels) == 4


def test_parquet_files_of_kinds_that_go_together_are_one_table(tmp_path: Path) -> None:
    parts: list[Any] = [[None] * 20, range(20), np.arange(20) / 4]
    for i, values in enumerate(parts):
        pd.DataFrame({"x": values, "plan": ["p", "q"] * 10}).to_parquet(tmp_path / f"{i}.parquet")
    assert len(fit(tmp_path).labels) == 60
    pd.DataFrame({"x": ["u"] * 20, "plan": ["p", "q"] * 10}).to_parquet(tmp_path / "3.parquet")
    with pytest.raises(dmmc.InputError, match=r"'x' holds double in 1.parquet and \w+ in 3.parquet"):
        fit(tmp_path)


@pytest.mark.parametrize("kind", ["decimal", "half", "truth", "mixed"])
def test_numbers_of_arrow_are_numbers_whatever_their_type(X: np.ndarray, kind: str) -> None:
    columns = {
        "decimal": [pa.array(values).cast(pa.decimal128(12, 3)) for values in X.T],
        "half": [pa.array(values.astype(np.float16)) for values in X.T],
        "truth": [pa.array(values > 3) for values in X.T],
        "mixed": [pa.array((100 * X[:, 0]).astype(np.int16)), pa.array(X[:, 1]).cast(pa.decimal256(50, 3))],
    }[kind]
    run = fit(pa.table(columns, names=list("abcd")[: len(columns)]))
    rows = np.stack([np.asarray(values.to_pylist(), np.float64) for values in columns], axis=1)
    np.testing.assert_array_equal(run.labels, fit(rows).labels)


def test_a_source_with_a_long_name_is_kept_for_later_runs(
    tmp_path: Path, X: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL", 0)
    source = tmp_path / f"{'n' * 251}.csv"
    np.savetxt(source, X, delimiter=",")
    fit(source, out=tmp_path / "out")
    assert len(list((tmp_path / cache.FOLDER).iterdir())) == 1


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("row", [0, 79])
def test_numbers_of_which_one_is_missing_are_a_table_whatever_their_size(
    tmp_path: Path, X: np.ndarray, size: str, kind: str, row: int
) -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.iloc[row, 2] = np.nan
    source = tmp_path / f"rows.{kind}"
    frame.to_csv(source, index=False) if kind == "csv" else frame.to_parquet(source)
    run = fit(source, out=tmp_path / "out")
    np.testing.assert_array_equal(run.labels, fit(frame.fillna(frame.median())).labels)
    assert any("missing" in said for said in run.info["warnings"])


@pytest.mark.parametrize("odd", ["a pipe", "a folder", "a link", "no json"])
def test_what_an_earlier_run_kept_is_made_again_where_it_is_not_what_that_wrote(
    tmp_path: Path, X: np.ndarray, odd: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "SMALL", 0)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",")
    wanted = fit(tmp_path / "rows.csv", out=tmp_path / "out").labels
    (entry,) = (tmp_path / cache.FOLDER).rglob(cache.ENTRY)
    entry.unlink()
    {
        "a pipe": lambda: os.mkfifo(entry),
        "a folder": lambda: entry.mkdir(),
        "a link": lambda: entry.symlink_to("/dev/zero"),
        "no json": lambda: entry.write_bytes(b"\xff"),
    }[odd]()
    np.testing.assert_array_equal(fit(tmp_path / "rows.csv", out=tmp_path / "other").labels, wanted)
    assert entry.is_file()


@pytest.mark.parametrize(
    "note", [b"{", b"5", b"[5]", b'{"index_columns": 5}', b"\xff", b'{"index_columns": [[1], null]}']
)
def test_what_pandas_notes_in_a_parquet_file_may_be_damaged(tmp_path: Path, X: np.ndarray, note: bytes) -> None:
    columns = {"a": X[:, 0], "b": X[:, 1]}
    for more in ({}, {"plan": ["p", "q"] * 40}):
        table = pa.table({**columns, **more}).replace_schema_metadata({b"pandas": note})
        pa.parquet.write_table(table, tmp_path / "rows.parquet")
        for source in (tmp_path / "rows.parquet", table):
            if note.endswith(b"null]}") or (source is table and not more):
                assert len(fit(source).labels) == len(X)
            else:
                with pytest.raises(dmmc.InputError, match="damaged"):
                    fit(source)


def test_infinity_in_a_table_is_told_with_its_line(tmp_path: Path) -> None:
    lines = [f"{i},a" if i != 7 else "inf,b" for i in range(30)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,c", *lines]))
    with pytest.raises(dmmc.InputError, match=r"column 'x' holds infinity in line 9 of rows\.csv"):
        dmmc.fit(tmp_path / "rows.csv", 2)


def test_a_column_called_an_id_that_repeats_is_told_with_its_lines(tmp_path: Path) -> None:
    lines = [f"{0 if i == 40 else i},{i % 7},{'ab'[i % 2]}" for i in range(50)]
    (tmp_path / "rows.csv").write_text("\n".join(["id,x,c", *lines]))
    with pytest.warns(dmmc.ClusteringWarning, match=r"repeats: '0' is in line 2 of rows\.csv and line 42 of rows\.csv"):
        dmmc.fit(tmp_path / "rows.csv", 2, method="cpmmc")


def test_a_path_or_method_that_is_nearly_right_is_asked_about(tmp_path: Path) -> None:
    (tmp_path / "customers.csv").write_text("a,b\n1,2\n")
    with pytest.raises(dmmc.InputError, match=r"did you mean '.*customers\.csv'\?"):
        dmmc.fit(tmp_path / "customer.csv", 2)
    with pytest.raises(dmmc.InputError, match=r"did you mean 'cpmmc'\?"):
        dmmc.fit(tmp_path / "customers.csv", 2, method="cpmc")


def test_info_of_a_table_tells_its_columns_and_not_those_of_the_matrix(tmp_path: Path) -> None:
    lines = [f"k{i},{i % 7},{'ab'[i % 2]}" for i in range(50)]
    (tmp_path / "rows.csv").write_text("\n".join(["name,x,c", *lines]))
    found = describe(tmp_path / "rows.csv", check=True)
    told = format_info(found)
    assert "50 rows x 2 used columns (4 features)" in told
    assert not any("other" in problem for problem in found["problems"])
    assert [" ".join(line.split()) for line in told.splitlines()[4:7]] == ["ids name", "categories c", "numbers x"]


def write_numbers(path: Path, n: int = 200) -> dict[str, np.ndarray]:
    """A csv with a column called a number that never repeats, beside two measurements."""
    rng = np.random.default_rng(3)
    table = {name: np.round(rng.normal(size=n) + 5.0 * (np.arange(n) % 2), 3) for name in ("a", "b")}
    table["customer_number"] = rng.permutation(9_000_000)[:n] + 1_000_000
    pd.DataFrame(table).to_csv(path, index=False)
    return table


def test_numbers_that_name_the_rows_are_left_out_of_every_source(tmp_path: Path, size: str) -> None:
    table = write_numbers(tmp_path / "t.csv")
    pd.DataFrame(table).to_parquet(tmp_path / "t.parquet")
    sources_of_it = [tmp_path / "t.csv", tmp_path / "t.parquet", pd.DataFrame(table), pl.DataFrame(table)]
    without = fit(np.stack([table["a"], table["b"]], axis=1)).labels
    for source in [*sources_of_it, pa.table(table)]:
        with pytest.warns(dmmc.ClusteringWarning, match="'customer_number' was left out, as it never repeats"):
            run = fit(source)
        assert list(run.model.preparation_.get_feature_names_out()) == ["a", "b"]
        assert np.array_equal(run.labels, without)
        named = fit(source, id="customer_number")
        assert [str(name) for name in named._dataset.row_ids[:2]] == list(map(str, table["customer_number"][:2]))


def test_other_numbers_that_never_repeat_are_mentioned_in_a_plain_matrix_of_named_columns(tmp_path: Path) -> None:
    table = write_numbers(tmp_path / "t.csv")
    frame = pd.DataFrame(table).rename(columns={"customer_number": "x"})
    frame.to_csv(tmp_path / "x.csv", index=False)
    for source in (tmp_path / "x.csv", frame, pl.DataFrame(frame), pa.table(frame)):
        with pytest.warns(dmmc.ClusteringWarning, match=r"column 'x' holds whole numbers that never repeat.*--drop"):
            run = fit(source)
        assert run.model.preparation_ is None
    assert any("'x' holds whole numbers that never repeat" in one for one in describe(tmp_path / "x.csv")["problems"])


def test_codes_that_repeat_leave_a_matrix_a_matrix_and_new_rows_are_read_alike(tmp_path: Path, size: str) -> None:
    table = write_numbers(tmp_path / "t.csv")
    frame = pd.DataFrame({**table, "code": np.arange(200) % 30}).drop(columns="customer_number")
    frame.to_csv(tmp_path / "c.csv", index=False)
    run = fit(tmp_path / "c.csv")
    assert run.model.preparation_ is None
    few = frame[:25]  # in which no code repeats
    few.to_csv(tmp_path / "few.csv", index=False)
    for source in (few, tmp_path / "few.csv"):
        assert np.array_equal(run.model.predict(source), run.labels[:25])


@pytest.mark.filterwarnings("always::ResourceWarning")
def test_no_file_is_left_open(tmp_path: Path, size: str, recwarn: pytest.WarningsRecorder) -> None:
    table = write_numbers(tmp_path / "t.csv")
    frame = pd.DataFrame({**table, "id": np.arange(200)[::-1], "name": [f"n{i}" for i in range(200)]})
    frame.to_csv(tmp_path / "ids.csv", index=False)
    run = fit(tmp_path / "ids.csv", out=tmp_path / "out")
    run.model.predict(tmp_path / "ids.csv")
    gc.collect()
    assert not [one for one in recwarn if "BufferedRandom" in str(one.message)]
