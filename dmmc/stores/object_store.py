"""An object store as zarr reads and writes it: what passes is asked for again, within limits, and nothing is zeros.

A chunk that is not there is an error that names it, as zarr would read it as zeros. Every wait has a limit.
"""

import asyncio
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import zarr
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore

from dmmc.errors import InputError, StoreFailed, needs
from dmmc.process_state import Shared
from dmmc.stores.failures import is_refusal, passes, tell
from dmmc.stores.limits import StoreLimits
from dmmc.stores.urls import PACKAGES, Remote

Answer = TypeVar("Answer")

METADATA = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}
"""Objects that need not be there."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before something is asked for again; each pause is twice the one before."""
KEPT = 16
"""File systems, with their connections, that a process keeps open."""


class ObjectStore(FsspecStore):
    """A folder of objects.

    place : where
    strict : whether a chunk that is missing is an error; not where it is about to be written
    """

    def __init__(self, place: Remote, *, read_only: bool = True, strict: bool = True) -> None:
        fs, path = open_file_system(place)
        super().__init__(fs, read_only=read_only, path=path)
        self.place, self.strict = place, strict
        self.supports_listing = place.is_listed
        self.refused: BaseException | None = None
        """What the store said when it refused metadata: it may do so where there are none."""

    def __repr__(self) -> str:
        return f"ObjectStore({self.place})"

    __str__ = __repr__

    def with_read_only(self, read_only: bool = False) -> "ObjectStore":
        """The same store, to be written or not."""
        return ObjectStore(self.place, read_only=read_only, strict=self.strict)

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """An object, or a part of it; None for metadata that are not there."""
        try:
            found = await self._ask(key, lambda: super(ObjectStore, self).get(key, prototype, byte_range))
        except _Refused as error:
            if key.rsplit("/", 1)[-1] not in METADATA:
                raise StoreFailed(f"{self.place}/{key} cannot be read ({tell(error.said, self.place)}).") from None
            self.refused = error.said
            return None
        if self.strict and (found is None or len(found) == 0) and key.rsplit("/", 1)[-1] not in METADATA:
            raise StoreFailed(f"{self.place}/{key} is {'missing' if found is None else 'empty'}.")
        return found

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Parts of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def set(self, key: str, value: Buffer, byte_range: tuple[int, int] | None = None) -> None:
        """Write an object."""
        await self.ask(key, lambda: super(ObjectStore, self).set(key, value, byte_range), what="written")

    async def exists(self, key: str) -> bool:
        """Whether there is an object."""
        return bool(await self.ask(key, lambda: super(ObjectStore, self).exists(key)))

    async def getsize(self, key: str) -> int:
        """Bytes of an object."""
        return int(await self.ask(key, lambda: super(ObjectStore, self).getsize(key)))

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Names of all objects whose names begin so."""
        for key in await self.find_sizes(prefix):
            yield key

    async def find_sizes(self, prefix: str = "") -> dict[str, int]:
        """Bytes of all objects below a prefix, by name."""
        root = f"{self.path}/{prefix}".rstrip("/")

        async def find() -> dict[str, int]:
            try:
                found = await self.fs._find(root, detail=True, withdirs=False)
            except FileNotFoundError:
                return {}
            start = f"{self.path}/"
            return {name.removeprefix(start): int(one["size"] or 0) for name, one in found.items()}

        # many pages make one answer
        limits = self.place.limits._replace(answer=self.place.limits.total)
        return await self.ask(prefix, find, limits, what="listed")

    async def ask(
        self,
        key: str,
        question: Callable[[], Awaitable[Answer]],
        limits: StoreLimits | None = None,
        what: str = "read",
    ) -> Answer:
        """Ask until there is an answer, within the limits; `what` was to be done, for the sentence about a refusal."""
        try:
            return await self._ask(key, question, limits)
        except _Refused as refused:
            raise refuse(self.place, refused.said, what) from None

    async def _ask(
        self, key: str, question: Callable[[], Awaitable[Answer]], limits: StoreLimits | None = None
    ) -> Answer:
        """As `ask`; what will not pass is `_Refused`."""
        limits = limits or self.place.limits
        until, pause = time.monotonic() + limits.total, FIRST_PAUSE
        while True:
            try:
                left = max(until - time.monotonic(), 0.001)
                return await asyncio.wait_for(question(), min(limits.answer, left))
            except FileNotFoundError:
                raise
            except Exception as error:
                if not passes(error):
                    raise _Refused(error) from None
                wait = pause * random.uniform(0.5, 1.0)
                if time.monotonic() + wait > until:
                    raise self._fail(key, error) from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _fail(self, key: str, error: Exception) -> StoreFailed:
        said = "no answer in time" if isinstance(error, TimeoutError) else tell(error, self.place)
        seconds = f"{self.place.limits.total:g} s (dmmc.store.total)"
        return StoreFailed(f"{self.place}/{key} had no good answer in {seconds}, and the last was: {said}.")


class _Refused(Exception):  # noqa: N818 - what happened
    """What a store has refused, or could not be asked."""

    def __init__(self, said: BaseException) -> None:
        super().__init__()
        self.said = said


def refuse(place: Remote, said: BaseException, what: str = "read") -> InputError:
    """The sentence about a store that does not let us in, or that cannot be asked."""
    given = f"storage options given: {', '.join(place.options) or 'none'}"
    if is_refusal(said):
        public = "; anon=true reads what is public" if place.scheme == "s3" and "anon" not in place.options else ""
        return InputError(
            f"{place} cannot be {what}, as access was refused ({tell(said, place)}): credentials that may are wanted "
            f"({given}{public})."
        )
    return InputError(f"{place} cannot be {what} ({tell(said, place)}): look at the address and the options ({given}).")


_open: dict[tuple[Any, ...], Any] = {}
_lock = threading.Lock()


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)  # a thread that the new process does not have may hold the old one


def open_file_system(place: Remote) -> tuple[Any, str]:
    """The file system of a place and the path in it; connections are kept for the next time in this process."""
    import fsspec

    options = _complete(place)
    key = (os.getpid(), place.scheme, repr(sorted(options.items())))
    try:
        with _lock:
            fs = _open.get(key)
            if fs is None:
                fs, _ = fsspec.url_to_fs(place.url, asynchronous=True, skip_instance_cache=True, **options)
                if not fs.async_impl:
                    from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper

                    fs = AsyncFileSystemWrapper(fs, asynchronous=True)
                while len(_open) >= KEPT:
                    _close(_open.pop(next(iter(_open))))
                _open[key] = fs
        return fs, str(fs._strip_protocol(place.url)).rstrip("/")
    except ImportError:
        raise InputError(needs(f"{place}", PACKAGES[place.scheme])) from None
    except Exception as error:
        raise refuse(place, error, "opened") from None


def _close(fs: Any) -> None:
    """Close the connections of a file system, or asyncio would complain that nobody did."""
    made, session = getattr(fs, "_s3creator", None), getattr(fs, "_session", None)
    with suppress(Exception):
        if made is not None:
            sync(made.__aexit__(None, None, None), timeout=5.0)
        elif session is not None:
            sync(session.close(), timeout=5.0)


def _complete(place: Remote) -> dict[str, Any]:
    """The options that were given, and ours: no listing is believed later, and one try has the limits of all."""
    limits, given = place.limits, dict(place.options)
    ours: dict[str, Any] = {"use_listings_cache": False}
    if place.scheme == "s3":
        tries = {"mode": "standard", "total_max_attempts": 2}
        waits = {"connect_timeout": limits.answer, "read_timeout": limits.answer}
        ours["config_kwargs"] = {"max_pool_connections": limits.at_once, "retries": tries, **waits}
        ours["config_kwargs"] |= given.pop("config_kwargs", {})
        ours["max_concurrency"] = 1  # more would ask for the size of each chunk first
    return {**ours, **given} if place.scheme != "memory" else given


_concurrency = 0


def _raise_concurrency() -> Any:
    return zarr.config.set({"async.concurrency": _concurrency})


_MANY_AT_ONCE = Shared(_raise_concurrency)


@contextmanager
def read_many_at_once(store: Any) -> Iterator[None]:
    """Let zarr ask for many chunks at once, if they come from an object store."""
    global _concurrency
    if not isinstance(store, ObjectStore):
        yield
        return
    _concurrency = store.place.limits.at_once
    with _MANY_AT_ONCE:
        yield
