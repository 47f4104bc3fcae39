"""A Dask cluster with a limit on every wait. This is the one module that imports `distributed`.

`distributed` waits for ever when no worker is left, when a worker stands still, or for a scheduler file that never
comes; here each of them ends in `ClusterLost` with a sentence that says what to do. The limits are settings of Dask
(`dmmc.wait.workers` and so on, in a file or as `DASK_DMMC__WAIT__WORKERS=5m`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NamedTuple

import dask
import distributed
from distributed import Client, Future, LocalCluster, Security
from distributed.utils import LoopRunner
from distributed.versions import get_versions

from dmmc.errors import ClusterLost, InputError

LIMITS = {"connect": "30s", "workers": "60s", "stuck": "60s", "task": "1h"}
"""How long to wait for a scheduler, for a first worker, for a sign of life of a worker, for one task."""
SAME = ("dmmc", "numpy", "scipy", "numba", "zarr", "distributed")
"""Packages that must have one version everywhere: they decide the bits, or how tasks travel."""
NO_ANSWER = (TimeoutError, OSError, asyncio.CancelledError, distributed.CancelledError)
"""How a question ends whose answer was lost on the way."""
UNWATCHED = {"distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms"}
"""Dask's settings for workers that nobody looks at: the statistical profiler and the clock of the event loop take the
processor away from the kernels some hundred times a second, a fifth of a pass where all cores are at work."""
LARGE = 2**30
"""Bytes of a task below which Dask need not warn: parameters and rows travel inside tasks on purpose."""


class Limits(NamedTuple):
    """Seconds."""

    connect: float
    workers: float
    stuck: float
    task: float

    @classmethod
    def set(cls) -> Limits:
        """As Dask's settings say."""
        found = {}
        for name, default in LIMITS.items():
            given = dask.config.get(f"dmmc.wait.{name}", default)
            try:
                found[name] = float(dask.utils.parse_timedelta(given, default="s"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"dmmc.wait.{name} is {given!r}; a time such as '90s' or '5m' is wanted.") from error
        return cls(**found)


class Worker(NamedTuple):
    """What the scheduler knows of a worker."""

    address: str
    threads: int
    memory: int
    """Its limit in bytes; 0 if it has none."""
    heard: float
    """When it last gave a sign of life, on the scheduler's clock."""


class Outcome(NamedTuple):
    """How a task ended: with a value, or with an error that no task of ours raises by itself."""

    value: Any
    killed: bool = False
    """Every worker that tried it died."""
    error: str = ""


def _short(error: BaseException) -> str:
    """The last line of an error, which is the one that says what is wrong."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1][:500]}"


def here() -> str:
    """Address of the worker that this is called on; empty elsewhere."""
    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""


class Cluster:
    """A client of a scheduler.

    Parameters
    ----------
    client : distributed.Client
        Connected, synchronous.
    limits : Limits
    """

    def __init__(self, client: Client, limits: Limits) -> None:
        self.limits = limits
        self.address = str(client.scheduler.address if client.scheduler else "an unknown address")
        """Of the scheduler; a client that has lost it no longer knows."""
        self._client = client
        self._silent_since: float | None = None
        self._same: set[str] = set()
        """Workers whose versions were compared with ours."""

    @property
    def connected(self) -> bool:
        """Whether the scheduler can be reached right now; a client that lost it tries again for a while."""
        return bool(self._client.status == "running")

    def workers(self) -> dict[str, Worker]:
        """Workers that can be given work, by address."""
        info = self._ask(self._client.scheduler.identity, n_workers=-1)
        return {
            address: Worker(address, worker["nthreads"], int(worker["memory_limit"] or 0), worker["last_seen"])
            for address, worker in info["workers"].items()
            if worker["status"] == "running"
        }

    def _ask(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """Ask the scheduler, as long as it may be silent in all."""
        while True:
            self._check_connected()
            try:
                answer = self._client.sync(question, callback_timeout=min(5.0, self.limits.stuck), **arguments)
            except (TimeoutError, OSError) as error:
                now = time.monotonic()
                self._silent_since = self._silent_since or now
                if now - self._silent_since > self.limits.stuck:
                    raise self._gone() from error
                time.sleep(0.1)
            else:
                self._silent_since = None
                return answer

    def _check_connected(self) -> None:
        """Wait while the client tries to reach the scheduler again."""
        until = time.monotonic() + self.limits.connect + 5.0
        while not self.connected:
            if self._client.status == "closed" or time.monotonic() > until:
                raise self._gone()
            time.sleep(0.05)

    def _gone(self) -> ClusterLost:
        return ClusterLost(
            f"the scheduler at {self.address} is gone or does not answer: start it again, then go on with "
            "--resume (resume=True)."
        )

    # ------------------------------------------------------------------------------------------------------ tasks

    def submit(self, function: Callable[..., Any], *arguments: Any, name: str, workers: Sequence[str]) -> Future:
        """Start a task, preferably on one of these workers; whoever is left may do it."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE}):
            return self._client.submit(
                function, *arguments, key=name, workers=list(workers), allow_other_workers=True, pure=False
            )

    def submit_graph(self, function: Callable[..., Any], *arguments: Any, name: str, workers: Sequence[str]) -> Future:
        """As `submit`, with arguments that Dask has yet to compute."""
        task = dask.delayed(function, pure=False)(*arguments, dask_key_name=name)
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE}):
            return self._client.compute(task, workers=list(workers), allow_other_workers=True)

    def compute(self, lazy: Sequence[Any]) -> list[Any]:
        """Values of Dask's delayed objects."""
        futures = self._client.compute(list(lazy))
        try:
            seen = began = time.monotonic()
            while True:
                self.wait(futures, 5.0)
                if all(future.done() for future in futures):
                    found = self.outcomes(futures)
                    for outcome, future in zip(found, futures, strict=True):
                        if outcome is not None and outcome.error:
                            why = self._error(future)
                            raise (
                                why
                                if isinstance(why, InputError)
                                else InputError(f"a dask array could not be computed: {outcome.error}")
                            ) from why
                    values = [outcome.value for outcome in found if outcome is not None]
                    if len(values) == len(futures):
                        return values
                now = time.monotonic()
                seen = now if self.workers() else seen
                if now - seen > self.limits.workers:
                    raise self.no_workers()
                if now - began > self.limits.task:
                    raise ClusterLost(f"a dask array was not computed within {self.limits.task:.0f} s.")
        finally:
            self.forget(futures)

    def wait(self, futures: Iterable[Future], seconds: float) -> None:
        """Wait until all are done, but no longer than this."""
        with suppress(*NO_ANSWER), self._client.as_current():
            distributed.wait(list(futures), timeout=seconds)

    def outcomes(self, futures: Sequence[Future]) -> list[Outcome | None]:
        """How these futures ended; None for one that was lost on the way and can be asked for again."""
        good = [future for future in futures if future.status == "finished"]
        values: dict[str, Any] = {}
        unsent = ""
        try:
            values = self._client.sync(self._gathered, good, callback_timeout=self.limits.stuck) if good else {}
        except (*NO_ANSWER, KeyError):
            pass
        except Exception as error:  # what pickles badly shows itself here
            unsent = _short(error)
        found: list[Outcome | None] = []
        for future in futures:
            if future.key in values:
                found.append(Outcome(values[future.key]))
            elif future.status == "error":
                why = self._error(future)
                found.append(Outcome(None, isinstance(why, distributed.KilledWorker), _short(why)))
            else:
                found.append(Outcome(None, error=unsent) if unsent else None)
        return found

    async def _gathered(self, futures: Sequence[Future]) -> dict[str, Any]:
        values = await self._client.gather(list(futures), asynchronous=True)
        return {future.key: value for future, value in zip(futures, values, strict=True)}

    def _error(self, future: Future) -> BaseException:
        try:
            error = future.exception(timeout=self.limits.stuck)
        except NO_ANSWER as late:
            error = late
        return error if isinstance(error, BaseException) else RuntimeError("unknown")

    def at_work(self, addresses: Iterable[str]) -> set[str]:
        """Names of the tasks that these workers have and have not finished."""
        found = self._ask(self._client.scheduler.processing, workers=list(addresses))
        return {str(key) for keys in found.values() for key in keys}

    def forget(self, futures: Iterable[Future]) -> None:
        """Give up what is still to be done, and what was done."""
        with suppress(Exception):
            for future in futures:
                future.release()

    def everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker that answers soon; whether it succeeds does not matter."""
        with suppress(Exception):
            self._client.run(function, *arguments, on_error="ignore", callback_timeout=min(5.0, self.limits.stuck))

    # ---------------------------------------------------------------------------------------------- before a run

    def await_workers(self) -> None:
        """Wait for a first worker."""
        until = time.monotonic() + self.limits.workers
        while not self.workers():
            if time.monotonic() > until:
                raise self.no_workers()
            time.sleep(0.1)

    def no_workers(self) -> ClusterLost:
        """The sentence about a cluster without workers."""
        return ClusterLost(
            f"the scheduler at {self.address} has had no worker for {self.limits.workers:.0f} s "
            "(dmmc.wait.workers): start workers (dask worker ADDRESS), then go on with --resume (resume=True)."
        )

    def check_versions(self, addresses: Iterable[str]) -> set[str]:
        """Refuse workers whose libraries are not those of this process, by name; gives those that do not answer yet."""
        new = set(addresses) - self._same
        if not new:
            return new
        mine = get_versions(packages=SAME)
        for address, worker in self._versions(sorted(new)).items():
            if not isinstance(worker, Mapping):
                continue
            theirs = worker["packages"]
            for name in SAME:
                version = mine["packages"][name]
                if theirs.get(name) != version:
                    given = f"has {name} {theirs.get(name)}" if theirs.get(name) else f"has no {name}"
                    raise InputError(
                        f"worker {address} {given}, but this process has {name} {version}: install the same versions "
                        "everywhere."
                    )
            for what in ("python", "machine"):
                one, other = str(mine["host"][what]), str(worker["host"][what])
                if one.split(".")[:2] != other.split(".")[:2]:
                    raise InputError(f"worker {address} has {what} {other}, but this process has {one}.")
            self._same.add(address)
        return new - self._same

    def _versions(self, addresses: list[str]) -> Mapping[str, Any]:
        message = {"op": "versions", "packages": list(SAME)}
        ask = self._client.scheduler.broadcast
        seconds = min(5.0, self.limits.stuck)
        with suppress(*NO_ANSWER):  # one of them stands still, and all are asked again later
            found: Mapping[str, Any] = self._client.sync(
                ask, msg=message, workers=addresses, on_error="return", callback_timeout=seconds
            )
            return found
        return {}

    @contextmanager
    def performance_report(self, path: Path | str | None) -> Iterator[None]:
        """Dask's own report of what the cluster did meanwhile, written to a file; nothing where path is None."""
        if path is None:
            yield
            return
        if find_spec("bokeh") is None:
            raise InputError("a performance report needs bokeh; install it with: pip install 'dmmc[cluster]'.")
        with self._client.as_current(), distributed.performance_report(filename=str(path)):
            yield


