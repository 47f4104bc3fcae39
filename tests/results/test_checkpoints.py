"""Interrupted fits go on: the same bits as if nothing had happened, or a sentence that says why not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import data_sets
import numpy as np
import pytest
import scipy.sparse
import zarr
from forgeries import Change, put, write_sealed
from stops import Stop, stop_after
from waits import end_of, scale, until

import dmmc
from dmmc.plain_json import plain
from dmmc.results import array_folder, belonging, checkpoints
from dmmc.results.folder import MARK, Out

pytestmark = pytest.mark.filterwarnings("ignore::dmmc.ClusteringWarning")

ROWS = 400
PACKAGE = str(Path(dmmc.__file__).parents[1])


def digits() -> Any:
    rows: Any = data_sets.load("digits")[0][:ROWS]
    return rows.astype(np.float32)


def outlying() -> Any:
    rows = digits()
    rows[[5, 77]] *= 40
    return rows


def linked() -> list[tuple[int, int, str]]:
    y = data_sets.load("digits")[1] % 3
    return [(i, i + 50, "must" if y[i] == y[i + 50] else "cannot") for i in range(0, 300, 7)]


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "two clusters": lambda: {"source": digits(), "n_clusters": 2, "method": "cpmmc"},
    "ten clusters": lambda: {"source": digits(), "n_clusters": 10, "method": "cpmmc"},
    "random starts": lambda: {"source": digits(), "n_clusters": 3, "init": "random", "n_init": 3},
    "sparse": lambda: {"source": scipy.sparse.csr_array(digits()), "n_clusters": 5, "n_init": 2},
    "weights and outliers": lambda: {
        "source": outlying(),
        "n_clusters": 4,
        "sample_weight": np.random.default_rng(0).random(ROWS),
        "method": "cpmmc",
    },
    "labels and bounds": lambda: {"source": digits(), "n_clusters": 4, "init": np.arange(ROWS) % 4, "min_size": 0.9},
    "uneven clusters": lambda: {"source": data_sets.customers(0, ROWS)[0], "n_clusters": 4, "method": "cpmmc"},
    "candidates": lambda: {"source": digits(), "n_clusters": 4, "method": "auto"},
    "linked rows": lambda: {"source": digits(), "n_clusters": 3, "constraints": linked()},
    "seeded again": lambda: {"source": digits(), "n_clusters": 6, "init": "random", "n_init": 1, "min_size": 0},
}


def history(out: Path) -> list[str]:
    """The lines of a history, without their times."""
    lines = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    seconds = [line.pop("seconds") for line in lines]
    assert seconds == sorted(seconds)
    return [json.dumps(line) for line in lines]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_same(one: Path, other: Path) -> None:
    """The same bits in labels, model and history."""
    assert files(one / "labels.zarr") == files(other / "labels.zarr")
    for name in ("coef.npy", "intercept.npy"):
        assert (one / "model" / name).read_bytes() == (other / "model" / name).read_bytes()
    assert history(one) == history(other)
    assert sorted(os.listdir(one)) == sorted(os.listdir(other))
    content = [array_folder.read(out / "model", "model")[0] for out in (one, other)]
    for model in content:
        model["params"] = {name: value for name, value in model["params"].items() if name not in checkpoints.FREE}
    assert content[0] == content[1]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ------------------------------------------------------------------------------------------------------ same bits


@pytest.mark.parametrize("name", CASES)
def test_a_fit_stopped_again_and_again_ends_with_the_same_bits(name: str, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    dmmc.fit(**CASES[name](), out=whole)
    stops, run = 0, None
    while run is None:
        try:
            run = dmmc.fit(**CASES[name](), out=out, resume=True, callbacks=stop_after(1 + 2 * stops))
        except Stop:
            stops += 1
            assert {"checkpoint", "history.jsonl", MARK} == set(names(out))
    assert stops >= 3
    assert_same(whole, out)
    written = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    assert plain(run.history) == written
    assert names(tmp_path) == ["out", "whole"]


REPO = Path(dmmc.__file__).parents[1]
SERVER = """
import json, os, signal, sys, time
import numpy as np
import dmmc, dmmc.app.api, dmmc.results.checkpoints, sklearn.cluster, zarr
sys.path.insert(0, sys.argv[1])
from test_checkpoints import CASES, digits
import warnings

