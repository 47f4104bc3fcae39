"""scikit-learn's own checks of an estimator, and what its users expect to be able to do with one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dmmc import (
    AutoMMC,
    CuttingPlaneMMC,
    EvolutionaryMMC,
    InputError,
    LeastSquaresMMC,
    PairwiseMMC,
    StochasticMMC,
    SubspaceMMC,
)

ONE_LABEL = "a row of weight 2 has one label, and two equal rows may have two: other labels are balanced"
NODES = "a graph of nearest neighbours has a node for each row, whatever it weighs"
RANDOM = "starts are drawn at random, and other rows are drawn when rows are repeated instead of weighted"
VISITED = "rows are visited one by one in a random order, and there are more visits when rows are repeated (as SGD*)"


def expected_failures(estimator: Any) -> dict[str, str]:
    """Of two clusters there is but one good start on the data of these checks; of three there are several."""
    own = {EvolutionaryMMC: ONE_LABEL, StochasticMMC: VISITED, LeastSquaresMMC: NODES, AutoMMC: NODES}
    why = own.get(type(estimator), RANDOM if estimator.n_clusters > 2 else "")
    kinds = ("dense", "sparse") if why else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": why for kind in kinds}


@pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")
@parametrize_with_checks(
    [
        AutoMMC(n_clusters=2),
        AutoMMC(n_clusters=3),
        CuttingPlaneMMC(),
        CuttingPlaneMMC(n_clusters=3),
        LeastSquaresMMC(),
        LeastSquaresMMC(n_clusters=3),
        PairwiseMMC(),
        StochasticMMC(),
        StochasticMMC(3, loss="robust-compact"),
        EvolutionaryMMC(),
        EvolutionaryMMC(3, rank="auto"),
        SubspaceMMC(),
        SubspaceMMC(n_clusters=3),
    ],
    expected_failed_checks=expected_failures,
    xfail_strict=False,
)
def test_scikit_learn_accepts_the_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_works_in_a_pipeline() -> None:
    X = np.random.default_rng(0).standard_normal((60, 4)) + 8.0 * np.repeat([0, 1], 30)[:, None]
    labels = make_pipeline(StandardScaler(), CuttingPlaneMMC(random_state=0)).fit_predict(X)
    np.testing.assert_array_equal(labels, np.repeat([0, 1], 30))


def test_a_subspace_stands_in_a_pipeline_before_other_estimators() -> None:
    X = np.random.default_rng(0).standard_normal((90, 9)) + 8.0 * np.eye(9)[np.arange(90) % 3]
    steps = make_pipeline(StandardScaler(), SubspaceMMC(3, random_state=0), StandardScaler())
    assert steps.fit_transform(X).shape == (90, 2)
    assert steps.get_feature_names_out().tolist() == ["subspacemmc0", "subspacemmc1"]


def test_parameters_are_got_set_and_cloned() -> None:
    model = CuttingPlaneMMC(3, C=10.0, init="pca")
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(C=5.0).C == 5.0
    assert "C=5.0" in repr(model)


def test_predicting_before_fitting_is_refused() -> None:
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(CuttingPlaneMMC(), method)(np.eye(3))


def test_one_cluster_is_every_row_as_scikit_learn_asks_and_a_warning() -> None:
    X = np.random.default_rng(0).standard_normal((20, 3))
    with pytest.warns(UserWarning, match="n_clusters is 1"):
        model = CuttingPlaneMMC(1, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, np.zeros(20))
    np.testing.assert_array_equal(model.predict(X), np.zeros(20))
    X[3, 1] = np.nan
    with pytest.raises(InputError, match="NaN at row 3, column 1"):
        CuttingPlaneMMC(1).fit(X)
