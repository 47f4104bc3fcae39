"""What a matrix is before it is clustered: its shape, the memory that a fit needs, and what is wrong with it.

- `describe`: `info`, for every kind of source; `zarr_store`: what it says of a zarr store
- `check_numbers`: a look at all numbers; `memory`: how much memory a fit needs, by each method
- `format`: `format_info`, the lines that `dmmc info` prints
"""

from dmmc.info.describe import info
from dmmc.info.format import format_info

__all__ = ["format_info", "info"]