dmmc.results.checkpoints.EVERY, dmmc.results.checkpoints.SHARE = 0.0, np.inf  # a checkpoint after every pass
warnings.simplefilter("ignore")
FILES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}

def killed_at(number):
    seen = [0]
    def hook(event, arguments):
        if event in FILES and (event != "open" or (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY)):
            seen[0] += 1
            if seen[0] == number:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)
    return seen

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if child == 0:
        try:
            seen = killed_at(job["kill"])
            dmmc.fit(**CASES[job["case"]](), out=job["out"], resume=job["resume"], overwrite=not job["resume"])
            if job["count"]:
                open(job["count"], "w").write(str(seen[0]))
            os._exit(0)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Fits:
    """Fits of the cases in processes of their own, which can be killed."""

    def __init__(self) -> None:
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(Path(__file__).parent)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), *sys.path])},
        )

    def start(self, case: str, out: Path, *, resume: bool = True, kill: int = 0, count: str = "") -> int:
        """Begin a fit; `kill` is the number of the file operation at which it is killed."""
        assert self.server.stdin is not None
        job = {"case": case, "out": str(out), "resume": resume, "kill": kill, "count": count}
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        return self._read()

    def code(self) -> int:
        """How the last one ended."""
        return self._read()

    def _read(self) -> int:
        assert self.server.stdout is not None
        return int(self.server.stdout.readline())


@pytest.fixture(scope="module")
def fits() -> Iterator[Fits]:
    found = Fits()
    yield found
    assert found.server.stdin is not None
    found.server.stdin.close()
    found.server.wait(30)


def wait_for(passes: int, path: Path) -> None:
    until(lambda: path.exists() and path.read_bytes().count(b"\n") >= passes, f"{passes} passes", 60, 0.001)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("labels and bounds", "seeded again")])
