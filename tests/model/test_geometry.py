"""Centre and scale: numpy's, whatever the layout; robust against single rows; sentences about data without a scale."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from dmmc.data.blocks import Block, Csr
from dmmc.data.dataset import Dataset
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.errors import ClusteringWarning, InputError
from dmmc.model.geometry import Geometry, measure

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]


def measured(source: Any, scale: str = "none", weight: Any = None) -> tuple[Geometry, Dataset]:
    dataset = source if isinstance(source, Dataset) else open_dataset(source)
    if weight is not None:
        dataset = dataset.with_columns(weight=weight)
    with Local(dataset, 2) as engine:
        return measure(dataset, engine.rows, scale)


def geometry(source: Any, scale: str = "none", weight: Any = None) -> Geometry:
    """As `measured`, where nothing should be warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return measured(source, scale, weight)[0]


def in_blocks(X: Array, size: int) -> Dataset:
    X = np.ascontiguousarray(X)
    starts = range(0, len(X), size)
    blocks = tuple(Block(i, a, min(a + size, len(X)), X[a : a + size]) for i, a in enumerate(starts))
    return Dataset("an array", len(X), X.shape[1], X.dtype, False, blocks)


def skewed(n: int = 500, d: int = 6) -> Array:
    rng = np.random.default_rng(0)
    return np.round(rng.gamma(2.0, size=(n, d)) * np.linspace(1, 3, d), 3)


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "dense": lambda X: X,
    "csr": sparse.csr_array,
    "blocks": lambda X: in_blocks(X, 37),
}
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=list(LAYOUTS))


# --------------------------------------------------------------------------------------------------- mean and unit


@every_layout
@pytest.mark.parametrize("weighted", [False, True])
def test_mean_and_scale_are_numpys(layout: Callable[[Array], Any], weighted: bool) -> None:
    X = skewed()
    X[X < 1] = 0
    weight = np.random.default_rng(1).random(len(X)) if weighted else None
    omega = np.ones(len(X)) if weight is None else weight
    mean = np.average(X, axis=0, weights=omega)
    variance = np.average((X - mean) ** 2, axis=0, weights=omega)
    plain, standard = (geometry(layout(X), scale, weight) for scale in ("none", "standard"))
    np.testing.assert_allclose(plain.mean, mean)
    np.testing.assert_allclose(plain.unit, np.sqrt(variance.sum()))
    np.testing.assert_allclose(standard.unit, np.sqrt(variance) * np.sqrt(X.shape[1]))
    assert plain.total == pytest.approx(omega.sum())
    assert (plain.standardised, standard.standardised) == (False, True)


@every_layout
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_rows_have_mean_0_and_root_mean_squared_norm_1(layout: Callable[[Array], Any], scale: str) -> None:
    X = skewed()
    g = geometry(layout(X), scale)
    rows = (X - g.mean) / g.unit
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1)


@every_layout
def test_a_large_offset_costs_no_digits(layout: Callable[[Array], Any]) -> None:
    X = skewed()
    near, far = geometry(layout(X), "standard"), geometry(layout(X + 1e6), "standard")
    np.testing.assert_allclose(far.unit, near.unit, rtol=1e-8)
    np.testing.assert_allclose(far.mean - 1e6, near.mean, rtol=1e-8)


@every_layout
@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1, 1e-9])
def test_a_constant_feature_has_no_variance_and_is_left_as_it_is(layout: Callable[[Array], Any], value: float) -> None:
    X = skewed(20_000, 3)
    X[:, 1] = value
    g = geometry(layout(X), "standard")
    assert g.mean[1] == pytest.approx(value, rel=1e-15)
    assert g.unit[1] == pytest.approx(np.sqrt(2)), "two features vary"
    rows = (X - g.mean) / g.unit
    assert np.mean(np.sum(rows**2, axis=1)) == pytest.approx(1)


def test_whole_numbers_have_the_geometry_of_the_same_floats() -> None:
    X = np.random.default_rng(2).integers(0, 255, (300, 5)).astype(np.uint8)
    for dtype in ("float32", "float64", "uint16", "int32"):
        one, other = geometry(X), geometry(X.astype(dtype))
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.unit, other.unit)
        assert one.fingerprint != other.fingerprint


