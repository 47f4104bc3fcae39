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
from dmmc.solvers.state_shapes import (
    Between,
    Each,
    Either,
    Every,
    Flag,
    Kinds,
    Numbers,
    OneOf,
    Only,
    Text,
    Whole,
    find_misfit,
    fits,
    is_line,
)


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
    assert find_misfit([pair()], spec, {"d": 3}) == ""
    assert find_misfit(pair(), Each({}), {"d": 3}) == ""
    assert find_misfit(3, spec, {"d": 3}) == "it is not a tuple"
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
    assert find_misfit("another type", spec, {}) == "it is of another kind"
    assert find_misfit(pair()._replace(b=0), spec, {}) == "b is not an array of float64 with 1 axes"


def test_numbers_and_values_are_compared() -> None:
    assert find_misfit(3, Between(0, 3), {}) == ""
    for value in (4, -1, "3", None, True, np.nan):
        assert find_misfit(value, Between(0, 3), {}) == "it is out of range"
    assert find_misfit(np.False_, OneOf(False), {}) == ""
    assert find_misfit("b", OneOf("a", "b"), {}) == ""
    for value in (True, 0, "", None, np.zeros(2), [False]):
        assert find_misfit(value, OneOf(False), {}) == "it is not False"
    assert find_misfit(np.int64(3), Whole(0, 3), {}) == ""
    for value in (4, -1, 2.0, True, "3"):
        assert find_misfit(value, Whole(0, 3), {}) == "it is no whole number, or out of range"
    assert find_misfit("", Text(), {}) == find_misfit(np.True_, Flag(), {}) == ""
    assert find_misfit(1, Flag(), {}) == "it is neither true nor false"
    assert find_misfit(1, Text(), {}) == "it is no text"


def test_a_dict_has_all_that_it_needs_and_nothing_that_is_unknown() -> None:
    spec = Only({"a": Whole()}, {"b": Flag()})
    assert find_misfit({"a": 1}, spec, {}) == find_misfit({"a": 1, "b": True}, spec, {}) == ""
    assert find_misfit({"b": True}, spec, {}) == "it has no a"
    assert find_misfit({"a": 1, "b": 2}, spec, {}) == "b is neither true nor false"
    assert find_misfit({"a": 1, "c": 2}, spec, {}) == "it has 'c', which it should not"
    assert find_misfit({"a": 1, "c": "x"}, Every(Whole()), {}) == "it.c is no whole number, or out of range"
    assert find_misfit([1], spec, {}) == find_misfit([1], Every(Whole()), {}) == "it has no members"


def test_an_array_that_no_specification_describes_does_not_fit() -> None:
    said = "it has arrays in W, which no specification describes"
    assert find_misfit(pair(), {"b": Numbers(np.float64, 2)}, {}) == said
    assert find_misfit({"W": ({"x": np.zeros(1)},)}, {}, {}) == said
    assert find_misfit({"W": (1, "x")}, {}, {}) == ""


def test_numbers_may_have_to_rise_to_be_some_or_to_be_of_few_values() -> None:
    rising = Numbers(np.int64, "n", rising=True, least=1)
    assert find_misfit(np.array([1, 5]), rising, {}) == ""
    assert find_misfit(np.array([1, 1]), rising, {}) == "it does not rise"
    assert find_misfit(np.zeros(0, np.int64), rising, {}) == "it is empty"
    signs = Numbers("iu", "n", values=(-1, 1))
    assert find_misfit(np.array([1, -1], np.int8), signs, {}) == ""
    assert find_misfit(np.array([1, 0], np.int8), signs, {}) == "it holds a value that is none of -1, 1"
    assert find_misfit(np.array([1.0]), signs, {}) == "it is not an array of whole numbers with 1 axes"
    members = {"label": Numbers(np.int64, "n", low=0, below="k")}
    assert find_misfit({"label": np.array([0, 2])}, members, {"k": 3}) == ""
    assert find_misfit({"label": np.array([0, 3])}, members, {"k": 3}) == "label holds a value out of range"
    bounded = Numbers(np.float64, "n", within="reach")
    assert find_misfit(np.array([2.0, -2.0]), bounded, {"reach": 2.0}) == ""
    for value in (2.5, -2.5):
        assert find_misfit(np.array([value]), bounded, {"reach": 2.0}) == "it holds a value out of range"
    assert find_misfit(np.array([np.inf]), Numbers(np.float64, 1, finite=False), {}) == ""
    assert find_misfit(np.array([np.nan]), Numbers(np.float64, 1, finite=False), {}) == "it holds NaN or infinity"