def test_a_fit_killed_twice_ends_with_the_same_bits(name: str, fits: Fits, tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    dmmc.fit(**CASES[name](), out=whole)
    passes = len(history(whole))
    for part in (3, 2):
        process = fits.start(name, out)
        wait_for(passes // part, out / "history.jsonl")
        os.kill(process, signal.SIGKILL)
        assert fits.code() == -signal.SIGKILL
        with pytest.raises(dmmc.InputError, match=r"is unfinished.*--resume"):
            dmmc.load(out)
    fits.start(name, out)
    assert fits.code() == 0
    assert_same(whole, out)


def test_a_fit_killed_at_any_file_operation_goes_on_and_an_earlier_result_is_never_lost(
    fits: Fits, tmp_path: Path
) -> None:
    whole, out, count = tmp_path / "whole", tmp_path / "out", tmp_path / "count"
    fits.start("ten clusters", whole, count=str(count))
    assert fits.code() == 0
    dmmc.fit(digits(), 3, out=tmp_path / "earlier", method="cpmmc")
    operations = int(count.read_text())
    assert operations > 100
    kills = [1, 8, 17, 20, operations // 2, operations - 22, *range(operations - 6, operations + 1)]
    for number, kill in enumerate(kills):
        shutil.rmtree(out, ignore_errors=True)
        replaces = number % 2 == 0
        if replaces:
            shutil.copytree(tmp_path / "earlier", out)
        fits.start("ten clusters", out, resume=False, kill=kill)
        code = fits.code()
        assert code in (0, -signal.SIGKILL)
        begun = (tmp_path / ".out.partial").exists()
        if replaces:
            assert dmmc.load(out).n_clusters in (10, 3)
        with suppress(dmmc.InputError):  # "finished"
            dmmc.fit(**CASES["ten clusters"](), out=out, resume=True)
        if dmmc.load(out).n_clusters == 3:  # killed before it had a folder of its own
            assert not begun
        else:
            assert_same(whole, out)
        assert names(tmp_path) == ["count", "earlier", "out", "whole"], kill


# ------------------------------------------------------------------------------------------------------ interrupts

ENDLESS = ("--set", "epsilon=1e-9", "--set", "max_iter=1000000", "--set", "n_init=8")
START = ("--set", "n_init=1000")
"""A start that takes longer than the progress line keeps silent."""


@pytest.fixture(scope="module")
def long_store(tmp_path_factory: pytest.TempPathFactory, store_of: Callable[..., Path]) -> Path:
    rows = np.random.default_rng(0).normal(size=(40_000, 40)).astype(np.float32)
    return store_of(tmp_path_factory.mktemp("long") / "long.zarr", rows, 20_000)


def test_a_hail_of_signals_leaves_a_whole_checkpoint(start: Any, cli: Any, long_store: Path, tmp_path: Path) -> None:
    out, limits = tmp_path / "out", ("--set", "init=random", "--quiet")
    process = start("fit", "--method", "cpmmc", long_store, "-k", 5, "-o", out, *ENDLESS, *limits)
    wait_for(3, out / "history.jsonl")
    end = time.monotonic() + 3  # well within the time in which they are taken for one
    while process.poll() is None and time.monotonic() < end:
        process.send_signal(signal.SIGTERM if time.monotonic_ns() % 2 else signal.SIGINT)
        time.sleep(0.002)
    _, stderr = end_of(process, 60)
    assert process.returncode == 130
    place = out / "checkpoint"
    assert stderr == (
        f"dmmc: interrupted. A checkpoint was written ({place}): say --resume (resume=True) to go on with it.\n"
    )
    passes = len(array_folder.read(place, "checkpoint")[0]["search"][1])
    assert passes >= 3
    assert passes >= len(history(out)) - 1
    done = cli(
        "fit", "--method", "cpmmc", long_store, "-k", 5, "-o", out, *ENDLESS, *limits, "--resume", "--max-seconds", 3
    )
    assert done.code == 0, done.stderr
    assert len(history(out)) >= passes
    assert not place.exists()


def test_a_fit_interrupted_before_its_search_has_nothing_to_resume(
    start: Any, long_store: Path, tmp_path: Path
) -> None:
    process = start("fit", "--method", "cpmmc", long_store, "-k", 50, "-o", tmp_path / "made" / "out", *START)
    for line in process.stderr:
        if '"start"' in line:
            break
    process.send_signal(signal.SIGTERM)
    _, stderr = end_of(process, 20)
    assert process.returncode == 130
    assert stderr == (
        "dmmc: interrupted. The search had not begun: there is nothing to resume, what was unfinished is removed.\n"
    )
    assert names(tmp_path) == []


def test_an_overwriting_fit_that_was_interrupted_goes_on_beside_the_earlier_result(tmp_path: Path) -> None:
    whole, out = tmp_path / "whole", tmp_path / "out"
    dmmc.fit(digits(), 3, out=out, method="cpmmc")
    dmmc.fit(digits(), 10, out=whole, method="cpmmc")
    before = files(out)
    with pytest.raises(Stop) as stopped:
        dmmc.fit(digits(), 10, out=out, overwrite=True, callbacks=stop_after(4), method="cpmmc")
    assert "say --resume (resume=True) in place of --overwrite" in stopped.value.__notes__[0]
    assert files(out) == before
    with pytest.raises(Stop):
        dmmc.fit(digits(), 10, out=out, resume=True, callbacks=stop_after(4), method="cpmmc")
    assert files(out) == before
    dmmc.fit(digits(), 10, out=out, resume=True, method="cpmmc")
    assert_same(whole, out)
    assert names(tmp_path) == ["out", "whole"]


def test_a_checkpoint_beside_a_folder_of_the_users_does_not_replace_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    dmmc.fit(digits(), 3, out=out, method="cpmmc")
    with pytest.raises(Stop):
        dmmc.fit(digits(), 4, out=out, overwrite=True, callbacks=stop_after(1), method="cpmmc")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(dmmc.InputError, match=r"holds 'notes.txt', which dmmc did not write"):
        dmmc.fit(digits(), 4, out=out, resume=True, method="cpmmc")
    shutil.rmtree(out)
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    with pytest.raises(dmmc.InputError, match="is not a dmmc result; there is nothing to resume in it"):
        dmmc.fit(digits(), 4, out=out, resume=True, method="cpmmc")
    assert names(tmp_path) == [".out.partial", "out"]
    shutil.rmtree(out)
    dmmc.fit(digits(), 4, out=out, resume=True, method="cpmmc")
    assert names(tmp_path) == ["out"]


# ------------------------------------------------------------------------------------------------- when to begin


def test_a_resume_begins_where_there_is_nothing(tmp_path: Path) -> None:
    dmmc.fit(digits(), 2, out=tmp_path / "a" / "out", resume=True, method="cpmmc")
    assert dmmc.load(tmp_path / "a" / "out").n_clusters == 2


def test_a_resume_begins_again_where_no_search_had_begun(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / MARK).write_text("")
    (out / "history.jsonl").write_text("{}\n")
    dmmc.fit(digits(), 2, out=out, resume=True, method="cpmmc")
    assert len(history(out)) == dmmc.load(out).n_iter_
    (tmp_path / ".out.partial").mkdir()
    (tmp_path / ".out.partial" / MARK).write_text("")
    dmmc.fit(digits(), 3, out=out, resume=True, method="cpmmc")
    assert dmmc.load(out).n_clusters == 3
    assert names(tmp_path) == ["out"]


def test_a_finished_fit_is_not_resumed(tmp_path: Path) -> None:
    dmmc.fit(digits(), 2, out=tmp_path / "out", method="cpmmc")
    before = files(tmp_path)
    with pytest.raises(dmmc.InputError, match="is finished: nothing to resume"):
        dmmc.fit(digits(), 2, out=tmp_path / "out", resume=True, method="cpmmc")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "words"),
    [({"overwrite": True, "out": "x"}, "overwrite=True too: choose one"), ({}, "no out: the folder to go on in")],
)
def test_a_resume_of_something_and_nothing_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(dmmc.InputError, match=words):
        dmmc.fit(digits(), 2, resume=True, **options)


def test_without_an_out_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Stop) as stopped:
        dmmc.fit(digits(), 2, callbacks=stop_after(2), method="cpmmc")
    assert not hasattr(stopped.value, "__notes__")
    assert names(tmp_path) == []


