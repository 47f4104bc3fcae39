"""`max_seconds`: one clock for reading, features, starts and search, and what there is to show when it ends."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from outcomes import bits

import dmmc
from dmmc import ConvergenceWarning, CuttingPlaneMMC, EvolutionaryMMC, OutOfTime
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.estimators import row_kernel
from dmmc.features import graph
from dmmc.features.axes import principal_axes
from dmmc.model.geometry import measure
from dmmc.solvers import starts, whitening
from dmmc.solvers.driver import drive
from dmmc.time_limit import NO_LIMIT, TimeLimit

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]
SHORT = 1e-9


def blobs(n: int = 600, d: int = 5, k: int = 3) -> Array:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)) + 4.0 * rng.standard_normal((k, d))[np.arange(n) % k]


def slow_rows(X: Array, chunks: int, seconds: float) -> tuple[Any, list[int]]:
    """A dask array, each chunk of which takes some time, and a list that grows by one for each of them."""
    da = pytest.importorskip("dask.array")
    made: list[int] = []

    def wait(part: Array) -> Array:
        if len(part):  # dask tries functions on nothing
            made.append(len(part))
            time.sleep(seconds)
        return part

    whole = da.from_array(X, chunks=(len(X) // chunks, X.shape[1]))
    return whole.map_blocks(wait, dtype=X.dtype, meta=np.empty((0, 0))), made


def test_a_limit_counts_from_where_it_was_made() -> None:
    assert (NO_LIMIT.left, NO_LIMIT.is_over) == (None, False)
    NO_LIMIT.check("anything")
    limit = TimeLimit(100)
    assert limit.left is not None
    assert 90 < limit.left <= 100
    assert not limit.is_over
    over = TimeLimit(SHORT)
    assert over.left == 0
    with pytest.raises(
        OutOfTime, match=r"^max_seconds=1e-09 ended while tea was made, and nothing was found yet; allow"
    ):
        over.check("tea was made")


# ------------------------------------------------------------------------------------------------------- reading


def test_reading_that_takes_too_long_is_given_up_with_a_sentence() -> None:
    source, made = slow_rows(blobs(), 200, 0.02)
    with pytest.raises(
        OutOfTime, match=r"max_seconds=0.2 ended while dask array .* was being read, and nothing was found"
    ):
        dmmc.fit(source, 3, max_seconds=0.2, n_jobs=1, method="cpmmc")
    assert 0 < len(made) < 150


def test_rows_that_came_late_are_clustered_in_a_hurry() -> None:
    source, _ = slow_rows(blobs(), 1, 0.4)
    with pytest.warns(ConvergenceWarning, match=r"stopped by max_seconds=0.3 after 1 pass"):
        run = dmmc.fit(source, 3, max_seconds=0.3, n_jobs=1, epsilon=1e-9)
    assert run.choices["ended"] == "max_seconds"
    assert dmmc.score(run.labels, np.arange(600) % 3)["accuracy"] > 0.9


@pytest.mark.parametrize("sparse", [False, True])
def test_a_store_that_cannot_be_read_in_time_ends_with_code_5_and_leaves_nothing(
    sparse: bool, cli: Any, tmp_path: Path
) -> None:
    from scipy.sparse import csr_array, save_npz

    save_npz(tmp_path / "rows.npz", csr_array(blobs())) if sparse else np.save(tmp_path / "rows.npy", blobs())
    assert cli("convert", f"rows.np{'z' if sparse else 'y'}", "rows.zarr", "--quiet", cwd=tmp_path).code == 0
    done = cli(
        "fit", "--method", "cpmmc", "rows.zarr", "-k", 3, "-o", "out", "--max-seconds", SHORT, "--quiet", cwd=tmp_path
    )
    assert done.code == 5
    assert done.stderr.startswith("dmmc: max_seconds=1e-09 ended while rows.zarr")
    assert "was being read, and nothing was found yet; allow it more time." in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["store", "dask"])
def test_workers_that_cannot_read_in_time_are_not_waited_for(
    kind: str, clients: Any, tmp_path: Path, store_of: Any
) -> None:
    X = blobs()
    source = store_of(tmp_path / "X.zarr", X, 100) if kind == "store" else slow_rows(X, 2, 0.0)[0]
    with pytest.raises(OutOfTime, match="was being read"):
        dmmc.fit(source, 3, scheduler=clients(2), max_seconds=SHORT, method="cpmmc")
    with pytest.warns(ConvergenceWarning, match="stopped by max_seconds=1e-09 after 1 pass"):
        run = dmmc.fit(X, 3, scheduler=clients(2), max_seconds=SHORT, method="cpmmc")  # nothing has to be read
    assert len(run.labels) == len(X)


# ------------------------------------------------------------------------------------------------------ features


def test_a_graph_that_is_not_finished_is_nothing_and_is_gone_on_with(tmp_path: Path, load: Load) -> None:
    X = load("digits")[0][:700].astype(np.float32)
    ask = {"source": X, "n_clusters": 4, "features": "spectral", "init": "graph"}
    with pytest.raises(OutOfTime, match="ended while nearest neighbours were looked for") as error:
        dmmc.fit(**ask, max_seconds=SHORT, out=tmp_path / "out")
    assert any("--resume" in note for note in error.value.__notes__)
    resumed = dmmc.fit(**ask, out=tmp_path / "out", resume=True)
    assert bits(resumed) == bits(dmmc.fit(**ask))


def test_axes_that_are_not_finished_are_not_kept(tmp_path: Path, load: Load) -> None:
    X = np.repeat(load("digits")[0][:300].astype(np.float32), 2, axis=1)  # 128 columns: axes are looked for
    with pytest.raises(OutOfTime, match="ended while axes were computed"):
        dmmc.fit(X, 2, features="lsa", max_seconds=SHORT, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_eigenvectors_are_given_up_between_two_products() -> None:
    points = np.random.default_rng(0).standard_normal((700, 4)).astype(np.float32)
    others = graph.drop_self(graph.Index(points, 1).nearest(points, 11))
    A = graph.adjacency(others, graph.scale_of(others.distance))
    with pytest.raises(OutOfTime, match="eigenvectors of the graph were computed"):
        graph.spectrum(A, 12, TimeLimit(SHORT))


# -------------------------------------------------------------------------------------------- starts and searches


@pytest.fixture
def digits_engine(load: Load) -> Iterator[Local]:
    with Local(open_dataset(load("digits")[0]), 1) as engine:
        yield engine


def test_when_the_time_is_up_k_means_makes_one_start_and_no_pass(digits_engine: Local) -> None:
    geometry, dataset = measure(digits_engine.dataset, digits_engine.rows, "none")
    calls: list[Any] = []

    def oracle(work: Any, params: Any) -> Any:
        calls.append(work)
        return digits_engine.run(work, params)

    assert len(starts.k_means(dataset, oracle, geometry, 10, 3, 0)[0]) == 3
    assert len(calls) > 1
    calls.clear()
    (labelling,), _ = starts.k_means(dataset, oracle, geometry, 10, 3, 0, TimeLimit(SHORT))
    assert not calls
    assert len(np.unique(labelling.of(dataset.blocks[0]))) == 10  # by the centres of a sample
    axes = principal_axes(oracle, geometry, 2, [0, 1], limit=TimeLimit(SHORT))
    assert len(calls) == 1
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        CuttingPlaneMMC(10, n_init=5),
        CuttingPlaneMMC(10, init="pca"),
        dmmc.SubspaceMMC(3),
        dmmc.PairwiseMMC(3),
        dmmc.StochasticMMC(),
        dmmc.StochasticMMC(n_clusters=4),
        EvolutionaryMMC(rank=20, n_init=4, init="k-means"),
        EvolutionaryMMC(n_clusters=3, rank=20),
        EvolutionaryMMC(select="medoid"),
        EvolutionaryMMC(n_clusters=4),
        EvolutionaryMMC(n_clusters=3, mutation="paper"),
        CuttingPlaneMMC(5, features="nystroem", n_components=20),
    ],
    ids=repr,
)
def test_every_method_ends_with_labels_of_all_clusters(model: Any, load: Load) -> None:
    X = load("digits")[0]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.set_params(max_seconds=SHORT, random_state=0).fit(X)
    assert model.choices_["ended"] == "max_seconds"
    assert any("stopped by max_seconds=1e-09" in str(one.message) for one in told)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert len(np.unique(model.labels_)) == model.n_clusters


@pytest.fixture
def decomposed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many directions each search of an evolution had to decompose."""
    sizes: list[int] = []
    whiten = whitening.whiten

    def note(gram: Array, total: float, ridge: float) -> tuple[Array, Array]:
        sizes.append(len(gram))
        return whiten(gram, total, ridge)

    monkeypatch.setattr(whitening, "whiten", note)
    return sizes


