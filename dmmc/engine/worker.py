"""What a worker does with a message: run a pass over its blocks on all its threads, and add up the results."""

from collections.abc import Mapping

from dmmc.engine.block_cache import use_cache
from dmmc.engine.block_runner import BlockError, describe_error, run_blocks
from dmmc.engine.dask_client import find_own_address
from dmmc.engine.messages import Message, Reply, SentBlock
from dmmc.errors import InputError, StoreFailed


def run_message(message: Message, sent: Mapping[int, SentBlock]) -> Reply:
    """Run a pass over the blocks of a message; `sent` is what the driver has sent along, by block number.

    Errors come back as sentences, as an exception of some library may not survive pickling.
    """
    try:
        placed_here = message.worker == find_own_address()
        with use_cache(message.session) as cache:
            cache.prepare(message, placed_here)
            for index, block in sent.items():
                cache.put_columns(index, block)
            missing = tuple(i for i, _, _ in message.spans if i not in sent and cache.lacks(i, message))
            if missing:
                return Reply({}, [], {}, missing)
            return run_blocks(message, sent, cache, placed_here)
    except InputError as error:
        return Reply({}, [], {}, refused=str(error))
    except StoreFailed as error:
        return Reply({}, [], {}, store_failed=str(error))
    except BlockError as error:
        return Reply({}, [], {}, failed=str(error))
    except (Exception, SystemExit) as error:  # an exit would close the worker
        return Reply({}, [], {}, failed=describe_error(error))
