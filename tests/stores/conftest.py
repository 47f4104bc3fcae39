"""Fixtures of the tests of object stores: a real S3 server, and a proxy before it that spoils answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from object_server import FaultyProxy, ObjectServer


@pytest.fixture(scope="session")
def server() -> Iterator[ObjectServer]:
    """An S3 server with one bucket; tests write under names of their own."""
    made = ObjectServer()
    yield made
    made.close()


@pytest.fixture
def proxy(server: ObjectServer) -> Iterator[FaultyProxy]:
    """A way to the server that spoils what `proxy.faults` says."""
    made = FaultyProxy(server)
    yield made
    made.close()


@pytest.fixture
def options(server: ObjectServer, proxy: FaultyProxy) -> dict[str, Any]:
    """Storage options that lead through the proxy."""
    return server.options(proxy.address)


@pytest.fixture
def impatient() -> Iterator[None]:
    """Short limits."""
    with dask.config.set({"dmmc.store.answer": "2s", "dmmc.store.total": "6s"}):
        yield


@pytest.fixture(scope="session")
def put_digits(server: ObjectServer, load_digits: Any, tmp_path_factory: Any) -> Callable[..., tuple[str, Path]]:
    """``put_digits(name, chunks=..., ...)``: digits as a store: its URL in the server, its path on disk."""
    import zarr

    def put(name: str, **how: Any) -> tuple[str, Path]:
        path = tmp_path_factory.mktemp("stores") / name
        options = {"chunks": (100, 64), "config": {"write_empty_chunks": True}, **how}
        array = zarr.create_array(str(path), shape=load_digits.shape, dtype=load_digits.dtype, **options)
        array[...] = load_digits
        return server.put_folder(path, name), path

    return put


@pytest.fixture(scope="session")
def load_digits() -> Any:
    """600 digits of scikit-learn, float32."""
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)[0][:600].astype("f4")
