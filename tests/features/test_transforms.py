"""Transforms of rows: what each computes, on dense and sparse rows, and which rows it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
from scipy.sparse import csr_array, csr_matrix
from sklearn.datasets import make_blobs

import dmmc
from dmmc import InputError
from dmmc.convert import convert
from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.features import transforms
from dmmc.features.maps import map_few_rows
from dmmc.features.transforms import TRANSFORMS, Transform


def make(X: Any, kind: str) -> Transform:
    dataset = open_dataset(X)
    with Local(dataset) as engine:
        return transforms.make_transform(kind, dataset, transforms.look_at_rows(dataset, engine.rows))


def suggest(X: Any) -> tuple[str, ...]:
    dataset = open_dataset(X)
    with Local(dataset) as engine:
        return transforms.suggest(dataset, transforms.look_at_rows(dataset, engine.rows))


def counts(n: int = 60, d: int = 40, filled: float = 0.04, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    X = rng.poisson(3.0, (n, d)) * (rng.random((n, d)) < filled)
    X[np.arange(n), rng.integers(d, size=n)] += 1  # no empty row
    return X.astype(np.float32)


def direct(X: Any, kind: str) -> Any:
    """Each formula as it is written in docs/mathematics.md."""
    X = X.astype(float)
    if kind == "bm25":
        n, used, length = len(X), (X > 0).sum(axis=0), X.sum(axis=1, keepdims=True)
        idf = np.log((n - used + 0.5) / (used + 0.5) + 1)
        X = idf * X * 2.2 / (X + 1.2 * (0.25 + 0.75 * length / length.mean()))
    if kind == "log-normalise":
        total = X.sum(axis=1, keepdims=True)
        return np.log1p(X * np.median(total) / total)
    if kind == "sqrt-unit":
        X = np.sqrt(X)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", TRANSFORMS[1:])
def test_a_transform_is_its_formula(kind: str, sparse: bool) -> None:
    X = counts()
    found = map_few_rows(make(X, kind), csr_array(X) if sparse else X)
    assert sparse == (not isinstance(found, np.ndarray))
    np.testing.assert_allclose(found.toarray() if sparse else found, direct(X, kind), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", TRANSFORMS[1:])
def test_new_rows_are_transformed_as_fitted_ones_were(kind: str) -> None:
    X = counts()
    transform = make(X, kind)
    np.testing.assert_array_equal(map_few_rows(transform, X)[7:9], map_few_rows(transform, X[7:9]))


@pytest.mark.parametrize(
    ("X", "kind", "words"),
    [
        (np.eye(3) * 0.5, "bm25", "transform='bm25' is for counts of words, and .* numbers that are not whole"),
        (-np.eye(3), "bm25", "numbers below 0"),
        (-np.eye(3), "sqrt-unit", "holds -1"),
        (-np.eye(3), "log-normalise", "amounts of at least 0"),
        (np.array([[0.0, np.nan], [1.0, 2.0]]), "unit", "NaN"),
    ],
)
def test_rows_that_a_transform_is_not_for_are_refused_in_a_sentence(X: Any, kind: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make(X, kind)


@pytest.mark.parametrize("kind", ["sqrt-unit", "log-normalise", "bm25"])
@pytest.mark.parametrize("sparse", [False, True])
def test_new_rows_that_the_transform_of_a_model_is_not_for_are_refused_by_their_place(kind: str, sparse: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(2.0, (80, 6)).astype(np.float32)
    model = dmmc.CuttingPlaneMMC(2, transform=kind, random_state=0, max_iter=3).fit(csr_array(X) if sparse else X)
    X[7, 4] = -3.0
    for call in (model.predict, model.decision_function):
        with pytest.raises(InputError, match=rf"row 7 holds -3 in column 4; the model transforms rows by '{kind}'"):
            call(csr_array(X) if sparse else X)


def test_counts_are_told_by_themselves_and_words_from_cells() -> None:
    rng = np.random.default_rng(0)
    assert suggest(csr_array(counts(filled=0.01))) == ("bm25",)
    assert suggest(counts(filled=0.01)) == ("bm25",)  # next to nothing but zeros
    assert suggest(csr_array(counts(filled=0.4))) == ("log-normalise",)
    assert suggest(csr_array(counts() * 0.3)) == ("none",)  # weights of words
    assert suggest(anndata.AnnData(counts(filled=0.01))) == ("log-normalise",)  # which says it by itself
    assert suggest(anndata.AnnData(csr_matrix(counts(filled=0.01)))) == ("log-normalise",)
    assert suggest(anndata.AnnData(csr_matrix(counts() * 0.3))) == ("none",)  # normalised before
    assert suggest(rng.integers(0, 255, (50, 20)).astype(np.uint8)) == ("none", "sqrt-unit")  # pixels
    assert suggest(rng.standard_normal((50, 20))) == ("none",)


def test_counts_of_an_anndata_file_or_store_are_cells_and_words_that_dmmc_wrote_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = csr_matrix((rng.random((300, 60)) < 0.03) * rng.integers(1, 9, (300, 60))).astype(np.float32)
    cells = anndata.AnnData(X)
    cells.write_h5ad(tmp_path / "cells.h5ad")
    cells.write_zarr(tmp_path / "cells.zarr")
    convert(tmp_path / "cells.h5ad", tmp_path / "converted.zarr")
    np.savez(
        tmp_path / "words.npz",
        data=X.data,
        indices=X.indices,
        indptr=X.indptr,
        shape=X.shape,
        vocab=np.array([f"word{i}" for i in range(60)]),
    )
    convert(tmp_path / "words.npz", tmp_path / "words.zarr")
    kinds = {}
    for name in ("cells.h5ad", "cells.zarr", "converted.zarr", "words.npz", "words.zarr"):
        run = dmmc.fit(tmp_path / name, 2, method="lsmmc", max_iter=3)
        kinds[name] = run.choices["transform"]
    assert kinds == {name: "bm25" if name.startswith("words") else "log-normalise" for name in kinds}


def test_a_model_transforms_what_it_predicts_and_takes_the_transform_along(tmp_path: Any) -> None:
    rng = np.random.default_rng(1)
    topics = rng.dirichlet(np.full(200, 0.05), 3)
    X = csr_array(np.stack([rng.multinomial(60, topics[i % 3]) for i in range(150)]).astype(np.float32))
    run = dmmc.fit(X, 3, transform="bm25", method="cpmmc", out=tmp_path / "out")
    assert dmmc.score(run.labels, np.arange(150) % 3)["accuracy"] > 0.95
    assert run.choices["transform"] == "bm25"
    loaded = dmmc.load(tmp_path / "out")
    np.testing.assert_array_equal(loaded.predict(X), run.labels)
    np.testing.assert_array_equal(loaded.predict(X[:5]), run.labels[:5])
    with pytest.raises(InputError, match="counts of words"):
        dmmc.fit(X * 0.5, 3, transform="bm25", method="cpmmc")


@pytest.mark.parametrize("features", ["raw", "axes", "nystroem", "smooth"])
def test_features_are_those_of_transformed_rows(features: str) -> None:
    rng = np.random.default_rng(2)
    X = (rng.random((120, 8)) + 4.0 * np.eye(8)[np.arange(120) % 3]) * rng.lognormal(0.0, 1.0, (120, 1))
    run = dmmc.fit(X, 3, method="cpmmc", transform="unit", features=features, n_components=20)
    assert dmmc.score(run.labels, np.arange(120) % 3)["accuracy"] == 1.0
    np.testing.assert_array_equal(run.model.predict(X), run.labels)
    np.testing.assert_array_equal(run.model.predict(7.0 * X), run.labels)  # the length of a row does not count


def test_the_parameter_transform_stands_beside_the_method_of_this_name() -> None:
    model = dmmc.CuttingPlaneMMC(transform="unit", random_state=0)
    assert callable(model.transform)
    assert model.get_params()["transform"] == "unit"
    X, _ = make_blobs(60, centers=3, random_state=0)
    fitted = model.set_params(n_clusters=3).fit(X)
    np.testing.assert_array_equal(fitted.transform(X), fitted.decision_function(X))
    assert model.set_params(transform="none").get_params()["transform"] == "none"
    with pytest.raises(InputError, match="transform is 'foo'"):
        dmmc.CuttingPlaneMMC(transform="foo").fit(np.eye(4))