def test_a_line_of_a_history_has_names_with_numbers_and_words() -> None:
    line = {"iteration": 1, "seconds": 0.5, "objective": np.inf, "why": "x", "ended": False, "gap": None}
    assert is_line(line, numbered=True)
    assert not is_line(line, numbered=False)
    assert is_line({"objective": 1.0}, numbered=False)
    for change in ({"seconds": "x"}, {"seconds": np.nan}, {"iteration": 0}, {"more": (1,)}, {"more": np.zeros(1)}):
        assert not is_line({**line, **change}, numbered=True), change
    assert not is_line([], numbered=False)


def test_a_missing_member_is_named_in_a_tuple_and_in_a_dict() -> None:
    assert find_misfit({"W": np.zeros((1, 1))}, PAIR, {}) == "it has no b"
    assert find_misfit(3, PAIR, {}) == "it has no W"


CHANGES: dict[str, Any] = {
    "runs is not in order": lambda run: run._replace(number=1),
    "runs[0].at.W has shape (1, 4)": lambda run: run._replace(at=run.at._replace(W=np.zeros((1, 4)))),
    "runs[0].best.price is not": lambda run: run._replace(best=run.best._replace(price=np.zeros(1, np.float32))),
    "runs[0].counts has shape (3,)": lambda run: run._replace(counts=np.zeros(3)),
    "runs[0].centre has shape (1,)": lambda run: run._replace(centre=np.zeros(1)),
    "runs[0].reach is out of range": lambda run: run._replace(reach=0.1),
    "runs[0].planes.gram has shape": lambda run: run._replace(planes=run.planes._replace(gram=np.zeros((1, 1)))),
    "runs[0].planes.gram is not that of its slopes": lambda run: run._replace(
        planes=grouped(run.planes, 0)._replace(gram=np.ones((1, 1)))
    ),
    "runs[0].ended is not": lambda run: run._replace(ended="bored"),
    "runs[0].waited is no whole number": lambda run: run._replace(waited=-1),
    "runs[0].labelling.n_clusters is not 2": lambda run: run._replace(labelling=Drawn(0, 0, 3)),
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


class Typed(NamedTuple):
    count: int
    value: float
    flag: bool
    word: str
    maybe: float | None
    pair: tuple[int, str]
    many: tuple[Pair, ...]
    numbers: np.ndarray[Any, Any]


GOOD = Typed(1, 2.0, True, "a", None, (1, "b"), (pair(),), np.zeros(2))


def test_a_value_fits_the_type_that_it_was_made_by() -> None:
    assert fits(GOOD, Typed)
    assert fits(GOOD._replace(count=np.int64(3), value=np.float32(1), flag=np.True_, many=()), Typed)
    assert fits(GOOD._replace(value=3), Typed)


@pytest.mark.parametrize(
    "change",
    [
        {"count": 1.5},
        {"count": True},
        {"value": "x"},
        {"value": np.nan},
        {"value": 10**400},
        {"value": None},
        {"value": False},
        {"flag": 1},
        {"word": 1},
        {"maybe": "x"},
        {"pair": (1,)},
        {"pair": (1, 2)},
        {"pair": [1, "b"]},
        {"many": (1,)},
        {"many": pair()},
        {"numbers": 1.0},
        {"numbers": (1.0,)},
    ],
)
def test_a_value_of_another_type_does_not_fit(change: dict[str, Any]) -> None:
    assert not fits(GOOD._replace(**change), Typed)
