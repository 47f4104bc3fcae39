"""The benchmarks run, and write the JSON that their docstrings tell of. How fast anything is, is not a test."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
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
    "evolution": {
        "measured": {"pairs", "mutation", "mnist"},
        "lines": [
            "1-2: seconds of one run",
            "1-7: seconds of one run",
            "paper's mutation / sweeps",
            "error of the lowest F",
            "best error by label",
        ],
    },
    "accuracy": {
        "measured": {"cells", "missing"},
        "lines": ["digits: lsmmc", "digits: k-means", "digits: held out", "iris: lsmmc", "iris: cpmmc"],
    },
    "auto": {
        "measured": {"sets", "structure", "pairs", "times", "memory"},
        "lines": [
            "digits: accuracy",
            "two_views: 1 + above k-means",
            "sets that are not below k-means",
            "digits, 3 pairs: mean error",
            "time, whole / best candidate alone",
            "time, fast / KMeans(n_init=1)",
            "digits: seconds, warm",
            "peak of the resident set / 2 GB",
        ],
    },
    "confidence": {
        "measured": {"halves", "agreement"},
        "lines": ["digits, cpmmc: error of the surer half", "digits, cpmmc: confidence less agreement"],
    },
    "below_start": {
        "measured": {"sets", "variants", "two"},
        "lines": [
            "iris: accuracy, end / start",
            "digits: accuracy",
            "iris, C = 10: accuracy",
            "from the true labels",
            "two, blobs 0.9, d = 15: accuracy",
        ],
    },
    "lost_clusters": {
        "measured": {"wide", "uneven"},
        "lines": [
            "200 x 600: mean accuracy, rmmc-sg, init=cpmmc",
            "200 x 600: mean accuracy, rcmmc-sg, tau=.5",
            "100 - largest error, evommc",
            "100 - largest error, rcmmc-sg, balance=0.03",
        ],
    },
    "overhead": {
        "measured": {"overhead", "two_workers"},
        "lines": ["10 blocks", "100 blocks", "1000 blocks", "1 x digits", "8 x digits"],
    },
    "stochastic": {
        "measured": {"pairs", "cifar", "outliers", "tree"},
        "lines": [
            "3 pairs: 100 - error, mmc-sg",
            "wine 0-1: 100 - error, mmc-sg",
            "a pair of classes: seconds, rcmmc-sg",
            "all rows: time, rcmmc-sg / KMeans(2, n_init=1)",
            "outliers, as fitted, 5 %: % kept, rcmmc-sg",
            "outliers, by the loss alone, 5 %: % kept, mmc-sg",
            "mean accuracy, k-means",
            "mean accuracy, cpmmc",
            "mean accuracy, tree, rcmmc-sg",
        ],
    },
    "peers": {"measured": {"runs"}, "lines": ["digits, k = 10: wall, dmmc cpmmc / KMeans"]},
    "growth": {
        "measured": {"records", "slopes"},
        "lines": ["seconds for twice the n", "peak_bytes for twice the n", "seconds for twice the nnz"],
    },
    "first_minute": {"measured": {"runs"}, "lines": ["digits, dense, lsmmc: seconds, first - later"]},
    "scaling": {"measured": {"records", "slopes"}, "lines": []},
    "subspace": {
        "measured": {"convex", "planted", "text", "bits"},
        "lines": [
            "planted: principal angle, smmc / PCA",
            "planted: mean accuracy, smmc / cpmmc",
            "text: mean accuracy, smmc",
            "text: mean accuracy, LSA + KMeans",
            "text: time, smmc / cpmmc",
            "text: peak above imports",
        ],
    },
    "anchors": {
        "measured": {"mnist", "others", "shifts", "many", "bits"},
        "lines": [
            "by anchors: median accuracy",
            "MNIST: time, anchors / rows",
            "shifted images: peak, anchors / rows",
            "150 clusters of 20,000 rows: report / 5 MB",
            "same bits: 2 worker(s)",
            "same bits: resumed",
        ],
    },
    "graph": {
        "measured": {"mnist", "pairs", "others", "held_out", "bits", "memory", "text"},
        "lines": [
            "k = 10: median accuracy",
            "k = 10: lowest accuracy",
            "k = 10: median NMI",
            "k = 10: time, dmmc / KMeans(n_init=10)",
            "pairs of digits: mean error",
            "cifar10_cnn: median accuracy",
            "satellite 1-2: mean error",
            "digits: lowest accuracy",
            "rows held out",
            "same bits: 2 threads",
            "same bits: 2 worker(s)",
            "same bits: resumed",
            "same bits: saved and loaded",
            "peak of the resident set / 2.5 GB",
            "newsgroups_rec: mean accuracy, lsa",
            "newsgroups_rec: mean accuracy, graph",
        ],
    },
    "pairs": {
        "measured": {"curve", "digits", "random", "held_out", "proposed", "many"},
        "lines": [
            "error, 20 pairs / 0 pairs",
            "error with 30 pairs",
            "digits 0-6-8-9: error, 30 pairs / none",
            "random starts: smallest cluster / (n / k)",
            "accuracy, new rows / fitted rows",
            "error, proposed / random",
            "pairs: time, with / without",
            "pairs: peak / data",
            "pairs: accuracy, with / without",
        ],
    },
    "nystroem": {
        "measured": {"errors", "memory"},
        "lines": ["rings of 1,500 points, noise 0.05", "moons of 1,500 points, noise 0.1", "1,500 moons: peak"],
    },
    "chaos": {
        "measured": {"seed", "kills", "failed", "fits", "table"},
        "lines": ["fits that ended right / fits that were disturbed"],
    },
    "least_squares": {
        "measured": {"mnist", "after_graph", "round", "memory"},
        "lines": ["lsmmc / KMeans(n_init=10)", "lsmmc after the graph", "a round of lsmmc", "peak of the resident set"],
    },
    "tables": {
        "measured": {"runs"},
        "lines": ["MB of csv: memory", "csv: second run / first", "MB of parquet files", "parquet files: second run"],
    },
    "memory": {
        "measured": {"process", "cluster"},
        "lines": ["process, spectral, driver: resident / allowed", "cluster, spectral, workers: resident / allowed"],
    },
    "large": {
        "measured": {"sheets"},
        "lines": [
            "sheets: peak of one process / its limit",
            "sheets: peak of a worker / its limit",
            "sheets: bytes of a row on the driver of a cluster",
            "sheets: time, 2 workers / 1 worker",
            "sheets: time, predict / reading",
        ],
    },
    "out_of_core": {
        "measured": {
            "bytes",
            "rows",
            "blocks",
            "block_bytes",
            "limit_bytes",
            "blocks_read",
            "passes_streamed",
            "labels_equal",
            "worker_restarts",
            "workers",
            "in_memory",
        },
        "lines": [
            "peak of a worker / its limit",
            "largest block / 16 MB",
            "blocks read / blocks",
            "time, 2 small workers / in memory",
        ],
    },
}
MORE = {
    "auto": ["--method", "lsmmc"],
    "accuracy": ["--recipes", "lsmmc;cpmmc;k-means"],
    "large": ["--only", "sheets"],
    "peers": ["--who", "dmmc cpmmc,faiss,KMeans,HDBSCAN,LinearSVC"],
}
"""Options beside --small."""
NEEDS_PROC = {
    "auto": "/proc/self/status",
    "pairs": "/proc/self/clear_refs",
    "quick": "/proc/self/clear_refs",
    "nystroem": "/proc/self/clear_refs",
    "memory": "/proc/self/status",
    "out_of_core": "/proc/self/status",
    "large": "/proc/self/clear_refs",
    "tables": "/proc/self/status",
}


def numbers(tree: Any) -> list[float]:
    """All numbers of a tree of dicts and lists."""
    if isinstance(tree, dict | list):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [number for part in parts for number in numbers(part)]
    return [tree] if isinstance(tree, int | float) else []


Small = Callable[[str], tuple[Path, str]]


@pytest.fixture(scope="module")
def small(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Runs a benchmark with --small, once; gives the path of its JSON, and what it printed."""

    @cache
    def run(name: str) -> tuple[Path, str]:
        path = repo / "benchmarks" / f"{name}.py"
        if not path.is_file():
            pytest.skip(f"benchmarks: these tests need the checkout, and there is no {path}")
        if name in NEEDS_PROC and not Path(NEEDS_PROC[name]).exists():
            pytest.skip("benchmarks: peak memory is read from /proc, which this system does not have")
        folder = tmp_path_factory.mktemp(name)
        out = folder / "new folder" / "out.json"
        search = os.pathsep.join([str(repo), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run(
            [sys.executable, str(path), "--small", "--json", str(out), *MORE.get(name, [])],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": search},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return out, done.stdout

    return run


@pytest.mark.parametrize("name", EXPECTED)
def test_a_small_run_writes_finite_positive_ratios(name: str, small: Small) -> None:
    out, printed = small(name)
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
        assert line["name"] in printed
        assert line["verdict"] == "", "nothing is wanted of a small run"
    for wanted in EXPECTED[name]["lines"]:
        assert any(wanted in line["name"] for line in written["lines"]), wanted


def measured(small: Small, name: str) -> Any:
    out, _ = small(name)
    return json.loads(out.read_text())["measured"]


def test_out_of_core_streams_within_the_limit_to_the_labels_of_a_fit_in_memory(small: Small) -> None:
    found = measured(small, "out_of_core")
    assert found["labels_equal"] is True
    assert found["worker_restarts"] == 0
    assert found["workers"]["passes"] == found["in_memory"]["passes"]
    assert found["workers"]["peak_bytes"] <= found["limit_bytes"]
    assert found["block_bytes"] <= 16_000_000
    # all is read once; more than the passes of the search read nearly all of it again
    assert found["blocks_read"] > found["blocks"] * (1 + 0.5 * found["workers"]["passes"])


def test_large_streams_within_the_limit_to_the_same_labels_everywhere(small: Small) -> None:
    found = measured(small, "large")["sheets"]
    assert found["labels_equal"] is True
    alone = found["fits"]["1 process"]
    assert alone["peak_bytes"] < found["limit_bytes"]
    assert alone["reading"]["kept_bytes"] < found["bytes"]
    assert alone["reading"]["bytes_read"] > 3 * found["bytes"]
    assert found["predict"]["peak_bytes"] < found["limit_bytes"]


def test_fits_whose_processes_are_killed_end_right(small: Small) -> None:
    found = measured(small, "chaos")
    assert found["kills"] >= 6
    assert found["failed"] == 0
    assert sum(sum(outcomes.values()) for outcomes in found["table"].values()) == len(found["fits"])


def test_a_process_and_its_workers_do_not_grow_with_the_number_of_fits(small: Small) -> None:
    found = measured(small, "memory")
    growth = {(part, who): of["bytes_a_fit"] for part, by in found.items() for who, of in by.items()}
    assert len(growth) == 3
    assert max(growth.values()) < 5e6, growth


def test_subspace_fits_give_the_same_bits_however_they_are_run_and_agree_with_a_convex_solver(small: Small) -> None:
    found = measured(small, "subspace")
    assert found["bits"] == dict.fromkeys(("2 threads", "1 worker(s)", "2 worker(s)", "resumed"), True)
    assert found["convex"] is None or max(max(off) for off in found["convex"].values()) < 1e-4


def test_graph_fits_give_the_same_bits_however_they_are_run(small: Small) -> None:
    same = measured(small, "graph")["bits"]["same"]
    assert same.keys() == {"2 threads", "1 worker(s)", "2 worker(s)", "resumed", "saved and loaded"}
    assert all(same.values()), same


def test_graph_matches_clusters_to_classes_once(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (repo / "benchmarks").is_dir():
        pytest.skip("benchmarks: these tests need the checkout")
    monkeypatch.syspath_prepend(str(repo / "benchmarks"))
    import graph
    import numpy as np

    assert graph.matched(np.array([0, 0, 0, 1, 1, 2]), np.array([2, 2, 1, 1, 1, 0]), 3).tolist() == [2, 1, 0]


def test_scaling_writes_a_record_a_measurement_and_a_picture(small: Small) -> None:
    out, printed = small("scaling")
    found = measured(small, "scaling")
    fields = {"kind", "workers", "rows", "bytes", "seconds", "passes", "seconds_per_pass", "oversubscribed"}
    assert all(record.keys() == fields for record in found["records"])
    assert [(r["kind"], r["workers"]) for r in found["records"]] == [
        ("strong", 1),
        ("weak", 1),
        ("strong", 2),
        ("weak", 2),
    ]
    strong, weak = ([r["rows"] for r in found["records"] if r["kind"] == kind] for kind in ("strong", "weak"))
    assert strong[0] == strong[1] == weak[1] == 2 * weak[0]
    assert found["slopes"].keys() == {"strong", "weak"}
    if find_spec("matplotlib") is None:
        assert "matplotlib is not installed" in printed
    else:
        assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_slopes_are_fitted_to_what_is_not_oversubscribed(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (repo / "benchmarks").is_dir():
        pytest.skip("benchmarks: these tests need the checkout")
    monkeypatch.syspath_prepend(str(repo / "benchmarks"))
    import scaling

    points = [(1, 8.0, False), (2, 4.0, False), (4, 2.0, False), (8, 50.0, True)]
    records = [{"workers": n, "seconds": t, "oversubscribed": over} for n, t, over in points]
    assert scaling.slope(records, "seconds") == pytest.approx(-1.0)
    assert scaling.slope(records[:1] + records[3:], "seconds") is None


def test_each_peer_has_a_row_with_scores_or_with_why_there_are_none(small: Small) -> None:
    found = measured(small, "peers")
    _, printed = small("peers")
    rows = {run["who"]: run for run in found["runs"]}
    assert {"dmmc cpmmc", "dmmc cpmmc, 2 workers", "KMeans", "LinearSVC, told the classes"} <= set(rows)
    for run in rows.values():
        assert ("missing" in run) != ("wall" in run)
        assert run["who"] in printed
        if "wall" in run:
            assert 0 < run["accuracy"] <= 1
            assert min(run["wall"], run["cpu"], run["peak_mb"]) > 0
    assert rows["dmmc cpmmc"]["accuracy"] == rows["dmmc cpmmc, 2 workers"]["accuracy"]  # the same labels
    assert rows["LinearSVC, told the classes"]["accuracy"] > rows["KMeans"]["accuracy"]


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
