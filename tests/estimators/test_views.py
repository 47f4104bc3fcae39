"""Several views of the same rows: one labelling by the sum of their scores, on both engines, saved, and predicted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from scipy.sparse import csr_array, save_npz

import dmmc
from dmmc import InputError
from dmmc.convert import convert
from dmmc.data.open import open_dataset

Views = tuple[Any, Any, Any]


@pytest.fixture(scope="module")
def views() -> Views:
    """Two views that tell two of four clusters each, in other units, and the clusters."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 4
    first = rng.normal(size=(600, 8)) + 6.0 * np.eye(8)[y // 2]
    second = 1000.0 * (rng.normal(size=(600, 30)) + 9.0 * np.eye(30)[y % 2])
    return first, second.astype(np.float32), y


@pytest.fixture(scope="module")
def words(views: Views) -> Views:
    """A dense view of two of four clusters, counts of words of the two others, and the clusters."""
    rng = np.random.default_rng(1)
    first, _, y = views
    topics = rng.dirichlet(np.full(500, 0.03), 2)
    counts = np.stack([rng.multinomial(40, topics[c]) for c in y % 2])
    return first, csr_array(counts.astype(np.float32)), y


def accuracy(labels: Any, y: Any) -> float:
    return float(dmmc.score(labels, y)["accuracy"])


@pytest.mark.parametrize("method", ["lsmmc", "cpmmc"])
def test_two_views_tell_what_neither_tells_alone(views: Views, method: str) -> None:
    a, b, y = views
    run = dmmc.fit([a, b], 4, method=method)
    assert accuracy(run.labels, y) >= 0.98
    assert max(accuracy(dmmc.fit(one, 4, method=method).labels, y) for one in (a, b)) < 0.8
    np.testing.assert_array_equal(run.model.predict([a, b]), run.labels)
    np.testing.assert_array_equal(run.model.predict(np.hstack([a, b])), run.labels)


@pytest.mark.parametrize("method", ["lsmmc", "cpmmc"])
def test_a_dense_view_and_words_give_one_labelling(words: Views, method: str) -> None:
    a, b, y = words
    run = dmmc.fit((a, b), 4, method=method)
    assert accuracy(run.labels, y) >= 0.95
    assert run.choices["transform"] == ("none, bm25" if method == "lsmmc" else "none, none")
    np.testing.assert_array_equal(run.model.predict([a, b]), run.labels)


def test_scores_are_the_sum_of_the_views_scores(views: Views) -> None:
    a, b, _ = views
    model = dmmc.fit([a, b], 4, method="cpmmc").model
    f, none = model.decision_function([a, b]), model.decision_function([0 * a, 0 * b])
    apart = model.decision_function([a, 0 * b]) + model.decision_function([0 * a, b]) - none
    np.testing.assert_allclose(f, apart, atol=1e-3)


@pytest.mark.parametrize("method", ["lsmmc", "cpmmc"])
def test_the_unit_of_a_view_does_not_matter(views: Views, method: str) -> None:
    a, b, _ = views
    labels = dmmc.fit([a, b], 4, method=method).labels
    np.testing.assert_array_equal(dmmc.fit([a, b * np.float32(2.0**-20)], 4, method=method).labels, labels)


def test_one_view_in_a_list_is_that_view(views: Views) -> None:
    a, _, _ = views
    np.testing.assert_array_equal(dmmc.fit([a], 2, method="cpmmc").labels, dmmc.fit(a, 2, method="cpmmc").labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["dense", "words"])
def test_views_of_stores_have_the_same_bits_everywhere(
    kind: str,
    request: pytest.FixtureRequest,
    store_of: Callable[..., Path],
    clients: Callable[[int], Any],
    tmp_path: Path,
) -> None:
    a, b, _ = request.getfixturevalue("views" if kind == "dense" else "words")
    np.save(tmp_path / "b.npy", b) if kind == "dense" else save_npz(tmp_path / "b.npz", b)
    convert(tmp_path / ("b.npy" if kind == "dense" else "b.npz"), tmp_path / "b.zarr")
    paths = [store_of(tmp_path / "a.zarr", a), tmp_path / "b.zarr"]
    local = dmmc.fit([a, b], 4, method="lsmmc")
    for number, options in enumerate(({}, {"scheduler": clients(1)}, {"scheduler": clients(2)})):
        run = dmmc.fit(paths, 4, method="lsmmc", out=tmp_path / f"out{number}", **options)
        assert run.model.coef_.tobytes() == local.model.coef_.tobytes()
        np.testing.assert_array_equal(run.labels, local.labels)
        np.testing.assert_array_equal(dmmc.load(tmp_path / f"out{number}").predict(paths, **options), run.labels)


def test_views_go_in_at_the_command_line(views: Views, tmp_path: Path, cli: Callable[..., Any]) -> None:
    a, b, y = views
    zarr.save_array(str(tmp_path / "a.zarr"), a)
    zarr.save_array(str(tmp_path / "both.zarr"), b, path="b")
    given = [str(tmp_path / "a.zarr"), "--view", str(tmp_path / "both.zarr" / "b")]
    out, labels = tmp_path / "out", tmp_path / "labels.zarr"
    done = cli("fit", *given, "-k", "4", "-o", out, "--method", "lsmmc")
    assert done.code == 0, done.stderr
    done = cli("predict", out, *given, "-o", labels)
    assert done.code == 0, done.stderr
    found = zarr.open_array(str(labels))[:]
    assert accuracy(found, y) >= 0.98
    done = cli("predict", out, given[0], "-o", tmp_path / "other.zarr")
    assert done.code == 2
    assert "2 views of 8, 30 columns" in done.stderr


def test_views_that_do_not_fit_are_refused_in_a_sentence(views: Views) -> None:
    a, b, _ = views
    with pytest.raises(InputError, match=r"view 2 \(.*\) has 10 rows, but view 1 \(.*\) has 600"):
        dmmc.fit([a, b[:10]], 4, method="cpmmc")
    with pytest.raises(InputError, match="'smmc' takes one"):
        dmmc.fit([a, b], 4, method="smmc")
    with pytest.raises(InputError, match="several views"):
        dmmc.fit([a, b], 4, component="X", method="cpmmc")
    bad = b.copy()
    bad[5, 7] = np.nan
    with pytest.raises(InputError, match=r"array of shape \(600, 30\).*row 5.*7|row 5.*7.*array of shape \(600, 30\)"):
        dmmc.fit([a, bad], 4, method="cpmmc")
    model = dmmc.fit([a, b], 4, method="cpmmc").model
    for other in ([b, a], [a, b, b], a):
        with pytest.raises(InputError, match="the same views in the same order are wanted"):
            model.predict(other)


def test_views_whose_rows_have_other_names_are_refused(views: Views) -> None:
    import pandas as pd

    a, b, _ = views
    names = [f"row {i}" for i in range(600)]
    first, second = pd.DataFrame(a, index=names), pd.DataFrame(b, index=[*names[:-2], names[-1], names[-2]])
    with pytest.raises(InputError, match="row 598 is 'row 599' in view 2"):
        dmmc.fit([first, second], 4, method="cpmmc")


def test_lists_of_numbers_are_still_one_matrix() -> None:
    dataset = open_dataset([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    assert (dataset.n_rows, dataset.views) == (3, ())


def test_altered_views_of_a_model_are_refused(words: Views, tmp_path: Path) -> None:
    a, b, _ = words
    model = dmmc.fit([a, b], 4, method="lsmmc").model
    content, arrays = model.to_arrays()
    place = content["features"]["transform"]
    wrong = [
        {**arrays, "view0_weight": arrays["view0_weight"][:-1]},
        {**arrays, "view1_map_w": arrays["view1_map_w"][:, :-1]},
        {name: values for name, values in arrays.items() if name != "view1_transform_weight"},
        {**arrays, "view2_weight": arrays["view0_weight"]},
    ]
    for some in wrong:
        with pytest.raises(InputError, match="do not fit together"):
            type(model).from_arrays(content, some, "it")
    for views in (
        [],
        [*place["views"], place["views"][0]],
        [{**place["views"][0], "columns": 9}, place["views"][1]],
        5,
    ):
        altered = {**content, "features": {**content["features"], "transform": {"kind": "views", "views": views}}}
        with pytest.raises(InputError, match="do not fit together"):
            type(model).from_arrays(altered, arrays, "it")
    again = type(model).from_arrays(content, arrays, "it")
    np.testing.assert_array_equal(again.predict([a, b]), model.labels_)