# -------------------------------------------------------------------------------------------------- connecting


@contextmanager
def connect(
    scheduler: Any = None,
    workers: int | None = None,
    security: Any = None,
    *,
    dashboard: bool = False,
    profile: bool = False,
) -> Iterator[Cluster]:
    """A cluster to work on: somebody's, or one of our own that ends with the context.

    Parameters
    ----------
    scheduler : Client, address (tcp://, tls://) or path of a scheduler file
    workers : number of local worker processes to start instead
    security : distributed.Security, or a mapping with `ca`, `cert` and `key`, files of TLS certificates
    dashboard : for local workers, show Dask's dashboard (on this machine only)
    profile : for local workers, let Dask's profiler run even without its dashboard
    """
    limits = Limits.set()
    with ExitStack() as stack:
        if isinstance(scheduler, Client):
            if security is not None:
                raise InputError("security= goes with an address; a Client has its own.")
            client = scheduler
            if client.asynchronous:
                raise InputError("scheduler is an asynchronous Client; a synchronous one is wanted.")
        else:
            where: Any = None
            if workers is not None:
                where = stack.enter_context(_local_cluster(workers, dashboard, profile))
            else:
                where = _address(scheduler, limits)
            client = _client(where, _security(security, where), limits)
            stack.callback(_close, client)
        cluster = Cluster(client, limits)
        cluster.await_workers()
        cluster.check_versions(cluster.workers())
        yield cluster


