"""A model is compared with what models hold: each array and each line of its description, by name."""

from __future__ import annotations

from typing import Any

import data_sets
import numpy as np
import pytest

import dmmc
from dmmc.errors import InputError
from dmmc.estimators import AutoMMC, CuttingPlaneMMC, StochasticMMC, SubspaceMMC, model_shapes

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

Parts = tuple[dict[str, Any], dict[str, Any]]


def rows(n: int = 300) -> Any:
    return data_sets.load("digits")[0][:n].astype(np.float32)


@pytest.fixture(scope="module")
def manifold() -> Parts:
    return CuttingPlaneMMC(3, features="spectral", max_iter=3).fit(rows()).to_arrays()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("map_w", None),
        ("map_points", None),
        ("map_b", np.zeros(1)),
        ("map_w", np.zeros((64, 64), np.float32)),
        ("map_w", np.full((64, 64), np.nan)),
        ("map_points", np.zeros((300, 63), np.float32)),
        ("map_points", np.zeros((299, 64), np.float32)),
        ("map_points", np.zeros((300, 64))),
        ("map_values", np.zeros(300, np.float32)),
        ("map_values", np.full((300, 12), np.inf, np.float32)),
        ("map_scale", np.ones(299)),
        ("map_scale", np.zeros(300)),
        ("map_scale", -np.ones(300)),
        ("map_root", np.zeros((2, 2))),
        ("coef", np.zeros((3, 64))),
        ("unit", "yes"),
        ("unit_rows", 1),
        ("n_neighbors", 0),
        ("n_neighbors", True),
        ("n_neighbors", "10"),
        ("n_neighbors", None),
        ("kind", "other"),
        ("kind", None),
    ],
)
def test_damaged_arrays_of_a_map_are_refused_in_a_sentence(manifold: Parts, key: str, value: Any) -> None:
    content, arrays = ({**part} for part in manifold)
    content["features"] = {**content["features"]}
    place = content["features"] if key in content["features"] else arrays
    if value is None:
        del place[key]
    else:
        place[key] = value
    with pytest.raises(InputError, match=r"^the model holds a model that is not whole, or .*\.$"):
        CuttingPlaneMMC.from_arrays(content, arrays, "the model")


@pytest.mark.parametrize("features", [3, "manifold", [], {}])
def test_features_that_are_no_description_are_refused_in_a_sentence(manifold: Parts, features: Any) -> None:
    content, arrays = manifold
    with pytest.raises(InputError, match="its features are of no known kind"):
        CuttingPlaneMMC.from_arrays({**content, "features": features}, arrays, "the model")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_iter": None}, "n_iter is no whole number"),
        ({"n_iter": -1}, "n_iter is no whole number"),
        ({"objective": "x"}, "objective is out of range"),
        ({"choices": {}}, "choices has no random_state"),
        ({"choices": {"random_state": -1}}, "choices.random_state is no whole number"),
        ({"feature_names": ["a"]}, "feature_names has 1 items"),
        ({"feature_names": "x" * 64}, "feature_names is not a tuple"),
        ({"params": []}, "params has no members"),
        ({"params": {"n_clusters": [2]}}, "params.n_clusters is out of range"),
    ],
)
def test_a_description_that_says_something_else_is_refused(change: dict[str, Any], words: str) -> None:
    content, arrays = StochasticMMC(2, max_iter=3).fit(rows()).to_arrays()
    assert StochasticMMC.from_arrays(content, arrays, "it").stream_ is not None
    with pytest.raises(InputError, match=words):
        StochasticMMC.from_arrays({**content, **change}, arrays, "it")


@pytest.mark.parametrize("params", [{}, {"n_clusters": "auto"}, {"n_clusters": "2..4"}], ids=str)
def test_a_default_model_that_does_not_say_how_many_clusters_it_has_is_refused(params: dict[str, Any]) -> None:
    content, arrays = AutoMMC(3).fit(rows()).to_arrays()
    AutoMMC.from_arrays(content, arrays, "it")
    with pytest.raises(InputError, match="do not fit together: n_clusters is no whole number"):
        AutoMMC.from_arrays({**content, "params": params}, arrays, "it")


def test_an_array_of_another_method_is_refused() -> None:
    content, arrays = SubspaceMMC(3, max_iter=3).fit(rows()).to_arrays()
    SubspaceMMC.from_arrays(content, arrays, "it")
    params = CuttingPlaneMMC(3).get_params()
    with pytest.raises(dmmc.InputError, match="has 'components', which it should not"):
        CuttingPlaneMMC.from_arrays({**content, "params": params}, arrays, "it")


def test_a_subspace_of_mapped_rows_is_in_the_coordinates_of_their_features() -> None:
    model = SubspaceMMC(3, features="nystroem", n_components=20, max_iter=3).fit(rows())
    again = SubspaceMMC.from_arrays(*model.to_arrays(), "it")
    np.testing.assert_array_equal(again.transform(rows()), model.transform(rows()))


def test_a_table_that_does_not_fit_the_model_is_refused() -> None:
    recipe = dmmc.TablePreparation().fit({"x": [1.0, 2.0, 4.0], "plan": ["a", "b", "a"]}).to_recipe()
    found = model_shapes.read_table({"table": recipe}, 4, "out")
    assert found.get_feature_names_out().tolist() == ["x", "plan=a", "plan=b", "plan=other"]
    with pytest.raises(dmmc.InputError, match="its table gives 4 columns, where 5 are wanted"):
        model_shapes.read_table({"table": recipe}, 5, "out")
    with pytest.raises(dmmc.InputError, match=r"out holds a model .*table"):
        model_shapes.read_table({"table": {**recipe, "columns": [{"name": "x"}]}}, 4, "out")
