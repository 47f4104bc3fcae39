"""Fits of the digits whose processes are killed, stopped and terminated at random moments: do they end right?

    python benchmarks/chaos.py --kills 200 --seed 1       # a line for each fit, then a table: method x outcome
    python benchmarks/chaos.py --kills 20 --only spectral # methods and features whose name contains this

A fit is `dmmc fit` with two workers of its own, or on a cluster. When a random phase of it has begun (connect, read,
measure, those that make features, start, search, label, write), and after a random part of the time that this phase
usually takes, a worker, all workers, the scheduler or the driver gets SIGKILL, SIGTERM or SIGSTOP, the last with
SIGCONT a little later or without.

Right is: the bits of a fit on threads that nobody disturbed, either with exit code 0 or, where that is 3 (the cluster
is lost), 130 (the driver was terminated) or that of a killed driver, after `--resume`; nothing on stderr that is not
dmmc's own; no process left; and all of it before a deadline. Exit code 1 if anything else happened.

Processes are those of the fault tests (tests/tools, tests/faults), so pytest is needed.
"""

from __future__ import annotations

import csv
import logging
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import _checkout  # noqa: F401
import numpy as np
import psutil
import scipy.sparse
import zarr
from _report import Report, arguments, destination, headline
from fault_tools import Command, bits, written
from forks import ForkServer
from grids import Grid, alive, family, kill_all
from sklearn.datasets import load_digits
from waits import slowness

import dmmc
from dmmc import estimators
from dmmc.convert import convert
from dmmc.data import blocks
from dmmc.estimators.parameters import list_parameters
from dmmc.features.build import FEATURES
from dmmc.methods import METHODS
from dmmc.results.belonging import is_unfinished

ROWS, CLUSTERS, PASSES = 600, 3, 10
"""Of a fit: few enough that the start of its workers takes most of the time."""
DEADLINE = 60.0
"""Seconds for a fit, and for going on with it, on an idle machine."""
LIMITS = {"connect": 6.0, "workers": 8.0, "stuck": 5.0}
"""Settings `dmmc.wait.*` of the fits, in seconds on an idle machine: those who wait for a process that stands still."""
OUTCOMES = ("same bits", "3, resumed", "130, resumed", "killed, resumed", "FAILED")
KINDS = ("raw", "csr", "graph start", *(name for name in FEATURES if name not in ("raw", "umap")))
"""What is fitted, and in which features; UMAP's own start takes longer than all of the rest."""


class Case(NamedTuple):
    """A fit."""

    method: str
    kind: str

    @property
    def name(self) -> str:
        return self.method if self.kind == "raw" else f"{self.method}, {self.kind}"


class Kill(NamedTuple):
    """Whom a signal is sent, which one, and when."""

    target: str
    """"worker", "workers", "scheduler" or "driver"."""
    number: signal.Signals
    pause: float | None
    """Of SIGSTOP: seconds until SIGCONT; None for ever."""
    phase: str
    delay: float
    """Seconds after the phase has begun."""

    def __str__(self) -> str:
        rest = "" if self.number != signal.SIGSTOP else " for good" if self.pause is None else f" {self.pause:.1f} s"
        return f"{self.target} {self.number.name[3:]}{rest} in {self.phase} + {self.delay:.2f} s"


class Outcome(NamedTuple):
    """How a fit ended."""

    word: str
    """One of `OUTCOMES`."""
    kills: list[str]
    """Those that were sent before it had ended."""
    seconds: float
    why: str = ""
    """What is wrong."""


class Wrong(Exception):  # noqa: N818
    """Something that may not happen, in a sentence."""


# ------------------------------------------------------------------------------------------------------------- cases


def list_cases() -> list[Case]:
    """Every method, with all kinds of rows and features that it takes."""
    found = []
    for method, record in METHODS.items():
        own = {one.name: one.range for one in list_parameters(getattr(estimators, record.estimator)())}
        for kind in KINDS:
            name, word = ("init", "graph") if kind == "graph start" else ("features", kind)
            if kind in ("raw", "csr") or (name not in record.params and word in getattr(own.get(name), "words", ())):
                found.append(Case(method, kind))
    return found


class Undisturbed(NamedTuple):
    """What a fit gives, and the seconds of its phases."""

    bits: dict[str, Any]
    seconds: dict[str, float]


