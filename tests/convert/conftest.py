"""Fixtures: small blocks, and text parsed line by line."""

from __future__ import annotations

import pytest
from converted import read_line_by_line

from dmmc.convert import arrays, csv_files, reading, store, text


@pytest.fixture(params=["by a library", "line by line"])
def parser(request, monkeypatch):
    """Text parsed by pyarrow or scikit-learn, and as it is where these refuse it."""
    if request.param == "line by line":
        read_line_by_line(monkeypatch)


@pytest.fixture
def small(monkeypatch):
    """Blocks, pieces and chunks of a few bytes, to have many of each."""
    monkeypatch.setattr(text, "BLOCK_BYTES", 50)
    monkeypatch.setattr(csv_files, "COLUMN_BYTES", 1)
    monkeypatch.setattr(reading, "PIECE_BYTES", 200)
    monkeypatch.setattr(arrays, "PIECE_BYTES", 200)
    monkeypatch.setattr(store, "CHUNK_BYTES", 300)
    monkeypatch.setattr(store, "STRINGS_A_CHUNK", 4)
