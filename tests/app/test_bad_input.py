"""Bad input is refused in one sentence that says what was given and what is wanted; odd input has a defined result."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dmmc
from dmmc import ClusteringWarning, CuttingPlaneMMC, InputError

Array = NDArray[Any]

# what a fit says besides is not what is tested here; `pytest.warns` hears it all the same
pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


def rows() -> Array:
    X = np.random.default_rng(0).standard_normal((30, 3))
    X[:15] += 4.0
    return X


def by_estimator(X: Any, k: Any = 2, sample_weight: Any = None, **params: Any) -> Any:
    return CuttingPlaneMMC(k, **{"random_state": 0, **params}).fit(X, sample_weight=sample_weight)


def by_fit(X: Any, k: Any = 2, sample_weight: Any = None, **params: Any) -> Any:
    return dmmc.fit(X, k, sample_weight=sample_weight, **params).model


@pytest.fixture(params=[by_estimator, by_fit], ids=["estimator", "fit"])
def fit(request: pytest.FixtureRequest) -> Any:
    return request.param


def refused(call: Callable[[], Any], *wanted: str) -> None:
    """The call is refused in one sentence (perhaps with a second half) in which all of this is said."""
    with pytest.raises(InputError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    assert sentence.rstrip().endswith((".", ")", "'", "`")), sentence
    for part in wanted:
        assert re.search(part, sentence), f"{part!r} is not in {sentence!r}"


# ------------------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "csr float32"])
def test_a_number_that_is_not_finite_is_named_with_its_place(fit: Any, kind: str, value: float) -> None:
    X = rows()
    X[7, 1] = value
    if "float32" in kind:
        X = X.astype(np.float32)
    bad = csr_array(X) if "csr" in kind else X
    what = "NaN" if np.isnan(value) else "infinity"
    refused(lambda: fit(bad), f"{what} at row 7, column 1", "must be finite", r"\(30, 3\)")
    model = fit(rows())
    refused(lambda: model.predict(bad), f"{what} at row 7, column 1")
    refused(lambda: model.decision_function(bad), f"{what} at row 7, column 1")


def test_a_number_that_is_not_finite_is_found_in_any_chunk_of_a_dask_array(fit: Any) -> None:
    import dask.array as da

    X = rows()
    model = fit(X)
    X[17, 2] = np.inf
    lazy = da.from_array(X, chunks=(10, 2))
    refused(lambda: fit(lazy), "infinity at row 17, column 2")
    refused(lambda: model.predict(lazy).compute(), "infinity at row 7, column 2")  # of its chunk


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        (np.empty((0, 3)), ["0 sample", r"\(0, 3\)"]),
        (np.empty((3, 0)), ["0 feature", r"\(3, 0\)"]),
        (np.arange(5.0), ["2D", "1D", r"\(5,\)"]),
        (np.zeros((2, 3, 4)), ["dim 3", r"\(2, 3, 4\)"]),
        (np.float64(3.0), ["2D", "scalar"]),
        (None, ["2D"]),
        ([[1.0, 2.0], [3.0]], ["list"]),
        (np.array([["a", "b"], ["c", "d"]]), ["text", "numeric"]),
        (np.array([["1", "2"], ["3", "4"]]), ["text", "numeric"]),
        (np.array([[1, "x"], [3, 4]], object), ["'x'", "numbers are wanted"]),
        (np.array([[1, {}], [3, 4]], object), ["number"]),
        (np.eye(3) + 1j, ["[Cc]omplex", "real numbers"]),
        (np.array([["2020-01-01"], ["2021-01-01"]], "M8[D]"), ["dates", "numeric"]),
    ],
    ids=lambda value: None if isinstance(value, list) else type(value).__name__,
)
def test_what_is_no_matrix_of_numbers_is_refused(fit: Any, given: Any, parts: list[str]) -> None:
    refused(lambda: fit(given), *parts)


def test_rows_that_are_all_equal_are_refused(fit: Any) -> None:
    refused(lambda: fit(np.ones((10, 3))), "all 10 rows", "equal")
    refused(lambda: fit(np.ones((10, 3), np.uint8)), "all 10 rows", "equal")
    refused(lambda: fit(csr_array(np.ones((10, 3)))), "all 10 rows", "equal")
    refused(lambda: fit(csr_array((10, 3))), "all 10 rows", "equal")


def test_fewer_rows_than_clusters_are_refused(fit: Any) -> None:
    refused(lambda: fit(rows()[:3], 5), r"3 sample\(s\)", "n_clusters=5")
    refused(lambda: fit(rows()[:1]), r"1 sample\(s\)", "n_clusters=2")


def test_numbers_whose_squares_overflow_are_refused(fit: Any) -> None:
    refused(lambda: fit(1e200 * rows()), "squares overflow", "rescale")


# --------------------------------------------------------------------------------------------------- parameters


@pytest.mark.parametrize("k", [0, -1, 2.5, "3", True, 10_001, float("nan"), 3.0, [2]])
def test_a_number_of_clusters_that_is_none_is_refused(fit: Any, k: Any) -> None:
    refused(lambda: fit(rows(), k), re.escape(f"n_clusters is {k!r}; a whole number of clusters, 2 to 1"))


def test_one_cluster_is_refused_by_fit_and_only_warned_about_by_the_estimator() -> None:
    refused(lambda: dmmc.fit(rows(), 1, method="cpmmc"), "n_clusters is 1", "2 to 1,000")
    with pytest.warns(ClusteringWarning, match="n_clusters is 1"):
        CuttingPlaneMMC(1).fit(rows())  # scikit-learn's checks ask for it


BAD_PARAMETERS: dict[str, list[Any]] = {
    "C": [-1, 0, np.nan, np.inf, "big", None, np.ones(2), True],
    "balance": [1.0, 1.5, -0.1, np.nan, "x", None],
    "min_size": [-0.1, 1.1, np.nan, None, "x"],
    "max_size": [0.5, -1, np.nan, "x"],
    "order": ["both", None, 1],
    "epsilon": [0, -1, np.nan, np.inf, "x", None],
    "max_iter": [0, -1, 2.5, "x", None, True],
    "init": ["kmeans", None, 5, np.zeros(30), np.zeros(29, int), np.zeros((30, 1), int), ["a"] * 30, [[1], [1, 2]]],
    "n_init": [0, -1, 1.5, "many", None, True],
    "scale": ["robust", True, None],
    "features": ["fourier", None, 3],
    "random_state": [-1, "abc", 1.5, True],
    "n_jobs": [0, -2, 1.5, "two", True],
    "max_seconds": [0, -1, np.nan, "x", True],
    "callbacks": [5, [5], "abc", [print, None]],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD_PARAMETERS.items() for value in values]
)
def test_a_bad_parameter_is_named_with_what_was_given_and_what_is_wanted(fit: Any, name: str, value: Any) -> None:
    refused(lambda: fit(rows(), **{name: value}), name, r"wanted|choose one of|give a positive")


def test_what_was_given_is_shown(fit: Any) -> None:
    refused(lambda: fit(rows(), C=-1), "C is -1; a number above 0")
    refused(lambda: fit(rows(), order="both"), "order is 'both'; choose one of 'auto', 'inside', 'outside'")
    refused(lambda: fit(rows(), balance=1.5), "balance is 1.5; a number of at least 0 and below 1")
    refused(lambda: fit(rows(), n_jobs="two"), "n_jobs is 'two'")


def test_labels_to_start_from_are_checked(fit: Any) -> None:
    labels = np.arange(30) % 2
    assert fit(rows(), init=labels).n_iter_ > 0
    assert fit(rows(), init=labels.tolist()).n_iter_ > 0
    assert fit(rows(), init=labels.astype(bool)).n_iter_ > 0
    labels[4] = 2
    refused(lambda: fit(rows(), init=labels), r"init\[4\] is 2", "labels from 0 to 1")
    labels[4] = -1
    refused(lambda: fit(rows(), init=labels), r"init\[4\] is -1")
    refused(lambda: fit(rows(), init=np.ones(30, int)), "every row the label 1", "at least two")


@pytest.mark.parametrize(
    ("weight", "parts"),
    [
        (np.ones(29), [r"\(29,\)", "30 rows"]),
        (np.ones((30, 1)), [r"\(30, 1\)", "30 rows"]),
        (-np.ones(30), [r"sample_weight\[0\] is -1", "at least 0"]),
        (np.where(np.arange(30) == 5, np.nan, 1.0), [r"sample_weight\[5\] is nan", "finite"]),
        (np.where(np.arange(30) == 5, np.inf, 1.0), [r"sample_weight\[5\] is inf", "finite"]),
        (np.zeros(30), ["zero for every row"]),
        (["a"] * 30, ["not made of numbers"]),
        (np.ones(30) * 1j, ["not made of numbers"]),
        ([[1], [2, 3]], ["not made of numbers"]),
    ],
)
def test_bad_weights_are_refused(fit: Any, weight: Any, parts: list[str]) -> None:
    refused(lambda: fit(rows(), sample_weight=weight), "sample_weight", *parts)


def test_weight_on_a_single_row_is_refused(fit: Any) -> None:
    refused(lambda: fit(rows(), sample_weight=np.eye(30)[29]), "differ|equal")


def test_unknown_parameters_are_refused() -> None:
    refused(lambda: dmmc.fit(rows(), 2, delta=3), "'delta' is not a parameter", "it takes callbacks, effort")
    with pytest.raises(TypeError, match="delta"):
        CuttingPlaneMMC(2, delta=3)


# --------------------------------------------------------------------------------------------------- predicting


@pytest.mark.parametrize("method", ["predict", "decision_function"])
def test_another_number_of_columns_is_refused(fit: Any, method: str) -> None:
    import dask.array as da

    model = fit(rows())
    for other in (rows()[:, :2], csr_array(rows()[:, :2]), da.from_array(rows()[:, :2])):
        refused(lambda other=other: getattr(model, method)(other), "X has 2 features", "expecting 3 features")
    refused(lambda: getattr(model, method)(rows()[0]), "2D", "Reshape your data")
    refused(lambda: getattr(model, method)(da.from_array(rows()[0])), "2D", "Reshape your data")
    refused(lambda: getattr(model, method)(rows()[:0]), "0 sample")
    refused(lambda: getattr(model, method)(np.array([["a", "b", "c"]])), "text")


# --------------------------------------------------------------------------------------- odd, but not an error


@pytest.mark.parametrize("k", [2, 3])
def test_one_feature_is_enough(fit: Any, k: int) -> None:
    assert len(np.unique(fit(rows()[:, :1], k).labels_)) == k


@pytest.mark.parametrize("scale", ["auto", "standard", "none"])
def test_constant_features_change_nothing(fit: Any, scale: str) -> None:
    X = rows()
    with_constants = np.column_stack([X, np.full(30, 7.0), np.zeros(30)])
    np.testing.assert_array_equal(fit(with_constants, scale=scale).labels_, fit(X, scale=scale).labels_)
    assert np.isfinite(fit(with_constants, scale=scale).coef_).all()


def test_as_many_clusters_as_rows_is_one_row_each(fit: Any) -> None:
    assert sorted(fit(rows()[:5], 5).labels_) == [0, 1, 2, 3, 4]
    assert sorted(fit(rows()[[0, 20]], 2).labels_) == [0, 1]


@pytest.mark.parametrize("params", [{}, {"min_size": 0}, {"order": "inside"}, {"init": "random"}, {"init": "pca"}])
@pytest.mark.parametrize(("distinct", "k"), [(2, 3), (3, 5), (2, 10)])
def test_fewer_distinct_rows_than_clusters_are_labelled_with_a_warning(
    fit: Any, distinct: int, k: int, params: dict[str, Any]
) -> None:
    X = np.repeat(rows()[[0, 20, 5][:distinct]], 12, axis=0)
    with pytest.warns(ClusteringWarning, match=rf"only \d of {k} clusters have rows"):
        model = fit(X, k, **params)
    assert model.labels_.min() == 0
    assert model.labels_.max() < k
    assert len(np.unique(model.labels_)) <= distinct
    for i in range(distinct):
        assert len(set(model.labels_[12 * i : 12 * i + 12])) == 1


def test_two_distinct_rows_are_two_clusters(fit: Any) -> None:
    labels = fit(np.repeat(rows()[[0, 20]], [7, 5], axis=0)).labels_
    np.testing.assert_array_equal(labels, np.repeat([0, 1], [7, 5]))


def test_numbers_in_objects_and_booleans_are_numbers(fit: Any) -> None:
    np.testing.assert_array_equal(fit(rows().astype(object)).labels_, fit(rows()).labels_)
    truths = rows() > 1.0
    np.testing.assert_array_equal(fit(truths).labels_, fit(truths.astype(np.uint8)).labels_)


def test_numbers_of_clusters_of_any_whole_type_are_taken(fit: Any) -> None:
    np.testing.assert_array_equal(fit(rows(), np.int64(3)).labels_, fit(rows(), 3).labels_)


@pytest.mark.parametrize("params", [{"C": 1e-6}, {"C": 1e8}, {"balance": 0.0}, {"balance": 0.99}, {"epsilon": 1e-9}])
@pytest.mark.parametrize("k", [2, 3])
def test_extreme_parameters_end_in_finite_hyperplanes(fit: Any, k: int, params: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = fit(rows(), k, **params)
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert len(np.unique(model.labels_)) == k


@pytest.mark.parametrize("state", [None, 3, np.int64(3), 2**40, np.random.RandomState(1), np.random.default_rng(1)])
def test_any_kind_of_seed_is_recorded_as_a_number(fit: Any, state: Any) -> None:
    seed = fit(rows(), random_state=state).choices_["random_state"]
    assert isinstance(seed, int)
    assert seed >= 0


def test_a_refused_fit_leaves_no_half_fitted_model() -> None:
    model = CuttingPlaneMMC(2, random_state=0)
    bad = rows()
    bad[0, 0] = np.nan
    with pytest.raises(InputError):
        model.fit(bad)
    assert not hasattr(model, "labels_")
    assert not hasattr(model, "coef_")
