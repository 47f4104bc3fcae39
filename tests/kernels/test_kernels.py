"""The kernels against loops in plain numpy, and their promises about bits.

Most numbers here are small multiples of 1/8: then every sum is exact in float32 too, and kernels must agree with the
reference in all bits, whatever the order of their additions.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse

from dmmc import kernels
from dmmc.data.blocks import Csr
from dmmc.kernels import FROZEN, GIVEN, NEAREST, OWN, Sums
from dmmc.model.losses import LOSSES

Array = NDArray[Any]

HINGE = LOSSES["hinge"].table
RAMP = (np.array([-1.0, 1.0]), np.array([2.0, 1.0, 0.0]), np.array([0.0, -1.0, 0.0]))
BENT = (np.array([0.0, 1.0]), np.array([1.0, 1.0, 0.0]), np.array([-2.0, -1.0, 0.0]))
"""A convex loss with a slope that is not -1, 0 or 1."""
FLAT = (np.zeros(0), np.zeros(1), np.zeros(1))

DENSE = ("float32", "float64", "uint8", "uint16", "int8", "int32", "bool")
KINDS = (*DENSE, "csr float32", "csr uint8")


class Asked(NamedTuple):
    W: Array
    b: Array
    table: Any
    modes: Array
    labels: Array
    price: Array | None
    weight: Array | None


def as_csr(X: Array) -> Csr:
    m = sparse.csr_array(X)
    return Csr(m.data, m.indices.astype(np.uint32), m.indptr.astype(np.int64), X.shape[1])


def exact_rows(rng: np.random.Generator, m: int, d: int, kind: str) -> tuple[Array | Csr, Array]:
    """Rows of a kind, and the same in float64: multiples of 1/8 up to 2, or whole numbers up to 3."""
    dtype = np.dtype(kind.split()[-1])
    if dtype.kind == "f":
        X = rng.integers(-16, 17, (m, d)) / 8.0
    else:
        X = rng.integers(-3 if dtype.kind == "i" else 0, 2 if dtype.kind == "b" else 4, (m, d)).astype(np.float64)
    if kind.startswith("csr"):
        X[rng.random((m, d)) < 0.7] = 0
        return as_csr(X.astype(dtype)), X
    return X.astype(dtype), X


def exact_ask(rng: np.random.Generator, m: int, d: int, K: int, table: Any, plain: bool = False) -> Asked:
    """Groups in all modes, with prices and weights unless plain."""
    modes = np.array([GIVEN, OWN, FROZEN, NEAREST, OWN] if K > 1 else [GIVEN, OWN, FROZEN, OWN])
    G = len(modes)
    return Asked(
        W=rng.integers(-8, 9, (G, K, d)) / 8.0,
        b=rng.integers(-16, 17, (G, K)) / 8.0,
        table=table,
        modes=modes,
        labels=rng.integers(max(K, 2), size=(G, m)).astype(np.int8),
        # prices do not count for nearest centres
        price=None if plain else np.where(modes[:, None] == NEAREST, 0.0, rng.integers(-8, 9, (G, K)) / 4.0),
        weight=None if plain else rng.integers(0, 7, m) / 2.0,
    )


def reference(X: Array, asked: Asked) -> tuple[Sums, Array]:
    """What `kernels.losses` promises, row by row."""
    W, b, table, modes, labels, price, weight = asked
    knots, intercepts, slopes = table
    G, K, d = W.shape
    m = len(X)
    sums = Sums(np.zeros((G * K, d)), np.zeros(G * K), np.zeros(G), np.zeros(G), np.zeros((G, max(K, 2))))
    out = np.zeros((G, m), np.int8)
    for g in range(G):
        for i in range(m):
            f = W[g] @ X[i] + b[g]
            priced = f if price is None else f + price[g]
            omega = 1.0 if weight is None else weight[i]
            own = int(priced[0] >= 0) if K == 1 else int(np.argmax(priced))
            y = own if modes[g] in (OWN, NEAREST) else int(labels[g, i])
            out[g, i] = y
            sums.counts[g, y] += omega
            pulls = np.zeros(K)
            if modes[g] == NEAREST:
                pulls[y] = omega
                sums.risk[g] -= omega * f[y]
            elif K == 1:
                decides = own if modes[g] == FROZEN else y
                t = f[0] if decides else -f[0]
                p = int(np.sum(knots <= t))
                pulls[0] = -slopes[p] * omega * (1 if y else -1)
                sums.intercept[g] += omega * intercepts[p]
                sums.risk[g] += omega * (intercepts[p] + slopes[p] * t)
            else:
                decides = own if modes[g] == FROZEN else y
                t = f[decides] - np.delete(f, decides).max()
                r = min((q for q in range(K) if q != y), key=lambda q: (-f[q], q))
                p = int(np.sum(knots <= t))
                pulls[y] = -slopes[p] * omega
                pulls[r] = slopes[p] * omega
                sums.intercept[g] += omega * intercepts[p]
                sums.risk[g] += omega * (intercepts[p] + slopes[p] * t)
            sums.tilt[g * K : (g + 1) * K] += pulls
            sums.weighted[g * K : (g + 1) * K] += pulls[:, None] * X[i]
    return sums, out


def ask(rows: Array | Csr, asked: Asked, wide: bool = True) -> tuple[Sums, Array]:
    W, b, table, modes, labels, price, weight = asked
    return kernels.losses(rows, W, b, table, modes, labels, price, weight, wide=wide, keep=True)


def assert_same(got: tuple[Sums, Array], wanted: tuple[Sums, Array]) -> None:
    for name, one, other in zip(Sums._fields, got[0], wanted[0], strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)
    np.testing.assert_array_equal(got[1], wanted[1], err_msg="labels")


def one_group(asked: Asked, g: int) -> Asked:
    own = slice(g, g + 1)
    price = None if asked.price is None else asked.price[own]
    return asked._replace(W=asked.W[own], b=asked.b[own], modes=asked.modes[own], labels=asked.labels[own], price=price)


# ------------------------------------------------------------------------------------------------- the reference


@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("kind", KINDS)
def test_losses_are_those_of_plain_loops(kind: str, K: int) -> None:
    rng = np.random.default_rng(K)
    for table in (HINGE, RAMP, BENT):
        for plain in (True, False):
            rows, X = exact_rows(rng, 130, 9, kind)
            asked = exact_ask(rng, 130, 9, K, table, plain)
            wanted = reference(X, asked)
            assert_same(ask(rows, asked, wide=True), wanted)
            assert_same(ask(rows, asked, wide=False), wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_one_hyperplane_alone_gives_what_plain_loops_give(kind: str) -> None:
    rng = np.random.default_rng(1)
    for table in (HINGE, BENT):
        for plain in (True, False):
            rows, X = exact_rows(rng, 300, 5, kind)
            asked = exact_ask(rng, 300, 5, 1, table, plain)
            for g in range(len(asked.modes)):
                alone = one_group(asked, g)
                assert_same(ask(rows, alone, wide=False), reference(X, alone))


@pytest.mark.parametrize("d", [1, 3, 33])
@pytest.mark.parametrize("m", [1, 7, 127, 128, 129, 1000])
@pytest.mark.parametrize("kind", ["float32", "uint8", "csr float32"])
def test_ragged_sizes_lose_no_row_and_no_feature(kind: str, m: int, d: int) -> None:
    rng = np.random.default_rng(m + d)
    rows, X = exact_rows(rng, m, d, kind)
    for K, plain in ((1, True), (2, False)):
        asked = one_group(exact_ask(rng, m, d, K, HINGE, plain), 1)
        wanted = reference(X, asked)
        assert_same(ask(rows, asked, wide=True), wanted)
        assert_same(ask(rows, asked, wide=False), wanted)


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "int32"])
def test_rows_so_long_that_a_tile_holds_few_are_all_summed(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows, X = exact_rows(rng, 301, 4000, kind)
    for K in (1, 2):
        asked = exact_ask(rng, 301, 4000, K, HINGE, plain=True)
        asked = asked._replace(W=asked.W / 64)
        wanted = reference(X, asked)
        assert_same(ask(rows, asked), wanted)
        for wide in (True, False):
            assert_same(ask(rows, one_group(asked, 0), wide), reference(X, one_group(asked, 0)))


@pytest.mark.parametrize("kind", ["float64", "csr float32"])
def test_many_more_hyperplanes_than_rows_in_a_tile_are_served(kind: str) -> None:
    rng = np.random.default_rng(0)
    rows, X = exact_rows(rng, 40, 6, kind)
    K = 100
    W, b = rng.integers(-8, 9, (5, K, 6)) / 8.0, rng.integers(-8, 9, (5, K)) / 8.0
    asked = Asked(W, b, HINGE, np.full(5, OWN), np.zeros((5, 40), np.int8), None, None)
    assert_same(ask(rows, asked), reference(X, asked))


def test_a_block_without_rows_adds_nothing() -> None:
    for rows in (np.zeros((0, 3), np.float32), as_csr(np.zeros((0, 3), np.float32))):
        sums, labels = kernels.losses(rows, np.ones((1, 1, 3)), np.zeros((1, 1)), HINGE, np.array([OWN]), keep=True)
        assert labels.shape == (1, 0)
        assert not any(part.any() for part in sums)
        assert kernels.scores(rows, np.ones((2, 3))).shape == (0, 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wide", [False, True])
def test_no_hyperplanes_give_no_scores_and_touch_no_memory(kind: str, wide: bool) -> None:
    rows, _ = exact_rows(np.random.default_rng(0), 300, 5, kind)
    before = kernels.dispatch.NOTHING.b.copy()
    assert kernels.scores(rows, np.zeros((0, 5)), wide).shape == (300, 0)
    np.testing.assert_array_equal(kernels.dispatch.NOTHING.b, before)


def test_arrays_in_any_layout_are_taken_without_compiling_again() -> None:
    rng = np.random.default_rng(0)
    rows, _ = exact_rows(rng, 60, 4, "float32")
    asked = exact_ask(rng, 60, 4, 2, HINGE)
    wanted = ask(rows, asked)
    before = len(kernels.dense_pass.dense_many.signatures)
    other = asked._replace(
        b=np.asfortranarray(asked.b),
        labels=np.asfortranarray(asked.labels),
        modes=asked.modes.astype(np.int32),
        weight=np.repeat(asked.weight, 2)[::2],
    )
    assert_same(ask(np.asfortranarray(rows), other), wanted)
    assert len(kernels.dense_pass.dense_many.signatures) == before


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.zeros((1, 3), np.int8)},
        {"modes": np.array([GIVEN, GIVEN])},
        {"weight": np.ones(3)},
        {"modes": np.array([NEAREST])},
    ],
    ids=["labels", "modes", "weight", "nearest of one"],
)
def test_shapes_that_would_be_read_beyond_their_end_are_refused(change: dict[str, Any]) -> None:
    asked = Asked(np.ones((1, 1, 2)), np.zeros((1, 1)), HINGE, np.array([GIVEN]), np.zeros((1, 9), np.int8), None, None)
    with pytest.raises(AssertionError):
        ask(np.ones((9, 2)), asked._replace(**change))


# ---------------------------------------------------------------------------------------------------- integers


@pytest.mark.parametrize("wide", [True, False])
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int8", "int32", "bool"])
def test_sums_of_whole_numbers_are_exact_over_their_full_range(dtype: str, wide: bool) -> None:
    rng = np.random.default_rng(3)
    low, high = (0, 2) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    X = rng.integers(low, high, (3000, 11)).astype(dtype)
    # all rows at the end of the range, where a sum would overflow first
    X[:500] = np.array(high - 1).astype(dtype)
    W = rng.standard_normal((1, 1, 11)) / high
    labels = rng.integers(2, size=(1, 3000)).astype(np.int8)
    labels[0, :500] = 1
    for G in (1, 3):
        modes = np.full(G, GIVEN)
        sums, _ = kernels.losses(
            X, np.repeat(W, G, 0), np.zeros((G, 1)), HINGE, modes, np.repeat(labels, G, 0), wide=wide
        )
        f = kernels.scores(X, W[0], wide=wide)[:, 0]
        sign = 2 * labels[0].astype(np.int64) - 1
        coef = np.where(sign * f < 1, sign, 0)
        for g in range(G):
            np.testing.assert_array_equal(sums.weighted[g], coef @ X.astype(np.int64))
            assert sums.tilt[g] == coef.sum()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cuts=st.lists(st.integers(0, 400), max_size=4))
@pytest.mark.parametrize("kind", ["float32", "uint8", "int32", "csr float32"])
def test_any_split_of_the_rows_adds_up_exactly(kind: str, seed: int, cuts: list[int]) -> None:
    rng = np.random.default_rng(seed)
    rows, _ = exact_rows(rng, 400, 3, kind)
    asked = exact_ask(rng, 400, 3, int(rng.choice([1, 3])), HINGE)
    whole, labels = ask(rows, asked)
    bounds = [0, *sorted(cuts), 400]
    parts = []
    for start, stop in pairwise(bounds):
        piece = rows.cut(start, stop) if isinstance(rows, Csr) else rows[start:stop]
        assert asked.weight is not None
        some = asked._replace(labels=asked.labels[:, start:stop], weight=asked.weight[start:stop])
        parts.append(ask(piece, some))
    for i in range(len(whole)):
        np.testing.assert_array_equal(sum(part[0][i] for part in parts), whole[i])
    np.testing.assert_array_equal(np.concatenate([part[1] for part in parts], axis=1), labels)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
@pytest.mark.parametrize("kind", ["float32", "uint8", "csr float32"])
def test_a_whole_weight_counts_as_that_many_rows(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, X = exact_rows(rng, 90, 4, kind)
    asked = exact_ask(rng, 90, 4, int(rng.choice([1, 3])), HINGE)
    weight = rng.integers(0, 4, 90)
    again = np.repeat(np.arange(90), weight)
    dtype = rows.data.dtype if isinstance(rows, Csr) else rows.dtype
    repeated = X[again].astype(dtype)
    weighted, _ = ask(rows, asked._replace(weight=weight.astype(np.float64)))
    counted, _ = ask(
        as_csr(repeated) if isinstance(rows, Csr) else repeated,
        asked._replace(weight=None, labels=asked.labels[:, again]),
    )
    for one, other in zip(weighted, counted, strict=True):
        np.testing.assert_array_equal(one, other)


# --------------------------------------------------------------------------------------------------- float bits


def plain_rows(rng: np.random.Generator, m: int, d: int, kind: str) -> Array | Csr:
    dtype = np.dtype(kind.split()[-1])
    X = (rng.standard_normal((m, d)) * (1 if dtype.kind == "f" else 60) + (0 if dtype.kind == "f" else 100)).clip(0)
    if kind.startswith("csr"):
        X[rng.random((m, d)) < 0.5] = 0
        return as_csr(X.astype(dtype))
    return X.astype(dtype)


def pick(rows: Array | Csr, chosen: Any) -> Array | Csr:
    if isinstance(rows, Csr):
        return as_csr(rows.to_scipy().toarray()[chosen])
    return rows[chosen]


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "alone"])
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "int32", "csr float32"])
def test_a_score_has_the_same_bits_wherever_its_row_and_hyperplane_stand(kind: str, wide: bool) -> None:
    rng = np.random.default_rng(5)
    for d in (1, 7, 33, 130, 784):
        rows = plain_rows(rng, 150, d, kind)
        W = rng.standard_normal((7, d))
        together = kernels.scores(rows, W, wide)
        for _ in range(8):
            chosen = rng.permutation(150)[: rng.integers(1, 150)]
            planes = rng.permutation(7)[: rng.integers(1, 8)]
            got = kernels.scores(pick(rows, chosen), W[planes], wide)
            np.testing.assert_array_equal(got, together[np.ix_(chosen, planes)])


@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "int32", "csr float32"])
def test_scores_are_products_and_both_orders_of_addition_are_close(kind: str) -> None:
    rng = np.random.default_rng(6)
    rows = plain_rows(rng, 200, 100, kind)
    W = rng.standard_normal((3, 100))
    X = rows.to_scipy().toarray() if isinstance(rows, Csr) else rows
    wanted = X.astype(np.float64) @ W.T
    scale = np.abs(wanted).max()
    for wide in (True, False):
        np.testing.assert_allclose(kernels.scores(rows, W, wide), wanted, atol=2e-6 * scale)


@pytest.mark.parametrize("wide", [True, False], ids=["wide", "alone"])
@pytest.mark.parametrize("weighted", [False, True], ids=["", "weighted"])
@pytest.mark.parametrize("kind", ["float32", "float64", "uint8", "int32", "csr float32"])
def test_labels_are_taken_by_the_very_bits_that_scores_gives(kind: str, weighted: bool, wide: bool) -> None:
    rng = np.random.default_rng(7)
    m, d = 48, 301
    rows = plain_rows(rng, m, d, kind)
    w = rng.standard_normal((1, d))
    f = kernels.scores(rows, w, wide)[:, 0]
    weight = np.ones(m) if weighted else None
    # with a bias of minus its score a row is at 0, which is label 1; with the next number below it is not
    for bias, label in ((-f, 1), (np.nextafter(-f, -np.inf), 0)):
        _, labels = kernels.losses(
            rows,
            np.repeat(w[None], m, axis=0),
            bias[:, None],
            HINGE,
            np.full(m, OWN),
            weight=weight,
            wide=wide,
            keep=True,
        )
        np.testing.assert_array_equal(np.diag(labels), label)
        alone = [
            kernels.losses(
                rows, w[None], np.full((1, 1), b), HINGE, np.array([OWN]), weight=weight, wide=wide, keep=True
            )
            for b in bias
        ]
        np.testing.assert_array_equal([labels[0, i] for i, (_, labels) in enumerate(alone)], label)
    # two hyperplanes, the second one 0: a tie goes to the first
    pair = np.repeat(np.vstack([w, np.zeros_like(w)])[None], m, axis=0)
    for bias, label in ((-f, 0), (np.nextafter(-f, -np.inf), 1)):
        b = np.column_stack([bias, np.zeros(m)])
        _, labels = kernels.losses(rows, pair, b, HINGE, np.full(m, OWN), weight=weight, wide=wide, keep=True)
        np.testing.assert_array_equal(np.diag(labels), label)


@pytest.mark.parametrize("K", [1, 4])
def test_sparse_rows_give_what_the_same_dense_rows_give(K: int) -> None:
    rng = np.random.default_rng(8)
    rows = plain_rows(rng, 500, 60, "csr float32")
    assert isinstance(rows, Csr)
    X = rows.to_scipy().toarray()
    W, b = rng.standard_normal((3, K, 60)), rng.standard_normal((3, K))
    for wide in (True, False):
        dense, labels = kernels.losses(X, W, b, HINGE, np.full(3, OWN), wide=wide, keep=True)
        thin, thin_labels = kernels.losses(rows, W, b, HINGE, np.full(3, OWN), wide=wide, keep=True)
        np.testing.assert_array_equal(thin_labels, labels)
        for one, other in zip(thin, dense, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max(), rtol=1e-5)


def test_bytes_are_summed_like_the_same_numbers_in_float32() -> None:
    rng = np.random.default_rng(9)
    rows = plain_rows(rng, 1000, 50, "uint8")
    assert isinstance(rows, np.ndarray)
    W, b = rng.standard_normal((4, 3, 50)) / 100, rng.standard_normal((4, 3))
    for modes in (np.full(4, OWN), np.full(4, NEAREST)):
        as_bytes = kernels.losses(rows, W, b, HINGE, modes, keep=True)
        as_floats = kernels.losses(rows.astype(np.float32), W, b, HINGE, modes, keep=True)
        assert_same(as_bytes, as_floats)


# ---------------------------------------------------------------------------------------- moments and distances


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_moments_and_distances_are_those_of_numpy(kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(10)
    rows, X = exact_rows(rng, 77, 6, kind)
    shift, inverse = rng.integers(-8, 9, 6) / 8.0, rng.random(6)
    weight = rng.integers(0, 5, 77) / 2.0 if weighted else None
    omega = np.ones(77) if weight is None else weight
    first, second = kernels.moments(rows, shift, weight)
    np.testing.assert_array_equal(first, omega @ (X - shift))
    np.testing.assert_array_equal(second, omega @ (X - shift) ** 2)
    squared = kernels.squared_distances(rows, shift, inverse)
    np.testing.assert_allclose(squared, (((X - shift) * inverse) ** 2).sum(axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_weighted_sums_are_products(kind: str) -> None:
    rng = np.random.default_rng(11)
    rows, X = exact_rows(rng, 300, 7, kind)
    coef = rng.integers(-8, 9, (300, 4)) / 4.0
    np.testing.assert_array_equal(kernels.weighted_sum(rows, coef), coef.T @ X)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_constant_sparse_feature_has_no_moments_about_itself(weighted: bool) -> None:
    rng = np.random.default_rng(12)
    X = np.full((50_000, 1), 0.1)
    weight = rng.random(50_000) if weighted else None
    first, second = kernels.moments(as_csr(X), np.array([0.1]), weight)
    assert first[0] == 0
    assert second[0] == 0


def test_a_row_at_the_centre_is_at_distance_0_and_never_below() -> None:
    X = np.random.default_rng(13).random((20, 30)) * 1e3
    for i in range(20):
        squared = kernels.squared_distances(as_csr(X), X[i], np.full(30, 0.37))
        assert squared.min() >= 0
        assert squared[i] < 1e-9 * squared.max()


def test_the_compute_type_is_float32_where_a_tile_of_it_is_exact() -> None:
    assert {str(np.dtype(kernels.compute_dtype(np.dtype(t)))) for t in ("f4", "u1", "u2", "i1", "i2", "?")} == {
        "float32"
    }
    assert {str(np.dtype(kernels.compute_dtype(np.dtype(t)))) for t in ("f8", "u4", "i4", "i8")} == {"float64"}
