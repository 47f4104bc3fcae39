"""The table of peers: rows of what is missing, and ratios of runs in turn."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def peers(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not (repo / "benchmarks").is_dir():
        pytest.skip("benchmarks: these tests need the checkout")
    monkeypatch.syspath_prepend(str(repo / "benchmarks"))
    import peers

    return peers


def run_of(who: str, seed: int, **found: Any) -> dict[str, Any]:
    return {"set": "mnist", "k": 10, "who": who, "seed": seed, **found}


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (subprocess.TimeoutExpired("python", 5), "not done after 5 s"),
        (RuntimeError("peers.run_one\nTraceback\nMemoryError: no room"), "failed: MemoryError: no room"),
        (ValueError("no JSON"), "failed: no JSON"),
    ],
)
def test_a_peer_that_fails_is_a_row_that_says_so(
    peers: Any, monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str
) -> None:
    def fail(*args: object, **options: object) -> dict[str, Any]:
        raise failure

    monkeypatch.setattr(peers, "run_child", fail)
    run = peers.measure("mnist", 10, "evoc", 0, 5.0)
    assert run == run_of("evoc", 0, missing=said)
    assert peers.tell(run).endswith(said)


def test_a_ratio_is_the_median_over_runs_that_followed_one_another(peers: Any, capsys: Any) -> None:
    runs = [run_of("a", seed, wall=wall) for seed, wall in enumerate((1.0, 6.0, 2.0))]
    runs += [run_of("b", seed, wall=wall) for seed, wall in enumerate((4.0, 8.0, 4.0))]
    runs += [run_of("c", 0, missing="no package")]
    report = peers.Report("peers", small=False)
    table = peers.Table(runs)
    table.compare(report, ("mnist", 10), "a", "b", most=0.4)
    table.compare(report, ("mnist", 10), "a", "c")
    assert [(line.ratio, line.verdict) for line in report.lines] == [(0.5, "MISSED")]
    assert "a / c: no ratio" in capsys.readouterr().out


def test_rows_of_a_sparse_set_that_would_not_fit_are_refused(peers: Any) -> None:
    from _contenders import NotFeasible, dense
    from scipy.sparse import csr_array

    with pytest.raises(NotFeasible, match="would be 40 GB"):
        dense(csr_array((100_000, 100_000)))
    assert dense(csr_array((3, 4))).shape == (3, 4)
