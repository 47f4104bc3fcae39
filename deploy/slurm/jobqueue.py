"""A fit whose workers are Slurm jobs, started and ended by dask-jobqueue as the scheduler's queue asks.

    python deploy/slurm/jobqueue.py SOURCE K OUT --cores 16 --memory 64GB --jobs 8 [--tls FOLDER] [--queue Q] ...
    python deploy/slurm/jobqueue.py --print-script --cores 16 --memory 64GB        the job script of one worker

Needs `pip install dask-jobqueue`. SOURCE, OUT, FOLDER and this Python must be on the shared file system. A run that was
left unfinished in OUT is gone on with. Exit codes are those of `dmmc fit`: 0 done; 2 bad input; 3 the cluster was lost;
4 the store or disk failed; 5 out of time; 130 stopped, checkpoint written.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import sys
from pathlib import Path

from dask_jobqueue import SLURMCluster
from distributed import Client, Security

import dmmc
from dmmc.errors import ClusterLost

MARGIN = 0.1
"""A worker leaves by itself, its work handed on, when this part of its walltime is left: at least two minutes."""

NO_PROFILER = {"DISTRIBUTED__WORKER__PROFILE__ENABLED": "False", "DISTRIBUTED__ADMIN__TICK__INTERVAL": "500ms"}
"""Dask's profiler of workers takes up to a fifth of a pass."""


def main() -> int:
    """Run the fit and say how it ended."""
    arguments = parse()
    signal.signal(signal.SIGTERM, interrupt)  # the walltime is near: as Ctrl-C, the fit writes a checkpoint
    try:
        with make_cluster(arguments) as cluster:
            if arguments.print_script:
                print(cluster.job_script())
                return 0
            cluster.adapt(minimum_jobs=arguments.min_jobs, maximum_jobs=arguments.jobs, interval="5s", wait_count=12)
            with Client(cluster) as client:
                run = dmmc.fit(
                    arguments.source,
                    arguments.k,
                    out=arguments.out,
                    scheduler=client,
                    resume=True,
                    progress=show,
                    **dict(arguments.set),
                )
    except dmmc.InputError as error:
        return fail(2, error)
    except ClusterLost as error:
        return fail(3, error)
    except OSError as error:
        return fail(4, error)
    except KeyboardInterrupt:
        return fail(130, "stopped; the same command goes on from the checkpoint.")
    print(f"{len(run.labels)} rows in {arguments.k} clusters, written to {arguments.out}")
    return 0


def make_cluster(arguments: argparse.Namespace) -> SLURMCluster:
    """A scheduler in this process; workers come as Slurm jobs."""
    life = int(seconds(arguments.walltime) * (1 - MARGIN))
    life = min(life, seconds(arguments.walltime) - 120)
    if life <= 0:
        raise dmmc.InputError(f"--walltime {arguments.walltime}: more than two minutes are wanted.")
    options = {"dashboard_address": "127.0.0.1:0", "port": 0}
    if arguments.host:
        options["host"] = arguments.host
    return SLURMCluster(
        cores=arguments.cores,
        processes=1,
        memory=arguments.memory,
        walltime=arguments.walltime,
        queue=arguments.queue,
        account=arguments.account,
        interface=arguments.interface,
        security=security(arguments.tls),
        scheduler_options=options,
        job_name="dmmc-worker",
        python=sys.executable,
        nanny=True,
        death_timeout=120,
        local_directory=arguments.local_directory,
        log_directory=arguments.logs,
        # Workers leave before Slurm kills them, and not all at once.
        worker_extra_args=["--no-dashboard", "--lifetime", f"{life}s", "--lifetime-stagger", f"{max(1, life // 20)}s"],
        job_extra_directives=["--no-requeue", *arguments.directive],
        job_script_prologue=[f"export DASK_{name}={value}" for name, value in NO_PROFILER.items()],
    )


