"""A zarr array written to an object store, where nothing can be renamed: its description comes last.

Until then it is no array to whoever reads, and the place is marked; those that write it carry its description.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from dmmc.data.readers.store_checks import seal
from dmmc.errors import InputError, StoreFailed
from dmmc.stores.urls import Remote


class NewArray(NamedTuple):
    """An array that has no description in its store yet; it pickles, so that workers can write it.

    place : where its chunks go
    metadata : what will describe it
    """

    place: Remote
    metadata: dict[str, Any]

    def open(self) -> Any:
        """The array, to be written."""
        import zarr
        from zarr.storage import StorePath

        from dmmc.stores.object_store import ObjectStore

        return zarr.Array.from_dict(StorePath(ObjectStore(self.place, read_only=False, strict=False)), self.metadata)


@contextmanager
def write_remote(place: Remote, create: Callable[[Any], Any]) -> Iterator[NewArray]:
    """Give an array that can be written; if the block fails, what was written is removed.

    create : makes an array of the wanted shape and kind in a store that it is given
    """
    from zarr.storage import MemoryStore

    from dmmc.stores import transfer

    metadata = create(MemoryStore()).metadata.to_dict()
    transfer.begin(place)
    try:
        yield NewArray(place, metadata)
        transfer.finish(place)
    except BaseException:
        with suppress(InputError, StoreFailed):  # what has failed is the reason; the mark says that it is unfinished
            transfer.clear(place)
        raise


def publish(array: NewArray) -> None:
    """Write the description of an array all of whose chunks are there, and seal it."""
    import zarr
    from zarr.core.sync import sync

    from dmmc.stores.object_store import ObjectStore

    opened = array.open()
    sync(opened._async_array._save_metadata(opened.metadata, ensure_parents=False))
    seal(zarr.open_array(ObjectStore(array.place, read_only=False), mode="r+"))