class Sources:
    """The digits as stores, linked pairs of them, and what an undisturbed fit gives."""

    def __init__(self, folder: Path) -> None:
        X, y = load_digits(return_X_y=True)
        X, y = X[:ROWS].astype(np.float32), y[:ROWS]
        self._stores = {"raw": folder / "digits.zarr", "csr": folder / "sparse.zarr"}
        zarr.create_array(str(self._stores["raw"]), data=X, chunks=(100, X.shape[1]))
        scipy.sparse.save_npz(folder / "sparse.npz", scipy.sparse.csr_array(X))
        convert(folder / "sparse.npz", self._stores["csr"], chunk_rows=100)
        self._pairs = folder / "pairs.csv"
        with open(self._pairs, "w", newline="") as file:
            links = [(i, i + 50, "must" if y[i] == y[i + 50] else "cannot") for i in range(0, ROWS - 50, 10)]
            csv.writer(file).writerows([("i", "j", "link"), *links])
        self._undisturbed: dict[Case, Undisturbed] = {}

    def source(self, case: Case) -> Path:
        return self._stores.get(case.kind, self._stores["raw"])

    def params(self, case: Case) -> dict[str, Any]:
        """Parameters of the estimator; with any, `auto` would be another method."""
        if case.method == "auto":
            return {}
        if case.kind in ("raw", "csr"):
            return {"max_iter": PASSES}
        features = {"init": "graph"} if case.kind == "graph start" else {"features": case.kind}
        return {"max_iter": PASSES, **features}

    def words(self, case: Case) -> list[Any]:
        """The same fit at the command line, without its folder."""
        pairs = ["--constraints", self._pairs] if case.method == "pairwise" else []
        sets = [word for name, value in self.params(case).items() for word in ("--set", f"{name}={value}")]
        return ["fit", self.source(case), "-k", CLUSTERS, "--method", case.method, *pairs, *sets]

    def undisturbed(self, case: Case) -> Undisturbed:
        """A fit in this process."""
        if case not in self._undisturbed:
            pairs = {"constraints": str(self._pairs)} if case.method == "pairwise" else {}
            run = dmmc.fit(self.source(case), CLUSTERS, method=case.method, **pairs, **self.params(case))
            seconds = {phase: taken for phase, taken in run.info["timings"].items() if phase != "total"}
            self._undisturbed[case] = Undisturbed(bits(run), seconds)
        return self._undisturbed[case]


# ------------------------------------------------------------------------------------------------------------- kills


def choose_moment(rng: np.random.Generator, seconds: dict[str, float]) -> tuple[str, float]:
    """A phase and how long after its beginning; `seconds` is what each phase takes."""
    phase = str(rng.choice(list(seconds)))
    return phase, float(rng.uniform(0.0, 1.1)) * seconds[phase]


def plan_kills(
    rng: np.random.Generator, seconds: dict[str, float], on_cluster: bool, may_be_for_good: bool
) -> list[Kill]:
    """One to three of them, in the order of their phases."""
    kills = []
    for _ in range(1 + int(rng.binomial(2, 0.15))):
        targets = ["worker", "workers", "driver", *(["scheduler"] * 2 if on_cluster else [])]
        target = str(rng.choice(targets, p=_shares(len(targets))))
        number = signal.Signals(rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], p=[0.5, 0.2, 0.3]))
        for_good = rng.random() < 0.25 and may_be_for_good and target != "driver"
        pause = None if for_good or number != signal.SIGSTOP else float(rng.uniform(0.1, 2.0))
        kills.append(Kill(target, number, pause, *choose_moment(rng, seconds)))
    return sorted(kills, key=lambda kill: (list(seconds).index(kill.phase), kill.delay))


def _shares(count: int) -> list[float]:
    """How often each target is chosen: a single worker most often."""
    return [0.5, *[0.5 / (count - 1)] * (count - 1)]


