"""The estimator: the same bits from every source, labels that predict gives again, a history, warnings that help."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import clone

import dmmc
from dmmc import ClusteringWarning, ConvergenceWarning, CuttingPlaneMMC, InputError
from dmmc.data import blocks
from dmmc.data.open import open_dataset

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]

KINDS = (
    "numpy",
    "fortran",
    "strided",
    "memmap",
    "pandas",
    "polars",
    "dask",
    "dask, one chunk",
    "zarr v2",
    "zarr v3",
    "path v2",
    "path v3",
    "group",
)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, so that small data have several."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)


def blobs(n: int = 900, d: int = 24, k: int = 3, dtype: str = "f8", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    X = 8.0 * rng.standard_normal((n, d)) + 6.0 * rng.standard_normal((k, d))[rng.integers(k, size=n)]
    return (X + 100.0).clip(0, 255).astype(dtype) if dtype == "u1" else X.astype(dtype)


def as_source(kind: str, X: Array, folder: Path) -> Any:
    names = [f"f{j}" for j in range(X.shape[1])]
    if kind == "fortran":
        return np.asfortranarray(X)
    if kind == "strided":
        return np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    if kind == "memmap":
        np.save(folder / "X.npy", X)
        return np.load(folder / "X.npy", mmap_mode="r")
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(X, columns=names)
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame(X, schema=names)
    if kind.startswith("dask"):
        import dask.array as da

        return da.from_array(X, chunks=X.shape if "one" in kind else (137, 7))
    if kind.startswith(("zarr", "path")):
        import zarr

        path = str(folder / f"{kind[-2:]}.zarr")
        array = zarr.create_array(path, shape=X.shape, chunks=(101, 5), dtype=X.dtype, zarr_format=int(kind[-1]))
        array[:] = X
        return path if kind.startswith("path") else array
    if kind == "group":
        import zarr

        group = zarr.create_group(str(folder / "group.zarr"))
        group.create_array("deep/X", data=X, chunks=(64, 24))
        return group
    return X


def bits(model: Any) -> dict[str, Any]:
    """All that must not depend on where the numbers came from."""
    return {
        "labels": model.labels_.tobytes(),
        "coef": model.coef_.tobytes(),
        "intercept": model.intercept_.tobytes(),
        "objective": model.objective_,
        "gap": model.gap_,
        "history": [{key: value for key, value in line.items() if key != "seconds"} for line in model.history_],
        "fingerprint": model.choices_["fingerprint"],
    }


# ------------------------------------------------------------------------------------------------ the same bits


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_every_source_gives_the_same_bits(kind: str, k: int, tmp_path: Path) -> None:
    X = blobs(dtype="f4")
    assert len(open_dataset(X).blocks) >= 4
    plain = CuttingPlaneMMC(k, random_state=0).fit(X)
    other = CuttingPlaneMMC(k, random_state=0).fit(as_source(kind, X, tmp_path))
    assert bits(other) == bits(plain)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8"])
@pytest.mark.parametrize(("k", "init"), [(2, "k-means"), (2, "random"), (3, "k-means"), (3, "pca")])
def test_the_number_of_threads_does_not_change_a_bit(dtype: str, k: int, init: str) -> None:
    X = blobs(dtype=dtype)
    one = CuttingPlaneMMC(k, init=init, random_state=0, n_jobs=1).fit(X)
    two = CuttingPlaneMMC(k, init=init, random_state=0, n_jobs=2).fit(X)
    assert bits(one) == bits(two)
    assert bits(CuttingPlaneMMC(k, init=init, random_state=0).fit(X)) == bits(one)


@pytest.mark.usefixtures("small_blocks")
def test_sparse_sources_give_the_same_bits(tmp_path: Path) -> None:
    import dask.array as da
    import sparse
    import zarr

    X = blobs(n=1200)
    X[np.random.default_rng(1).random(X.shape) < 0.7] = 0.0
    rows = csr_array(X)
    plain = CuttingPlaneMMC(3, random_state=0, n_jobs=1).fit(rows)
    group = zarr.create_group(str(tmp_path / "csr.zarr"))
    group.attrs.update({"encoding-type": "csr_matrix", "shape": list(rows.shape)})
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(rows, part), chunks=(333,))
    sources = [csr_matrix(X), rows.tocsc(), rows.tocoo(), group, str(tmp_path / "csr.zarr"), sparse.COO(X)]
    sources += [
        da.from_array(X, chunks=(170, 24)).map_blocks(kind, dtype=X.dtype)
        for kind in (csr_array, sparse.COO.from_numpy)
    ]
    for source in sources:
        assert bits(CuttingPlaneMMC(3, random_state=0, n_jobs=2).fit(source)) == bits(plain)


def test_fitting_again_gives_the_same_bits() -> None:
    X = blobs(n=300)
    model = CuttingPlaneMMC(3, random_state=3).fit(X)
    before = bits(model)
    assert bits(model.fit(X)) == before
    assert bits(clone(model).fit(X)) == before


# --------------------------------------------------------------------------------------------- dense and sparse


@pytest.mark.parametrize("k", [2, 4])
def test_one_model_labels_sparse_and_dense_rows_alike(k: int) -> None:
    X = blobs(n=700, dtype="f4")
    X[np.random.default_rng(2).random(X.shape) < 0.6] = 0.0
    model = CuttingPlaneMMC(k, random_state=0).fit(X)
    dense, sparse = model.decision_function(X), model.decision_function(csr_array(X))
    lead = np.abs(dense) if k == 2 else np.diff(np.sort(dense, axis=1)[:, -2:], axis=1)[:, 0]
    clear = lead > 1e-5 * np.sqrt(np.mean(dense**2))
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(model.predict(X)[clear], model.predict(csr_array(X))[clear])
    np.testing.assert_allclose(sparse, dense, atol=1e-5 * np.sqrt(np.mean(dense**2)))


@pytest.mark.parametrize("k", [2, 4])
def test_fits_of_sparse_and_dense_rows_agree(k: int, load: Load) -> None:
    X, _ = load("newsgroups_rec")
    X = X[::8]  # the words of some 500 texts
    X = X[:, np.flatnonzero(np.asarray((X != 0).sum(axis=0)).ravel() > 4)]
    rng = np.random.default_rng(0)
    start = rng.integers(k, size=X.shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        sparse = CuttingPlaneMMC(k, init=start).fit(X)
        dense = CuttingPlaneMMC(k, init=start).fit(X.toarray())
    assert np.mean(sparse.labels_ == dense.labels_) >= 0.99
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-3)


# ------------------------------------------------------------------------------------------------------- labels


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("dtype", ["u1", "f4", "f8", "csr"])
@pytest.mark.parametrize("k", [2, 5])
def test_labels_are_what_predict_gives_however_rows_come(k: int, dtype: str) -> None:
    X: Any = csr_array(blobs()) if dtype == "csr" else blobs(dtype=dtype)
    model = CuttingPlaneMMC(k, random_state=0, n_init=2).fit(X)
    assert model.labels_.dtype == np.int32
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    np.testing.assert_array_equal(
        model.labels_, np.concatenate([model.predict(X[i : i + 7]) for i in range(0, 900, 7)])
    )
    np.testing.assert_array_equal(model.labels_[::-1], model.predict(X[::-1]))
    np.testing.assert_array_equal(CuttingPlaneMMC(k, random_state=0, n_init=2).fit_predict(X), model.labels_)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("k", [2, 3])
def test_equal_rows_get_equal_labels(k: int) -> None:
    X = blobs(n=200, dtype="f4")
    again = np.random.default_rng(3).permutation(np.repeat(np.arange(200), 5))
    labels = CuttingPlaneMMC(k, random_state=0).fit(X[again]).labels_
    for row in range(200):
        assert len(set(labels[again == row])) == 1


@pytest.mark.parametrize("k", [2, 3, 6])
def test_clusters_are_numbered_from_the_largest_to_the_smallest(k: int) -> None:
    sizes = np.bincount(CuttingPlaneMMC(k, random_state=1).fit(blobs(k=k)).labels_, minlength=k)
    assert (np.diff(sizes) <= 0).all()
    assert sizes.min() > 0


def test_of_two_equal_clusters_the_one_of_the_first_row_is_0() -> None:
    X = np.vstack([blobs(50, k=1, seed=1), blobs(50, k=1, seed=1) + 60.0])
    for order in (slice(None), slice(None, None, -1)):
        labels = CuttingPlaneMMC(2, random_state=0).fit(X[order]).labels_
        np.testing.assert_array_equal(labels, np.repeat([0, 1], 50))


def test_decision_values_are_one_a_row_for_two_clusters_and_one_a_cluster_for_more() -> None:
    X = blobs()
    two, three = CuttingPlaneMMC(2, random_state=0).fit(X), CuttingPlaneMMC(3, random_state=0).fit(X)
    assert two.decision_function(X).shape == (900,)
    np.testing.assert_array_equal(two.decision_function(X) >= 0, two.labels_ == 1)
    assert three.decision_function(X).shape == (900, 3)
    np.testing.assert_array_equal(three.decision_function(X).argmax(axis=1), three.labels_)
    assert two.coef_.shape == (1, 24)
    assert three.coef_.shape == (3, 24)
    np.testing.assert_allclose(X @ two.coef_[0] + two.intercept_, two.decision_function(X))


# -------------------------------------------------------------------------------------------------- predicting


@pytest.mark.parametrize("kind", KINDS)
def test_predict_takes_every_source(kind: str, tmp_path: Path) -> None:
    X = blobs(dtype="f4")
    names = kind in ("pandas", "polars")
    model = CuttingPlaneMMC(3, random_state=0).fit(as_source(kind, X, tmp_path) if names else X)
    source = as_source(kind, X, tmp_path)
    found = model.predict(source)
    assert hasattr(found, "compute") == kind.startswith("dask")
    found = np.asarray(found)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, model.labels_)


@pytest.mark.parametrize("k", [2, 3])
def test_a_dask_array_is_labelled_lazily_chunk_by_chunk(k: int) -> None:
    import dask
    import dask.array as da
    import sparse

    X = blobs()
    model = CuttingPlaneMMC(k, random_state=0).fit(X)
    seen: list[int] = []

    def look(chunk: Array) -> Array:
        seen.append(len(chunk))
        return chunk

    lazy = da.from_array(X, chunks=(250, 24)).map_blocks(look, dtype=X.dtype, meta=np.empty((0, 0)))
    labels, scores = model.predict(lazy), model.decision_function(lazy)
    assert seen == []
    assert labels.chunks == ((250, 250, 250, 150),)
    assert labels.dtype == np.int32
    assert scores.shape == ((900,) if k == 2 else (900, 3))
    with dask.config.set(scheduler="synchronous"):
        np.testing.assert_array_equal(labels[:250].compute(), model.labels_[:250])
        assert seen == [250]
        np.testing.assert_array_equal(scores.compute(), model.decision_function(X))
        for kind in (csr_array, sparse.COO.from_numpy):
            rows = da.from_array(X, chunks=(250, 24)).map_blocks(kind, dtype=X.dtype)
            np.testing.assert_array_equal(model.predict(rows).compute(), model.predict(csr_array(X)))
        some = da.from_array(X, chunks=(250, 24))
        some = some[some[:, 0] > np.sort(X[:, 0])[450]]  # of unknown length, perhaps with empty chunks
        np.testing.assert_array_equal(model.predict(some).compute(), model.predict(some.compute()))
        nothing = da.from_array(X, chunks=(250, 24))[:0]
        assert model.predict(nothing).compute().shape == (0,)


def test_labels_can_be_written_to_a_store(tmp_path: Path) -> None:
    import dask.array as da
    import zarr

    X = blobs()
    model = CuttingPlaneMMC(3, random_state=0).fit(X)
    for number, source in enumerate((X, da.from_array(X, chunks=(100, 24)), as_source("path v3", X, tmp_path))):
        out = tmp_path / f"labels{number}.zarr"
        assert model.predict(source, out=out) == out
        np.testing.assert_array_equal(zarr.open_array(str(out), mode="r")[:], model.labels_)
        with pytest.raises(InputError, match="exists"):
            model.predict(source, out=out)


def test_a_component_names_the_matrix_in_a_store(tmp_path: Path) -> None:
    X = blobs(n=100)
    as_source("group", X, tmp_path)
    path = str(tmp_path / "group.zarr")
    model = CuttingPlaneMMC(2, random_state=0).fit(path, component="deep/X")
    np.testing.assert_array_equal(model.predict(path, component="deep/X"), model.labels_)
    assert model.decision_function(path, component="deep/X").shape == (100,)


def test_names_of_columns_are_kept_and_compared() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(blobs(n=60, d=3), columns=["a", "b", "c"])
    model = CuttingPlaneMMC(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["c", "b", "a"]])
    model.fit(frame.to_numpy())
    assert not hasattr(model, "feature_names_in_")


def test_a_fitted_model_can_be_pickled() -> None:
    X = blobs(n=120)
    model = CuttingPlaneMMC(3, random_state=0).fit(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.labels_)


# ---------------------------------------------------------------------------------- history, limits and callbacks


@pytest.mark.parametrize(("k", "order"), [(2, "inside"), (2, "outside"), (4, "outside")])
def test_the_history_has_a_line_a_pass_and_the_best_objective_never_rises(k: int, order: str) -> None:
    live: list[dict[str, Any]] = []
    model = CuttingPlaneMMC(k, order=order, random_state=0, callbacks=live.append).fit(blobs(k=4))
    assert live == model.history_
    assert len(model.history_) == model.n_iter_ > 3
    assert [line["iteration"] for line in live] == list(range(1, len(live) + 1))
    for line in live:
        assert {"objective", "best", "round", "gap", "planes", "flips", "seconds"} <= set(line)
        assert np.isfinite([line["objective"], line["best"], line["gap"]]).all()
        assert line["gap"] >= 0
    best = [line["best"] for line in live]
    assert best == sorted(best, reverse=True)
    assert best[-1] == pytest.approx(model.objective_)
    objectives = [line["objective"] for line in live]
    assert objectives != sorted(objectives, reverse=True), "those of single passes do rise"
    rounds = [line["round"] for line in live]
    assert set(np.diff(rounds)) <= {0, 1}, "a round is a pass that takes labels again"
    assert rounds[-1] > 0
    seconds = [line["seconds"] for line in live]
    assert seconds == sorted(seconds)
    assert model.gap_ == live[-1]["gap"] <= model.choices_["C"] * model.epsilon


def test_callbacks_are_called_as_it_happens_and_may_stop_a_fit() -> None:
    class EnoughError(Exception):
        pass

    heard: list[int] = []

    def stop(line: dict[str, Any]) -> None:
        heard.append(line["iteration"])
        if line["iteration"] == 3:
            raise EnoughError

    with pytest.raises(EnoughError):
        CuttingPlaneMMC(3, random_state=0, callbacks=[heard.append, stop]).fit(blobs())
    assert heard[-1] == 3


def test_the_objective_is_the_one_of_the_model() -> None:
    X = blobs(n=200)
    for k in (2, 3):
        model = CuttingPlaneMMC(k, random_state=0, scale="none").fit(X)
        unit = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
        f = model.decision_function(X)
        margin = np.abs(f) if k == 2 else np.diff(np.sort(f, axis=1)[:, -2:], axis=1)[:, 0]
        loss = np.maximum(0.0, 1.0 - margin).mean()
        norm = 0.5 * np.sum((model.coef_ * unit) ** 2)
        assert norm + model.choices_["C"] * loss == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize(("k", "order"), [(2, "inside"), (2, "outside"), (4, "inside"), (4, "outside")])
def test_a_fit_that_runs_out_of_passes_says_so_and_keeps_the_best(k: int, order: str, most: int) -> None:
    X = blobs(k=4)
    with pytest.warns(ConvergenceWarning, match=rf"stopped by max_iter={most} after {most} pass.* gap of \d"):
        model = CuttingPlaneMMC(k, order=order, max_iter=most, random_state=0).fit(X)
    assert model.n_iter_ == len(model.history_) == most
    assert model.choices_["ended"] == "max_iter"
    assert len(np.unique(model.labels_)) == k
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert np.isfinite(model.objective_)
    whole = CuttingPlaneMMC(k, order=order, random_state=0).fit(X)
    assert whole.objective_ <= model.objective_


def test_a_fit_that_runs_out_of_time_says_so() -> None:
    with pytest.warns(ConvergenceWarning, match="stopped by max_seconds=1e-09 after 1 pass"):
        model = CuttingPlaneMMC(3, max_seconds=1e-9, random_state=0).fit(blobs())
    assert len(np.unique(model.labels_)) == 3


@pytest.fixture
def warned() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def test_warnings_point_at_the_line_that_asked_for_the_fit(warned: list[warnings.WarningMessage]) -> None:
    X = blobs(n=100)
    CuttingPlaneMMC(2, max_iter=1, random_state=0).fit(X)
    CuttingPlaneMMC(2, max_iter=1, random_state=0).fit_predict(X)
    dmmc.fit(X, 2, max_iter=1)
    X[0] *= 1e6
    CuttingPlaneMMC(2, random_state=0).fit(X)
    dmmc.fit(X, 2, method="cpmmc")
    assert len(warned) >= 5
    for warning in warned:
        assert warning.filename == __file__, warning.message


def test_what_was_chosen_is_recorded() -> None:
    X = blobs(n=150)
    model = CuttingPlaneMMC(3).fit(X)
    seed = model.choices_["random_state"]
    assert isinstance(seed, int)
    assert bits(CuttingPlaneMMC(3, random_state=seed).fit(X)) == bits(model)
    assert model.random_state is None
    assert model.choices_["C"] == 100.0
    assert model.choices_["order"] == "outside"
    assert model.choices_["ended"] == "converged"
    two = CuttingPlaneMMC(2, init="random", random_state=np.random.RandomState(5)).fit(X)
    assert two.choices_["n_init"] == 10
    assert two.choices_["order"] == "inside"
    assert two.choices_["C"] == 30.0


def test_more_restarts_never_end_higher() -> None:
    X = blobs(n=200, k=5, seed=4)
    reached = [
        CuttingPlaneMMC(2, init="random", n_init=n, random_state=0, epsilon=1e-3).fit(X).objective_ for n in (1, 4, 16)
    ]
    assert reached == sorted(reached, reverse=True)


def test_data_are_not_changed_by_a_fit() -> None:
    X = blobs(n=100)
    before = X.copy()
    X.flags.writeable = False
    model = CuttingPlaneMMC(2, random_state=0).fit(X)
    model.predict(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_where_the_rows_lie_and_their_unit_do_not_matter(shift: float) -> None:
    X = blobs(n=300)
    plain = CuttingPlaneMMC(3, random_state=0, scale="none").fit(X)
    moved = CuttingPlaneMMC(3, random_state=0, scale="none").fit(1e-3 * X + shift)
    assert np.mean(plain.labels_ == moved.labels_) > 0.99
    assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-2)


def test_a_largest_size_beyond_all_rows_is_no_bound() -> None:
    X = np.random.default_rng(0).normal(size=(40, 3)) + 4.0 * np.eye(3)[np.arange(40) % 3]
    free = CuttingPlaneMMC(3, random_state=0).fit(X)
    np.testing.assert_array_equal(CuttingPlaneMMC(3, max_size=1e308, random_state=0).fit(X).labels_, free.labels_)