# ------------------------------------------------------------------------------------------------------- refusals


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT of a fit that was stopped after three passes; to be copied, not changed."""
    out = tmp_path_factory.mktemp("interrupted") / "out"
    with pytest.raises(Stop):
        dmmc.fit(**asked(), out=out, callbacks=stop_after(3))
    return out


def asked() -> dict[str, Any]:
    return {
        "source": digits(),
        "n_clusters": 4,
        "init": np.arange(ROWS) % 4,
        "sample_weight": np.arange(ROWS) % 3 + 1,
        "random_state": 7,
    }


@pytest.fixture
def out(interrupted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(interrupted, tmp_path / "out"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"n_clusters": 5}, "n_clusters is 5, but 4 in the checkpoint"),
        ({"method": "cpmmc"}, "method is 'cpmmc', but 'auto' in the checkpoint"),
        ({"C": 3, "epsilon": 0.5}, "C is 3, but 'auto' in the checkpoint; epsilon is 0.5, but 0.01 in the checkpoint"),
        ({"random_state": 8}, "random_state is 8, but 7 in the checkpoint"),
        ({"init": "k-means"}, r"init is 'k-means', but 'shape \(400,\), sha256 [0-9a-f]{16}' in the checkpoint"),
        ({"init": np.arange(ROWS) % 3}, r"init is 'shape \(400,\), sha256 [0-9a-f]{16}', but"),
        ({"sample_weight": None}, "sample_weight is None, but 'shape"),
        ({"sample_weight": np.ones(ROWS)}, "sample_weight is 'shape"),
        ({"max_iter": 5}, "max_iter is 5, but 1000 in the checkpoint"),
    ],
)
def test_other_parameters_are_refused_by_name_before_the_data_are_read(
    change: dict[str, Any], words: str, out: Path
) -> None:
    before = files(out)
    with pytest.raises(dmmc.InputError, match=rf"out cannot be resumed: {words}") as refused:
        dmmc.fit(**{**asked(), "source": "no/such/store", **change}, out=out, resume=True)
    assert not hasattr(refused.value, "__notes__")
    assert {**files(out), MARK: b""} == {**before, MARK: b""}


def other_number() -> Any:
    rows = digits()
    rows[333, 3] += 1
    return rows


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (lambda: digits()[:, 1:], "the data's n_features is 63, but 64 in the checkpoint"),
        (lambda: digits().astype(np.float64), "the data's dtype is 'float64', but 'float32' in the checkpoint"),
        (lambda: scipy.sparse.csr_array(digits()), "the data's sparse is True, but False in the checkpoint"),
        (other_number, "the data's fingerprint is '[0-9a-f]+', but '[0-9a-f]+' in the checkpoint"),
    ],
)
def test_other_data_are_refused(rows: Callable[[], Any], words: str, out: Path) -> None:
    before = files(out)
    with pytest.raises(dmmc.InputError, match=words):
        dmmc.fit(**{**asked(), "source": rows()}, out=out, resume=True)
    assert {**files(out), MARK: b""} == {**before, MARK: b""}


def test_other_rows_than_the_weights_were_for_are_refused(out: Path) -> None:
    with pytest.raises(dmmc.InputError, match="the data's n_rows is 300, but 400 in the checkpoint"):
        dmmc.fit(**{**asked(), "source": digits()[:300]}, out=out, resume=True)


def test_what_cannot_change_the_result_may_differ(out: Path, tmp_path: Path, store_of: Callable[..., Path]) -> None:
    dmmc.fit(**asked(), out=tmp_path / "whole")
    store = store_of(tmp_path / "elsewhere.zarr", digits(), 70)
    options = {**asked(), "source": store, "init": (np.arange(ROWS) % 4).astype(np.int8), "n_jobs": 1}
    heard: list[Any] = []
    dmmc.fit(**options, out=out, resume=True, max_seconds=1000, callbacks=heard.append, progress=heard.append)
    assert heard
    for name in ("labels.zarr", "model"):
        assert files(out / "labels.zarr") == files(tmp_path / "whole" / "labels.zarr"), name
    assert history(out) == history(tmp_path / "whole")


def rewritten(out: Path, change: Change, array: Any = None) -> None:
    """Change what a checkpoint says, with all checksums right."""
    content, arrays = array_folder.read(out / "checkpoint", "checkpoint")
    change(content)
    write_sealed(out / "checkpoint", "checkpoint", content, arrays if array is None else {**arrays, "state": array})


@pytest.mark.parametrize("library", checkpoints.BITS)
def test_other_versions_are_refused_by_name(library: str, out: Path) -> None:
    rewritten(out, lambda content: content["versions"].update({library: "0.0.1"}))
    with pytest.raises(dmmc.InputError, match=f"{library} is '.*', but '0.0.1' in the checkpoint"):
        dmmc.fit(**asked(), out=out, resume=True)


def test_another_cpu_is_a_warning(out: Path) -> None:
    rewritten(out, lambda content: content["versions"].update(cpu="z80"))
    with pytest.warns(dmmc.ClusteringWarning, match="written on a CPU of type 'z80'"):
        run = dmmc.fit(**asked(), out=out, resume=True)
    assert any("z80" in text for text in run.info["warnings"])


def test_a_seed_that_was_drawn_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    options: dict[str, Any] = {"init": "random", "n_init": 2, "out": out, "random_state": None}
    with pytest.raises(Stop):
        dmmc.fit(digits(), 3, **options, callbacks=stop_after(2))
    seed = array_folder.read(out / "checkpoint", "checkpoint")[0]["asked"]["random_state"]
    run = dmmc.fit(digits(), 3, **options, resume=True)
    assert run.info["seed"] == seed
    again = dmmc.fit(digits(), 3, **{**options, "random_state": seed, "out": None})
    assert np.array_equal(again.labels, run.labels)


def test_an_out_that_was_left_unfinished_says_how_to_go_on(out: Path, cli: Any, digits_store: Path) -> None:
    for arguments in (
        ("fit", digits_store, "-k", 2, "-o", out, "--quiet"),
        ("predict", out, digits_store, "-o", out.parent / "labels.zarr"),
        ("report", out),
    ):
        done = cli(*arguments)
        assert done.code == 2
        assert "unfinished" in done.stderr
        assert "--resume" in done.stderr
    done = cli("fit", "--method", "cpmmc", digits_store, "-k", 2, "-o", out, "--quiet", "--resume", "--overwrite")
    assert (done.code, done.stderr) == (2, "dmmc: resume=True was given, and overwrite=True too: choose one of them.\n")
    done = cli("fit", "--method", "cpmmc", digits_store, "-k", 2, "-o", out, "--quiet", "--resume")
    assert done.code == 2
    assert "n_clusters is 2, but 4 in the checkpoint" in done.stderr
    assert "sample_weight is None, but" in done.stderr
    assert names(out) == sorted(["checkpoint", "history.jsonl", MARK])


# --------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("name", ["checkpoint.json", "state.npy"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "link"])
def test_a_damaged_checkpoint_is_refused_naming_the_file(name: str, damage: str, out: Path) -> None:
    path = out / "checkpoint" / name
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif damage == "cut":
        path.write_bytes(data[:-3])
    else:
        path.rename(out / "elsewhere")
        if damage == "link":
            path.symlink_to(out / "elsewhere")
    with pytest.raises(dmmc.InputError, match=str(path)):
        dmmc.fit(**asked(), out=out, resume=True)
    assert (out / MARK).exists()


RUN = ("search", 0, "named", 1, 0, 1, 0, "named", 1)  # the fields of the first run


@pytest.mark.parametrize(
    "change",
    [
        put(None, "asked"),
        put(3, "versions"),
        put([], "data"),
        put(None, "search"),
        put([], "search"),
        put([1, []], "search"),
        put({"named": ["Popen", []]}, "search", 0),
        put([{"dict": []}], "search", 1),
        put([1], "search", 1),
        put("x", "search", 1, 0, "dict", 0, 1),
        put(7, *RUN, 0, 1),
        put("x", *RUN, 1, 1),
        put({"named": ["Given", [["key", 1]]]}, *RUN, 2, 1),
        put("<f4", *RUN, 3, 1, "named", 1, 0, 1, "array", 0),
        put([4, 63], *RUN, 3, 1, "named", 1, 0, 1, "array", 1),
        put([64, 4], *RUN, 3, 1, "named", 1, 0, 1, "array", 1),
        put([10**9, 64], *RUN, 3, 1, "named", 1, 0, 1, "array", 1),
        put([0], *RUN, 1, 1, "named", 1, 8, 1, "array", 1),
    ],
)
def test_a_made_up_checkpoint_with_right_checksums_is_refused(change: Change, out: Path) -> None:
    rewritten(out, change)
    with pytest.raises(dmmc.InputError, match=r"checkpoint\.json is damaged"):
        dmmc.fit(**asked(), out=out, resume=True)


def test_a_checkpoint_whose_seal_is_another_is_refused(out: Path) -> None:
    content, arrays = array_folder.read(out / "checkpoint", "checkpoint")
    content["search"][1][0]["dict"][1][1] = {"float": "3ff0000000000000"}
    array_folder.write(out / "checkpoint", "checkpoint", content, arrays)
    with pytest.raises(dmmc.InputError, match=r"checkpoint\.json is damaged: its seal is not that of what it holds"):
        dmmc.fit(**asked(), out=out, resume=True)


def test_a_checkpoint_from_before_seals_goes_on_and_a_note_says_so(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, arrays = array_folder.read(out / "checkpoint", "checkpoint")
    del content["seal"]
    content["asked"] = {name: value for name, value in content["asked"].items() if name not in belonging.LATER}
    with monkeypatch.context() as patch:
        patch.setattr(array_folder, "VERSION", 2)
        array_folder.write(out / "checkpoint", "checkpoint", content, arrays)
    with pytest.warns(dmmc.ClusteringWarning, match="was written by an earlier version and has no seal"):
        dmmc.fit(**asked(), out=out, resume=True)
    dmmc.fit(**asked(), out=tmp_path / "whole")
    assert_same(tmp_path / "whole", out)


def test_a_state_without_bytes_is_refused(out: Path) -> None:
    rewritten(out, lambda content: None, np.zeros(10))
    with pytest.raises(dmmc.InputError, match=r"checkpoint\.json is damaged"):
        dmmc.fit(**asked(), out=out, resume=True)


# ------------------------------------------------------------------------------------------ when and how it is saved


def test_a_checkpoint_that_cannot_be_written_does_not_hide_what_ended_the_search(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stop = stop_after(5)

    def obstruct(line: dict[str, Any]) -> None:
        if line["iteration"] == 2:
            (out / ".checkpoint.new").write_text("in the way")
        stop(line)

    with pytest.raises(Stop):
        dmmc.fit(digits(), 10, out=out, callbacks=obstruct, method="cpmmc")
    (out / ".checkpoint.new").unlink()
    dmmc.fit(digits(), 10, out=out, resume=True, method="cpmmc")
    dmmc.fit(digits(), 10, out=tmp_path / "whole", method="cpmmc")
    assert_same(out, tmp_path / "whole")


def test_a_result_that_cannot_be_written_leaves_the_search(tmp_path: Path) -> None:
    out = tmp_path / "out"

    def obstruct(event: dict[str, Any]) -> None:
        if event["phase"] == "write":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space") as failed:
        dmmc.fit(digits(), 3, out=out, progress=obstruct, method="cpmmc")
    assert "say --resume" in failed.value.__notes__[0]
    passes: list[Any] = []
    dmmc.fit(digits(), 3, out=out, resume=True, callbacks=passes.append, method="cpmmc")
    assert passes == []
    dmmc.fit(digits(), 3, out=tmp_path / "whole", method="cpmmc")
    assert_same(out, tmp_path / "whole")


def saved(out: Out) -> int:
    return len(array_folder.read(out.checkpoint, "checkpoint")[0]["search"][1])


def test_checkpoints_are_written_at_once_at_first_and_then_not_too_often(tmp_path: Path) -> None:
    with Out(tmp_path / "out") as out, checkpoints.Checkpoints(out) as keeper:
        keeper.compare({})
        keeper.compare_data(n_rows=1)
        assert keeper.find_state("", (), lambda state: True) is None
        lines: list[dict[str, Any]] = []
        keeper.keep((np.zeros(3),), lines)
        assert saved(out) == 0
        for iteration in range(1, 100):
            lines.append({"iteration": iteration})
            keeper.keep((np.zeros(3),), lines)
        assert saved(out) == 0
        keeper.save()
        assert saved(out) == 99


def test_writing_checkpoints_takes_a_small_part_of_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "EVERY", 0.0)
    with Out(tmp_path / "out") as out, checkpoints.Checkpoints(out) as keeper:
        keeper.compare({})
        keeper.compare_data(n_rows=1)
        state, lines = (np.zeros(2_000_000),), [{"iteration": 1}]
        began, spent = time.perf_counter(), []
        while time.perf_counter() - began < 2.0:
            before = time.perf_counter()
            keeper.keep(state, lines)
            spent.append(time.perf_counter() - before)
            lines.append({"iteration": len(lines) + 1})
            time.sleep(0.001)
    assert spent[0] > 0.001  # the first one is written at once
    assert sum(spent[1:]) - max(spent[1:]) < 2.0 * 2 * checkpoints.SHARE


def test_the_history_goes_on_in_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(Stop):
        dmmc.fit(digits(), 10, out=out, callbacks=stop_after(5), method="cpmmc")
    pause = scale(0.3)
    time.sleep(pause)
    run = dmmc.fit(digits(), 10, out=out, resume=True, method="cpmmc")
    seconds = [line["seconds"] for line in run.history]
    assert seconds == sorted(seconds)
    assert seconds[5] - seconds[4] < pause
    labels = zarr.open(str(out / "labels.zarr"), mode="r")[:]
    assert np.array_equal(labels, run.labels)