class Fit:
    """A `dmmc fit` under way: its phases as it tells of them, its processes, and signals to them."""

    def __init__(self, command: Command, grid: Grid | None) -> None:
        self.command = command
        self.processes: set[int] = set()
        self.stopped: set[int] = set()
        self.seen: dict[str, float] = {}
        """When each phase began."""
        self.killed: set[int] = set()
        """Signals that the driver was sent."""
        self._grid = grid
        self._heard = 0
        self._counted = 0.0
        """When processes were last looked for, which takes longer than a look at the phases."""

    @property
    def ended(self) -> bool:
        return self.command.process.poll() is not None

    def look(self) -> None:
        """Take note of phases that have begun and, less often, of processes."""
        said = self.command.process.stderr
        for line in said[self._heard : said.rfind("\n") + 1].splitlines():
            if line.startswith('{"phase": "'):
                self.seen.setdefault(line.split('"')[3], time.monotonic())
        self._heard = said.rfind("\n") + 1
        if time.monotonic() > self._counted + 0.2:
            self._counted = time.monotonic()
            self.processes |= family(self.command.process.pid)

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is true, the fit has ended, or time is up."""
        until = time.monotonic() + seconds
        while not condition() and not self.ended and time.monotonic() < until:
            time.sleep(0.005)
            self.look()
        return condition()

    def send(self, kill: Kill, rng: np.random.Generator) -> bool:
        """Send a signal to its target, if that is there."""
        pids = self._find(kill.target)
        if kill.target == "worker" and pids:
            pids = [int(rng.choice(pids))]
        self.processes.update(pids if self._grid is None else ())
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, kill.number)
                if kill.number == signal.SIGSTOP:
                    self.stopped.add(pid)
        if kill.target == "driver":
            self.killed.add(kill.number)
        if kill.pause is not None and pids:
            self.wait(lambda: False, kill.pause)
            self.go_on(pids)
        return bool(pids)

    def _find(self, target: str) -> list[int]:
        driver = self.command.process.pid
        if target == "driver":
            return [driver]
        if self._grid is not None:
            started = [self._grid.scheduler] if target == "scheduler" else list(self._grid.workers.values())
            return [process.pid for process in started if alive(process.pid)]
        return [pid for pid in sorted(family(driver)) if "spawn_main" in _command_line(pid)]

    def go_on(self, pids: Any) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self.stopped.discard(pid)


def _command_line(pid: int) -> str:
    with suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


# -------------------------------------------------------------------------------------------------------------- fits


class Arena:
    """Where fits are disturbed: starts them, kills, waits, and compares."""

    def __init__(self, folder: Path, forks: ForkServer, *, for_good: bool) -> None:
        self.sources = Sources(folder)
        self._folder = folder
        self._forks = forks
        self._for_good = for_good
        """Whether processes may be stopped without SIGCONT, which somebody then has to wait for."""
        self._grid: Grid | None = None
        self._number = 0
        self._slow = slowness()
        self._settings = {
            **{f"DASK_DMMC__WAIT__{name.upper()}": f"{self._slow * value:.0f}s" for name, value in LIMITS.items()},
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": f"{self._slow * 4:.0f}s",
            "EVERY_LINE": "0",  # each phase is told as it begins
            "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "info",  # as a user has it, not as the fault tests
        }

    def close(self) -> None:
        if self._grid is not None:
            self._grid.close()
            self._grid = None

    def disturb(self, case: Case, rng: np.random.Generator) -> Outcome:
        """A fit with a few kills: how it ended."""
        self._number += 1
        out = self._folder / f"out{self._number}"
        on_cluster = bool(rng.random() < 0.3)
        grid = self._make_grid() if on_cluster else None
        kills = plan_kills(rng, self._estimate_seconds(case, on_cluster), on_cluster, self._for_good)
        began = time.monotonic()
        fit = self._begin(case, out, grid)
        sent: list[str] = []
        try:
            for kill in kills:
                if fit.wait(lambda kill=kill: kill.phase in fit.seen, self._slow * DEADLINE):
                    fit.wait(lambda: False, kill.delay)
                if not fit.ended and fit.send(kill, rng):
                    sent.append(str(kill))
            self._end(fit)
            word = self._judge(case, fit, out, rng)
            self._check_processes(fit)
            return Outcome(word, sent, time.monotonic() - began)
        except Wrong as wrong:
            return Outcome("FAILED", sent, time.monotonic() - began, str(wrong))
        finally:
            kill_all(fit.processes if not fit.ended or fit.stopped else ())
            if sent and on_cluster:
                self.close()

    def _estimate_seconds(self, case: Case, on_cluster: bool) -> dict[str, float]:
        """About the seconds of each phase with workers: they take two to start, and a pass takes longer than here."""
        here = self.sources.undisturbed(case).seconds
        between = {phase: min(2.0, 0.05 + 2.0 * taken) for phase, taken in here.items()}
        return {"connect": self._slow * (0.2 if on_cluster else 2.0), **between, "write": self._slow}

    def _make_grid(self) -> Grid:
        if self._grid is None:
            folder = self._folder / f"grid{self._number}"
            folder.mkdir()
            self._grid = Grid(folder, self._forks)
            self._grid.add(2)
        return self._grid

    def _begin(self, case: Case, out: Path, grid: Grid | None, *more: object) -> Fit:
        where = ["--workers", 2] if grid is None else ["--scheduler", grid.file]
        words = [*self.sources.words(case), "-o", out, *(more or where)]
        return Fit(Command(self._forks, *words, **self._settings), grid)

    def _end(self, fit: Fit) -> int:
        """Wait for the end; gives the exit code."""
        if not (fit.wait(lambda: fit.ended, DEADLINE) or fit.wait(lambda: fit.ended, slowness() * DEADLINE)):
            os.kill(fit.command.process.pid, signal.SIGUSR1)
            time.sleep(2.0)
            raise Wrong(f"it hangs in {list(fit.seen)[-1:]}: {fit.command.process.stderr[-8000:]}")
        code = fit.command.process.poll()
        assert code is not None
        self._check_words(fit, code)
        return code

    def _check_words(self, fit: Fit, code: int) -> None:
        """Nothing but dmmc's own lines; a killed driver may break off within one."""
        lines = fit.command.process.stderr.splitlines()
        noise = [line for line in lines if not line.startswith(('{"phase": ', "dmmc: "))]
        if noise and not (code == -signal.SIGKILL and noise == lines[-1:] and noise[0].startswith("{")):
            raise Wrong(f"noise on stderr, exit code {code}: {' | '.join(noise)[:3000]}")

    def _judge(self, case: Case, fit: Fit, out: Path, rng: np.random.Generator) -> str:
        code = fit.command.process.poll()
        may = {0: "same bits", 3: "3, resumed"}
        if signal.SIGTERM in fit.killed:
            may[130] = "130, resumed"
        if signal.SIGKILL in fit.killed:
            may[-signal.SIGKILL] = "killed, resumed"
        if code not in may:
            raise Wrong(f"exit code {code}: {fit.command.process.stderr[-1000:]}")
        if code != 0 and (is_unfinished(out) or not out.exists()):
            again = self._begin(case, out, None, "--resume", *(["--workers", 1] if rng.random() < 0.2 else []))
            code = self._end(again)
            if code != 0:
                raise Wrong(f"resumed, exit code {code}: {again.command.process.stderr[-1000:]}")
        if written(out) != self.sources.undisturbed(case).bits:
            raise Wrong("other bits")
        return may[fit.command.process.poll() or 0]

    def _check_processes(self, fit: Fit) -> None:
        """Those of the fit end with it; one that stands still cannot, and what waits for its end is let go."""
        for pid in fit.stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + self._slow * DEADLINE
        while left := {pid for pid in fit.processes if alive(pid)}:
            if time.monotonic() > until:
                raise Wrong(f"processes are left: {[_command_line(pid) for pid in left]}")
            time.sleep(0.02)


