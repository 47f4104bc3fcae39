"""What `benchmarks/confidence.py` computes from labels that are known, and names of clusters of real texts."""

from __future__ import annotations

from typing import Any

import confidence
import data_sets
import numpy as np
import pytest
from scipy.special import expit


def test_halves_are_compared_by_confidence() -> None:
    sure = np.array([0.9, 0.6, 0.8, 0.5])
    assert confidence.compare_halves(sure, np.array([False, True, True, True])) == (0.5, 1.0)


def test_labels_are_matched_with_classes() -> None:
    assert confidence.match(np.array([0, 0, 1, 2]), np.array([1, 1, 0, 2])).tolist() == [1, 1, 0, 2]


def test_the_slope_that_made_the_agreement_is_found() -> None:
    margins = np.random.default_rng(0).exponential(size=2000)
    assert confidence.find_slope(expit(3.0 * margins), expit(5.0 * margins)) == pytest.approx(5.0, rel=0.02)


def test_clusters_of_texts_are_named_by_a_word_of_their_group(load: Any) -> None:
    X, truth = load("newsgroups_rec")
    groups, words = data_sets.read_words("newsgroups_rec")
    from dmmc.data.open import open_dataset
    from dmmc.engine import Local
    from dmmc.profile.cluster_sums import find_means
    from dmmc.profile.describe import describe_clusters

    with Local(open_dataset(X)) as engine:  # of the true groups: fits of texts take long
        means = find_means(engine.dataset, engine.use, engine.run, truth.astype(np.int64), 4)
    for profile, group in zip(describe_clusters(means, words), groups, strict=True):
        assert any(word.startswith(confidence.WORDS[group]) for word in profile.name.split()), profile.name
