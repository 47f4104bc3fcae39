"""Hundreds of clusters: they are found, labelled and reported; each method says how many it takes."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

import dmmc
from dmmc.data.blocks import Block
from dmmc.model.packed_labels import count_packable, pack_labels, unpack_labels
from dmmc.model.passes import Drawn
from dmmc.solvers import label_sums

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
K = 150


def many(n: int = 4500, k: int = K, d: int = 12) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    return rng.standard_normal((k, d))[y] + 0.12 * rng.standard_normal((n, d)), y


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    out = tmp_path_factory.mktemp("many") / "out"
    return dmmc.fit(many()[0], K, method="lsmmc", random_state=0, out=out), out


def test_a_hundred_and_fifty_clusters_are_found_about_as_well_as_by_k_means(fitted: tuple[Any, Path]) -> None:
    (X, y), (run, out) = many(), fitted
    theirs = KMeans(K, n_init=1, random_state=0).fit(X).labels_
    assert adjusted_rand_score(y, run.labels) > adjusted_rand_score(y, theirs) - 0.05
    assert run.labels.dtype == np.int32
    assert run.labels.max() == K - 1
    np.testing.assert_array_equal(run.model.predict(X), run.labels)
    np.testing.assert_array_equal(dmmc.load(out).predict(X), run.labels)


def test_a_report_shows_the_first_hundred_and_has_a_table_of_all(fitted: tuple[Any, Path]) -> None:
    run, out = fitted
    page = (out / "report.html").read_text()
    assert len(page.encode()) < 5_000_000
    assert page.count('<tr data-row="') == 100
    assert "150 clusters" in page
    packed = re.search(r'href="data:text/csv;charset=utf-8;base64,([^"]+)"', page)
    assert packed is not None
    lines = base64.b64decode(packed.group(1)).decode().splitlines()
    assert lines[0] == "cluster,rows"
    assert [int(line.split(",")[1]) for line in lines[1:]] == np.bincount(run.labels).tolist()
    assert len(repr(run)) < 800
    assert "and 50 more" in repr(run)


@pytest.mark.slow
def test_cutting_planes_find_more_than_127_clusters_too() -> None:
    X, y = many(1500, 130)
    model = dmmc.CuttingPlaneMMC(130, random_state=0, max_iter=30).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.6
    np.testing.assert_array_equal(model.predict(X), model.labels_)


@pytest.mark.parametrize(
    ("method", "asked", "most"),
    [("cpmmc", 1001, "1,000"), ("lsmmc", 10_001, "10,000"), ("mmc-sg", 101, "100"), ("smmc", 101, "100")],
)
def test_a_method_says_how_many_clusters_it_takes(method: str, asked: int, most: str) -> None:
    with pytest.raises(dmmc.InputError, match=f"n_clusters is {asked}; a whole number of clusters, 2 to {most}, is"):
        dmmc.fit(many()[0], asked, method=method)


def test_a_start_along_the_graph_says_how_many_clusters_it_takes() -> None:
    for graph in ("rows", "anchors"):
        with pytest.raises(dmmc.InputError, match=r"n_clusters is 101; a start along the graph .* are for at most 100"):
            dmmc.fit(many()[0], 101, method="lsmmc", init="graph", graph=graph)


@pytest.mark.parametrize("k", [2, 10, 100, 10_000])
def test_as_many_labellings_as_fit_are_packed_into_one_number(k: int) -> None:
    count = count_packable(k)
    labellings = [np.array([0, k - 1, i % k]) for i in range(count)]
    packed = pack_labels(labellings, k)
    for place, labels in enumerate(labellings):
        np.testing.assert_array_equal(unpack_labels(packed, k, place), labels)
    assert k ** (count + 1) >= 2**63


@pytest.mark.parametrize("sparse", [False, True])
def test_sums_by_label_of_many_clusters_are_those_of_few(sparse: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.sparse import csr_array

    from dmmc.data.open import open_dataset

    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (500, 9)).astype(float)
    weight = rng.random(500)
    (rows,) = open_dataset(csr_array(X) if sparse else X).blocks
    block = Block(0, 0, 500, rows.rows, weight)
    request = label_sums.Requests((label_sums.Request(0, Drawn(0, 0, 40), None),), 40)
    (dense,) = label_sums.sum_by_label(block, request)
    monkeypatch.setattr(label_sums, "DENSE", 10)
    (other,) = label_sums.sum_by_label(block, request)
    np.testing.assert_allclose(other.weighted, dense.weighted, rtol=1e-12)
    np.testing.assert_allclose(other.counts, dense.counts, rtol=1e-12)
