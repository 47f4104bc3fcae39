"""Which worker keeps which blocks, what it has been sent of them, and how many bytes it can keep."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dmmc.data.dataset import Rows
from dmmc.data.memory_plan import AT_WORK
from dmmc.errors import InputError
from dmmc.machine import PROCESS

if TYPE_CHECKING:
    from dmmc.engine.dask_client import Worker

FULL = 0.75
"""Of a worker's memory limit may be used: above it Dask pauses the worker, then ends it."""
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


def choose_kept(sizes: NDArray[Any], groups: Iterable[range], budget: float) -> frozenset[int]:
    """Numbers of the blocks that one process keeps: the first ones of each group, so that all groups are alike.

    They stay: what would come in their place would push out what the next pass wants first.

    sizes : (n,) bytes of each block
    groups : which together hold all blocks, in order; a reader reads forward within a group
    budget : bytes of blocks that can be kept
    """
    share, seen, kept, bytes_kept = min(1.0, budget / max(1.0, float(sizes.sum()))), 0.0, set(), 0.0
    for group in groups:
        seen += float(sizes[group.start : group.stop].sum())
        for number in group:
            if bytes_kept + sizes[number] > share * seen:
                break
            kept.add(number)
            bytes_kept += float(sizes[number])
    return frozenset(kept)


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