def draw_cases(rng: np.random.Generator, cases: list[Case]) -> Iterator[Case]:
    """Cases without end: each method as often as the others, with any kind of rows."""
    while True:
        methods = sorted({case.method for case in cases})
        rng.shuffle(methods)
        for method in methods:
            yield cases[int(rng.choice([i for i, case in enumerate(cases) if case.method == method]))]


def print_table(counts: dict[str, Counter[str]]) -> None:
    print(f"\n{'method':14s}" + "".join(f"{word:>17s}" for word in OUTCOMES))
    for method, found in sorted(counts.items()):
        print(f"{method:14s}" + "".join(f"{found[word] or '':>17}" for word in OUTCOMES))
    total = sum(counts.values(), Counter())
    print(f"{'all':14s}" + "".join(f"{total[word]:>17}" for word in OUTCOMES))


def run(report: Report, kills: int, seed: int, only: str) -> None:
    """Disturb fits until so many signals were sent."""
    cases = [case for case in list_cases() if only in case.name]
    if not cases:
        sys.exit(f"no method and features have {only!r} in their name; there are {[c.name for c in list_cases()]}")
    rng = np.random.default_rng(seed)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    fits: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        forks = ForkServer(Path(scratch))
        arena = Arena(Path(scratch), forks, for_good=not report.small)
        try:
            done = 0
            for case in draw_cases(rng, cases):
                found = arena.disturb(case, rng)
                done += len(found.kills)
                counts[case.method][found.word] += 1
                fits.append({"case": case.name, **found._asdict()})
                what = "; ".join(found.kills) or "ended first"
                print(f"{done:4d}  {case.name:24s} {what:60s} {found.word}  {found.seconds:.1f} s", flush=True)
                if found.why:
                    print(f"      {found.why}", flush=True)
                if done >= kills:
                    break
        finally:
            arena.close()
            forks.close()
    print_table(counts)
    wrong = sum(found["FAILED"] for found in counts.values())
    table = {method: dict(found) for method, found in counts.items()}
    report.measured.update(seed=seed, kills=done, failed=wrong, fits=fits, table=table)
    report.add("fits that ended right / fits that were disturbed", 1 - wrong / len(fits), f"{done} kills", least=1.0)


def main() -> None:
    assert __doc__ is not None
    parser = arguments(__doc__, "chaos")
    parser.add_argument("--kills", type=int, help="signals to send; default 200, small 6")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of fits, signals and moments")
    parser.add_argument("--only", default="", help="methods and features whose name contains this")
    options = parser.parse_args()
    blocks.ONE_BLOCK, blocks.FOUR_BLOCKS = 16 * 1024, 32 * 1024  # as the fits have them (tests/faults/fault_cli.py)
    warnings.simplefilter("ignore", dmmc.ClusteringWarning)
    logging.disable()  # of the clients that look after clusters here
    report = Report("chaos", options.small)
    print(headline())
    run(report, options.kills or (6 if options.small else 200), options.seed, options.only)
    report.write(destination(options.json, "chaos", options.small))
    sys.exit(1 if report.measured["failed"] else 0)


if __name__ == "__main__":
    main()
