"""Kernels of the evolutionary search as paper 002 prints it (`mutation="paper"`): random flips, the best stay."""

from typing import Any

import numpy as np
from numba import njit

from dmmc.array_types import Array
from dmmc.kernels.arguments import EXACT, EXACT_INNER, FAST_INNER


@njit(**FAST_INNER)
def _length(P: Array, one: int) -> float:
    total = 0.0
    for j in range(P.shape[1]):
        total += P[one, j] * P[one, j]
    return total


@njit(**EXACT_INNER)
def _random(state: Array) -> Any:
    """The next number of a splitmix64 stream, whose state is one number."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@njit(**EXACT_INNER)
def _below(state: Array, n: int) -> Any:
    """A random whole number below n."""
    return np.int64(_random(state) % np.uint64(n))


@njit(**EXACT_INNER)
def _flip(Phi: Array, Y: Array, P: Array, one: int, i: int) -> None:
    c = 2.0 * Y[one, i]
    for j in range(P.shape[1]):
        P[one, j] -= c * Phi[i, j]
    Y[one, i] = -Y[one, i]


@njit(**EXACT_INNER)
def _exchange(Y: Array, P: Array, balance: Array, fitness: Array, one: int, other: int) -> None:
    for i in range(Y.shape[1]):
        Y[one, i], Y[other, i] = Y[other, i], Y[one, i]
    for j in range(P.shape[1]):
        P[one, j], P[other, j] = P[other, j], P[one, j]
    balance[one], balance[other] = balance[other], balance[one]
    fitness[one], fitness[other] = fitness[other], fitness[one]


@njit(**EXACT_INNER)
def _mutate(
    Phi: Array, weight: Array, Y: Array, P: Array, one: int, balance: float, limit: float, flips: int, state: Array
) -> float:
    """Flip this many random coordinates; a flip that breaks the balance is paired with one of the opposite label."""
    n = Y.shape[1]
    for _ in range(flips):
        i = _below(state, n)
        if abs(balance - 2.0 * weight[i] * Y[one, i]) > limit:
            j = _below(state, n)
            tries = 0
            while Y[one, j] == Y[one, i] and tries < 1000:
                j = _below(state, n)
                tries += 1
            both = balance - 2.0 * (weight[i] * Y[one, i] + weight[j] * Y[one, j])
            if Y[one, j] == Y[one, i] or abs(both) > max(limit, abs(balance)):
                continue
            balance -= 2.0 * weight[j] * Y[one, j]
            _flip(Phi, Y, P, one, j)
        balance -= 2.0 * weight[i] * Y[one, i]
        _flip(Phi, Y, P, one, i)
    return balance


@njit(**EXACT)
def evolve(
    Phi: Array,
    weight: Array,
    limit: float,
    Y: Array,
    P: Array,
    balance: Array,
    fitness: Array,
    population: int,
    generation: int,
    generations: int,
    most_flips: int,
    state: Array,
) -> int:
    """Generations of the published search: mutate random parents, keep the best (paper 002, Algorithm 1).

    Phi : (n, q)
    weight, limit : of the rows, and the most that |Σ ω y| may be
    Y, P, balance, fitness : signs (μ + ν, n) int8, Φᵀy, Σ ω y and |Φᵀy|² of each; the first μ are the population, best
        first. Changed
    population : μ
    generation : how many there were before
    generations : how many to go through
    most_flips : flips of an offspring at most; generation t makes max(1, n // (t + 1)) where there is no other limit
    state : of the random numbers; changed
    Returns the last of these generations (1, 2, ...) in which the best fitness changed, 0 for none.
    """
    n, everyone = Y.shape[1], Y.shape[0]
    last = 0
    for t in range(generations):
        flips = max(1, min(most_flips, n // (generation + t + 1)))
        for child in range(population, everyone):
            parent = _below(state, population)
            for i in range(n):
                Y[child, i] = Y[parent, i]
            for j in range(P.shape[1]):
                P[child, j] = P[parent, j]
            balance[child] = _mutate(Phi, weight, Y, P, child, balance[parent], limit, flips, state)
            fitness[child] = _length(P, child)
        before = fitness[0]
        for one in range(population):  # the best to the front, parents before their equals
            best = one
            for other in range(one + 1, everyone):
                if fitness[other] > fitness[best]:
                    best = other
            if best != one:
                _exchange(Y, P, balance, fitness, one, best)
        if fitness[0] > before + 1e-13:
            last = t + 1
    return last
