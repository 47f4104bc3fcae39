"""What follows from must-links and cannot-links: contradictions, and pairs that nobody had to give."""

from collections import Counter, deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dmmc.array_types import Array, Integers
from dmmc.errors import ClusteringWarning, InputError, warn
from dmmc.pairs.io import Links

CLOSED = 20_000
"""Pairs of one kind that links may imply; where it would be more, those that were given have to do."""

NAMED = 4
"""Pairs at either end of a chain that a message names."""


def check_links(links: Links, n_rows: int, n_clusters: int) -> Links:
    """The distinct pairs, if all are of known rows and no two contradict each other.

    Of two clusters more follows: what cannot be with the same row must be together.
    """
    for end in (links.one, links.other):
        bad = np.flatnonzero((end < 0) | (end >= n_rows))
        if len(bad):
            p = int(bad[0])
            raise InputError(
                f"{links.place(p)} names row {end[p]}, but rows are numbered 0 to {n_rows - 1}; known rows are wanted."
            )
    same = np.flatnonzero(links.one == links.other)
    if len(same):
        p = int(same[0])
        raise InputError(f"{links.place(p)} links row {links.one[p]} with itself; two different rows are wanted.")
    low, high = np.minimum(links.one, links.other), np.maximum(links.one, links.other)
    _, first = np.unique(np.stack([low, high, links.must], axis=1), axis=0, return_index=True)
    repeated = links.size - len(first)
    if repeated:
        second = int(np.setdiff1d(np.arange(links.size), first)[0])
        warn(
            f"{repeated} of {links.size} pairs were given before ({links.place(second)}: rows {links.one[second]} and "
            f"{links.other[second]}); each counts once.",
            ClusteringWarning,
        )
        links = links.select(np.sort(first))
    _refuse_contradiction(links, n_clusters)
    return links


class _Parts(NamedTuple):
    """Linked rows, each once, and the parts that are known to be of one cluster."""

    rows: Integers
    ends: Integers
    """(links, 2): places in `rows`."""
    part: Integers
    """The part of each row: rows of one part must be together."""
    opposite: Integers | None
    """For two clusters, the part that each row's part cannot be with (they may be the same: a contradiction)."""


def _parts(links: Links, n_clusters: int) -> _Parts:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, flat = np.unique(np.stack([links.one, links.other], axis=1), return_inverse=True)
    ends = flat.reshape(-1, 2)
    m = len(rows)
    if n_clusters > 2:
        one, other = ends[links.must].T
        graph = coo_array((np.ones(len(one), bool), (one, other)), (m, m))
        return _Parts(rows, ends, connected_components(graph, directed=False)[1].astype(np.int64), None)
    # each row stands for itself and, beyond m, for the other cluster than its own
    one, other = ends.T
    across = np.where(links.must, 0, m)
    starts, stops = np.concatenate([one, one + m]), np.concatenate([other + across, other + m - across])
    graph = coo_array((np.ones(len(starts), bool), (starts, stops)), (2 * m, 2 * m))
    both = connected_components(graph, directed=False)[1].astype(np.int64)
    return _Parts(rows, ends, both[:m], both[m:])


def parts_of(links: Links, n_clusters: int) -> tuple[Array, Array, set[tuple[int, int]]]:
    """Linked rows, each once; the part of each, whose rows must be together; and which parts cannot be, both ways."""
    parts = _parts(links, n_clusters)
    apart = {tuple(pair) for pair in parts.part[parts.ends[~links.must]].tolist()}
    return parts.rows, parts.part, apart | {(b, a) for a, b in apart}


def _refuse_contradiction(links: Links, n_clusters: int) -> None:
    if not links.size:
        return
    parts = _parts(links, n_clusters)
    if parts.opposite is not None:
        if not (parts.part == parts.opposite).any():
            return
        p = _first_against(links, parts)
    else:
        one, other = parts.ends.T
        bad = np.flatnonzero(~links.must & (parts.part[one] == parts.part[other]))
        if not len(bad):
            return
        p = int(bad[0])
    chain = _chain(links, parts, p)
    words = [f"{a} {'must' if links.must[q] else 'cannot'} {b} ({links.short(q)})" for a, b, q in chain]
    if len(words) > 2 * NAMED:
        words[NAMED:-NAMED] = [f"... {len(words) - 2 * NAMED} more ..."]
    follows = "with two clusters " if any(not links.must[q] for _, _, q in chain) else ""
    raise InputError(
        f"{links.place(p)} says that rows {links.one[p]} and {links.other[p]} "
        f"{'must' if links.must[p] else 'cannot'} be together, but {follows}the opposite follows from other pairs: "
        f"{', '.join(words)}; one of them has to go."
    )


