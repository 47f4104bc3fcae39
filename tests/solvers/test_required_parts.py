"""A solver names the parts of a loss or a norm that it needs, and says in a sentence which one is missing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from dmmc.errors import InputError
from dmmc.model.losses import Compact, Hinge, PiecewiseLinear, Ramp, RobustCompact
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.required_parts import check_parts
from dmmc.solvers.sgd import Stochastic


@dataclass(frozen=True)
class Steep(PiecewiseLinear):
    """max(0, 2 - 2 t)."""

    knots = (1.0,)
    intercepts = (2.0, 0.0)
    slopes = (-2.0, 0.0)


@dataclass(frozen=True)
class Capped(PiecewiseLinear):
    """min(1, max(0, 1 - t)): convex where margins are at least 0."""

    knots = (0.0, 1.0)
    intercepts = (1.0, 1.0, 0.0)
    slopes = (0.0, -1.0, 0.0)


@dataclass(frozen=True)
class Bare:
    """A table and nothing else."""

    table = Hinge().table


@pytest.mark.parametrize("loss", [Hinge(), Steep(), Capped()])
@pytest.mark.parametrize("k", [2, 5])
def test_cutting_planes_take_losses_that_are_convex_and_fall_with_the_margin(loss: PiecewiseLinear, k: int) -> None:
    CuttingPlane.check_loss(loss, k)


def test_of_two_clusters_cutting_planes_take_a_convex_loss_that_rises_again() -> None:
    CuttingPlane.check_loss(Compact(), 2)
    with pytest.raises(InputError, match=r"the loss Compact\(zeta=0.3\) .* rises with the margin; the cutting-plane"):
        CuttingPlane.check_loss(Compact(), 3)


@pytest.mark.parametrize("loss", [Ramp(), RobustCompact()])
def test_cutting_planes_refuse_a_loss_that_is_not_convex(loss: PiecewiseLinear) -> None:
    with pytest.raises(InputError, match="is not convex for margins above 0, which the cutting-plane solver needs"):
        CuttingPlane.check_loss(loss, 2)


def test_a_missing_part_is_named_with_the_loss_and_the_solver() -> None:
    words = r"the loss Bare\(\) has no `surrogate` \(the convex loss at fixed labels\), which the {} solver needs."
    with pytest.raises(InputError, match=words.format("cutting-plane")):
        CuttingPlane.check_loss(Bare(), 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=words.format("stochastic gradient")):
        Stochastic.check_loss(Bare(), cccp=False)  # type: ignore[arg-type]


def test_cccp_needs_the_two_parts_of_a_loss() -> None:
    class Whole(Bare):
        surrogate = Hinge().table

    Stochastic.check_loss(Whole(), cccp=False)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"has no `split` .*, which the stochastic gradient solver with CCCP needs"):
        Stochastic.check_loss(Whole(), cccp=True)  # type: ignore[arg-type]


def test_a_norm_without_a_master_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"the norm 3.0 has no `cost` \(what W costs\), which the cutting-plane solver"
    ):
        check_parts("norm", np.float64(3.0).item(), "the cutting-plane solver", CuttingPlane.norm_parts)
