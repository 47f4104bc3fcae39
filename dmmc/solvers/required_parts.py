"""Which parts of a loss or a norm a solver needs, and the sentence that names a missing one."""

from collections.abc import Mapping

import numpy as np

from dmmc.errors import InputError
from dmmc.model.losses import Loss


def check_parts(kind: str, given: object, solver: str, needed: Mapping[str, str]) -> None:
    """Refuse a loss or a norm (`kind`) that lacks a part that the solver needs; `needed` says what each part is."""
    for part, meaning in needed.items():
        if not hasattr(given, part):
            raise InputError(f"the {kind} {given!r} has no `{part}` ({meaning}), which {solver} needs.")


def check_convex(loss: Loss, solver: str, n_clusters: int) -> None:
    """Refuse a loss that is not convex where labels are fixed.

    A row whose label is its own has a margin of at least 0. There the loss has to be convex; and as a margin to the
    runner-up is concave in the hyperplanes, the loss must not rise with it where there are more than two clusters.
    """
    exact, convex = loss.table, loss.surrogate
    t = np.unique(np.maximum(0.0, [0.0, *exact.knots, *convex.knots, 2.0 * np.max(exact.knots, initial=1.0)]))
    if not np.allclose(exact.value(t), convex.value(t), atol=1e-9):
        raise InputError(
            f"the loss {loss!r} is not convex for margins above 0, which {solver} needs; StochasticMMC takes it."
        )
    if convex.value(t).min() < -1e-9 or (n_clusters > 2 and convex.slopes.max() > 0):
        raise InputError(
            f"the loss {loss!r} falls below 0 or rises with the margin; {solver} needs one that does neither "
            f"for n_clusters={n_clusters}."
        )
