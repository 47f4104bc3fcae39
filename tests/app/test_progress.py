"""Progress on a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import numpy as np
import pytest

from dmmc.app import progress
from dmmc.app.progress import Progress
from dmmc.errors import InputError

PASS = {
    "phase": "search",
    "iteration": 12,
    "objective": 51.3,
    "best": 44.213315,
    "gap": 0.80394,
    "rows_per_second": 1_234_567.0,
    "at_most": 42.4,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def shown(stream: io.StringIO) -> list[str]:
    return stream.getvalue().split("\r\x1b[K")[1:]


def test_a_line_says_phase_pass_objective_gap_speed_and_time_left() -> None:
    stream = Terminal()
    with Progress(stream=stream) as tell:
        tell(PASS)
    assert shown(stream) == [
        "search  pass 12  objective 44.213  gap 0.8  1.23M rows/s  < 42 s left",
        "",  # cleared at the end
    ]


@pytest.mark.parametrize("size", [1.0, 1e3, 1e6, 1e9, np.inf])
def test_a_line_fits_into_80_columns(size: float) -> None:
    stream = Terminal()
    with Progress(stream=stream) as tell:
        at_most = min(size, 3e7)
        tell({**PASS, "iteration": 99_999, "best": size * 1.2345678, "gap": size, "at_most": at_most})
    line = shown(stream)[0]
    assert len(line) < 80
    assert line.endswith("left")


def test_a_narrow_terminal_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with Progress(stream=stream) as tell:
        tell(PASS)
    assert len(shown(stream)[0]) == 29


def test_a_line_is_drawn_ten_times_a_second_and_for_each_new_phase(clock: list[float]) -> None:
    stream = Terminal()
    with Progress(stream=stream) as tell:
        for step in range(101):
            clock[0] = 100.0 + step / 100
            tell({**PASS, "iteration": step})
        tell({"phase": "label"})
    assert 9 <= len(shown(stream)) - 2 <= 11
    assert shown(stream)[-2] == "label"


def test_elsewhere_events_are_lines_of_strict_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_LINE", 0.0)
    stream = io.StringIO()
    odd = {"gap": np.inf, "objective": -np.inf, "flips": np.nan, "planes": np.int64(3), "seconds": np.float32(0.5)}
    with Progress(stream=stream) as tell:
        tell({"phase": "read"})
        tell({**PASS, **odd})
    first, second = (json.loads(line, parse_constant=pytest.fail) for line in stream.getvalue().splitlines())
    assert first == {"phase": "read"}
    assert second["gap"] is second["objective"] is second["flips"] is None
    assert (second["planes"], second["seconds"]) == (3, 0.5)


def test_elsewhere_a_line_comes_every_few_seconds_with_rounded_numbers(clock: list[float]) -> None:
    stream = io.StringIO()
    with Progress(stream=stream) as tell:
        for step in range(100):
            clock[0] = 100.0 + step / 10
            tell({**PASS, "iteration": step, "flips": 12, "rows_per_second": 1_234_567.8})
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["iteration"] for line in lines] == [0, 50]
    assert lines[0] == {
        "phase": "search",
        "iteration": 0,
        "objective": 51.3,
        "best": 44.21,
        "gap": 0.8039,
        "rows_per_second": 1_235_000,
        "at_most": 42.4,
        "flips": 12,
    }


def test_elsewhere_a_phase_that_takes_long_is_said_when_it_says_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "EVERY_LINE", 0.05)
    stream = io.StringIO()
    with Progress(stream=stream) as tell:
        for phase in ("read", "measure", "spectral"):
            tell({"phase": phase})
        deadline = time.monotonic() + 10
        while stream.getvalue().count("\n") < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [{"phase": "read"}, {"phase": "spectral"}]


def test_elsewhere_nothing_is_said_before_a_refusal_that_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(seconds: float) -> str:
        """What was said by when a command is refused."""
        stream = io.StringIO()
        deadline = time.monotonic() + seconds
        with pytest.raises(InputError), Progress(stream=stream) as tell:  # noqa: PT012
            tell({"phase": "read"})
            while not stream.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
            raise InputError("there are no rows.")
        return stream.getvalue()

    assert refuse(0.0) == ""
    monkeypatch.setattr(progress, "HOLD", 0.01)
    assert json.loads(refuse(10.0)) == {"phase": "read"}


def test_a_part_of_a_phase_says_its_share_and_the_time_left() -> None:
    part = {"phase": "neighbours", "fraction": 0.25, "seconds": 10.004}
    for kind, wanted in (
        (Terminal, "neighbours  25%  about 30 s left"),
        (io.StringIO, {"phase": "neighbours", "fraction": 0.25, "seconds": 10.0, "left": 30.01}),
    ):
        stream = kind()
        with Progress(stream=stream) as tell:
            tell({"candidate": "lsmmc", **part} if kind is Terminal else part)
        assert (
            shown(stream)[0].removeprefix("lsmmc: ") if kind is Terminal else json.loads(stream.getvalue())
        ) == wanted


def test_a_conversion_says_rows_share_and_time_left() -> None:
    stream = Terminal()
    with Progress(stream=stream) as tell:
        tell({"phase": "convert", "rows": 1_250_000, "fraction": 0.25, "seconds": 10.0})
    assert shown(stream)[0] == "convert  1,250,000 rows  25%  about 30 s left"
    with Progress(stream=(stream := Terminal())) as tell:
        tell({"phase": "convert", "rows": 0, "fraction": 0.0, "seconds": 0.0})
    assert shown(stream)[0] == "convert  0 rows  0%  about ? left"


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_quiet_says_nothing(kind: Any) -> None:
    stream = kind()
    with Progress(quiet=True, stream=stream) as tell:
        tell(PASS)
    assert stream.getvalue() == ""


def test_a_process_without_stderr_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    with Progress() as tell:
        tell(PASS)


@pytest.mark.parametrize(
    ("count", "text"), [(0.4, "0.4"), (12.34, "12.3"), (850, "850"), (999.9, "1k"), (123_456, "123k"), (2.5e10, "25G")]
)
def test_large_numbers_are_short(count: float, text: str) -> None:
    assert progress._short(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (99.4, "99 s"), (100, "2 min"), (5000, "83 min"), (9000, "2 h"), (1e6, "12 d"), (np.nan, "?")],
)
def test_times_are_short(seconds: float, text: str) -> None:
    assert progress._time(seconds) == text


def test_the_line_says_that_numba_compiles_at_once(clock: list[float]) -> None:
    stream = Terminal()
    with Progress(stream=stream) as tell:
        tell({"phase": "measure"})
        tell({"phase": "measure", "compiling": True})
        tell({"phase": "measure", "compiling": False})
    assert shown(stream)[:3] == ["measure", "measure  compiling, once after an installation", "measure"]
