"""Engines: run a pass over all blocks and add up what it returns, always in the same order.

- `tree_sum`: the order of addition, a fixed tree over the blocks, so that where a block runs cannot change a bit
- `local`: `Engine`, what estimators know of an engine; `Local`, the threads of this process
- `distributed`: `Distributed`, the workers of a Dask cluster
- `placement`: which worker keeps which blocks; `worker_watch`: which workers are there and which stand still
- `messages`: the part of a pass that one worker gets: what travels to it and back
- `streamed`: `Streamed`, threads of this process over rows that stay in their store
- `block_runner`, `block_cache`, `few_rows`: how a process runs a pass over blocks that it reads; those that it keeps
- `worker`: what a worker does with a message
- `dask_client`, `connect`, `local_workers`: a client with a limit on every wait; how it reaches its scheduler; worker
  processes of our own; only these three import `distributed`
"""

from dmmc.engine.local import Engine, Local
from dmmc.engine.streamed import Streamed
from dmmc.engine.tree_sum import add

__all__ = ["Engine", "Local", "Streamed", "add"]
