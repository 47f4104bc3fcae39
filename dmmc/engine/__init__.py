"""Engines: run a pass over all blocks and add up what it returns, always in the same order.

- `interface`: what estimators know of an engine
- `tree_sum`: the order of addition, a fixed tree over the blocks, so that where a block runs cannot change a bit
- `local`: `Local`, the threads of this process
- `distributed`: `Distributed`, the workers of a Dask cluster; `tasks`: the part of a pass that one worker gets
- `placement`: which worker keeps which blocks; `worker_watch`: which workers are there and which stand still
- `messages`: what travels to a worker and back
- `worker`, `block_cache`: what a worker does with a message, and the blocks that it keeps
- `dask_client`, `connect`, `local_workers`: a client with a limit on every wait (`wait_limits`), how it reaches its
  scheduler, and worker processes of our own; only these three import `distributed`
"""

from dmmc.engine.interface import Engine
from dmmc.engine.local import Local
from dmmc.engine.tree_sum import add

__all__ = ["Engine", "Local", "add"]
