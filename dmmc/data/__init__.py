"""A matrix as fixed, ordered row blocks: in memory, in a zarr store, or made by Dask."""
