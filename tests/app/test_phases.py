"""Phases before the search are made once: an interrupted fit goes on after the last one that was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stops import Interrupt

import dmmc
from dmmc.features import build
from dmmc.results import array_folder

PHASES = ("axes", "neighbours", "spectral", "join", "start", "search")


def moons(n: int = 600) -> Any:
    rng = np.random.default_rng(0)
    angle = rng.random(n) * np.pi
    upper = np.arange(n) % 2 == 0
    X = np.column_stack([np.cos(angle), np.sin(angle)])
    X[~upper] = np.column_stack([1 - np.cos(angle[~upper]), 0.4 - np.sin(angle[~upper])])
    return X + 0.03 * rng.standard_normal(X.shape)


def fit(out: Path | None, **options: Any) -> Any:
    return dmmc.fit(moons(), 2, features="spectral", init="graph", random_state=0, out=out, **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("phases") / "out"
    fit(out)
    return out


def assert_same_results(one: Path, other: Path) -> None:
    first, second = array_folder.read(one / "model", "model"), array_folder.read(other / "model", "model")
    assert first[1].keys() == second[1].keys()
    for name, array in first[1].items():
        np.testing.assert_array_equal(array, second[1][name], err_msg=name)
    for path in sorted((one / "labels.zarr").rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (other / "labels.zarr" / path.relative_to(one / "labels.zarr")).read_bytes()


@pytest.mark.parametrize("phase", PHASES)
def test_a_fit_interrupted_as_a_phase_begins_goes_on_to_the_same_bits(
    phase: str, undisturbed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        fit(out, progress=Interrupt(phase))
    made: list[str] = []
    neighbours, spectral = build._neighbours, build.make_vectors
    monkeypatch.setattr(build, "_neighbours", lambda *a: made.append("neighbours") or neighbours(*a))
    monkeypatch.setattr(build, "make_vectors", lambda *a: made.append("spectral") or spectral(*a))
    fit(out, resume=True)
    before = PHASES.index(phase)
    assert made == [name for name in ("neighbours", "spectral") if PHASES.index(name) >= before]
    assert_same_results(undisturbed, out)
    assert not (out / "checkpoint").exists()


def test_phases_of_other_data_are_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fit(tmp_path / "out", progress=Interrupt("spectral"))
    with pytest.raises(dmmc.InputError, match="fingerprint"):
        dmmc.fit(
            moons() + 1e-3, 2, features="spectral", init="graph", random_state=0, out=tmp_path / "out", resume=True
        )
    with pytest.raises(dmmc.InputError, match="n_neighbors is 12, but 7 in the checkpoint"):
        fit(tmp_path / "out", resume=True, n_neighbors=12)


def test_a_graph_that_does_not_fit_the_memory_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dmmc.machine.free_memory", lambda: 10_000)
    with pytest.raises(dmmc.InputError, match=r"needs about \d+ MB, and 0 MB are free"):
        fit(None)


def test_two_moons_are_two_clusters() -> None:
    labels = fit(None).labels
    assert dmmc.score(labels, np.arange(600) % 2)["accuracy"] > 0.99
