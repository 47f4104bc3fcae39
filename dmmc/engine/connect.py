"""Connecting to a Dask cluster: a client, an address, a scheduler file, or worker processes of our own."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import distributed
from distributed import Client, Security

from dmmc.engine.dask_client import Cluster, Limits
from dmmc.engine.local_workers import start_workers
from dmmc.errors import ClusterLost, InputError
from dmmc.process_state import Forked, Shared

SETTINGS = {
    "distributed.admin.large-graph-warning-threshold": 2**30,
    "distributed.admin.low-level-log-length": 0,
}
"""Dask's settings for a client: parameters and rows travel inside tasks on purpose, so it need not warn of their size,
and is to keep no log of the messages that carried them."""
CHATTY = ("asyncio", "bokeh", "distributed", "tornado")
"""Libraries that log each lost connection with its traceback; what matters of it is said in our own errors."""


@contextmanager
def connect(
    scheduler: Any = None,
    workers: int | None = None,
    security: Any = None,
    *,
    dashboard: bool = False,
    profile: bool = False,
) -> Iterator[Cluster]:
    """Connect to a cluster that is there, or to local workers that end with the context.

    scheduler : Client, address (tcp://, tls://) or path of a scheduler file
    workers : number of local worker processes to start instead
    security : distributed.Security, or a mapping with `ca`, `cert` and `key`, files of TLS certificates
    dashboard : for local workers, show Dask's dashboard (on this machine only)
    profile : for local workers, let Dask's profiler run even without its dashboard
    """
    if Forked.lacks_dask_threads:
        raise InputError(
            "a cluster cannot be used in a process that was forked from one that has used Dask: start it with "
            "multiprocessing's 'spawn', or fit without a cluster."
        )
    limits = Limits.from_config()
    with ExitStack() as stack:
        stack.enter_context(_SETTINGS)
        if isinstance(scheduler, Client):
            if security is not None:
                raise InputError("security= goes with an address; a Client has its own.")
            client = scheduler
            if client.asynchronous:
                raise InputError("scheduler is an asynchronous Client; a synchronous one is wanted.")
        else:
            stack.enter_context(_SILENCE)
            if workers is not None:
                where: Any = stack.enter_context(start_workers(workers, limits, dashboard=dashboard, profile=profile))
            else:
                where = _find_address(scheduler, limits)
            client = _make_client(where, _make_security(security, where), limits)
            stack.callback(_close, client)
        cluster = Cluster(client, limits)
        cluster.await_workers()
        cluster.check_versions(cluster.workers())
        yield cluster


def _find_address(scheduler: Any, limits: Limits) -> str:
    """The address of a scheduler: as it was given, or as its file says."""
    if not isinstance(scheduler, str | os.PathLike):
        raise InputError(
            f"scheduler is {scheduler!r}; an address (tcp://, tls://), the path of a scheduler file or a "
            "distributed.Client is wanted."
        )
    address = os.fspath(scheduler)
    if "://" not in address:
        address = _read_scheduler_file(address, limits)
    if address.partition("://")[0] not in ("tcp", "tls", "ucx", "ws", "wss", "inproc"):
        raise InputError(f"{address} is not an address of a scheduler; tcp://HOST:PORT or tls://HOST:PORT is wanted.")
    return address


def _read_scheduler_file(path: str, limits: Limits) -> str:
    """The address in a scheduler file; waits for the file, as a batch job may start before its scheduler."""
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


def _make_security(given: Any, where: Any) -> Security | None:
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


def _make_client(where: Any, security: Security | None, limits: Limits) -> Client:
    try:
        if isinstance(where, str):
            _try_connection(where, security, limits.connect)
        return Client(where, security=security, timeout=limits.connect, set_as_default=False)
    except (TimeoutError, OSError) as error:
        what = str(error) or type(error).__name__
        raise ClusterLost(
            f"no scheduler let us in at {where} within {limits.connect:.0f} s (dmmc.wait.connect): is it running, is "
            f"the address right, and do its TLS settings and ours agree? ({what})"
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{where} cannot be used as a scheduler: {error}") from error


def _try_connection(address: str, security: Security | None, seconds: float) -> None:
    """Connect and close, before a Client is built: one whose connection fails can block the next Client."""

    async def connect_and_close() -> None:
        options = (security or Security()).get_connection_args("client")
        comm = await distributed.comm.connect(address, timeout=seconds, **options)
        await comm.close()

    # on a thread of its own, as this one may have a loop already (in a notebook it does)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, connect_and_close()).result()


def _close(client: Client) -> None:
    with suppress(Exception):
        client.close(timeout=5)


@contextmanager
def _silence() -> Iterator[None]:
    """Let chatty libraries log nothing."""
    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in CHATTY]
    loggers = [logging.getLogger(name) for name in {*CHATTY, *names}]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


_SETTINGS = Shared(lambda: dask.config.set(SETTINGS))
_SILENCE = Shared(_silence)
