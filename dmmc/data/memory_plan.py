"""Whether one process holds all rows of a store in memory, or reads them in each pass; and what it keeps then."""

from typing import NamedTuple

from dmmc.errors import InputError
from dmmc.machine import PROCESS, free_memory, parse_size

AT_WORK = 4
"""Blocks that a thread needs beside those that are kept: one worked on, one being read, and what decodes them."""
IN_USE = 2
"""The same where all rows are in memory: what is computed of one."""
ROW = 20
"""Bytes that the driver of a fit takes for each row, at most: labels, distances, margins, and copies of them."""


class Size(NamedTuple):
    """What it takes to hold a matrix.

    name : for messages
    n_rows : of the matrix
    n_bytes : that all rows take in memory
    block : bytes of the largest block
    """

    name: str
    n_rows: int
    n_bytes: int
    block: int


class Plan(NamedTuple):
    """What a process does with the rows of a store."""

    in_memory: bool
    room: int | None
    """Bytes that it may take beside what it is without rows; None where nobody knows."""
    kept: int
    """Bytes of rows that may be kept between passes; the rest is read in each pass."""


def find_room(memory: int | str | None) -> int | None:
    """Bytes for a fit beside the process without rows.

    memory : what the process may take in all, as `parse_size` reads it; None: half of what is free, and the process
    """
    if memory is None:
        free = free_memory()
        return None if free is None else free // 2
    given = parse_size(memory)
    if given <= PROCESS:
        raise InputError(
            f"memory is {memory!r}, and a process of dmmc takes {PROCESS / 1e6:.0f} MB before it holds any rows: more "
            "is wanted."
        )
    return given - PROCESS


def plan_memory(size: Size, threads: int, memory: int | str | None) -> Plan:
    """Hold all rows where they fit into the room, else keep what does; `memory` as of `find_room`."""
    room = find_room(memory)
    own = ROW * size.n_rows
    if room is None or size.n_bytes + own + IN_USE * threads * size.block <= room:
        return Plan(True, room, size.n_bytes)
    least = own + AT_WORK * threads * size.block
    if memory is not None and least > room:
        raise InputError(
            f"memory is {memory!r}, but a fit of {size.name} on {threads} thread(s) with blocks of "
            f"{size.block / 1e6:.1f} MB needs {(PROCESS + least) / 1e6:.0f} MB even where rows are read in each pass: "
            "give more memory, or fewer threads (n_jobs)."
        )
    return Plan(False, room, max(0, room - least))
