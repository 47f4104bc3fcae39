"""Blocks on threads of one process: the lock of those that compile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dmmc.engine import block_runner

HOLDER = """
import fcntl, os, signal, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_process_that_stands_still_while_it_compiles_holds_others_up_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert block_runner.PATIENCE <= 30.0
    monkeypatch.setattr(block_runner, "PATIENCE", 0.3)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = tmp_path / f"dmmc-compiling-{os.getuid()}.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        began = time.monotonic()
        with block_runner._lock_file():
            waited = time.monotonic() - began
        assert waited >= 0.3
    finally:
        for number in (signal.SIGCONT, signal.SIGKILL):
            holder.send_signal(number)
        holder.wait()
