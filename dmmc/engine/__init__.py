"""Engines: run a pass over all blocks and add up what it returns, always in the same order.

- `sums`: the order of addition, a fixed tree over the blocks, so that where a block runs cannot change a bit
- `local`: `Local`, the threads of this process
- `distributed`: `Distributed`, the workers of a Dask cluster
- `homes`: which worker keeps which blocks
- `orders`: what travels to a worker and back
- `worker`, `shelf`: what a worker does with it, and the blocks that it keeps
- `cluster`: a client with a limit on every wait; the one module that imports `distributed`
"""

from dmmc.engine.local import Local
from dmmc.engine.tree_sum import Engine, add

__all__ = ["Engine", "Local", "add"]
