"""Clusters keep their numbers: the assignment, against all permutations and scipy, and what is said of it."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from dmmc.profile.match import match_by_centres, match_by_rows


def test_most_rows_keep_their_number() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        earlier = rng.integers(4, size=60)
        labels = np.where(rng.random(60) < 0.7, rng.permutation(4)[earlier], rng.integers(4, size=60))
        number = match_by_rows(labels, earlier, 4, 4).number
        best = max(np.sum(np.array(order)[labels] == earlier) for order in permutations(range(4)))
        assert np.sum(number[labels] == earlier) == best


def test_a_cluster_that_vanished_is_gone_and_its_number_goes_to_a_new_one() -> None:
    earlier = np.repeat([0, 1, 2, -1], 50)
    labels = np.repeat([2, 1, -1, 0], 50)  # the rows of cluster 2 are of none now, and 0 is of new rows
    found = match_by_rows(labels, earlier, 3, 3)
    assert found.number.tolist() == [2, 1, 0]
    assert (found.kept, found.new, found.gone) == ([(0, 0), (1, 1)], [2], [2])
    assert found.tell() == (
        "compared with the earlier result by row ids: 2 of 3 clusters keep their numbers, cluster 2 is gone, "
        "2 is a new cluster, 100 % of the rows that both have are where they were."
    )


def test_a_few_shared_rows_do_not_make_two_clusters_the_same() -> None:
    earlier = np.concatenate([np.zeros(100, int), np.ones(100, int)])
    labels = np.concatenate([np.zeros(100, int), np.zeros(97, int), np.ones(3, int)])
    found = match_by_rows(labels, earlier, 2, 2)
    assert found.gone == [1]
    assert found.new == [1]


def test_with_fewer_clusters_a_number_that_is_too_high_is_told() -> None:
    earlier = np.repeat([0, 1, 2], 30)
    found = match_by_rows(np.repeat([1, 1, 0], 30), earlier, 2, 3)
    assert sorted(found.number.tolist()) == [0, 1]
    assert (2, int(found.number[0])) in found.kept
    assert "cluster 2 is now" in found.tell()


def test_centres_match_their_nearest_in_units_of_the_spread() -> None:
    earlier = np.array([[0.0, 0.0], [0.0, 1000.0], [5.0, 0.0]])
    found = match_by_centres(earlier[[2, 0, 1]] + 0.01, earlier, np.array([1.0, 200.0]))
    assert found.number.tolist() == [2, 0, 1]
    assert not found.new
    assert not found.gone
    moved = match_by_centres(np.array([[0.0, 0.0], [5.0, 0.0], [50.0, 0.0]]), earlier, np.array([1.0, 200.0]))
    assert (moved.gone, moved.new) == ([1], [1])
