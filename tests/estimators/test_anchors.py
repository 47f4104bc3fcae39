"""Fits along anchors: accuracy, `labels_` and `predict`, threads, workers and resumed fits, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits
from stops import Interrupt

import dmmc
from dmmc.errors import NotFeasible
from dmmc.estimators import AutoMMC, CuttingPlaneMMC, LeastSquaresMMC
from dmmc.features import graph
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.maps import Manifold
from dmmc.results import array_folder

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
DIGITS, DIGIT = load_digits(return_X_y=True)
FEW = DIGITS[:600]
PHASES = ("axes", "anchors", "anchor_graph", "spectral", "join", "probe", "start", "search", "label")


def accuracy(labels: Any) -> float:
    return float(dmmc.score(labels, DIGIT[: len(labels)])["accuracy"])


def outcome(model: Any) -> dict[str, bytes]:
    arrays = {name: np.asarray(array).tobytes() for name, array in model.to_arrays()[1].items()}
    return {**arrays, "labels": model.labels_.tobytes()}


def test_digits_by_anchors_are_clustered_nearly_as_well_as_by_rows() -> None:
    model = LeastSquaresMMC(10, graph="anchors", random_state=0).fit(DIGITS)
    assert accuracy(model.labels_) > 0.85  # rows: .95, of only 1,797
    assert model.choices_["graph"] == "anchors"
    assert model.choices_["n_anchors"] == len(DIGITS) // 4
    assert model.choices_["recall"] == 1.0
    np.testing.assert_array_equal(model.predict(DIGITS), model.labels_)
    np.testing.assert_array_equal(model.predict(DIGITS[700:707]), model.labels_[700:707])
    assert max(len(array) for array in model.to_arrays()[1].values()) == len(DIGITS) // 4


@pytest.mark.parametrize("features", ["raw", "axes", "smooth", "spectral", "nystroem"])
def test_every_kind_of_features_can_start_along_anchors(features: str) -> None:
    model = CuttingPlaneMMC(3, features=features, init="graph", graph="anchors", random_state=0).fit(FEW)
    np.testing.assert_array_equal(model.predict(FEW), model.labels_)
    assert model.merge_tree_ is not None
    assert model.choices_["graph"] == "anchors"
    assert isinstance(model.map_, AnchorMap) == (features in ("smooth", "spectral"))


def test_sparse_rows_are_linked_on_latent_semantic_axes() -> None:
    from scipy.sparse import csr_array

    model = LeastSquaresMMC(3, features="spectral", init="graph", graph="anchors", random_state=0).fit(csr_array(FEW))
    np.testing.assert_array_equal(model.predict(csr_array(FEW)), model.labels_)
    assert model.map_ is not None


@pytest.mark.parametrize("features", ["axes", "spectral"])
def test_threads_and_a_model_that_was_read_give_the_same_bits(features: str, tmp_path: Path) -> None:
    made = [
        LeastSquaresMMC(10, features=features, graph="anchors", random_state=1, n_jobs=jobs).fit(DIGITS)
        for jobs in (1, 2)
    ]
    assert outcome(made[0]) == outcome(made[1])
    content, arrays = made[0].to_arrays()
    array_folder.write(tmp_path / "model", "model", content, arrays)
    again = LeastSquaresMMC.from_arrays(*array_folder.read(tmp_path / "model", "model"), "model")
    np.testing.assert_array_equal(again.predict(DIGITS), made[0].labels_)


def test_a_row_of_weight_2_counts_as_two_rows_do() -> None:
    once = LeastSquaresMMC(3, graph="anchors", n_anchors=80, random_state=0).fit(FEW, sample_weight=np.full(600, 2.0))
    plain = LeastSquaresMMC(3, graph="anchors", n_anchors=80, random_state=0).fit(FEW)
    assert dmmc.score(once.labels_, plain.labels_)["accuracy"] > 0.99


def test_rows_are_linked_to_rows_up_to_the_number_whose_neighbours_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit() -> LeastSquaresMMC:
        return LeastSquaresMMC(3, features="spectral", random_state=0).fit(FEW)

    assert isinstance(fit().map_, Manifold)
    monkeypatch.setattr(graph, "EXACT", 599)
    assert isinstance(fit().map_, AnchorMap)


def test_auto_tries_the_graph_of_anchors_however_many_rows_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmmc.estimators.auto.GRAPH_ROWS", 500)
    monkeypatch.setattr(graph, "EXACT", 500)
    model = AutoMMC(3, random_state=0).fit(FEW)
    tried = {candidate["name"]: candidate for candidate in model.choices_["candidates"]}
    assert tried["lsmmc"]["score"] is not None
    refused = AutoMMC(3, random_state=0, graph="rows").fit(FEW)
    why = {candidate["name"]: candidate["why_not"] for candidate in refused.choices_["candidates"]}
    assert "a graph of more than 500 rows" in why["lsmmc"]


def fit_to(out: Path | None, **options: Any) -> Any:
    return dmmc.fit(FEW, 10, method="lsmmc", graph="anchors", n_anchors=150, random_state=0, out=out, **options)


@pytest.fixture(scope="module")
def undisturbed() -> dict[str, bytes]:
    return outcome(fit_to(None).model)


@pytest.mark.slow
@pytest.mark.parametrize("phase", PHASES)
def test_a_driver_that_stops_as_a_phase_begins_goes_on_to_the_same_bits(
    phase: str, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit_to(tmp_path / "out", progress=Interrupt(phase))
    assert outcome(fit_to(tmp_path / "out", resume=True).model) == undisturbed


def test_a_fit_whose_time_is_up_before_there_are_anchors_says_so() -> None:
    with pytest.raises(dmmc.OutOfTime, match=r"max_seconds=1e-09 ended while .* and nothing was found yet"):
        LeastSquaresMMC(10, graph="anchors", max_seconds=1e-9, random_state=0).fit(FEW)


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"graph": "knn"}, "graph is 'knn'; choose one of 'auto', 'rows', 'anchors'."),
        ({"n_anchors": 3}, 'n_anchors is 3; a whole number of at least 10, or "auto", is wanted.'),
        ({"n_anchors": "many"}, "n_anchors is 'many'; a whole number of at least 10"),
    ],
)
def test_what_anchors_cannot_be_is_refused_in_a_sentence(params: dict[str, Any], told: str) -> None:
    with pytest.raises(dmmc.InputError) as caught:
        LeastSquaresMMC(3, **params).fit(FEW)
    assert told in str(caught.value)


def test_two_distinct_rows_have_two_anchors_and_two_rows_are_too_few() -> None:
    X = np.repeat(np.eye(2, 3), 20, axis=0)
    model = LeastSquaresMMC(2, features="spectral", init="graph", graph="anchors", transform="none", random_state=0)
    labels = model.fit(X).labels_
    assert model.choices_["n_anchors"] == 2
    assert dmmc.score(labels, np.repeat([0, 1], 20))["accuracy"] == 1.0
    np.testing.assert_array_equal(model.predict(X), labels)
    with pytest.raises(NotFeasible, match="has 2 rows; a graph of anchors needs at least 3"):
        model.fit(np.eye(2, 3))
