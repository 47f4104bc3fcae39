"""What evolutionary MMC asks of the rows of Φ: signs, their sums, thresholds that balance them, and gains of flips.

Rows are ψ, and `φ_i = ω_i ψ_i / Σω`: so `p = Φᵀy` is the mean of `y ψ`, and the order of the scores `ψ_i·p` is what
(E13) asks for. Each pass is a pure function of a block and its parameters, and what it gives adds; all individuals of
all restarts share each pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.kernels import label_climb
from dmmc.kernels import label_flips as kernels
from dmmc.model.passes import Labelling, Oracle

LISTED = 100_000
"""Up to this many rows a threshold is found among all scores; with more, among those of one bin of a histogram."""
EDGES = np.linspace(-2.0, 2.0, 4097)
"""Bins of scores, which are about ±1."""
KICKS = 7
"""Names the stream of random numbers of kicks."""


class Signs(NamedTuple):
    """A labelling: +1 where a row's score is above the threshold, or at it and the row is before `cut`; then flips."""

    w: Array
    threshold: float
    cut: int
    flipped: Array
    """Sorted numbers of the rows whose sign is the other one."""


def dense_rows(block: Block) -> Array:
    """A block's rows, which are features."""
    assert isinstance(block.rows, np.ndarray)
    return block.rows


def signs_of(block: Block, labellings: tuple[Signs, ...]) -> Array:
    """Signs (K, m) int8 of a block's rows."""
    f = kernels.exact_scores(dense_rows(block), np.stack([one.w for one in labellings]))
    Y = np.empty(f.shape, np.int8)
    for y, scores, one in zip(Y, f, labellings, strict=True):
        above = scores > one.threshold
        before = min(max(one.cut - block.start, 0), len(scores))
        above[:before] |= scores[:before] == one.threshold
        first, last = np.searchsorted(one.flipped, (block.start, block.stop))
        other = one.flipped[first:last] - block.start
        above[other] = ~above[other]
        y[:] = 2 * above.astype(np.int8) - 1
    return Y


class Pulled(NamedTuple):
    """Sums over the rows: `ω y ψ` (K, q) and `ω y` (K,)."""

    weighted: Array
    balance: Array


def sum_started(block: Block, labellings: tuple[Labelling, ...]) -> Pulled:
    """Sums for labels to start from: label 1 is +1."""
    Y = np.stack([2 * labelling.of(block) - 1 for labelling in labellings])
    return Pulled(*kernels.signed_sums(dense_rows(block), Y, block.weight))


def sum_signed(block: Block, labellings: tuple[Signs, ...]) -> Pulled:
    """Sums for labellings."""
    return Pulled(*kernels.signed_sums(dense_rows(block), signs_of(block, labellings), block.weight))


class Kick(NamedTuple):
    """A parent whose signs are flipped at random."""

    parent: Signs
    share: float
    """Of the rows."""
    seed: tuple[int, ...]


def sum_kicked(block: Block, kicks: tuple[Kick, ...]) -> Pulled:
    """Sums over the flipped rows alone, with the signs of the parents."""
    Y = signs_of(block, tuple(kick.parent for kick in kicks))
    for y, kick in zip(Y, kicks, strict=True):
        rng = np.random.default_rng([kick.seed[0], KICKS, *kick.seed[1:], block.index])
        y[rng.random(len(y)) >= kick.share] = 0
    return Pulled(*kernels.signed_sums(dense_rows(block), Y, block.weight))


class Bracket(NamedTuple):
    """Hyperplanes (K, q), and for each the scores from `low` up to `high` that are to be listed."""

    W: Array
    low: Array
    high: Array


class Near(NamedTuple):
    """Weight of the rows with a score of at least 0, weight of those beyond the bracket, and who is in it."""

    positive: Array
    beyond: Array
    listed: list[Any]
    """For each block, for each hyperplane: scores, row numbers, weights."""


def spread(block: Block, W: Array) -> Array:
    """Weight of the rows in each bin of scores (K, bins + 2), open at both ends."""
    f = kernels.exact_scores(dense_rows(block), W)
    where = np.searchsorted(EDGES, f, side="right")
    return np.stack([np.bincount(row, block.weight, minlength=len(EDGES) + 1) for row in where]).astype(np.float64)


def near(block: Block, bracket: Bracket) -> Near:
    """Scores within the brackets, and the weight of those above."""
    f = kernels.exact_scores(dense_rows(block), bracket.W)
    weight = np.ones(f.shape[1]) if block.weight is None else block.weight
    listed = []
    for scores, low, high in zip(f, bracket.low, bracket.high, strict=True):
        inside = np.flatnonzero((scores >= low) & (scores < high))
        listed.append((scores[inside], block.start + inside, weight[inside]))
    return Near((f >= 0) @ weight, (f >= bracket.high[:, None]) @ weight, [listed])


class Balanced(NamedTuple):
    """Signs +1 are those of the rows with a score above the threshold, or at it and before the row `cut`."""

    threshold: float
    cut: int
    middle: float
    """Half way to the next lower score, where that is known."""


