"""Clusters of every make: other versions, no dmmc, cold caches, many threads; detected, or the same bits."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import dask
import numpy as np
import pytest
from fault_tools import HERE, bits, blobs
from grids import REPO, Grid, hiding

import dmmc
from dmmc.engine.dask_client import Limits
from dmmc.errors import InputError

pytestmark = pytest.mark.slow
Grids = Callable[..., Grid]
Store = Callable[..., Path]


@pytest.fixture
def source(tmp_path: Path, store_of: Store) -> Path:
    return store_of(tmp_path / "X.zarr", blobs(), 100)


# ------------------------------------------------------------------------------------------------------- versions

WITHOUT = """
import importlib.abc, importlib.metadata, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "dmmc":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Nothing())
known = importlib.metadata.distribution

def distribution(name):
    if name == "dmmc":
        raise importlib.metadata.PackageNotFoundError(name)
    return known(name)

importlib.metadata.distribution = distribution
"""


def test_a_worker_with_another_version_is_refused_before_the_run(grids: Grids, source: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "dmmc").mkdir(parents=True)
    for path in (REPO / "dmmc").iterdir():
        if path.name != "__init__.py":
            (other / "dmmc" / path.name).symlink_to(path)
    text = (REPO / "dmmc" / "__init__.py").read_text().replace(dmmc.__version__, "9.9.9")
    (other / "dmmc" / "__init__.py").write_text(text)
    info = other / "dmmc-9.9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dmmc\nVersion: 9.9.9\n")
    grid = grids(1)
    (name,) = grid.add(1, PYTHONPATH=f"{other}:{HERE}")
    seen: list[Any] = []
    with pytest.raises(InputError) as error:
        dmmc.fit(source, 3, scheduler=grid.client, progress=seen.append, method="cpmmc")
    assert str(error.value) == (
        f"worker {grid.names()[name]} has dmmc 9.9.9, but this process has dmmc {dmmc.__version__}: install the same "
        "versions everywhere."
    )
    assert [event["phase"] for event in seen] == ["connect"], "nothing was read"


def test_a_worker_without_dmmc_is_refused_before_the_run(grids: Grids, source: Path, tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT)
    grid = grids(1)
    (name,) = grid.add(1, PYTHONPATH=str(tmp_path / "without"))
    with pytest.raises(InputError) as error:
        dmmc.fit(source, 3, scheduler=grid.client, method="cpmmc")
    assert str(error.value) == (
        f"worker {grid.names()[name]} has no dmmc, but this process has dmmc {dmmc.__version__}: install the same "
        "versions everywhere."
    )


def test_a_worker_without_dmmc_that_comes_later_is_noticed(
    grids: Grids, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dmmc.engine.worker_watch.INTERVAL", 0.0)  # or the fit may end before it looks again
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "sitecustomize.py").write_text(WITHOUT)
    grid = grids(1)

    def join(event: dict[str, Any]) -> None:
        if event.get("iteration") == 2:
            grid.add(1, PYTHONPATH=str(tmp_path / "without"))

    with pytest.raises(InputError, match=r"worker tcp://.* has no dmmc, but this process has dmmc"):
        dmmc.fit(source, 3, scheduler=grid.client, progress=join, method="cpmmc")


# ----------------------------------------------------------------------------------------------------------- disks


def test_labels_come_back_from_workers_that_have_another_disk(
    grids: Grids, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skip: Callable[[str, str], NoReturn]
) -> None:
    own = tmp_path / "of the driver"
    own.mkdir()
    if subprocess.run([*hiding(own), "true"], capture_output=True, check=False).returncode != 0:
        skip("namespaces", "unshare --mount and mount are not permitted here")
    monkeypatch.setattr("tempfile.tempdir", str(own))
    grid = grids()
    grid.add(2, before=hiding(own))
    model = dmmc.fit(source, 3, method="cpmmc").model
    np.testing.assert_array_equal(model.predict(source, scheduler=grid.client), model.labels_)
    with pytest.raises(InputError, match=r"does not see the folder '.*of the driver': a path that all workers see"):
        model.predict(source, out=own / "labels.zarr", scheduler=grid.client)
    assert not list(own.iterdir())


# ---------------------------------------------------------------------------------------------------------- caches


def test_a_cold_cache_of_compiled_code_raced_by_four_workers_gives_the_same_bits(
    grids: Grids, source: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    grid = grids(4, settings={"NUMBA_CACHE_DIR": str(cache)})
    got = dmmc.fit(source, 3, scheduler=grid.client, method="cpmmc")
    assert bits(got) == bits(dmmc.fit(source, 3, method="cpmmc"))
    assert list(cache.rglob("*.nbi")), "the cache was used"
    assert len(grid.names()) == 4
    assert all(process.poll() is None for process in grid.workers.values())


# ----------------------------------------------------------------------------------------------------------- shapes


@pytest.mark.parametrize(("workers", "threads"), [(1, 4), (5, 1), (2, 3)])
def test_any_number_of_workers_and_threads_gives_the_same_bits(
    grids: Grids, source: Path, workers: int, threads: int
) -> None:
    grid = grids(workers, threads=threads)
    assert bits(dmmc.fit(source, 3, scheduler=grid.client, method="cpmmc")) == bits(dmmc.fit(source, 3, method="cpmmc"))


def test_a_cluster_is_found_by_its_file_its_address_or_its_client(steady: Grid, source: Path) -> None:
    wanted = bits(dmmc.fit(source, 2, method="cpmmc"))
    for scheduler in (steady.file, str(steady.file), steady.address, steady.client):
        assert bits(dmmc.fit(source, 2, scheduler=scheduler, method="cpmmc")) == wanted
    assert steady.client.status == "running", "a client that was given is not closed"


# ----------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(("given", "seconds"), [("90s", 90.0), ("5m", 300.0), ("2h", 7200.0), (45, 45.0)])
def test_limits_are_set_in_the_words_of_dask(given: Any, seconds: float) -> None:
    with dask.config.set({"dmmc.wait.workers": given}):
        assert Limits.from_config().workers == seconds


@pytest.mark.parametrize("given", ["5min", "soon", None, [1]])
def test_a_limit_that_is_no_time_is_refused_with_examples_that_are(given: Any) -> None:
    with dask.config.set({"dmmc.wait.stuck": given}), pytest.raises(InputError) as error:
        Limits.from_config()
    assert str(error.value) == f"dmmc.wait.stuck is {given!r}; a time such as '90s' or '5m' is wanted."
