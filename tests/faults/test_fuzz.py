"""What dmmc has written is altered in thousands of ways: it gives the same result, or one sentence says that it cannot.

`pytest tests/faults/test_fuzz.py --fuzz 3000` alters fifteen times as much, `--fuzz-seed 21` other things. An
alteration that fails is named by its case and number, and `fuzz_worker.py` makes it again: it is drawn from
(seed, kind, case, number).
"""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from forks import ForkServer

pytestmark = pytest.mark.slow

HERE = Path(__file__).resolve().parent
PATHS = os.pathsep.join([str(HERE), str(HERE.parents[1] / "benchmarks")])
DEATHS = 20
"""Processes that may die before a test gives up."""
LIMIT = 900.0
"""Seconds in which an idle machine makes all alterations of a kind; more of them take longer."""

IN_MEMORY, ROOM = Path("/dev/shm"), 2**24
"""A disk in memory, and bytes that have to be free on it."""

SHARES = {
    "checkpoint": (0.5, {"same", "sentence"}),
    "model": (0.5, {"same", "sentence"}),
    "sealed checkpoint": (0.1, {"same", "sentence", "other"}),
    "sealed model": (0.25, {"same", "sentence", "other"}),
    "store": (0.5, {"same", "sentence", "unnoticeable"}),
    "file": (0.1, {"same", "sentence", "another file"}),
    "result folder": (0.3, {"same", "sentence", "unnoticeable"}),
}
"""By kind: alterations of a case, in units of those asked for, as a method has two cases, and what may come of one.

Whoever makes a seal anew may also get another result, but in a bounded time. Stores without checksums may hold other
numbers, and `dmmc info` says so of them; so may `labels.csv`, which is a table that anyone can write. Most kinds of
files have no checksums at all.
"""


@pytest.fixture(scope="module")
def made(forks: ForkServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results, checkpoints and stores of every kind; to be copied, not changed."""
    folder = tmp_path_factory.mktemp("fuzz")
    work(forks, folder, {"kind": "prepare", "folder": str(folder)})
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    """For altered copies: in memory if it can be, as making and removing files takes half the time on a disk."""
    usable = os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > ROOM
    with TemporaryDirectory(dir=IN_MEMORY if usable else tmp_path) as folder:
        yield Path(folder)


def work(forks: ForkServer, folder: Path, job: dict[str, Any], seconds: float = LIMIT) -> tuple[int, str]:
    """Do a job in a process of its own; gives its exit code and what it said last."""
    (folder / "job.json").write_text(json.dumps(job))
    process = forks.start("fuzz_worker:main", folder / "job.json", path=PATHS, at_once=True)
    code = process.wait(seconds)
    assert code == 0 or job["kind"] != "prepare", process.stderr
    return code, process.stderr[-2000:]


def alter_all(forks: ForkServer, folder: Path, drawn: dict[str, Any], scratch: Path) -> list[dict[str, Any]]:
    """Make all alterations of a kind; a process that dies is followed by one that goes on after what killed it."""
    log = folder / f"{drawn['kind']}.log"
    log.touch()
    job = {**drawn, "folder": str(folder), "log": str(log), "scratch": str(scratch / "altered"), "only": "", "first": 0}
    seconds = LIMIT * max(1.0, drawn["count"] / 100)
    for _ in range(DEATHS):
        code, said = work(forks, folder, job, seconds)
        made = [json.loads(line) for line in log.read_text().splitlines()]
        if code == 0:
            break
        assert made, f"the test itself failed: {said}"
        assert "outcome" not in made[-1], f"the test itself failed: {said}"
        outcome = "took too long" if code == -signal.SIGALRM else f"ended the process ({code}, {said})"
        with log.open("a") as file:
            print(json.dumps({"position": made[-1]["position"], "outcome": outcome, "said": ""}), file=file)
        job["first"] = made[-1]["position"] + 1
    ends = {line["position"]: line for line in made if "outcome" in line}
    return [{**line, **ends[line["position"]]} for line in made if "words" in line and line["position"] in ends]


@pytest.mark.parametrize("kind", SHARES)
def test_what_was_altered_gives_the_same_result_or_one_sentence(
    kind: str, forks: ForkServer, made: Path, scratch: Path, request: pytest.FixtureRequest
) -> None:
    share, allowed = SHARES[kind]
    asked = request.config.getoption
    drawn = {"kind": kind, "seed": asked("--fuzz-seed"), "count": math.ceil(share * asked("--fuzz"))}
    found = alter_all(forks, made, drawn, scratch)
    counts = Counter(line["outcome"] for line in found)
    print(f"{kind}: {len(found)} alterations, {dict(counts)}")
    wrong = [line for line in found if line["outcome"] not in allowed]
    listed = [f"{line['case']}, {line['number']}: {line['words']}: {line['outcome']} {line['said']}" for line in wrong]
    assert not wrong, f"{len(wrong)} of {len(found)}, the first ones:\n" + "\n".join(listed[:5])
    assert counts["sentence"] > 0.3 * len(found), "alterations are to be noticed"


def test_every_method_has_cases_of_its_own(made: Path) -> None:
    from dmmc.methods import METHODS

    names = {name.partition(",")[0] for name in json.loads((made / "cases" / "wanted.json").read_text())}
    assert names >= set(METHODS)
