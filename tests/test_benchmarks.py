"""The benchmarks run, and write the JSON that their docstrings tell of. How fast anything is, is not a test."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXPECTED = {
    "kernels": {
        "measured": {"share_inside", "share_from", "rounds", "milliseconds", "read_gb_per_second"},
        "lines": [
            "float32 pass, of read bandwidth",
            "uint8 pass / float32 pass",
            "float32, 16 hyperplanes / one",
            "uint8, 16 hyperplanes / one",
            "1 thread / 2 threads",
            "pass / scipy's two products",
        ],
    },
    "quick": {
        "measured": {"fits", "start_seconds", "import_seconds", "memory_mb"},
        "lines": [
            "k = 2: time, dmmc / KMeans",
            "k = 10: time, dmmc / KMeans",
            "k = 10: accuracy, dmmc / KMeans",
            "k = 10: nmi, dmmc / KMeans",
            "import dmmc / import sklearn.cluster",
            "from array, k = 10: peak",
            "from zarr, k = 10: peak",
            "loaded / compiled",
        ],
    },
}


def numbers(tree: Any) -> list[float]:
    """All numbers of a tree of dicts and lists."""
    if isinstance(tree, dict | list):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [number for part in parts for number in numbers(part)]
    return [tree] if isinstance(tree, int | float) else []


@pytest.mark.parametrize("name", EXPECTED)
def test_a_small_run_writes_finite_positive_ratios(name: str, repo: Path, tmp_path: Path) -> None:
    path = repo / "benchmarks" / f"{name}.py"
    if not path.is_file():
        pytest.skip(f"benchmarks: these tests need the checkout, and there is no {path}")
    if name == "quick" and not Path("/proc/self/clear_refs").exists():
        pytest.skip("benchmarks: peak memory is read from /proc, which this system does not have")
    out = tmp_path / "new folder" / "out.json"
    done = subprocess.run(
        [sys.executable, str(path), "--small", "--json", str(out)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(repo), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = json.loads(out.read_text())
    assert written.keys() == {"benchmark", "small", "machine", "lines", "measured"}
    assert written["benchmark"] == name
    assert written["small"] is True
    assert written["measured"].keys() == EXPECTED[name]["measured"]
    assert all(math.isfinite(number) for number in numbers(written["measured"]))
    for line in written["lines"]:
        assert line.keys() == {"name", "ratio", "most", "least", "aim", "verdict", "detail"}
        assert math.isfinite(line["ratio"])
        assert line["ratio"] > 0, line
        assert line["name"] in done.stdout
        assert line["verdict"] == "", "nothing is wanted of a small run"
    for wanted in EXPECTED[name]["lines"]:
        assert any(wanted in line["name"] for line in written["lines"]), wanted


def test_a_line_says_whether_it_is_as_wanted(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (repo / "benchmarks").is_dir():
        pytest.skip("benchmarks: these tests need the checkout")
    monkeypatch.syspath_prepend(str(repo / "benchmarks"))
    from _report import Line

    assert Line("x", 0.5, most=0.5).verdict == "ok"
    assert Line("x", 0.51, most=0.5, aim=0.25).verdict == "MISSED"
    assert Line("x", 0.79, least=0.8).verdict == "MISSED"
    assert Line("x", 0.8, least=0.8).verdict == "ok"
    assert Line("x", 0.8).verdict == ""
    assert "<= 0.5 (aim 0.25)" in str(Line("x", 0.51, most=0.5, aim=0.25))
