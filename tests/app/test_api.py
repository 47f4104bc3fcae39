"""`dmmc.fit` and `dmmc.score` in Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dmmc
from dmmc import ClusteringWarning, CuttingPlaneMMC, InputError


def blobs(n: int = 120, k: int = 3) -> Any:
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 5)) + 6.0 * rng.standard_normal((k, 5))[np.arange(n) % k]


def test_fit_finds_the_blobs() -> None:
    run = dmmc.fit(blobs(), 3, method="cpmmc")
    assert dmmc.score(run.labels, np.arange(120) % 3)["accuracy"] == 1.0
    assert run.labels.dtype == np.int32
    assert run.labels is run.model.labels_
    assert run.history is run.model.history_
    assert isinstance(run.model, CuttingPlaneMMC)
    assert "120 rows in clusters of [40, 40, 40]" in repr(run)


def test_fit_is_the_estimator_with_seed_0() -> None:
    X = blobs()
    model = CuttingPlaneMMC(3, random_state=0).fit(X)
    for run in (
        dmmc.fit(X, 3, method="cpmmc"),
        dmmc.fit(X, n_clusters=3, method="cpmmc", n_jobs=1),
        dmmc.fit(X, 3, random_state=0, method="cpmmc"),
    ):
        np.testing.assert_array_equal(run.labels, model.labels_)
        np.testing.assert_array_equal(run.model.coef_, model.coef_)


def test_parameters_reach_the_estimator() -> None:
    run = dmmc.fit(blobs(), 2, C=7.0, order="outside", init="random", n_init=3, random_state=5, balance=0.1)
    assert run.choices["C"] == 7.0
    assert run.choices["order"] == "outside"
    assert run.choices["n_init"] == 3
    assert run.choices["random_state"] == 5
    assert run.model.balance == 0.1


def test_the_number_of_clusters_is_looked_for_by_default() -> None:
    run = dmmc.fit(blobs())
    assert run.choices["n_clusters"]["suggestion"] == 3
    assert set(run.labels) == {0, 1, 2}


def test_weights_reach_the_estimator() -> None:
    X = blobs()
    weight = np.random.default_rng(1).random(120)
    run = dmmc.fit(X, 3, sample_weight=weight, method="cpmmc")
    np.testing.assert_array_equal(run.model.coef_, CuttingPlaneMMC(3, random_state=0).fit(X, None, weight).coef_)


def test_a_store_is_read_by_its_path(tmp_path: Path) -> None:
    import zarr

    X = blobs()
    group = zarr.create_group(str(tmp_path / "data.zarr"))
    for name in ("train", "test"):
        group.create_array(name, data=X, chunks=(50, 5))
    run = dmmc.fit(tmp_path / "data.zarr", 3, component="train", method="cpmmc")
    np.testing.assert_array_equal(run.labels, dmmc.fit(X, 3, method="cpmmc").labels)
    with pytest.raises(InputError, match="choose with component= one of 'test', 'train'"):
        dmmc.fit(tmp_path / "data.zarr", 3, method="cpmmc")


def test_progress_is_told_of_each_pass_as_it_happens() -> None:
    heard: list[dict[str, Any]] = []
    run = dmmc.fit(blobs(), 3, progress=heard.append, method="cpmmc")
    passes = [event for event in heard if "iteration" in event]
    assert len(passes) == len(run.history)
    assert [event["objective"] for event in passes] == [line["objective"] for line in run.history]


def test_callbacks_and_progress_both_hear() -> None:
    ours: list[Any] = []
    theirs: list[Any] = []
    run = dmmc.fit(blobs(), 3, progress=ours.append, callbacks=theirs.append, method="cpmmc")
    assert len(theirs) == len(run.history)
    assert len(ours) >= len(theirs)


def test_warnings_of_a_fit_reach_the_user() -> None:
    with pytest.warns(ClusteringWarning, match="stopped by max_iter=1"):
        dmmc.fit(blobs(), 3, max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dmmc.fit(blobs(), 3, method="cpmmc")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda X: dmmc.fit(X, 2, method="svm"), "method is 'svm'; this version has auto, cpmmc"),
        (lambda X: dmmc.fit(X, 2, method=["cpmmc"]), "method is .'cpmmc'.; did you mean 'cpmmc'.? This version has"),
        (lambda X: dmmc.fit(X, 2, delta=3), "'delta' is not a parameter of method 'auto'; it takes callbacks, effort"),
        (
            lambda X: dmmc.fit(X, 1, method="cpmmc"),
            "n_clusters is 1; a whole number of clusters, 2 to 1,000",
        ),
        (
            lambda X: dmmc.fit(X, 2, workers=0, method="cpmmc"),
            "workers is 0; a number of processes of at least 1 is wanted",
        ),
        (
            lambda X: dmmc.fit(X, 2, scheduler="http://x:1", method="cpmmc"),
            "http://x:1 is not an address of a scheduler",
        ),
        (lambda X: dmmc.fit(X, 2, scheduler=7, method="cpmmc"), "scheduler is 7; an address .* is wanted"),
        (
            lambda X: dmmc.fit(X, 2, scheduler="tcp://x:1", workers=2, method="cpmmc"),
            "scheduler and workers were both given",
        ),
        (lambda X: dmmc.fit(X, 2, security={}, method="cpmmc"), "TLS files were given without a scheduler"),
        (
            lambda X: dmmc.fit(X, 2, scheduler="tls://x:1", security={"ca": "a"}, method="cpmmc"),
            "a mapping of ca, cert and key",
        ),
        (
            lambda X: dmmc.fit(X, 2, performance_report="p.html", method="cpmmc"),
            "a performance report is made by a cluster",
        ),
        (lambda X: dmmc.fit(X, 2, method="cpmmc", constraints=[]), "constraints were given, but"),
        (lambda X: dmmc.fit(X, 2, resume=True, method="cpmmc"), "resume=True was given, and no out"),
        (lambda X: dmmc.fit("no/such/store", 2, method="cpmmc"), "'no/such/store' does not exist"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(call: Callable[[Any], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(blobs())
