"""Parameters that are there to do as the papers did: CCCP's stop, pairs as given, CCP, flips, units, outliers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import data_sets
import numpy as np
import pytest
import scipy.sparse

import dmmc
from dmmc import (
    CuttingPlaneMMC,
    EvolutionaryMMC,
    InputError,
    PairwiseMMC,
    StochasticMMC,
    SubspaceMMC,
    from_paper_units,
    score,
)
from dmmc.model.losses import RobustCompact
from dmmc.pairs import closure, io

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")


@pytest.fixture(scope="module")
def digits() -> tuple[Any, Any]:
    return data_sets.pair(*data_sets.load("digits"), 3, 8)


# ------------------------------------------------------------------------------------------------------- CCCP's stop


def test_a_smaller_alpha_takes_labels_more_often_for_each_plane(digits: tuple[Any, Any]) -> None:
    def rounds_a_plane(alpha: float) -> float:
        model = CuttingPlaneMMC(alpha=alpha, init="random", n_init=1, random_state=0).fit(digits[0])
        planes = [line["planes"] for line in model.history_]
        return model.history_[-1]["round"] / (1 + sum(b > a for a, b in pairwise(planes)))

    assert rounds_a_plane(0.0) > rounds_a_plane(0.9)


@pytest.mark.parametrize("method", [CuttingPlaneMMC, SubspaceMMC])
def test_a_wrong_alpha_is_refused(method: Any, digits: tuple[Any, Any]) -> None:
    with pytest.raises(InputError, match=r"alpha is 1\.5; a number of at least 0 and below 1"):
        method(alpha=1.5).fit(digits[0])


# ------------------------------------------------------------------------------------------------------------- pairs


def test_given_pairs_alone_are_those_that_were_given() -> None:
    links = io.read([(0, 1, "must"), (2, 1, "must"), (2, 3, "cannot")])
    taken, closed = closure.take_links(links), closure.close_links(links, 2)
    assert taken.rows.tolist() == [0, 1, 2, 3]
    assert taken.must.ends.tolist() == [[0, 1], [1, 2]]
    assert taken.cannot.ends.tolist() == [[2, 3]]
    assert taken.must.weight.tolist() == [1.0, 1.0]
    assert len(closed.must.ends) == 3  # 0 with 2 follows
    assert len(closed.cannot.ends) == 3


def test_without_closure_the_objective_is_that_of_the_given_pairs(digits: tuple[Any, Any]) -> None:
    X, y = digits
    X = (X - X.mean(axis=0)) / np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    chain = [(i, i + 1, "must" if y[i] == y[i + 1] else "cannot") for i in range(12)]
    C, C_pairs = 20.0, 7.0
    model = PairwiseMMC(C=C, C_pairs=C_pairs, closure=False, start="given", random_state=0).fit(X, constraints=chain)
    w, b = model.coef_[0], model.intercept_[0]
    f = X @ w + b
    must = [abs(f[i] - f[j]) for i, j, link in chain if link == "must"]
    cannot = [abs(f[i] + f[j]) for i, j, link in chain if link == "cannot"]
    wanted = 0.5 * w @ w + C * np.maximum(0, 1 - np.abs(f)).mean() + C_pairs * (np.mean(must) + np.mean(cannot))
    assert model.objective_ == pytest.approx(wanted, rel=1e-6)


def test_a_given_start_makes_no_other_search(digits: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = digits
    pairs = [(i, i + 40, "must" if y[i] == y[i + 40] else "cannot") for i in range(40)]

    def refuse(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(PairwiseMMC, "_search_without_links", refuse)
    model = PairwiseMMC(start="given", random_state=0).fit(X, constraints=pairs)
    assert score(model.labels_, y)["accuracy"] > 0.9
    with pytest.raises(AssertionError):
        PairwiseMMC(random_state=0).fit(X, constraints=pairs[:2])


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [({"closure": "no"}, "closure is 'no'; True or False is wanted."), ({"start": "mine"}, "start is 'mine'")],
)
def test_a_wrong_choice_about_pairs_is_refused(asked: dict[str, Any], sentence: str, digits: tuple[Any, Any]) -> None:
    with pytest.raises(InputError, match=sentence):
        PairwiseMMC(**asked).fit(digits[0])


# -------------------------------------------------------------------------------------------------------------- CCP


def test_the_parts_of_the_robust_compact_loss_are_convex_and_concave_and_add_up_to_it() -> None:
    for tau in (0.0, 0.2, 0.4):
        loss = RobustCompact(tau)
        f = np.linspace(-3, 3, 601)
        convex, concave = (part.value(np.abs(f)) for part in loss.split)
        assert (np.diff(convex, 2) >= -1e-9).all()
        assert (np.diff(concave, 2) <= 1e-9).all()
        np.testing.assert_allclose(np.ptp(convex + concave - loss.value(np.abs(f))), 0.0, atol=1e-9)


def test_ccp_for_the_robust_compact_loss_comes_to_the_clusters_of_descending_on_it(digits: tuple[Any, Any]) -> None:
    X, y = digits
    ways = {ramp: StochasticMMC(loss="robust-compact", ramp=ramp, random_state=0).fit(X) for ramp in ("direct", "cccp")}
    assert "round" in ways["cccp"].history_[-1]
    assert "round" not in ways["direct"].history_[-1]
    assert score(ways["cccp"].labels_, ways["direct"].labels_)["accuracy"] > 0.97
    assert ways["cccp"].objective_ == pytest.approx(ways["direct"].objective_, rel=0.1)
    assert score(ways["cccp"].labels_, y)["accuracy"] > 0.93


# ----------------------------------------------------------------------------------------------------------- evolution


def test_one_flip_throughout_changes_one_sign_or_a_pair_each_generation(digits: tuple[Any, Any]) -> None:
    def evolved(generations: int, **params: Any) -> Any:
        asked = {"mutation": "paper", "n_init": 1, "random_state": 0, "balance": 0.03, "offspring": 1, **params}
        return EvolutionaryMMC(population=1, generations=generations, **asked).fit(digits[0])

    first = evolved(1, flips=1)
    for generations in range(2, 8):
        now = evolved(generations, flips=1)
        apart = int(np.count_nonzero(first.evolved_labels_ != now.evolved_labels_))
        assert min(apart, len(digits[0]) - apart) <= 2
        assert now.objective_ <= first.objective_
        assert now.history_[-1]["generation"] == generations
        first = now


def test_as_many_generations_are_made_as_are_asked_for(digits: tuple[Any, Any]) -> None:
    asked = {"mutation": "paper", "rank": 30, "n_init": 2, "random_state": 1}
    model = EvolutionaryMMC(generations=1000, flips=1, **asked).fit(digits[0])
    assert model.history_[-1]["generation"] == 1000
    assert EvolutionaryMMC(generations=2000, flips=1, **asked).fit(digits[0]).objective_ <= model.objective_


def test_flips_without_the_published_mutation_are_refused(digits: tuple[Any, Any]) -> None:
    with pytest.raises(InputError, match="flips is 1, but mutation='sweeps' has no such thing"):
        EvolutionaryMMC(flips=1).fit(digits[0])


# ------------------------------------------------------------------------------------------------ units and outliers


@pytest.mark.parametrize("sparse", [False, True])
def test_paper_units_say_what_the_paper_would_minimise(sparse: bool, digits: tuple[Any, Any]) -> None:
    X, _ = digits
    params = from_paper_units(scipy.sparse.csr_array(X) if sparse else X, C=0.02, l=10)
    assert params["balance"] == pytest.approx(10 / len(X))
    model = CuttingPlaneMMC(random_state=0, **params).fit(X)
    w, f = model.coef_[0], X @ model.coef_[0] + model.intercept_[0]
    theirs = 0.5 * w @ w + 0.02 * np.maximum(0, 1 - np.abs(f)).mean()
    ours = theirs * ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert model.objective_ == pytest.approx(ours, rel=1e-6)
    assert abs(f.sum()) <= 10 * (1 + 1e-9)


def test_units_that_were_not_asked_for_are_left_out_and_wrong_ones_refused(digits: tuple[Any, Any]) -> None:
    assert from_paper_units(digits[0]) == {"scale": "none", "outliers": "keep"}
    with pytest.raises(InputError, match="l is 357 for 357 rows; less than one a row is wanted"):
        from_paper_units(digits[0], l=357)
    with pytest.raises(InputError, match="C is 0; a number above 0 is wanted"):
        from_paper_units(digits[0], C=0)


def test_outliers_keep_their_weight_where_that_is_asked_for() -> None:
    X, _ = data_sets.with_outliers(0, 400, 0.02)
    kept = CuttingPlaneMMC(outliers="keep", min_size=0, random_state=0).fit(X)
    rho = np.sqrt(((X - X.mean(axis=0)) ** 2).sum(axis=1).mean())
    f = X @ kept.coef_[0] + kept.intercept_[0]
    wanted = 0.5 * rho**2 * kept.coef_[0] @ kept.coef_[0] + 30.0 * np.maximum(0, 1 - np.abs(f)).mean()
    assert kept.objective_ == pytest.approx(wanted, rel=1e-6)
    with pytest.warns(dmmc.ClusteringWarning, match="times as far out"):
        CuttingPlaneMMC(random_state=0).fit(X)
