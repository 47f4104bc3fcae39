"""What one sweep computes on a block: planes, labels, flips, histograms; and that nothing depends on what is cached."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from dmmc import kernels
from dmmc.data.blocks import Block, Csr
from dmmc.kernels import Sums
from dmmc.model import passes
from dmmc.model.losses import LOSSES
from dmmc.model.passes import ByScores, Drawn, Gaps, Given, Hyperplanes, Labelling, Request, Sweep

Array = NDArray[Any]

HINGE = LOSSES["hinge"].table
seeds = st.integers(0, 2**32 - 1)


def as_csr(X: Array) -> Csr:
    m = sparse.csr_array(X)
    return Csr(m.data, m.indices.astype(np.uint32), m.indptr.astype(np.int64), X.shape[1])


def block_of(rows: Array | Csr, start: int = 0, **columns: Any) -> Block:
    m = rows.n_rows if isinstance(rows, Csr) else len(rows)
    return Block(0, start, start + m, rows, **columns)


def hyperplanes(rng: np.random.Generator, K: int, d: int, grid: bool = False) -> Hyperplanes:
    """Random ones; on a grid of 1/8 every score of small whole numbers is exact."""
    W, b, price = rng.standard_normal((K, d)), rng.standard_normal(K), rng.standard_normal(K)
    return Hyperplanes(*(np.round(part * 8) / 8 for part in (W, b, price))) if grid else Hyperplanes(W, b, price)


def asking(at: Hyperplanes, labelling: Labelling, relabel: bool = True, run: int = 0, **more: Any) -> Request:
    K, d = at.W.shape
    more = {"points": np.zeros((0, K, d)), "offsets": np.zeros((0, K)), "frozen": False} | more
    return Request(run, at, labelling, relabel, **more)


def convex_risk(X: Array, labels: Array, weight: Array, W: Array, b: Array) -> float:
    """The sum of max(0, 1 - margin) for fixed labels, (E3) or (E7) before the mean is taken."""
    f = X @ W.T + b
    if len(W) == 1:
        margin = np.where(labels == 1, f[:, 0], -f[:, 0])
    else:
        own = f[np.arange(len(X)), labels]
        rest = f.copy()
        rest[np.arange(len(X)), labels] = -np.inf
        margin = own - rest.max(axis=1)
    return float(weight @ np.maximum(0.0, 1.0 - margin))


def plane_at(sums: Sums, W: Array, b: Array) -> float:
    """The lower bound a - <Z, W> - s.b that a plane gives at a point (E4)."""
    return float(np.sum(sums.intercept) - np.sum(sums.weighted * W) - np.sum(sums.tilt * b))


# --------------------------------------------------------------------------------------------- scores and labels


def test_decisions_are_scores_with_biases_and_prices() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    for K in (1, 3):
        planes = hyperplanes(rng, K, 4)
        wanted = X @ planes.W.T + planes.b + planes.price
        np.testing.assert_allclose(passes.scores(block_of(X), planes), wanted)
        np.testing.assert_allclose(passes.scores(block_of(as_csr(X)), planes), wanted)


def test_a_score_of_0_is_label_1_and_ties_go_to_the_lowest_label() -> None:
    assert passes.decide_labels(np.array([[0.0], [-0.0], [-1e-300], [2.0]])).tolist() == [1, 1, 0, 1]
    assert passes.decide_labels(np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).tolist() == [0, 1]
    assert passes.decide_labels(np.zeros((3, 100))).dtype == np.int8
    assert passes.decide_labels(np.eye(3, 10_000)[::-1]).tolist() == [2, 1, 0]
    assert passes.decide_labels(np.pad(np.eye(1), ((0, 0), (9999, 0)))).tolist() == [9999]


def test_labels_of_more_than_127_clusters_are_those_of_all_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    X, at = rng.standard_normal((700, 6)), hyperplanes(rng, 400, 6)
    block, wanted = block_of(X), (X @ at.W.T + at.b + at.price).argmax(axis=1)
    assert wanted.max() > 127
    passes.sweep(block, Sweep((asking(at, Drawn(1, 0, 400)),), HINGE, True))
    np.testing.assert_array_equal(block.cache[0][1], wanted)
    given = block_of(X, given=wanted.astype(np.int64))
    np.testing.assert_array_equal(Given().of(given), wanted)
    whole = passes.leads(block, passes.Gaps(at, np.repeat(np.array([[-1.0, 0.0, 1.0]]), 400, axis=0)))
    monkeypatch.setattr(passes, "AT_ONCE", 400 * 128)  # in parts of 128 rows
    np.testing.assert_array_equal(ByScores(at, wide=True).of(block), wanted)
    np.testing.assert_array_equal(passes.label_rows(block, at), wanted)
    np.testing.assert_array_equal(
        passes.leads(block, passes.Gaps(at, np.repeat(np.array([[-1.0, 0.0, 1.0]]), 400, axis=0))), whole
    )


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("K", [1, 3])
def test_labels_by_scores_are_those_that_the_sweep_takes(K: int, wide: bool) -> None:
    rng = np.random.default_rng(1)
    for rows in (rng.standard_normal((300, 20)).astype(np.float32), rng.integers(0, 9, (300, 20)).astype(np.uint8)):
        at = hyperplanes(rng, K, 20)
        block = block_of(rows)
        passes.sweep(block, Sweep((asking(at, Drawn(1, 0, max(K, 2))),), HINGE, wide))
        key, labels = block.cache[0]
        again = ByScores(at, wide)
        assert key == again.key
        np.testing.assert_array_equal(labels, again.of(block_of(rows)))


def test_labellings_with_equal_keys_are_equal_and_others_have_other_keys() -> None:
    rng = np.random.default_rng(2)
    at = hyperplanes(rng, 3, 5)
    same = ByScores(Hyperplanes(*(part.copy() for part in at)), wide=True)
    assert ByScores(at, wide=True).key == same.key
    others = [
        ByScores(at, wide=False),
        *(ByScores(at._replace(**{name: getattr(at, name) + 1e-12}), wide=True) for name in at._fields),
        Drawn(1, 0, 3),
        Drawn(2, 0, 3),
        Drawn(1, 1, 3),
        Drawn(1, 0, 2),
        Given(),
    ]
    keys = {labelling.key for labelling in others} | {same.key}
    assert len(keys) == len(others) + 1


def test_drawn_labels_are_the_same_wherever_a_block_is_and_use_every_cluster() -> None:
    X = np.zeros((500, 2))
    for k in (2, 7):
        labels = Drawn(3, 1, k).of(block_of(X))
        np.testing.assert_array_equal(labels, Drawn(3, 1, k).of(pickle.loads(pickle.dumps(block_of(X)))))
        assert set(labels) == set(range(k))
        assert not np.array_equal(labels, Drawn(3, 2, k).of(block_of(X)))
        assert not np.array_equal(labels, Drawn(3, 1, k).of(Block(1, 500, 1000, X)))


def test_given_labels_are_those_of_the_block() -> None:
    block = block_of(np.zeros((4, 2)), given=np.array([3, 0, 1, 1]))
    labels = passes.labels_of(block, Given(), 0)
    assert labels.tolist() == [3, 0, 1, 1]
    assert labels.dtype == np.int8


def test_labels_are_computed_once_for_a_run_and_again_for_another_labelling() -> None:
    rng = np.random.default_rng(3)
    block = block_of(rng.standard_normal((50, 3)))
    one, other = (ByScores(hyperplanes(rng, 2, 3), wide=True) for _ in range(2))
    first = passes.labels_of(block, one, 0)
    assert passes.labels_of(block, one, 0) is first
    np.testing.assert_array_equal(passes.labels_of(block, other, 0), other.of(block))
    np.testing.assert_array_equal(passes.labels_of(block, one, 0), first)


# ------------------------------------------------------------------------------------------------------- planes


@settings(max_examples=40, deadline=None)
@given(seed=seeds, K=st.sampled_from([1, 2, 4]), relabel=st.booleans())
def test_a_plane_is_never_above_the_convex_risk_and_touches_it_where_it_was_cut(
    seed: int, K: int, relabel: bool
) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    weight = rng.random(60)
    at = hyperplanes(rng, K, 3)
    block = block_of(X, weight=weight)
    drawn = Drawn(seed % 1000, 0, max(K, 2))
    (answer,) = passes.sweep(block, Sweep((asking(at, drawn, relabel),), HINGE, wide=True))
    labels = passes.labels_of(block, ByScores(at, wide=True) if relabel else drawn, 0)
    here = convex_risk(X, labels, weight, at.W, at.b)
    assert answer.at.risk == pytest.approx(here)
    assert plane_at(answer.at, at.W, at.b) == pytest.approx(here)
    np.testing.assert_allclose(answer.at.counts, np.bincount(labels, weight, max(K, 2)))
    for _ in range(20):
        W, b = rng.standard_normal((K, 3)) * rng.choice([0.1, 1, 10]), rng.standard_normal(K)
        assert plane_at(answer.at, W, b) <= convex_risk(X, labels, weight, W, b) + 1e-9


@settings(max_examples=40, deadline=None)
@given(seed=seeds, K=st.sampled_from([1, 2, 4]), frozen=st.booleans(), priced=st.booleans())
def test_planes_stay_below_the_convex_risk_when_labels_change(seed: int, K: int, frozen: bool, priced: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((60, 3))
    weight = rng.random(60)
    block = block_of(X, weight=weight)
    # a plane is cut at 0 with the first labels, then where labels are taken, at points in turn
    points = [hyperplanes(rng, K, 3) for _ in range(4)]
    if not priced:
        points = [at._replace(price=np.zeros(K)) for at in points]
    points[0] = Hyperplanes(np.zeros((K, 3)), np.zeros(K), np.zeros(K))
    labelling: Labelling = Drawn(0, 0, max(K, 2))
    planes: list[Sums] = []
    for t, at in enumerate(points):
        request = asking(
            at,
            labelling,
            relabel=t > 0,
            points=np.array([p.W for p in points[:t]]).reshape(t, K, 3),
            offsets=np.array([p.b for p in points[:t]]).reshape(t, K),
            prices=np.array([p.price for p in points[:t]]).reshape(t, K),
            frozen=frozen,
        )
        (answer,) = passes.sweep(block, Sweep((request,), HINGE, wide=True))
        moved = [
            Sums(
                *(part.reshape(t, K, 3)[k] if i == 0 else part.reshape(t, -1)[k] for i, part in enumerate(answer.moved))
            )
            for k in range(t)
        ]
        planes = [Sums(*(a + b for a, b in zip(old, new, strict=True))) for old, new in zip(planes, moved, strict=True)]
        planes.append(answer.at)
        labelling = ByScores(at, wide=True) if t else labelling
    labels = passes.labels_of(block, labelling, 0)
    for plane in planes:
        for _ in range(10):
            W, b = rng.standard_normal((K, 3)) * rng.choice([0.1, 1, 10]), rng.standard_normal(K)
            assert plane_at(plane, W, b) <= convex_risk(X, labels, weight, W, b) + 1e-9


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("kind", ["uint8", "int32", "csr"])
@pytest.mark.parametrize("K", [1, 3])
def test_planes_moved_by_flips_are_the_planes_made_anew(K: int, kind: str, wide: bool) -> None:
    rng = np.random.default_rng(K)
    X = rng.integers(0, 4, (400, 6)).astype(np.uint8 if kind == "csr" else kind)
    rows = as_csr(X) if kind == "csr" else X
    m = 5
    points = np.round(rng.standard_normal((m, K, 6)) * 8) / 8
    offsets = np.round(rng.standard_normal((m, K)) * 8) / 8
    old, new = (ByScores(hyperplanes(rng, K, 6, grid=True), wide) for _ in range(2))
    for frozen in (False, True):
        block = block_of(rows)
        request = asking(new.planes, old, points=points, offsets=offsets, frozen=frozen)
        (answer,) = passes.sweep(block, Sweep((request,), HINGE, wide))
        assert answer.flips == np.sum(old.of(block) != new.of(block)) > 20
        under_old, under_new = (from_scratch(block, labelling, points, offsets, frozen) for labelling in (old, new))
        for before, change, after in zip(under_old, answer.moved, under_new, strict=True):
            np.testing.assert_array_equal(before + change, after)


@pytest.mark.parametrize("wide", [True, False])
def test_flips_move_planes_by_the_very_bits_they_were_cut_with(wide: bool) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((60, 301)).astype(np.float32)
    w = rng.standard_normal((1, 301)) / 10
    f = kernels.scores(X, w, wide)[:, 0]
    # at the i-th point row i is at a margin of exactly 1, which the order of addition decides
    points, offsets = np.repeat(w[None], 60, axis=0), (1.0 - f)[:, None]
    old = ByScores(Hyperplanes(w, np.full(1, 1e3), np.zeros(1)), wide)
    new = Hyperplanes(w, np.full(1, -1e3), np.zeros(1))
    request = asking(new, old, points=points, offsets=offsets)
    (answer,) = passes.sweep(block_of(X), Sweep((request,), HINGE, wide))
    assert answer.flips == 60
    for i in range(60):
        at = Hyperplanes(w, offsets[i], np.zeros(1))
        cut, recut = (
            passes.sweep(block_of(X), Sweep((asking(at, labelling, relabel=False),), HINGE, wide))[0].at
            for labelling in (old, ByScores(new, wide))
        )
        assert answer.moved.intercept[i] == recut.intercept - cut.intercept
        assert answer.moved.tilt[i] == recut.tilt[0] - cut.tilt[0]


def from_scratch(block: Block, labelling: Labelling, points: Array, offsets: Array, frozen: bool) -> Sums:
    m = len(points)
    labels = np.repeat(labelling.of(block)[None], m, axis=0)
    modes = np.full(m, kernels.FROZEN if frozen else kernels.GIVEN)
    return kernels.losses(block.rows, points, offsets, HINGE, modes, labels)[0]


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("K", [1, 3])
def test_a_lost_cache_changes_no_bit(K: int, wide: bool) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((500, 12)).astype(np.float32)
    first, second = (hyperplanes(rng, K, 12) for _ in range(2))
    answers = []
    for forgets in (False, True):
        block = block_of(rows)
        passes.sweep(block, Sweep((asking(first, Drawn(5, 0, max(K, 2))),), HINGE, wide))
        if forgets:
            block.cache.clear()
        request = asking(second, ByScores(first, wide), points=first.W[None], offsets=first.b[None])
        answers.append(passes.sweep(block, Sweep((request,), HINGE, wide))[0])
    kept, lost = answers
    assert kept.flips == lost.flips > 0
    for one, other in zip((*kept.at, *kept.moved), (*lost.at, *lost.moved), strict=True):
        np.testing.assert_array_equal(one, other)


def test_runs_that_share_a_read_get_what_each_gets_alone() -> None:
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((300, 8)).astype(np.float32)
    for K in (1, 3):
        requests = [
            asking(hyperplanes(rng, K, 8), Drawn(0, run, max(K, 2)), relabel=run != 1, run=run) for run in range(4)
        ]
        together = passes.sweep(block_of(rows), Sweep(tuple(requests), HINGE, wide=True))
        for request, answer in zip(requests, together, strict=True):
            (alone,) = passes.sweep(block_of(rows), Sweep((request,), HINGE, wide=True))
            assert answer.flips == alone.flips
            for one, other in zip(answer.at, alone.at, strict=True):
                np.testing.assert_array_equal(one, other)


def test_without_relabelling_nothing_flips_and_nothing_moves() -> None:
    rng = np.random.default_rng(7)
    block = block_of(rng.standard_normal((40, 3)))
    at = hyperplanes(rng, 1, 3)
    request = asking(at, Drawn(0, 0, 2), relabel=False, points=at.W[None], offsets=at.b[None])
    (answer,) = passes.sweep(block, Sweep((request,), HINGE, wide=False))
    assert answer.flips == 0
    assert not any(np.any(part) for part in answer.moved)
    assert block.cache[0][0] == Drawn(0, 0, 2).key


@settings(max_examples=30, deadline=None)
@given(seed=seeds, cut=st.integers(1, 199), K=st.sampled_from([1, 3]))
def test_answers_of_two_halves_add_up_to_that_of_the_whole(seed: int, cut: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (200, 5)).astype(np.uint8)
    weight = rng.integers(0, 4, 200).astype(np.float64)
    old, at = (hyperplanes(rng, K, 5, grid=True) for _ in range(2))
    request = asking(at, ByScores(old, wide=True), points=old.W[None], offsets=old.b[None])
    whole, left, right = (
        passes.sweep(Block(0, a, b, X[a:b], weight[a:b]), Sweep((request,), HINGE, wide=True))[0]
        for a, b in ((0, 200), (0, cut), (cut, 200))
    )
    assert left.flips + right.flips == whole.flips
    for a, b, c in zip((*left.at, *left.moved), (*right.at, *right.moved), (*whole.at, *whole.moved), strict=True):
        np.testing.assert_array_equal(a + b, c)


# ---------------------------------------------------------------------------------------------------- other sums


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_chosen_rows_are_taken_in_the_order_asked_for(sparse_rows: bool) -> None:
    rng = np.random.default_rng(8)
    X = rng.integers(0, 3, (20, 4)).astype(np.float32)
    rows = as_csr(X) if sparse_rows else X
    for chosen in (np.array([3, 3, 0, 19]), np.arange(20)[::-1], np.zeros(0, int)):
        got = passes.take(rows, chosen)
        np.testing.assert_array_equal(got.to_scipy().toarray() if isinstance(got, Csr) else got, X[chosen])
    part = passes.cut(rows, 15, 40)
    np.testing.assert_array_equal(part.to_scipy().toarray() if isinstance(part, Csr) else part, X[15:])


def test_nearest_sums_the_rows_of_each_centre() -> None:
    rng = np.random.default_rng(9)
    X, weight = rng.standard_normal((100, 4)), rng.random(100)
    centres = rng.standard_normal((2, 3, 4))
    sums = passes.nearest(block_of(X, weight=weight), (2 * centres, -(centres**2).sum(axis=2)))
    for g in range(2):
        distance = ((X[:, None] - centres[g]) ** 2).sum(axis=2)
        of = distance.argmin(axis=1)
        for p in range(3):
            np.testing.assert_allclose(sums.weighted[3 * g + p], weight[of == p] @ X[of == p])
            assert sums.tilt[3 * g + p] == pytest.approx(weight[of == p].sum())
        inertia = weight @ distance.min(axis=1) - weight @ (X**2).sum(axis=1)
        assert sums.risk[g] == pytest.approx(inertia)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
def test_the_second_moment_is_that_of_numpy_over_more_than_one_chunk(kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(10)
    X = rng.standard_normal((5000, 6)).astype("float32" if kind == "csr" else kind)
    weight = rng.random(5000) if weighted else None
    omega = np.ones(5000) if weight is None else weight
    block = block_of(as_csr(X) if kind == "csr" else X, weight=weight)
    planes = Hyperplanes(rng.standard_normal((3, 6)), rng.standard_normal(3), np.zeros(3))
    image = passes.second_moment(block, planes)
    f = (X.astype(np.float64) @ planes.W.T + planes.b) * omega[:, None]
    tolerance = {"atol": 1e-9 if kind == "float64" else 1e-5 * np.abs(f).sum()}
    np.testing.assert_allclose(image.weighted, f.T @ X, **tolerance)
    np.testing.assert_allclose(image.tilt, f.sum(axis=0), **tolerance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("K", [1, 2, 4])
def test_histograms_of_leads_count_every_row_once_and_in_its_bin(K: int, weighted: bool) -> None:
    rng = np.random.default_rng(11)
    X = rng.standard_normal((300, 3))
    weight = rng.random(300) if weighted else None
    planes = hyperplanes(rng, K, 3)
    k = max(K, 2)
    edges = np.sort(rng.standard_normal((k, 9)), axis=1)
    counts = passes.leads(block_of(X, weight=weight), Gaps(planes, edges))
    f = X @ planes.W.T + planes.b + planes.price
    f = np.hstack([np.zeros((300, 1)), f]) if K == 1 else f
    for p in range(k):
        lead = f[:, p] - np.delete(f, p, axis=1).max(axis=1)
        wanted, _ = np.histogram(lead, np.concatenate([[-np.inf], edges[p], [np.inf]]), weights=weight)
        np.testing.assert_allclose(counts[p], wanted)


def test_a_lead_of_at_least_0_is_what_gives_a_row_its_label() -> None:
    rng = np.random.default_rng(12)
    block = block_of(rng.standard_normal((400, 3)))
    for K in (1, 5):
        planes = hyperplanes(rng, K, 3)
        k = max(K, 2)
        counts = passes.leads(block, Gaps(planes, np.zeros((k, 1))))
        labels = passes.decide_labels(passes.scores(block, planes))
        np.testing.assert_array_equal(counts[:, 1], np.bincount(labels, minlength=k))


def test_tied_rows_lead_by_0_for_each_of_the_tied_labels() -> None:
    planes = Hyperplanes(np.zeros((3, 2)), np.array([1.0, 1.0, 0.0]), np.zeros(3))
    counts = passes.leads(block_of(np.ones((7, 2))), Gaps(planes, np.array([[0.0]] * 3)))
    assert counts.tolist() == [[0, 7], [0, 7], [7, 0]]
