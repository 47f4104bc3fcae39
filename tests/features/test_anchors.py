"""Anchors: links by brute force, a graph that adds over blocks, votes, lists, and maps that are written and read."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.engine.tree_sum import add
from dmmc.features import anchors as module
from dmmc.features import maps
from dmmc.features.anchor_build import choose_count
from dmmc.features.anchor_map import AnchorMap
from dmmc.features.anchors import (
    Anchors,
    Ballot,
    Run,
    find_anchors,
    link_block,
    make_graph,
    sum_links,
    sum_nearest,
    vote,
)
from dmmc.features.projection import Projection
from dmmc.results import array_folder
from dmmc.time_limit import NO_LIMIT

DIGITS = load_digits().data.astype(np.float32)
PLACES = np.ascontiguousarray(DIGITS[:, 1:31])
POINTS = Anchors.at(PLACES[:: len(PLACES) // 120])


def block(rows: Array, start: int = 0, weight: Array | None = None) -> Block:
    return Block(0, start, start + len(rows), rows, weight)


def brute_links(rows: Array, points: Array) -> Array:
    """B (n, G) by the formula, from all distances."""
    squared = ((rows[:, None].astype(float) - points[None]) ** 2).sum(axis=2)
    B = np.zeros(squared.shape)
    for i, own in enumerate(squared):
        order = np.argsort(own, kind="stable")
        w = np.exp(-2.0 * own[order[:5]] / own[order[5]])
        B[i, order[:5]] = w / w.sum()
    return B


def test_a_row_is_linked_to_its_five_nearest_anchors_by_its_own_scale() -> None:
    found = POINTS.link(PLACES[:200]).to_matrix(len(POINTS)).toarray()
    np.testing.assert_allclose(found, brute_links(PLACES[:200], POINTS.points), atol=1e-6)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-6)


def test_the_links_of_a_row_do_not_depend_on_the_rows_beside_it() -> None:
    together = POINTS.link(PLACES[:64])
    for i in range(64):
        alone = POINTS.link(PLACES[i : i + 1])
        assert alone.who.tobytes() == together.who[i : i + 1].tobytes()
        assert alone.weight.tobytes() == together.weight[i : i + 1].tobytes()


def test_what_links_add_up_to_is_the_sum_over_blocks_and_counts_a_row_by_its_weight() -> None:
    rng = np.random.default_rng(0)
    rows, weight = PLACES[:300], rng.integers(0, 3, 300).astype(float)
    B = brute_links(rows, POINTS.points)
    parts = [block(rows[a:b], a, weight[a:b]) for a, b in ((0, 100), (100, 170), (170, 300))]
    found = add(add(sum_links(parts[0], POINTS), sum_links(parts[1], POINTS)), sum_links(parts[2], POINTS))
    np.testing.assert_allclose(found.graph.toarray(), B.T @ (weight[:, None] * B), atol=1e-4)
    np.testing.assert_allclose(found.counts, weight @ B, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.weighted, B.T @ (weight[:, None] * rows), rtol=1e-4, atol=1e-3)
    assert found.mass.sum() == weight.sum()
    np.testing.assert_array_equal(found.mass, np.bincount(B.argmax(axis=1), weight, minlength=len(POINTS)))


def test_the_graph_of_anchors_has_no_loops_is_the_same_both_ways_and_leaves_none_alone() -> None:
    far = Anchors.at(np.vstack([POINTS.points, np.full((1, 30), 1e4, np.float32)]))
    W = make_graph(sum_links(block(PLACES), far), far)
    assert np.abs(W.diagonal()).max() == 0.0
    assert abs(W - W.T).max() == 0.0
    assert np.asarray(W.sum(axis=1)).min() > 0.0


def test_rows_take_the_label_with_the_largest_weight_among_their_anchors() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(4, size=(len(POINTS), 3))
    links = POINTS.link(PLACES)
    packed = vote(block(PLACES), Ballot(POINTS, "", labels, 4))
    for place in range(3):
        wanted = (links.to_matrix(len(POINTS)) @ np.eye(4)[labels[:, place]]).argmax(axis=1)
        assert np.mean(packed // 4**place % 4 == wanted) == 1.0


def test_values_are_averaged_by_the_weights_of_the_links() -> None:
    values = np.random.default_rng(2).standard_normal((len(POINTS), 7)).astype(np.float32)
    links = POINTS.link(PLACES)
    np.testing.assert_allclose(links.average(values), links.to_matrix(len(POINTS)) @ values, atol=1e-12)


@contextmanager
def running(rows: Array, weight: Array | None = None) -> Any:
    with Local(open_dataset(rows).with_columns(weight), 1) as engine:

        def over(sample: Array, own: Array | None) -> Local:
            return engine.over(open_dataset(sample).with_columns(own))

        yield Run(engine.dataset, engine.run, over)


def test_anchors_are_nearly_as_near_to_the_rows_as_the_centres_of_k_means() -> None:
    with running(PLACES) as places:
        found, recall = find_anchors(places, 100, 0, NO_LIMIT)
        again, _ = find_anchors(places, 100, 0, NO_LIMIT)
    assert found.points.tobytes() == again.points.tobytes()
    assert recall == 1.0
    theirs = KMeans(100, n_init=1, random_state=0).fit(PLACES).inertia_
    assert (found.nearest(PLACES, 1).distance ** 2).sum() < 1.1 * theirs


def test_rows_of_weight_0_have_no_anchors() -> None:
    rows = np.vstack([PLACES, PLACES + 1000.0]).astype(np.float32)
    weight = np.repeat([1.0, 0.0], len(PLACES))
    with running(rows, weight) as places:
        found, _ = find_anchors(places, 50, 0, NO_LIMIT)
    assert found.points.max() < 500.0


def test_fewer_distinct_rows_than_anchors_are_all_anchors() -> None:
    rows = np.repeat(np.arange(8.0, dtype=np.float32), 20)[:, None] * np.ones((1, 3), np.float32)
    with running(rows) as places:
        found, _ = find_anchors(places, 160, 0, NO_LIMIT)
    np.testing.assert_array_equal(np.sort(found.points[:, 0]), np.arange(8.0))


def test_a_lloyd_pass_moves_a_centre_to_the_mean_of_its_rows() -> None:
    moved = sum_nearest(block(PLACES), POINTS)
    nearest = ((PLACES[:, None].astype(float) - POINTS.points[None]) ** 2).sum(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(moved.counts, np.bincount(nearest, minlength=len(POINTS)))
    for anchor in (0, 7, 99):
        np.testing.assert_allclose(moved.weighted[anchor], PLACES[nearest == anchor].sum(axis=0), rtol=1e-6)


def test_lists_of_many_anchors_find_nearly_all_and_their_recall_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COARSE", 100)
    listed = Anchors.at(PLACES[::2])
    assert len(listed.lists) == int(np.sqrt(len(PLACES[::2])))
    monkeypatch.setattr(module, "PROBES", 8)
    few = Anchors(listed.points, listed.lists)
    assert 0.8 < few.recall(PLACES[:300]) < 1.0
    monkeypatch.setattr(module, "PROBES", 10_000)
    every = Anchors(listed.points, listed.lists)
    assert every.recall(PLACES[:300]) == 1.0
    alone = [few.link(PLACES[i : i + 1]).who for i in range(40)]
    np.testing.assert_array_equal(np.concatenate(alone), few.link(PLACES[:40]).who)


def test_a_block_keeps_its_links_for_the_next_pass_if_it_has_a_key() -> None:
    held = block(PLACES)
    first = link_block(held, POINTS, "key")
    assert link_block(held, POINTS, "key") is first
    assert link_block(held, POINTS, "other key") is not first
    bare = block(PLACES)
    link_block(bare, POINTS, "")
    assert bare.cache == {}


@pytest.mark.parametrize("own", [0.0, 0.5])
def test_a_map_of_anchors_is_written_and_read(own: float, tmp_path: Path) -> None:
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((64, 30)))[0].T
    values = POINTS.points if own else np.random.default_rng(4).standard_normal((len(POINTS), 5)).astype(np.float32)
    made = AnchorMap(Projection(axes, np.zeros(30), False), POINTS, values, unit=not own, own=own)
    content, arrays = made.to_arrays()
    array_folder.write(tmp_path / "map", "map", content, arrays)
    again = maps.from_arrays(*array_folder.read(tmp_path / "map", "map"))
    assert again is not None
    assert again.n_features == 64
    assert again.apply(block(DIGITS)).tobytes() == made.apply(block(DIGITS)).tobytes()


@pytest.mark.parametrize(
    ("asked", "rows", "k", "count"),
    [
        ("auto", 70_000, 10, 5000),
        ("auto", 1797, 10, 449),
        ("auto", 10**9, 100, 5000),
        ("auto", 10**6, 200, 10_000),
        ("auto", 10, 2, 4),
        (300, 10**6, 10, 300),
        (300, 200, 10, 200),
    ],
)
def test_how_many_anchors_there_are(asked: int | str, rows: int, k: int, count: int) -> None:
    assert choose_count(asked, rows, k) == count
