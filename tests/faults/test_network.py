"""Cables that are pulled: each process has a network of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from fault_tools import HERE, bits, blobs, written
from grids import QUIET, family, kill_all
from netns import Network, NotPermittedError
from waits import scale, until

import dmmc

TCP = 12
"""Seconds after which Dask gives up a connection; it takes no less than 11."""
SETTINGS = {
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": f"{TCP}s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s",
}


class Hosts:
    """Processes on the hosts of a network."""

    def __init__(self, network: Network, folder: Path) -> None:
        self.network = network
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, host: str, *command: object, **settings: str) -> subprocess.Popen[str]:
        with open(self.folder / f"{host}.log", "w") as log:
            process = subprocess.Popen(
                [*self.network.on(host), sys.executable, *map(str, command)],
                env={**os.environ, **QUIET, **SETTINGS, **settings},
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def close(self) -> None:
        kill_all(set().union(*(family(process.pid) for process in self.processes)))
        for process in self.processes:
            process.wait(10)


@pytest.fixture
def hosts(tmp_path: Path, skip: Callable[[str, str], NoReturn]) -> Iterator[Hosts]:
    network = Network(f"dmmc{os.getpid()}")
    try:
        network.up()
    except NotPermittedError as error:
        network.down()
        skip("netns", str(error))
    found = Hosts(network, tmp_path)
    yield found
    found.close()
    network.down()


@pytest.mark.slow
def test_a_worker_cut_off_for_half_a_minute_and_one_lost_for_good_do_not_change_a_bit(
    hosts: Hosts, tmp_path: Path, store_of: Callable[..., Path]
) -> None:
    X = blobs()
    wanted = bits(
        dmmc.fit(X, 3, method="cpmmc")
    )  # compiles: a worker that has to do so gives no sign of life for a while
    stuck = scale(8)
    outage = TCP + 2.5 * stuck
    source, out = store_of(tmp_path / "X.zarr", X, 100), tmp_path / "out"
    scheduler = f"tcp://{hosts.network.hosts['s']}:8786"
    hosts.start("s", "-m", "dask", "scheduler", "--host", hosts.network.hosts["s"], "--port", 8786, "--no-dashboard")
    for host in ("w1", "w2", "w3"):
        memory = ("--memory-limit", 0, "--local-directory", tmp_path)
        options = ("--nthreads", 1, "--no-dashboard", "--name", host, *memory)
        hosts.start(host, "-m", "dask", "worker", scheduler, *options)
    until(lambda: workers(hosts, scheduler) == "3", "three workers", 60)

    asked = ("fit", "--method", "cpmmc", source, "-k", 3, "-o", out, "--scheduler", scheduler, "--quiet")
    waits = {"PAUSE": str(outage / 6), "DASK_DMMC__WAIT__STUCK": f"{stuck}s"}
    fit = hosts.start("c", HERE / "fault_cli.py", *asked, **waits)
    history = out / "history.jsonl"

    def passes() -> int:
        assert fit.poll() is None, (tmp_path / "c.log").read_text()
        return history.read_bytes().count(b"\n") if history.exists() else 0

    until(lambda: passes() >= 2, "two passes", 60)
    began, before = time.monotonic(), passes()
    hosts.network.pull("w1")
    hosts.network.pull("w2")
    until(lambda: passes() >= before + 3, "passes by the worker that is left", outage)
    until(lambda: time.monotonic() - began >= outage, "the end of the outage", outage + 5)
    assert fit.poll() is None, "the fit was to last longer than the outage"
    hosts.network.plug("w1")
    until(lambda: fit.poll() is not None, "the end of the fit", 2 * outage + 60)
    assert fit.returncode == 0, (tmp_path / "c.log").read_text()
    assert written(out) == wanted


def workers(hosts: Hosts, scheduler: str) -> str:
    """How many workers there are, as seen from the client's host."""
    ask = (
        "import sys, distributed\n"
        "with distributed.Client(sys.argv[1], timeout=20) as client:\n"
        "    client.wait_for_workers(3, timeout=30)\n"
        "    print(len(client.nthreads()))"
    )
    done = subprocess.run(
        [*hosts.network.on("c"), sys.executable, "-c", ask, scheduler],
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
