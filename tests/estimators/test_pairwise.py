"""PairwiseMMC: the losses of linked rows against their definitions and a generic solver, and what links are worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray
from sklearn.datasets import make_blobs

import dmmc
from dmmc import InputError, PairwiseMMC, kernels, score
from dmmc.data import blocks
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.master import dual_qp
from dmmc.model.geometry import Geometry, measure
from dmmc.model.losses import LOSSES
from dmmc.model.passes import Given
from dmmc.pairs import closure, io
from dmmc.pairs.losses import CANNOT, MUST, PairLosses, gather_rows
from dmmc.solvers.cutting_plane import CuttingPlane
from dmmc.solvers.cutting_plane_state import Problem
from dmmc.solvers.driver import drive

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

Array = NDArray[Any]
Load = Callable[[str], tuple[Any, Any]]
Pairs = list[tuple[int, int, str]]


def drawn(y: Any, count: int, seed: int) -> Pairs:
    """Random pairs of distinct rows with true links."""
    rng = np.random.default_rng(seed)
    found: dict[tuple[int, int], str] = {}
    while len(found) < count:
        i, j = sorted(rng.integers(len(y), size=2).tolist())
        if i != j:
            found[i, j] = "must" if y[i] == y[j] else "cannot"
    return [(i, j, link) for (i, j), link in found.items()]


def clouds(k: int, n: int = 60, d: int = 4, seed: int = 0) -> tuple[Array, Array]:
    X, y = make_blobs(n, d, centers=k, cluster_std=2.5, center_box=(-4, 4), random_state=seed)
    return X, y


def geometry_of(X: Any) -> Geometry:
    with Local(open_dataset(X), 1) as engine:
        return measure(engine.dataset, engine.rows, "none")[0]


def losses_of(X: Any, pairs: Pairs, k: int, C_must: float = 1.0, C_cannot: float = 1.0) -> PairLosses:
    closed = closure.close_links(io.read(pairs), k)
    dataset = open_dataset(X)
    return PairLosses(gather_rows(dataset, closed.rows), closed.must, closed.cannot, geometry_of(X), C_must, C_cannot)


def by_definition(X: Array, losses: PairLosses, rows: Array, W: Array, b: Array) -> tuple[float, float]:
    """(E14) for one hyperplane, (E15) for several."""
    f = (X - losses.geometry.mean) / losses.geometry.unit @ W.T + b
    must, cannot = losses.must.weight, losses.cannot.weight
    apart = [np.abs(f[rows[i]] - f[rows[j]]).sum() for i, j in losses.must.ends]
    h = [f[rows[i]] + f[rows[j]] for i, j in losses.cannot.ends]
    together = [np.abs(one[0]) if len(W) == 1 else one.max() - one.mean() for one in h]
    return float(np.average(apart, weights=must)), float(np.average(together, weights=cannot))


# ------------------------------------------------------------------------------------------------------- losses


@pytest.mark.parametrize("K", [1, 2, 4])
@pytest.mark.parametrize("sparse", [False, True])
def test_planes_of_links_touch_their_loss_and_are_never_above_it(K: int, sparse: bool) -> None:
    X, y = clouds(max(K, 2))
    pairs, rng = drawn(y, 40, 1), np.random.default_rng(K)
    losses = losses_of(scipy.sparse.csr_array(X) if sparse else X, pairs, max(K, 2))
    rows = closure.close_links(io.read(pairs), max(K, 2)).rows
    points = [(rng.normal(size=(K, X.shape[1])), rng.normal(size=K)) for _ in range(6)]
    wanted = [by_definition(X, losses, rows, *point) for point in points]
    for (W, b), (apart, together) in zip(points, wanted, strict=True):
        assert losses.value(W, b) == pytest.approx(apart + together, rel=1e-9)
        must, cannot = losses.cuts(W, b)
        assert (must.group, cannot.group) == (MUST, CANNOT)
        assert (must.loss, cannot.loss) == pytest.approx((apart, together), rel=1e-9)
        assert not must.tilt.any()
        for cut, p in ((must, 0), (cannot, 1)):
            assert -np.sum(cut.slope * W) - cut.tilt @ b == pytest.approx(cut.loss, abs=1e-9)
            for (other_W, other_b), there in zip(points, wanted, strict=True):
                assert -np.sum(cut.slope * other_W) - cut.tilt @ other_b <= there[p] + 1e-9
            if K > 1:  # the master's condition on tilts
                assert abs(cut.tilt.sum()) < 1e-12


def test_two_clusters_with_two_hyperplanes_pay_what_they_pay_with_one() -> None:
    X, y = clouds(2)
    losses, rng = losses_of(X, drawn(y, 40, 0), 2), np.random.default_rng(0)
    for _ in range(5):
        w, b = rng.normal(size=(1, X.shape[1])), rng.normal(size=1)
        must, cannot = losses.cuts(w, b)
        both = np.vstack([w, -w]) / 2, np.array([b[0], -b[0]]) / 2
        wide_must, wide_cannot = losses.cuts(*both)
        assert wide_must.loss == pytest.approx(must.loss)
        assert wide_cannot.loss == pytest.approx(cannot.loss / 2)
        other = both[0] + rng.normal(size=both[0].shape)  # f1 - f2 is what counts; a common part is paid for
        apart = losses.cuts(other[:1] - other[1:], b)[0].loss
        assert losses.cuts(other, both[1])[0].loss >= apart - 1e-12


def solved(
    X: Any,
    y: Array,
    pairs: Pairs,
    k: int,
    budgets: tuple[float, float, float],
    one_round: bool = False,
    **options: Any,
) -> Any:
    """The search from given labels, down to a small gap; or its first convex problem alone."""
    dataset = open_dataset(X).with_columns(given=y)
    with Local(dataset, 1) as engine:
        geometry, _ = measure(dataset, engine.rows, "none")
        closed = closure.close_links(io.read(pairs), k)
        problem = Problem(
            n_clusters=k,
            C=budgets[0],
            balance=0.1,
            epsilon=1e-7,
            inside=False,
            lowest=0.0,
            highest=1.0,
            geometry=geometry,
            sample=lambda: None,
            loss=LOSSES["hinge"],
            wide=True,
            pairs=PairLosses(gather_rows(dataset, closed.rows), closed.must, closed.cannot, geometry, *budgets[1:]),
            **options,
        )
        solver = CuttingPlane(problem, engine.run)
        state = solver.init([Given()], X.shape[1])
        if not one_round:
            return solver.best(drive(solver, state, max_iter=3000)[0])
        while not state.runs[0].relabel:
            state = solver.step(state)
        return state.runs[0]


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_two_clusters_are_the_same_problem_with_one_hyperplane_or_two(seed: int, summed: bool) -> None:
    X, y = clouds(2, 80, 3, seed)
    pairs = drawn(y, 30, seed)
    binary = solved(X, y, pairs, 2, (10.0, 6.0, 4.0))
    wide = solved(X, y, pairs, 2, (5.0, 3.0, 4.0), k_wide=True, summed=summed)
    assert wide.best.value == pytest.approx(binary.best.value / 2, rel=1e-5)
    np.testing.assert_allclose(wide.best.W[1] - wide.best.W[0], binary.best.W[0], atol=2e-3)


@pytest.mark.parametrize("kind", ["f8", "u1", "csr"])
def test_a_summed_margin_is_the_sum_over_all_other_clusters(kind: str) -> None:
    rng, K = np.random.default_rng(0), 4
    X = rng.integers(0, 9, size=(150, 5)).astype("f8" if kind == "csr" else kind)
    W, b = rng.normal(size=(1, K, 5)) / 5, rng.normal(size=(1, K))
    labels, weight = rng.integers(K, size=(1, 150)).astype(np.int8), rng.random(150)
    rows = open_dataset(scipy.sparse.csr_array(X) if kind == "csr" else X).blocks[0].rows
    table = LOSSES["hinge"].table
    sums, _ = kernels.losses(rows, W, b, table, [kernels.GIVEN], labels, weight=weight, summed=True)
    f = X @ W[0].T + b[0]
    own = np.eye(K, dtype=bool)[labels[0]]
    margins = (f * own).sum(axis=1)[:, None] - f
    inside = np.where(own, 0.0, margins < 1) * weight[:, None]
    coef = own * inside.sum(axis=1)[:, None] - inside
    np.testing.assert_allclose(sums.risk[0], np.sum(inside * (1 - margins)), rtol=1e-5)
    np.testing.assert_allclose(sums.intercept[0], inside.sum(), rtol=1e-6)
    np.testing.assert_allclose(sums.tilt, coef.sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(sums.weighted, coef.T @ X, atol=1e-3)


# ------------------------------------------------------------------------------------ against a generic solver


@pytest.mark.parametrize("seed", range(10))
def test_the_master_of_three_slacks_agrees_with_a_generic_convex_solver(seed: int) -> None:
    cp = pytest.importorskip("cvxpy")
    rng = np.random.default_rng(seed)
    m, d, P = 25, 6, [1, 1, 3, 5][seed % 4]
    groups = np.concatenate([[0, 1, 2], rng.integers(3, size=m - 3)])
    Z, S = 0.4 * rng.normal(size=(m, d)), 0.2 * rng.normal(size=(m, P))
    a = np.where(groups == 0, rng.random(m), 0.0)
    S[groups == MUST] = 0.0
    if P > 1:
        S -= S.mean(axis=1, keepdims=True)
    budgets, box = 30.0 * 10.0 ** rng.uniform(-1, 1, 3), [0.03, 0.5, 1000.0][seed % 3]
    found = dual_qp.solve(Z @ Z.T, a, S, budgets.tolist(), box, None, 1e-9, groups)
    w, b, xi = cp.Variable(d), cp.Variable(P), cp.Variable(3)
    below = [xi >= 0, xi[groups] >= a - Z @ w - S @ b, cp.abs(b) <= box]
    reference = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + budgets @ xi), below)
    reference.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    assert found.value == pytest.approx(reference.value, rel=1e-6, abs=1e-7)
    assert found.lower_bound == pytest.approx(reference.value, rel=1e-6, abs=1e-7)
    np.testing.assert_allclose(found.multipliers @ Z, w.value, atol=1e-4)
    for p in range(3):
        assert found.multipliers[groups == p].sum() <= budgets[p] * (1 + 1e-12)


@pytest.mark.parametrize(("k", "margin"), [(2, "max"), (3, "max"), (3, "sum")])
def test_for_given_labels_a_generic_solver_finds_the_same_optimum(k: int, margin: str) -> None:
    cp = pytest.importorskip("cvxpy")
    X, y = clouds(k, 60, 3, 5)
    pairs = drawn(y, 20, 0)
    found = solved(X, y, pairs, k, (10.0, 1.5, 1.0), one_round=True, summed=margin == "sum")
    closed, geometry = closure.close_links(io.read(pairs), k), geometry_of(X)
    Z, rows = (X - geometry.mean) / geometry.unit, closed.rows
    K = 1 if k == 2 else k
    W, b = cp.Variable((K, X.shape[1])), cp.Variable(K)
    f = Z @ W.T + np.ones((len(X), 1)) @ cp.reshape(b, (1, K), order="C")
    if k == 2:
        margins = [cp.sum(cp.pos(1 - cp.multiply(2.0 * y - 1.0, f[:, 0])))]
    else:
        others = [[f[i, c] - f[i, r] for r in range(k) if r != c] for i, c in enumerate(y)]
        add = cp.sum if margin == "sum" else cp.max
        margins = [add(cp.pos(1 - cp.hstack(leads))) for leads in others]
    apart = cp.sum(cp.abs(f[rows[closed.must.ends[:, 0]]] - f[rows[closed.must.ends[:, 1]]]), axis=1)
    h = f[rows[closed.cannot.ends[:, 0]]] + f[rows[closed.cannot.ends[:, 1]]]
    together = cp.abs(h[:, 0]) if k == 2 else cp.max(h, axis=1) - cp.sum(h, axis=1) / k
    means = [w / w.sum() @ loss for w, loss in ((closed.must.weight, apart), (closed.cannot.weight, together))]
    cost = 0.5 * cp.sum_squares(W) + 10.0 * sum(margins) / len(X) + 1.5 * means[0] + 1.0 * means[1]
    box = [cp.abs(b) <= 0.1] if k == 2 else [b[p] - b[q] <= 0.1 for p in range(k) for q in range(k)]
    reference = cp.Problem(cp.Minimize(cost), box)
    reference.solve(solver="CLARABEL")
    assert reference.value < 0.95 * 10.0 * (k - 1 if margin == "sum" else 1)
    assert found.leader.value == pytest.approx(reference.value, rel=1e-5)
    assert found.bound == pytest.approx(reference.value, rel=1e-5)


# ------------------------------------------------------------------------------------------- what links are worth


@cache
def errors(name: tuple[int, ...], pairs: int, **options: Any) -> list[float]:
    """Purity errors of five draws of true pairs on digits."""
    X, y = data_sets.load("digits")
    chosen = np.isin(y, name)
    X, y = X[chosen], y[chosen]
    found = []
    for seed in range(5):
        model = PairwiseMMC(len(name), random_state=seed, **options).fit(X, constraints=drawn(y, pairs, seed))
        assert np.bincount(model.labels_, minlength=len(name)).min() >= 0.5 * len(y) / len(name)
        np.testing.assert_array_equal(model.predict(X), model.labels_)
        found.append(score(model.labels_, y)["purity_error"])
    print(f"digits {name}, {pairs} pairs {options or ''}: error {100 * np.mean(found):.2f} %")
    return found


@pytest.mark.parametrize(("name", "most"), [((3, 8), 0.025), ((8, 9), 0.035)])
def test_a_hundred_true_pairs_halve_the_errors_on_digits(name: tuple[int, int], most: float) -> None:
    assert np.mean(errors(name, 100)) <= most
    assert np.mean(errors(name, 100)) < np.mean(errors(name, 0))


@pytest.mark.parametrize("margin", ["max", "sum"])
def test_a_hundred_true_pairs_help_to_find_four_digits(margin: str) -> None:
    options = {} if margin == "max" else {"margin": margin}
    assert np.mean(errors((0, 6, 8, 9), 100, **options)) < np.mean(errors((0, 6, 8, 9), 0, **options))


def test_random_starts_with_fifty_pairs_do_not_collapse(load: Load) -> None:
    X, y = data_sets.pair(*load("digits"), 3, 8)
    for seed in range(20):
        model = PairwiseMMC(init="random", n_init=1, random_state=seed).fit(X, constraints=drawn(y, 50, seed))
        assert np.bincount(model.labels_, minlength=2).min() > 0.3 * len(X)
        assert score(model.labels_, y)["purity_error"] < 0.1


def test_new_rows_are_labelled_as_well_as_the_fitted_ones(load: Load) -> None:
    X, y = data_sets.pair(*load("letter"), "A", "B")
    fitted, new = [], []
    for seed in range(5):
        here, there = np.array_split(np.random.default_rng(seed).permutation(len(X)), 2)
        model = PairwiseMMC(random_state=seed).fit(X[here], constraints=drawn(y[here], 100, seed))
        fitted.append(score(model.labels_, y[here])["accuracy"])
        new.append(score(model.predict(X[there]), y[there])["accuracy"])
    print(f"letter A-B, 100 pairs: accuracy {np.mean(fitted):.4f} fitted, {np.mean(new):.4f} new rows")
    assert abs(np.mean(new) - np.mean(fitted)) <= 0.01


def test_without_links_it_is_the_margin_part_alone(load: Load) -> None:
    X, _ = data_sets.pair(*load("digits"), 3, 8)
    alone = PairwiseMMC(epsilon=0.01, random_state=0).fit(X)
    other = dmmc.CuttingPlaneMMC(order="outside", random_state=0).fit(X)
    assert alone.coef_.tobytes() == other.coef_.tobytes()
    assert alone.choices_["must_links"] == alone.choices_["cannot_links"] == 0


def test_the_balance_may_be_off_where_there_is_a_cannot_link() -> None:
    # 15 % of the rows are the other cluster, which |mean f| <= 0.03 does not allow
    X, y = make_blobs([170, 30], 4, centers=[[0] * 4, [6] * 4], random_state=0)
    model = PairwiseMMC(balance=None, random_state=0).fit(X, constraints=drawn(y, 40, 0))
    assert score(model.labels_, y)["accuracy"] == 1.0
    geometry = geometry_of(X)
    planes = model.intercept_ + model.coef_ @ geometry.mean
    assert abs(float(planes[0])) > 0.1


def test_links_work_on_features_and_on_sparse_rows(load: Load) -> None:
    X, y = data_sets.pair(*load("digits"), 3, 8)
    pairs = drawn(y, 60, 0)
    dense = PairwiseMMC(random_state=0).fit(X, constraints=pairs)
    sparse = PairwiseMMC(random_state=0).fit(scipy.sparse.csr_array(X), constraints=pairs)
    assert np.mean(dense.labels_ == sparse.labels_) > 0.99
    for features in ("lsa", "smooth", "nystroem"):
        model = PairwiseMMC(features=features, random_state=0).fit(X, constraints=pairs)
        assert score(model.labels_, y)["purity_error"] < 0.05
        np.testing.assert_array_equal(model.predict(X), model.labels_)


# ----------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("options", "pairs", "words"),
    [
        ({"balance": None}, [(0, 1, "must"), (2, 3, "must")], "balance is None and no cannot-link was given"),
        ({"balance": None}, None, "balance is None and no cannot-link was given"),
        ({"balance": 1.0}, None, "balance is 1.0"),
        ({"C_pairs": 0}, None, "C_pairs is 0; a number above 0"),
        ({"margin": "mean"}, None, "margin is 'mean'; choose one of 'max', 'sum'"),
        ({}, [(0, 60, "must")], r"constraints\[0\] names row 60, but rows are numbered 0 to 59"),
        ({}, [(0, 1, "must"), (0, 1, "cannot")], "0 must 1"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(options: dict[str, Any], pairs: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        PairwiseMMC(**options).fit(clouds(2)[0], constraints=pairs)


# ------------------------------------------------------------------------------------------------------ same bits


def bits(run: Any) -> tuple[bytes, bytes, list[float]]:
    return run.model.coef_.tobytes(), run.model.intercept_.tobytes(), [line["objective"] for line in run.history]


@pytest.mark.slow
def test_threads_and_workers_give_the_same_bits(
    load: Load, clients: Callable[[int], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "ONE_BLOCK", 16 * 1024)
    monkeypatch.setattr(blocks, "FOUR_BLOCKS", 32 * 1024)
    X, y = load("digits")
    X, y, k = X[:600].astype(np.float32), y[:600] % 3, 3
    options: dict[str, Any] = {"constraints": drawn(y, 60, 0), "max_iter": 25}
    assert len(open_dataset(X).blocks) > 3
    whole = dmmc.fit(X, k, n_jobs=1, **options)
    assert whole.choices["method"] == "pairwise"
    assert bits(dmmc.fit(X, k, n_jobs=2, **options)) == bits(whole)
    for workers in (1, 2):
        assert bits(dmmc.fit(X, k, scheduler=clients(workers), **options)) == bits(whole)


def test_another_set_of_links_is_not_resumed(load: Load, tmp_path: Path) -> None:
    X, y = data_sets.pair(*load("digits"), 3, 8)

    def stop(line: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    pairs = drawn(y, 20, 0)
    with pytest.raises(KeyboardInterrupt):
        dmmc.fit(X, 2, constraints=pairs, out=tmp_path / "out", callbacks=stop)
    for other, words in ((pairs[1:], "constraints is '19 pairs, sha256"), (None, "constraints is not given, but '20")):
        with pytest.raises(InputError, match=words):
            dmmc.fit(X, 2, constraints=other, out=tmp_path / "out", resume=True)
    run = dmmc.fit(X, 2, constraints=np.array(pairs, object), out=tmp_path / "out", resume=True)
    assert bits(run) == bits(dmmc.fit(X, 2, constraints=pairs))


def test_a_saved_model_predicts_the_same(load: Load, tmp_path: Path) -> None:
    X, y = data_sets.pair(*load("digits"), 3, 8)
    run = dmmc.fit(X, 2, constraints=drawn(y, 30, 0), balance=None, out=tmp_path / "out")
    model = dmmc.load(tmp_path / "out")
    assert isinstance(model, PairwiseMMC)
    assert model.get_params()["balance"] is None
    np.testing.assert_array_equal(model.predict(X), run.labels)
    told = json.loads(json.dumps(run.choices))
    told["candidates"] = [{**one, "seconds": None} for one in told["candidates"]]  # so that a model has the same bits
    assert model.choices_ == told


# ------------------------------------------------------------------------------------------- which pairs to ask for


def answered(y: Array, pairs: Array) -> Pairs:
    return [(int(i), int(j), "must" if y[i] == y[j] else "cannot") for i, j in pairs]


def test_proposed_pairs_teach_more_than_random_ones(load: Load) -> None:
    X, y = data_sets.pair(*load("digits"), 8, 9)
    proposed, random = [], []
    for seed in range(3):
        first = PairwiseMMC(random_state=seed).fit(X)
        pairs = dmmc.propose_pairs(X, first, 25, n_restarts=2, random_state=seed)
        assert pairs.shape == (25, 2)
        assert len({frozenset(pair) for pair in pairs.tolist()}) == 25
        again = PairwiseMMC(random_state=seed).fit(X, constraints=answered(y, pairs))
        proposed.append(score(again.labels_, y)["purity_error"])
        other = PairwiseMMC(random_state=seed).fit(X, constraints=drawn(y, 25, seed))
        random.append(score(other.labels_, y)["purity_error"])
    print(f"digits 8-9, 25 pairs: error {100 * np.mean(proposed):.2f} % proposed, {100 * np.mean(random):.2f} % random")
    assert np.mean(proposed) < np.mean(random)


def test_what_is_answered_is_not_asked_again_nor_what_follows_from_it() -> None:
    X, y = clouds(3, 90)
    run = dmmc.fit(X, 3, constraints=[])
    known: Pairs = []
    for _ in range(3):
        pairs = dmmc.propose_pairs(X, run, 15, constraints=known, n_restarts=1)
        closed = closure.close_links(io.read(known), 3)
        ends = np.concatenate([closed.rows[closed.must.ends], closed.rows[closed.cannot.ends]]) if known else pairs[:0]
        assert not {frozenset(pair) for pair in pairs.tolist()} & {frozenset(pair) for pair in ends.tolist()}
        known += answered(y, pairs)


def test_proposals_are_the_same_for_one_seed_and_small_margins_come_first(load: Load) -> None:
    X, _ = data_sets.pair(*load("digits"), 3, 8)
    model = dmmc.CuttingPlaneMMC(random_state=0).fit(X)
    pairs = dmmc.propose_pairs(X, model, 10, n_restarts=0)
    np.testing.assert_array_equal(pairs, dmmc.propose_pairs(X, model, 10, n_restarts=0))
    lead = np.abs(model.decision_function(X))
    assert lead[pairs[:, 0]].max() < np.quantile(lead, 0.1) < lead[pairs[:, 1]].min()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda X, model: dmmc.propose_pairs(X, "model"), "model is a str"),
        (lambda X, model: dmmc.propose_pairs(X, model, 0), "n_pairs is 0"),
        (lambda X, model: dmmc.propose_pairs(X, model, n_restarts=-1), "n_restarts is -1"),
        (lambda X, model: dmmc.propose_pairs(X[:, :2], model), "2 features"),
    ],
)
def test_proposals_refuse_in_a_sentence(call: Callable[..., Any], words: str) -> None:
    X, _ = clouds(2)
    with pytest.raises(InputError, match=words):
        call(X, PairwiseMMC(random_state=0).fit(X))


# ------------------------------------------------------------------------------------------------- command line


def test_pairs_are_proposed_answered_and_given_at_the_terminal(
    cli: Any, store_of: Callable[..., Path], load: Load, tmp_path: Path
) -> None:
    X, y = data_sets.pair(*load("digits"), 8, 9)
    store = store_of(tmp_path / "rows.zarr", X)
    assert cli("fit", "--method", "cpmmc", store, "-k", 2, "-o", tmp_path / "first", "--quiet").code == 0
    file = tmp_path / "pairs.csv"
    done = cli("pairs", tmp_path / "first", store, "-n", 12, "-o", file, "--restarts", 1)
    assert (done.code, done.stdout) == (0, f"12 pairs written to {file}: fill in the column link with must or cannot\n")
    lines = [line.split(",") for line in file.read_text().splitlines()[1:]]
    links = [f"{i},{j},{'must' if y[int(i)] == y[int(j)] else 'cannot'}" for i, j, _ in lines]
    again = cli("pairs", tmp_path / "first", store, "-o", file)
    assert again.code == 2
    assert "exists" in again.stderr
    file.write_text("\n".join(["i,j,link", *links]) + "\n")
    arguments = ("fit", store, "-k", 2, "--constraints", file, "--json", "--quiet")
    done = cli(*arguments, "-o", tmp_path / "second", "--set", "balance=none")
    assert done.code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["choices"]["method"] == "pairwise"
    assert told["choices"]["must_links"] + told["choices"]["cannot_links"] == 12
    done = cli(*arguments, "-o", tmp_path / "third", "--method", "cpmmc")
    assert done.code == 2
    assert "constraints were given, but method 'cpmmc' takes none" in done.stderr
    file.write_text("i,j,link\n0,1,must\n1,2,must\n0,2,cannot\n")
    done = cli(*arguments, "-o", tmp_path / "fourth")
    assert done.code == 2
    assert f"line 4 of {file} says that rows 0 and 2 cannot be together" in done.stderr
    assert "0 must 1 (line 2), 1 must 2 (line 3)" in done.stderr