def test_whole_weights_count_as_repeated_rows() -> None:
    X = skewed(200)
    weight = np.random.default_rng(3).integers(0, 4, 200)
    X[weight == 0] *= 1e5
    for scale in ("none", "standard", "auto"):
        one, other = geometry(X, scale, weight), geometry(np.repeat(X, weight, axis=0), scale)
        np.testing.assert_allclose(one.mean, other.mean)
        np.testing.assert_allclose(one.unit, other.unit)
        assert one.standardised == other.standardised
        assert one.total == other.total


def test_hyperplanes_and_sums_go_to_raw_coordinates_and_back() -> None:
    rng = np.random.default_rng(4)
    X = skewed()
    for scale in ("none", "standard"):
        g = geometry(X, scale)
        W, b = rng.standard_normal((3, 6)), rng.standard_normal(3)
        rows = (X - g.mean) / g.unit
        planes = g.raw(W, b)
        np.testing.assert_allclose(X @ planes.W.T + planes.b, rows @ W.T + b, atol=1e-10)
        assert not planes.price.any()
        coef = rng.standard_normal((len(X), 3))
        np.testing.assert_allclose(g.centre(coef.T @ X, coef.sum(axis=0)), coef.T @ rows / len(X), atol=1e-12)


def test_a_few_rows_are_centred_and_scaled_or_only_scaled_if_sparse() -> None:
    X = skewed()
    g = geometry(X, "standard")
    np.testing.assert_allclose(g.apply(X[:5]), (X[:5] - g.mean) / g.unit, rtol=1e-5, atol=1e-6)
    assert g.apply(X[:5]).dtype == np.float32
    thin = g.apply(sparse.csr_array(X[:5]))
    np.testing.assert_allclose(thin.toarray(), X[:5] / g.unit)


# ------------------------------------------------------------------------------------------------------ scale="auto"


def test_wine_is_standardised_and_digits_are_not_dense_or_sparse() -> None:
    wine, digits = load_wine().data, load_digits().data
    for layout in LAYOUTS.values():
        assert geometry(layout(wine), "auto").standardised
        assert not geometry(layout(digits), "auto").standardised


@pytest.mark.parametrize("name", ["letter", "satellite", "ionosphere", "newsgroups_rec"])
def test_features_in_one_unit_are_left_as_they_are(name: str, load: Load) -> None:
    assert not geometry(load(name)[0], "auto").standardised


@every_layout
@pytest.mark.parametrize(
    "spreads", [(14, 0.57), (14, 0.57, 12, 0.1), (0.57, *[14] * 8)], ids=["two", "four", "one odd"]
)
def test_columns_whose_spreads_differ_more_than_ten_times_count_in_equal_parts(
    layout: Callable[[Array], Any], spreads: tuple[float, ...]
) -> None:
    rng = np.random.default_rng(1)
    X = 3.0 * np.array(spreads) + rng.standard_normal((700, len(spreads))) * spreads  # age, log income and so on
    g = geometry(layout(X), "auto")
    np.testing.assert_allclose(X.std(axis=0) / g.unit, len(spreads) ** -0.5)


def test_columns_whose_spreads_differ_less_are_left_as_they_are() -> None:
    rng = np.random.default_rng(1)
    X = 20.0 + rng.standard_normal((700, 3)) * [1.0, 4.0, 8.0]
    assert not geometry(X, "auto").standardised
    assert not geometry(load_iris().data, "auto").standardised
    assert geometry(load_breast_cancer().data, "auto").standardised


def test_columns_on_both_sides_of_0_have_a_scale_of_their_makers_choice() -> None:
    X = load_iris().data
    scores = (X - X.mean(axis=0)) @ np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2].T
    assert scores.std(axis=0).max() > 10 * scores.std(axis=0).min()
    assert not geometry(scores, "auto").standardised  # principal components: whitened, they would be as many noises
    assert geometry(scores + 5.0, "auto").standardised


def test_a_table_that_was_centred_is_still_a_table() -> None:
    X = load_wine().data - load_wine().data.mean(axis=0)
    assert geometry(X, "auto").standardised
    assert geometry(load_breast_cancer().data - load_breast_cancer().data.mean(axis=0), "auto").standardised


def test_it_is_said_where_columns_were_left_as_they_are_though_their_spreads_differ() -> None:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 3))
    assert geometry(20.0 + X * [1.0, 4.0, 8.0], "auto").unclear
    assert geometry(X * [1.0, 40.0, 80.0], "auto").unclear
    assert not geometry(20.0 + X * [1.0, 40.0, 80.0], "auto").unclear
    assert not geometry(20.0 + X * [1.0, 1.5, 2.0], "auto").unclear
    assert not geometry(20.0 + X * [1.0, 4.0, 8.0], "none").unclear