def _client(where: Any, security: Security | None, limits: Limits) -> Client:
    try:
        if isinstance(where, str):
            _knock(where, security, limits.connect)
        return Client(where, security=security, timeout=limits.connect, set_as_default=False)
    except (TimeoutError, OSError) as error:
        what = str(error) or type(error).__name__
        raise ClusterLost(
            f"no scheduler let us in at {where} within {limits.connect:.0f} s (dmmc.wait.connect): is it running, is "
            f"the address right, and do its TLS settings and ours agree? ({what})"
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} cannot be used as a scheduler: {error}") from error


def _knock(address: str, security: Security | None, seconds: float) -> None:
    """See whether a scheduler lets us in before a Client is built: a half-built one can lock up the next."""

    async def knock() -> None:
        options = (security or Security()).get_connection_args("client")
        comm = await distributed.comm.connect(address, timeout=seconds, **options)
        await comm.close()

    # on a thread of its own, as this one may have a loop already (in a notebook it does)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, knock()).result()


def _close(client: Client) -> None:
    with suppress(Exception):
        client.close(timeout=5)


def _address(scheduler: Any, limits: Limits) -> str:
    """Where a scheduler listens: as it was given, or as its file says."""
    text = os.fspath(scheduler) if isinstance(scheduler, str | os.PathLike) else None
    if text is None:
        raise InputError(
            f"scheduler is {scheduler!r}; an address (tcp://, tls://), the path of a scheduler file or a "
            "distributed.Client is wanted."
        )
    if "://" not in text:
        text = _from_file(text, limits)
    if text.partition("://")[0] not in ("tcp", "tls", "ucx", "ws", "wss", "inproc"):
        raise InputError(f"{text} is not an address of a scheduler; tcp://HOST:PORT or tls://HOST:PORT is wanted.")
    return text


