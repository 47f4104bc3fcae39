"""The Slurm scripts, run as they are; `sbatch`, `srun`, `scancel` and `scontrol` are the stand-ins in fake_slurm/."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waits import until

pytestmark = pytest.mark.slow
FAKES = Path(__file__).parent / "fake_slurm"


class Slurm:
    """A folder of jobs, and a PATH on which the fake Slurm and this environment's programs are found."""

    def __init__(self, processes: Any, folder: Path) -> None:
        self.processes = processes
        self.jobs = folder / "jobs"
        programs = folder / "bin"
        self.jobs.mkdir()
        programs.mkdir()
        for name, command in {"dask": "-m dask", "dmmc": "-m dmmc", "python": ""}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {command} "$@"\n')
            (programs / name).chmod(0o755)
        self.variables = {"PATH": f"{FAKES}:{programs}:{os.environ['PATH']}", "FAKE_SLURM": str(self.jobs)}

    def sbatch(self, *arguments: object, cwd: Path, **variables: object) -> Path:
        """Submit a job; its folder."""
        done = self.processes.run("sbatch", *arguments, cwd=cwd, **self.variables, **variables)
        found = re.search(r"Submitted batch job (\d+)", done.said)
        assert found, done.said
        return self.jobs / found[1]

    def ended(self, job: Path, seconds: float = 120) -> list[int]:
        """Exit codes of the job's runs, when it has ended."""
        until((job / "ended").exists, "the end of a job", seconds)
        return [int(code) for code in (job / "codes").read_text().split()]

    def says(self, job: Path, words: str, seconds: float = 60) -> None:
        log = job / "log"
        until(lambda: words in log.read_text(errors="replace"), f"{words!r} in the job's log", seconds)


@pytest.fixture
def slurm(processes: Any, tmp_path_factory: pytest.TempPathFactory) -> Slurm:
    return Slurm(processes, tmp_path_factory.mktemp("slurm"))


def walltime_signal(script: Path) -> int:
    """What Slurm sends to the batch script some minutes before its walltime."""
    found = re.search(r"^#SBATCH --signal=B:(\w+)@(\d+)$", script.read_text(), flags=re.MULTILINE)
    assert found
    assert int(found[2]) >= 120
    return int(getattr(signal, f"SIG{found[1]}"))


def plain(slurm: Slurm, deploy: Path, tmp_path: Path, store: Path, *options: str, **variables: object) -> Path:
    given = {"SOURCE": store, "K": 10, "OUT": tmp_path / "out", **variables}
    script = deploy / "slurm" / "plain.sbatch"
    return slurm.sbatch("--nodes=2", "--cpus-per-task=1", "--mem=2G", script, *options, cwd=tmp_path, **given)


def test_a_job_near_its_walltime_writes_a_checkpoint_and_goes_on_in_the_queue_with_the_same_bits(
    slurm: Slurm,
    deploy: Path,
    digits_store: Path,
    certificates: Callable[[str], Path],
    slow: list[str],
    slow_labels: list[int],
    labels_of: Callable[[Path], list[int]],
    tmp_path: Path,
) -> None:
    job = plain(slurm, deploy, tmp_path, digits_store, *slow, TLS=certificates("ours"))
    slurm.says(job, '"objective"')  # a pass is done
    os.kill(int((job / "pid").read_text()), walltime_signal(deploy / "slurm" / "plain.sbatch"))
    assert slurm.ended(job) == [130, 0], (job / "log").read_text()
    assert labels_of(tmp_path / "out") == slow_labels
    log = (job / "log").read_text()
    assert log.count("Register worker addr: tls://") == 4  # one a node, twice
    slurm.processes.none_left()


def test_a_cancelled_job_writes_a_checkpoint_and_is_not_queued_again(
    slurm: Slurm, deploy: Path, digits_store: Path, slow: list[str], tmp_path: Path
) -> None:
    job = plain(slurm, deploy, tmp_path, digits_store, *slow)
    slurm.says(job, '"objective"')
    os.kill(int((job / "pid").read_text()), signal.SIGTERM)
    assert slurm.ended(job) == [130], (job / "log").read_text()
    assert (tmp_path / "out" / "checkpoint").exists()
    slurm.processes.none_left()


