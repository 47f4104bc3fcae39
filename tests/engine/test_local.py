"""The local engine: order of addition, threads, errors."""

from __future__ import annotations

import threading
import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dmmc.data.blocks import Block
from dmmc.data.dataset import Dataset
from dmmc.engine import Local, add
from dmmc.engine.tree_sum import TreeSum
from dmmc.errors import InputError
from dmmc.model import passes
from dmmc.model.losses import LOSSES
from dmmc.model.passes import Drawn, Hyperplanes, Request, Sweep

Array = NDArray[Any]


def in_blocks(X: Array, size: int) -> Dataset:
    starts = range(0, len(X), size)
    blocks = tuple(Block(i, a, min(a + size, len(X)), X[a : a + size]) for i, a in enumerate(starts))
    return Dataset("an array", len(X), X.shape[1], X.dtype, False, blocks)


def index_of(block: Block, params: None) -> list[int]:
    return [block.index]


class Bracket(str):
    """Adds up to a text that shows the order of the additions."""

    def __add__(self, other: object) -> Bracket:
        return Bracket(f"({str.__str__(self)}+{other})")


def bracketed(block: Block, params: None) -> Bracket:
    return Bracket(block.index)


def tree(first: int, last: int, n_blocks: int) -> str:
    """The sum over blocks first to last, last excluded, of which there are a power of two, as it is to be bracketed."""
    if last - first == 1:
        return str(first)
    middle = (first + last) // 2
    left = tree(first, middle, n_blocks)
    return left if middle >= n_blocks else f"({left}+{tree(middle, last, n_blocks)})"


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 4, 5, 15, 16, 17, 37])
def test_blocks_are_added_in_a_fixed_tree(n_blocks: int) -> None:
    with Local(in_blocks(np.zeros((n_blocks, 1)), 1), n_jobs=4) as engine:
        got = engine.run(bracketed, None)
    assert got == tree(0, 1 << (n_blocks - 1).bit_length(), n_blocks)


@given(st.data())
def test_a_sum_has_the_same_brackets_however_the_blocks_are_shared_out_and_arrive(data: st.DataObject) -> None:
    n_blocks = data.draw(st.integers(1, 40))
    order = data.draw(st.permutations(range(n_blocks)))
    owner = data.draw(st.lists(st.integers(0, 3), min_size=n_blocks, max_size=n_blocks))
    shares = [TreeSum(n_blocks) for _ in range(4)]
    for block in order:
        shares[owner[block]].put((0, block), Bracket(block))
    total = TreeSum(n_blocks)
    for share in data.draw(st.permutations(shares)):
        for node, stats in share.nodes.items():
            total.put(node, stats)
    assert total.total() == tree(0, 1 << (n_blocks - 1).bit_length(), n_blocks)


def late(block: Block, params: None) -> list[int]:
    time.sleep(0.02 * (block.index % 3 == 0))
    return [block.index]


def test_results_come_in_block_order_even_if_early_blocks_take_longest() -> None:
    with Local(in_blocks(np.zeros((20, 1)), 1), n_jobs=4) as engine:
        assert list(engine.rows(late, None)) == [[i] for i in range(20)]
        assert engine.run(late, None) == list(range(20))


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
def test_a_sweep_has_the_same_bits_with_1_2_and_4_threads(dtype: str) -> None:
    rng = np.random.default_rng(0)
    X = (rng.random((4000, 30)) * 100).astype(dtype)
    at = Hyperplanes(rng.standard_normal((3, 30)) / 50, rng.standard_normal(3), np.zeros(3))
    request = Request(0, at, Drawn(0, 0, 3), True, at.W[None] * 0.9, at.b[None], frozen=False)
    answers = []
    for n_jobs in (1, 2, 4):
        with Local(in_blocks(X, 100), n_jobs) as engine:
            (answer,) = engine.run(passes.sweep, Sweep((request,), LOSSES["hinge"].table, wide=True))
        answers.append((*answer.at, answer.flips, *answer.moved))
    for other in answers[1:]:
        for one, two in zip(answers[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


def fails_at(block: Block, number: int) -> float:
    if block.index == number:
        raise InputError(f"block {block.index} is bad")
    return 1.0


@pytest.mark.parametrize("n_blocks", [1, 20])
@pytest.mark.parametrize("number", [0, 19])
def test_an_error_in_any_block_reaches_the_caller_as_it_is(n_blocks: int, number: int) -> None:
    with Local(in_blocks(np.zeros((n_blocks, 1)), 1), n_jobs=2) as engine:
        if number >= n_blocks:
            assert engine.run(fails_at, number) == 1.0
        else:
            with pytest.raises(InputError, match=f"^block {number} is bad$"):
                engine.run(fails_at, number)
            # and the engine is still good for work
            assert engine.run(fails_at, -1) == n_blocks


def who(block: Block, params: None) -> set[str]:
    time.sleep(0.01)
    return {threading.current_thread().name}


def test_no_more_threads_work_than_were_asked_for() -> None:
    dataset = in_blocks(np.zeros((24, 1)), 1)
    for n_jobs in (1, 3):
        with Local(dataset, n_jobs) as engine:
            names = set().union(*engine.rows(who, None))
        assert 1 <= len(names) <= n_jobs
        assert threading.main_thread().name not in names


def test_threads_end_with_the_engine() -> None:
    with Local(in_blocks(np.zeros((8, 1)), 1), n_jobs=3) as engine:
        engine.run(index_of, None)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("dmmc")]
    with pytest.raises(RuntimeError, match="shutdown"):
        engine.run(index_of, None)


class Both(NamedTuple):
    array: Array
    inner: tuple[float, Array]


def test_stats_add_member_by_member_and_keep_their_type() -> None:
    one = Both(np.array([1.0, 2.0]), (1.0, np.array([5.0])))
    two = add(one, Both(np.array([10.0, 20.0]), (2.0, np.array([7.0]))))
    assert isinstance(two, Both)
    assert two.array.tolist() == [11.0, 22.0]
    assert two.inner[0] == 3.0
    assert two.inner[1].tolist() == [12.0]
    assert one.array.tolist() == [1.0, 2.0], "adding must not change what is added"


def test_stats_of_another_length_are_not_added() -> None:
    with pytest.raises(ValueError, match=r"longer|shorter"):
        add((1, 2), (1, 2, 3))


@pytest.mark.parametrize("bad", [0, -2, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="give a positive number of threads"):
        Local(in_blocks(np.zeros((3, 1)), 1), bad)
