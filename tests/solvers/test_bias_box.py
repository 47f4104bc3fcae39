"""Where biases are bounded: around 0, or around those that the start's labels want."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from given_labels import search
from numpy.typing import NDArray

from dmmc import CuttingPlaneMMC
from dmmc.master.norms import FROBENIUS, TRACE_NORM, Norm
from dmmc.solvers.cutting_plane_state import Run

Array = NDArray[Any]
BALANCE = 0.03


def clouds(centres: list[list[float]], sizes: list[int]) -> tuple[Array, Array]:
    """Round clouds of standard deviation 1."""
    rng = np.random.default_rng(0)
    cloud = np.repeat(np.arange(len(sizes)), sizes)
    return rng.standard_normal((len(cloud), len(centres[0]))) + np.array(centres)[cloud], cloud


IN_A_ROW = clouds([[-6, 0, 0], [0, 0, 0], [6, 0, 0]], [60, 60, 60])
UNEVEN = clouds([[5, 0, 0, 0], [0, 5, 0, 0], [0, 0, 5, 0]], [240, 30, 30])
EVEN = clouds([[5, 0, 0], [0, 5, 0], [0, 0, 5]], [60, 60, 60])


def runs(rows: tuple[Array, Array], norm: Norm = FROBENIUS, **options: Any) -> list[Run]:
    """The run from true labels after each step."""
    X, y = rows
    return [state.runs[0] for state in search(X, y, 3, norm, **{"C": 100.0, "epsilon": 1e-3, **options})]


def fit_labels(rows: tuple[Array, Array], norm: Norm, **options: Any) -> float:
    """The objective of the true labels, at the best hyperplanes."""
    return next(run for run in runs(rows, norm, **options) if run.relabel).leader.value


@pytest.mark.parametrize("norm", [FROBENIUS, TRACE_NORM])
@pytest.mark.parametrize("rows", [IN_A_ROW, UNEVEN], ids=["in a row", "uneven"])
def test_a_box_that_clusters_pull_at_goes_where_free_biases_would_be(rows: tuple[Array, Array], norm: Norm) -> None:
    tolerance = 0.1
    free = fit_labels(rows, norm, balance=1000.0)
    assert fit_labels(rows, norm, balance=BALANCE) > free + 30 * tolerance
    assert fit_labels(rows, norm, balance=BALANCE, from_start=True) == pytest.approx(free, abs=4 * tolerance)


@pytest.mark.parametrize("rows", [IN_A_ROW, UNEVEN], ids=["in a row", "uneven"])
def test_the_box_stays_once_labels_are_taken_again(rows: tuple[Array, Array]) -> None:
    later = [run for run in runs(rows, balance=BALANCE, from_start=True) if run.rounds]
    centre = later[0].centre
    assert np.ptp(centre) > 1
    for run in later:
        np.testing.assert_array_equal(run.centre, centre)
        assert np.ptp(run.at.b - centre) <= BALANCE + 1e-9
        assert run.reach == 0


def test_even_clusters_do_not_move_the_box() -> None:
    moving, fixed = (runs(EVEN, balance=BALANCE, from_start=moves) for moves in (True, False))
    assert len(moving) == len(fixed)
    for one, other in zip(moving, fixed, strict=True):
        assert one.centre.size == 0
        np.testing.assert_array_equal(one.at.W, other.at.W)
        np.testing.assert_array_equal(one.at.b, other.at.b)


def mean_scores_differ(**options: Any) -> float:
    """By how much the mean scores of two clusters do; over centred rows these are the biases."""
    X, y = IN_A_ROW
    model = CuttingPlaneMMC(3, random_state=0, scale="none", **{"init": y, **options}).fit(X)
    return float(np.ptp(model.decision_function(X).mean(axis=0)))


def test_biases_follow_the_start_only_where_nobody_said_how_far_they_may_go() -> None:
    assert mean_scores_differ() > 1
    assert mean_scores_differ(balance=BALANCE) <= BALANCE + 1e-9
    assert mean_scores_differ(order="inside") <= BALANCE + 1e-9


def test_random_labels_tell_nothing_of_biases() -> None:
    assert mean_scores_differ(init="random", n_init=1, min_size=0) <= BALANCE + 1e-9
