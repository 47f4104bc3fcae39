"""Trees of hyperplanes: how they decide, how they are grown by a method for two clusters, and what is kept of them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dmmc
from dmmc import kernels
from dmmc.data import blocks
from dmmc.data.blocks import Block
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.estimators.binary import BinaryClusterer
from dmmc.estimators.context import FitContext
from dmmc.estimators.fitting import FeaturedClusterer
from dmmc.model.losses import LOSSES
from dmmc.model.passes import Tree, decide_labels, scores
from dmmc.results import array_folder
from dmmc.solvers import tree_room
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem
from dmmc.solvers.tree import Found, Growth, Search

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

Array = NDArray[Any]


class SplittingMMC(FeaturedClusterer, BinaryClusterer):
    """Cutting planes for two clusters, as a tree: all that another method needs to write."""

    types = CuttingPlane.types
    method = "splitting"  # type: ignore[assignment]

    def _pose_split(self, context: FitContext, lowest: float, highest: float) -> Search:
        engine, geometry = context.engine, context.geometry
        problem = Problem(
            2, 30.0, 0.03, self.epsilon, True, lowest, highest, geometry, lambda: None, LOSSES["hinge"], False
        )
        solver = CuttingPlane(problem, engine.run)

        def found(state: Any, why: str) -> Found:
            run = solver.best(state)
            at = run.best
            return Found(geometry.raw(at.W, at.b, at.price), at.value, run.gap, run.ended if why == "done" else why)

        d = engine.dataset.n_features
        return Search(solver, lambda: solver.init(self._make_starts(context), d), found)


def blobs(sizes: tuple[int, ...], d: int = 5, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    centres = 30.0 * rng.standard_normal((len(sizes), d))
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return (centres[y] + rng.standard_normal((len(y), d))).astype(np.float32), y


def random_tree(rng: np.random.Generator, nodes: int, d: int = 3) -> Tree:
    children = np.zeros((0, 2), np.int64)
    for node in range(nodes):
        children[children == -1 - (leaf := int(rng.integers(node + 1)))] = node
        children = np.vstack([children, [-1 - leaf, -2 - node]])
    return Tree(rng.integers(-3, 4, (nodes, d)).astype(float), rng.integers(-2, 3, nodes).astype(float), children)


# ------------------------------------------------------------------------------------------------------ deciding


@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 9))
@settings(deadline=None, max_examples=40)
def test_the_largest_decision_value_is_the_leaf_that_a_walk_reaches_also_on_a_hyperplane(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    tree = random_tree(rng, nodes)
    assert tree.is_valid()
    X = rng.integers(-2, 3, (50, 3)).astype(float)  # whole numbers, so that many rows lie on a hyperplane
    f = scores(Block(0, 0, 50, X), tree)
    assert f.shape == (50, nodes + 1)
    for x, values in zip(X, f, strict=True):
        node = 0
        while node >= 0:
            node = int(tree.children[node, int(tree.W[node] @ x + tree.b[node] >= 0)])
        assert decide_labels(values[None])[0] == -1 - node
        assert values[-1 - node] >= 0 > np.delete(values, -1 - node).max()


@pytest.mark.parametrize(
    "children",
    [[[-1, 1], [-2, -2]], [[-1, -2], [-3, -4]], [[0, -1], [-2, -3]], [[1, -1], [1, -2]], [[-1, 5], [-2, -3]]],
)
def test_what_is_no_tree_is_seen_not_to_be_one(children: list[list[int]]) -> None:
    assert not Tree(np.ones((2, 1)), np.ones(2), np.array(children)).is_valid()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_split_has_the_same_bits_whatever_splits_stand_beside_it(sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((300, 37)).astype(np.float32), rng.standard_normal((9, 37))
    thin = csr_array(X)
    rows = blocks.Csr(thin.data, thin.indices.astype(np.uint32), thin.indptr.astype(np.int64), 37) if sparse else X
    every = kernels.scores(rows, W, wide=True)
    for h in range(9):
        np.testing.assert_array_equal(kernels.scores(rows, W[h : h + 1], wide=True)[:, 0], every[:, h])


# ------------------------------------------------------------------------------------------------------- growing


def test_far_blobs_become_the_leaves_and_labels_are_what_predict_gives() -> None:
    X, y = blobs((120, 60, 40, 30, 20))
    model = SplittingMMC(5, random_state=0).fit(X)
    assert dmmc.score(model.labels_, y)["accuracy"] == 1.0
    assert np.bincount(model.labels_).tolist() == [120, 60, 40, 30, 20]
    assert model.coef_.shape == (4, 5)
    assert model.tree_ is not None
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    f = model.decision_function(X)
    assert f.shape == (270, 5)
    np.testing.assert_array_equal(f.argmax(axis=1), model.labels_)
    assert {line["clusters"] for line in model.history_} == {1, 2, 3, 4, 5}


def test_the_gain_of_a_split_is_the_fall_of_the_sum_of_squares_and_the_largest_is_taken() -> None:
    X, _ = blobs((50, 50, 50, 50, 50))
    _, state = grown(X, 3)
    first = X @ state.W[0] + state.b[0] >= 0
    taken = int(np.flatnonzero(state.children[0] == 1)[0])
    (other,) = (leaf for leaf in state.leaves if leaf.W.size)
    rows = {side: X[first == side] for side in (0, 1)}

    def fall(side: int, W: Array, b: float) -> float:
        above = rows[side] @ W + b >= 0
        left = squares(rows[side][above]) + squares(rows[side][~above])
        return (squares(rows[side]) - left) / squares(X)

    assert other.gain == pytest.approx(fall(1 - taken, other.W, other.b), rel=1e-4)
    assert fall(taken, state.W[1], state.b[1]) > other.gain > 0


def squares(rows: Array) -> float:
    return float(((rows - rows.mean(axis=0)) ** 2).sum())


def grown(X: Array, k: int, steps: int | None = None, **params: Any) -> tuple[Growth, Any]:
    """A growth over an array, and its state after some steps, or at its end."""
    from dmmc.model.geometry import measure

    model = SplittingMMC(k, **params)
    with Local(open_dataset(X), 1) as engine:
        geometry, _ = measure(engine.dataset, engine.rows, "none")
        lowest, highest = model.choose_bounds(len(X))

        def pose_split(engine: Any, part: Any, seed: int, least: float, most: float) -> Search:
            return model._pose_split(FitContext(engine, part, seed), least, most)

        growth = Growth(pose_split, model.types, engine, geometry, 0, k, lowest, highest, 1000, False)
        state = growth.init()
        for step in range(10**6):
            if growth.done(state) or step == steps:
                break
            state = growth.step(state)
    return growth, state


@pytest.mark.parametrize(("k", "min_size", "max_size"), [(3, 0.1, 1.0), (5, 1.0, 1.0), (5, 0.8, None), (7, 0.1, 1.1)])
def test_count_bounds_hold_for_leaves(k: int, min_size: float, max_size: float | None) -> None:
    X, _ = blobs((200, 100, 50, 11))
    model = SplittingMMC(k, min_size=min_size, max_size=max_size, random_state=0).fit(X)
    sizes = np.bincount(model.labels_, minlength=k)
    lowest, highest = model.choose_bounds(len(X))
    assert sizes.min() >= round(lowest * len(X))
    assert sizes.max() <= round(highest * len(X))


def test_what_a_side_may_have_leaves_room_for_all_bounds() -> None:
    thirds = [pytest.approx((1 / 3, 1 / 3)), pytest.approx((2 / 3, 2 / 3))]
    assert tree_room.reach([1.0], 0, 3, 0.0, 1 / 3) == thirds
    assert tree_room.reach([0.5, 0.5], 0, 3, 0.3, 1.0) == []
    assert tree_room.reach([0.7, 0.3], 0, 3, 0.3, 1.0) == [pytest.approx((0.3, 0.4))]


def test_weights_of_rows_are_those_of_the_fit_and_rows_of_weight_0_are_labelled() -> None:
    X, y = blobs((40, 40, 40))
    weight = np.where(np.arange(120) % 4 == 0, 0.0, 2.0)
    model = SplittingMMC(3, random_state=0).fit(X, sample_weight=weight)
    assert dmmc.score(model.labels_, y)["accuracy"] == 1.0


def test_given_labels_start_the_splits_and_a_graph_start_does() -> None:
    X, y = blobs((60, 50, 40, 30))
    for init in (y, "graph"):
        model = SplittingMMC(4, init=init, random_state=0).fit(X)
        assert dmmc.score(model.labels_, y)["accuracy"] == 1.0


def test_too_few_different_rows_leave_clusters_empty_with_a_warning() -> None:
    X = np.repeat([[0.0, 0.0], [9.0, 1.0]], 10, axis=0)
    with pytest.warns(dmmc.ClusteringWarning, match="only 2 of 4 clusters have rows"):
        model = SplittingMMC(4, random_state=0).fit(X)
    assert model.decision_function(X).shape == (20, 4)
    assert np.bincount(model.labels_, minlength=4).tolist() == [10, 10, 0, 0]


def test_out_of_time_the_tree_is_finished_in_a_hurry() -> None:
    X, _ = blobs((60, 50, 40, 30))
    with pytest.warns(dmmc.ConvergenceWarning):
        model = SplittingMMC(4, max_seconds=1e-9, random_state=0).fit(X)
    assert len(np.unique(model.labels_)) == 4
    assert model.choices_["ended"] == "max_seconds"


# ---------------------------------------------------------------------------------------- files, dask, clusters


@pytest.fixture(scope="module")
def model() -> Any:
    X = data_sets.load("digits")[0][:400].astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dmmc.ClusteringWarning)
        return SplittingMMC(6, random_state=0).fit(X), X


def test_a_model_file_gives_the_same_tree_and_a_damaged_one_is_refused(model: Any, tmp_path: Path) -> None:
    fitted, X = model
    array_folder.write(tmp_path / "model", "model", *fitted.to_arrays())
    content, arrays = array_folder.read(tmp_path / "model", "model")
    again = SplittingMMC.from_arrays(content, arrays, "it")
    np.testing.assert_array_equal(again.predict(X), fitted.labels_)
    np.testing.assert_array_equal(again.decision_function(X), fitted.decision_function(X))
    for bad in (arrays["tree"][::-1], arrays["tree"].astype(float), arrays["tree"][:2]):
        with pytest.raises(dmmc.InputError, match="tree"):
            SplittingMMC.from_arrays(content, {**arrays, "tree": bad}, "it")
    with pytest.raises(dmmc.InputError, match="coef has shape"):
        SplittingMMC.from_arrays(content, {name: a for name, a in arrays.items() if name != "tree"}, "it")


def test_dask_arrays_are_labelled_lazily_by_the_tree(model: Any) -> None:
    da = pytest.importorskip("dask.array")
    fitted, X = model
    lazy = da.from_array(X, chunks=(77, 20))
    np.testing.assert_array_equal(fitted.predict(lazy).compute(), fitted.labels_)
    f = fitted.decision_function(lazy)
    assert f.shape == (400, 6)
    np.testing.assert_array_equal(f.compute(), fitted.decision_function(X))
