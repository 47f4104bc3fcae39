"""What is read from a file is compared with a specification, and the words name the member that differs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from dmmc.model.geometry import Geometry
from dmmc.model.losses import Hinge
from dmmc.model.passes import ByScores, Drawn, Hyperplanes
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem
from dmmc.solvers.state_shapes import Between, Each, Either, Equal, Kinds, Numbers, find_misfit


class Pair(NamedTuple):
    number: int
    W: Any
    b: Any


PAIR = {"W": Numbers(np.float64, "m", "d"), "b": Numbers(np.float64, "m")}


def pair(number: int = 0, m: int = 2, d: int = 3) -> Pair:
    return Pair(number, np.zeros((m, d)), np.zeros(m))


def test_a_size_that_is_not_given_is_that_of_the_first_array_with_its_name() -> None:
    sizes = {"d": 3}
    assert find_misfit(pair(), PAIR, sizes) == ""
    assert sizes == {"d": 3, "m": 2}
    assert find_misfit(pair()._replace(b=np.zeros(3)), PAIR, {"d": 3}) == "b has shape (3,)"
    assert find_misfit(pair(d=4), PAIR, {"d": 3}) == "W has shape (2, 4)"


@pytest.mark.parametrize(
    ("W", "words"),
    [
        (np.zeros((2, 3), np.float32), "W is not an array of float64 with 2 axes"),
        (np.zeros(6), "W is not an array of float64 with 2 axes"),
        ([[0.0]], "W is not an array of float64 with 2 axes"),
        (np.full((2, 3), np.nan), "W holds NaN or infinity"),
    ],
)
def test_an_array_of_another_kind_is_named(W: Any, words: str) -> None:
    assert find_misfit(pair()._replace(W=W), PAIR, {"d": 3}) == words


def test_values_out_of_range_are_found() -> None:
    spec = Numbers(np.int64, "m", low=0, high=4)
    assert find_misfit(np.array([0, 4]), spec, {}) == ""
    assert find_misfit(np.array([0, 5]), spec, {}) == "it holds a value out of range"
    assert find_misfit(np.array([-1]), spec, {}) == "it holds a value out of range"
    assert find_misfit(np.zeros(0, np.int64), spec, {}) == ""


def test_items_have_sizes_of_their_own_and_stand_in_order() -> None:
    spec = Each(PAIR, numbered="number")
    assert find_misfit((pair(0, 2), pair(1, 5)), spec, {"d": 3}) == ""
    assert find_misfit((pair(1),), spec, {"d": 3}) == "it is not in order"
    assert find_misfit((), spec, {"d": 3}) == "it has 0 items"
    assert find_misfit([pair()], spec, {"d": 3}) == "it is not a tuple"
    assert find_misfit((), Each(PAIR, least=0), {}) == ""
    assert find_misfit((1, 2), Each({}, count=3), {}) == "it has 2 items"
    broken = (pair(0), pair(1)._replace(b=np.zeros(9)))
    assert find_misfit({"runs": broken}, {"runs": spec}, {"d": 3}) == "runs[1].b has shape (9,)"


def test_one_of_several_specifications_will_do() -> None:
    spec = Either(Numbers(np.float64, "k"), Numbers(np.float64, 0))
    assert find_misfit(np.zeros(3), spec, {"k": 3}) == ""
    assert find_misfit(np.zeros(0), spec, {"k": 3}) == ""
    assert find_misfit(np.zeros(2), spec, {"k": 3}) == "it has shape (2,)"


def test_a_specification_may_depend_on_the_type() -> None:
    spec = Kinds({Pair: PAIR})
    assert find_misfit("another type", spec, {}) == ""
    assert find_misfit(pair()._replace(b=0), spec, {}) == "b is not an array of float64 with 1 axes"


def test_numbers_and_values_are_compared() -> None:
    assert find_misfit(3, Between(0, 3), {}) == ""
    for value in (4, -1, "3", None, True, np.nan):
        assert find_misfit(value, Between(0, 3), {}) == "it is out of range"
    assert find_misfit(np.False_, Equal(False), {}) == ""
    assert find_misfit(True, Equal(False), {}) == "it is not False"


def test_a_missing_member_is_named_in_a_tuple_and_in_a_dict() -> None:
    assert find_misfit({"W": np.zeros((1, 1))}, PAIR, {}) == "it has no b"
    assert find_misfit(3, PAIR, {}) == "it has no W"


CHANGES: dict[str, Any] = {
    "runs is not in order": lambda run: run._replace(number=1),
    "runs[0].at.W has shape (1, 4)": lambda run: run._replace(at=run.at._replace(W=np.zeros((1, 4)))),
    "runs[0].best.price is not": lambda run: run._replace(best=run.best._replace(price=np.zeros(1, np.float32))),
    "runs[0].counts has shape (3,)": lambda run: run._replace(counts=np.zeros(3)),
    "runs[0].planes.gram has shape": lambda run: run._replace(planes=run.planes._replace(gram=np.zeros((1, 1)))),
    "runs[0].planes.groups holds": lambda run: run._replace(planes=grouped(run.planes, 1)),
    "runs[0].labelling.planes.W has shape": lambda run: run._replace(labelling=scored(3, 3)),
    "runs[0].labelling.planes.b has shape": lambda run: run._replace(labelling=scored(2, 4)),
}


def grouped(planes: Any, group: int) -> Any:
    planes = planes.add(np.zeros((1, 3)), np.zeros(1), 1.0, np.zeros(3), np.zeros(1), np.zeros(1))
    return planes._replace(groups=np.array([group]))


def scored(p: int, b: int) -> ByScores:
    return ByScores(Hyperplanes(np.zeros((p, 3)), np.zeros(b), np.zeros(p)), wide=False)


@pytest.mark.parametrize("words", CHANGES)
def test_a_state_of_cutting_planes_whose_arrays_do_not_fit_is_found_out(words: str) -> None:
    geometry = Geometry(np.zeros(3), np.ones(3), 10.0, False, "")
    problem = Problem(2, 30.0, 0.03, 0.01, True, 0.0, 1.0, geometry, lambda: None, Hinge(), False)
    solver = CuttingPlane(problem, lambda work, params: None)
    state = solver.init([Drawn(0, 0, 2)], 3)
    (run,) = state.runs
    assert solver.find_misfit(state) == ""
    for good in (run._replace(planes=grouped(run.planes, 0)), run._replace(labelling=scored(2, 2))):
        assert solver.find_misfit(state._replace(runs=(good,))) == ""
    assert words in solver.find_misfit(state._replace(runs=(CHANGES[words](run),)))
