"""A signal ends a command, wherever Python happens to be when it comes."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

DROPS = """
import os, signal, sys, time
import click
from dmmc.app.exit_codes import Commands, run

class Dropped:
    def __del__(self):
        os.kill(os.getpid(), signal.Signals[sys.argv[1]])
        for _ in range(1000):  # the signal is heard here, where what is raised goes nowhere
            pass

@click.group(cls=Commands)
def cli():
    pass

@cli.command()
def wait():
    Dropped()
    time.sleep(50)
    click.echo("nobody heard it")

run(cli, ["wait"])
"""


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_that_python_drops_in_a_destructor_is_heard_all_the_same(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DROPS, name],
        capture_output=True,
        text=True,
        timeout=40,
        preexec_fn=lambda: signal.signal(signal.Signals[name], signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "dmmc: interrupted. What was unfinished is removed.\n"


def test_what_else_is_raised_in_a_destructor_is_told_as_python_tells_it() -> None:
    text = DROPS.replace("os.kill(os.getpid(), signal.Signals[sys.argv[1]])", "raise RuntimeError('of no use')")
    text = text.replace("time.sleep(50)", "pass")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "nobody heard it\n")
    assert "RuntimeError: of no use" in done.stderr
