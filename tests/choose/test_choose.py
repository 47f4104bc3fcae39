"""The label-free choice: the judge, structure, the number of clusters, and what is said about them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from dmmc.choose.evidence import make_evidence
from dmmc.choose.judge import CLEARLY, FLOOR, NEIGHBOURS, choose, judge, link_rows
from dmmc.choose.number_of_clusters import find_strength, suggest_number
from dmmc.choose.sample import place_rows
from dmmc.choose.structure import NONE_ABOVE, find_ratio
from dmmc.choose.tell import tell_choice


def test_the_cut_is_that_of_a_direct_formula() -> None:
    rng = np.random.default_rng(0)
    places, labels = rng.normal(size=(80, 3)).astype(np.float32), rng.integers(0, 3, 80)
    rows = np.sort(rng.choice(80, 50, replace=False))
    logs = []
    for count in NEIGHBOURS:
        out, total = np.zeros(3), np.zeros(3)
        for i in rows:
            distance = np.linalg.norm(places.astype(np.float64) - places[i], axis=1)
            near = np.argsort(distance)[1 : count + 1]
            weight = np.exp(-((distance[near] / distance[near[min(6, count - 1)]]) ** 2))
            total[labels[i]] += weight.sum()
            out[labels[i]] += weight[labels[near] != labels[i]].sum()
        logs.append(np.log((out / total).sum() / 2 + FLOOR))
    found = judge(link_rows(rows, places), labels, np.bincount(labels))
    assert found.cut == pytest.approx(np.exp(np.mean(logs)), rel=1e-9)
    assert found.score == found.cut


def test_the_judge_prefers_the_moons_to_two_halves() -> None:
    X, y = make_moons(600, noise=0.05, random_state=0)
    links = link_rows(np.arange(len(X)), X.astype(np.float32))
    halves = (X[:, 0] > 0.5).astype(int)
    assert CLEARLY * judge(links, y, np.bincount(y)).cut < judge(links, halves, np.bincount(halves)).cut


def test_a_few_odd_rows_as_a_cluster_count_three_times() -> None:
    X, y = make_blobs([150, 150], centers=[[0, 0], [9, 0]], random_state=0)
    links = link_rows(np.arange(len(X)), X.astype(np.float32))
    odd = np.zeros(300, int)
    odd[np.argsort(X[:, 1])[-3:]] = 1
    found = judge(links, odd, np.bincount(odd))
    assert found.score == 3 * found.cut
    assert judge(links, y, np.bincount(y)).score < found.score


def test_clusters_without_a_sampled_row_are_no_gain() -> None:
    X, _ = make_blobs(200, centers=2, random_state=0)
    links, one = link_rows(np.arange(200), X.astype(np.float32)), np.zeros(200, int)
    assert judge(links, one, np.array([200, 1])).cut >= 1.0


def test_of_those_with_nearly_the_lowest_cut_the_one_that_agrees_most_with_the_others_is_chosen() -> None:
    rng = np.random.default_rng(0)
    middle = rng.integers(0, 3, 300)
    one, other = middle.copy(), middle.copy()
    one[:40], other[-40:] = 0, 0
    far = rng.integers(0, 3, 300)
    near = [0.1, 0.1 * CLEARLY, 0.11]
    assert choose([*near, 0.2], [one, middle, other, far]) == 1
    assert choose([0.1, 0.1 * CLEARLY + 0.001, 0.3], [one, middle, other]) == 0  # the others are out
    assert choose([0.1, 0.09], [one, other]) == 0  # of two neither agrees more: the first
    agree = [adjusted_rand_score(middle, labels) for labels in (one, other)]
    assert min(agree) > adjusted_rand_score(one, other)


def test_a_first_that_is_preferred_is_kept_unless_another_is_clearly_better() -> None:
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, 2, 100)] * 3
    assert choose([0.1, 0.09, 0.1 / CLEARLY + 0.001], [1 - labels[0], *labels[1:]], keep_first=True) == 0
    assert choose([0.12, 0.06, 0.05], labels, keep_first=True) == 1


def test_places_are_those_of_scikit_learns_principal_axes() -> None:
    X = np.random.default_rng(0).normal(size=(300, 100)) @ np.diag(np.linspace(3, 0.1, 100))
    wanted = PCA(64, svd_solver="full").fit_transform(X)
    for rows in (X, X[:90]):
        got = place_rows(rows.astype(np.float32), by_angle=False).astype(np.float64)
        known = wanted if len(rows) == 300 else PCA(64, svd_solver="full").fit_transform(rows)
        np.testing.assert_allclose(got @ got.T, known @ known.T, atol=2e-3 * np.abs(known @ known.T).max())


def test_sparse_rows_are_placed_by_their_angles() -> None:
    rows = sparse.random_array((60, 40), density=0.3, rng=np.random.default_rng(0), format="csr")
    places = place_rows(rows, by_angle=True)
    np.testing.assert_allclose((places**2).sum(axis=1), 1.0, rtol=1e-5)
    U, s, _ = np.linalg.svd(rows.toarray(), full_matrices=False)
    known = U[:, :39] * s[:39]
    known /= np.linalg.norm(known, axis=1, keepdims=True)
    np.testing.assert_allclose(places @ places.T, known @ known.T, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_one_gaussian_cloud_has_no_structure_and_blobs_have(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cloud = (rng.standard_normal((1000, 10)) / np.sqrt(np.arange(1, 11))).astype(np.float32)
    assert find_ratio(cloud, 5, False, seed) > NONE_ABOVE
    blobs = make_blobs(1000, n_features=10, centers=5, random_state=seed)[0].astype(np.float32)
    assert find_ratio(blobs, 5, False, seed) < 0.5 * NONE_ABOVE


@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_number_of_separate_blobs_is_suggested(k: int) -> None:
    X = make_blobs(900, n_features=6, centers=k, center_box=(-30, 30), random_state=1)[0].astype(np.float32)
    found = suggest_number(X)
    assert found.number == k
    assert found.numbers.tolist() == list(range(2, 21))
    assert suggest_number(X, 4, 6).numbers.tolist() == [4, 5, 6]
    told = found.describe()
    assert told["suggestion"] == k
    assert len(told["strengths"]) == len(told["eigengaps"]) == len(told["merge_jumps"]) == len(told["cut_jumps"]) == 19


def test_prediction_strength_is_the_share_of_pairs_that_the_other_half_puts_together() -> None:
    X = make_blobs(300, n_features=4, centers=3, center_box=(-30, 30), random_state=1)[0].astype(np.float32)
    assert find_strength(X, 3) == 1.0
    order = np.random.default_rng(0).permutation(len(X))
    first, second = X[order[::2]], X[order[1::2]]
    told = KMeans(5, n_init=1, random_state=0).fit(first).predict(second)
    together = KMeans(5, n_init=1, random_state=0).fit(second).labels_
    shares = []
    for cluster in range(5):
        rows = np.flatnonzero(together == cluster)
        shares.append(np.mean([told[i] == told[j] for i in rows for j in rows if i != j]))
    np.testing.assert_allclose(find_strength(X, 5), min(shares))
    assert min(shares) < 0.9


def test_eigenvalues_are_those_of_the_normalised_graph() -> None:
    X = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    found = make_evidence(X, 5)
    A = found.graph.toarray()
    root = 1 / np.sqrt(A.sum(axis=1))
    wanted = np.linalg.eigvalsh(root[:, None] * A * root)[::-1][:5]
    np.testing.assert_allclose(found.values, wanted, atol=1e-6)


def test_three_lines_say_what_was_chosen_what_came_close_and_what_to_try() -> None:
    def candidate(name: str, score: float | None, **more: object) -> dict[str, object]:
        return {"name": name, "score": score, "chosen": False, "why_not": "", "parameters": {}, **more}

    candidates = [
        candidate("k-means", 0.2, why_not="cuts 2.0 times as many near rows apart"),
        candidate("cpmmc", 0.11, why_not="about as good", parameters={"method": "cpmmc"}),
        candidate("lsmmc", 0.1, chosen=True, parameters={"method": "lsmmc"}),
        candidate("late", None, why_not="the time was up"),
    ]
    number = {"suggestion": 4, "runner_up": 3}
    assert tell_choice({"candidates": candidates, "n_clusters": number}) == [
        "chosen: lsmmc, cut 0.1 (others: k-means 0.2; cpmmc 0.11)",
        "came close: cpmmc (about as good)",
        "try: a longer --max-seconds: the time was up before late, or -k 3, the next best guess (4 was the first), or "
        "--method lsmmc -k 4 to have lsmmc alone",
    ]
    assert (
        tell_choice({"candidates": candidates[:3]})[-1] == "try: --effort best, or --method lsmmc to have lsmmc alone"
    )
    assert tell_choice({}) == []
