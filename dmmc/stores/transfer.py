"""Whole files and folders from and to an object store; a store that is written has its descriptions last."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from dmmc.errors import InputError, StoreFailed
from dmmc.machine import MIB
from dmmc.stores.object_store import METADATA, ObjectStore
from dmmc.stores.urls import Remote

PART = 8 * MIB
"""Bytes of a file that are asked for at a time."""
TRANSFERS = 8
"""Objects, or parts of files, on their way at the same time."""
MARK = ".dmmc-unfinished"
"""Object in a place that is being written: what is left beside it is nobody's data."""


def download(place: Remote, folder: Path) -> Path:
    """Read a file into a folder; gives its path there."""
    path = folder / (place.name or "file")
    fs, whole = _parent(place)

    async def size() -> int | None:
        found = await fs.ask(place.name, lambda: fs.fs._info(whole))
        return None if found["size"] is None else int(found["size"])

    async def part(start: int, length: int | None) -> bytes:
        end = None if length is None else start + length
        data: bytes = await fs.ask(place.name, lambda: fs.fs._cat_file(whole, start=start or None, end=end))
        if length is not None and len(data) != length:
            raise StoreFailed(f"{place} gave {len(data)} bytes where {length} were asked for.")
        return data

    try:
        total = sync(size())
        with path.open("wb") as file:
            if total is None or total <= PART:
                file.write(sync(part(0, None)))
                return path
            starts = list(range(0, total, PART))
            for at in range(0, len(starts), TRANSFERS):
                some = starts[at : at + TRANSFERS]
                for data in sync(_gather(part(start, min(PART, total - start)) for start in some)):
                    file.write(data)
    except FileNotFoundError:
        raise InputError(f"{place} does not exist: the URL of a zarr store or of a file is wanted.") from None
    return path


def put_file(path: Path, place: Remote) -> None:
    """Write a file as one object."""
    store, whole = _parent(place)
    seconds = place.limits.total + path.stat().st_size / MIB  # a MiB a second, at the least
    patience = place.limits._replace(answer=seconds, total=seconds)

    async def send() -> None:
        await store.ask(place.name, lambda: store.fs._put_file(str(path), whole), patience, what="written")

    sync(send())


def exists(place: Remote) -> bool:
    """Whether an object has this name."""
    store, _ = _parent(place)
    return sync(store.exists(place.name))


def upload(folder: Path, place: Remote) -> None:
    """Write a folder, many files at once: chunks first, descriptions then, that of the root last."""
    store = ObjectStore(place, read_only=False, strict=False)
    buffer = default_buffer_prototype().buffer

    async def send(path: Path) -> None:
        await store.set(path.relative_to(folder).as_posix(), buffer.from_bytes(path.read_bytes()))

    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    told = [path for path in paths if path.name in METADATA]
    _for_each([path for path in paths if path.name not in METADATA], send)
    # a part is described before what it is part of, so that nothing unfinished is found from the root
    for path in sorted(told, key=lambda path: -len(path.parts)):
        sync(send(path))


def begin(place: Remote, *, overwrite: bool = False) -> None:
    """Make a place free and mark it as unfinished; what a killed process left in it is removed."""
    store = ObjectStore(place, read_only=False, strict=False)
    refuse_taken(place, overwrite=overwrite)
    clear(place)
    sync(store.set(MARK, default_buffer_prototype().buffer.from_bytes(b"dmmc is writing here, or was interrupted.\n")))


def finish(place: Remote) -> None:
    """Remove the mark."""
    _remove(place, [MARK])


def refuse_taken(place: Remote, *, overwrite: bool = False) -> None:
    """Refuse a place where there is something that may not be replaced."""
    names = set(sync(ObjectStore(place).find_sizes()))
    if not names and "/" in place.url.partition("://")[2] and exists(place):
        names = {place.name}
    if not names or MARK in names:
        return
    if not overwrite:
        raise InputError(f"{place} exists: choose another name, or remove it first.")
    if not names & METADATA:
        raise InputError(f"{place} is not a zarr store: only such a one is overwritten, choose another name.")


def clear(place: Remote) -> None:
    """Remove all objects of a place, descriptions of stores first."""
    names = sorted(sync(ObjectStore(place).find_sizes()), key=lambda name: (name.count("/"), name))
    told = [name for name in names if name.rsplit("/", 1)[-1] in METADATA]
    _remove(place, told)
    _remove(place, [name for name in names if name not in told and name != MARK])
    _remove(place, [name for name in names if name == MARK])


def _remove(place: Remote, names: Iterable[str]) -> None:
    store = ObjectStore(place, read_only=False, strict=False)

    async def remove(name: str) -> None:
        try:
            await store.ask(name, lambda: store.fs._rm_file(f"{store.path}/{name}"), what="written")
        except FileNotFoundError:  # it was, and the answer was lost
            return

    _for_each(list(names), remove)


def _parent(place: Remote) -> tuple[ObjectStore, str]:
    """The store that an object is in, and its path in the file system."""
    store = ObjectStore(
        Remote(place.url.rpartition("/")[0], place.options, place.limits), read_only=False, strict=False
    )
    return store, f"{store.path}/{place.name}"


def _for_each(items: list[Any], do: Callable[[Any], Awaitable[None]]) -> None:
    """Do something with each, some at once."""
    for at in range(0, len(items), TRANSFERS):
        sync(_gather(do(item) for item in items[at : at + TRANSFERS]))


async def _gather(tasks: Iterable[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*tasks))
