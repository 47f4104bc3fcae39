"""Other features than the raw ones: each is a map of rows, made once from all of them and saved with the model.

- `axes`: principal axes of the rows, by passes over the data
- `graph`: the graph of nearest neighbours, its spectrum, and smoothing along it
- `maps`: maps of rows, old and new: `Projection`, and `Manifold` through the nearest fitted rows
- `nystroem`: kernels by landmarks
- `graph_merge`: groups of rows joined along the graph until k are left
- `build`: from a name such as "spectral" to the map
"""
