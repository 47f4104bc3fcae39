"""Fits and predictions on a cluster, from every kind of source: the same bits as threads of one process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import outcomes
import pytest
from forks import ForkServer
from grids import Grid
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array

import dmmc
from dmmc.data import blocks
from dmmc.data.open import open_dataset

Array = NDArray[Any]


@pytest.fixture(scope="module")
def client(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three workers, one of them with two threads."""
    grid = Grid(tmp_path_factory.mktemp("workers"), forks)
    grid.add(2)
    grid.add(1, threads=2)
    yield grid.client
    grid.close()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows; they are cut by the driver, which is this process."""
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)
    monkeypatch.setattr("dmmc.estimators.predict_write.ONE_BLOCK", 16 * 1024)


def blobs(n: int = 900, d: int = 24, k: int = 3, dtype: str = "f4", seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    X = 8.0 * rng.standard_normal((n, d)) + 6.0 * rng.standard_normal((k, d))[rng.integers(k, size=n)]
    return (X + 100.0).clip(0, 255).astype(dtype) if dtype == "u1" else X.astype(dtype)


def sparse_rows(n: int = 1200, d: int = 80) -> Any:
    rng = np.random.default_rng(3)
    X = random_array((n, d), density=0.2, rng=rng, format="csr", dtype=np.float32).toarray()
    X[: n // 3, :10] += rng.random((n // 3, 10)) > 0.4
    X[n // 3 : n // 2, 10:20] += rng.random((n // 2 - n // 3, 10)) > 0.4
    X[17] = 0.0
    return csr_array(X)


def bits(run: Any) -> dict[str, Any]:
    return {**outcomes.bits(run), "fingerprint": run.info["data"]["fingerprint"]}


DENSE = ("numpy", "fortran", "pandas", "zarr", "zarr array", "dask", "dask, column chunks", "dask, one chunk")
SPARSE = ("scipy", "zarr csr", "dask scipy", "dask sparse", "dask sparse, column chunks")


def source_of(kind: str, X: Any, folder: Path) -> Any:
    import dask.array as da
    import zarr

    if kind == "numpy" or kind == "scipy":
        return X
    if kind == "fortran":
        return np.asfortranarray(X)
    if kind == "pandas":
        return pytest.importorskip("pandas").DataFrame(X, columns=[f"f{j}" for j in range(X.shape[1])])
    if kind in ("zarr", "zarr array"):
        array = zarr.create_array(str(folder / "X.zarr"), shape=X.shape, chunks=(101, 7), dtype=X.dtype)
        array[...] = X
        return array if kind == "zarr array" else folder / "X.zarr"
    if kind == "zarr csr":
        group = zarr.create_group(str(folder / "X.zarr"))
        group.attrs.update({"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)})
        for name in ("data", "indices", "indptr"):
            values = getattr(X, name)
            array = group.create_array(name, shape=values.shape, chunks=(333,), dtype=values.dtype)
            array[...] = values
        return folder / "X.zarr"
    if kind.startswith("dask s"):
        import sparse

        chunks = (97, 33) if "column" in kind else (97, X.shape[1])
        make = csr_array if "scipy" in kind else sparse.GCXS.from_scipy_sparse
        dense = da.from_array(X.toarray(), chunks=chunks)
        return dense.map_blocks(lambda part: make(csr_array(part)), dtype=X.dtype)
    chunks = {"dask": (137, X.shape[1]), "dask, column chunks": ((400, 1, 0, 499), 7)}.get(kind, X.shape)
    return da.from_array(X, chunks=chunks)


# ------------------------------------------------------------------------------------------------------- sources


@pytest.mark.parametrize("kind", DENSE)
def test_a_dense_source_on_a_cluster_has_the_bits_of_the_array_here(client: Any, tmp_path: Path, kind: str) -> None:
    X = blobs()
    run = dmmc.fit(source_of(kind, X, tmp_path), 3, scheduler=client, method="cpmmc")
    assert len(run.history) > 3
    assert bits(run) == bits(dmmc.fit(X, 3, method="cpmmc"))


@pytest.mark.parametrize("kind", SPARSE)
def test_a_sparse_source_on_a_cluster_has_the_bits_of_the_matrix_here(client: Any, tmp_path: Path, kind: str) -> None:
    X = sparse_rows()
    assert len(open_dataset(X).blocks) > 4
    run = dmmc.fit(source_of(kind, X, tmp_path), 3, scheduler=client, method="cpmmc")
    assert bits(run) == bits(dmmc.fit(X, 3, method="cpmmc"))


def with_outliers() -> Array:
    """Two rows so far away that their weights are limited after the first pass."""
    X = blobs()
    X[[5, 700]] *= 1e4
    return X


def labels_of(X: Array) -> Array:
    return (X[:, 0] > np.median(X[:, 0])).astype(int) + (X[:, 1] > np.quantile(X[:, 1], 0.7))


OPTIONS: dict[str, dict[str, Any]] = {
    "two clusters": {"n_clusters": 2},
    "two clusters, outside": {"n_clusters": 2, "order": "outside"},
    "five clusters": {"n_clusters": 5},
    "weights": {"sample_weight": np.random.default_rng(1).random(900) + 0.1},
    "restarts": {"n_init": 3},
    "random starts": {"init": "random", "n_init": 4, "n_clusters": 2},
    "pca": {"init": "pca"},
    "labels": {"init": labels_of(blobs())},
    "labels and weights": {"init": labels_of(blobs()), "sample_weight": np.arange(1.0, 901.0)},
    "standard scale": {"scale": "standard"},
    "sizes": {"min_size": 0.8, "max_size": 1.3},
    "another seed": {"random_state": 7},
    "a kernel": {"features": "nystroem", "n_components": 40},
}


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("kind", ["numpy", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("zarr", "dask"))])
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_on_a_cluster_has_the_bits_of_threads(client: Any, tmp_path: Path, kind: str, name: str) -> None:
    options: dict[str, Any] = {"n_clusters": 3, "max_iter": 8, **OPTIONS[name]}
    X = blobs()
    assert bits(dmmc.fit(source_of(kind, X, tmp_path), scheduler=client, **options)) == bits(dmmc.fit(X, **options))


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@pytest.mark.parametrize("kind", ["numpy", "zarr", "dask"])
def test_weights_that_change_after_the_first_pass_change_on_all_workers(client: Any, tmp_path: Path, kind: str) -> None:
    X = with_outliers()
    got, wanted = (
        dmmc.fit(source_of(kind, X, tmp_path), 3, scheduler=client, method="cpmmc"),
        dmmc.fit(X, 3, method="cpmmc"),
    )
    assert bits(got) == bits(wanted)
    plain = dmmc.fit(blobs(), 3, method="cpmmc")
    assert bits(wanted) != bits(plain)


def test_bytes_on_a_cluster_have_the_bits_of_threads(client: Any, tmp_path: Path) -> None:
    X = blobs(3000, dtype="u1")
    assert bits(dmmc.fit(source_of("zarr", X, tmp_path), 3, scheduler=client, method="cpmmc")) == bits(
        dmmc.fit(X, 3, method="cpmmc")
    )


def count_caches() -> int:
    """On a worker: of how many fits it keeps rows."""
    from dmmc.engine import block_cache

    return len(block_cache._caches)


def test_workers_forget_the_rows_of_a_fit_that_has_ended(client: Any) -> None:
    seen: list[int] = []
    dmmc.fit(
        blobs(),
        3,
        scheduler=client,
        progress=lambda _: seen.append(sum(client.run(count_caches).values())),
        method="cpmmc",
    )
    assert max(seen) >= len(client.run(count_caches))
    assert set(client.run(count_caches).values()) == {0}


def test_what_a_fit_on_a_cluster_writes_is_what_a_fit_here_writes(client: Any, tmp_path: Path) -> None:
    path = source_of("zarr", blobs(), tmp_path)
    dmmc.fit(path, 3, out=tmp_path / "there", scores=True, scheduler=client, method="cpmmc")
    dmmc.fit(path, 3, out=tmp_path / "here", scores=True, method="cpmmc")
    for store in ("labels.zarr", "scores.zarr"):
        assert files(tmp_path / "there" / store) == files(tmp_path / "here" / store)
    for name in ("coef.npy", "intercept.npy"):
        assert (tmp_path / "there" / "model" / name).read_bytes() == (tmp_path / "here" / "model" / name).read_bytes()


@pytest.mark.parametrize("kind", ["zarr", "zarr csr"])
def test_linked_rows_are_gathered_from_a_cluster_to_the_same_bits(client: Any, tmp_path: Path, kind: str) -> None:
    X = sparse_rows() if "csr" in kind else blobs()
    rng = np.random.default_rng(0)
    ends = rng.permutation(X.shape[0])[:80].reshape(40, 2)
    pairs = [(int(i), int(j), "must" if p % 3 else "cannot") for p, (i, j) in enumerate(ends)]
    run = dmmc.fit(source_of(kind, X, tmp_path), 3, constraints=pairs, scheduler=client)
    assert run.choices["method"] == "pairwise"
    assert bits(run) == bits(dmmc.fit(X, 3, constraints=pairs))


# ---------------------------------------------------------------------------------------------------- predictions


def files(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found
    return found


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("kind", ["zarr", "zarr csr", "dask", "dask sparse, column chunks"])
def test_workers_write_the_bytes_that_a_prediction_here_writes(
    client: Any, tmp_path: Path, kind: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # chunks of labels of a few blocks each, as in large predictions
    for module in ("dmmc.results.label_arrays", "dmmc.estimators.predict_write"):
        monkeypatch.setattr(f"{module}.CHUNK_ROWS", 256)
    X = sparse_rows() if "csr" in kind or "sparse" in kind else blobs()
    model = dmmc.fit(X, k, method="cpmmc").model
    source = source_of(kind, X, tmp_path)
    there, here = ({name: tmp_path / where / f"{name}.zarr" for name in ("labels", "scores")} for where in "th")
    for place in ("t", "h"):
        (tmp_path / place).mkdir()
    assert model.predict_to(source, there, scheduler=client) == X.shape[0]
    assert model.predict_to(source if kind.startswith("zarr") else X, here) == X.shape[0]
    for name in ("labels", "scores"):
        assert files(there[name]) == files(here[name])
    out = model.predict(source, out=tmp_path / "labels.zarr", scheduler=client)
    assert files(out) == files(here["labels"])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nowhere"))  # what no worker sees is not written
    found = model.predict(source, scheduler=client)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, model.labels_)