def test_words_differ_in_frequency_not_in_unit() -> None:
    rng = np.random.default_rng(5)
    counts = rng.poisson(np.geomspace(0.02, 1.0, 200), (600, 200)).astype(np.float32)
    counts[:, 0] *= 500
    for source in (counts, sparse.csr_array(counts)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert not measured(source, "auto")[0].standardised


@every_layout
@pytest.mark.parametrize("row", [0, 77, 177])
@pytest.mark.parametrize("scale", ["auto", "standard"])
def test_one_gross_outlier_moves_neither_decision_nor_centre_nor_unit(
    layout: Callable[[Array], Any], row: int, scale: str
) -> None:
    for X, standardised in ((load_wine().data, True), (load_digits().data[:178], False)):
        clean = geometry(layout(X), scale)
        X = X.copy()
        X[row] *= 1e6
        with pytest.warns(ClusteringWarning, match=rf"^1 of 178 rows lie more than 10 times.*\(row {row}: "):
            g, dataset = measured(layout(X), scale)
        assert g.standardised == clean.standardised == (standardised or scale == "standard")
        assert np.abs((g.mean - clean.mean) / clean.unit).max() < 0.05
        # the outlier adds to the second moment no more than some median rows do
        moved = np.abs(g.unit / clean.unit - 1)[clean.unit > 0]
        assert np.median(moved) < 0.05
        assert moved.max() < 0.5
        weight = np.concatenate([block.weight for block in dataset.blocks])
        assert weight[row] < 1e-8
        assert np.delete(weight, row).tolist() == [1.0] * 177
        assert g.total == pytest.approx(177)


def test_the_weight_of_an_outlier_is_lowered_from_what_the_user_gave() -> None:
    X = skewed()
    X[9] *= 1e3
    given = np.linspace(1, 2, 500)
    with pytest.warns(ClusteringWarning, match="row 9"):
        _, dataset = measured(X, weight=given)
    weight = np.concatenate([block.weight for block in dataset.blocks])
    assert weight[9] < 1e-3
    np.testing.assert_array_equal(np.delete(weight, 9), np.delete(given, 9))


def test_a_tenth_of_the_rows_far_out_is_a_cluster_and_not_outliers() -> None:
    X = skewed()
    X[::10] += 1000
    assert geometry(X).total == 500


def test_rows_of_a_rare_feature_in_a_large_unit_are_no_outliers_when_features_are_standardised() -> None:
    rng = np.random.default_rng(6)
    X = rng.standard_normal((1000, 8)) * np.geomspace(1, 1e3, 8)
    X[:, 3] = 0
    X[rng.choice(1000, 40, replace=False), 3] = 1e5
    assert geometry(X, "standard").total == 1000


def test_an_outlier_of_weight_0_is_not_spoken_of() -> None:
    X = skewed()
    X[9] *= 1e6
    weight = np.ones(500)
    weight[9] = 0
    g = geometry(X, weight=weight)
    np.testing.assert_allclose(g.mean, np.delete(X, 9, axis=0).mean(axis=0))
    np.testing.assert_allclose(g.unit, np.sqrt(np.delete(X, 9, axis=0).var(axis=0).sum()))


# ------------------------------------------------------------------------------------------------------- bad data


@every_layout
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_what_is_not_finite_is_refused_by_name(layout: Callable[[Array], Any], bad: float, what: str) -> None:
    X = skewed()
    X[0, 0] = 0
    X[123, 4] = bad
    with pytest.raises(InputError, match=f"contains {what} at row 123, column 4; every number must be finite"):
        measured(layout(X))


def test_a_first_row_that_is_not_finite_is_refused_too() -> None:
    X = skewed()
    X[0] = np.nan
    with pytest.raises(InputError, match="contains NaN at row 0, column 0"):
        measured(X)


@every_layout
@pytest.mark.parametrize(("dtype", "large"), [("float32", 3e38), ("float64", 1e200)])
def test_numbers_whose_squares_overflow_are_refused(layout: Callable[[Array], Any], dtype: str, large: float) -> None:
    X = skewed().astype(dtype)
    for spoiled in (X / X.max() * large, np.where(np.arange(500)[:, None] == 7, large, X)):
        with pytest.raises(InputError, match=r"numbers as large as \S+, so large that their squares overflow"):
            measured(layout(spoiled.astype(dtype)))


def test_a_row_too_far_out_to_compute_with_is_refused_by_number() -> None:
    X = skewed()
    X[7] *= 1e20
    with pytest.raises(InputError, match=r"^row 7 of .* lies \S+ times as far out as the median row"):
        measured(X)


@pytest.mark.parametrize(("dtype", "small"), [("float32", 1e-38), ("float64", 1e-200)])
@pytest.mark.parametrize("scale", ["none", "standard"])
def test_numbers_whose_squares_vanish_are_refused(dtype: str, small: float, scale: str) -> None:
    X = (skewed() * small).astype(dtype)
    with pytest.raises(InputError, match="differ by so little"):
        measured(X, scale)


@every_layout
def test_small_and_large_numbers_within_reason_are_measured(layout: Callable[[Array], Any]) -> None:
    X = skewed()
    plain = geometry(layout(X))
    for factor in (1e-20, 1e20):
        g = geometry(layout((X * factor).astype(np.float32)))
        np.testing.assert_allclose(g.unit, plain.unit * factor, rtol=1e-6)


@every_layout
@pytest.mark.parametrize("value", [0.0, 0.1, 1e6 + 0.1])
def test_rows_that_are_all_equal_are_refused(layout: Callable[[Array], Any], value: float) -> None:
    with pytest.raises(InputError, match=r"all 5000 rows of .* are equal"):
        measured(layout(np.full((5000, 3), value)))


def test_rows_that_differ_only_where_the_weight_is_0_are_refused() -> None:
    X = np.ones((10, 2))
    X[3] = 5
    weight = np.ones(10)
    weight[3] = 0
    with pytest.raises(InputError, match="only rows of weight 0 differ"):
        measured(X, weight=weight)


def test_weights_that_are_all_0_are_refused() -> None:
    with pytest.raises(InputError, match="the sample weights of all rows are 0"):
        measured(skewed(), weight=np.zeros(500))


def test_two_rows_and_one_feature_are_enough() -> None:
    g = geometry(np.array([[0.0], [2.0]]))
    assert g.mean.tolist() == [1.0]
    assert g.unit.tolist() == [1.0]


# ---------------------------------------------------------------------------------------------------- fingerprint


def test_the_fingerprint_changes_with_any_number_shape_or_type() -> None:
    X = np.random.default_rng(7).integers(0, 9, (6, 4)).astype(np.float32)
    prints = {geometry(X).fingerprint, geometry(X.reshape(4, 6)).fingerprint, geometry(X.astype("f8")).fingerprint}
    for i in range(X.size):
        other = X.copy()
        other.flat[i] = np.nextafter(other.flat[i], np.float32(99))
        prints.add(geometry(other).fingerprint)
    assert len(prints) == X.size + 3
    assert geometry(X.copy()).fingerprint in prints


def test_the_fingerprint_does_not_depend_on_the_chunks_of_the_source(tmp_path: Any) -> None:
    import dask.array
    import zarr

    # two blocks, so that chunks could matter
    X = np.random.default_rng(8).random((1100, 2000))
    wanted = geometry(X).fingerprint
    stored = zarr.create_array(str(tmp_path / "X.zarr"), data=X, chunks=(300, 700))
    for source in (dask.array.from_array(X, chunks=(170, 2000)), stored, np.asfortranarray(X)):
        assert geometry(source).fingerprint == wanted


def test_sparse_rows_from_any_source_have_one_fingerprint() -> None:
    X = sparse.random_array((50, 30), density=0.2, rng=np.random.default_rng(9), format="csr")
    shuffled = sparse.coo_array((X.tocoo().data[::-1], (X.tocoo().row[::-1], X.tocoo().col[::-1])), shape=X.shape)
    assert geometry(X).fingerprint == geometry(shuffled.tocsc()).fingerprint == geometry(shuffled).fingerprint
    rows = open_dataset(X).blocks[0].rows
    assert isinstance(rows, Csr)


def test_sparse_rows_too_wide_for_a_few_dense_ones_are_refused_with_the_numbers() -> None:
    X = sparse.csr_array((np.ones(2), np.array([0, 5]), np.array([0, 1, 2])), shape=(2, 2**45))
    with pytest.raises(InputError, match=r"has 35184372088832 features: 8 dense rows of them need \d+ MB"):
        measured(X)
