"""h5ad files keep names, ids and numbers."""

from __future__ import annotations

import sys

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from converted import ZARR_WARNINGS, numbers, through, written

from dmmc import InputError
from dmmc.convert import convert

pytestmark = ZARR_WARNINGS


@pytest.mark.parametrize("sparse", [True, False])
def test_h5ad_keeps_names_ids_and_numbers(tmp_path, small, sparse):
    pytest.importorskip("h5py")
    X = sp.random_array((40, 12), density=0.3, rng=np.random.default_rng(9), format="csr", dtype=np.float32)
    values = X if sparse else X.toarray()
    cells, genes = [f"cell {i}" for i in range(40)], [f"gene {j}" for j in range(12)]
    adata = anndata.AnnData(values, pd.DataFrame(index=cells), pd.DataFrame(index=genes), layers={"twice": 2 * values})
    adata.write_h5ad(tmp_path / "x.h5ad")
    for key, factor in ((None, 1), ("layers/twice", 2)):
        dataset = through(tmp_path / "x.h5ad", key=key)
        assert dataset.is_sparse is sparse
        assert dataset.dtype == np.float32
        assert dataset.feature_names == tuple(genes)
        assert dataset.row_ids.tolist() == cells
        assert np.array_equal(numbers(dataset), factor * X.toarray())
    with pytest.raises(
        InputError,
        match=r"no matrix 'layers/thrice': choose with component= .* one of 'X', 'layers/twice'",
    ):
        convert(tmp_path / "x.h5ad", tmp_path / "out.zarr", key="layers/thrice")


def test_h5ad_by_columns_is_refused(tmp_path):
    pytest.importorskip("h5py")
    anndata.AnnData(sp.csc_array(np.eye(3))).write_h5ad(tmp_path / "x.h5ad")
    with pytest.raises(InputError, match=r"stored by columns.*tocsr"):
        convert(tmp_path / "x.h5ad", tmp_path / "out.zarr")


def test_a_missing_package_is_named_with_how_to_install_it(tmp_path, monkeypatch):
    path = written(tmp_path, b"\x89HDF\r\n\x1a\n" + bytes(100), "x.h5ad")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(InputError, match="needs h5py; install with: pip install h5py"):
        convert(path, tmp_path / "out.zarr")
