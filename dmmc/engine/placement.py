"""Which worker keeps which blocks, what it has been sent of them, and how much it can keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray

from dmmc.data.dataset import Rows
from dmmc.engine.dask_client import Worker
from dmmc.errors import InputError
from dmmc.machine import PROCESS

FULL = 0.75
"""Of a worker's memory limit may be used: above it Dask pauses the worker, then ends it."""
AT_WORK = 4
"""Blocks that a thread needs beside those that are kept: one worked on, one being read, and what decodes them."""
UNLIMITED = 2**62


class Homes:
    """A home for each block, as even as the workers' threads are.

    Parameters
    ----------
    sizes : ndarray of shape (n_blocks,)
        Bytes of each block.
    """

    def __init__(self, sizes: NDArray[Any]) -> None:
        self.sizes = sizes
        self._homes: list[str] = [""] * len(sizes)
        self._kept: dict[str, frozenset[int]] = {}
        self._sent: dict[tuple[str, int], set[int]] = {}

    def of(self, index: int) -> str:
        """Home of a block."""
        return self._homes[index]

    def blocks(self, address: str) -> frozenset[int]:
        """Blocks at home there."""
        return self._kept.get(address, frozenset())

    def settle(self, workers: Mapping[str, Worker]) -> None:
        """Give homes to blocks that have none left, and new workers their share; others stay where they are."""
        if set(workers) == set(self._kept):
            return
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] in workers}
        threads = {address: worker.threads for address, worker in workers.items()}
        share = {address: count / sum(threads.values()) for address, count in threads.items()}
        room_left = {address: part * self.sizes.sum() for address, part in share.items()}
        homeless = []
        half = 0.5 * float(self.sizes.max())
        for index, home in enumerate(self._homes):
            if home in room_left and room_left[home] > half:
                room_left[home] -= self.sizes[index]
            else:
                homeless.append(index)
        for index in homeless:
            # on where the block before it is, if there is room: neighbours are read and added up together
            before = self._homes[index - 1] if index else ""
            home = before if room_left.get(before, 0.0) > half else max(room_left, key=lambda a: room_left[a])
            self._homes[index] = home
            room_left[home] -= self.sizes[index]
        by_home: dict[str, list[int]] = {address: [] for address in workers}
        for index, home in enumerate(self._homes):
            by_home[home].append(index)
        self._kept = {address: frozenset(own) for address, own in by_home.items()}

    def sent(self, address: str, what: int) -> set[int]:
        """Blocks of which a worker has been sent this (a version of the columns, or 0 for rows)."""
        return self._sent.setdefault((address, what), set())


def budget(worker: Worker | None, block: float) -> int:
    """Bytes of rows that a worker can keep, where the largest block is of so many bytes."""
    if worker is None or not worker.memory:
        return UNLIMITED
    return max(0, int(FULL * worker.memory - PROCESS - AT_WORK * worker.threads * block))


def check_room(dataset: Rows, block: float, workers: Iterable[Worker], *, streams: bool) -> None:
    """Refuse a matrix that the workers cannot work on, with the numbers.

    Parameters
    ----------
    dataset : Dataset or Stored
    block : bytes of its largest block
    workers : those that are there
    streams : whether workers can read rows again in each pass
    """
    present = list(workers)
    for worker in present:
        least = PROCESS + AT_WORK * worker.threads * block
        if worker.memory and least > FULL * worker.memory:
            raise InputError(
                f"worker {worker.address} has a memory limit of {worker.memory / 1e6:.0f} MB, but a fit of "
                f"{dataset.name} needs {least / FULL / 1e6:.0f} MB on a worker of {worker.threads} thread(s) with "
                f"blocks of {block / 1e6:.1f} MB: start workers with more memory or fewer threads."
            )
    room = sum(budget(worker, block) for worker in present)
    if not streams and room < dataset.nbytes:
        raise InputError(
            f"{dataset.name} takes {dataset.nbytes / 1e6:.0f} MB, but the {len(present)} worker(s) can keep "
            f"{room / 1e6:.0f} MB of rows: write it to a zarr store (dmmc convert, or to_zarr of a dask array), from "
            "which workers read in each pass, or start more workers."
        )
