"""Which worker keeps which blocks, what it has been sent of them, and how many bytes it can keep."""

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


class Placement:
    """A worker for each block (of `sizes` bytes); each worker gets a share of the bytes by its number of threads."""

    def __init__(self, sizes: NDArray[Any]) -> None:
        self.sizes = sizes
        self._workers: list[str] = [""] * len(sizes)
        """Address of the worker of each block."""
        self._blocks: dict[str, frozenset[int]] = {}
        self._sent: dict[tuple[str, int], set[int]] = {}

    def worker_of(self, index: int) -> str:
        """Address of the worker that keeps a block."""
        return self._workers[index]

    def blocks_of(self, address: str) -> frozenset[int]:
        """Numbers of the blocks that a worker keeps."""
        return self._blocks.get(address, frozenset())

    def update(self, workers: Mapping[str, Worker]) -> None:
        """Place the blocks of lost workers again and give new workers their share; the others stay where they are."""
        if set(workers) == set(self._blocks):
            return
        self._sent = {key: sent for key, sent in self._sent.items() if key[0] in workers}
        threads = {address: worker.threads for address, worker in workers.items()}
        share = {address: count / sum(threads.values()) for address, count in threads.items()}
        room_left = {address: part * self.sizes.sum() for address, part in share.items()}
        unplaced = []
        half = 0.5 * float(self.sizes.max())
        for index, address in enumerate(self._workers):
            if address in room_left and room_left[address] > half:
                room_left[address] -= self.sizes[index]
            else:
                unplaced.append(index)
        for index in unplaced:
            # with the block before it, if there is room: neighbours are read and added up together
            before = self._workers[index - 1] if index else ""
            address = before if room_left.get(before, 0.0) > half else max(room_left, key=lambda a: room_left[a])
            self._workers[index] = address
            room_left[address] -= self.sizes[index]
        self._blocks = {a: frozenset(i for i, worker in enumerate(self._workers) if worker == a) for a in workers}

    def sent(self, address: str, version: int) -> set[int]:
        """Blocks of which a worker has been sent this version of the columns (0: of which it has been sent rows)."""
        return self._sent.setdefault((address, version), set())


def find_budget(worker: Worker | None, block: float) -> int:
    """Bytes of rows that a worker can keep, if its largest block has `block` bytes."""
    if worker is None or not worker.memory:
        return UNLIMITED
    return max(0, int(FULL * worker.memory - PROCESS - AT_WORK * worker.threads * block))


def check_memory(dataset: Rows, block: float, workers: Iterable[Worker], *, streams: bool) -> None:
    """Refuse a matrix that the workers cannot work on, with the numbers.

    Its largest block has `block` bytes; `streams` says whether workers can read rows again in each pass.
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
    room = sum(find_budget(worker, block) for worker in present)
    if not streams and room < dataset.nbytes:
        raise InputError(
            f"{dataset.name} takes {dataset.nbytes / 1e6:.0f} MB, but the {len(present)} worker(s) can keep "
            f"{room / 1e6:.0f} MB of rows: write it to a zarr store (dmmc convert, or to_zarr of a dask array), from "
            "which workers read in each pass, or start more workers."
        )
