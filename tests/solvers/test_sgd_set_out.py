"""Where w = 0 costs less than the hyperplane of a start: C that is raised, starts that are kept, and same bits."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
from numpy.typing import NDArray
from outcomes import bits
from stops import Stop, stop_after

import dmmc
from dmmc import ClusteringWarning, ConvergenceWarning, StochasticMMC
from dmmc.data import blocks
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.model.geometry import Geometry
from dmmc.model.losses import Compact, Hinge, PiecewiseLinear, Ramp, RobustCompact
from dmmc.solvers.sgd_set_out import CLEAR, SCALES, set_out
from dmmc.solvers.sgd_state import Point, Problem, Run, epochs_to_fit

Array = NDArray[Any]


def far_apart(n: int, d: int, seed: int = 0, reach: float = 5.0) -> tuple[Array, Array]:
    """Gaussian rows, but for the first column, which is the cluster: many more columns than that one."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.standard_normal((n, d))
    X[:, 0] = reach * (2 * y - 1)
    return X, y


def error(labels: Array, y: Array) -> float:
    return float(dmmc.score(labels, y)["purity_error"])


def objective(model: StochasticMMC, X: Array) -> float:
    """½|w|² + C mean loss(|f|) of a model, by the definition."""
    unit = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    paid = model._choose_loss().table.value(np.abs(model.decision_function(X))).mean()
    return float(0.5 * ((model.coef_ * unit) ** 2).sum() + model.choices_["C"] * paid)


class Dent(PiecewiseLinear):
    """A loss of the user's own that is flat where |f| is below 0.7."""

    knots = (0.7, 1.0)
    intercepts = (0.6, 2.0, 0.0)
    slopes = (0.0, -2.0, 0.0)


@pytest.mark.parametrize(
    "params",
    [
        {"loss": "hinge"},
        {"loss": "compact"},
        {"loss": "robust-compact"},
        {"loss": "ramp"},
        {"loss": "ramp", "ramp": "cccp"},
        {"loss": "ramp", "init": "cpmmc"},
        {"loss": "ramp", "ramp": "cccp", "init": "cpmmc"},
        {"loss": "ramp", "s": -0.9},
        {"loss": "ramp", "step": "paper"},
        {"loss": "robust-compact", "tau": 0.5},
        {"loss": "robust-compact", "tau": 0.0},
        {"loss": Dent()},
    ],
    ids=str,
)
def test_no_loss_collapses_in_many_dimensions(params: dict[str, Any]) -> None:
    X, y = far_apart(600, 2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClusteringWarning)
        model = StochasticMMC(random_state=0, **{"n_init": 1, **params}).fit(X)
    assert error(model.labels_, y) <= 0.01
    assert model.objective_ == pytest.approx(objective(model, X), rel=1e-4)
    loss = model._choose_loss().table
    assert model.objective_ < model.choices_["C"] * float(loss.value(0.0))
    raised = params["loss"] not in ("hinge", "compact") and not (
        params["loss"] == "robust-compact" and len(params) == 1
    )
    assert (model.choices_["C"] > 30.0) == raised


@pytest.mark.parametrize("seed", range(3))
def test_clusters_are_found_whatever_the_rows_and_the_restarts(seed: int) -> None:
    X, y = far_apart(200, 1500, seed, reach=6.0)
    for params in ({"loss": "ramp"}, {"loss": "robust-compact", "tau": 0.4}):
        assert error(StochasticMMC(random_state=seed, **params).fit(X).labels_, y) <= 0.01


@pytest.mark.parametrize("C", [1.0, 30.0])
@pytest.mark.parametrize(
    "params", [{"loss": "ramp"}, {"loss": "ramp", "ramp": "cccp"}, {"loss": "robust-compact", "tau": 0.5}]
)
def test_where_a_given_C_is_too_small_the_start_is_kept_and_the_user_is_told(C: float, params: dict[str, Any]) -> None:
    X, y = far_apart(600, 2000)
    with pytest.warns(ClusteringWarning, match=rf"at C={C:g} .* the hyperplane fitted to the start was kept"):
        model = StochasticMMC(C=C, n_init=2, random_state=0, **params).fit(X)
    assert model.choices_["C"] == C
    assert error(model.labels_, y) <= 0.01
    assert model.objective_ == pytest.approx(objective(model, X), rel=1e-4)
    assert model.objective_ >= C * float(model._choose_loss().table.value(0.0))
    assert model.choices_["ended"] == "converged"