def _from_file(path: str, limits: Limits) -> str:
    """The address in a scheduler file. A batch job may be quicker than its scheduler, so it is waited for a while."""
    until = time.monotonic() + limits.connect
    while True:
        with suppress(OSError, ValueError, KeyError, TypeError):
            return str(json.loads(Path(path).read_text(encoding="utf-8"))["address"])
        if time.monotonic() > until:
            raise ClusterLost(
                f"there is no scheduler file {path} that names an address after {limits.connect:.0f} s "
                "(dmmc.wait.connect): is the scheduler running, and is the file system shared?"
            )
        time.sleep(0.1)


def _security(given: Any, where: Any) -> Security | None:
    """Certificates as Dask wants them; those of its settings are used where none are given."""
    if given is None:
        if str(where).startswith("tls://") and not Security().get_connection_args("client").get("ssl_context"):
            raise InputError(
                f"{where} asks for certificates, and none were given: say --tls-ca, --tls-cert and --tls-key "
                "(security={'ca': ..., 'cert': ..., 'key': ...})."
            )
        return None
    if isinstance(given, Security):
        return given
    if not isinstance(given, Mapping) or set(given) != {"ca", "cert", "key"}:
        raise InputError("security is to be a distributed.Security, or a mapping of ca, cert and key to files.")
    for name, path in given.items():
        if not path or not os.path.isfile(path):
            raise InputError(f"TLS {name}: {path!r} is not a file; authority, certificate and key go together.")
    return Security(
        tls_ca_file=str(given["ca"]),
        tls_client_cert=str(given["cert"]),
        tls_client_key=str(given["key"]),
        require_encryption=True,
    )


@contextmanager
def _local_cluster(workers: Any, dashboard: bool, profile: bool) -> Iterator[LocalCluster]:
    """Worker processes of our own, on this machine, reachable from nowhere else."""
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InputError(f"workers is {workers!r}; a number of processes of at least 1 is wanted.")
    settings: dict[str, Any] = {"distributed.scheduler.worker-ttl": "60s", "distributed.worker.daemon": True}
    if not (dashboard or profile):
        settings.update(UNWATCHED)
    with dask.config.set(settings), _without_main(), _deaf_loop() as loop:
        cluster = LocalCluster(
            loop=loop,
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would still open a port, on all addresses
            scheduler_kwargs={"dashboard": dashboard},
            worker_dashboard_address=None,
            silence_logs=50,
        )
        try:
            if dashboard:
                sys.stderr.write(f"dashboard: {cluster.dashboard_link}\n")
            yield cluster
        finally:
            with suppress(Exception):
                cluster.close(timeout=10)


@contextmanager
def _deaf_loop() -> Iterator[Any]:
    """An event loop whose thread does not hear Ctrl-C, nor do the processes that it starts.

    A terminal sends it to all of them, but it is for the driver to end its workers, when it has seen to its checkpoint.
    """
    resource_tracker.ensure_running()  # or the first process would start it, and let the signal through after that
    runner = LoopRunner()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        runner.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    try:
        yield runner.loop
    finally:
        runner.stop()


@contextmanager
def _without_main() -> Iterator[None]:
    """Hide the user's script from worker processes: they would run it again, unless it guards itself against that.

    Multiprocessing imports the main module in each process that it spawns. Our tasks are all in this package.
    """
    main = sys.modules["__main__"]
    hidden = {name: getattr(main, name) for name in ("__spec__", "__file__") if hasattr(main, name)}
    main.__spec__ = None
    if "__file__" in hidden:
        del main.__file__
    try:
        yield
    finally:
        for name, value in hidden.items():
            setattr(main, name, value)
