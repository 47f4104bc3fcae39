"""What the benchmarks share: timing side by side, lines of ratios, JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

Measured = TypeVar("Measured")

DISTURBED = 0.2
"""Cores that other programs may use during a measurement."""
PATIENCE_HELP = "how long in all to measure again where other programs were at work; default 60"
LIBRARIES = ("numpy", "scipy", "numba", "scikit-learn", "zarr", "distributed")


def status(key: str) -> int:
    """A line of /proc/self/status, in bytes: VmRSS is what is resident, VmHWM the most that was."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{key}:")).split()[1])


@dataclass
class Line:
    """A measured ratio and what is wanted of it."""

    name: str
    ratio: float
    most: float | None = None
    least: float | None = None
    aim: float | None = None
    detail: str = ""

    @property
    def verdict(self) -> str:
        """ "ok", "MISSED", or "" where nothing is wanted."""
        if self.most is None and self.least is None:
            return ""
        low = -math.inf if self.least is None else self.least
        high = math.inf if self.most is None else self.most
        return "ok" if low <= self.ratio <= high else "MISSED"

    def __str__(self) -> str:
        wanted = "" if self.most is None else f"<= {self.most:g}"
        wanted = wanted if self.least is None else f">= {self.least:g}"
        wanted += "" if self.aim is None else f" (aim {self.aim:g})"
        return f"{self.name:58s} {self.ratio:7.3f}  {wanted:17s} {self.verdict:6s} {self.detail}".rstrip()


@dataclass
class Report:
    """All lines of a run, with the plain measurements behind them."""

    benchmark: str
    small: bool
    lines: list[Line] = field(default_factory=list)
    measured: dict[str, Any] = field(default_factory=dict)
    patience: Patience = field(default_factory=lambda: Patience(0.0))

    def add(self, name: str, ratio: float, detail: str = "", **wanted: float) -> None:
        """Print a line, and keep it; of tiny data nothing is wanted."""
        line = Line(name, float(ratio), detail=detail, **({} if self.small else wanted))
        print(line, flush=True)
        self.lines.append(line)

    def write(self, path: Path) -> None:
        """Write everything as JSON, and say how many lines are as wanted."""
        verdicts = [line.verdict for line in self.lines]
        everything = {
            "benchmark": self.benchmark,
            "small": self.small,
            "machine": {**machine(), "disturbed": self.patience.disturbed},
            "lines": [{**asdict(line), "verdict": line.verdict} for line in self.lines],
            "measured": self.measured,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(everything, indent=1) + "\n")
        if self.patience.disturbed:
            print(f"other programs were at work during {self.patience.disturbed} measurements: see --patience")
        print(f"{verdicts.count('ok')} as wanted, {verdicts.count('MISSED')} missed; written to {path}")


def machine() -> dict[str, Any]:
    """Where this runs, and how busy it is."""
    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def headline() -> str:
    """One line about the machine."""
    here = machine()
    libraries = ", ".join(f"{name} {number}" for name, number in here["libraries"].items())
    return f"{here['cpu']}, {here['cores']} cores, load {here['load']:.2f}; Python {here['python']}, {libraries}"


Clocks = tuple[float, float, float]


def _clocks() -> Clocks | None:
    """Seconds: of the clock, of all cores at work, and of this program and its children at work."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return None
    user, nice, system, _, _, irq, softirq, *_ = (int(word) for word in stat.read_text().split("\n", 1)[0].split()[1:])
    busy = (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), busy, _own_seconds()


def _own_seconds() -> float:
    """Seconds of work of this process, its children and theirs; those that have ended count with their parents."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(stat.parent.name)
        children.setdefault(int(words[1]), []).append(pid)
        ticks[pid] = sum(int(word) for word in words[11:15])
    own, found = 0, [os.getpid()]
    while found:
        pid = found.pop()
        own += ticks.get(pid, 0)
        found += children.get(pid, ())
    return own / os.sysconf("SC_CLK_TCK")


def _cores_of_others(began: Clocks | None) -> float | None:
    """How many cores other programs have used since then, on average."""
    ended = _clocks()
    if began is None or ended is None:
        return None
    wall, busy, own = (b - a for a, b in zip(began, ended, strict=True))
    return max(0.0, (busy - own) / wall)


class Patience:
    """Measure while the machine is quiet: what other programs disturbed is done again, as long as patience lasts."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """What is left of it."""
        self.disturbed = 0
        """Measurements kept although other programs were at work."""

    def until_quiet(self, do: Callable[[], Measured]) -> Measured:
        """What `do` gives, from the first time that nobody disturbs it, or else from the last time."""
        while True:
            began = _clocks()
            result = do()
            if (_cores_of_others(began) or 0.0) < DISTURBED:
                return result
            if self.seconds <= 0:
                self.disturbed += 1
                return result
            time.sleep(1.0)
            self.seconds -= time.perf_counter() - (began or (0.0,))[0]


def side_by_side(work: dict[str, Callable[[], Any]], rounds: int, patience: Patience) -> dict[str, float]:
    """Least seconds of each piece of work over rounds that do each of them once: a busy moment hits all alike."""

    def once() -> dict[str, float]:
        seconds = {}
        for name, do in work.items():
            began = time.perf_counter()
            do()
            seconds[name] = time.perf_counter() - began
        return seconds

    once()
    measured = [patience.until_quiet(once) for _ in range(rounds)]
    return {name: min(seconds[name] for seconds in measured) for name in work}


def arguments(description: str, name: str) -> argparse.ArgumentParser:
    """Options that all benchmarks have."""
    parser = argparse.ArgumentParser(
        prog=f"benchmarks/{name}.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--small", action="store_true", help="tiny sizes: does it run (the ratios mean nothing)")
    parser.add_argument(
        "--json", type=Path, help=f"where the JSON goes; default benchmarks/results/{name}[-small].json"
    )
    parser.add_argument("--patience", type=float, default=60.0, metavar="SECONDS", help=PATIENCE_HELP)
    return parser


def run_child(module: str, function: str, *args: object, timeout: float, **environment: str) -> dict[str, Any]:
    """What a function of a benchmark prints, as JSON, in a new process; all arguments reach it as text."""
    code = f"import sys, {module}; {module}.{function}(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, args)],
        env={**os.environ, **environment},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if done.returncode:
        raise RuntimeError(f"{module}.{function} {args}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run_parts(name: str, description: str, seeds: int, parts: dict[str, Callable[[Report, int], None]]) -> None:
    """The main program of a benchmark: its parts, with a report and a number of seeds, and the JSON of all of them."""
    parser = arguments(description, name)
    parser.add_argument("--seeds", type=int, help=f"random_state 0 to this less one; default {seeds}, small 1")
    parser.add_argument("--only", choices=tuple(parts), help="one part alone")
    options = parser.parse_args()
    report = Report(name, options.small, patience=Patience(0 if options.small else options.patience))
    print(headline())
    for called, part in parts.items():
        if options.only in (None, called):
            part(report, options.seeds or (1 if options.small else seeds))
    report.write(destination(options.json, name, options.small))


def destination(given: Path | None, name: str, small: bool) -> Path:
    """Where the JSON goes; a small run does not replace a full one."""
    return given or Path(__file__).parent / "results" / f"{name}{'-small' * small}.json"