def security(folder: Path | None) -> Security | None:
    """Certificates that deploy/tls.sh has made."""
    if folder is None:
        return None
    folder = folder.resolve()
    files = {}
    for role in ("scheduler", "worker", "client"):
        files[f"tls_{role}_cert"] = str(folder / f"{role}.pem")
        files[f"tls_{role}_key"] = str(folder / f"{role}-key.pem")
    for file in (*files.values(), folder / "ca.pem"):
        if not Path(file).is_file():
            raise dmmc.InputError(f"there is no file {file}; deploy/tls.sh makes it.")
    return Security(tls_ca_file=str(folder / "ca.pem"), require_encryption=True, **files)


def seconds(walltime: str) -> int:
    """Of a time as Slurm writes it: MM, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS."""
    if not re.fullmatch(r"\d+(:\d\d){0,2}|\d+-\d{1,2}(:\d\d){0,2}", walltime):
        raise dmmc.InputError(f"--walltime {walltime}: a time such as 04:00:00 or 1-12:00:00 is wanted.")
    days, dash, rest = walltime.rpartition("-")
    parts = [int(part) for part in rest.split(":")]
    if dash:
        scales = (3600, 60, 1)
    else:
        scales = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(parts)]
    return int(days or 0) * 86400 + sum(part * scale for part, scale in zip(parts, scales, strict=False))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog="Exit codes are those of dmmc fit.", allow_abbrev=False
    )
    parser.add_argument("source", nargs="?", help="a zarr store")
    parser.add_argument("k", nargs="?", type=int, help="number of clusters")
    parser.add_argument("out", nargs="?", type=Path, help="the folder of the result")
    parser.add_argument("--set", type=setting, action="append", default=[], metavar="NAME=VALUE", help="as of dmmc fit")
    parser.add_argument("--cores", type=int, required=True, help="threads of a worker: one worker a job")
    parser.add_argument("--memory", required=True, help="of a worker, such as 64GB")
    parser.add_argument("--jobs", type=int, default=4, help="at most this many worker jobs (%(default)s)")
    parser.add_argument("--min-jobs", type=int, default=1, help="at least this many (%(default)s)")
    parser.add_argument("--walltime", default="04:00:00", help="of a worker job (%(default)s)")
    parser.add_argument("--queue", help="Slurm partition")
    parser.add_argument("--account", help="Slurm account")
    parser.add_argument("--interface", help="network interface of scheduler and workers, such as ib0")
    parser.add_argument("--host", help="address that the scheduler listens on, if not that of the interface")
    parser.add_argument("--tls", type=Path, metavar="FOLDER", help="certificates made by deploy/tls.sh")
    parser.add_argument("--local-directory", help="where workers spill, on a disk of their node")
    parser.add_argument("--logs", help="folder for the workers' logs")
    parser.add_argument(
        "--directive",
        action="append",
        default=[],
        help="one more #SBATCH line, such as --directive=--exclusive; repeatable",
    )
    parser.add_argument("--print-script", action="store_true", help="print the job script of a worker and end")
    arguments = parser.parse_args()
    if not arguments.print_script and arguments.out is None:
        parser.error("SOURCE, K and OUT are wanted.")
    return arguments


def setting(text: str) -> tuple[str, object]:
    """A parameter of the method; numbers are numbers."""
    name, equals, value = text.partition("=")
    if not name.isidentifier() or not equals:
        raise argparse.ArgumentTypeError(f"NAME=VALUE is wanted, such as C=30, not {text!r}")
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return name, kind(value)
    return name, value


def show(line: dict[str, object]) -> None:
    """One line a pass, in the job's log."""
    print(line, file=sys.stderr, flush=True)


def interrupt(*_: object) -> None:
    """Of a signal."""
    raise KeyboardInterrupt


def fail(code: int, error: object) -> int:
    """Say why, in one sentence."""
    print(f"jobqueue.py: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
