"""Passes over the rows of a leaf: sums of the rows with each given label, and of those on one side of a split."""

import numpy as np

from dmmc import kernels
from dmmc.array_types import Array
from dmmc.data.blocks import Block
from dmmc.model import passes
from dmmc.model.passes import Tree


def label_sums(block: Block, n_labels: int) -> tuple[Array, Array]:
    """Sums of the rows with each given label, and their weight."""
    assert block.given is not None
    omega = np.ones(block.stop - block.start) if block.weight is None else block.weight
    coef = np.zeros((len(omega), n_labels))
    coef[np.arange(len(omega)), block.given] = omega
    return kernels.weighted_sum(block.rows, coef), coef.sum(axis=0)


def upper_sums(block: Block, tree: Tree) -> tuple[Array, float]:
    """Sum of the rows that go to child 1 of the root, and their weight."""
    omega = np.ones(block.stop - block.start) if block.weight is None else block.weight
    coef = np.where(passes.label_rows(block, tree) == 1, omega, 0.0)
    return kernels.weighted_sum(block.rows, coef[:, None])[0], float(coef.sum())
