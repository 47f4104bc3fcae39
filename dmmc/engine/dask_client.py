"""A client of a Dask scheduler with a limit on every wait.

`distributed` waits for ever when no worker is left, when a worker stands still or when a scheduler does not answer;
here each of these ends in `ClusterLost` with a sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import dask
import distributed
from distributed import Client, Future
from distributed.versions import get_versions

from dmmc.errors import ClusterLost, InputError, needs

PACKAGES = ("dmmc", "numpy", "scipy", "numba", "zarr", "distributed")
"""Must have one version everywhere: they decide the bits, or how tasks travel."""
NO_ANSWER = (TimeoutError, OSError, asyncio.CancelledError, distributed.CancelledError)
"""What a question raises whose answer was lost on the way."""
WAITS = {"connect": "30s", "workers": "60s", "stuck": "60s", "task": "1h"}
"""Defaults of `Limits`."""


class Limits(NamedTuple):
    """Seconds to wait: settings of Dask, such as `dmmc.wait.workers` or `DASK_DMMC__WAIT__WORKERS=5m`."""

    connect: float
    """For a scheduler, or its file."""
    workers: float
    """For a first worker, at the start and after all are lost."""
    stuck: float
    """For a sign of life of a worker, or an answer of the scheduler."""
    task: float
    """For one task."""

    @classmethod
    def from_config(cls) -> Limits:
        """Read the limits from Dask's settings."""
        seconds = {}
        for name, default in WAITS.items():
            given = dask.config.get(f"dmmc.wait.{name}", default)
            try:
                seconds[name] = float(dask.utils.parse_timedelta(given, default="s"))
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise InputError(f"dmmc.wait.{name} is {given!r}; a time such as '90s' or '5m' is wanted.") from error
        return cls(**seconds)


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


def find_own_address() -> str:
    """Address of the worker that this is called on; empty elsewhere."""
    try:
        return str(distributed.get_worker().address)
    except ValueError:
        return ""