@pytest.mark.parametrize("epochs", [1, 2, epochs_to_fit(300)])
def test_where_not_even_the_start_was_fitted_the_user_is_told_too(epochs: int) -> None:
    X, _ = far_apart(300, 1500)
    with pytest.warns(
        ClusteringWarning, match=r"less without any hyperplane \(0.5\) .* 20 epochs: .*, or choose a lar"
    ):
        model = StochasticMMC(loss="ramp", C=1.0, max_iter=epochs, random_state=0).fit(X)
    assert model.objective_ >= 0.5
    with pytest.warns(ClusteringWarning, match=r"20 epochs: allow more of them \(max_iter\)\.$"):
        StochasticMMC(loss="ramp", max_iter=epochs, random_state=0).fit(X)


@pytest.mark.parametrize("epochs", [2, 100])
def test_splits_of_a_tree_say_once_that_C_is_too_small(epochs: int) -> None:
    X, _ = far_apart(300, 1500)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        StochasticMMC(3, loss="ramp", C=1.0, max_iter=epochs, random_state=0).fit(X)
    assert sum("less without any hyperplane" in str(one.message) for one in told) == 1


@pytest.mark.parametrize("loss", ["hinge", "ramp", "compact", "robust-compact"])
def test_a_short_fit_that_costs_less_than_nothing_is_not_complained_of(loss: str) -> None:
    X, _ = data_sets.pair(*data_sets.load("digits"), 3, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ClusteringWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        StochasticMMC(loss=loss, max_iter=2, random_state=0).fit(X)


@pytest.mark.parametrize("C", [1.0, 40.0, 150.0])
@pytest.mark.parametrize("loss", ["hinge", "ramp", "compact", "robust-compact"])
def test_the_result_costs_no_more_than_its_start(loss: str, C: float) -> None:
    X, y = far_apart(350, 1500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        start, model = (
            StochasticMMC(loss=loss, C=C, init=y, max_iter=epochs, random_state=0).fit(X)
            for epochs in (epochs_to_fit(350), 100)
        )
    assert model.objective_ <= start.objective_ + 1e-9
    assert error(model.labels_, y) == 0.0


@pytest.mark.parametrize("loss", ["hinge", "ramp", "compact", "robust-compact"])
@pytest.mark.parametrize("digits", [(3, 8), (0, 1), (1, 7)])
def test_in_few_dimensions_C_stays_what_it_is(loss: str, digits: tuple[int, int]) -> None:
    X, _ = data_sets.pair(*data_sets.load("digits"), *digits)
    assert StochasticMMC(loss=loss, random_state=0, n_init=1).fit(X).choices_["C"] == 30.0


@pytest.mark.slow
@pytest.mark.parametrize("pair", [(0, 1), (0, 3), (1, 2)])
def test_texts_are_told_apart_as_well_as_by_the_hinge(load: Callable[[str], Any], pair: tuple[int, int]) -> None:
    X, y = data_sets.pair(*load("newsgroups_rec"), *pair)
    hinge = dmmc.score(StochasticMMC(n_init=1, random_state=0).fit(X).labels_, y)["accuracy"]
    for params in ({"loss": "ramp"}, {"loss": "ramp", "ramp": "cccp"}, {"loss": "robust-compact", "tau": 0.5}):
        found = StochasticMMC(n_init=1, random_state=0, **params).fit(X)  # type: ignore[arg-type]
        assert dmmc.score(found.labels_, y)["accuracy"] >= hinge - 0.01


@pytest.mark.parametrize("batch", [1, 50, 300])
@pytest.mark.parametrize(
    "params", [{"loss": "ramp"}, {"loss": "ramp", "C": 30.0}, {"loss": "robust-compact", "tau": 0.5}]
)
def test_a_stream_does_not_lose_the_clusters_either(batch: int, params: dict[str, Any]) -> None:
    X, y = far_apart(900, 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClusteringWarning)
        model = StochasticMMC(random_state=0, n_init=1, **params).partial_fit(X[:300])
        C = model.choices_["C"]
        for first in range(300, 400 if batch == 1 else 900, batch):
            model.partial_fit(X[first : first + batch])
    assert model.choices_["C"] == C
    assert error(model.predict(X), y) <= 0.01


def test_a_tree_of_many_dimensions_is_a_tree_of_its_clusters() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(240) % 3
    X = rng.standard_normal((240, 800))
    X[:, :3] += 9.0 * np.eye(3)[truth]
    model = StochasticMMC(3, loss="ramp", random_state=0).fit(X)
    assert dmmc.score(model.labels_, truth)["accuracy"] >= 0.99


# ----------------------------------------------------------------------------------------------- the C that is found


@pytest.mark.parametrize("loss", [Ramp(), Ramp(-0.9), RobustCompact(0.5), RobustCompact(0.0)], ids=repr)
def test_C_is_the_least_at_which_a_start_costs_clearly_less_than_nothing(loss: Any) -> None:
    X, y = far_apart(80, 300)
    mean = X.mean(axis=0)
    unit = np.full(300, np.sqrt(((X - mean) ** 2).sum(axis=1).mean()))
    Z = (X - mean) / unit
    problem = Problem(loss, 2.0, 0.03, 0.01, 0.0, 1.0, Geometry(mean, unit, 80.0, False, ""), 0, None, False, 3, True)
    fits = [Point(size * (2.0 * y - 1.0) @ Z, 0.01) for size in (0.1, 0.05)]
    fits.append(Point(0.1 * np.random.default_rng(0).standard_normal(80) @ Z, 0.0))  # worse ones do not count
    runs = tuple(Run(number, None, fit, fit, fit, fit, 3) for number, fit in enumerate(fits))  # type: ignore[arg-type]
    with Local(open_dataset(X), 1) as engine:
        found = set_out(runs, problem, engine.run)

    def cost(point: Point, C: float) -> float:
        return float(0.5 * point.w @ point.w + C * loss.value(np.abs(Z @ point.w + point.b)).mean())

    C = 2.0 * found[0].raised
    assert C > 2.0
    scaled = [Point(c * fit.w, float(np.clip(c * fit.b, -0.03, 0.03))) for fit in fits for c in SCALES]
    least = CLEAR * float(loss.value(0.0))
    assert min(cost(point, C) / C for point in scaled) == pytest.approx(least, rel=1e-6)
    assert all(cost(point, 0.9 * C) > 0.9 * C * least for point in scaled)
    for run, first in zip(found, range(0, len(scaled), len(SCALES)), strict=True):
        lowest = min(cost(point, C) for point in scaled[first : first + len(SCALES)])
        if lowest < C * loss.value(0.0):
            assert cost(run.at, C) == pytest.approx(lowest, rel=1e-6)
    assert {run.raised for run in found} == {found[0].raised}
    assert all(run.late == 3.0 for run in found)


@pytest.mark.parametrize(
    ("loss", "is_flat"),
    [
        (Hinge(), False),
        (Compact(), False),
        (Ramp(), True),
        (Ramp(0.0), False),
        (RobustCompact(0.5), True),
        (RobustCompact(0.2), False),
        (RobustCompact(0.0), True),
        (Dent(), True),
    ],
    ids=repr,
)
def test_a_loss_is_flat_where_no_row_near_the_hyperplane_pulls(loss: Any, is_flat: bool) -> None:
    geometry = Geometry(np.zeros(1), np.ones(1), 1.0, False, "")
    problem = Problem(loss, 30.0, 0.03, 0.01, 0.05, 1.0, geometry, 0, None, False, 3, True)
    assert problem.is_flat == is_flat
    by_hand = [0.95 * loss.value(b) + 0.05 * loss.value(-b) for b in np.linspace(0.0, 0.03, 31)]
    assert problem.nothing == pytest.approx(min(by_hand), abs=1e-12)


# --------------------------------------------------------------------------------------------------------- same bits


@pytest.mark.parametrize("params", [{"method": "rmmc-sg"}, {"method": "rcmmc-sg", "tau": 0.5, "n_init": 2}], ids=str)
def test_threads_and_an_interruption_leave_the_bits_as_they_are(
    params: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(blocks, "ONE_BLOCK", 8 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 16 * 1024)
    X = far_apart(600, 300, reach=1.5)[0].astype(np.float32)
    assert len(open_dataset(X).blocks) > 3
    whole = dmmc.fit(X, 2, n_jobs=1, **params)
    assert whole.choices["C"] > 30.0
    assert bits(dmmc.fit(X, 2, n_jobs=4, **params)) == bits(whole)
    out, n = tmp_path / "out", len(whole.history)
    for stop in (n // 3, n // 2):
        with pytest.raises(Stop):
            dmmc.fit(X, 2, out=out, resume=out.exists(), callbacks=stop_after(stop), **params)
    assert bits(dmmc.fit(X, 2, out=out, resume=True, **params)) == bits(whole)
    assert dmmc.load(out).choices_["C"] == whole.choices["C"]