def test_bad_input_ends_the_job_and_is_not_queued_again(slurm: Slurm, deploy: Path, tmp_path: Path) -> None:
    job = plain(slurm, deploy, tmp_path, tmp_path / "nothing.zarr")
    assert slurm.ended(job) == [2], (job / "log").read_text()
    assert "nothing.zarr" in (job / "log").read_text()
    slurm.processes.none_left()


# ------------------------------------------------------------------------------------------------------ dask-jobqueue


def jobqueue(deploy: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, deploy / "slurm" / "jobqueue.py", *arguments]
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)


SMALL = ["--cores", 1, "--memory", "2GB", "--host", "127.0.0.1"]


@pytest.mark.parametrize(
    ("walltime", "seconds"),
    [("90", 5400), ("10:00", 600), ("04:00:00", 14400), ("1-12", 129600), ("2-00:30:00", 174600)],
)
def test_workers_leave_before_their_walltime(
    walltime: str, seconds: int, deploy: Path, certificates: Callable[[str], Path]
) -> None:
    folder = certificates("ours")
    extra = ["--walltime", walltime, "--queue", "long", "--tls", folder, "--directive=--exclusive"]
    done = jobqueue(deploy, "--print-script", *SMALL, *extra)
    assert done.returncode == 0, done.stderr
    for line in (f"-t {walltime}", "-p long", "--cpus-per-task=1", "--no-requeue", "--exclusive"):
        assert f"#SBATCH {line}\n" in done.stdout
    command = done.stdout.strip().splitlines()[-1]
    life, stagger = (int(re.search(rf"--{name} (\d+)s", command)[1]) for name in ("lifetime", "lifetime-stagger"))  # type: ignore[index]
    assert 0.5 * seconds < life
    assert life + stagger <= seconds - 60
    assert " tls://127.0.0.1:" in command
    assert f"--tls-cert {folder / 'worker.pem'} --tls-key {folder / 'worker-key.pem'}" in command
    assert " --nanny " in command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--walltime", "an hour"], "--walltime an hour"),
        (["--walltime", "00:01:00"], "more than two minutes"),
        (["--tls", "/nowhere"], "/nowhere/"),
        ([], "SOURCE, K and OUT"),
    ],
)
def test_a_bad_option_is_refused_in_a_sentence(arguments: list[str], words: str, deploy: Path) -> None:
    done = jobqueue(deploy, *SMALL, *(["--print-script", *arguments] if arguments else []))
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def submit(slurm: Slurm, deploy: Path, tmp_path: Path, *arguments: object) -> Path:
    script = deploy / "slurm" / "jobqueue.sbatch"
    return slurm.sbatch(script, *arguments, *SMALL, cwd=tmp_path, DRIVER=deploy / "slurm" / "jobqueue.py")


def test_the_driver_has_slurm_start_and_end_its_workers_and_goes_on_after_its_walltime_with_the_same_bits(
    slurm: Slurm,
    deploy: Path,
    digits_store: Path,
    certificates: Callable[[str], Path],
    slow: list[str],
    slow_labels: list[int],
    labels_of: Callable[[Path], list[int]],
    tmp_path: Path,
) -> None:
    options = ["--jobs", 1, "--tls", certificates("ours"), *slow]
    job = submit(slurm, deploy, tmp_path, digits_store, 10, tmp_path / "out", *options)
    slurm.says(job, "'objective'")  # a pass is done
    os.kill(int((job / "pid").read_text()), walltime_signal(deploy / "slurm" / "jobqueue.sbatch"))
    assert slurm.ended(job) == [130, 0], (job / "log").read_text()
    assert labels_of(tmp_path / "out") == slow_labels
    workers = [folder for folder in slurm.jobs.iterdir() if folder != job]
    assert len(workers) == 2  # one before, one after
    for worker in workers:
        assert "Registered to:      tls://" in (worker / "log").read_text()
    slurm.processes.none_left()


def test_the_driver_ends_with_the_code_of_bad_input(slurm: Slurm, deploy: Path, tmp_path: Path) -> None:
    job = submit(slurm, deploy, tmp_path, tmp_path / "nothing.zarr", 10, tmp_path / "out")
    assert slurm.ended(job) == [2]
    assert "Traceback" not in (job / "log").read_text()
    slurm.processes.none_left()


def test_every_stand_in_says_that_it_is_not_slurm() -> None:
    for path in FAKES.iterdir():
        assert path.read_text().splitlines()[1].startswith("# NOT Slurm: a stand-in for tests.")
