"""Estimators that bound the biases of hyperplanes, and what `balance="auto"` is."""

from dataclasses import dataclass

import numpy as np

from dmmc.data.dataset import Rows
from dmmc.estimators.fitting import MarginClusterer
from dmmc.estimators.parameters import BalanceParameters
from dmmc.model.packed_labels import unpack_labels

BALANCE = 0.03
"""`balance="auto"`."""


@dataclass(eq=False, repr=False, kw_only=True)
class BalancedClusterer(BalanceParameters, MarginClusterer):
    """An estimator whose clusters are kept from collapsing by a bound on the biases of their hyperplanes."""

    def _choose_balance(self, dataset: Rows) -> float:
        """0.03; more where a graph start has found two clusters of uneven size, lest the search makes them even."""
        if not isinstance(self.balance, str):
            assert self.balance is not None
            return float(self.balance)
        given = dataset.given
        if self.n_clusters != 2 or given is None or self.start_name != "graph":
            return BALANCE
        base = 2 if self.choose_n_init(dataset.n_rows) > 1 else 0
        share = float(np.average(unpack_labels(given, base, 0), weights=dataset.weight))
        return min(BALANCE + abs(2.0 * share - 1.0), 0.9)
