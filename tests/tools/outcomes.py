"""What a fit came to, for tests that compare fits bit for bit."""

from __future__ import annotations

from typing import Any


def bits(run: Any) -> dict[str, Any]:
    """All of a run that may not depend on who computed it."""
    return {
        "labels": run.labels.tobytes(),
        "coef": run.model.coef_.tobytes(),
        "intercept": run.model.intercept_.tobytes(),
        "objective": run.model.objective_,
        "history": [{name: value for name, value in line.items() if name != "seconds"} for line in run.history],
    }
