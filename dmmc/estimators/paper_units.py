"""C and l as papers 000, 001 and 004 print them, in the units of our parameters."""

from typing import Any

from dmmc.data.open import open_dataset
from dmmc.engine import Local
from dmmc.errors import InputError
from dmmc.estimators.parameters import POSITIVE
from dmmc.model.geometry import measure


def from_paper_units(X: Any, C: float | None = None, l: float | None = None) -> dict[str, Any]:
    """Parameters of an estimator that mean what C and l mean in papers 000, 001 and 004.

    The papers weigh the mean loss of rows as they are; ours are centred and have mean squared norm 1, so `C = ρ² C`,
    with ρ² the mean squared norm of the centred rows. They bound the sum of decision values over the n rows by l, we
    bound its mean: `balance = l / n` (E1). Columns keep their scale and outliers their weight.

    Parameters
    ----------
    X : whatever `fit` takes, without missing cells
    C : weight of the loss, in the paper's units; None leaves ours alone
    l : bound of the sum of decision values, above 0 and below n; None leaves ours alone

    Returns
    -------
    dict
        "C", "balance" (where asked for), "scale" and "outliers", for `CuttingPlaneMMC(**parameters)` and others.
    """
    dataset = open_dataset(X)
    found: dict[str, Any] = {"scale": "none", "outliers": "keep"}
    if C is not None:
        POSITIVE.check("C", C)
        with Local(dataset, 1) as engine:
            geometry, _ = measure(engine.dataset, engine.rows, "none", lower=False)
        found["C"] = float(C) * geometry.norm**2
    if l is not None:
        POSITIVE.check("l", l)
        if l >= dataset.n_rows:
            raise InputError(
                f"l is {l!r} for {dataset.n_rows} rows; less than one a row is wanted, or w = 0 would cost nothing."
            )
        found["balance"] = float(l) / dataset.n_rows
    return found
