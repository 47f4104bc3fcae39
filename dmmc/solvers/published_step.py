"""The step of stochastic gradient as paper 004 prints it (`step="paper"`), for comparison with the one by default."""


def constant_step(rate: float, epochs: float, rows: int) -> float:
    """The step of all rows of an epoch: `rate` over the number of the epoch and of the rows."""
    return rate / ((1 + epochs) * rows)
