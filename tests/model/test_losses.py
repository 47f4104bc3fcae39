"""Every loss that is registered, and one that a newcomer might add."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dmmc import kernels
from dmmc.data.blocks import Csr
from dmmc.errors import InputError
from dmmc.model.losses import LOSSES, Compact, Hinge, PiecewiseLinear, Ramp, RobustCompact, Table, resolve_loss


@dataclass(frozen=True)
class Capped(PiecewiseLinear):
    """min(2, max(0, 1 - t)): a loss that is not registered."""

    knots = (-1.0, 1.0)
    intercepts = (2.0, 1.0, 0.0)
    slopes = (0.0, -1.0, 0.0)


ALL = {**LOSSES, "a newcomer's ramp": Capped(), "a gentle ramp": Ramp(-0.1), "wells that overlap": RobustCompact(0.4)}
margins = st.floats(-50, 50)

every_loss = pytest.mark.parametrize("loss", ALL.values(), ids=list(ALL))


@every_loss
def test_the_table_has_one_piece_more_than_knots_and_its_knots_rise(loss: PiecewiseLinear) -> None:
    knots, intercepts, slopes = loss.table
    assert len(intercepts) == len(slopes) == len(knots) + 1
    assert np.all(np.diff(knots) > 0)
    assert {part.dtype for part in loss.table} == {np.dtype(np.float64)}


@every_loss
def test_the_pieces_meet_at_the_knots(loss: PiecewiseLinear) -> None:
    knots, intercepts, slopes = loss.table
    np.testing.assert_allclose(intercepts[:-1] + slopes[:-1] * knots, intercepts[1:] + slopes[1:] * knots, atol=1e-12)


@every_loss
@given(t=margins)
def test_the_derivative_is_the_slope_of_the_value_away_from_knots(loss: PiecewiseLinear, t: float) -> None:
    step = 1e-4
    if np.abs(np.asarray(loss.table.knots) - t).min() > 2 * step:
        slope = (loss.value(t + step) - loss.value(t - step)) / (2 * step)
        assert loss.derivative(t) == pytest.approx(float(slope), abs=1e-8)


@every_loss
@given(t=margins)
def test_the_table_read_piece_by_piece_gives_value_and_derivative(loss: PiecewiseLinear, t: float) -> None:
    knots, intercepts, slopes = loss.table
    piece = sum(knot <= t for knot in knots)
    assert loss.value(t) == intercepts[piece] + slopes[piece] * t
    assert loss.derivative(t) == slopes[piece]


@every_loss
def test_a_loss_is_never_negative_and_does_not_rise_with_the_margin_before_it_is_1(loss: PiecewiseLinear) -> None:
    t = np.linspace(-20, 20, 4001)
    assert np.all(loss.value(t) >= 0)
    assert np.all(np.diff(loss.value(t[t <= 1])) <= 1e-12)
    assert loss.value(1.0) == pytest.approx(0.0, abs=1e-12)


@every_loss
def test_where_labels_are_given_a_loss_is_convex_and_the_same_around_its_minimum(loss: PiecewiseLinear) -> None:
    t = np.linspace(-20, 20, 4001)
    convex = loss.surrogate
    assert np.all(np.diff(convex.value(t), 2) >= -1e-9)
    near = t[(t >= 0.7) & (t <= 1.5)]
    np.testing.assert_allclose(convex.value(near), loss.value(near), atol=1e-12)


def test_the_surrogate_of_a_ramp_is_the_hinge_and_that_of_a_capped_well_the_well() -> None:
    for loss, other in ((Ramp(-0.3), Hinge()), (Capped(), Hinge()), (RobustCompact(0.15), Compact(0.15))):
        for part, wanted in zip(loss.surrogate, other.table, strict=True):
            np.testing.assert_array_equal(part, wanted)


@every_loss
def test_a_loss_is_the_sum_of_a_convex_and_a_concave_function_of_the_score(loss: PiecewiseLinear) -> None:
    f = np.linspace(-20, 20, 4001)
    convex, concave = (part.value(np.abs(f)) for part in loss.split)
    np.testing.assert_allclose(convex + concave, loss.value(np.abs(f)), atol=1e-12)
    assert np.all(np.diff(convex, 2) >= -1e-9)
    assert np.all(np.diff(concave, 2) <= 1e-9)


# ------------------------------------------------------------------------------------------- names and objects


def test_a_loss_is_found_by_its_name_with_the_parameters_that_it_has() -> None:
    assert resolve_loss("ramp", s=-0.3, zeta=0.1) == Ramp(-0.3)
    assert resolve_loss("hinge", s=-0.3) == Hinge()
    assert resolve_loss("compact") == Compact(0.3)
    assert resolve_loss("robust-compact") == RobustCompact(0.2)


def test_a_loss_of_ones_own_is_taken_as_it_is_or_registered_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Capped()
    assert resolve_loss(own, s=-0.1) is own
    monkeypatch.setitem(LOSSES, "capped", own)
    assert resolve_loss("capped") is own


class Short:
    table = Table(np.array([1.0]), np.array([1.0]), np.array([-1.0]))


class Jump:
    table = Table(np.array([1.0]), np.array([1.0, 1.0]), np.array([-1.0, 0.0]))


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (
            "square",
            f"loss is 'square'; choose one of {', '.join(map(repr, LOSSES))}, or pass a loss object",
        ),
        (3, "loss is 3; choose one of 'hinge'"),
        (Capped, r"loss is the class Capped; an instance is wanted, such as Capped\(\)"),
        (Short(), "holds 1 knots, 1 intercepts and 1 slopes; finite knots in rising order"),
        (Jump(), "jumps at a knot; pieces that meet at the knots are wanted"),
    ],
)
def test_what_is_no_loss_is_refused_in_a_sentence(loss: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        resolve_loss(loss)


@every_loss
def test_the_kernels_charge_what_the_loss_says(loss: PiecewiseLinear) -> None:
    t = np.arange(-40, 41) / 8.0
    sums, _ = kernels.losses(
        t[:, None],
        np.ones((1, 1, 1)),
        np.zeros((1, 1)),
        loss.table,
        np.array([kernels.GIVEN]),
        np.ones((1, len(t)), np.int8),
    )
    assert sums.risk[0] == pytest.approx(loss.value(t).sum(), rel=1e-13)
    assert sums.tilt[0] == -loss.derivative(t).sum()
    assert sums.weighted[0, 0] == -(loss.derivative(t) * t).sum()


@every_loss
def test_a_loss_cannot_be_changed_and_holds_nothing_but_its_pieces_and_a_number_that_shapes_them(
    loss: PiecewiseLinear,
) -> None:
    assert [field.type for field in fields(loss)] in ([], [float])
    with pytest.raises(FrozenInstanceError):
        loss.knots = (2.0,)  # type: ignore[misc]


# ------------------------------------------------------------------- shapes, at named points (docs/mathematics.md)


def ramp_of(t: float, s: float) -> float:
    return min(1.0 - s, max(0.0, 1.0 - t))


def well_of(u: float, tau: float) -> float:
    return min(0.8, max(0.0, abs(u) - tau))


@given(f=margins, s=st.floats(-0.99, 0.0))
def test_the_ramp_is_both_ramps_of_the_paper_less_their_constant(f: float, s: float) -> None:
    assert Ramp(s).value(abs(f)) + (1.0 - s) == pytest.approx(ramp_of(f, s) + ramp_of(-f, s), abs=1e-12)
    assert Ramp(0.0).value(abs(f)) == Hinge().value(abs(f))


def test_the_ramp_at_named_points() -> None:
    ramp = Ramp(-0.5)
    np.testing.assert_allclose(ramp.value([0.0, 0.5, 0.75, 1.0, 3.0]), [0.5, 0.5, 0.25, 0.0, 0.0])
    np.testing.assert_array_equal(ramp.derivative([0.0, 0.4, 0.6, 1.5]), [0.0, 0.0, -1.0, 0.0])


@given(f=margins, zeta=st.floats(0.0, 0.99))
def test_the_compact_loss_is_what_its_formula_says(f: float, zeta: float) -> None:
    assert Compact(zeta).value(abs(f)) == pytest.approx(max(0.0, abs(abs(f) - 1.0) - zeta), abs=1e-12)


def test_the_compact_loss_at_named_points() -> None:
    loss = Compact(0.25)
    np.testing.assert_allclose(loss.value([0.0, 0.75, 1.0, 1.25, 3.0]), [0.75, 0.0, 0.0, 0.0, 1.75])
    np.testing.assert_array_equal(loss.derivative([0.0, 1.0, 2.0]), [-1.0, 0.0, 1.0])


@given(f=margins, tau=st.floats(0.0, 0.5))
def test_the_robust_compact_loss_is_the_papers_plus_its_depth(f: float, tau: float) -> None:
    of_the_paper = well_of(f - 1, tau) + well_of(f + 1, tau) - 3.2
    assert RobustCompact(tau).value(abs(f)) == pytest.approx(of_the_paper + 2.4, abs=1e-12)


def test_the_robust_compact_loss_at_named_points() -> None:
    loss = RobustCompact(0.2)
    # the barrier, the well from .8 to 1.2, and the plateau from 2 on, as high as the barrier
    np.testing.assert_allclose(
        loss.value([0.0, 0.8, 1.0, 1.2, 1.5, 2.0, 100.0]), [0.8, 0, 0, 0, 0.3, 0.8, 0.8], atol=1e-12
    )
    np.testing.assert_array_equal(loss.derivative([0.1, 1.0, 1.5, 3.0]), [-1.0, 0.0, 1.0, 0.0])
    overlapping = RobustCompact(0.4)
    assert overlapping.value(0.0) == pytest.approx(0.4)
    assert overlapping.value(0.0) < overlapping.value(100.0)


@given(t=margins)
def test_the_hinge_is_what_its_formula_says(t: float) -> None:
    assert Hinge().value(t) == max(0.0, 1.0 - t)
    assert Hinge().derivative(1.0) == 0.0


def test_values_of_an_array_are_an_array_of_its_shape() -> None:
    t = np.array([[0.0, 1.0], [2.0, -1.0]])
    np.testing.assert_array_equal(Hinge().value(t), [[1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_array_equal(Hinge().derivative(t), [[-1.0, 0.0], [0.0, -1.0]])


@every_loss
@given(cut=st.integers(0, 200), K=st.sampled_from([1, 3]))
@settings(deadline=None, max_examples=30)
def test_any_split_of_the_rows_adds_up_dense_or_sparse(loss: PiecewiseLinear, cut: int, K: int) -> None:
    rng = np.random.default_rng(cut)
    X = rng.integers(-8, 9, (200, 3)) / 4.0
    W, b = rng.integers(-8, 9, (1, K, 3)) / 4.0, rng.integers(-8, 9, (1, K)) / 4.0

    def sums(rows: Any) -> kernels.Sums:
        return kernels.losses(rows, W, b, loss.table, np.array([kernels.OWN]))[0]

    thin = sparse.csr_array(X)
    csr = Csr(thin.data, thin.indices.astype(np.uint32), thin.indptr.astype(np.int64), 3)
    for whole, left, right, other in zip(sums(X), sums(X[:cut]), sums(X[cut:]), sums(csr), strict=True):
        np.testing.assert_allclose(left + right, whole, atol=1e-9)
        np.testing.assert_allclose(other, whole, atol=1e-9)
