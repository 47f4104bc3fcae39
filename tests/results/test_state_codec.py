"""States in files: what is written is what is read, bit for bit, and nothing else is let in."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dmmc import InputError
from dmmc.results import state_codec


class Leaf(NamedTuple):
    a: Any
    b: Any


class Tree(NamedTuple):
    left: Any
    right: Any
    words: Any


def from_bits(bits: int) -> float:
    found: float = struct.unpack(">d", bits.to_bytes(8, "big"))[0]
    return found


FLOATS = st.floats() | st.integers(0, 2**64 - 1).map(from_bits)
DTYPES = (
    arrays.floating_dtypes(endianness="?")
    | arrays.integer_dtypes(endianness="?")
    | arrays.unsigned_integer_dtypes(endianness="?")
    | arrays.boolean_dtypes()
    | arrays.complex_number_dtypes()
)
ARRAYS = arrays.arrays(DTYPES, arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
LAYOUTS = st.sampled_from([lambda a: a, np.asfortranarray, lambda a: a.T, lambda a: a[..., ::-1] if a.ndim else a])
NUMPY = st.builds(lambda array, layout: layout(array), ARRAYS, LAYOUTS)
SCALARS = arrays.arrays(DTYPES, 1).map(lambda array: array[0])
PLAIN = st.none() | st.booleans() | st.integers() | st.text() | FLOATS | SCALARS | NUMPY
VALUES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.builds(Leaf, inner, inner)
        | st.builds(Tree, inner, inner, st.text())
        | st.dictionaries(st.text(), inner, max_size=3)
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray | np.generic):
        return (one.dtype.str, one.shape, one.tobytes()) == (other.dtype.str, other.shape, other.tobytes())
    if isinstance(one, float):
        return struct.pack(">d", one) == struct.pack(">d", other)
    return bool(one == other)


def through_json(value: Any) -> Any:
    tree, data = state_codec.encode(value)
    return state_codec.decode(json.loads(json.dumps(tree, sort_keys=True)), data, (Leaf, Tree), "x.json")


@settings(deadline=None, max_examples=200)
@given(VALUES)
def test_any_value_comes_back_bit_for_bit(value: Any) -> None:
    assert same(through_json(value), value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, from_bits(0x7FF8000000000001), 5e-324, 10**40, (), ((),)])
def test_numbers_that_json_cannot_say_come_back(value: Any) -> None:
    assert same(through_json(value), value)


def test_the_order_in_memory_is_kept_as_the_bits_of_products_depend_on_it() -> None:
    rows = np.random.default_rng(0).normal(size=(7, 5))
    for array, flag in ((rows, "C_CONTIGUOUS"), (np.asfortranarray(rows), "F_CONTIGUOUS")):
        found = through_json(array)
        assert found.flags[flag]
        assert found.flags.writeable
        assert found.flags.aligned


def test_an_array_that_is_met_twice_is_written_once_and_is_one_array_again() -> None:
    array = np.arange(1000.0)
    _, data = state_codec.encode((array, Leaf(array, 1)))
    assert len(data) == array.nbytes
    first, second = through_json((array, Leaf(array, 1)))
    assert first is second.a


@pytest.mark.parametrize(
    "value",
    [[1], {1: 2}, {1}, b"x", object(), np.array([object()]), np.zeros(2, "M8[s]"), np.array(["x"]), np.str_("x")],
)
def test_what_cannot_be_said_exactly_is_a_mistake_of_ours(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be part of a checkpoint"):
        state_codec.encode((1, value))


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


DATA = np.zeros(64, np.uint8)
HOSTILE: list[Any] = [
    1.5,
    {},
    {"float": "00"},
    {"float": "zz" * 8},
    {"float": 3},
    {"float": "00" * 8, "int": 1},
    {"scalar": ["O", ""]},
    {"scalar": ["<f8", "00"]},
    {"scalar": ["<f8", "00" * 16]},
    {"scalar": ["f8,f8", "00" * 16]},
    {"named": ["Leaf", [["a", 1]]]},
    {"named": ["Leaf", [["b", 1], ["a", 1]]]},
    {"named": ["Leaf", [["a", 1], ["b", 1], ["c", 1]]]},
    {"named": ["Leaf", [["a", 1], ["a", 1], ["b", 1]]]},
    {"named": ["Popen", [["args", "true"]]]},
    {"named": ["builtins.eval", []]},
    {"named": [["Leaf"], []]},
    {"named": "Leaf"},
    {"dict": [[1, 2]]},
    {"dict": [[[1], 2]]},
    {"dict": {"a": 1}},
    {"array": ["|O8", [1], "C", 0]},
    {"array": ["O", [1], "C", 0]},
    {"array": ["<M8[s]", [1], "C", 0]},
    {"array": ["<f8", [9], "C", 0]},
    {"array": ["<f8", [8], "C", 1]},
    {"array": ["<f8", [-1], "C", 0]},
    {"array": ["<f8", [2**62, 2**62], "C", 0]},
    {"array": ["<f8", [2**70, 0], "C", 0]},
    {"array": ["<f8", [1] * 100, "C", 0]},
    {"array": ["<f8", [True], "C", 0]},
    {"array": ["<f8", 1, "C", 0]},
    {"array": ["<f8", [1], "A", 0]},
    {"array": ["<f8", [1], "C", -8]},
    {"array": ["<f8", [1], "C"]},
    {"array": None},
    {"pickle": "gASVCQ"},
]


@pytest.mark.parametrize("tree", HOSTILE, ids=str)
def test_anything_else_is_refused_in_a_sentence(tree: Any) -> None:
    for wrapped in (tree, [1, tree], {"named": ["Leaf", [["a", 1], ["b", tree]]]}):
        with pytest.raises(InputError, match=r"^x\.json is damaged"):
            state_codec.decode(wrapped, DATA, (Leaf, Tree), "x.json")


class Longer(NamedTuple):
    a: Any
    b: Any = 7


def test_last_members_that_an_earlier_version_did_not_have_get_their_defaults() -> None:
    tree = {"named": ["Longer", [["a", 1]]]}
    assert state_codec.decode(tree, DATA, (Longer,), "x.json") == Longer(1, 7)
    for members in ([["b", 1]], []):
        with pytest.raises(InputError, match=r"^x\.json is damaged"):
            state_codec.decode({"named": ["Longer", members]}, DATA, (Longer,), "x.json")


def test_a_value_of_endless_depth_is_refused() -> None:
    with pytest.raises(InputError, match="damaged"):
        state_codec.decode(nested(100_000), DATA, (), "x.json")


@pytest.mark.parametrize("data", [np.zeros(8), np.zeros((2, 2), np.uint8)])
def test_bytes_that_are_no_bytes_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="damaged"):
        state_codec.decode(1, data, (), "x.json")