def test_a_full_kernel_whose_time_is_up_is_seen_through_its_leading_directions(
    load: Load, decomposed: list[int]
) -> None:
    X, y = load("digits")
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match=r"stopped by max_seconds=0.4 after 1 pass"):
        model = EvolutionaryMMC(4, max_seconds=0.4, random_state=0).fit(X)
    assert time.process_time() - began < 8.0  # it was 19
    assert decomposed == [whitening.HURRIED] * 5
    assert len(np.unique(model.labels_)) == 4
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert dmmc.score(model.labels_, y)["nmi"] > 0.4


def test_a_kernel_with_time_enough_is_the_one_without_a_limit(load: Load, decomposed: list[int]) -> None:
    X = load("digits")[0][:200]
    for k in (2, 3):
        free, limited = (
            EvolutionaryMMC(k, n_init=3, max_seconds=limit, random_state=0).fit(X) for limit in (None, 1000)
        )
        assert limited.coef_.tobytes() == free.coef_.tobytes()
        assert limited.objective_ == free.objective_
        np.testing.assert_array_equal(limited.labels_, free.labels_)
    assert min(decomposed) > whitening.HURRIED


def test_a_search_in_all_directions_is_gone_on_with_though_the_time_is_up(load: Load, tmp_path: Path) -> None:
    ask: Any = {"source": load("digits")[0][:200], "n_clusters": 3, "method": "evommc", "n_init": 1, "offspring": 0}
    heard: list[Any] = []

    def stop(line: dict[str, Any]) -> None:
        heard.append(line)
        if len(heard) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dmmc.fit(**ask, out=tmp_path / "out", callbacks=stop)
    with pytest.warns(ConvergenceWarning, match="stopped by max_seconds"):
        hurried = dmmc.fit(**ask, out=tmp_path / "out", resume=True, max_seconds=SHORT)
    assert len(np.unique(hurried.labels)) == 3


def test_a_large_kernel_that_is_not_made_ready_is_nothing(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_kernel, "QUICK", 100)
    with pytest.raises(OutOfTime, match="ended while a kernel was made ready, and nothing was found yet"):
        EvolutionaryMMC(4, max_seconds=SHORT).fit(load("digits")[0][:200])


class Counter:
    """A solver that counts."""

    def step(self, state: int) -> int:
        return state + 1

    def done(self, state: int) -> bool:
        return False

    def report(self, state: int) -> dict[str, Any]:
        return {"objective": 0.0}


class Notes(list[Any]):
    """A keeper that notes what it is to keep."""

    def keep(self, state: Any, history: Any) -> None:
        self.append(state)

    def save(self) -> None: ...


def test_what_was_made_in_a_hurry_is_not_kept_for_a_resume() -> None:
    kept: Any = Notes()
    assert drive(Counter(), 0, max_iter=5, keeper=kept)[0::2] == (5, "max_iter")
    assert kept == [0, 1, 2, 3, 4, 5]
    kept.clear()
    assert drive(Counter(), 0, max_iter=5, limit=TimeLimit(SHORT), keeper=kept)[0::2] == (1, "max_seconds")
    assert kept == []
