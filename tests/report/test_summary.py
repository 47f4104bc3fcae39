"""What a report shows of a fit, against brute force."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import dmmc
from dmmc.data.dataset import Dataset
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model.passes import Hyperplanes
from dmmc.profile.confidence import find_standing
from dmmc.report import summary
from dmmc.report.summary import Summary, summarise
from dmmc.results import array_folder, contents, summary_folder

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


def summary_of(dataset: Dataset, planes: Hyperplanes, labels: Any, **options: Any) -> Summary:
    with Local(dataset) as engine:
        standing = find_standing(engine.rows, (None, planes), engine.dataset.n_rows)._replace(labels=labels)
        return summarise(dataset, (None, planes), standing, **options)


def look(rows: Any, k: int, **options: Any) -> tuple[Summary, Any]:
    run = dmmc.fit(rows, k, random_state=0, max_iter=50)
    return summary_of(run._dataset, run.model.hyperplanes(), run.labels, **options), run


def check(found: Summary, rows: Any, run: Any) -> None:
    """All that must hold of every summary."""
    n, k = len(run.labels), run.model.n_clusters
    dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
    assert found.sizes.tolist() == np.bincount(run.labels, minlength=k).tolist()
    assert found.counts.shape == (k, summary.BINS)
    assert len(found.edges) == summary.BINS + 1
    assert (np.diff(found.edges) > 0).all()
    assert found.counts.sum() == n
    assert found.counts.sum(axis=1).tolist() == found.sizes.tolist()
    m = len(found.map_rows)
    assert found.map_xy.shape == (m, 2)
    assert np.isfinite(found.map_xy).all()
    assert found.map_labels.tolist() == run.labels[found.map_rows].tolist()
    assert len(set(found.map_rows.tolist())) == m
    if n <= summary.SAMPLED:
        assert m == n
    clusters, kinds, shown, _ = found.examples.T
    assert set(clusters) == set(np.flatnonzero(found.sizes))
    assert set(kinds) <= {0, 1}
    assert run.labels[shown.astype(int)].tolist() == clusters.tolist()
    assert np.array_equal(found.values, dense[shown.astype(int)][:, found.columns])


@pytest.mark.parametrize("k", [2, 3, 10])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_sizes_margins_and_examples_are_those_of_the_model(k: int, kind: Any, dtype: Any, load: Any) -> None:
    digits = load("digits")[0]
    rows = kind((digits * 15).astype(dtype))  # up to 240: squares do not fit into a byte
    found, run = look(rows, k)
    check(found, rows, run)
    f = run.model.decision_function(rows).reshape(len(digits), -1)
    ordered = np.sort(f, axis=1)
    lead = np.abs(f[:, 0]) if k == 2 else ordered[:, -1] - ordered[:, -2]
    inside = lead < found.edges[-1]
    for cluster in range(k):
        wanted, _ = np.histogram(lead[inside & (run.labels == cluster)], found.edges)
        assert np.abs(found.counts[cluster, :-1] - wanted[:-1]).sum() <= 2  # on an edge within rounding
        members = np.flatnonzero(run.labels == cluster)
        exact = (digits * 15).astype(dtype).astype(float)[members]
        if kind is not np.asarray:  # sparse rows are compared by their angles
            exact /= np.maximum(np.linalg.norm(exact, axis=1), 1e-300)[:, None]
        away = np.linalg.norm(exact - exact.mean(axis=0), axis=1)
        own = found.examples[found.examples[:, 0] == cluster]
        typical, border = (own[own[:, 1] == kind] for kind in (0, 1))
        assert len(typical) == len(border) == min(summary.SHOWN, len(members))
        assert np.allclose(np.sort(away)[: len(typical)], away[np.searchsorted(members, typical[:, 2])])
        assert np.allclose(np.sort(lead[members])[: len(border)], border[:, 3], atol=1e-6)
        assert np.allclose(lead[own[:, 2].astype(int)], own[:, 3], atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("d", [1, 2, 7])
@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_array])
def test_tiny_data_have_a_summary_and_a_report(n: int, d: int, kind: Any, tmp_path: Path) -> None:
    rows = kind(np.random.default_rng(n + 10 * d).normal(size=(n, d)).astype(np.float32))
    for k in {2, min(3, n)}:
        found, run = look(rows, k)
        check(found, rows, run)
        run.save(tmp_path / str(k))


@pytest.mark.parametrize("K", [1, 3])
def test_rows_without_any_margin_have_a_summary(K: int) -> None:
    planes = Hyperplanes(np.zeros((K, 2)), np.zeros(K), np.zeros(K))
    found = summary_of(open_dataset(np.ones((9, 2), np.float32)), planes, np.full(9, int(K == 1)))
    assert found.counts[:, 0].tolist() == ([0, 9] if K == 1 else [9, 0, 0]), "f = 0 is label 1"
    assert np.isfinite(found.map_xy).all()


def test_a_hundred_clusters_have_a_summary_of_bounded_size(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    centres = 20 * rng.normal(size=(100, 8))
    rows = (centres[np.arange(3000) % 100] + rng.normal(size=(3000, 8))).astype(np.float32)
    found, run = look(rows, 100)
    check(found, rows, run)
    assert len(found.examples) <= 2 * summary.SHOWN * 100
    run.save(tmp_path / "out")
    assert (tmp_path / "out" / "summary" / "values.npy").stat().st_size < 1e6


def test_a_cluster_that_equal_steps_would_miss_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "SAMPLED", 50)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(2000, 3)).astype(np.float32)
    labels = np.zeros(2000, int)
    rare = np.array([1, 7, 1203])
    rows[rare] += 100
    labels[rare] = 1
    planes = Hyperplanes(np.array([[1.0, 1.0, 1.0]]), np.array([-100.0]), np.zeros(1))
    found = summary_of(open_dataset(rows), planes, labels)
    assert 50 <= len(found.map_rows) <= 53
    assert set(rare) <= set(found.map_rows)
    assert set(found.examples[found.examples[:, 0] == 1][:, 2]) == set(rare)
    assert found.counts.sum() == 2000


def test_an_empty_cluster_has_no_examples() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    planes = Hyperplanes(np.vstack([np.eye(3), np.zeros(3)]), np.array([0, 0, 0, -1e9]), np.zeros(4))
    labels = rows.argmax(axis=1)
    found = summary_of(open_dataset(rows), planes, labels)
    assert found.sizes[3] == 0
    assert found.counts[3].sum() == 0
    assert 3 not in found.examples[:, 0]


def long_rows(kind: str, n: int, d: int) -> Any:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.normal(size=(n, d)).astype(np.float32)
    rows = scipy.sparse.random_array((n, d), density=30 / d, format="csr", dtype=np.float32, rng=rng)
    rows.data += 0.1
    return rows


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_of_long_rows_the_columns_that_say_most_are_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "WHOLE", 1000)
    rows = long_rows(kind, 60, 400)
    found, run = look(rows, 3)
    check(found, rows, run)
    shown = len(found.examples)
    assert 0 < len(found.columns) <= min(399, shown * summary.TOLD)
    dense = rows if kind == "dense" else rows.toarray()
    for row in found.examples[:, 2].astype(int):
        heavy = np.abs(dense[row])
        if kind == "dense":
            seen = dense[found.examples[:, 2].astype(int)].astype(float)
            heavy = np.abs(dense[row] - seen.mean(axis=0)) / seen.std(axis=0)
        assert set(np.argsort(-heavy)[: summary.TOLD]) <= set(found.columns)
    whole = look(rows, 3, images=True)[0]
    assert np.array_equal(whole.columns, np.arange(400))


@pytest.mark.slow
def test_a_fit_of_many_sparse_features_keeps_its_summary_and_its_report_small(tmp_path: Path) -> None:
    d = 200_000
    rows = long_rows("sparse", 3000, d)
    run = dmmc.fit(rows, 20, max_iter=3)
    tracemalloc.start()
    run.save(tmp_path / "out")
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    assert peak < 150, "MB: the examples as dense rows would be 183, and 366 as float64"
    _, arrays = array_folder.read(tmp_path / "out" / "summary", "summary")
    assert arrays["values"].shape[1] < 2000
    assert sum(path.stat().st_size for path in (tmp_path / "out" / "summary").iterdir()) < 10e6
    with pytest.raises(dmmc.InputError, match="did not keep whole rows"):
        contents.write_report(tmp_path / "out", (200, 1000))


HOSTILE = ["</script><script>alert(1)</script>", "\ud800\u202e", "a" * 100_000, "\0", "${x}", "=1+1", "ü\n"]


def test_hostile_names_are_kept_short_and_the_report_is_made(tmp_path: Path) -> None:
    import pandas as pd

    rows = np.random.default_rng(0).normal(size=(70, len(HOSTILE))).astype(np.float32)
    frame = pd.DataFrame(rows, columns=HOSTILE, index=HOSTILE * 10)
    run = dmmc.fit(frame, 3, out=tmp_path / "out", max_iter=20)
    content, _ = array_folder.read(tmp_path / "out" / "summary", "summary")
    assert content["names"] == HOSTILE
    assert max(map(len, content["ids"])) == summary_folder.LONGEST_ID
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert dmmc.load(tmp_path / "out").feature_names_in_.tolist() == HOSTILE
    assert np.array_equal(dmmc.load(tmp_path / "out").predict(frame), run.labels)
