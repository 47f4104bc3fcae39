"""One read of the data per pass: scores, then a loss of the scores, then weighted sums.

A kernel sees a block of rows (dense or CSR), hyperplanes and a loss *table*; it does not know what the loss is for.
Hyperplanes are given in the coordinates of the raw rows (`Geometry.raw` folds centring and scaling in), so integers
stay integers and sparse rows stay sparse.

Rows are visited in tiles of at most 128 that stay in the cache between the two halves of the work. Inside a tile
sums are kept in the compute type (float32 for float32 and integers of up to 16 bits, else float64) and flushed to
float64 after it; sums of integers with coefficients -1, 0, 1 stay below 2**24 there, so they are exact.

The score of a row with a hyperplane has the same bits wherever the row stands and whichever hyperplanes are scored
with it. There are two such scores, which differ in the order of addition: `wide=True`, where hyperplanes share each
load, and `wide=False`, the fastest for one hyperplane alone.

All kernels are serial and release the GIL: the engine runs blocks side by side.

    dispatch         `losses` and `scores`: what Python calls
    dense_pass       the pass over dense rows, in numba
    csr_pass         the pass over CSR rows
    tile_losses      what both do with the scores of a tile
    moments          `moments`, `squared_distances`, `weighted_sum`: looking at the data, and principal directions
    top_two          `top_two`: which hyperplane is best for a row, which is next, and by how much
    sgd              `descend`: stochastic gradient, one row a step
    label_flips      signs and flips: evolutionary MMC
    label_climb      `climb`: the same to the end, where all rows are in one block
    published_flips  `evolve`: evolutionary MMC as published
    arguments        records of arrays that kernels are called with, their memory, and compile options

numba's cache notices a change of a function's own file only: after a change of `tile_losses` or `label_flips`, touch
the files that import them.
"""

from dmmc.kernels.arguments import Sums, compute_dtype
from dmmc.kernels.dispatch import label_type, losses, scores
from dmmc.kernels.moments import moments, squared_distances, weighted_sum
from dmmc.kernels.sgd import Course, Path, descend
from dmmc.kernels.tile_losses import FROZEN, GIVEN, NEAREST, OWN
from dmmc.kernels.top_two import top_two

__all__ = [
    "FROZEN",
    "GIVEN",
    "NEAREST",
    "OWN",
    "Course",
    "Path",
    "Sums",
    "compute_dtype",
    "descend",
    "label_type",
    "losses",
    "moments",
    "scores",
    "squared_distances",
    "top_two",
    "weighted_sum",
]
