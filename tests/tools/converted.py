"""Files converted to stores, for the tests of dmmc.convert."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from dmmc.convert import convert, csv_files, svmlight
from dmmc.data.open import open_dataset

ZARR_WARNINGS = pytest.mark.filterwarnings(
    "ignore:Writing zarr v2", "ignore:zarr v3 autosharding", "ignore:Consolidated"
)

quickly = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def read_line_by_line(patch: pytest.MonkeyPatch) -> None:
    """Have text parsed as it is where a library refuses it."""
    patch.setattr(csv_files, "_parse_with_pyarrow", lambda *_: None)
    patch.setattr(svmlight, "parse_block", svmlight._parse_lines)


def through(path: Path, **options: Any) -> Any:
    """The file as `dmmc.fit` sees it after a conversion."""
    target = path.with_name(path.name + ".zarr")
    done = convert(path, target, overwrite=True, **options)
    dataset = open_dataset(target)
    assert (done["rows"], done["columns"]) == (dataset.n_rows, dataset.n_features)
    assert done["dtype"] == str(dataset.dtype)
    assert done["sparse"] is dataset.is_sparse
    assert done["feature_names"] is (dataset.feature_names is not None)
    assert done["row_ids"] is (dataset.row_ids is not None)
    return dataset


def numbers(dataset: Any) -> np.ndarray:
    """All rows, dense."""
    rows = dataset.take(np.arange(dataset.n_rows))
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def written(folder: Path, text: str | bytes, name: str = "rows.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def idx(shape: tuple[int, ...], values: bytes, kind: int = 8) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + values
