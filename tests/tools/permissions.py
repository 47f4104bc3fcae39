"""Permissions of files, for tests that the superuser runs too."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


@contextmanager
def without_override() -> Iterator[None]:
    """Let the superuser heed permissions of files as others do (capabilities 1 and 2 of Linux)."""
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = _Header(0x20080522, 0), (_Sets * 2)()
    libc.capget(ctypes.byref(header), sets)
    before = sets[0].effective
    sets[0].effective = before & ~0b110
    libc.capset(ctypes.byref(header), sets)
    yield
    sets[0].effective = before
    libc.capset(ctypes.byref(header), sets)