def _first_against(links: Links, parts: _Parts) -> int:
    """The first pair that those before it contradict, for two clusters: sets with a parity."""
    parent, parity = list(range(len(parts.rows))), [False] * len(parts.rows)

    def root(i: int) -> tuple[int, bool]:
        way = [i]
        while parent[way[-1]] != way[-1]:
            way.append(parent[way[-1]])
        odd = False
        for at in reversed(way[:-1]):  # all of them hang from the root now, or a star would take the square of its size
            odd ^= parity[at]
            parent[at], parity[at] = way[-1], odd
        return way[-1], odd

    for p, (i, j) in enumerate(parts.ends.tolist()):
        (a, odd_a), (b, odd_b) = root(i), root(j)
        if a == b and (odd_a ^ odd_b) == bool(links.must[p]):
            return p
        if a != b:
            parent[a], parity[a] = b, odd_a ^ odd_b ^ (not links.must[p])
    raise AssertionError


def _chain(links: Links, parts: _Parts, p: int) -> list[tuple[int, int, int]]:
    """The shortest chain of pairs from one row of pair p to the other that says its opposite: (row, row, pair)."""
    two = parts.opposite is not None
    near: dict[int, list[tuple[int, int]]] = {}
    for q, (i, j) in enumerate(parts.ends.tolist()):
        if (two and q < p) or (not two and links.must[q]):
            near.setdefault(i, []).append((j, q))
            near.setdefault(j, []).append((i, q))
    start, goal = (int(parts.ends[p, 0]), False), (int(parts.ends[p, 1]), bool(links.must[p]))
    came: dict[tuple[int, bool], tuple[tuple[int, bool], int]] = {}
    waiting = deque([start])
    while waiting and goal not in came:
        here = waiting.popleft()
        for there, q in near.get(here[0], []):
            state = (there, here[1] ^ (not links.must[q]))
            if state != start and state not in came:
                came[state] = (here, q)
                waiting.append(state)
    way = [goal]
    while way[-1] != start:
        way.append(came[way[-1]][0])
    way.reverse()
    return [(int(parts.rows[a[0]]), int(parts.rows[b[0]]), came[b][1]) for a, b in pairwise(way)]


class Pairs(NamedTuple):
    """Pairs of one kind, each two places among the linked rows, and how much each counts."""

    ends: Integers
    weight: NDArray[np.float64]


class Closed(NamedTuple):
    """Linked rows, each once, and pairs of them: those that were given and those that follow."""

    rows: Integers
    must: Pairs
    cannot: Pairs


def take_links(links: Links) -> Closed:
    """The pairs that were given and no others, each with weight 1."""
    rows, flat = np.unique(np.stack([links.one, links.other], axis=1), return_inverse=True)
    ends = np.sort(flat.reshape(-1, 2), axis=1)
    must, cannot = (Pairs(ends[kind], np.ones(int(kind.sum()))) for kind in (links.must, ~links.must))
    return Closed(rows, must, cannot)


def close_links(links: Links, n_clusters: int) -> Closed:
    """All pairs that follow from those given, if there are not too many of them.

    Rows that must be with the same row must be together; what one of them cannot be with, none of them can. With two
    clusters, rows that cannot be with the same row must be together. All pairs within a part, or between two, share the
    weight of those that were given there: what is said once more counts once more, what follows counts no more than it.
    """
    parts = _parts(links, n_clusters)
    members = _members(parts.part)
    given = Counter(parts.part[parts.ends[links.must, 0]].tolist())
    within = {number: (rows, rows, max(given[number], len(rows) - 1)) for number, rows in members.items()}
    said = Counter(tuple(sorted(pair)) for pair in parts.part[parts.ends[~links.must]].tolist())
    across = {(a, b): (members[a], members[b], said[a, b]) for a, b in said}
    return Closed(
        parts.rows,
        _all_pairs(within.values(), parts.ends[links.must], distinct=True),
        _all_pairs(across.values(), parts.ends[~links.must], distinct=False),
    )


def _members(part: Integers) -> dict[int, Integers]:
    order = np.argsort(part, kind="stable")
    numbers, first = np.unique(part[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True)) if len(order) else {}


def _all_pairs(sides: Iterable[tuple[Array, Array, int]], given: Integers, distinct: bool) -> Pairs:
    """All pairs of rows of both sides; `distinct` where the sides are the same rows. In one order, for the bits."""
    sides = [(a, b, count) for a, b, count in sides if not distinct or len(a) > 1]
    sizes = [len(a) * (len(a) - 1) // 2 if distinct else len(a) * len(b) for a, b, _ in sides]
    if sum(sizes) > max(CLOSED, len(given)):
        return Pairs(given, np.ones(len(given)))
    ends, weight = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
    for (a, b, count), size in zip(sides, sizes, strict=True):
        one, other = np.triu_indices(len(a), 1) if distinct else np.indices((len(a), len(b))).reshape(2, -1)
        ends.append(np.sort(np.stack([a[one], b[other]], axis=1), axis=1))
        weight.append(np.full(size, count / size))
    found, weights = np.concatenate(ends), np.concatenate(weight)
    order = np.lexsort(found.T[::-1])
    return Pairs(found[order], weights[order])
