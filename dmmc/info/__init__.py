"""What a matrix is before it is clustered: its shape, the memory that a fit needs, and what is wrong with it.

- `describe`: `info`, for every kind of source, and `format_info`, the lines that `dmmc info` prints of it
- `zarr_store`: what `info` says of a zarr store
- `check_numbers`: a look at all numbers; `row_numbers`: columns that only number the rows
- `memory`: how much memory a fit needs, by each method
"""

from dmmc.info.describe import format_info, info

__all__ = ["format_info", "info"]