class Cluster:
    """A scheduler and its workers, through a connected synchronous client."""

    def __init__(self, client: Client, limits: Limits) -> None:
        self.limits = limits
        self.address = str(client.scheduler.address if client.scheduler else "an unknown address")
        """Of the scheduler; a client that has lost it no longer knows."""
        self._client = client
        self._short = min(5.0, limits.stuck)
        """Seconds for one question, which may be asked again."""
        self._silent_since: float | None = None
        self._compared: set[str] = set()
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

    def await_workers(self) -> None:
        """Wait for a first worker."""
        until = time.monotonic() + self.limits.workers
        while not self.workers():
            if time.monotonic() > until:
                raise self.no_workers_error()
            time.sleep(0.1)

    def no_workers_error(self) -> ClusterLost:
        """What to raise when the cluster has no workers."""
        return ClusterLost(
            f"the scheduler at {self.address} has had no worker for {self.limits.workers:.0f} s "
            "(dmmc.wait.workers): start workers (dask worker ADDRESS), then go on with --resume (resume=True)."
        )

    def _ask(self, question: Callable[..., Any], **arguments: Any) -> Any:
        """Ask the scheduler; ask again until it has been silent for too long in all."""
        while True:
            self._await_connection()
            try:
                answer = self._client.sync(question, callback_timeout=self._short, **arguments)
            except (TimeoutError, OSError) as error:
                now = time.monotonic()
                self._silent_since = self._silent_since or now
                if now - self._silent_since > self.limits.stuck:
                    raise self._no_scheduler_error() from error
                time.sleep(0.1)
            else:
                self._silent_since = None
                return answer

    def _await_connection(self) -> None:
        """Wait while the client tries to reach the scheduler again."""
        until = time.monotonic() + self.limits.connect + 5.0
        while not self.connected:
            if self._client.status == "closed" or time.monotonic() > until:
                raise self._no_scheduler_error()
            time.sleep(0.05)

    def _no_scheduler_error(self) -> ClusterLost:
        return ClusterLost(
            f"the scheduler at {self.address} is gone or does not answer: start it again, then go on with "
            "--resume (resume=True)."
        )

    def check_versions(self, addresses: Iterable[str]) -> set[str]:
        """Refuse workers with other versions of libraries than this process; gives those that have not answered yet."""
        new = set(addresses) - self._compared
        if new:
            ours = get_versions(packages=PACKAGES)
            asked = {"msg": {"op": "versions", "packages": list(PACKAGES)}, "workers": sorted(new)}
            answers: dict[str, Any] = {}
            with suppress(*NO_ANSWER):  # one of them stands still, and all are asked again later
                broadcast = self._client.scheduler.broadcast
                answers = self._client.sync(broadcast, **asked, on_error="return", callback_timeout=self._short)
            for address, theirs in answers.items():
                if isinstance(theirs, Mapping):
                    _compare_versions(ours, theirs, address)
                    self._compared.add(address)
        return new - self._compared

    def run_everywhere(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function on every worker that answers soon; whether it succeeds does not matter."""
        with suppress(Exception):
            self._client.run(function, *arguments, on_error="ignore", callback_timeout=self._short)

    @contextmanager
    def performance_report(self, path: Path | str | None) -> Iterator[None]:
        """Dask's own report of what the cluster did meanwhile, written to a file; nothing where path is None."""
        if path is None:
            yield
            return
        if find_spec("bokeh") is None:
            raise InputError(needs("a performance report", "bokeh"))
        with self._client.as_current(), distributed.performance_report(filename=str(path)):
            yield

    def submit(
        self, function: Callable[..., Any], *arguments: Any, name: str, worker: str, is_graph: bool = False
    ) -> Future:
        """Start a task, preferably on this worker; `is_graph`: Dask first computes delayed objects in arguments."""
        where = {"workers": [worker], "allow_other_workers": True}
        if is_graph:
            task = dask.delayed(function, pure=False)(*arguments, dask_key_name=name)
            return self._client.compute(task, **where)
        return self._client.submit(function, *arguments, key=name, pure=False, **where)

    def compute(self, lazy: Sequence[Any]) -> list[Any]:
        """Values of Dask's delayed objects."""
        futures = self._client.compute(list(lazy))
        try:
            seen = began = time.monotonic()
            while True:
                self.wait(futures, 5.0)
                if all(future.done() for future in futures):
                    outcomes = self.collect_outcomes(futures)
                    for outcome, future in zip(outcomes, futures, strict=True):
                        if outcome is not None and outcome.error:
                            cause = self._find_error(future)
                            if isinstance(cause, InputError):
                                raise cause
                            raise InputError(f"a dask array could not be computed: {outcome.error}") from cause
                    values = [outcome.value for outcome in outcomes if outcome is not None]
                    if len(values) == len(futures):
                        return values
                now = time.monotonic()
                seen = now if self.workers() else seen
                if now - seen > self.limits.workers:
                    raise self.no_workers_error()
                if now - began > self.limits.task:
                    raise ClusterLost(
                        f"a dask array was not computed within {self.limits.task:.0f} s (dmmc.wait.task): raise this "
                        "limit, or write the array to a zarr store first (to_zarr) and fit that."
                    )
        finally:
            self.release(futures)

    def wait(self, futures: Iterable[Future], seconds: float) -> None:
        """Wait until all are done, but no longer than this."""
        with suppress(*NO_ANSWER), self._client.as_current():
            distributed.wait(list(futures), timeout=seconds)

    def collect_outcomes(self, futures: Sequence[Future]) -> list[Outcome | None]:
        """How these futures ended; None for one that was lost on the way and can be submitted again."""
        failed = {future: self._find_error(future) for future in futures if future.status == "error"}
        finished = [future for future in futures if future.status == "finished"]
        fetched: dict[Future, Outcome | None] = {}
        with suppress(*NO_ANSWER):
            fetched = self._client.sync(self._fetch_all, finished, callback_timeout=self.limits.stuck + self._short)
        return [
            Outcome(None, isinstance(failed[future], distributed.KilledWorker), _describe_error(failed[future]))
            if future in failed
            else fetched.get(future)
            for future in futures
        ]

    async def _fetch_all(self, futures: Sequence[Future]) -> dict[Future, Outcome | None]:
        outcomes = await asyncio.gather(*(self._fetch(future) for future in futures))
        return dict(zip(futures, outcomes, strict=True))

    async def _fetch(self, future: Future) -> Outcome | None:
        """The value of a finished future; None where it is lost with its worker on the way.

        `Client.gather` would wait until Dask has computed it anew, which may be never.
        """
        asking = asyncio.ensure_future(self._client.scheduler.gather(keys=[future.key]))
        asking.add_done_callback(lambda task: task.cancelled() or task.exception())  # or asyncio says nobody asked
        until = time.monotonic() + self.limits.stuck
        try:
            while not asking.done() and future.status == "finished" and time.monotonic() < until:
                await asyncio.wait({asking}, timeout=0.1)
            answer = asking.result() if asking.done() else {}
        except NO_ANSWER:
            return None
        except Exception as error:  # a value that cannot be pickled is noticed here
            return Outcome(None, error=_describe_error(error))
        finally:
            asking.cancel()
        return Outcome(answer["data"][future.key]) if answer.get("status") == "OK" else None

    def _find_error(self, future: Future) -> BaseException:
        try:
            error = future.exception(timeout=self.limits.stuck)
        except NO_ANSWER as late:
            error = late
        return error if isinstance(error, BaseException) else RuntimeError("unknown")

    def list_unfinished(self, addresses: Iterable[str]) -> set[str]:
        """Names of the tasks that these workers have and have not finished."""
        found = self._ask(self._client.scheduler.processing, workers=list(addresses))
        return {str(key) for keys in found.values() for key in keys}

    def release(self, futures: Iterable[Future]) -> None:
        """Cancel what is not done yet, and let the cluster forget the results of the rest."""
        with suppress(Exception):
            for future in futures:
                future.release()


def _describe_error(error: BaseException) -> str:
    """The last line of an error, which is the one that says what is wrong."""
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[-1][:500]}"


def _compare_versions(ours: Mapping[str, Any], theirs: Mapping[str, Any], address: str) -> None:
    """Refuse a worker with another version of a library, of Python (major and minor), or another kind of machine."""
    for name in PACKAGES:
        own, other = ours["packages"][name], theirs["packages"].get(name)
        if other != own:
            has = f"has {name} {other}" if other else f"has no {name}"
            raise InputError(
                f"worker {address} {has}, but this process has {name} {own}: install the same versions everywhere."
            )
    for what in ("python", "machine"):
        own, other = str(ours["host"][what]), str(theirs["host"][what])
        if own.split(".")[:2] != other.split(".")[:2]:
            raise InputError(
                f"worker {address} has {what} {other}, but this process has {own}: use the same everywhere."
            )