def find_thresholds(oracle: Oracle, W: Array, n_rows: int, total: float, limit: float | Array) -> list[Balanced]:
    """Thresholds of the signs that maximise `Σ ω y f` under `|Σ ω y| <= limit` (E13).

    Signs of f where they are balanced; else the least confident rows of the larger side are moved until they are. Of
    equal scores the first rows get the sign +1.

    oracle : a pass and its params to the sum over all rows
    W : (K, q)
    n_rows, total : how many rows there are, and the sum of their weights
    limit : at least the largest weight; one number, or one for each of W
    """
    K = len(W)
    limits = np.broadcast_to(limit, K)
    leasts, mosts = 0.5 * (total - limits) * (1 - 1e-12), 0.5 * (total + limits) * (1 + 1e-12)
    low, high = np.full(K, -np.inf), np.full(K, np.inf)
    if n_rows > LISTED:
        bins = oracle(spread, W)
        above = np.cumsum(bins[:, ::-1], axis=1)[:, ::-1]  # weight of the scores in this bin or higher ones
        edges = np.concatenate([[-np.inf], EDGES, [np.inf]])
        for k, (least, most) in enumerate(zip(leasts, mosts, strict=True)):
            positive = above[k, len(EDGES) // 2 + 1]
            if least <= positive <= most:
                low[k] = high[k] = 0.0  # nothing need be listed
                continue
            crossed = int(np.count_nonzero(above[k] >= (most if positive > most else least))) - 1
            low[k], high[k] = edges[crossed], edges[crossed + 1]
    found = oracle(near, Bracket(W, low, high))
    answers = []
    for k, (least, most) in enumerate(zip(leasts, mosts, strict=True)):
        if least <= found.positive[k] <= most:
            answers.append(Balanced(0.0, n_rows, 0.0))
            continue
        scores, rows, weights = (np.concatenate([block[k][part] for block in found.listed]) for part in range(3))
        order = np.argsort(-scores, kind="stable")  # rows come in their order
        reach = found.beyond[k] + np.cumsum(weights[order])
        if found.positive[k] > most:
            last = int(np.count_nonzero(reach <= most)) - 1
        else:
            last = min(int(np.count_nonzero(reach < least)), len(order) - 1)
        if last < 0:  # only those that are not listed
            answers.append(Balanced(float(high[k]), n_rows, float(high[k])))
            continue
        lowest = float(scores[order[last]])
        middle = _middle(scores[order], reach, last, total)
        answers.append(Balanced(lowest, int(rows[order[last]]) + 1, middle))
    return answers


def _middle(falling: Array, reach: Array, last: int, total: float) -> float:
    """Half way to the next lower score; to the next higher one where that splits no equal ones and balances better."""
    at = float(falling[last])
    above, upto = (int(np.searchsorted(-falling, -at, side)) for side in ("left", "right"))
    lower = 0.5 * (at + float(falling[upto])) if upto < len(falling) else at
    if last + 1 == upto or above == 0:
        return lower
    better = abs(2.0 * reach[above - 1] - total) < abs(2.0 * reach[upto - 1] - total)
    return 0.5 * (at + float(falling[above - 1])) if better else lower


class Best:
    """Rows whose flips gain most, the highest first; adding keeps the best of both.

    gain, number, weight : of each
    rows : (c, q)
    most : how many are kept
    """

    def __init__(self, gain: Array, number: Array, weight: Array, rows: Array, most: int) -> None:
        self.gain, self.number, self.weight, self.rows, self.most = gain, number, weight, rows, most

    def __add__(self, other: Best) -> Best:
        """The best of both; of equal gains the first row."""
        gain, number, weight, rows = (
            np.concatenate([getattr(self, part), getattr(other, part)]) for part in ("gain", "number", "weight", "rows")
        )
        kept = np.lexsort((number, -gain))[: self.most]
        return Best(gain[kept], number[kept], weight[kept], rows[kept], self.most)


class Sweep(NamedTuple):
    """Labellings, their own p (K, q), and how many candidates of each sign are wanted."""

    labellings: tuple[Signs, ...]
    P: Array
    total: float
    most: int


def gains(block: Block, params: Sweep) -> tuple[tuple[Best, Best], ...]:
    """For each labelling, the rows of sign +1 and those of sign -1 whose flips gain most (E12)."""
    Y = signs_of(block, params.labellings)
    f = kernels.exact_scores(dense_rows(block), params.P)
    weight = np.ones(f.shape[1]) if block.weight is None else block.weight
    omega = weight / params.total
    lengths = lengths_of(block)
    found = []
    for y, scores in zip(Y, f, strict=True):
        gain = 4.0 * omega * (omega * lengths - y * scores)
        both = []
        for sign in (1, -1):
            top = kernels.find_highest(gain, y, sign, params.most)
            both.append(Best(gain[top], block.start + top, weight[top], dense_rows(block)[top], params.most))
        found.append((both[0], both[1]))
    return tuple(found)


def lengths_of(block: Block) -> Array:
    """`|ψ_i|²` of each row, kept with the block."""
    if "lengths" not in block.cache:
        block.cache["lengths"] = kernels.squared_lengths(dense_rows(block))
    return np.asarray(block.cache["lengths"])


class Climb(NamedTuple):
    """Where to begin (K, q), and what `kernels.climb` is told."""

    P: Array
    total: float
    limits: Array
    """(K,)"""
    epsilon: float
    most: int


class Climbed(NamedTuple):
    """Where a climb ended."""

    p: Array
    signs: Signs
    balance: float
    fitness: float


def climb_all(block: Block, params: Climb) -> list[Climbed]:
    """Climb to the end, where the block has all rows: the same steps as with many blocks, without passes."""
    weight = np.ones(len(dense_rows(block))) if block.weight is None else block.weight
    lengths = lengths_of(block)
    found = []
    for start, limit in zip(params.P, params.limits.tolist(), strict=True):
        p, y = start.copy(), np.empty(len(dense_rows(block)), np.int8)
        fitness, balance, threshold = label_climb.climb(
            dense_rows(block), lengths, weight, params.total, limit, params.epsilon, params.most, p, y
        )
        base = Signs(p, threshold, block.stop, np.zeros(0, np.int64))
        flipped = np.flatnonzero(signs_of(block, (base,))[0] != y)
        found.append(Climbed(p, base._replace(flipped=flipped), balance, fitness))
    return found
